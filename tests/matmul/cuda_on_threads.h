// What the tuned products need of CUDA beside the threads of tests/emulation.
#pragma once
#include "../emulation/cuda_on_threads.h"

#undef __launch_bounds__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
#define __noinline__ __attribute__((noinline))
#define DYNAMIC_SHARED(name) alignas(16) static unsigned char name[200 * 1024]

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};

namespace threads {
inline bool any;
}
inline int __syncthreads_or(int value) {
  __syncthreads();
  if (threads::own() == 0) threads::any = false;
  __syncthreads();
  if (value) {
    const std::lock_guard<std::mutex> guard(threads::lock);
    threads::any = true;
  }
  __syncthreads();
  return threads::any;
}

// The FP64 tensor cores and copies of matmul_double_mma.cuh: a warp's operands meet in a table.
#ifdef MMA_K
#include <cmath>

namespace threads {
inline double left[1024][MMA_K / 2], right[1024][MMA_K / 4];
inline void meet() { warps[own() / 32]->arrive_and_wait(); }
// The element of D at (row, column) after k links more; rows from 8 on are in the odd items of A.
inline double chain(double d, int row, int column, int count) {
  const int first = own() / 32 * 32;
  for (int k = 0; k < count; ++k)
    d = std::fma(left[first + row % 8 * 4 + k % 4][k / 4 * 2 + row / 8],
                 right[first + column * 4 + k % 4][k / 4], d);
  return d;
}
}  // namespace threads

inline void mma_k4(double& d0, double& d1, double a, double b) {
  const int own = threads::own(), g = own % 32 / 4, t = own % 4;
  threads::left[own][0] = a, threads::right[own][0] = b;
  threads::meet();
  d0 = threads::chain(d0, g, 2 * t, 4), d1 = threads::chain(d1, g, 2 * t + 1, 4);
  threads::meet();
}
inline void mma(double (&d)[4], const double (&a)[MMA_K / 2], const double (&b)[MMA_K / 4]) {
  const int own = threads::own(), g = own % 32 / 4, t = own % 4;
  for (int n = 0; n < MMA_K / 2; ++n) threads::left[own][n] = a[n];
  for (int n = 0; n < MMA_K / 4; ++n) threads::right[own][n] = b[n];
  threads::meet();
  for (int e = 0; e < 4; ++e) d[e] = threads::chain(d[e], g + e / 2 * 8, 2 * t + e % 2, MMA_K);
  threads::meet();
}
inline void copy_pair(double* to, const double* from) { to[0] = from[0], to[1] = from[1]; }
inline void copy_one(double* to, const double* from, bool inside) { *to = inside ? *from : 0; }
inline void copies_end() {}
template <int COUNT>
void copies_wait() {}
#endif
