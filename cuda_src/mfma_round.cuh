// round_pack and decode: between bits and sign, exponent, significand.
#pragma once
#include "mfma_config.cuh"

const u32 QUIET_NAN = 0x7FC00000u;
const u32 INFINITY_BITS = 0x7F800000u;

HD bool is_nan32(u32 x) { return (x & 0x7FFFFFFFu) > INFINITY_BITS; }
HD bool is_finite32(u32 x) { return (x & INFINITY_BITS) != INFINITY_BITS; }

// A finite number as significand * 2^(exponent - mantissa_bits), exponent clamped below at the
// smallest normal one. Zeros, infinities and NaNs carry exponents that no sum of two finite ones
// reaches.
struct Item {
  i32 significand;
  i32 exponent;
};
const i32 ZERO_EXPONENT = -0x2000;
const i32 SPECIAL_EXPONENT = 0x4000;  // significand +1 or -1: infinity; 0: NaN

HD Item decode(const Operand& o, u32 code, bool flush) {
  const u32 sign_bit = 1u << (o.bits - 1);
  const bool negative = code & sign_bit;
  u32 magnitude = code & (sign_bit - 1);
  const bool top = magnitude >> o.mantissa_bits == (1u << o.exponent_bits) - 1;
  magnitude = magnitude >> (o.mantissa_bits - o.used_bits) << (o.mantissa_bits - o.used_bits);
  const u32 fraction = magnitude & ((1u << o.mantissa_bits) - 1);
  if (o.nan == NAN_IEEE && top) return {fraction ? 0 : negative ? -1 : 1, SPECIAL_EXPONENT};
  if (o.nan == NAN_ALL_ONES && magnitude == sign_bit - 1) return {0, SPECIAL_EXPONENT};
  if (o.nan == NAN_NEGATIVE_ZERO && code == sign_bit) return {0, SPECIAL_EXPONENT};
  const i32 field = (i32)(magnitude >> o.mantissa_bits);
  if (magnitude == 0 || (flush && field == 0)) return {0, ZERO_EXPONENT};
  const u32 significand =
      (field ? fraction | 1u << o.mantissa_bits : fraction) >> (o.mantissa_bits - o.used_bits);
  return {negative ? -(i32)significand : (i32)significand, max_of(field, 1) - o.bias};
}

// x * 2^shift; the caller knows that it fits.
HD i64 shift_left(i64 x, int shift) { return (i64)((u64)x << shift); }

// x * 2^-shift, rounded; shift may be negative (exact) or beyond the width of x.
HD i64 shift_round(i64 x, int shift, int rounding) {
  if (shift <= 0) return shift_left(x, -shift);
  if (shift > 62) {
    // |x| < 2^61 here: less than half a unit.
    if (rounding == DOWN) return x >> 63;
    if (rounding == UP) return x > 0 ? 1 : 0;
    return 0;
  }
  const i64 floor = x >> shift;
  if (rounding == DOWN) return floor;
  const u64 rest = (u64)x & (((u64)1 << shift) - 1);
  if (rounding == TO_ZERO) return floor + (x < 0 && rest != 0);
  if (rounding == UP) return floor + (rest != 0);
  const u64 half = (u64)1 << (shift - 1);
  return floor + (rest > half || (rest == half && (floor & 1)));
}

// magnitude * 2^unit, rounded to binary32 with subnormals; sticky says that the true magnitude is
// larger by less than one unit.
HD u32 pack_magnitude(bool negative, u64 magnitude, int unit, bool sticky, int rounding) {
  const u32 sign = negative ? 0x80000000u : 0;
  if (magnitude == 0 && !sticky) return sign;
  const int top = 63 - clz64(magnitude);  // -1 for a bare sticky: far below every threshold
  const int exponent = max_of(unit + top, -126);
  const int shift = exponent - 23 - unit;  // bits below the last place
  u64 kept;
  bool half = false, rest = sticky;
  if (shift <= 0) {
    kept = magnitude << -shift;
  } else if (shift > 64) {
    kept = 0;
    rest = true;
  } else {
    kept = shift == 64 ? 0 : magnitude >> shift;
    half = magnitude >> (shift - 1) & 1;
    rest = rest || (magnitude & (((u64)1 << (shift - 1)) - 1)) != 0;
  }
  bool up;
  if (rounding == TO_NEAREST)
    up = half && (rest || (kept & 1));
  else if (rounding == TO_ZERO)
    up = false;
  else
    up = (half || rest) && (negative == (rounding == DOWN));
  kept += up;
  // The hidden bit of a normal number adds one to the exponent field; so does a carry out of the
  // fraction.
  if (exponent > 127) {
    const bool away =
        rounding == TO_NEAREST || (rounding != TO_ZERO && negative == (rounding == DOWN));
    return sign | (away ? INFINITY_BITS : INFINITY_BITS - 1);
  }
  const u32 bits = (u32)((u64)(exponent + 126) << 23) + (u32)kept;
  if (bits >= INFINITY_BITS && rounding == TO_ZERO) return sign | (INFINITY_BITS - 1);
  return sign | bits;
}

HD u32 pack(i64 value, int unit, int rounding) {
  const bool negative = value < 0;
  return pack_magnitude(negative, negative ? (u64)-value : (u64)value, unit, false, rounding);
}

// Subnormals become zeros of the same sign.
HD u32 flush_subnormal(u32 x) { return x & INFINITY_BITS ? x : x & 0x80000000u; }
// Subnormals and zeros of either sign become +0.
HD u32 flush_to_plus_zero(u32 x) { return x & INFINITY_BITS ? x : 0; }

// The binary32 value of an item of up to 32 bits; exact.
HD u32 to_binary32(const Operand& o, u32 code, bool flush) {
  const Item x = decode(o, code, flush);
  if (x.exponent == SPECIAL_EXPONENT)
    return x.significand == 0 ? QUIET_NAN : INFINITY_BITS | (x.significand < 0 ? 0x80000000u : 0);
  // The sign of a zero matters unless inputs are flushed.
  if (x.significand == 0) return flush ? 0 : code >> (o.bits - 1) << 31;
  return pack(x.significand, x.exponent - o.used_bits, TO_NEAREST);
}
