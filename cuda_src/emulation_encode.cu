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

// The reduction of every thread's x over the block, in every thread.
template <u64 (*COMBINE)(u64, u64)>
__device__ u64 block_reduce(u64 x) {
  __shared__ u64 partial[32];
  UNROLL for (int step = 16; step > 0; step >>= 1) {
    x = COMBINE(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  x = partial[0];
  for (int w = 1; w < blockDim.x / 32; ++w) x = COMBINE(x, partial[w]);
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
  maximum = widen((Bits)block_reduce<larger>(maximum));

  u64 norm = 0;
  if (Encoder::NEEDS_NORM && maximum >> 52 != 2047) {
    const Scale unit = norm_unit(bit_width(maximum));
    UNROLL for (int c = 0; c < CHUNKS; ++c) { norm += quad_norm(kept[c], unit); }
    for (i32 k = start + CHUNKS * step; k < length; k += step) {
      norm += quad_norm(load_quad(x + k, length - k, aligned), unit);
    }
    norm = block_reduce<total>(norm);
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

constexpr int COLUMN_ROWS = 256;  // values of k that a block of the column passes takes

// Largest magnitude bits of every column, k being the slow index; the maxima start at zero.
// Block: 32 x 8 threads for 128 columns.
extern "C" __global__ void column_maxima(const Call call, const EncodeStep at) {
  __shared__ Bits partial[8][128];
  const Bits* __restrict__ x = (at.right ? call.b : call.a) + at.first;
  const i64 stride = at.stride;
  const i32 length = at.length, columns = at.vectors;
  Bits* maxima = reinterpret_cast<Bits*>(call.workspace + at.maxima);
  const i32 column = blockIdx.x * 128 + 4 * threadIdx.x;
  const i32 last = min_of(length, (i32)(blockIdx.y + 1) * COLUMN_ROWS);
  const bool aligned = is_aligned(x + column) && (stride * sizeof(Bits)) % 16 == 0;
  Bits m[4] = {};
  _Pragma("unroll 8") for (i32 k = blockIdx.y * COLUMN_ROWS + threadIdx.y; k < last; k += 8) {
    const Quad q = load_quad(x + k * stride + column, columns - column, aligned);
    UNROLL for (int j = 0; j < 4; ++j) m[j] = max_of(m[j], absolute(q.v[j]));
  }
  UNROLL for (int j = 0; j < 4; ++j) partial[threadIdx.y][4 * threadIdx.x + j] = m[j];
  __syncthreads();
  const i32 own = threadIdx.y * 32 + threadIdx.x;
  if (own < 128 && blockIdx.x * 128 + own < columns) {
    Bits best = 0;
    UNROLL for (int w = 0; w < 8; ++w) best = max_of(best, partial[w][own]);
    atomicMax(maxima + blockIdx.x * 128 + own, best);
  }
}

#if SCHEME == 1
// Sum of squared norm terms of every column; the norms start at zero. Blocks as above.
extern "C" __global__ void column_norms(const Call call, const EncodeStep at) {
  __shared__ u64 partial[8][128];
  const Bits* __restrict__ x = (at.right ? call.b : call.a) + at.first;
  const i64 stride = at.stride;
  const i32 length = at.length, columns = at.vectors;
  const Bits* maxima = reinterpret_cast<const Bits*>(call.workspace + at.maxima);
  u64* norms = reinterpret_cast<u64*>(call.workspace + at.norms);
  const i32 column = blockIdx.x * 128 + 4 * threadIdx.x;
  const i32 last = min_of(length, (i32)(blockIdx.y + 1) * COLUMN_ROWS);
  const bool aligned = is_aligned(x + column) && (stride * sizeof(Bits)) % 16 == 0;
  Scale unit[4];
  u64 sum[4] = {};
  UNROLL for (int j = 0; j < 4; ++j) {
    const u64 maximum = column + j < columns ? widen(maxima[column + j]) : 0;
    unit[j] = norm_unit(maximum >> 52 == 2047 ? 2048 : bit_width(maximum));
  }
  _Pragma("unroll 8") for (i32 k = blockIdx.y * COLUMN_ROWS + threadIdx.y; k < last; k += 8) {
    const Quad q = load_quad(x + k * stride + column, columns - column, aligned);
    UNROLL for (int j = 0; j < 4; ++j) {
      const u32 term = norm_term(q.v[j], unit[j]);
      sum[j] += (u64)term * term;
    }
  }
  UNROLL for (int j = 0; j < 4; ++j) partial[threadIdx.y][4 * threadIdx.x + j] = sum[j];
  __syncthreads();
  const i32 own = threadIdx.y * 32 + threadIdx.x;
  if (own < 128 && blockIdx.x * 128 + own < columns) {
    u64 all = 0;
    UNROLL for (int w = 0; w < 8; ++w) all += partial[w][own];
    atomicAdd(norms + blockIdx.x * 128 + own, all);
  }
}
#endif

constexpr int TILE_QUADS =
    PLANE_COUNT <= 8 ? 32 : 16;  // quads along k of a transposing tile: shared memory < 48 KiB

// Transposes while encoding: a block takes 32 columns and 4 * TILE_QUADS values of k. 256 threads.
extern "C" __global__ void __launch_bounds__(256)
    encode_columns(const Call call, const EncodeStep at) {
  __shared__ u32 tile[PLANE_COUNT][32][TILE_QUADS + 1];
  const Bits* __restrict__ x = (at.right ? call.b : call.a) + at.first;
  const i64 stride = at.stride, vector_stride = at.vector_stride, plane_stride = at.plane_stride;
  const i32 length = at.length, padded = at.padded, columns = at.vectors;
  const Bits* maxima = reinterpret_cast<const Bits*>(call.workspace + at.maxima);
  const u64* norms = reinterpret_cast<const u64*>(call.workspace + at.norms);
  i8* __restrict__ out = call.workspace + at.out;
  const i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i32 first_column = blockIdx.x * 32, column = first_column + lane;
  const i32 first_k = blockIdx.y * 4 * TILE_QUADS;
  const bool inside = column < columns;

  Quad kept[TILE_QUADS / 8];
  UNROLL for (int i = 0; i < TILE_QUADS / 8; ++i) {
    const i32 k = first_k + 4 * (warp + 8 * i);
    UNROLL for (int j = 0; j < 4; ++j) {
      kept[i].v[j] = inside && k + j < length ? x[(k + j) * stride + column] : 0;
    }
  }
  const u64 maximum = inside ? widen(maxima[column]) : 0;
  const u64 norm = Encoder::NEEDS_NORM && inside ? norms[column] : 0;
  const i32 exponent = Encoder::exponent(maximum, norm, at.limit, at.limit_exponent);
  if (blockIdx.y == 0 && warp == 0 && inside) call.exponents[at.exponents + column] = exponent;
  UNROLL for (int i = 0; i < TILE_QUADS / 8; ++i) {
    u32 word[PLANE_COUNT] = {};
    if (exponent != NONFINITE) Encoder::encode(kept[i].v, exponent, word);
    UNROLL for (int p = 0; p < PLANE_COUNT; ++p) tile[p][lane][warp + 8 * i] = word[p];
  }
  __syncthreads();

  constexpr int ROWS = 32 / TILE_QUADS;  // columns of x that one warp writes at a time
  const i32 quad = lane % TILE_QUADS, k = first_k + 4 * quad;
  if (k >= padded) return;
  UNROLL for (int p = 0; p < PLANE_COUNT; ++p) {
    for (int n = warp * ROWS + lane / TILE_QUADS; n < 32; n += 8 * ROWS) {
      if (first_column + n < columns) {
        i8* to = out + (first_column + n) * vector_stride + p * plane_stride + k;
        *reinterpret_cast<u32*>(to) = tile[p][n][quad];
      }
    }
  }
}
