// alpha * acc + beta * C for products that other kernels computed; one thread an element.
#include "gemm_epilogue.cuh"
#include "gemm_view.cuh"

extern "C" __global__ void gemm_finish_all(const void* acc, const void* c, void* d, i64 m, i64 n,
                                           i64 ld_acc, i64 ldc, i64 ldd, u64 alpha_re, u64 alpha_im,
                                           u64 beta_re, u64 beta_im) {
  i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= m * n) return;
  i64 row = C_COL ? at % m : at / n, column = C_COL ? at / m : at % n;
  GemmView view_acc{C_FORMAT, ld_acc, ACC_COL}, view_c{C_FORMAT, ldc, C_COL};
  GemmView view_d{C_FORMAT, ldd, C_COL};
  u64 bits[2] = {gemm_load_bits(C_FORMAT, acc, gemm_index(view_acc, row, column)), 0};
  GemmScale scale{{alpha_re, alpha_im}, {beta_re, beta_im}};
  gemm_finish(C_FORMAT, 1, scale, bits, c, gemm_index(view_c, row, column), d,
              gemm_index(view_d, row, column));
}
