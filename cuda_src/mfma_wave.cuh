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

// A register image in memory: the address of register v of lane l is at(v, l).
template <class T>
struct Image {
  T* base;
  i64 vgpr_stride, lane_stride;
  HD T& at(int v, int lane) const { return base[v * vgpr_stride + lane * lane_stride]; }
};
using Input = Image<const u32>;

struct WaveInputs {
  Input a, b, c, idx, scale_a, scale_b;
};

template <class Algorithm>
struct Wave {
  using Value = typename Algorithm::Value;
  using Accumulator = typename Algorithm::Accumulator;
  Value* a;   // (blocks, m, products)
  Value* b;   // (blocks, k, n)
  u8* dense;  // (m, products): the dense k of every stored product, of a sparse instruction

  HD static int a_items(const Config& c) { return c.blocks * c.m * c.products; }
  HD static int b_items(const Config& c) { return c.blocks * c.k * c.n; }
  // Bytes of shared memory that a wavefront takes; a multiple of 16.
  HD static int bytes(const Config& c) {
    const int dense = c.sparse ? c.m * c.products : 0;
    return ((a_items(c) + b_items(c)) * (int)sizeof(Value) + dense + 15) / 16 * 16;
  }
  HD Wave(const Config& c, void* memory)
      : a((Value*)memory), b(a + a_items(c)), dense((u8*)(b + b_items(c))) {}

  HD void load(const Config& c, const Modifiers& mod, const WaveInputs& in, int lane) const {
    const int from_a = source_lane_a(c, mod, lane), from_b = source_lane_b(mod, lane);
    UNROLL for (int item = 0; item < c.a.items; ++item) {
      const Place p = place_of_item(c.a, c.m, c.blocks, lane, item);
      u64 code = extract(c.a, [&](int v) { return in.a.at(v, from_a); }, item);
      if (c.a.bits == 64 && (mod.neg & 1)) code ^= 1ull << 63;
      a[(p.block * c.m + p.row) * c.products + p.k] = Algorithm::load(c, c.a, code);
      if (c.sparse) {
        const u32 field = in.idx.at(0, lane) >> (mod.index_set * c.index_bits + 2 * item) & 3;
        dense[p.row * c.products + p.k] = (u8)(p.k / 2 * 4 + field);
      }
    }
    UNROLL for (int item = 0; item < c.b.items; ++item) {
      const Place p = place_of_item(c.b, c.n, c.blocks, lane, item);
      u64 code = extract(c.b, [&](int v) { return in.b.at(v, from_b); }, item);
      if (c.b.bits == 64 && (mod.neg & 2)) code ^= 1ull << 63;
      b[(p.block * c.k + p.k) * c.n + p.row] = Algorithm::load(c, c.b, code);
    }
  }

  // The exponent that the E8M0 scales of one block of 32 k add up to.
  HD static int scale_of(const Config& c, const Modifiers& mod, const WaveInputs& in, int row,
                         int column, int k) {
    if (!c.scaled) return 0;
    const u32 x = in.scale_a.at(0, row + c.m * (k / 32)) >> (8 * mod.byte_a) & 0xFF;
    const u32 y = in.scale_b.at(0, column + c.n * (k / 32)) >> (8 * mod.byte_b) & 0xFF;
    return x == 0xFF || y == 0xFF ? SPECIAL_EXPONENT : (int)(x + y) - 254;
  }

  HD void compute(const Config& c, const Modifiers& mod, const WaveInputs& in, Image<u32> out,
                  int lane) const {
    const int words = sizeof(Accumulator) / 4;
#ifdef __CUDACC__
#pragma unroll Algorithm::OUTPUTS_AT_ONCE
#endif
    for (int item = 0; item < c.d_vgprs / words; ++item) {
      const Output o = output_of_item(c, mod, lane, item);
      const Value* row = a + (o.block * c.m + o.row) * c.products;
      const Value* column = b + o.block * c.k * c.n + o.column;
      const u8* chosen = dense + o.row * c.products;
      // By value, and small: rare paths get a copy.
      const int stride = c.n;
      const bool sparse = c.sparse, by_dense_k = c.dense_grouping;
      auto fetch = [=](int k, Value& x, Value& y) {
        const int dense_k = sparse ? chosen[k] : k;
        x = row[k];
        y = column[dense_k * stride];
        return by_dense_k ? dense_k : k;
      };
      auto scale = [&](int k) { return scale_of(c, mod, in, o.row, o.column, k); };
      Accumulator d = in.c.at(item * words, lane);
      if (words == 2) {
        d |= (Accumulator)((u64)in.c.at(item * words + 1, lane) << 32);
        if (mod.neg & 4) d ^= (Accumulator)(1ull << 63);
      }
      d = Algorithm::dot(c, d, fetch, scale);
      out.at(item * words, lane) = (u32)d;
      if (words == 2) out.at(item * words + 1, lane) = (u32)((u64)d >> 32);
    }
  }
};
