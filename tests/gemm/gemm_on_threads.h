// Runs gemm.cu on CPU threads, one a CUDA thread, one block after the other, in an executable of its own:
// so the address, thread and undefined-behaviour sanitizers see the kernel's indexing and barriers.
//
// `mma.sync` is done here from the fragment layouts of the PTX ISA, element by element, with the dot
// products that the plain path has.
#pragma once
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)

struct Index {
  int x, y, z;
};
inline thread_local Index threadIdx, blockIdx;
inline Index blockDim;
inline std::unique_ptr<std::barrier<>> block_barrier;
inline std::vector<std::unique_ptr<std::barrier<>>> warp_barriers;
inline std::vector<unsigned char> dynamic_shared;

inline void __syncthreads() { block_barrier->arrive_and_wait(); }
inline unsigned char* simulated_shared() { return dynamic_shared.data(); }
inline int own_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

#ifdef MMA_SHAPE
#include "gemm_dot.cuh"

// Raw operand words of every lane, by lane.
inline unsigned long long mma_a[32][32][4], mma_b[32][32][2];

#if GEMM_KIND == 0
using SimulatedDot = GemmInteger32;
#elif C_FORMAT == 6
using SimulatedDot = GemmChain64;
#else
using SimulatedDot = GemmFused<C_FORMAT == 2>;
#endif

// Element (row, k) of A, or (column, k) of B, from the registers of the lane that the PTX ISA names:
// a lane holds consecutive k in one register; eight rows apart, and then further along k, the next ones.
template <bool IS_B>
SimulatedDot::Operand fragment_element(int warp, int row, int k) {
  constexpr int FORMAT = IS_B ? B_FORMAT : A_FORMAT, BYTES = gemm_bytes(FORMAT);
  constexpr int REGISTER = BYTES == 8 ? 8 : 4, EACH = REGISTER / BYTES;
  const int lane = row % 8 * 4 + k / EACH % 4;
  const int along = k / (4 * EACH);
  const unsigned long long held = IS_B ? mma_b[warp][lane][along] : mma_a[warp][lane][along * (MMA_M / 8) + row / 8];
  unsigned char bytes[8];
  __builtin_memcpy(bytes, &held, 8);
  return gemm_operand<SimulatedDot::Operand>(FORMAT, bytes + k % EACH * BYTES, 0);
}

template <class Register>
void simulated_mma(Register* d, const Register* a, const Register* b) {
  constexpr int WIDE = C_FORMAT == 6 ? 1 : MMA_K * gemm_bytes(A_FORMAT) / 16, HIGH = MMA_M / 8;
  constexpr GemmRule rule{GROUP,   FRACTION, ZERO_EXPONENT, OUTPUT_FRACTION,
                          LEAST_A, LEAST_B,  THROUGH_F16};
  const int warp = own_thread() / 32, lane = own_thread() % 32;
  for (int i = 0; i < WIDE * HIGH; ++i) mma_a[warp][lane][i] = a[i];
  for (int i = 0; i < WIDE; ++i) mma_b[warp][lane][i] = b[i];
  warp_barriers[warp]->arrive_and_wait();
  for (int e = 0; e < 2 * HIGH; ++e) {
    const int row = lane / 4 + 8 * (e / 2), column = lane % 4 * 2 + e % 2;
    SimulatedDot::Operand left[MMA_K], right[MMA_K];
    for (int k = 0; k < MMA_K; ++k) left[k] = fragment_element<false>(warp, row, k);
    for (int k = 0; k < MMA_K; ++k) right[k] = fragment_element<true>(warp, column, k);
    const bool half = C_FORMAT == 2;
    unsigned long long old = half ? d[e / 2] >> (16 * (e % 2)) & 0xFFFF : d[e];
    SimulatedDot::Acc acc;
    if (half) {
      acc = (SimulatedDot::Acc)gemm_f16_to_f32((u16)old);
    } else {
      __builtin_memcpy(&acc, &old, sizeof acc);
    }
    for (int k = 0; k < MMA_K; k += GROUP) SimulatedDot::step(acc, left + k, right + k, rule);
    const unsigned long long bits = SimulatedDot::bits(acc);
    if (half)
      d[e / 2] = (Register)((d[e / 2] & (e % 2 ? 0xFFFFu : 0xFFFF0000u)) | bits << (16 * (e % 2)));
    else
      d[e] = (Register)bits;
  }
  warp_barriers[warp]->arrive_and_wait();
}
#endif
