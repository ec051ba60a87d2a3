// What the tuned products need of CUDA beside the threads of tests/emulation.
#pragma once
#include "../emulation/cuda_on_threads.h"

#undef __launch_bounds__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
#define __noinline__ __attribute__((noinline))
#define DYNAMIC_SHARED(name) alignas(16) static unsigned char name[200 * 1024]

struct alignas(8) uint2 {
  unsigned x, y;
};
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
