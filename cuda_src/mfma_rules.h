// The arithmetic of the built-in models as constants, so that the host compiler unrolls and folds
// as NVRTC does: the fields of Config that a chain of tame links reads, the rest zero.
#pragma once
#include <cstring>
#include <type_traits>

#include "mfma_batch.cuh"

namespace mfma_host {

constexpr Config rule(int algorithm, int group, int used_bits) {
  Config c = {};
  c.algorithm = algorithm;
  c.group = group;
  c.interleave = 1;
  c.a.used_bits = c.b.used_bits = used_bits;
  c.output_rounding = TO_NEAREST;
  return c;
}

constexpr Config pairwise_rule(int group, int flush_outputs) {
  Config c = rule(PAIRWISE, group, 0);
  c.flush_inputs = 1;
  c.flush_outputs = flush_outputs;
  return c;
}

constexpr Config aligned_rule(int group, int interleave, int drop_tiny) {
  Config c = rule(ALIGNED, group, 0);
  c.interleave = interleave;
  c.narrow = 1;
  c.product_bits = c.accumulator_bits = 24;
  c.sum_bits = 32;
  c.result_bits = 31;
  c.merge_rounding = c.sum_rounding = c.accumulator_rounding = c.result_rounding = DOWN;
  c.drop_tiny = drop_tiny;
  return c;
}

constexpr Config RULES[] = {
    rule(INTEGER, 4, 0),   rule(INTEGER, 8, 0),    rule(EXACT, 4, 10),     rule(EXACT, 2, 7),
    pairwise_rule(4, 0),   pairwise_rule(4, 1),    pairwise_rule(2, 1),    aligned_rule(4, 1, 0),
    aligned_rule(8, 1, 0), aligned_rule(16, 2, 1), aligned_rule(32, 2, 1),
};

// Whether links of a rule are right whatever their values are.
template <int RULE>
constexpr bool ALWAYS_SURE = RULES[RULE].algorithm == PAIRWISE || RULES[RULE].algorithm == INTEGER;

const int RULE_COUNT = sizeof RULES / sizeof *RULES;

// What a chain of tame links reads of a Config.
inline Config rule_of(const Config& full) {
  Config c = rule(full.algorithm, full.group, 0);
  c.flush_inputs = full.flush_inputs;
  c.flush_outputs = full.flush_outputs;
  if (c.algorithm == INTEGER) {
    // A chain of any link length has the same bits: up to 8 products that divide it.
    c.group = min_of(full.k & -full.k, 8);
    return c;
  }
  c.output_rounding = full.output_rounding;
  if (c.algorithm == EXACT) {
    c.a.used_bits = full.a.used_bits;
    c.b.used_bits = full.b.used_bits;
    c.product_overflow = full.product_overflow;
  }
  if (c.algorithm != ALIGNED) return c;
  c.interleave = full.interleave;
  c.narrow = full.narrow;
  // Products come shifted to product_bits; otherwise it matters how many bits they have.
  if (!full.narrow || full.product_bits < full.a.used_bits + full.b.used_bits) {
    c.a.used_bits = full.a.used_bits;
    c.b.used_bits = full.b.used_bits;
  }
  c.product_bits = full.product_bits;
  c.product_rounding = full.product_rounding;
  c.merge_rounding = full.merge_rounding;
  c.sum_bits = full.sum_bits;
  c.sum_rounding = full.sum_rounding;
  c.accumulator_bits = full.accumulator_bits;
  c.accumulator_rounding = full.accumulator_rounding;
  c.result_bits = full.result_bits;
  c.result_rounding = full.result_rounding;
  c.drop_tiny = full.drop_tiny;
  return c;
}

// The number formats of their operands: the fields of Operand up to used_bits.
constexpr Operand FORMATS[] = {
    {32, 8, 23, 127, NAN_IEEE, 10, 0, 0, 0, 0},       // xf32
    {16, 5, 10, 15, NAN_IEEE, 10, 0, 0, 0, 0},        // f16
    {16, 8, 7, 127, NAN_IEEE, 7, 0, 0, 0, 0},         // bf16
    {8, 4, 3, 8, NAN_NEGATIVE_ZERO, 3, 0, 0, 0, 0},   // f8e4m3fnuz
    {8, 5, 2, 16, NAN_NEGATIVE_ZERO, 2, 0, 0, 0, 0},  // f8e5m2fnuz
    {8, 4, 3, 7, NAN_ALL_ONES, 3, 0, 0, 0, 0},        // f8e4m3fn
    {8, 5, 2, 15, NAN_IEEE, 2, 0, 0, 0, 0},           // f8e5m2
    {8, 0, 0, 0, NAN_NONE, 0, 0, 0, 0, 0},            // i8
};
const int FORMAT_COUNT = sizeof FORMATS / sizeof *FORMATS;

// Whether a rule's instructions may have a format, so that others are not compiled.
constexpr bool takes_format(const Config& rule, const Operand& format) {
  switch (rule.algorithm) {
    case INTEGER:
      return format.mantissa_bits == 0;
    case EXACT:
    case PAIRWISE:
      return format.bits == 16;
    default:
      return format.mantissa_bits > 0 &&
             (rule.group > 8 ? format.bits <= 16 : format.bits == 16 || format.used_bits == 10);
  }
}

inline bool has_format(const Operand& o, int format) {
  return std::memcmp(&o, &FORMATS[format], 6 * sizeof(int)) == 0;
}

inline bool follows(const Config& c, int rule) {
  const Config own = rule_of(c);
  return std::memcmp(&own, &RULES[rule], sizeof own) == 0;
}

// The type of a rule's links.
template <int RULE>
struct AlgorithmOf {
  static const int NAME = RULES[RULE].algorithm;
  template <int name, class Then, class Else>
  using If = std::conditional_t<NAME == name, Then, Else>;
  using type = If<EXACT, Exact, If<PAIRWISE, Pairwise, If<INTEGER, Integer, Aligned<i32>>>>;
};

}  // namespace mfma_host
