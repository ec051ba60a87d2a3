// Where a matrix element lies, and how complex products become real ones along an alternating k.
#pragma once
#include "gemm_formats.cuh"

enum GemmKind { GEMM_INTEGER, GEMM_CHAIN, GEMM_FUSED };

// A matrix in memory: element format, leading dimension in elements, storage order.
struct GemmView {
  int format;
  i64 leading;
  int col_major;
};

HD i64 gemm_index(const GemmView& view, i64 row, i64 column) {
  return view.col_major ? row + column * view.leading : row * view.leading + column;
}

// Which real product is formed: output 0 is the real part, ar br - ai bi; 1 the imaginary, ar bi +
// ai br. Both run along a k of twice the length that alternates between the two products every
// `step`.
struct GemmPart {
  int parts, step, output;
  bool is_b;
};

// Where position `at` of the (alternating) k comes from: k itself, the component, and whether it
// counts negative.
struct GemmPosition {
  i64 k;
  int component;
  bool negated;
};

HD GemmPosition gemm_position(i64 at, const GemmPart& part) {
  if (part.parts == 1) return GemmPosition{at, 0, false};
  i64 block = at / (2 * part.step), inside = at % (2 * part.step);
  int second = inside >= part.step;
  int component = part.is_b && part.output ? !second : second;
  return GemmPosition{block * part.step + inside % part.step, component,
                      !part.is_b && second && !part.output};
}

// The index in memory, in parts of elements, for row `row` of A or column `row` of B.
HD i64 gemm_part_index(const GemmView& view, i64 row, const GemmPosition& from,
                       const GemmPart& part) {
  i64 index = part.is_b ? gemm_index(view, from.k, row) : gemm_index(view, row, from.k);
  return index * part.parts + from.component;
}

// The operand at position `at` of the (alternating) k, as its accumulator sees it.
template <class Operand>
HD Operand gemm_part_operand(const GemmView& view, const void* memory, i64 row, i64 at,
                             const GemmPart& part) {
  GemmPosition from = gemm_position(at, part);
  Operand x = gemm_operand<Operand>(view.format, memory, gemm_part_index(view, row, from, part));
  return from.negated ? (Operand)(-x) : x;
}
