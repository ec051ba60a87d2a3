// A and B of a wavefront, decoded, so that the values of 16 neighbouring lanes lie side by side.
#pragma once
// Links of constant length unroll; only then does the loop over columns around them become vector
// code.
#define UNROLL_LINK _Pragma("GCC unroll 32")
#include <utility>
#include <vector>

#include "mfma_rules.h"

namespace mfma_host {

const int COLUMNS = 16;
const int MAX_VGPRS = 64;

// Whether one of 16 is not zero.
HD bool any(const int (&x)[COLUMNS]) {
  u64 all = 0;
  UNROLL_LINK for (int i = 0; i < COLUMNS; ++i) all |= (u32)x[i];
  return all != 0;
}

// The values of 16 neighbouring lanes, each field of a value by itself.
template <class Value>
struct alignas(64) Column {
  Value value[COLUMNS];
  HD Value at(int i) const { return value[i]; }
  HD void set(int i, const Value& x) { value[i] = x; }
};
template <>
struct alignas(64) Column<Item> {
  i32 significand[COLUMNS], exponent[COLUMNS];
  HD Item at(int i) const { return {significand[i], exponent[i]}; }
  HD void set(int i, const Item& x) { significand[i] = x.significand, exponent[i] = x.exponent; }
};

// The registers of one operand, neighbouring lanes side by side: where they lie, or else copied,
// each lane's from the lane `from[lane]` where lanes move.
class Registers {
 public:
  Input gather(const Input& in, int vgprs, const int* from) {
    if (in.lane_stride == 1 && !from) return in;
    for (int v = 0; v < vgprs; ++v)
      for (int lane = 0; lane < LANES; ++lane)
        words[v * LANES + lane] = in.at(v, from ? from[lane] : lane);
    return {words, LANES, 1};
  }

 private:
  u32 words[MAX_VGPRS * LANES];
};

// A or B of a wavefront, decoded: for every k, the rows of all blocks one after the other, 16 a
// column. Of blocks of four rows A is spread: for every k and row, the row of every block, four
// times each, so that it lies as the outputs do.
template <int RULE>
class Matrix {
  using Algorithm = typename AlgorithmOf<RULE>::type;
  using Value = typename Algorithm::Value;

 public:
  const int stride;  // columns of one k

  // source(lane) is the lane whose registers a lane uses.
  template <class Source>
  Matrix(const Config& c, const Operand& o, int rows, bool spread, Source source)
      : stride(c.blocks * rows * (spread ? 4 : 1) / COLUMNS),
        o(o),
        rows(rows),
        spread(spread),
        values(c.k * stride) {
    for (int lane = 0; lane < LANES; ++lane) {
      from[lane] = source(lane);
      if (from[lane] != lane) moves = true;
    }
    for (int item = 0; item < o.items; ++item)
      for (int lane = 0; lane < LANES; lane += COLUMNS) {
        const Place p = place_of_item(o, rows, c.blocks, lane, item);
        to.push_back(p.k * stride + (p.block * rows + p.row) / COLUMNS);
      }
    load_items = load_format<-1>;
    choose(std::make_integer_sequence<int, FORMAT_COUNT>());
  }

  // Returns whether every item is tame.
  bool load(const Input& in, Registers& registers) {
    return load_items(*this, registers.gather(in, o.vgprs, moves ? from : nullptr));
  }

  // Row `row` of a block, k = 0: its column, and its place there.
  const Column<Value>* column(int block, int row) const {
    return &values[spread ? (row * stride + block) / 4 : (block * rows + row) / COLUMNS];
  }
  int place(int block, int row) const { return (block * rows + (spread ? 0 : row)) % COLUMNS; }

 private:
  const Operand o;
  const int rows;
  const bool spread;
  int from[LANES];
  bool moves = false;
  std::vector<int> to;  // the column of every 16 lanes of every item
  std::vector<Column<Value>> values;
  bool (*load_items)(Matrix& own, const Input& image);

  template <int... FORMAT>
  void choose(std::integer_sequence<int, FORMAT...>) {
    (choose_format<FORMAT>(), ...);
  }
  template <int FORMAT>
  void choose_format() {
    if constexpr (takes_format(RULES[RULE], FORMATS[FORMAT]))
      if (has_format(o, FORMAT)) load_items = load_format<FORMAT>;
  }

  // FORMAT -1 is one that is not in the table.
  template <int FORMAT>
  static bool load_format(Matrix& own, const Input& image) {
    Operand o = FORMAT < 0 ? own.o : FORMATS[FORMAT < 0 ? 0 : FORMAT];
    o.shift = own.o.shift;
    const int* to = own.to.data();
    int wild = 0;
    for (int item = 0; item < own.o.items; ++item)
      for (int lane = 0; lane < LANES; lane += COLUMNS, ++to) {
        const Input lanes = {image.base + lane, image.vgpr_stride, 1};
        Column<Value>* column = &own.values[*to];
        if (!own.spread) {
          wild |= decode(o, lanes, item, *column);
          continue;
        }
        Column<Value> packed;
        wild |= decode(o, lanes, item, packed);
        for (int row = 0; row < 4; ++row)
          for (int i = 0; i < COLUMNS; i += 4) {
            const Value x = packed.at(i + row);
            for (int j = 0; j < 4; ++j) column[row * own.stride / 4].set(i + j, x);
          }
      }
    return !wild;
  }

  // Item `item` of 16 lanes; returns nonzero where one is not tame.
  HD static int decode(const Operand& o, const Input& image, int item, Column<Value>& column) {
    int wild = 0;
    if (ALWAYS_SURE<RULE>) {
#pragma omp simd
      for (int i = 0; i < COLUMNS; ++i) decode_lane(o, image, i, item, column);
    } else {
#pragma omp simd reduction(| : wild)
      for (int i = 0; i < COLUMNS; ++i) wild |= !decode_lane(o, image, i, item, column);
    }
    return wild;
  }

  // Its own function: a struct declared in the loop's body would stay in memory.
  HD static bool decode_lane(const Operand& o, const Input& image, int i, int item,
                             Column<Value>& column) {
    const u64 code = extract(o, [&](int v) { return image.at(v, i); }, item);
    const Value x = Algorithm::load(RULES[RULE], o, code);
    column.set(i, x);
    return Algorithm::tame_item(x);
  }
};

}  // namespace mfma_host
