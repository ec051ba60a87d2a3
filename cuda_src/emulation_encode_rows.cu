// Vectors that lie contiguous along k to int8 planes, in one pass.
//
// Defines: those of emulation_encode.cuh.
#include "emulation_encode.cuh"

// Quads of a vector that a thread keeps in registers: 32 words of them, so that two blocks of 512
// threads share a multiprocessor and one loads while the other computes.
constexpr int CHUNKS = ELEMENT_BITS == 32 ? 8 : 4;

// Four neighbours, zero from `left` on.
__device__ __forceinline__ Quad load_quad(const Bits* x, i32 left, bool aligned) {
  Quad q;
  if (aligned && left >= 4) {
#if ELEMENT_BITS == 32
    const uint4 w = *reinterpret_cast<const uint4*>(x);
    q.v[0] = w.x, q.v[1] = w.y, q.v[2] = w.z, q.v[3] = w.w;
#else
    const ulonglong2 w = reinterpret_cast<const ulonglong2*>(x)[0];
    const ulonglong2 y = reinterpret_cast<const ulonglong2*>(x)[1];
    q.v[0] = w.x, q.v[1] = w.y, q.v[2] = y.x, q.v[3] = y.y;
#endif
  } else {
    UNROLL for (int j = 0; j < 4; ++j) q.v[j] = j < left ? x[j] : 0;
  }
  return q;
}

__device__ __forceinline__ bool is_aligned(const void* p) { return ((u64)p & 15) == 0; }

__device__ __forceinline__ void store_quad(const Quad& q, i32 exponent, i8* out, i64 plane_stride) {
  u32 word[PLANE_COUNT] = {};
  if (exponent != NONFINITE) Encoder::encode(q.v, exponent, word);
  UNROLL for (int p = 0; p < PLANE_COUNT; ++p) {
    *reinterpret_cast<u32*>(out + p * plane_stride) = word[p];
  }
}

// One block a vector; k contiguous. Up to CHUNKS quads a thread stay in registers between finding
// the exponent and encoding, so that a vector is read once; longer ones are read again, from L2.
extern "C" __global__ void __launch_bounds__(512, 2)
    encode_rows(const Call call, const EncodeStep at) {
  const i64 row = blockIdx.x;
  const i32 length = at.length, padded = at.padded;
  const i64 plane_stride = at.plane_stride;
  const Bits* __restrict__ x = (at.right ? call.b : call.a) + at.first + row * at.stride;
  i8* __restrict__ out = call.workspace + at.out + row * at.vector_stride;
  const bool aligned = is_aligned(x);
  const i32 step = 4 * blockDim.x, start = 4 * threadIdx.x;

  Quad kept[CHUNKS];
  u64 maximum = 0;
  UNROLL for (int c = 0; c < CHUNKS; ++c) {
    const i32 k = start + c * step;
    kept[c] = load_quad(x + k, length - k, aligned);
  }
  UNROLL for (int c = 0; c < CHUNKS; ++c) { maximum = quad_maximum(kept[c], maximum); }
  for (i32 k = start + CHUNKS * step; k < length; k += step) {
    maximum = quad_maximum(load_quad(x + k, length - k, aligned), maximum);
  }
  maximum = widen((Bits)block_reduce<1, larger>(maximum));

  u64 norm = 0;
  if (Encoder::NEEDS_NORM && maximum >> 52 != 2047) {
    const Scale unit = norm_unit(bit_width(maximum));
    UNROLL for (int c = 0; c < CHUNKS; ++c) { norm += quad_norm(kept[c], unit); }
    for (i32 k = start + CHUNKS * step; k < length; k += step) {
      norm += quad_norm(load_quad(x + k, length - k, aligned), unit);
    }
    norm = block_reduce<1, total>(norm);
  }
  const i32 exponent = Encoder::exponent(maximum, norm, at.limit, at.limit_exponent);
  if (threadIdx.x == 0) call.exponents[at.exponents + row] = exponent;

  UNROLL for (int c = 0; c < CHUNKS; ++c) {
    const i32 k = start + c * step;
    if (k < padded) store_quad(kept[c], exponent, out + k, plane_stride);
  }
  for (i32 k = start + CHUNKS * step; k < padded; k += step) {
    store_quad(load_quad(x + k, length - k, aligned), exponent, out + k, plane_stride);
  }
}
