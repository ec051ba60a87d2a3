// How far the largest product of an output may lie below its vectors' largest elements, in bits.
//
// Define: ELEMENT_BITS 32|64. Exponents are frexp's: floor(log2 |x|) + 1.
#include "emulation_residues.cuh"

using namespace emulation;

#if ELEMENT_BITS == 32
using Bits = u32;
#else
using Bits = u64;
#endif

constexpr i32 ZERO_EXPONENT = -8192, NO_ELEMENT = 1 << 14;

// Largest and smallest exponent of block y of vector x, to [block][vector]; and the vector's
// largest exponent by way of `largest` (starts at ZERO_EXPONENT), NO_ELEMENT where it is not
// finite.
extern "C" __global__ void block_exponents(const Bits* __restrict__ x, i64 step, i64 k_step,
                                           i32 vectors, i32 length, i32 block_length,
                                           i32* __restrict__ highest, i32* __restrict__ lowest,
                                           i32* __restrict__ largest) {
  const i32 vector = blockIdx.x * blockDim.x + threadIdx.x;
  if (vector >= vectors) return;
  const i32 first = blockIdx.y * block_length, last = min_of(first + block_length, length);
  i32 high = ZERO_EXPONENT, low = NO_ELEMENT;
  bool finite = true;
  for (i32 k = first; k < last; ++k) {
    const u64 bits = absolute(widen(x[vector * step + k * k_step]));
    if (bits >> 52 == 2047) finite = false;
    const i32 e = bits == 0 ? ZERO_EXPONENT : bit_width(bits);
    high = max_of(high, e);
    low = min_of(low, e);
  }
  highest[(i64)blockIdx.y * vectors + vector] = high;
  lowest[(i64)blockIdx.y * vectors + vector] = low;
  atomicMax(largest + vector, finite ? high : NO_ELEMENT);
}

// Whether some block has an element above zero of either vector.
COLD bool vectors_meet(const i32* a_high, i32 rows, i32 r, const i32* b_high, i32 columns, i32 c,
                       i32 blocks) {
  for (i32 block = 0; block < blocks; ++block)
    if (a_high[(i64)block * rows + r] != ZERO_EXPONENT &&
        b_high[(i64)block * columns + c] != ZERO_EXPONENT)
      return true;
  return false;
}

// 64 x 64 outputs a block, 4 x 4 a thread, blocks along the columns first; `span` starts at 0.
extern "C" __global__ void largest_span(const i32* __restrict__ a_high,
                                        const i32* __restrict__ a_low,
                                        const i32* __restrict__ a_largest,
                                        const i32* __restrict__ b_high,
                                        const i32* __restrict__ b_low,
                                        const i32* __restrict__ b_largest, i32 rows, i32 columns,
                                        i32 blocks, i32* __restrict__ span) {
  __shared__ i32 tile[4][16][64 + 1];
  __shared__ i32 worst;
  const i32 thread = threadIdx.y * 16 + threadIdx.x;
  const i32 across = (columns + 63) / 64;
  const i32 row = (i32)blockIdx.x / across * 64, column = (i32)blockIdx.x % across * 64;
  if (thread == 0) worst = 0;
  i32 reached[4][4];
  UNROLL for (int i = 0; i < 4; ++i) {
    UNROLL for (int j = 0; j < 4; ++j) reached[i][j] = 2 * ZERO_EXPONENT;
  }
  for (i32 first = 0; first < blocks; first += 16) {
    __syncthreads();
    for (i32 t = thread; t < 16 * 64; t += 256) {
      const i32 block = first + t / 64, r = row + t % 64, c = column + t % 64;
      const bool a_inside = block < blocks && r < rows, b_inside = block < blocks && c < columns;
      tile[0][t / 64][t % 64] = a_inside ? a_high[(i64)block * rows + r] : ZERO_EXPONENT;
      tile[1][t / 64][t % 64] = a_inside ? a_low[(i64)block * rows + r] : ZERO_EXPONENT;
      tile[2][t / 64][t % 64] = b_inside ? b_high[(i64)block * columns + c] : ZERO_EXPONENT;
      tile[3][t / 64][t % 64] = b_inside ? b_low[(i64)block * columns + c] : ZERO_EXPONENT;
    }
    __syncthreads();
    for (i32 block = 0; block < 16; ++block) {
      UNROLL for (int i = 0; i < 4; ++i) {
        UNROLL for (int j = 0; j < 4; ++j) {
          const i32 r = threadIdx.y + 16 * i, c = threadIdx.x + 16 * j;
          const i32 here =
              max_of(tile[0][block][r] + tile[3][block][c], tile[1][block][r] + tile[2][block][c]);
          reached[i][j] = max_of(reached[i][j], here);
        }
      }
    }
  }
  i32 mine = 0;
  UNROLL for (int i = 0; i < 4; ++i) {
    UNROLL for (int j = 0; j < 4; ++j) {
      const i32 r = row + threadIdx.y + 16 * i, c = column + threadIdx.x + 16 * j;
      if (r >= rows || c >= columns) continue;
      const i32 a = a_largest[r], b = b_largest[c];
      const bool counts =
          a != ZERO_EXPONENT && a != NO_ELEMENT && b != ZERO_EXPONENT && b != NO_ELEMENT;
      if (!counts) continue;
      const bool seen = reached[i][j] > ZERO_EXPONENT / 2;
      if (seen || vectors_meet(a_high, rows, r, b_high, columns, c, blocks))
        mine = max_of(mine, a + b - reached[i][j]);
    }
  }
  atomicMax(&worst, mine);
  __syncthreads();
  if (thread == 0) atomicMax(span, worst);
}
