// Making and comparing cases on the device: one thread an element.
#include "cases.cuh"

#define KERNEL(name, Arguments, count)                             \
  extern "C" __global__ void __launch_bounds__(256)                \
      name(const __grid_constant__ cases::Arguments call) {        \
    const i64 number = (i64)blockIdx.x * blockDim.x + threadIdx.x; \
    if (number < (count)) cases::name(call, number);               \
  }

KERNEL(draw, Draw, call.cases* call.size)
KERNEL(raise, Powers, call.count)
KERNEL(encode, Encode, call.count)
KERNEL(pack, Pack, call.cases* call.words)
KERNEL(compare, Compare, call.cases* call.words)
