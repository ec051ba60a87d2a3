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

// Whether a code is a NaN or an infinity; `field` is its exponent field.
HD bool is_special(const Operand& o, u32 code, u32 field) {
  const u32 sign_bit = 1u << (o.bits - 1);
  if (o.nan == NAN_IEEE) return field == (1u << o.exponent_bits) - 1;
  if (o.nan == NAN_ALL_ONES) return (code & (sign_bit - 1)) == sign_bit - 1;
  return o.nan == NAN_NEGATIVE_ZERO && code == sign_bit;
}

// One item of up to 32 bits, without branches.
HD Item decode(const Operand& o, u32 code, bool flush) {
  const u32 sign_bit = 1u << (o.bits - 1);
  const int cut = o.mantissa_bits - o.used_bits;
  const u32 magnitude = (code & (sign_bit - 1)) >> cut;
  const u32 fraction = magnitude & ((1u << o.used_bits) - 1);
  const u32 field = magnitude >> o.used_bits;
  const bool subnormal = field == 0;
  const i32 significand = (i32)((subnormal ? fraction : fraction | 1u << o.used_bits) << o.shift);
  Item x = {significand, (subnormal ? 1 : (i32)field) - o.bias};
  if (flush ? subnormal : magnitude == 0) x = {0, ZERO_EXPONENT};
  if (is_special(o, code, field)) x = {o.nan == NAN_IEEE && fraction == 0, SPECIAL_EXPONENT};
  if (code & sign_bit) x.significand = -x.significand;
  return x;
}

// x * 2^shift; the caller knows that it fits.
HD i64 shift_left(i64 x, int shift) { return (i64)((u64)x << shift); }

// x >> shift, zero from 32 on; shift >= 0.
HD u32 shift_right(u32 x, int shift) {
#ifdef __CUDA_ARCH__
  return __funnelshift_rc(x, 0, (u32)shift);
#else
  return shift > 31 ? 0 : x >> shift;
#endif
}

// x * 2^-shift, rounded; shift >= 0 may be beyond the width of x, |x| < 2^62.
HD i64 shift_round(i64 x, int shift, int rounding) {
  shift = min_of(shift, 63);
  const i64 floor = x >> shift;
  if (rounding == DOWN) return floor;
  const u64 rest = (u64)x & (((u64)1 << shift) - 1);
  if (rounding == TO_ZERO) return floor + (x < 0 && rest != 0);
  if (rounding == UP) return floor + (rest != 0);
  if (shift == 0) return x;
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

// The exponent of x's leading bit; of zero, below every other.
HD int exponent_of(i64 x) { return (int)(double_to_bits((double)x) >> 52 & 0x7FF) - 1023; }

HD double power_of_two(int e) { return bits_to_double((u64)(e + 1023) << 52); }

// Any finite binary32, with zero as significand 0.
HD Item decode32(u32 d) {
  const i32 field = (i32)(d >> 23 & 0xFF);
  const i32 magnitude = (i32)(d & 0x7FFFFF) | (field ? 0x800000 : 0);
  return {d >> 31 ? -magnitude : magnitude, max_of(field, 1) - 127};
}

HD u32 pack(i64 value, int unit, int rounding) {
  const bool negative = value < 0;
  return pack_magnitude(negative, negative ? (u64)-value : (u64)value, unit, false, rounding);
}

// The same for |value| < 2^53: to nearest, the hardware's conversion rounds once and right.
HD u32 pack_small(i64 value, int unit, int rounding) {
  if (rounding == TO_NEAREST) return float_to_bits((float)((double)value * power_of_two(unit)));
  return pack(value, unit, rounding);
}

// The same for any value, to nearest; right unless the result is subnormal, which is rounded twice.
HD u32 pack_normal(i64 value, int unit) {
  return float_to_bits((float)((double)(float)value * power_of_two(unit)));
}

// The same for any value.
HD u32 pack_i64(i64 value, int unit, int rounding) {
  if (rounding == TO_NEAREST) {
    const u32 bits = pack_normal(value, unit);
    if (bits & INFINITY_BITS) return bits;
  }
  return pack(value, unit, rounding);
}

// Subnormals become zeros of the same sign.
HD u32 flush_subnormal(u32 x) { return x & INFINITY_BITS ? x : x & 0x80000000u; }
// Subnormals and zeros of either sign become +0.
HD u32 flush_to_plus_zero(u32 x) { return x & INFINITY_BITS ? x : 0; }

// The binary32 value of an item of up to 32 bits; exact. Its exponent field and fraction, read as a
// binary32, are off by a power of two.
HD u32 to_binary32(const Operand& o, u32 code, bool flush) {
  const int cut = o.mantissa_bits - o.used_bits;
  const u32 sign_bit = 1u << (o.bits - 1), sign = code >> (o.bits - 1) << 31;
  const u32 magnitude = (code & (sign_bit - 1)) >> cut << cut;
  const u32 field = magnitude >> o.mantissa_bits;
  u32 bits = magnitude << (23 - o.mantissa_bits);
  if (is_special(o, code, field)) {
    const bool infinite = o.nan == NAN_IEEE && (magnitude & ((1u << o.mantissa_bits) - 1)) == 0;
    bits = infinite ? INFINITY_BITS : QUIET_NAN;
  } else if (o.bias != 127) {
    bits = float_to_bits(mul_f32(bits_to_float(bits), bits_to_float((u32)(254 - o.bias) << 23)));
  }
  return flush && field == 0 ? 0 : bits | sign;
}
