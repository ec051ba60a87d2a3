// The plain product for every instruction and model: GPUEMU_CONFIG holds the fields of Config,
// ALGORITHM the type of the dot, REPEATS the instructions whose operands a block holds at a time.
#include "matmul_tile.cuh"

constexpr Config CONFIG = {GPUEMU_CONFIG};

extern "C" __global__ void __launch_bounds__(TILE* TILE) matmul(Problem p, MatmulPointers in) {
  extern __shared__ __align__(16) u8 memory[];
  using Tile = MatmulTile<ALGORITHM>;
  const Tile tile(CONFIG, REPEATS, memory);
  const i64 tiles_n = (p.n + TILE - 1) / TILE, tiles_m = (p.m + TILE - 1) / TILE;
  const i64 block = blockIdx.x, batch = block / (tiles_m * tiles_n);
  const i64 row = block / tiles_n % tiles_m * TILE, column = block % tiles_n * TILE;
  const int thread = threadIdx.x;
  const i64 r = row + thread / TILE, j = column + thread % TILE;
  auto d = initial_accumulator<Tile::Accumulator>(p, in, batch, r, j);
  for (i64 step = 0; step < p.steps(CONFIG); step += REPEATS) {
    tile.load(CONFIG, p, in, batch, row, column, step, thread);
    __syncthreads();
    d = tile.compute(CONFIG, p, in, batch, row, column, step, thread, d);
    __syncthreads();
  }
  store_result(p, in, batch, r, j, d);
}
