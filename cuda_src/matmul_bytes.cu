// What the int8 product of cuBLAS wants and leaves: operands with k dense and padded, and the
// accumulator added.
#include "matmul_raster.cuh"

constexpr int SIDE = 32;

// out[r][k] = in[r * row_stride + k * k_stride], zeros beyond (rows, k): one 32 x 32 tile a block.
extern "C" __global__ void __launch_bounds__(SIDE* SIDE / 4)
    k_dense(const u8* __restrict__ in, u8* __restrict__ out, i64 rows, i64 k, i64 row_stride,
            i64 k_stride, i64 rows_out, i64 k_out) {
  __shared__ u8 tile[SIDE][SIDE + 4];
  const i64 tiles = (k_out + SIDE - 1) / SIDE, row = blockIdx.x / tiles * SIDE,
            first = blockIdx.x % tiles * SIDE;
  const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
  for (int n = y; n < SIDE; n += SIDE / 4) {
    // Neighbouring threads read along whichever dimension is dense.
    const int r = k_stride == 1 ? n : x, c = k_stride == 1 ? x : n;
    tile[r][c] =
        row + r < rows && first + c < k ? in[(row + r) * row_stride + (first + c) * k_stride] : 0;
  }
  __syncthreads();
  for (int n = y; n < SIDE; n += SIDE / 4)
    if (row + n < rows_out && first + x < k_out) out[(row + n) * k_out + first + x] = tile[n][x];
}

// d = sum + c (or sum alone), modulo 2^32; sum is (m, n_padded) and dense.
extern "C" __global__ void __launch_bounds__(256)
    add_accumulator(const Problem p, const MatmulPointers in, const u32* __restrict__ sum,
                    i64 n_padded, i64 batch, int accumulate) {
  const i64 index = (i64)blockIdx.x * 256 + threadIdx.x, row = index / p.n, column = index % p.n;
  if (row >= p.m) return;
  u32* d = (u32*)in.d + batch * p.d.batch + row * p.d.row + column * p.d.column;
  const u32 before = accumulate ? *d : initial_accumulator<u32>(p, in, batch, row, column);
  *d = sum[row * n_padded + column] + before;
}
