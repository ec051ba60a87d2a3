// Values of the second implementation: codes of a format as doubles, and roundings.
#pragma once
#include "common.cuh"

namespace reference {

// All fields have 64 bits: gpuemu/difftest/campaign/reference.py packs them in this order.
struct Format {
  i64 bits, exponent_bits, mantissa_bits, bias, infinities, nan, cut;
};
enum Nan { NAN_IEEE, NAN_ALL_ONES, NAN_NEGATIVE_ZERO, NAN_NONE };
enum Rounding { ZERO, DOWN, UP, NEAREST };

const int NOTHING = -10000;  // the exponent of a zero

// ---- values

HD double normal_power(int e) { return bits_to_double((u64)(e + 1023) << 52); }
// 2^e, for e from -1074 (below: 0) to 1023
HD double power(int e) {
  const int half = e >> 1;
  return normal_power(half) * normal_power(e - half);
}
HD bool is_nan(double x) { return x != x; }
HD bool is_finite(double x) { return x - x == 0; }
HD double magnitude(double x) { return bits_to_double(double_to_bits(x) << 1 >> 1); }
HD double with_sign(double x, bool negative) { return negative ? -x : x; }
HD bool is_negative(double x) { return double_to_bits(x) >> 63; }
HD double infinity() { return bits_to_double(0x7FF0000000000000ull); }
HD double not_a_number() { return bits_to_double(0x7FF8000000000000ull); }
HD int max_int(int a, int b) { return a > b ? a : b; }

HD double flushed(double x, int emin, bool keep_sign) {
  if (!(magnitude(x) < power(emin))) return x;
  return with_sign(0.0, keep_sign && is_negative(x));
}

// floor(log2 |x|), at least emin; `NOTHING` for 0
HD int exponent(double x, int emin) {
  if (x == 0) return NOTHING;
  return max_int((int)(double_to_bits(x) >> 52 & 0x7FF) - 1023, emin);
}

HD int emin_of(const Format& f) { return 1 - (int)f.bias; }

HD double decode(const Format& f, u64 code, bool flush) {
  if (f.bits == 64) return bits_to_double(code);
  if (f.exponent_bits == 0) return (double)(i8)code;
  const u64 sign = 1ull << (f.bits - 1), whole = code & (2 * sign - 1);
  if (f.nan == NAN_NEGATIVE_ZERO && whole == sign) return not_a_number();
  if (f.nan == NAN_ALL_ONES && (whole & (sign - 1)) == sign - 1) return not_a_number();
  code = code >> f.cut << f.cut;
  const bool negative = code >> (f.bits - 1) & 1;
  const int top = (1 << f.exponent_bits) - 1;
  const int field = (int)(code >> f.mantissa_bits) & top;
  const u64 fraction = code & ((1ull << f.mantissa_bits) - 1);
  if (f.nan == NAN_IEEE && field == top && fraction != 0) return not_a_number();
  if (f.infinities && field == top && fraction == 0) return with_sign(infinity(), negative);
  const double significand = (double)(fraction + (field ? 1ull << f.mantissa_bits : 0));
  const double x = significand * power(max_int(field, 1) - (int)f.bias - (int)f.mantissa_bits);
  return flush ? flushed(with_sign(x, negative), emin_of(f), false) : with_sign(x, negative);
}

// ---- rounding

// To a whole number; |x| may be anything.
HD double round_whole(double x, i64 how) {
  if (!(magnitude(x) < 4503599627370496.0)) return x;  // 2^52
  const double cut = (double)(i64)x;
  const double rest = x - cut;  // of the sign of x, below 1, exact
  if (how == DOWN) return rest < 0 ? cut - 1 : cut;
  if (how == UP) return rest > 0 ? cut + 1 : cut;
  if (how == NEAREST) {
    const bool odd = (i64)cut & 1;
    const double far = magnitude(rest);
    if (far > 0.5 || (far == 0.5 && odd)) return x < 0 ? cut - 1 : cut + 1;
  }
  return cut;
}

HD float next(float x, bool up) {
  const u32 bits = float_to_bits(x);
  if (x == 0) return bits_to_float(up ? 1u : 0x80000001u);
  return bits_to_float((bits >> 31) == (u32)up ? bits - 1 : bits + 1);
}

HD float to_binary32(double x, i64 how) {
  const float near = (float)x;
  const bool high = (double)near > x, low = (double)near < x;
  if (how == DOWN) return high ? next(near, false) : near;
  if (how == UP) return low ? next(near, true) : near;
  if (how == ZERO && x > 0 && high) return next(near, false);
  if (how == ZERO && x < 0 && low) return next(near, true);
  return near;
}

HD u32 result_bits(float x) { return x != x ? 0x7FC00000u : float_to_bits(x); }

}  // namespace reference
