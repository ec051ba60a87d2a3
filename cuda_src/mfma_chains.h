// Chains of fused multiply-adds on f32 and f64. A lane has one item of A and one of B, and its bits
// are the value: nothing is decoded, and neighbouring lanes are vectors as they lie.
#pragma once
#include "mfma_columns.h"

namespace mfma_host {

// PRODUCTS of an output; SMALL: of blocks with four rows and columns.
template <class Algorithm, int PRODUCTS, bool SMALL>
class Chains {
  using Value = typename Algorithm::Value;
  static const int WORDS = sizeof(Value) / 4;
  static constexpr Config RULE = rule(WORDS == 1 ? FMA32 : FMA64, PRODUCTS, 0);
  static const int STEP = LANES / PRODUCTS;         // lanes from one k to the next
  static const int RUN = SMALL ? 4 : COLUMNS;       // neighbouring lanes that share a row of A
  static const int TURN = SMALL ? LANES : COLUMNS;  // lanes at a time: long runs stay in registers

 public:
  Chains(const Config& c, const Modifiers& mod) : c(c), mod(mod) {
    for (int lane = 0; lane < LANES; ++lane) {
      from_a[lane] = source_lane_a(c, mod, lane);
      from_b[lane] = source_lane_b(mod, lane);
      moves_a |= from_a[lane] != lane;
      moves_b |= from_b[lane] != lane;
    }
    for (int item = 0; item < c.d_vgprs / WORDS; ++item)
      for (int lane = 0; lane < LANES; lane += RUN) {
        const Output o = output_of_item(c, mod, lane, item);
        runs.push_back({c.m * o.block + o.row, c.n * o.block + o.column});
      }
  }

  void compute(const WaveInputs& in, const Image<u32>& out) {
    alignas(64) Value a[LANES], b[LANES];
    load(registers.gather(in.a, WORDS, moves_a ? from_a : nullptr), flip(1), a);
    load(registers.gather(in.b, WORDS, moves_b ? from_b : nullptr), flip(2), b);
    const Input image = registers.gather(in.c, c.d_vgprs, nullptr);
    const Value negated = flip(4);
    const Run* run = runs.data();
    for (int item = 0; item < c.d_vgprs / WORDS; ++item)
      for (int lane = 0; lane < LANES; lane += TURN) {
        const Input from = {image.base + lane, image.vgpr_stride, 1};
        const Image<u32> to = {out.base + lane, LANES, 1};
        Value d[TURN];
#pragma omp simd
        for (int i = 0; i < TURN; ++i) d[i] = read(from, item, i) ^ negated;
        for (int first = 0; first < TURN; first += RUN, ++run) {
          const Value *x = a + run->a, *y = b + run->b;
#pragma omp simd
          for (int i = 0; i < RUN; ++i) d[first + i] = chain(d[first + i], x, y + i);
        }
#pragma omp simd
        for (int i = 0; i < TURN; ++i)
          for (int w = 0; w < WORDS; ++w) to.at(WORDS * item + w, i) = word(d + i, w);
      }
  }

 private:
  // The lanes of A and B that hold the factors of a run's first output, k = 0.
  struct Run {
    int a, b;
  };

  const Config c;
  const Modifiers mod;
  int from_a[LANES], from_b[LANES];
  bool moves_a = false, moves_b = false;
  std::vector<Run> runs;
  Registers registers;

  // The sign of a negated operand.
  Value flip(int bit) const { return mod.neg & bit ? (Value)1 << (32 * WORDS - 1) : 0; }

  HD static Value read(const Input& image, int item, int lane) {
    if (WORDS == 1) return (Value)image.at(item, lane);
    return image.at(2 * item, lane) | (Value)((u64)image.at(2 * item + 1, lane) << 32);
  }

  // From memory: GCC deals out the words of 16 values by two shuffles.
  HD static u32 word(const Value* x, int w) {
    u32 found;
    __builtin_memcpy(&found, (const char*)x + 4 * w, sizeof found);
    return found;
  }

  HD static void load(const Input& given, Value flip, Value* values) {
    const Input image = {given.base, given.vgpr_stride, 1};
#pragma omp simd
    for (int lane = 0; lane < LANES; ++lane) values[lane] = read(image, 0, lane) ^ flip;
  }

  // Its own function: arrays declared in the loop's body would stay in memory.
  HD static Value chain(Value d, const Value* x, const Value* y) {
    Value a[PRODUCTS], b[PRODUCTS];
    UNROLL_LINK for (int k = 0; k < PRODUCTS; ++k) a[k] = x[k * STEP], b[k] = y[k * STEP];
    bool sure;
    return Algorithm::finish(Algorithm::link_sure(RULE, d, a, b, nullptr, sure));
  }
};

template <class Algorithm, int PRODUCTS>
bool run_chains_of(const Config& c, const Batch& batch, const Pointers& pointers, u32* d) {
  if (c.k != PRODUCTS || c.a.items != 1 || c.b.items != 1) return false;
  if (c.n != 4 && c.n % COLUMNS) return false;
  const auto run = [&](auto&& chains) {
    for (i64 wave = 0; wave < batch.waves; ++wave)
      chains.compute(inputs_of_wave(batch, pointers, wave), output_of_wave(c, d, wave));
    return true;
  };
  return c.n == 4 ? run(Chains<Algorithm, PRODUCTS, true>(c, batch.modifiers()))
                  : run(Chains<Algorithm, PRODUCTS, false>(c, batch.modifiers()));
}

// Runs an f32 or f64 instruction; returns false, having done nothing, for any other and where
// subnormals are flushed.
inline bool run_chains(const Config& c, const Batch& batch, const Pointers& pointers, u32* d) {
  if (c.sparse || c.flush_inputs || c.flush_outputs) return false;
  const auto holds = [&](int bits) { return c.a.used_bits == bits && c.b.used_bits == bits; };
  if (c.algorithm == FMA64) return holds(52) && run_chains_of<Fma64, 4>(c, batch, pointers, d);
  if (c.algorithm != FMA32 || !holds(23)) return false;
  return run_chains_of<Fma32, 1>(c, batch, pointers, d) ||
         run_chains_of<Fma32, 2>(c, batch, pointers, d) ||
         run_chains_of<Fma32, 4>(c, batch, pointers, d);
}

}  // namespace mfma_host
