// The epilogue's steps over arrays of one shape; matmul_epilogue.cuh has the arithmetic. c is
// dense, like all.
#include "matmul_epilogue.cuh"

__device__ __forceinline__ i64 own_index() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void add_partials32(u32* sum, const u32* part, i64 count) {
  const i64 n = own_index();
  if (n < count) sum[n] = add_partial(sum[n], part[n]);
}
extern "C" __global__ void add_partials64(u64* sum, const u64* part, i64 count) {
  const i64 n = own_index();
  if (n < count) sum[n] = add_partial(sum[n], part[n]);
}
extern "C" __global__ void add_partials_integer(u32* sum, const u32* part, i64 count) {
  const i64 n = own_index();
  if (n < count) sum[n] += part[n];
}
extern "C" __global__ void scale(u32* sum, const u32* c, float alpha, float beta, int with_c,
                                 i64 count) {
  const i64 n = own_index();
  if (n < count) sum[n] = scaled(sum[n], with_c ? c[n] : 0, alpha, beta, with_c);
}
extern "C" __global__ void round_output(const u32* sum, u16* out, int format, i64 count) {
  const i64 n = own_index();
  if (n < count) out[n] = to_output(sum[n], format);
}
