// Elements of vectors to int8 planes: what both directions of encoding share.
//
// Defines: ELEMENT_BITS 32|64; SCHEME 0 (slices) with PLANE_COUNT and USE_NEAREST, or 1 (residues)
// with PLANE_COUNT and USE_WEIGHTS. Element k of vector v goes to out[v * vector_stride + p *
// plane_stride + k]; k in [length, padded) is zero. padded is a multiple of 16.
#pragma once
#include "emulation_launch.cuh"

using namespace emulation;

#if SCHEME == 0
using Encoder = SliceEncoder<Bits, PLANE_COUNT, USE_NEAREST != 0>;
#else
using Encoder = ResidueEncoder<Bits, PLANE_COUNT, USE_WEIGHTS != 0>;
#endif

struct Quad {
  Bits v[4];
};

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
