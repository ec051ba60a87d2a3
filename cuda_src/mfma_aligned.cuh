// dot, model "aligned": products of a link aligned to their largest exponent and cut off, summed,
// merged with the accumulator at a common exponent, rounded to binary32.
#pragma once
#include "mfma_dot.cuh"
#include "mfma_special.cuh"

const int MAX_INTERLEAVE = 4;

// Word holds the partial sums: 32 bits where Config::narrow says that they fit, else 64.
template <class Word>
struct Aligned : Dot<Aligned<Word>> {
  using Value = Item;
  using Accumulator = u32;

  HD static Value load(const Config& c, const Operand& o, u64 code) {
    return decode(o, (u32)code, c.flush_inputs);
  }
  HD static u32 start(const Config& c, u32 d) { return c.flush_inputs ? flush_to_plus_zero(d) : d; }
  HD static u32 finish(u32 d) { return is_nan32(d) ? QUIET_NAN : d; }

  // A product in units of 2^(largest exponent - product_bits), `below` binades under that exponent.
  HD static Word align(const Config& c, i32 a, i32 b, int below) {
    const int up = c.product_bits - c.a.used_bits - c.b.used_bits;
    if (sizeof(Word) == 4) {
      const i32 p = a * b;  // already shifted by `up` where that is positive
      const i32 sign = p >> 31;
      const i32 cut = (i32)shift_right((u32)((p ^ sign) - sign), below - min_of(up, 0));
      return (Word)((cut ^ sign) - sign);
    }
    return (Word)align_sum((i64)a * b, up, below, c.product_rounding);
  }

  template <class Fetch>
  COLD static u32 special(const Config& c, u32 d, int first, Fetch fetch, int scale_exponent) {
    Specials s;
    s.accumulator(d);
    if (scale_exponent >= SPECIAL_EXPONENT) s.nan = true;
    ROLLED for (int t = 0; t < c.group; ++t) {
      Value a, b;
      fetch(first + t, a, b);
      s.product(a, b, c.a.used_bits + c.b.used_bits + c.b.shift, c.product_overflow);
    }
    return s.any() ? s.result() : 0;
  }

  // Where items, accumulator and scale are all tame, no step of a chain is infinite or NaN: a
  // product is below 2^112 (of scaled formats, which end below 2^16, below 2^(32 + 62)), the sum of
  // the 128 of a chain below 2^119, C below 2^125.
  HD static bool tame_item(const Value& x) { return x.exponent < 56; }
  HD static bool tame_accumulator(u32 d) { return (d & 0x7FFFFFFFu) < 0x7E000000u; }
  HD static bool tame_scale(int exponent) { return exponent <= 62; }

  template <class Fetch>
  HD static u32 link_tame(const Config& c, u32 d, const Value* a, const Value* b, const int* slot,
                          int first, Fetch fetch, int scale_exponent) {
    return link<false>(c, d, a, b, slot, first, fetch, scale_exponent);
  }

  template <bool CHECKED = true, class Fetch>
  HD static u32 link(const Config& c, u32 d, const Value* a, const Value* b, const int* slot,
                     int first, Fetch fetch, int scale_exponent) {
    int top[MAX_INTERLEAVE] = {};
    UNROLL_LINK for (int g = 0; g < c.interleave; ++g) {
      top[g] = 2 * ZERO_EXPONENT;
      UNROLL_LINK for (int t = 0; t < c.group; ++t) if (slot[t] == g) top[g] =
          max_of(top[g], a[t].exponent + b[t].exponent);
    }
    int e_dot = top[0];
    UNROLL_LINK for (int g = 1; g < c.interleave; ++g) e_dot = max_of(e_dot, top[g]);
    if (CHECKED && (e_dot >= 127 || scale_exponent >= SPECIAL_EXPONENT || !is_finite32(d))) {
      const u32 found = special(c, d, first, fetch, scale_exponent);
      if (found) return found;
    }

    i64 total = 0;
    UNROLL_LINK for (int g = 0; g < c.interleave; ++g) {
      Word sum = 0;
      UNROLL_LINK for (int t = 0; t < c.group; ++t) if (slot[t] == g) sum +=
          align(c, a[t].significand, b[t].significand, top[g] - a[t].exponent - b[t].exponent);
      total += c.interleave == 1 ? sum : shift_round(sum, e_dot - top[g], c.merge_rounding);
    }
    const u32 result = merge(c, d, total, e_dot + scale_exponent);
    return c.flush_outputs ? flush_subnormal(result) : result;
  }

  // The products' sum, in units of 2^(e_dot - product_bits), and the accumulator: aligned, added,
  // rounded.
  HD static u32 merge(const Config& c, u32 d, i64 total, int e_dot) {
    const Item x = decode32(d);
    const int e = max_of(e_dot, x.exponent);
    const int bits = max_of(c.sum_bits, c.accumulator_bits);
    i64 s = shift_left(align_sum(total, c.sum_bits - c.product_bits, e - e_dot, c.sum_rounding),
                       bits - c.sum_bits);
    if (!(c.drop_tiny && x.exponent < e - c.accumulator_bits - 1))
      s += shift_left(
          align_sum(x.significand, c.accumulator_bits - 23, e - x.exponent, c.accumulator_rounding),
          bits - c.accumulator_bits);
    int unit = e - bits;
    const int e_s = max_of(exponent_of(s) + unit, -126);
    const int surplus = max_of(e_s - c.result_bits - unit, 0);
    s = shift_round(s, surplus, c.result_rounding);
    return pack_small(s, unit + surplus, c.output_rounding);
  }

  // x * 2^(up - down), rounded; down >= 0.
  HD static i64 align_sum(i64 x, int up, int down, int rounding) {
    return up >= 0 ? shift_round(shift_left(x, up), down, rounding)
                   : shift_round(x, down - up, rounding);
  }
};
