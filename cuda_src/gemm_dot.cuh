// One step of a dot product for each arithmetic: integers, chains of FMAs, fused tensor-core sums.
//
// Each struct names its operand and accumulator types and has `step`, which takes Rule.group
// products.
#pragma once
#include "gemm_formats.cuh"

// The facts of a fused sum; see TensorCore in gpuemu/gemm/instructions.py.
struct GemmRule {
  int group, fraction, zero_exponent, output_fraction, least_a, least_b, through_f16;
};

struct GemmInteger32 {
  using Operand = u32;
  using Acc = u32;
  static HD void step(Acc& acc, const Operand* a, const Operand* b, GemmRule) { acc += *a * *b; }
  static HD u64 bits(Acc acc) { return acc; }
};

struct GemmInteger64 {
  using Operand = u64;
  using Acc = u64;
  static HD void step(Acc& acc, const Operand* a, const Operand* b, GemmRule) { acc += *a * *b; }
  static HD u64 bits(Acc acc) { return acc; }
};

struct GemmChain32 {
  using Operand = float;
  using Acc = float;
  static HD void step(Acc& acc, const Operand* a, const Operand* b, GemmRule) {
    acc = fma_f32(*a, *b, acc);
  }
  static HD u64 bits(Acc acc) { return float_to_bits(acc); }
};

struct GemmChain64 {
  using Operand = double;
  using Acc = double;
  static HD void step(Acc& acc, const Operand* a, const Operand* b, GemmRule) {
    acc = fma_f64(*a, *b, acc);
  }
  static HD u64 bits(Acc acc) { return double_to_bits(acc); }
};

// A product of two halves is exact in f32. Its sum with a half is formed in f64 and, where inexact,
// its last bit set, so that rounding it to f16 rounds only once.
struct GemmChain16 {
  using Operand = double;
  using Acc = float;
  static HD void step(Acc& acc, const Operand* a, const Operand* b, GemmRule) {
    double x = gemm_f16_to_f32(gemm_f64_to_f16(*a)), y = gemm_f16_to_f32(gemm_f64_to_f16(*b));
    double product = x * y, c = acc;
    double sum = product + c;
    double part = sum - product;
    double error = (product - (sum - part)) + (c - part);
    u64 bits = double_to_bits(sum);
    // sum - sum is NaN for infinities and NaNs, which need no care.
    if (sum - sum == 0 && error != 0 && (bits & 1) == 0)
      bits += (error > 0) == (sum > 0) ? 1 : ~(u64)0;
    acc = gemm_f16_to_f32(gemm_f64_to_f16(bits_to_double(bits)));
  }
  static HD u64 bits(Acc acc) { return gemm_f64_to_f16(acc); }
};

// One operand of a fused sum: |value| = significand * 2^(exponent - 23), with the exponent that
// counts for alignment kept apart, for it stops at that of the format's least normal number.
struct GemmTerm {
  u64 significand;
  int exponent, aligned;
  bool negative;
};

HD GemmTerm gemm_term(float x, int least) {
  u32 bits = float_to_bits(x);
  int field = (int)(bits >> 23 & 255);
  GemmTerm term;
  term.significand = (bits & 0x7FFFFF) | (field ? 0x800000u : 0u);
  term.exponent = max_of(field, 1) - 127;
  // A subnormal f32 lies below the least normal number of every format but those of f32's range.
  term.aligned = max_of(term.exponent, least);
  term.negative = bits >> 31;
  return term;
}

// Cut towards zero: significand * 2^(weight), in units of 2^unit.
HD i64 gemm_cut(u64 significand, int weight, int unit, bool negative) {
  if (significand == 0) return 0;  // the weight of a zero may be anything
  int shift = weight - unit;
  u64 magnitude = shift >= 0 ? significand << shift : shift > -64 ? significand >> -shift : 0;
  return negative ? -(i64)magnitude : (i64)magnitude;
}

// Which products of a group are added together: all of them, or two of every four along k.
struct GemmSome {
  int count, half;  // half: -1 for all, 0 for the lower two, 1 for the upper two
  HD int operator()(int i) const { return half < 0 ? i : i / 2 * 4 + i % 2 + 2 * half; }
};

// Infinities and NaNs, by IEEE rules; returns whether there are any.
HD bool gemm_special_sum(float acc, const float* a, const float* b, GemmSome some, float* result) {
  bool special = acc - acc != 0;
  float sum = special ? acc : 0.0f;
  for (int i = 0; i < some.count; i++) {
    float x = a[some(i)], y = b[some(i)];
    if (x - x == 0 && y - y == 0) continue;
    special = true;
    sum = add_f32(sum, mul_f32(x, y));
  }
  if (special) *result = sum;
  return special;
}

template <bool HALF>
struct GemmFused {
  using Operand = float;
  using Acc = float;  // a half is held as its value

  static HD void step(Acc& acc, const Operand* a, const Operand* b, GemmRule rule) {
    if (!rule.through_f16) return add(acc, a, b, rule, GemmSome{rule.group, -1});
    Acc total = 0;
    add(total, a, b, rule, GemmSome{rule.group / 2, 0});
    add(total, a, b, rule, GemmSome{rule.group / 2, 1});
    acc = add_f32(total, acc);
  }

  static HD void add(Acc& acc, const Operand* a, const Operand* b, GemmRule rule, GemmSome some) {
    if (gemm_special_sum(acc, a, b, some, &acc)) return;
    GemmTerm c = gemm_term(acc, HALF ? -14 : -126);
    int top = c.significand ? c.aligned : rule.zero_exponent;
    for (int i = 0; i < some.count; i++) {
      GemmTerm x = gemm_term(a[some(i)], rule.least_a), y = gemm_term(b[some(i)], rule.least_b);
      top =
          max_of(top, x.significand && y.significand ? x.aligned + y.aligned : rule.zero_exponent);
    }
    int unit = top - rule.fraction;
    i64 sum = gemm_cut(c.significand, c.exponent - 23, unit, c.negative);
    for (int i = 0; i < some.count; i++) {
      GemmTerm x = gemm_term(a[some(i)], rule.least_a), y = gemm_term(b[some(i)], rule.least_b);
      sum += gemm_cut(x.significand * y.significand, x.exponent + y.exponent - 46, unit,
                      x.negative != y.negative);
    }
    acc = round(sum, unit, rule.output_fraction);
  }

  // A sum that is or becomes zero is +0.
  static HD float round(i64 sum, int unit, int fraction) {
    u64 magnitude = sum < 0 ? (u64)-sum : (u64)sum;
    u32 sign = sum < 0;
    if (HALF) {
      u32 half = gemm_round_magnitude(magnitude, unit, 10, -14, 0x7C00, true);
      return half ? gemm_f16_to_f32((u16)(sign << 15 | half)) : 0.0f;
    }
    // As `fraction` bits first; widened to f32's 23 by zeros.
    u32 bits = gemm_round_magnitude(magnitude, unit, fraction, -126, 0x7F800000u >> (23 - fraction),
                                    false);
    return bits ? bits_to_float(sign << 31 | bits << (23 - fraction)) : 0.0f;
  }

  static HD u64 bits(Acc acc) { return HALF ? gemm_f64_to_f16(acc) : float_to_bits(acc); }
};
