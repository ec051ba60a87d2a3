// gather and scatter: which lane and which bits of its registers hold a matrix element.
#pragma once
#include "mfma_config.cuh"

const int LANES = 64;

// The lane whose A registers lane `lane` uses under cbsz and abid.
HD int source_lane_a(const Config& c, const Modifiers& mod, int lane) {
  if (mod.lane_block) {
    const int span = LANES >> mod.cbsz;
    return ((lane & (span - 1)) + span * mod.abid) % LANES;
  }
  const int group = (lane / c.m) % c.blocks;
  const int first = group >> mod.cbsz << mod.cbsz;
  const int source = (first + mod.abid) % c.blocks;
  return lane + c.m * (source - group);
}

// The lane whose B registers lane `lane` uses under blgp.
HD int source_lane_b(const Modifiers& mod, int lane) {
  const int blgp = mod.blgp;
  if (blgp == 0) return lane;
  if (blgp == 1) return lane % 32;
  if (blgp == 2) return lane % 32 + 32;
  if (blgp == 3) return (lane + 16) % LANES;
  return lane % 16 + 16 * (blgp - 4);
}

// Item `item` of a lane of A or B: the row of A (column of B), its block, and its position along k.
struct Place {
  int row, block, k;
};
HD Place place_of_item(const Operand& o, int rows, int blocks, int lane, int item) {
  const int groups = LANES / (rows * blocks);
  const int group = lane / (rows * blocks);
  const int chunk = item / o.chunk * groups + group;
  return {lane % rows, lane / rows % blocks, chunk * o.chunk + item % o.chunk};
}

// Item `item` of a lane, from its registers `word(v)`; items are packed little-endian, 6-bit ones
// densely.
template <class Word>
HD u64 extract(const Operand& o, Word word, int item) {
  if (o.bits == 64) return word(2 * item) | (u64)word(2 * item + 1) << 32;
  const int first = item * o.bits;
  const int v = first / 32, shift = first % 32;
  u32 value = word(v) >> shift;
  if (shift + o.bits > 32) value |= word(v + 1) << (32 - shift);
  return o.bits == 32 ? value : value & ((1u << o.bits) - 1);
}

// Output item `item` of a lane (a register, or a pair for f64): its block, row and column.
struct Output {
  int block, row, column;
};
HD Output output_of_item(const Config& c, const Modifiers& mod, int lane, int item) {
  const int column = lane % c.n, q = lane / c.n;
  if (c.algorithm == FMA64) {
    if (c.blocks == 1) return {0, 4 * item + q, column};
    if (mod.formula_output) return {lane / 16, lane / 4 % 4, lane % 4};
    return {lane / 4 % 4, lane / 16, lane % 4};
  }
  // Four rows in a row of registers; then the lane groups, first over rows, then over blocks.
  const int area = c.m * c.n / 4;
  const int lane_blocks = area >= LANES ? 1 : LANES / area;  // blocks side by side in the lanes
  const int lane_rows = LANES / lane_blocks / c.n;           // groups of four rows side by side
  const int groups = c.m / (4 * lane_rows);
  const int t = item / 4;
  return {t / groups * lane_blocks + q / lane_rows,
          item % 4 + 4 * (q % lane_rows + lane_rows * (t % groups)), column};
}

// The inverse: which lane and item hold element (block, row, column) of C and D.
struct Slot {
  int lane, item;
};
HD Slot slot_of_output(const Config& c, const Modifiers& mod, const Output& o) {
  if (c.algorithm == FMA64) {
    if (c.blocks == 1) return {16 * (o.row % 4) + o.column, o.row / 4};
    if (mod.formula_output) return {4 * o.row + 16 * o.block + o.column, 0};
    return {16 * o.row + 4 * o.block + o.column, 0};
  }
  const int area = c.m * c.n / 4;
  const int lane_blocks = area >= LANES ? 1 : LANES / area;
  const int lane_rows = LANES / lane_blocks / c.n;
  const int groups = c.m / (4 * lane_rows);
  const int group = o.row / (4 * lane_rows) + groups * (o.block / lane_blocks);
  return {o.column + c.n * (o.row / 4 % lane_rows + lane_rows * (o.block % lane_blocks)),
          o.row % 4 + 4 * group};
}
