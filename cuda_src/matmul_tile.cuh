// The plain product: a square tile of outputs, the operands of a few instructions decoded into
// memory that its threads share, and the register level's own dot, one output a thread.
#pragma once
#include "matmul_problem.cuh"

const int TILE = 16;  // outputs along each side of a block

template <class Algorithm>
struct MatmulTile {
  using Value = typename Algorithm::Value;
  using Accumulator = typename Algorithm::Accumulator;
  int repeats;  // instructions whose operands are held at a time
  Value* a;     // (TILE, repeats * products)
  Value* b;     // (repeats * k, TILE)
  u8* dense;    // (TILE, repeats * products): the dense k within its instruction of every stored
                // product

  HD static int bytes(const Config& c, int repeats) {
    return TILE * repeats * ((c.products + c.k) * (int)sizeof(Value) + (c.sparse ? c.products : 0));
  }
  HD MatmulTile(const Config& c, int repeats, void* memory)
      : repeats(repeats),
        a((Value*)memory),
        b(a + TILE * repeats * c.products),
        dense((u8*)(b + repeats * c.k * TILE)) {}

  HD void load(const Config& c, const Problem& p, const MatmulPointers& in, i64 batch, i64 row,
               i64 column, i64 step, int thread) const {
    const int width = repeats * c.products, height = repeats * c.k;
    for (int n = thread; n < TILE * width; n += TILE * TILE) {
      const i64 r = row + n / width, k = step * c.products + n % width;
      a[n] = Algorithm::load(c, c.a, code_of_a(c, p, in, batch, r, k));
      if (c.sparse) {
        const int stored = n % width % c.products;
        // Padded items take the first two places.
        const int place =
            r < p.m && k < p.k / 2
                ? in.chosen[batch * p.chosen.batch + r * p.chosen.row + k * p.chosen.column]
                : stored % 2;
        dense[n] = (u8)(stored / 2 * 4 + place);
      }
    }
    for (int n = thread; n < TILE * height; n += TILE * TILE)
      b[n] = Algorithm::load(c, c.b,
                             code_of_b(c, p, in, batch, step * c.k + n / TILE, column + n % TILE));
  }

  // The exponent that the E8M0 scales of one block of 32 k add up to; blocks beyond the edge are
  // unscaled.
  HD static int scale_of(const Config& c, const Problem& p, const MatmulPointers& in, i64 batch,
                         i64 row, i64 column, i64 k) {
    if (!c.scaled || row >= p.m || column >= p.n || k >= p.k) return 0;
    const u32 x =
        in.scale_a[batch * p.scale_a.batch + row * p.scale_a.row + k / 32 * p.scale_a.column];
    const u32 y =
        in.scale_b[batch * p.scale_b.batch + k / 32 * p.scale_b.row + column * p.scale_b.column];
    return x == 0xFF || y == 0xFF ? SPECIAL_EXPONENT : (int)(x + y) - 254;
  }

  // The accumulator of output `thread` after the instructions that are held.
  HD Accumulator compute(const Config& c, const Problem& p, const MatmulPointers& in, i64 batch,
                         i64 row, i64 column, i64 step, int thread, Accumulator d) const {
    const int r = thread / TILE, j = thread % TILE;
    for (int s = 0; s < repeats && step + s < p.steps(c); ++s) {
      const Value* left = a + r * repeats * c.products + s * c.products;
      const Value* right = b + s * c.k * TILE + j;
      const u8* chosen = dense + r * repeats * c.products + s * c.products;
      auto fetch = [&](int k, Value& x, Value& y) {
        x = left[k];
        const int dense_k = c.sparse ? chosen[k] : k;
        y = right[dense_k * TILE];
        return c.dense_grouping ? dense_k : k;
      };
      auto scale = [&](int k) {
        return scale_of(c, p, in, batch, row + r, column + j, (step + s) * c.k + k);
      };
      d = Algorithm::dot(c, d, fetch, scale);
    }
    return d;
  }
};
