// One wavefront of one instruction, in two phases: every lane loads and decodes its items of A and
// B into matrices that the lanes share, then every lane computes the outputs that its registers
// hold.
#pragma once
#include "mfma_aligned.cuh"
#include "mfma_exact.cuh"
#include "mfma_fma.cuh"
#include "mfma_integer.cuh"
#include "mfma_layout.cuh"
#include "mfma_pairwise.cuh"

// A register image in memory: the address of register v of lane l is at(v, l). GPUEMU_DENSE says
// that every image of a batch is dense, (vgprs, 64), and the batch has one dimension.
template <class T>
struct Image {
  T* base;
  i64 vgpr_stride, lane_stride;
  HD T& at(int v, int lane) const {
#ifdef GPUEMU_DENSE
    return base[v * LANES + lane];
#else
    return base[v * vgpr_stride + lane * lane_stride];
#endif
  }
};
using Input = Image<const u32>;

struct WaveInputs {
  Input a, b, c, idx, scale_a, scale_b;
};

template <class Algorithm>
struct Wave {
  using Value = typename Algorithm::Value;
  using Accumulator = typename Algorithm::Accumulator;
  Value* a;   // (blocks, m, a_stride)
  Value* b;   // (blocks, k, n)
  u8* dense;  // (m, products): the dense k of every stored product, of a sparse instruction

  // Rows of A are 16 bytes longer than they need to be, so that lanes of different rows meet
  // different banks of shared memory.
  HD static int a_stride(const Config& c) {
    const int pad = 16 / (int)sizeof(Value);
    return c.products + (c.products >= 2 * pad ? pad : 0);
  }
  HD static int a_items(const Config& c) { return c.blocks * c.m * a_stride(c); }
  HD static int b_items(const Config& c) { return c.blocks * c.k * c.n; }
  // Bytes of shared memory that a wavefront takes; a multiple of 16.
  HD static int bytes(const Config& c) {
    const int dense = c.sparse ? c.m * c.products : 0;
    return ((a_items(c) + b_items(c)) * (int)sizeof(Value) + dense + 15) / 16 * 16;
  }
  HD Wave(const Config& c, void* memory)
      : a((Value*)memory), b(a + a_items(c)), dense((u8*)(b + b_items(c))) {}

  // Returns whether every item of the lane is tame.
  HD bool load(const Config& c, const Modifiers& mod, const WaveInputs& in, int lane) const {
    bool tame = true;
    const int from_a = source_lane_a(c, mod, lane), from_b = source_lane_b(mod, lane);
    UNROLL for (int item = 0; item < c.a.items; ++item) {
      const Place p = place_of_item(c.a, c.m, c.blocks, lane, item);
      u64 code = extract(c.a, [&](int v) { return in.a.at(v, from_a); }, item);
      if (c.a.bits == 64 && (mod.neg & 1)) code ^= 1ull << 63;
      const Value x = Algorithm::load(c, c.a, code);
      tame = tame && Algorithm::tame_item(x);
      a[(p.block * c.m + p.row) * a_stride(c) + p.k] = x;
      if (c.sparse) {
        const u32 field = in.idx.at(0, lane) >> (mod.index_set * c.index_bits + 2 * item) & 3;
        dense[p.row * c.products + p.k] = (u8)(p.k / 2 * 4 + field);
      }
    }
    UNROLL for (int item = 0; item < c.b.items; ++item) {
      const Place p = place_of_item(c.b, c.n, c.blocks, lane, item);
      u64 code = extract(c.b, [&](int v) { return in.b.at(v, from_b); }, item);
      if (c.b.bits == 64 && (mod.neg & 2)) code ^= 1ull << 63;
      const Value x = Algorithm::load(c, c.b, code);
      tame = tame && Algorithm::tame_item(x);
      b[(p.block * c.k + p.k) * c.n + p.row] = x;
    }
    return tame;
  }

  // The exponent that the E8M0 scales of one block of 32 k add up to.
  HD static int scale_of(const Config& c, const Modifiers& mod, const WaveInputs& in, int row,
                         int column, int k) {
    if (!c.scaled) return 0;
    const u32 x = in.scale_a.at(0, row + c.m * (k / 32)) >> (8 * mod.byte_a) & 0xFF;
    const u32 y = in.scale_b.at(0, column + c.n * (k / 32)) >> (8 * mod.byte_b) & 0xFF;
    return x == 0xFF || y == 0xFF ? SPECIAL_EXPONENT : (int)(x + y) - 254;
  }

  // Outputs that a lane computes together: neighbouring rows of one column, which share its items
  // of B.
  static const int ROWS = sizeof(Accumulator) == 4 ? 4 : 1;

  // Where the factors of the products of one output lie; small, so that rare paths get a copy.
  struct Factors {
    const Value *row, *column;
    const u8* dense;
    int stride;
    bool sparse, by_dense_k;

    HD int dense_k(int k) const { return sparse ? dense[k] : k; }
    HD int operator()(int k, Value& x, Value& y) const {
      x = row[k];
      y = column[dense_k(k) * stride];
      return by_dense_k ? dense_k(k) : k;
    }
  };

  // `tame` says that all items of A and B are.
  HD void compute(const Config& c, const Modifiers& mod, const WaveInputs& in, Image<u32> out,
                  int lane, bool tame) const {
    ROLLED for (int item = 0; item < c.d_vgprs * 4 / (int)sizeof(Accumulator); item += ROWS) {
      const Output o = output_of_item(c, mod, lane, item);
      Accumulator d[ROWS];
      bool quick = tame;
      UNROLL for (int r = 0; r < ROWS; ++r) {
        d[r] = Algorithm::start(c, read(mod, in.c, lane, item + r));
        quick = quick && Algorithm::tame_accumulator(d[r]);
        if (c.scaled)
          UNROLL for (int k = 0; k < c.products; k += 32) quick =
              quick && Algorithm::tame_scale(scale_of(c, mod, in, o.row + r, o.column, k));
      }
      if (quick)
        chain<true>(c, mod, in, o, d);
      else
        chain<false>(c, mod, in, o, d);
      UNROLL for (int r = 0; r < ROWS; ++r) write(out, lane, item + r, Algorithm::finish(d[r]));
    }
  }

  // The chains of neighbouring rows of one column, side by side.
  template <bool TAME>
  HD void chain(const Config& c, const Modifiers& mod, const WaveInputs& in, const Output& o,
                Accumulator (&d)[ROWS]) const {
    const Value* column = b + o.block * c.k * c.n + o.column;
    UNROLL_2 for (int k = 0; k < c.products; k += c.group) {
      Value y[MAX_LINK];
      if (!c.sparse) UNROLL for (int t = 0; t < c.group; ++t) y[t] = column[(k + t) * c.n];
      UNROLL for (int r = 0; r < ROWS; ++r) {
        const int row = o.block * c.m + o.row + r;
        const Factors factors = {a + row * a_stride(c),    column,
                                 dense + row * c.products, c.n,
                                 (bool)c.sparse,           (bool)c.dense_grouping};
        Value x[MAX_LINK];
        int slot[MAX_LINK];
        UNROLL for (int t = 0; t < c.group; ++t) {
          Value chosen;
          slot[t] = factors(k + t, x[t], c.sparse ? y[t] : chosen) % c.interleave;
        }
        const int scale = scale_of(c, mod, in, o.row + r, o.column, k);
        d[r] = TAME ? Algorithm::link_tame(c, d[r], x, y, slot, k, factors, scale)
                    : Algorithm::link(c, d[r], x, y, slot, k, factors, scale);
      }
    }
  }

  HD static Accumulator read(const Modifiers& mod, const Input& c, int lane, int item) {
    if (sizeof(Accumulator) == 4) return c.at(item, lane);
    const u64 bits = c.at(2 * item, lane) | (u64)c.at(2 * item + 1, lane) << 32;
    return (Accumulator)(mod.neg & 4 ? bits ^ 1ull << 63 : bits);
  }

  HD static void write(const Image<u32>& out, int lane, int item, Accumulator d) {
    const int words = sizeof(Accumulator) / 4;
    UNROLL for (int w = 0; w < words; ++w) out.at(words * item + w, lane) =
        (u32)((u64)d >> (32 * w));
  }
};
