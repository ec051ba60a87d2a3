// A dense A of 2:4 structure to its stored items and their places, and back.
#include "matmul_problem.cuh"

// One group of four columns a thread. A group's first two items by rank are stored: nonzeros, then
// (where zero_mask leaves out the sign) negative zeros, then zeros. `too_many` is set where a group
// has three nonzeros.
extern "C" __global__ void __launch_bounds__(256)
    compress(const u8* __restrict__ dense, MatrixStrides at, u8* __restrict__ stored,
             u8* __restrict__ chosen, int* __restrict__ too_many, i64 rows, i64 groups, i64 count,
             int bits, u32 zero_mask) {
  const i64 index = (i64)blockIdx.x * 256 + threadIdx.x;
  if (index >= count) return;
  const i64 group = index % groups, row = index / groups % rows, batch = index / groups / rows;
  const i64 from = batch * at.batch + row * at.row + 4 * group * at.column;
  u32 code[4];
  int rank[4], nonzeros = 0;
  UNROLL for (int n = 0; n < 4; ++n) {
    code[n] = (u32)load_code(dense, bits, from + n * at.column);
    const bool zero = (code[n] & zero_mask) == 0;
    nonzeros += !zero;
    rank[n] = 4 * ((int)zero + (code[n] == 0)) + n;
  }
  if (nonzeros > 2) *too_many = 1;
  int n = 0;
  UNROLL for (int i = 0; i < 4; ++i) {
    int before = 0;
    UNROLL for (int j = 0; j < 4; ++j) before += rank[j] < rank[i];
    if (before >= 2) continue;
    const i64 to = 2 * index + n++;
    chosen[to] = (u8)i;
    if (bits > 8)
      ((u16*)stored)[to] = (u16)code[i];
    else
      stored[to] = (u8)code[i];
  }
}

// Bytes (rows, 4 groups) of the stored ones, one group a thread.
extern "C" __global__ void __launch_bounds__(256)
    expand(const u8* __restrict__ stored, i64 row_stride, i64 k_stride,
           const u8* __restrict__ chosen, i64 chosen_row, i64 chosen_k, u8* __restrict__ out,
           i64 groups, i64 count) {
  const i64 index = (i64)blockIdx.x * 256 + threadIdx.x;
  if (index >= count) return;
  const i64 row = index / groups, k = index % groups * 2;
  u32 word = 0;
  UNROLL for (int n = 0; n < 2; ++n) {
    const u32 code = stored[row * row_stride + (k + n) * k_stride];
    word |= code << 8 * chosen[row * chosen_row + (k + n) * chosen_k];
  }
  ((u32*)out)[index] = word;
}
