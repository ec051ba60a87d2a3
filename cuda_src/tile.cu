// Kernels of the tile machine, compiled for one operation TILE_OP and one element type TILE_TYPE.
#include "tile_elementwise.cuh"

using Op = tile::TILE_OP;
using T = tile::TILE_TYPE;
using Bits = T::Bits;
using tile::Vector;

constexpr int kThreads = 256, kVectors = 2;  // vectors a thread: their loads are in flight together

__device__ __forceinline__ Vector load(const Bits* base, u64 vector) {
  const uint4 x = __ldcs(reinterpret_cast<const uint4*>(base) + vector);
  return {{x.x, x.y, x.z, x.w}};
}
__device__ __forceinline__ void store(Bits* base, u64 vector, const Vector& v) {
  __stcs(reinterpret_cast<uint4*>(base) + vector,
         make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]));
}
// Sources that the operation does not read are never loaded.
__device__ __forceinline__ Vector load_source(int source, const Bits* base, u64 vector) {
  return source < Op::sources ? load(base, vector) : Vector{};
}
__device__ __forceinline__ Bits item_of(int source, const Bits* base, u64 item) {
  return source < Op::sources ? base[item] : Bits(0);
}

// Flat arrays, 16-byte aligned: result and the OR of all flags in one pass.
extern "C" __global__ void __launch_bounds__(kThreads)
    tile_flat(const Bits* __restrict__ left, const Bits* __restrict__ right,
              const Bits* __restrict__ addend, Bits* __restrict__ out, u32* __restrict__ flags,
              u64 items, u32 options) {
  constexpr int lanes = tile::kLanes<Bits>;
  const u64 vectors = items / lanes;
  const u64 first = u64(blockIdx.x) * (kThreads * kVectors) + threadIdx.x;
  Vector x[kVectors], y[kVectors], z[kVectors];
  u32 raised = 0;
  __shared__ u32 block_flags;
  if (threadIdx.x == 0) block_flags = 0;
  UNROLL for (int i = 0; i < kVectors; ++i) {
    const u64 vector = first + i * kThreads;
    if (vector < vectors) {
      x[i] = load_source(0, left, vector);
      y[i] = load_source(1, right, vector);
      z[i] = load_source(2, addend, vector);
    }
  }
  UNROLL for (int i = 0; i < kVectors; ++i) {
    const u64 vector = first + i * kThreads;
    if (vector < vectors) {
      store(out, vector, tile::apply<Op, T>(x[i], y[i], z[i], options, raised));
    }
  }
  if (blockIdx.x == 0 && threadIdx.x < items % lanes) {
    const u64 item = vectors * lanes + threadIdx.x;
    out[item] = tile::element<Op, T>(item_of(0, left, item), item_of(1, right, item),
                                     item_of(2, addend, item), options, raised);
  }
  __syncthreads();
  raised = __reduce_or_sync(0xFFFFFFFF, raised);
  if (raised && threadIdx.x % 32 == 0) atomicOr(&block_flags, raised);
  __syncthreads();
  // Flags only ever grow, so a stale read costs an atomic and loses nothing.
  if (threadIdx.x == 0 && (block_flags & ~*flags)) atomicOr(flags, block_flags);
}

// Batches of tiles: values, definedness, padding and each tile's flags in one pass.
extern "C" __global__ void __launch_bounds__(kThreads)
    tile_batch(const Bits* __restrict__ left, const Bits* __restrict__ right,
               const Bits* __restrict__ addend, Bits* __restrict__ out, u8* __restrict__ defined,
               u32* __restrict__ flags, u64 items, u32 log_fragments, u32 log_elements,
               u32 log_columns, u32 valid_rows, u32 valid_columns, u32 selected, u32 pad_defined,
               u64 pad, u32 options) {
  constexpr int lanes = tile::kLanes<Bits>;
  const tile::Shape shape = {items,         log_fragments, log_elements, log_columns, valid_rows,
                             valid_columns, selected,      pad_defined,  pad,         options};
  const u64 vector = u64(blockIdx.x) * kThreads + threadIdx.x, item = vector * lanes;
  u32 raised = 0;
  if (item < items) {
    Vector x = {}, y = {}, z = {};
    if (tile::takes_part(shape, item)) {
      x = load_source(0, left, vector);
      y = load_source(1, right, vector);
      z = load_source(2, addend, vector);
    }
    u8 marks[lanes];
    store(out, vector, tile::tile_vector<Op, T>(shape, item, x, y, z, marks, raised));
    UNROLL for (int i = 0; i < lanes; ++i) defined[item + i] = marks[i];
  }
  // A warp that lies within one tile sends one atomic, else each lane its own.
  const bool one_tile = (1u << (log_elements + log_fragments)) >= 32 * lanes;
  if (one_tile) {
    raised = __reduce_or_sync(0xFFFFFFFF, raised);
    if (threadIdx.x % 32) raised = 0;
  }
  if (raised) atomicOr(&flags[tile::tile_of(shape, item)], raised);
}
