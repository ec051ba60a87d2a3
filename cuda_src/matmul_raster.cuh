// Which tile of which product a block computes: bands of tiles, so that blocks that run together
// share operands; and which part of it a thread.
#pragma once
#include "matmul_problem.cuh"

struct TilePlace {
  i64 batch, row, column;
};

HD TilePlace place_of_block(const Problem& p, i64 block, int rows, int columns) {
  const i64 tiles_m = (p.m + rows - 1) / rows, tiles_n = (p.n + columns - 1) / columns;
  const i64 band = 16, batch = block / (tiles_m * tiles_n), in_batch = block % (tiles_m * tiles_n);
  const i64 first = in_batch / (band * tiles_n) * band;
  const i64 height = min_of(band, tiles_m - first), rest = in_batch - first * tiles_n;
  return {batch, (first + rest % height) * rows, rest / height * columns};
}

// Which of a block's 16 x 16 register tiles a thread has. A warp has 4 x 8 of them, dealt so that
// either half reads 2 rows and 8 columns: neighbours share addresses, and 16-byte reads of shared
// memory go through half a warp at a time.
struct LanePlace {
  int y, x;
};
__device__ __forceinline__ LanePlace place_of_lane(int thread) {
  const int warp = thread / 32, lane = thread % 32;
  return {warp / 2 * 4 + lane / 16 * 2 + lane % 2, warp % 2 * 8 + lane / 2 % 8};
}

#ifdef __CUDACC__
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) u8 name[]
#endif
