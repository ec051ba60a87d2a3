// Infinities and NaNs of a fused sum, off the hot path: they are looked for only where an exponent
// says so.
#pragma once
#include "mfma_round.cuh"

struct Specials {
  bool nan = false, plus = false, minus = false;

  HD void infinity(bool negative) { negative ? minus = true : plus = true; }

  // A product that is not a finite number; `overflow` makes 2^128 and more an infinity. Returns
  // whether it is one.
  HD bool product(const Item& a, const Item& b, int fraction_bits, bool overflow) {
    const bool negative = (a.significand < 0) != (b.significand < 0);
    if (a.exponent >= SPECIAL_EXPONENT || b.exponent >= SPECIAL_EXPONENT) {
      if (a.significand == 0 || b.significand == 0)
        nan = true;  // a NaN, or an infinity times zero
      else
        infinity(negative);
      return true;
    }
    const i64 p = (i64)a.significand * b.significand;
    const u64 magnitude = p < 0 ? (u64)-p : (u64)p;
    const int exponent = a.exponent + b.exponent + (magnitude >> (fraction_bits + 1) ? 1 : 0);
    if (!overflow || magnitude == 0 || exponent < 128) return false;
    infinity(negative);
    return true;
  }

  HD void accumulator(u32 c) {
    if (is_nan32(c))
      nan = true;
    else if (!is_finite32(c))
      infinity(c >> 31);
  }

  HD bool any() const { return nan || plus || minus; }

  HD u32 result() const {
    return nan || (plus && minus) ? QUIET_NAN : INFINITY_BITS | (minus ? 0x80000000u : 0);
  }
};
