// What follows a chain: partial sums of split k added, alpha and beta, one rounding to a narrower
// format.
#pragma once
#include "mfma_round.cuh"

enum OutputFormat { OUTPUT_F32 = 0, OUTPUT_F16 = 1, OUTPUT_BF16 = 2 };

HD u32 canonical32(float x) { return x == x ? float_to_bits(x) : QUIET_NAN; }

HD u32 add_partial(u32 sum, u32 part) {
  return canonical32(add_f32(bits_to_float(sum), bits_to_float(part)));
}
HD u64 add_partial(u64 sum, u64 part) {
  const double x = bits_to_double(sum) + bits_to_double(part);
  return x == x ? double_to_bits(x) : 0x7FF8000000000000ull;
}

// alpha * sum + beta * c, each of the three operations rounded to binary32.
HD u32 scaled(u32 sum, u32 c, float alpha, float beta, bool with_c) {
  const float scaled_sum = mul_f32(alpha, bits_to_float(sum));
  return canonical32(with_c ? add_f32(scaled_sum, mul_f32(beta, bits_to_float(c))) : scaled_sum);
}

// binary32 bits rounded to nearest even in a format of 16 bits.
HD u16 to_half_width(u32 x, int exponent_bits, int mantissa_bits) {
  const u32 sign = x >> 31 << 15, infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  if (is_nan32(x)) return (u16)(infinity | 1u << (mantissa_bits - 1));
  if (!is_finite32(x)) return (u16)(sign | infinity);
  const int bias = (1 << (exponent_bits - 1)) - 1, field = (int)(x >> 23 & 0xFF);
  const u32 significand = (x & 0x7FFFFF) | (field ? 0x800000 : 0);
  const int exponent = max_of(field, 1) - 127;               // of the unit bit 23
  const int target = max_of(exponent, 1 - bias);             // of the unit bit of the result
  const int shift = 23 - mantissa_bits + target - exponent;  // bits to drop
  if (shift > 25) return (u16)sign;
  const u32 kept = significand >> shift, rest = significand & ((1u << shift) - 1),
            half = 1u << (shift - 1);
  const u32 rounded = kept + (rest > half || (rest == half && (kept & 1)));
  // The unit bit of a normal number adds one to the exponent field; so does a carry out of the
  // fraction.
  const u32 code = ((u32)(target + bias - 1) << mantissa_bits) + rounded;
  return (u16)(sign | (code < infinity ? code : infinity));
}

HD u16 to_output(u32 x, int format) {
  return format == OUTPUT_F16 ? to_half_width(x, 5, 10) : to_half_width(x, 8, 7);
}
