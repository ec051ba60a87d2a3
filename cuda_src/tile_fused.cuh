// One fused multiply-add of one element: a single rounding, and the IEEE flags by exact means.
//
// Narrow floats (at most 12 significand bits): binary32 in both directed roundings gives the exact
// sum rounded to odd, 24 bits or the grid of 2^-149 below them, always two bits finer than the
// target; so one more rounding to nearest is the correct one, and every threshold compares as the
// exact sum would.
#pragma once
#include "tile_rounding.cuh"
#include "tile_types.cuh"

namespace tile {

constexpr u32 kInfinity32 = 0x7F800000, kSign32 = 0x80000000;

// Decode: the same value in binary32.
template <class T>
HD u32 widen(typename T::Bits code) {
  if constexpr (T::exponent == 8) {
    return u32(code) << (32 - 8 * sizeof(code));
  } else {
    const u32 size = magnitude<T>(code), sign = u32(code & T::sign) << (32 - 8 * sizeof(code));
    if (size >= T::infinity) {
      return sign | (is_nan<T>(code) ? kInfinity32 | 0x400000 : kInfinity32);
    }
    // As a subnormal-safe rebias: read with binary32's bias, then scale by the difference, exactly.
    const float scale = bits_to_float(u32(127 + 126 + T::emin) << 23);
    const float misread = bits_to_float(size << (23 - T::mantissa));
    return sign | float_to_bits(mul_f32(misread, scale));
  }
}
#ifdef __CUDA_ARCH__
template <>
HD u32 widen<FP16>(u16 code) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
  return float_to_bits(value);
}
#endif

// Round a finite binary32 magnitude to nearest even: the code, at least T::infinity where it
// overflows.
template <class T>
HD u32 narrow(u32 size) {
  if constexpr (T::exponent == 8) {
    constexpr int drop = 23 - T::mantissa;
    const u32 rounded = (size + ((1u << (drop - 1)) - 1) + ((size >> drop) & 1)) >> drop;
    return rounded << T::unused;
  } else {
    // Adding C, whose unit in the last place is the target's, rounds to the target's grid.
    constexpr u32 smallest = 127 + T::emin;
    const u32 field = max_of(size >> 23, smallest), shifted = (field + 23 - T::mantissa) << 23;
    const u32 kept = float_to_bits(add_f32(bits_to_float(size), bits_to_float(shifted))) - shifted;
    return ((field - smallest) << T::mantissa) + kept;
  }
}

// |exact sum| below this rounds, with an unbounded exponent, to less than the smallest normal
// number.
template <class T>
constexpr u32 kTinyBelow =
    (u32(127 + T::emin) << 23) - (1u << ((T::exponent == 8 ? 21 : 22) - T::mantissa));

// The result is NaN: NV, or 0 where a quiet NaN only passed through.
template <class T>
RARE u32 nan_flags(typename T::Bits x, typename T::Bits y, typename T::Bits z, u32 options) {
  using Bits = typename T::Bits;
  const bool some_nan = is_nan<T>(x) || is_nan<T>(y) || is_nan<T>(z);
  const bool zero_by_infinity =
      (is_infinite<T>(x) && magnitude<T>(y) == 0) || (magnitude<T>(x) == 0 && is_infinite<T>(y));
  bool invalid = is_signaling<T>(x) || is_signaling<T>(y) || is_signaling<T>(z) ||
                 zero_by_infinity || !some_nan;
  if (options & kNanCornerAsl) {
    const Bits negative = (is_nan<T>(x) ? Bits(0) : x) ^ (is_nan<T>(y) ? Bits(0) : y);
    invalid |=
        (is_infinite<T>(x) || is_infinite<T>(y)) && is_infinite<T>(z) && ((negative ^ z) & T::sign);
  }
  return invalid ? NV : 0;
}

template <class T>
HD bool inexact_after(u32 size, u32 code) {
  if constexpr (T::exponent == 8) {
    return (size & ((1u << (23 - T::mantissa)) - 1)) != 0;
  } else {
    return widen<T>(typename T::Bits(code)) != size;
  }
}

template <class T>
HD typename T::Bits fused_narrow(typename T::Bits x, typename T::Bits y, typename T::Bits z,
                                 u32 options, u32& flags) {
  using Bits = typename T::Bits;
  const float a = bits_to_float(widen<T>(x)), b = bits_to_float(widen<T>(y)),
              c = bits_to_float(widen<T>(z));
  const u32 down = float_to_bits(fma_down(a, b, c)), up = float_to_bits(fma_up(a, b, c));
  const u32 odd = down & 1 ? down : up;  // equal where exact, else the odd one of two neighbours
  const u32 size = odd & ~kSign32, sign = (odd & kSign32) >> (32 - 8 * sizeof(Bits));
  const u32 code = narrow<T>(size);
  const bool overflow = code >= T::infinity;
  u32 raised = size < kTinyBelow<T> ? NX | UF : NX;
  raised = inexact_after<T>(size, code) ? raised : 0;
  raised = overflow ? OF | NX : raised;
  Bits result = overflow && !T::infinities ? T::infinity : sign | (overflow ? T::infinity : code);
  if (size >= kInfinity32) {  // some operand is no finite number
    raised = 0;
    if (size > kInfinity32) {
      result = canonical_nan<T>();
      raised = nan_flags<T>(x, y, z, options);
    }
  }
  flags |= raised;
  return result;
}

// The common case of fused_narrow: the result is zero, or rounds to a normal number without
// overflow. What the elements of a vector have in common tells whether it was one; NX is then the
// only flag.
struct Seen {
  u32 sticky = 0, largest = 0,
      smallest = ~0u;  // of the sums' magnitudes; smallest less one, zeros last
};

template <class T>
HD typename T::Bits fused_quick(typename T::Bits x, typename T::Bits y, typename T::Bits z,
                                Seen& seen) {
  constexpr int drop = 23 - T::mantissa;
  constexpr u32 rebias = u32(126 + T::emin) << 23;
  const float a = bits_to_float(widen<T>(x)), b = bits_to_float(widen<T>(y)),
              c = bits_to_float(widen<T>(z));
  const u32 down = float_to_bits(fma_down(a, b, c)), up = float_to_bits(fma_up(a, b, c));
  const u32 odd = down & 1 ? down : up, size = odd & ~kSign32;
  seen.sticky |= size;
  seen.largest = max_of(seen.largest, size);
  seen.smallest = min_of(seen.smallest, size - 1);
  const u32 half = (1u << (drop - 1)) - 1 + ((size >> drop) & 1);  // ties to even
  const i32 rounded = i32(size + half - rebias) >> drop;           // negative for a zero
  const u32 sign = (odd >> (32 - 8 * sizeof(typename T::Bits))) & T::sign;
  return typename T::Bits(sign | u32(max_of(rounded, 0)) << T::unused);
}

template <class T>
HD bool all_common(const Seen& seen) {
  constexpr int drop = 23 - T::mantissa;
  constexpr u32 overflows =
      ((T::infinity >> T::unused) << drop) + (u32(126 + T::emin) << 23) - (1u << (drop - 1));
  return seen.largest < overflows && seen.smallest >= kTinyBelow<T> - 1;
}
template <class T>
HD u32 common_flags(const Seen& seen) {
  return seen.sticky & ((1u << (23 - T::mantissa)) - 1) ? NX : 0;
}

HD u32 native_bits(float x) { return float_to_bits(x); }
HD u64 native_bits(double x) { return double_to_bits(x); }
HD float native_value(u32 x) { return bits_to_float(x); }
HD double native_value(u64 x) { return bits_to_double(x); }

// The delivered result is the smallest normal number: was the sum below it at full precision?
// Four times the sum is far from both ends of the exponent range here, because both addends lie
// below 2^(emin + twice the precision), so rounding it needs no subnormal.
template <class T>
HD bool tiny_at_smallest_normal(typename T::Bits x, typename T::Bits y, typename T::Bits z) {
  using F = typename T::Value;
  using Bits = typename T::Bits;
  const bool swap = magnitude<T>(x) > magnitude<T>(y);
  const F small = native_value(swap ? y : x), large = native_value(swap ? x : y);
  const Bits sum = native_bits(fma_nearest(4 * small, large, 4 * native_value(z)));
  return magnitude<T>(sum) < 6 * T::quiet;  // exponent field 3: 4 * 2^emin
}

// The result is no finite number, or inexact and the smallest normal number.
template <class T>
RARE u32 rare_flags(typename T::Bits x, typename T::Bits y, typename T::Bits z,
                    typename T::Bits size, u32 options) {
  if (size > T::infinity) return nan_flags<T>(x, y, z, options);
  if (size < T::infinity) return tiny_at_smallest_normal<T>(x, y, z) ? NX | UF : NX;
  return is_infinite<T>(x) || is_infinite<T>(y) || is_infinite<T>(z) ? 0 : OF | NX;
}

template <class T>
HD typename T::Bits fused_native(typename T::Bits x, typename T::Bits y, typename T::Bits z,
                                 u32 options, u32& flags) {
  using F = typename T::Value;
  using Bits = typename T::Bits;
  constexpr Bits smallest_normal = 2 * T::quiet;
  const F a = native_value(x), b = native_value(y), c = native_value(z);
  Bits result = native_bits(fma_nearest(a, b, c));
  const Bits size = magnitude<T>(result);
  const bool inexact = fma_down(a, b, c) != fma_up(a, b, c);
  u32 raised = size < smallest_normal ? NX | UF : NX;
  raised = inexact ? raised : 0;
  if (size >= T::infinity || (size == smallest_normal && inexact)) {
    if (size > T::infinity) result = canonical_nan<T>();
    raised = rare_flags<T>(x, y, z, size, options);
  }
  flags |= raised;
  return result;
}

template <class T>
HD typename T::Bits fused(typename T::Bits x, typename T::Bits y, typename T::Bits z, u32 options,
                          u32& flags) {
  if constexpr (T::kind == Kind::native_float) {
    return fused_native<T>(x, y, z, options, flags);
  } else {
    return fused_narrow<T>(x, y, z, options, flags);
  }
}

}  // namespace tile
