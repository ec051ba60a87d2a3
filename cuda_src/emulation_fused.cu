// Slices to the product in one kernel: int8 products on Hopper's tensor cores, every diagonal in
// registers, recombination in the epilogue (sm_90a).
//
// Defines: ELEMENT_BITS 32; SCHEME 0 with PLANE_COUNT 1 to 3; STAGES.
#include "emulation_hopper.cuh"
#include "emulation_launch.cuh"
#include "emulation_values.cuh"

using namespace emulation;

constexpr int TILE = 128, DEPTH = 64;  // rows and columns of a block; bytes of k in a stage
constexpr int SLICE_BYTES = TILE * DEPTH, OPERAND_BYTES = PLANE_COUNT * SLICE_BYTES;
constexpr int STAGE_BYTES = 2 * OPERAND_BYTES;
constexpr int WARPS = 8;

using Value = SliceValue<Real, PLANE_COUNT, false>;

// a: boxes of k, rows and slices; b: of k, columns and slices, the last slice first. Grid: columns,
// rows. Block: two warp groups, each with 64 rows.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    multiply_slices(const __grid_constant__ hopper::TensorMap a,
                    const __grid_constant__ hopper::TensorMap b, const Call call,
                    const RecombineStep at) {
  extern __shared__ u8 memory[];
  __shared__ u64 barriers[2 * STAGES];
  const u32 stages = (hopper::shared_address(memory) + 1023) & ~1023u;
  const u32 full = hopper::shared_address(barriers), empty = full + 8 * STAGES;
  const i32 row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  const i32 steps = (at.padded_k + DEPTH - 1) / DEPTH;
  const i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  const auto load = [&](i32 step) {
    const i32 slot = step % STAGES;
    const u32 to = stages + slot * STAGE_BYTES;
    hopper::barrier_expect(full + 8 * slot, STAGE_BYTES);
    hopper::copy_box(to, a, step * DEPTH, row, 0, full + 8 * slot);
    hopper::copy_box(to + OPERAND_BYTES, b, step * DEPTH, column, 0, full + 8 * slot);
  };
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      hopper::barrier_init(full + 8 * s, 1);
      hopper::barrier_init(empty + 8 * s, WARPS);
    }
    hopper::barrier_init_fence();
    for (i32 step = 0; step < min_of(STAGES, steps); ++step) load(step);
  }
  __syncthreads();

  i32 sums[PLANE_COUNT][64] = {};
  for (i32 step = 0; step < steps; ++step) {
    const i32 slot = step % STAGES;
    const u32 left = stages + slot * STAGE_BYTES + warp / 4 * (SLICE_BYTES / 2);
    const u32 right = stages + slot * STAGE_BYTES + OPERAND_BYTES;
    hopper::barrier_wait(full + 8 * slot, step / STAGES & 1);
    hopper::products_fence();
    UNROLL for (int k = 0; k < DEPTH; k += 32) {
      UNROLL for (int i = 0; i < PLANE_COUNT; ++i) {
        UNROLL for (int j = 0; i + j < PLANE_COUNT; ++j) {
          hopper::multiply_add(sums[i + j], hopper::operand(left + i * SLICE_BYTES + k),
                               hopper::operand(right + (PLANE_COUNT - 1 - j) * SLICE_BYTES + k));
        }
      }
    }
    hopper::products_commit();
    hopper::products_wait<1>();
    if (step > 0) {  // the products of the step before are done
      const i32 done = step - 1, free = done % STAGES;
      if (lane == 0) hopper::barrier_arrive(empty + 8 * free);
      if (threadIdx.x == 0 && done + STAGES < steps) {
        hopper::barrier_wait(empty + 8 * free, done / STAGES & 1);
        load(done + STAGES);
      }
      __syncwarp();
    }
  }
  hopper::products_wait<0>();
  UNROLL for (int d = 0; d < PLANE_COUNT; ++d) hopper::settle(sums[d]);

  const i32* a_exponents = call.exponents + at.a_exponents;
  const i32* b_exponents = call.exponents + at.b_exponents;
  Real* out = call.out + at.out;
  const Epilogue<Real, Bits> epilogue = {a_exponents, b_exponents,   call.a + at.a, at.a_row,
                                         at.a_column, call.b + at.b, at.b_row,      at.b_column,
                                         at.k,        at.padded_k,   call.c + at.c, at.c_row,
                                         at.c_column, call.alpha,    call.beta,     out,
                                         at.out_row,  at.add,        at.finish};
  const bool pairs = at.out_row % 2 == 0 && (u64)out % (2 * sizeof(Real)) == 0;
  UNROLL for (int half = 0; half < 2; ++half) {
    const i32 i = row + 16 * warp + lane / 4 + 8 * half;
    if (i >= at.rows) continue;
    const i32 a_exponent = a_exponents[i];
    Real* to = out + i * at.out_row;
    UNROLL for (int c = 0; c < 16; ++c) {
      const i32 j = column + 8 * c + 2 * (lane % 4);
      Real result[2] = {};
      UNROLL for (int n = 0; n < 2; ++n) {
        if (j + n >= at.columns) continue;
        result[n] = epilogue.element<Value>([&](int d) { return sums[d][4 * c + 2 * half + n]; }, i,
                                            j + n, a_exponent, b_exponents[j + n]);
      }
      if (pairs && j + 1 < at.columns) {
        *reinterpret_cast<float2*>(to + j) = {result[0], result[1]};
      } else {
        UNROLL for (int n = 0; n < 2; ++n) {
          if (j + n < at.columns) to[j + n] = result[n];
        }
      }
    }
  }
}
