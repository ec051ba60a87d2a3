// dot, model "exact": accumulator and products of a link summed without error, rounded once.
#pragma once
#include "mfma_dot.cuh"
#include "mfma_special.cuh"

HD i128 shift_wide(i64 x, int shift) { return (i128)((u128)(i128)x << shift); }

// A fixed-point number of 20 words with unit 2^-320: every binary32 and every product of two of
// them fits, and so do the sums of a link.
struct Superaccumulator {
  static const int WORDS = 20;
  static const int UNIT = -320;
  u32 word[WORDS] = {};

  HD void add(i64 value, int unit) {
    const int offset = unit - UNIT;
    const i128 wide = shift_wide(value, offset % 32);
    i64 carry = 0;
    for (int w = offset / 32, part = 0; w < WORDS; ++w, ++part) {
      const u32 piece = (u32)(part < 4 ? wide >> (32 * part) : wide >> 127);
      const u64 sum = (u64)word[w] + piece + (u64)carry;
      word[w] = (u32)sum;
      carry = (i64)(sum >> 32);
    }
  }

  HD u32 rounded(int rounding) {
    const bool negative = word[WORDS - 1] >> 31;
    if (negative) {
      u64 carry = 1;
      for (int w = 0; w < WORDS; ++w) {
        carry += (u32)~word[w];
        word[w] = (u32)carry;
        carry >>= 32;
      }
    }
    int top = WORDS - 1;
    while (top > 0 && word[top] == 0) --top;
    const int low = top > 0 ? top - 1 : 0;
    bool sticky = false;
    for (int w = 0; w < low; ++w) sticky = sticky || word[w] != 0;
    const u64 magnitude = top > 0 ? (u64)word[top] << 32 | word[low] : word[low];
    return pack_magnitude(negative, magnitude, UNIT + 32 * low, sticky, rounding);
  }
};

HD u32 pack_wide(i128 value, int unit, int rounding) {
  const bool negative = value < 0;
  u128 magnitude = negative ? (u128)-value : (u128)value;
  bool sticky = false;
  const u64 high = (u64)(magnitude >> 64);
  if (high) {
    const int shift = 64 - clz64(high);
    sticky = (magnitude & (((u128)1 << shift) - 1)) != 0;
    magnitude >>= shift;
    unit += shift;
  }
  return pack_magnitude(negative, (u64)magnitude, unit, sticky, rounding);
}

struct Exact : Dot<Exact> {
  using Value = Item;
  using Accumulator = u32;

  HD static Value load(const Config& c, const Operand& o, u64 code) {
    return decode(o, (u32)code, c.flush_inputs);
  }
  HD static u32 start(const Config& c, u32 d) { return c.flush_inputs ? flush_to_plus_zero(d) : d; }
  HD static u32 finish(u32 d) { return is_nan32(d) ? QUIET_NAN : d; }

  template <class Fetch>
  COLD static u32 special(const Config& c, u32 d, int first, Fetch fetch) {
    Specials s;
    s.accumulator(d);
    ROLLED for (int t = 0; t < c.group; ++t) {
      Value a, b;
      fetch(first + t, a, b);
      s.product(a, b, c.a.used_bits + c.b.used_bits, c.product_overflow);
    }
    return s.any() ? s.result() : 0;
  }

  // Terms too far apart for 63 bits: 127 bits, or else a fixed-point number that holds everything.
  template <class Fetch>
  COLD static u32 wide(const Config& c, u32 d, int first, Fetch fetch, int low, bool fits_128) {
    const Item x = decode32(d);
    const int fraction = c.a.used_bits + c.b.used_bits;
    i128 sum = fits_128 && x.significand ? shift_wide(x.significand, x.exponent - 23 - low) : 0;
    Superaccumulator all;
    if (!fits_128 && x.significand) all.add(x.significand, x.exponent - 23);
    ROLLED for (int t = 0; t < c.group; ++t) {
      Value a, b;
      fetch(first + t, a, b);
      const i64 p = (i64)a.significand * b.significand;
      const int unit = a.exponent + b.exponent - fraction;
      if (p && fits_128) sum += shift_wide(p, unit - low);
      if (p && !fits_128) all.add(p, unit);
    }
    return fits_128 ? pack_wide(sum, low, c.output_rounding) : all.rounded(c.output_rounding);
  }

  // The terms of a link: accumulator and products; each is below 2^(high + 2) and a multiple of
  // 2^low.
  struct Terms {
    Item x;
    i64 p[MAX_LINK];
    int high, low;

    HD Terms(const Config& c, u32 d, const Value* a, const Value* b) : x(decode32(d)) {
      const int fraction = c.a.used_bits + c.b.used_bits;
      high = x.significand ? x.exponent : 2 * ZERO_EXPONENT;
      low = x.significand ? x.exponent - 23 : -ZERO_EXPONENT;
      UNROLL_LINK for (int t = 0; t < c.group; ++t) {
        const int e = a[t].exponent + b[t].exponent;
        p[t] = fraction + 2 <= 31 ? (i64)(a[t].significand * b[t].significand)
                                  : (i64)a[t].significand * b[t].significand;
        high = max_of(high, e);
        if (p[t]) low = min_of(low, e - fraction);
      }
    }
    HD bool extreme(const Config& c, u32 d) const {
      const int limit = c.product_overflow ? 127 : SPECIAL_EXPONENT / 4;
      return (high >= limit) | !is_finite32(d);
    }
    // Bits that the sum takes.
    HD int width(const Config& c) const {
      const int carries = 32 - clz32((u32)c.group);
      return high + 2 + carries - low;
    }
    // The sum in units of 2^low, where it fits.
    HD i64 sum(const Config& c, const Value* a, const Value* b) const {
      const int fraction = c.a.used_bits + c.b.used_bits;
      i64 sum = x.significand ? shift_left(x.significand, x.exponent - 23 - low) : 0;
      UNROLL_LINK for (int t = 0; t < c.group; ++t) sum +=
          p[t] ? shift_left(p[t], a[t].exponent + b[t].exponent - fraction - low) : 0;
      return sum;
    }
  };

  HD static u32 link_sure(const Config& c, u32 d, const Value* a, const Value* b, const int*,
                          bool& sure) {
    Terms terms(c, d, a, b);
    const bool fits = !terms.extreme(c, d) & (terms.width(c) < 63);
    const i32 keep = -(i32)fits;  // as a mask: a branch would not become vector code
    terms.x.significand &= keep;
    UNROLL_LINK for (int t = 0; t < c.group; ++t) terms.p[t] &= keep;
    const i64 sum = terms.sum(c, a, b);
    // Of zeros alone, low is beyond every binary64.
    const u32 bits = pack_normal(sum, min_of(terms.low, 512));
    const bool right = (bits & INFINITY_BITS) != 0 || sum == 0;
    sure = sure & fits & right & (c.output_rounding == TO_NEAREST);
    return c.flush_outputs ? flush_subnormal(bits) : bits;
  }

  template <class Fetch>
  HD static u32 link(const Config& c, u32 d, const Value* a, const Value* b, const int*, int first,
                     Fetch fetch, int) {
    const Terms terms(c, d, a, b);
    if (terms.extreme(c, d)) {
      const u32 found = special(c, d, first, fetch);
      if (found) return found;
    }
    const int low = terms.low;
    if (low > terms.high) return 0;  // nothing but zeros: +0
    const int width = terms.width(c);
    const u32 result = width < 63 ? pack_i64(terms.sum(c, a, b), low, c.output_rounding)
                                  : wide(c, d, first, fetch, low, width < 127);
    return c.flush_outputs ? flush_subnormal(result) : result;
  }
};
