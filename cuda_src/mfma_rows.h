// 16 outputs of one register side by side: neighbouring lanes, which share rows of A and differ in
// columns of B, so that the host compiler makes vector instructions of the same links.
#pragma once
#include "mfma_chains.h"

namespace mfma_host {

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

template <int RULE>
class Rows {
  using Algorithm = typename AlgorithmOf<RULE>::type;
  using Value = typename Algorithm::Value;
  using Accumulator = typename Algorithm::Accumulator;
  static const int GROUP = RULES[RULE].group;

 public:
  Rows(const Config& c, const Modifiers& mod)
      : c(c),
        mod(mod),
        lanes(c, mod),
        small(c.n < COLUMNS),
        a(c, c.a, c.m, small, [&](int lane) { return source_lane_a(c, mod, lane); }),
        b(c, c.b, c.n, false, [&](int lane) { return source_lane_b(mod, lane); }) {
    for (int item = 0; item < c.d_vgprs; ++item)
      for (int lane = 0; lane < LANES; lane += COLUMNS) {
        const Output o = output_of_item(c, mod, lane, item);
        places.push_back(
            {a.column(o.block, o.row), b.column(o.block, o.column), a.place(o.block, o.row)});
      }
  }

  void compute(const WaveInputs& in, const Image<u32>& out) {
    const bool tame_a = a.load(in.a, registers), tame_b = b.load(in.b, registers);
    if (!tame_a || !tame_b) return lanes.run(in, out);
    const Input image = registers.gather(in.c, c.d_vgprs, nullptr);
    const Place* place = places.data();
    for (int item = 0; item < c.d_vgprs; ++item)
      for (int lane = 0; lane < LANES; lane += COLUMNS, ++place)
        if (small)
          compute_columns<true>(image, out, item, lane, *place);
        else
          compute_columns<false>(image, out, item, lane, *place);
  }

 private:
  // The factors of 16 outputs, k = 0.
  struct Place {
    const Column<Value>*a, *b;
    int row;  // in its column of A
  };

  const Config c;
  const Modifiers mod;
  const LaneByLane<Algorithm> lanes;
  const bool small;  // blocks of 4 rows and columns
  Matrix<RULE> a, b;
  std::vector<Place> places;
  Registers registers;

  template <bool SMALL>
  HD void compute_columns(const Input& given, const Image<u32>& to, int item, int lane,
                          const Place& place) const {
    const Input image = {given.base + lane, given.vgpr_stride, 1};
    const Image<u32> out = {to.base + lane, LANES, 1};
    Accumulator d[COLUMNS];
    int unsure[COLUMNS];
#pragma omp simd
    for (int i = 0; i < COLUMNS; ++i) {
      d[i] = Algorithm::start(RULES[RULE], Wave<Algorithm>::read({}, image, i, item));
      if (!ALWAYS_SURE<RULE>) unsure[i] = !Algorithm::tame_accumulator(d[i]);
    }
    const Column<Value>*x = place.a, *y = place.b;
    for (int k = 0; k < c.k; k += GROUP) {
#pragma omp simd
      for (int i = 0; i < COLUMNS; ++i) {
        const bool sure = link(d[i], x, a.stride, SMALL ? i : place.row, y, b.stride, i);
        if (!ALWAYS_SURE<RULE>) unsure[i] |= !sure;
      }
      x += GROUP * a.stride;
      y += GROUP * b.stride;
    }
#pragma omp simd
    for (int i = 0; i < COLUMNS; ++i) Wave<Algorithm>::write(out, i, item, Algorithm::finish(d[i]));
    if (ALWAYS_SURE<RULE> || !any(unsure)) return;
    for (int i = 0; i < COLUMNS; ++i)
      if (unsure[i]) compute_alone(given, to, item, lane + i);
  }

  // Its own function: arrays declared in the loop's body would stay in memory.
  HD static bool link(Accumulator& d, const Column<Value>* x, int x_stride, int row,
                      const Column<Value>* y, int y_stride, int column) {
    Value a[MAX_LINK], b[MAX_LINK];
    int slot[MAX_LINK] = {};
    bool sure = true;
    UNROLL_LINK for (int t = 0; t < GROUP; ++t) {
      a[t] = x[t * x_stride].at(row);
      b[t] = y[t * y_stride].at(column);
      slot[t] = t % RULES[RULE].interleave;
    }
    d = Algorithm::link_sure(RULES[RULE], d, a, b, slot, sure);
    return sure;
  }

  // One output by links that look at everything.
  __attribute__((noinline)) void compute_alone(const Input& image, const Image<u32>& out, int item,
                                               int lane) const {
    const Output o = output_of_item(c, mod, lane, item);
    const Column<Value>*row = a.column(o.block, o.row), *column = b.column(o.block, o.column);
    const int i = a.place(o.block, o.row), j = b.place(o.block, o.column);
    const auto fetch = [&](int k, Value& x, Value& y) {
      x = row[k * a.stride].at(i);
      y = column[k * b.stride].at(j);
      return k;
    };
    const Accumulator d = Wave<Algorithm>::read(mod, image, lane, item);
    Wave<Algorithm>::write(out, lane, item, Algorithm::dot(c, d, fetch, [](int) { return 0; }));
  }
};

template <int RULE>
bool run_rule(const Config& c, const Batch& batch, const Pointers& pointers, u32* d) {
  if (!follows(c, RULE) || c.sparse || c.scaled || batch.formula_output) return false;
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
  return run_chains(c, batch, pointers, d) ||
         run_first(c, batch, pointers, d, std::make_integer_sequence<int, RULE_COUNT>());
}

}  // namespace mfma_host
