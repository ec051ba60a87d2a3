// dot, model "exact": accumulator and products of a link summed without error, rounded once.
#pragma once
#include "mfma_special.cuh"

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

// A fixed-point number of 20 words with unit 2^-320: every binary32 and every product of two of them
// fits, and so do the sums of a link.
struct Superaccumulator {
  static const int WORDS = 20;
  static const int UNIT = -320;
  u32 word[WORDS] = {};

  HD void add(i64 value, int unit) {
    const int offset = unit - UNIT;
    const i128 wide = (i128)((u128)(i128)value << (offset % 32));
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

struct Exact {
  using Value = Item;
  using Accumulator = u32;

  HD static Value load(const Config& c, const Operand& o, u64 code) { return decode(o, (u32)code, c.flush_inputs); }

  template <class Fetch>
  HD static u32 link(const Config& c, u32 d, int first, Fetch fetch) {
    const int fraction = c.a.used_bits + c.b.used_bits;
    const int d_field = (int)(d >> 23 & 0xFF), d_exponent = max_of(d_field, 1) - 127;
    const i32 d_magnitude = (i32)(d & 0x7FFFFF) | (d_field ? 0x800000 : 0);
    const i32 d_significand = d >> 31 ? -d_magnitude : d_magnitude;
    int high = d_magnitude ? d_exponent : ZERO_EXPONENT * 2, low = d_magnitude ? d_exponent - 23 : -ZERO_EXPONENT;
    UNROLL for (int t = 0; t < c.group; ++t) {
      Value a, b;
      fetch(first + t, a, b);
      const int e = a.exponent + b.exponent;
      high = max_of(high, e);
      if (a.significand != 0 && b.significand != 0) low = min_of(low, e - fraction);
    }
    if (high >= SPECIAL_EXPONENT / 4 || !is_finite32(d)) {
      Specials s;
      s.accumulator(d);
      for (int t = 0; t < c.group; ++t) {
        Value a, b;
        fetch(first + t, a, b);
        s.product(a, b, fraction, c.product_overflow);
      }
      if (s.any()) return s.result();
    }
    if (low > high) return 0;  // nothing but zeros: +0
    // A product is below 2^(e + 2), a link has at most 2^8 of them.
    if (high + 10 - low < 127) {
      i128 sum = d_magnitude ? (i128)((u128)(i128)d_significand << (d_exponent - 23 - low)) : (i128)0;
      UNROLL for (int t = 0; t < c.group; ++t) {
        Value a, b;
        fetch(first + t, a, b);
        const i64 p = (i64)a.significand * b.significand;
        const int shift = p ? a.exponent + b.exponent - fraction - low : 0;
        sum += (i128)((u128)(i128)p << shift);
      }
      return sum == 0 ? 0 : pack_wide(sum, low, c.output_rounding);
    }
    Superaccumulator sum;
    if (d_magnitude) sum.add(d_significand, d_exponent - 23);
    for (int t = 0; t < c.group; ++t) {
      Value a, b;
      fetch(first + t, a, b);
      const i64 p = (i64)a.significand * b.significand;
      if (p) sum.add(p, a.exponent + b.exponent - fraction);
    }
    return sum.rounded(c.output_rounding);
  }

  template <class Fetch, class Scale>
  HD static u32 dot(const Config& c, u32 d, Fetch fetch, Scale) {
    if (c.flush_inputs) d = flush_to_plus_zero(d);
    UNROLL for (int k = 0; k < c.products; k += c.group) {
      d = link(c, d, k, fetch);
      if (c.flush_outputs) d = flush_subnormal(d);
    }
    return is_nan32(d) ? QUIET_NAN : d;
  }
};
