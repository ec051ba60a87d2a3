// Asynchronous copies from global to shared memory, and what stands for them where tests run
// kernels on CPU threads.
#pragma once
#include "common.cuh"

#ifdef __CUDACC__
#define GEMM_DYNAMIC_SHARED(name) extern __shared__ __align__(16) u8 name[]

// Copy 16 bytes, or fill them with zeros where they lie outside of the matrix.
__device__ __forceinline__ void gemm_copy_16(void* shared, const void* global, bool inside) {
  u32 address = (u32)__cvta_generic_to_shared(shared);
  int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void gemm_copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Wait until at most PENDING groups are under way.
template <int PENDING>
__device__ __forceinline__ void gemm_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
#else
#define GEMM_DYNAMIC_SHARED(name) u8* name = simulated_shared()

inline void gemm_copy_16(void* shared, const void* global, bool inside) {
  if (inside)
    __builtin_memcpy(shared, global, 16);
  else
    __builtin_memset(shared, 0, 16);
}
inline void gemm_copy_commit() {}
template <int PENDING>
void gemm_copy_wait() {}
#endif
