// 16 outputs of one register side by side: neighbouring lanes, which share rows of A and differ in
// columns of B, so that the host compiler makes vector instructions of the same links.
#pragma once
// Links of constant length unroll; only then does the loop over columns around them become vector
// code.
#define UNROLL_LINK _Pragma("GCC unroll 32")
#include <algorithm>
#include <utility>
#include <vector>

#include "mfma_rules.h"

namespace mfma_host {

const int COLUMNS = 16;
const int MAX_VGPRS = 64;

// Links of any length are functions of their own: one copy of an unrolled loop is enough.
template <class Model>
struct OutOfLine : Model {
  using Accumulator = typename Model::Accumulator;
  using Value = typename Model::Value;
  template <class Fetch>
  COLD static Accumulator link(const Config& c, Accumulator d, const Value* a, const Value* b,
                               const int* slot, int first, Fetch fetch, int scale) {
    return Model::link(c, d, a, b, slot, first, fetch, scale);
  }
  template <class Fetch>
  COLD static Accumulator link_tame(const Config& c, Accumulator d, const Value* a, const Value* b,
                                    const int* slot, int first, Fetch fetch, int scale) {
    return Model::link_tame(c, d, a, b, slot, first, fetch, scale);
  }
};

// The kernel's two phases, one lane after the other.
template <class Algorithm>
class LaneByLane {
 public:
  LaneByLane(const Config& c, const Modifiers& mod)
      : c(c),
        mod(mod),
        memory((std::size_t)Wave<OutOfLine<Algorithm>>::bytes(c) / sizeof(u64) + 1) {}

  __attribute__((noinline)) void run(const WaveInputs& in, const Image<u32>& out) const {
    const Wave<OutOfLine<Algorithm>> w(c, (void*)memory.data());
    bool tame = true;
    for (int lane = 0; lane < LANES; ++lane) tame = w.load(c, mod, in, lane) && tame;
    for (int lane = 0; lane < LANES; ++lane) w.compute(c, mod, in, out, lane, tame);
  }

 private:
  const Config c;
  const Modifiers mod;
  std::vector<u64> memory;
};

// The registers of one operand as (vgprs, 64) without gaps, each lane's from the lane `from[lane]`
// where lanes move.
class Registers {
 public:
  void gather(const Input& in, int vgprs, const int* from) {
    for (int v = 0; v < vgprs; ++v) {
      if (in.lane_stride == 1 && !from)
        std::copy(&in.at(v, 0), &in.at(v, 0) + LANES, words + v * LANES);
      else
        for (int lane = 0; lane < LANES; ++lane)
          words[v * LANES + lane] = in.at(v, from ? from[lane] : lane);
    }
  }
  Input image() const { return {words, LANES, 1}; }

 private:
  u32 words[MAX_VGPRS * LANES];
};

template <int RULE>
class Rows {
  using Algorithm = typename AlgorithmOf<RULE>::type;
  using Value = typename Algorithm::Value;
  using Accumulator = typename Algorithm::Accumulator;
  static const int WORDS = sizeof(Accumulator) / 4;
  static const int GROUP = RULES[RULE].group;

 public:
  Rows(const Config& c, const Modifiers& mod)
      : c(c),
        lanes(c, mod),
        run(min_of(c.n, COLUMNS)),
        neg(mod.neg),
        a(c, c.a, c.m, run, mod.neg & 1),
        b(c, c.b, c.n, run, mod.neg & 2) {
    for (int lane = 0; lane < LANES; ++lane) {
      a.from[lane] = source_lane_a(c, mod, lane);
      b.from[lane] = source_lane_b(mod, lane);
    }
    for (int item = 0; item < c.d_vgprs / WORDS; ++item)
      for (int lane = 0; lane < LANES; lane += run) {
        const Output o = output_of_item(c, mod, lane, item);
        places.push_back({o.block * c.k * c.m + o.row, o.block * c.k * c.n + o.column});
      }
  }

  void compute(const WaveInputs& in, const Image<u32>& out) {
    const bool tame_a = a.load(in.a, registers), tame_b = b.load(in.b, registers);
    if (!tame_a || !tame_b) return lanes.run(in, out);
    registers.gather(in.c, c.d_vgprs, nullptr);
    for (int item = 0; item < c.d_vgprs / WORDS; ++item)
      for (int lane = 0; lane < LANES; lane += COLUMNS) compute_columns(out, item, lane);
  }

 private:
  // A or B: where its items come from, and its values.
  struct Matrix {
    const Operand o;
    const int rows, run;
    const u64 flip;             // the sign of a negated f64
    std::vector<int> to;        // the place of every run of lanes of every item
    std::vector<Value> values;  // (blocks, k, rows)
    int from[LANES];
    bool (*decode)(const Operand& own, const Input& image, int item, u64 flip, Value* x);

    Matrix(const Config& c, const Operand& o, int rows, int run, bool negative)
        : o(o),
          rows(rows),
          run(run),
          flip(o.bits == 64 && negative ? 1ull << 63 : 0),
          values(c.blocks * c.k * rows) {
      for (int item = 0; item < o.items; ++item)
        for (int lane = 0; lane < LANES; lane += run) {
          const ::Place p = place_of_item(o, rows, c.blocks, lane, item);
          to.push_back((p.block * c.k + p.k) * rows + p.row);
        }
      decode = decode_lanes<-1>;
      choose(std::make_integer_sequence<int, FORMAT_COUNT>());
    }

    template <int... FORMAT>
    void choose(std::integer_sequence<int, FORMAT...>) {
      (choose_format<FORMAT>(), ...);
    }
    template <int FORMAT>
    void choose_format() {
      if constexpr (takes_format(RULES[RULE], FORMATS[FORMAT]))
        if (has_format(o, FORMAT)) decode = decode_lanes<FORMAT>;
    }

    // Returns whether every item is tame.
    bool load(const Input& in, Registers& registers) {
      registers.gather(in, o.vgprs, moves());
      bool tame = true;
      const int* place = to.data();
      for (int item = 0; item < o.items; ++item) {
        Value x[LANES];
        tame = decode(o, registers.image(), item, flip, x) && tame;
        for (int lane = 0; lane < LANES; lane += run, ++place) {
          if (run == COLUMNS)
            std::copy(x + lane, x + lane + COLUMNS, values.data() + *place);
          else
            std::copy(x + lane, x + lane + 4, values.data() + *place);
        }
      }
      return tame;
    }

    const int* moves() const {
      for (int lane = 0; lane < LANES; ++lane)
        if (from[lane] != lane) return from;
      return nullptr;
    }
  };

  struct Place {
    int a, b;  // of k = 0
  };

  const Config c;
  const LaneByLane<Algorithm> lanes;
  const int run;  // lanes in a row that share a row of A: 16 or 4
  const int neg;
  Matrix a, b;
  std::vector<Place> places;
  Registers registers;

  // Item `item` of every lane; FORMAT -1 is one that is not in the table.
  template <int FORMAT>
  static bool decode_lanes(const Operand& own, const Input& given, int item, u64 flip, Value* x) {
    Operand o = FORMAT < 0 ? own : FORMATS[FORMAT < 0 ? 0 : FORMAT];
    o.shift = own.shift;
    const Input image = {given.base, LANES, 1};
    int wild = 0;
#pragma omp simd reduction(| : wild)
    for (int lane = 0; lane < LANES; ++lane) {
      x[lane] = decode_item(o, image, lane, item, flip);
      wild |= !Algorithm::tame_item(x[lane]);
    }
    return !wild;
  }

  HD static Value decode_item(const Operand& o, const Input& image, int lane, int item, u64 flip) {
    const u64 code = extract(o, [&](int v) { return image.at(v, lane); }, item);
    return Algorithm::load(RULES[RULE], o, code ^ flip);
  }

  HD Accumulator accumulator(int item, int lane) const {
    Modifiers mod = {};
    mod.neg = neg;
    return Wave<Algorithm>::read(mod, registers.image(), lane, item);
  }

  void compute_columns(const Image<u32>& out, int item, int lane) {
    const Place* place = &places[run == COLUMNS ? item * 4 + lane / 16 : item * 16 + lane / 4];
    Accumulator d[COLUMNS];
    int unsure[COLUMNS];
#pragma omp simd
    for (int i = 0; i < COLUMNS; ++i) {
      d[i] = Algorithm::start(RULES[RULE], accumulator(item, lane + i));
      unsure[i] = !Algorithm::tame_accumulator(d[i]);
    }
    Value x[GROUP * COLUMNS], y[GROUP * COLUMNS];
    for (int k = 0; k < c.k; k += GROUP) {
      for (int t = 0; t < GROUP; ++t) factors(place, k + t, x + t * COLUMNS, y + t * COLUMNS);
      link(d, unsure, x, y);
    }
    int some = 0;
#pragma omp simd reduction(| : some)
    for (int i = 0; i < COLUMNS; ++i) {
      Wave<Algorithm>::write(out, lane + i, item, Algorithm::finish(d[i]));
      some |= unsure[i];
    }
    if (!some) return;
    for (int i = 0; i < COLUMNS; ++i)
      if (unsure[i]) compute_alone(out, item, lane + i, place[i / run], i % run);
  }

  // The factors of product k of 16 outputs.
  HD void factors(const Place* place, int k, Value* x, Value* y) const {
    const Value *row = a.values.data() + k * c.m, *column = b.values.data() + k * c.n;
    if (run == COLUMNS) {
      const Value shared = row[place->a];
      for (int i = 0; i < COLUMNS; ++i) x[i] = shared;
      std::copy(column + place->b, column + place->b + COLUMNS, y);
      return;
    }
    for (int piece = 0; piece < 4; ++piece) {
      const Value shared = row[place[piece].a];
      for (int i = 0; i < 4; ++i) x[4 * piece + i] = shared;
      std::copy(column + place[piece].b, column + place[piece].b + 4, y + 4 * piece);
    }
  }

  HD static void link(Accumulator* d, int* unsure, const Value* x, const Value* y) {
#pragma omp simd
    for (int i = 0; i < COLUMNS; ++i) unsure[i] |= !link_column(d[i], x + i, y + i);
  }

  // Its own function: arrays declared in the loop's body would stay in memory.
  HD static bool link_column(Accumulator& d, const Value* x, const Value* y) {
    Value a[MAX_LINK], b[MAX_LINK];
    int slot[MAX_LINK] = {};
    bool sure = true;
    UNROLL_LINK for (int t = 0; t < GROUP; ++t) {
      a[t] = x[t * COLUMNS];
      b[t] = y[t * COLUMNS];
      slot[t] = t % RULES[RULE].interleave;
    }
    d = Algorithm::link_sure(RULES[RULE], d, a, b, slot, sure);
    return sure;
  }

  // One output by links that look at everything.
  __attribute__((noinline)) void compute_alone(const Image<u32>& out, int item, int lane,
                                               const Place& place, int column) const {
    const auto fetch = [&](int k, Value& x, Value& y) {
      x = a.values[place.a + k * c.m];
      y = b.values[place.b + k * c.n + column];
      return k;
    };
    const Accumulator d = accumulator(item, lane);
    Wave<Algorithm>::write(out, lane, item, Algorithm::dot(c, d, fetch, [](int) { return 0; }));
  }
};

template <int RULE>
bool run_rule(const Config& c, const Batch& batch, const Pointers& pointers, u32* d) {
  if (!follows(c, RULE) || c.sparse || c.scaled) return false;
  Rows<RULE> rows(c, batch.modifiers());
  for (i64 wave = 0; wave < batch.waves; ++wave)
    rows.compute(inputs_of_wave(batch, pointers, wave), output_of_wave(c, d, wave));
  return true;
}

template <int... RULE>
bool run_first(const Config& c, const Batch& batch, const Pointers& pointers, u32* d,
               std::integer_sequence<int, RULE...>) {
  return (run_rule<RULE>(c, batch, pointers, d) || ...);
}

// Runs a dense instruction of a built-in model; returns false, having done nothing, for any other.
inline bool run_by_rule(const Config& c, const Batch& batch, const Pointers& pointers, u32* d) {
  return run_first(c, batch, pointers, d, std::make_integer_sequence<int, RULE_COUNT>());
}

}  // namespace mfma_host
