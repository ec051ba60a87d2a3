// Vectors of A and B to int8 planes, in one pass where a vector lies contiguous along k.
//
// Defines: ELEMENT_BITS 32|64; SCHEME 0 (slices) with PLANE_COUNT and USE_NEAREST, or 1 (residues)
// with PLANE_COUNT and USE_WEIGHTS. Element k of vector v goes to out[v * vector_stride + p *
// plane_stride + k]; k in [length, padded) is zero. padded is a multiple of 16.
#include "emulation_launch.cuh"

using namespace emulation;

#if SCHEME == 0
using Encoder = SliceEncoder<Bits, PLANE_COUNT, USE_NEAREST != 0>;
#else
using Encoder = ResidueEncoder<Bits, PLANE_COUNT, USE_WEIGHTS != 0>;
#endif

// Quads of a row that a thread keeps in registers: 32 words of them, so that two blocks of 512
// threads share a multiprocessor and one loads while the other computes.
constexpr int CHUNKS = ELEMENT_BITS == 32 ? 8 : 4;

// Blocks of `encode_columns` on a multiprocessor: many planes want more registers than half of it.
constexpr int COLUMN_BLOCKS = PLANE_COUNT > 8 ? 1 : 2;

struct Quad {
  Bits v[4];
};

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

__device__ __forceinline__ u64 larger(u64 a, u64 b) { return a > b ? a : b; }
__device__ __forceinline__ u64 total(u64 a, u64 b) { return a + b; }

// The reduction of x over the threads of a block that are equal modulo KEPT, in each of them.
template <int KEPT, u64 (*COMBINE)(u64, u64)>
__device__ u64 block_reduce(u64 x) {
  __shared__ u64 partial[32][KEPT];
  UNROLL for (int step = 16; step >= KEPT; step >>= 1) {
    x = COMBINE(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
  }
  __syncthreads();
  if (threadIdx.x % 32 < KEPT) partial[threadIdx.x / 32][threadIdx.x % 32] = x;
  __syncthreads();
  x = partial[0][threadIdx.x % KEPT];
  for (int w = 1; w < blockDim.x / 32; ++w) x = COMBINE(x, partial[w][threadIdx.x % KEPT]);
  return x;
}

__device__ __forceinline__ u64 quad_maximum(const Quad& q, u64 so_far) {
  Bits m = absolute(q.v[0]);
  UNROLL for (int j = 1; j < 4; ++j) m = max_of(m, absolute(q.v[j]));
  return larger(so_far, m);
}

__device__ __forceinline__ u64 quad_norm(const Quad& q, Scale unit) {
  u64 sum = 0;
  UNROLL for (int j = 0; j < 4; ++j) {
    const u32 term = norm_term(q.v[j], unit);
    sum += (u64)term * term;
  }
  return sum;
}

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

// One block takes one 32-byte sector of every row of x: that many vectors, whose k is the slow
// index. A thread takes RUN neighbours along k of one vector at a time, so that the eight bytes it
// writes to a plane fill sectors with its neighbours'.
constexpr int SECTOR = 32 / (int)sizeof(Bits), RUN = 8;
constexpr int RUNS = 4 * CHUNKS / RUN;  // that a thread keeps in registers

struct Run {
  Quad quad[RUN / 4];
};

__device__ __forceinline__ Run load_run(const Bits* x, i64 stride, i32 left) {
  Run run;
  UNROLL for (int j = 0; j < RUN; ++j) run.quad[j / 4].v[j % 4] = j < left ? x[j * stride] : 0;
  return run;
}

__device__ __forceinline__ u64 run_maximum(const Run& run, u64 so_far) {
  UNROLL for (int q = 0; q < RUN / 4; ++q) so_far = quad_maximum(run.quad[q], so_far);
  return so_far;
}

__device__ __forceinline__ u64 run_norm(const Run& run, Scale unit) {
  u64 sum = 0;
  UNROLL for (int q = 0; q < RUN / 4; ++q) sum += quad_norm(run.quad[q], unit);
  return sum;
}

__device__ __forceinline__ void store_run(const Run& run, i32 exponent, i8* out, i64 plane_stride) {
  u32 low[PLANE_COUNT] = {}, high[PLANE_COUNT] = {};
  if (exponent != NONFINITE) {
    Encoder::encode(run.quad[0].v, exponent, low);
    Encoder::encode(run.quad[1].v, exponent, high);
  }
  UNROLL for (int p = 0; p < PLANE_COUNT; ++p) {
    *reinterpret_cast<uint2*>(out + p * plane_stride) = {low[p], high[p]};
  }
}

// Vectors with k apart in memory. As above: what does not fit the registers is read again from L2,
// in the reverse order, so that what was read last is there.
extern "C" __global__ void __launch_bounds__(512, COLUMN_BLOCKS)
    encode_columns(const Call call, const EncodeStep at) {
  const i32 column = blockIdx.x * SECTOR + threadIdx.x % SECTOR;
  const i64 stride = at.stride, plane_stride = at.plane_stride;
  const i32 padded = at.padded, length = column < at.vectors ? at.length : 0;
  const Bits* __restrict__ x = (at.right ? call.b : call.a) + at.first + column;
  i8* __restrict__ out = call.workspace + at.out + column * at.vector_stride;
  const i32 step = blockDim.x / SECTOR * RUN, start = threadIdx.x / SECTOR * RUN;
  const i32 more = start + RUNS * step;  // the first k that is not kept
  const i32 rest = more < padded ? (padded - 1 - more) / step + 1 : 0;

  Run kept[RUNS];
  u64 maximum = 0;
  UNROLL for (int r = 0; r < RUNS; ++r) {
    const i32 k = start + r * step;
    kept[r] = load_run(x + k * stride, stride, length - k);
  }
  UNROLL for (int r = 0; r < RUNS; ++r) { maximum = run_maximum(kept[r], maximum); }
  for (i32 i = 0; i < rest; ++i) {
    const i32 k = more + i * step;
    maximum = run_maximum(load_run(x + k * stride, stride, length - k), maximum);
  }
  maximum = widen((Bits)block_reduce<SECTOR, larger>(maximum));

  u64 norm = 0;
  if (Encoder::NEEDS_NORM) {
    if (maximum >> 52 != 2047) {
      const Scale unit = norm_unit(bit_width(maximum));
      UNROLL for (int r = 0; r < RUNS; ++r) { norm += run_norm(kept[r], unit); }
      for (i32 i = rest - 1; i >= 0; --i) {
        const i32 k = more + i * step;
        norm += run_norm(load_run(x + k * stride, stride, length - k), unit);
      }
    }
    norm = block_reduce<SECTOR, total>(norm);
  }
  if (column >= at.vectors) return;
  const i32 exponent = Encoder::exponent(maximum, norm, at.limit, at.limit_exponent);
  if (threadIdx.x < SECTOR) call.exponents[at.exponents + column] = exponent;

  UNROLL for (int r = 0; r < RUNS; ++r) {
    const i32 k = start + r * step;
    if (k < padded) store_run(kept[r], exponent, out + k, plane_stride);
  }
  for (i32 i = 0; i < rest; ++i) {
    const i32 k = more + (Encoder::NEEDS_NORM ? i : rest - 1 - i) * step;
    store_run(load_run(x + k * stride, stride, length - k), exponent, out + k, plane_stride);
  }
}
