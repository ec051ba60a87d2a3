// dot, model "aligned": products of a link aligned to their largest exponent and cut off, summed,
// merged with the accumulator at a common exponent, rounded to binary32.
#pragma once
#include "mfma_special.cuh"

const int MAX_LINK = 64;
const int MAX_INTERLEAVE = 4;

// Word holds the partial sums: 32 bits where Config::narrow says that they fit, else 64.
template <class Word>
struct Aligned {
  using Value = Item;
  using Accumulator = u32;
  static const int OUTPUTS_AT_ONCE = 1;  // of a lane, unrolled

  HD static Value load(const Config& c, const Operand& o, u64 code) {
    return decode(o, (u32)code, c.flush_inputs);
  }

  // A product in units of 2^(largest exponent - product_bits), `below` binades under that exponent.
  HD static Word align(const Config& c, i32 a, i32 b, int below) {
    const int up = c.product_bits - c.a.used_bits - c.b.used_bits;
    if (sizeof(Word) == 4) {
      const i32 p = a * b;
      const i32 sign = p >> 31;
      const u32 magnitude = (u32)((p ^ sign) - sign);
      const int shift = min_of(up >= 0 ? below : below - up, 31);
      const i32 cut = (i32)((up >= 0 ? magnitude << up : magnitude) >> shift);
      return (Word)((cut ^ sign) - sign);
    }
    return (Word)shift_round((i64)a * b, below - up, c.product_rounding);
  }

  template <class Fetch>
  COLD static u32 special(const Config& c, u32 d, int first, Fetch fetch, int scale_exponent) {
    Specials s;
    s.accumulator(d);
    if (scale_exponent >= SPECIAL_EXPONENT) s.nan = true;
    ROLLED for (int t = 0; t < c.group; ++t) {
      Value a, b;
      fetch(first + t, a, b);
      s.product(a, b, c.a.used_bits + c.b.used_bits, c.product_overflow);
    }
    return s.any() ? s.result() : 0;
  }

  template <class Fetch, class Scale>
  HD static u32 link(const Config& c, u32 d, int first, Fetch fetch, Scale scale) {
    Value a[MAX_LINK], b[MAX_LINK];
    int slot[MAX_LINK];
    int top[MAX_INTERLEAVE] = {};
    UNROLL for (int g = 0; g < c.interleave; ++g) top[g] = 2 * ZERO_EXPONENT;
    UNROLL for (int t = 0; t < c.group; ++t) {
      slot[t] = fetch(first + t, a[t], b[t]) % c.interleave;
      UNROLL for (int g = 0; g < c.interleave; ++g) if (slot[t] == g) top[g] =
          max_of(top[g], a[t].exponent + b[t].exponent);
    }
    int e_dot = top[0];
    UNROLL for (int g = 1; g < c.interleave; ++g) e_dot = max_of(e_dot, top[g]);
    const int scale_exponent = c.scaled ? scale(first) : 0;
    if (e_dot >= 127 || scale_exponent >= SPECIAL_EXPONENT || !is_finite32(d)) {
      const u32 found = special(c, d, first, fetch, scale_exponent);
      if (found) return found;
    }

    Word sum[MAX_INTERLEAVE] = {};
    UNROLL for (int t = 0; t < c.group; ++t)
        UNROLL for (int g = 0; g < c.interleave; ++g) if (slot[t] == g) sum[g] +=
        align(c, a[t].significand, b[t].significand, top[g] - a[t].exponent - b[t].exponent);
    i64 total = sum[0];
    if (c.interleave > 1) {
      total = 0;
      UNROLL for (int g = 0; g < c.interleave; ++g) total +=
          shift_round(sum[g], e_dot - top[g], c.merge_rounding);
    }
    return merge(c, d, total, e_dot + scale_exponent);
  }

  // The products' sum, in units of 2^(e_dot - product_bits), and the accumulator: aligned, added,
  // rounded.
  HD static u32 merge(const Config& c, u32 d, i64 total, int e_dot) {
    const int field = (int)(d >> 23 & 0xFF), e_c = max_of(field, 1) - 127;
    const i32 magnitude = (i32)(d & 0x7FFFFF) | (field ? 0x800000 : 0);
    const i32 significand = d >> 31 ? -magnitude : magnitude;
    const int e = max_of(e_dot, e_c);
    const int bits = max_of(c.sum_bits, c.accumulator_bits);
    i64 s = shift_left(shift_round(total, e - e_dot - c.sum_bits + c.product_bits, c.sum_rounding),
                       bits - c.sum_bits);
    if (!(c.drop_tiny && e_c < e - c.accumulator_bits - 1))
      s += shift_left(
          shift_round(significand, e - c.accumulator_bits - (e_c - 23), c.accumulator_rounding),
          bits - c.accumulator_bits);
    int unit = e - bits;
    const int e_s = max_of(63 - clz64(s < 0 ? (u64)-s : (u64)s) + unit, -126);
    const int surplus = e_s - c.result_bits - unit;
    if (surplus > 0) {
      s = shift_round(s, surplus, c.result_rounding);
      unit += surplus;
    }
    return pack(s, unit, c.output_rounding);
  }

  template <class Fetch, class Scale>
  HD static u32 dot(const Config& c, u32 d, Fetch fetch, Scale scale) {
    if (c.flush_inputs) d = flush_to_plus_zero(d);
    UNROLL for (int k = 0; k < c.products; k += c.group) {
      d = link(c, d, k, fetch, scale);
      if (c.flush_outputs) d = flush_subnormal(d);
    }
    return is_nan32(d) ? QUIET_NAN : d;
  }
};
