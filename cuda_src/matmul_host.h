// The host build's door to whole products: the phases of the plain kernel, thread by thread.
#pragma once
#include <vector>

#include "matmul_epilogue.cuh"
#include "matmul_tile.cuh"

namespace matmul_host {

template <class Algorithm>
void run(const Config& c, const Problem& p, const MatmulPointers& in) {
  using Tile = MatmulTile<Algorithm>;
  using Accumulator = typename Tile::Accumulator;
  const int repeats = c.products >= 32 ? 1 : 32 / c.products;
  std::vector<u64> memory((std::size_t)Tile::bytes(c, repeats) / sizeof(u64) + 1);
  std::vector<Accumulator> d(TILE * TILE);
  const Tile tile(c, repeats, memory.data());
  const int threads = TILE * TILE;
  for (i64 batch = 0; batch < p.batches; ++batch)
    for (i64 row = 0; row < p.m; row += TILE)
      for (i64 column = 0; column < p.n; column += TILE) {
        for (int t = 0; t < threads; ++t)
          d[t] = initial_accumulator<Accumulator>(p, in, batch, row + t / TILE, column + t % TILE);
        for (i64 step = 0; step < p.steps(c); step += repeats) {
          for (int t = 0; t < threads; ++t) tile.load(c, p, in, batch, row, column, step, t);
          for (int t = 0; t < threads; ++t)
            d[t] = tile.compute(c, p, in, batch, row, column, step, t, d[t]);
        }
        for (int t = 0; t < threads; ++t)
          store_result(p, in, batch, row + t / TILE, column + t % TILE, d[t]);
      }
}

}  // namespace matmul_host

extern "C" {

int gpuemu_matmul_problem_fields() { return (int)(sizeof(Problem) / sizeof(i64)); }

void gpuemu_matmul(const Config* config, const Problem* problem, const MatmulPointers* pointers) {
  const Config& c = *config;
  switch (c.algorithm) {
    case FMA32:
      return matmul_host::run<Fma32>(c, *problem, *pointers);
    case FMA64:
      return matmul_host::run<Fma64>(c, *problem, *pointers);
    case EXACT:
      return matmul_host::run<Exact>(c, *problem, *pointers);
    case PAIRWISE:
      return matmul_host::run<Pairwise>(c, *problem, *pointers);
    case INTEGER:
      return matmul_host::run<Integer>(c, *problem, *pointers);
    default:
      return c.narrow ? matmul_host::run<Aligned<i32>>(c, *problem, *pointers)
                      : matmul_host::run<Aligned<i64>>(c, *problem, *pointers);
  }
}

void gpuemu_matmul_add_partials32(u32* sum, const u32* part, i64 count) {
  for (i64 n = 0; n < count; ++n) sum[n] = add_partial(sum[n], part[n]);
}
void gpuemu_matmul_add_partials64(u64* sum, const u64* part, i64 count) {
  for (i64 n = 0; n < count; ++n) sum[n] = add_partial(sum[n], part[n]);
}
void gpuemu_matmul_add_partials_integer(u32* sum, const u32* part, i64 count) {
  for (i64 n = 0; n < count; ++n) sum[n] += part[n];
}
void gpuemu_matmul_scale(u32* sum, const u32* c, float alpha, float beta, int with_c, i64 count) {
  for (i64 n = 0; n < count; ++n) sum[n] = scaled(sum[n], with_c ? c[n] : 0, alpha, beta, with_c);
}
void gpuemu_matmul_round_output(const u32* sum, u16* out, int format, i64 count) {
  for (i64 n = 0; n < count; ++n) out[n] = to_output(sum[n], format);
}
}
