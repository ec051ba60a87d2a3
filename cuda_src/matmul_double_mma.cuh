// What the binary64 product needs of the GPU: FP64 tensor cores and asynchronous copies.
//
// MMA_K, the k of an instruction, is 4, 8 or 16.
#pragma once
#include "common.cuh"

#ifdef __CUDA_ARCH__
// D += A B for 8 x 4 and 4 x 8: lane 4 g + t holds A at (g, t), B at (t, g), D at (g, 2 t) and (g,
// 2 t + 1).
__device__ __forceinline__ void mma_k4(double& d0, double& d1, double a, double b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(d0), "+d"(d1)
      : "d"(a), "d"(b));
}

// The same for 16 x MMA_K and MMA_K x 8: A at (g, t), (g + 8, t), (g, t + 4) and so on, B at (t,
// g), (t + 4, g) and so on, D at (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
__device__ __forceinline__ void mma(double (&d)[4], const double (&a)[MMA_K / 2],
                                    const double (&b)[MMA_K / 4]) {
#if __CUDA_ARCH__ < 900
  UNROLL for (int n = 0; n < MMA_K / 4; ++n) UNROLL for (int half = 0; half < 2; ++half)
      mma_k4(d[2 * half], d[2 * half + 1], a[2 * n + half], b[n]);
#elif MMA_K == 4
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(b[0]));
#elif MMA_K == 8
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
      "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
        "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#endif
}

// From device to shared memory; the pair lies on 16 bytes.
__device__ __forceinline__ void copy_pair(double* to, const double* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)),
               "l"(from));
}
// Zero where the item is not inside; its address is not read then.
__device__ __forceinline__ void copy_one(double* to, const double* from, bool inside) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
      "l"(from), "r"(inside ? 8 : 0));
}
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;"); }
// Waits for all but the last COUNT groups of copies.
template <int COUNT>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(COUNT));
}
#endif
