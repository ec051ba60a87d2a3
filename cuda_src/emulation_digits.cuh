// Int8 slices: the shared exponent of a vector, an element as fixed point, its balanced digits.
//
// A vector is a row of A or a column of B. Elements are carried as their bits (u32 for float, u64
// for double). Scaling multiplies by powers of two, which is exact; all else is integer arithmetic.
#pragma once
#include "common.cuh"

namespace emulation {

// Exponent of a vector with an infinity or a NaN: its digits are zero, its outputs follow IEEE
// rules.
constexpr i32 NONFINITE = -2147483647 - 1;

HD u64 absolute(u64 bits) { return bits & 0x7FFFFFFFFFFFFFFFull; }
HD u32 absolute(u32 bits) { return bits & 0x7FFFFFFFu; }
HD bool negative(u32 bits) { return bits >> 31; }

// Bits of the same value as a double; exact, also for float subnormals.
HD u64 widen(u64 bits) { return bits; }
HD u64 widen(u32 bits) { return double_to_bits((double)bits_to_float(bits)); }
HD double to_double(u64 bits) { return bits_to_double(bits); }
HD double to_double(u32 bits) { return (double)bits_to_float(bits); }

// floor(log2(amax)) + 1 for a positive finite double.
HD i32 bit_width(u64 amax) {
  const i32 biased = (i32)(amax >> 52);
  return biased ? biased - 1022 : -1010 - clz64(amax);
}

// Left shift (in bits) that brings every element of the vector below 127. `amax`: widest magnitude.
// A significand that starts with seven ones shifts one less: a carry may add 1 to the leading
// digit.
HD i32 slice_shift(u64 amax) {
  if (amax >> 52 == 2047) return NONFINITE;
  if (amax == 0) return 0;
  const u64 below_leading = amax >> 52 ? amax << 12 : amax << clz64(amax) << 1;
  return 7 - bit_width(amax) - (below_leading >> 58 == 63);
}

// 2^e as two factors, for e may leave the range of one; |e| <= 2034. A product that underflows on
// the way ends far below half a unit, so every result below is that of exact arithmetic.
struct Scale {
  double first, second;
};

HD Scale scale_by(i32 e) {
  const i32 half = e >> 1;
  return {bits_to_double((u64)(1023 + half) << 52), bits_to_double((u64)(1023 + e - half) << 52)};
}

HD double scaled(double x, Scale by) { return x * by.first * by.second; }

// x as an integer, toward zero or to nearest even; |x| < 2^63.
template <bool NEAREST>
HD i64 to_integer(double x) {
#ifdef __CUDA_ARCH__
  return NEAREST ? __double2ll_rn(x) : __double2ll_rz(x);
#else
  return NEAREST ? __builtin_llrint(x) : (i64)x;
#endif
}

// |x| * 2^scale below 2^31, toward zero or to nearest even, without double arithmetic: enough for
// four slices of a float. Only a vector of subnormals shifts left.
template <bool NEAREST>
HD u32 fixed_point_32(u32 bits, i32 scale) {
  const i32 biased = (i32)(absolute(bits) >> 23);
  const u32 fraction = bits & 0x7FFFFFu;
  const u32 v = (biased ? fraction | (1u << 23) : fraction) << 7;
  const i32 shift = 157 - (biased ? biased : 1) - scale;
  if (shift >= 32) return 0;
  if (shift < 0) return v << -shift;
  if (!NEAREST || shift == 0) return v >> shift;
  return (v + ((1u << (shift - 1)) - 1) + ((v >> shift) & 1)) >> shift;
}

// Balanced radix-256 digits of an integer, one a byte, the least significant lowest. Adding 128 to
// every digit but the leading one turns the carries between digits into those of a plain addition.
template <int DIGITS>
HD u64 balanced_digits(u64 value) {
  constexpr u64 bias = 0x0080808080808080ull & ((1ull << (8 * (DIGITS - 1))) - 1);
  return (value + bias) ^ bias;
}

template <int DIGITS>
HD u32 balanced_digits(u32 value) {
  constexpr u32 bias = 0x00808080u & ((1u << (8 * (DIGITS - 1))) - 1);
  return (value + bias) ^ bias;
}

// Low bytes of four words as one word.
HD u32 pack_bytes(u32 a, u32 b, u32 c, u32 d) {
#ifdef __CUDA_ARCH__
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
#else
  return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | (d & 255) << 24;
#endif
}

// How a vector's elements become SLICES int8 planes, four neighbours along k at a time.
template <class Bits, int SLICES, bool NEAREST>
struct SliceEncoder {
  static constexpr int PLANES = SLICES;
  static constexpr bool NEEDS_NORM = false;

  static HD i32 exponent(u64 amax, u64, u32, i32) { return slice_shift(amax); }

  // out[p]: digit p of the four elements, p = 0 the most significant.
  static HD void encode(const Bits (&x)[4], i32 shift, u32 (&out)[PLANES]) {
    if constexpr (sizeof(Bits) == 4 && SLICES <= 4) {
      u32 digits[4];
      UNROLL for (int j = 0; j < 4; ++j) {
        const u32 r = fixed_point_32<NEAREST>(x[j], shift + 8 * (SLICES - 1));
        digits[j] = balanced_digits<SLICES>(negative(x[j]) ? 0u - r : r);
      }
      UNROLL for (int p = 0; p < SLICES; ++p) {
        const int b = 8 * (SLICES - 1 - p);
        out[p] = pack_bytes(digits[0] >> b, digits[1] >> b, digits[2] >> b, digits[3] >> b);
      }
    } else {
      const Scale by = scale_by(shift + 8 * (SLICES - 1));
      u64 digits[4];
      UNROLL for (int j = 0; j < 4; ++j) {
        const i64 r = to_integer<NEAREST>(scaled(to_double(x[j]), by));
        digits[j] = balanced_digits<SLICES>((u64)r);
      }
      UNROLL for (int p = 0; p < SLICES; ++p) {
        const int b = 8 * (SLICES - 1 - p);
        out[p] = pack_bytes((u32)(digits[0] >> b), (u32)(digits[1] >> b), (u32)(digits[2] >> b),
                            (u32)(digits[3] >> b));
      }
    }
  }
};

}  // namespace emulation
