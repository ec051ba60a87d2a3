// Vectors with k apart in memory to int8 planes, in one pass.
//
// Defines: those of emulation_encode.cuh; CLUSTER 1, or 4 or 8 blocks that share their vectors
// (Hopper and later).
#include "emulation_encode.cuh"
#if CLUSTER > 1
#include "emulation_hopper.cuh"
#define IN_CLUSTERS __cluster_dims__(CLUSTER)
#else
#define IN_CLUSTERS
#endif
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) u8 name[]
#endif

// A cluster takes one 32-byte sector of every row of x: that many vectors, whose k is the slow
// index. A thread takes 32 bytes of one vector at a time, neighbours along k: what it writes to a
// plane fills sectors with its neighbours'.
constexpr int SECTOR = 32 / (int)sizeof(Bits), RUN = SECTOR;
constexpr int KEPT = 2;  // runs that a thread keeps in registers

struct Run {
  Quad quad[RUN / 4];
};

__device__ __forceinline__ Run load_run(const Bits* x, i64 stride, i32 left) {
  Run run;
  UNROLL for (int j = 0; j < RUN; ++j) run.quad[j / 4].v[j % 4] = j < left ? x[j * stride] : 0;
  return run;
}

// Runs of a thread in shared memory, which no other thread reads: neighbours' words are neighbours.
__device__ __forceinline__ void put_run(Bits* shared, const Run& run) {
  UNROLL for (int j = 0; j < RUN; ++j) shared[j * blockDim.x] = run.quad[j / 4].v[j % 4];
}

__device__ __forceinline__ Run get_run(const Bits* shared) {
  Run run;
  UNROLL for (int j = 0; j < RUN; ++j) run.quad[j / 4].v[j % 4] = shared[j * blockDim.x];
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

struct alignas(RUN) Bytes {
  u32 quad[RUN / 4];
};

__device__ __forceinline__ void store_run(const Run& run, i32 exponent, i8* out, i64 plane_stride) {
  u32 word[RUN / 4][PLANE_COUNT] = {};
  if (exponent != NONFINITE) {
    UNROLL for (int q = 0; q < RUN / 4; ++q) Encoder::encode(run.quad[q].v, exponent, word[q]);
  }
  UNROLL for (int p = 0; p < PLANE_COUNT; ++p) {
    Bytes bytes;
    UNROLL for (int q = 0; q < RUN / 4; ++q) bytes.quad[q] = word[q][p];
    *reinterpret_cast<Bytes*>(out + p * plane_stride) = bytes;
  }
}

// The reduction of x over the threads of a cluster that take the same vector, in each of them; zero
// changes nothing.
template <u64 (*COMBINE)(u64, u64)>
__device__ u64 vector_reduce(u64 x) {
  x = block_reduce<SECTOR, COMBINE>(x);
#if CLUSTER > 1
  __shared__ u64 own[SECTOR];
  const u32 here = hopper::shared_address(own + threadIdx.x % SECTOR);
  if (threadIdx.x < SECTOR) own[threadIdx.x] = x;
  hopper::cluster_sync();
  x = 0;
  UNROLL for (u32 block = 0; block < CLUSTER; ++block) {
    x = COMBINE(x, hopper::cluster_read(here, block));
  }
  hopper::cluster_sync();  // nobody leaves, or writes again, before all have read
#endif
  return x;
}

// Of `at.held` runs a thread keeps the first KEPT in registers and the others in shared memory;
// what is longer is read again from L2, in the reverse order, so that what was read last is there.
// Four blocks on a multiprocessor: encoding waits for its own results more than for memory.
extern "C" __global__ void IN_CLUSTERS __launch_bounds__(256, 4)
    encode_columns(const Call call, const EncodeStep at) {
  DYNAMIC_SHARED(memory);
  const i32 column = blockIdx.x / CLUSTER * SECTOR + threadIdx.x % SECTOR;
  const i64 stride = at.stride, plane_stride = at.plane_stride;
  const i32 padded = at.padded, length = column < at.vectors ? at.length : 0, held = at.held;
  const Bits* __restrict__ x = (at.right ? call.b : call.a) + at.first + column;
  i8* __restrict__ out = call.workspace + at.out + column * at.vector_stride;
  const i32 lanes = blockDim.x / SECTOR, step = CLUSTER * lanes * RUN;
  const i32 start = (blockIdx.x % CLUSTER * lanes + threadIdx.x / SECTOR) * RUN;
  const i32 count = start < padded ? (padded - 1 - start) / step + 1 : 0;

  const auto load = [&](i32 i) {
    const i32 k = start + i * step;
    return load_run(x + k * stride, stride, length - k);
  };
  const auto saved = [&](i32 i) {
    return reinterpret_cast<Bits*>(memory) + (i - KEPT) * RUN * blockDim.x + threadIdx.x;
  };
  const auto again = [&](i32 i) { return i < held ? get_run(saved(i)) : load(i); };

  Run kept[KEPT];
  u64 maximum = 0;
  UNROLL for (int c = 0; c < KEPT; ++c) kept[c] = load(c);
  ROLLED for (i32 i = KEPT; i < held; i += KEPT) {
    Run more[KEPT];
    UNROLL for (int c = 0; c < KEPT; ++c) more[c] = load(i + c);
    UNROLL for (int c = 0; c < KEPT; ++c) {
      maximum = run_maximum(more[c], maximum);
      put_run(saved(i + c), more[c]);
    }
  }
  UNROLL for (int c = 0; c < KEPT; ++c) maximum = run_maximum(kept[c], maximum);
  ROLLED for (i32 i = held; i < count; ++i) maximum = run_maximum(load(i), maximum);
  maximum = widen((Bits)vector_reduce<larger>(maximum));

  u64 norm = 0;
  if (Encoder::NEEDS_NORM) {
    if (maximum >> 52 != 2047) {
      const Scale unit = norm_unit(bit_width(maximum));
      UNROLL for (int c = 0; c < KEPT; ++c) norm += run_norm(kept[c], unit);
      for (i32 i = count - 1; i >= KEPT; --i) norm += run_norm(again(i), unit);
    }
    norm = vector_reduce<total>(norm);
  }
  if (column >= at.vectors) return;
  const i32 exponent = Encoder::exponent(maximum, norm, at.limit, at.limit_exponent);
  if (start == 0) call.exponents[at.exponents + column] = exponent;

  UNROLL for (int c = 0; c < KEPT; ++c) {
    const i32 k = start + c * step;
    if (k < padded) store_run(kept[c], exponent, out + k, plane_stride);
  }
  for (i32 n = KEPT; n < count; ++n) {
    const i32 i = Encoder::NEEDS_NORM ? n : count + KEPT - 1 - n;
    store_run(again(i), exponent, out + start + i * step, plane_stride);
  }
}
