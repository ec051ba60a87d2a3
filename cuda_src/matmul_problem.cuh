// A whole matrix product: where its operands lie, and the elements that a padded edge adds.
#pragma once
#include "mfma_wave.cuh"

// Distances in elements.
struct MatrixStrides {
  i64 batch, row, column;
};

// The arguments of one call; gpuemu/mfma/matmul_device.py packs them as 64-bit integers in this
// order.
struct Problem {
  i64 batches, m, n, k;  // k counts dense columns, not yet padded
  MatrixStrides a, b, c, d, chosen, scale_a, scale_b;

  // The instructions of a chain along k; the last one may be padded with zeros.
  HD i64 steps(const Config& config) const { return (k + config.k - 1) / config.k; }
};

struct MatmulPointers {
  const void *a, *b, *c;  // c may be null: zeros
  const u8*
      chosen;  // of a sparse A: the place, 0 to 3, that a stored item has in its group of four
  const u8 *scale_a, *scale_b;
  void* d;
};

// One element's bits; items narrower than a byte take a byte each.
HD u64 load_code(const void* base, int bits, i64 index) {
  if (bits > 32) return ((const u64*)base)[index];
  if (bits > 16) return ((const u32*)base)[index];
  if (bits > 8) return ((const u16*)base)[index];
  return ((const u8*)base)[index];
}

HD u64 code_of_a(const Config& c, const Problem& p, const MatmulPointers& in, i64 batch, i64 row,
                 i64 column) {
  if (row >= p.m || column >= (c.sparse ? p.k / 2 : p.k)) return 0;
  return load_code(in.a, c.a.bits, batch * p.a.batch + row * p.a.row + column * p.a.column);
}

HD u64 code_of_b(const Config& c, const Problem& p, const MatmulPointers& in, i64 batch, i64 row,
                 i64 column) {
  if (row >= p.k || column >= p.n) return 0;
  return load_code(in.b, c.b.bits, batch * p.b.batch + row * p.b.row + column * p.b.column);
}

template <class Accumulator>
HD Accumulator initial_accumulator(const Problem& p, const MatmulPointers& in, i64 batch, i64 row,
                                   i64 column) {
  if (!in.c || row >= p.m || column >= p.n) return 0;
  return ((const Accumulator*)in.c)[batch * p.c.batch + row * p.c.row + column * p.c.column];
}

template <class Accumulator>
HD void store_result(const Problem& p, const MatmulPointers& in, i64 batch, i64 row, i64 column,
                     Accumulator d) {
  if (row < p.m && column < p.n)
    ((Accumulator*)in.d)[batch * p.d.batch + row * p.d.row + column * p.d.column] = d;
}
