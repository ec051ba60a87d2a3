// The element function of each operation: one struct under the operation's name.
#pragma once
#include "tile_fused.cuh"

namespace tile {

template <class T, class Bits = typename T::Bits>
HD Bits fused_element(Bits x, Bits y, Bits z, u32 options, u32& flags) {
  if constexpr (is_float<T>) return fused<T>(x, y, z, options, flags);
  return Bits(u64(x) * u64(y) + u64(z));
}

// The operations that are a fused multiply-add say which one; integers wrap.
struct TFMA {
  static constexpr u32 selector = 0x01C;
  static constexpr int sources = 3;
  static constexpr bool fused = true;
  template <class T>
  static HD void operands(typename T::Bits&, typename T::Bits&, typename T::Bits&) {}
};

struct TADD {
  static constexpr u32 selector = 0x000;
  static constexpr int sources = 2;
  static constexpr bool fused = true;
  template <class T>
  static HD void operands(typename T::Bits&, typename T::Bits& y, typename T::Bits& z) {
    z = y;
    y = T::one;
  }
};

struct TSUB {
  static constexpr u32 selector = 0x001;
  static constexpr int sources = 2;
  static constexpr bool fused = true;
  template <class T>
  static HD void operands(typename T::Bits&, typename T::Bits& y, typename T::Bits& z) {
    z = is_float<T> ? y ^ T::sign : 0 - y;
    y = T::one;
  }
};

struct TMUL {
  static constexpr u32 selector = 0x002;
  static constexpr int sources = 2;
  static constexpr bool fused = true;
  template <class T>
  static HD void operands(typename T::Bits& x, typename T::Bits& y, typename T::Bits& z) {
    // A zero of the product's sign changes no sum and keeps a zero product's sign.
    z = is_float<T> ? (x ^ y) & T::sign : 0;
  }
};

// True where x comes after y, -0 before +0; neither is NaN.
template <class T, class Bits>
HD bool greater(Bits x, Bits y) {
  if constexpr (is_float<T>) {
    const bool negative_x = x & T::sign, negative_y = y & T::sign;
    if (negative_x != negative_y) return negative_y;
    return negative_x ? x < y : x > y;
  } else {
    return typename T::Ordered(x) > typename T::Ordered(y);
  }
}

template <class T, bool kMaximum, class Bits>
HD Bits select(Bits x, Bits y, u32& flags) {
  if constexpr (is_float<T>) {
    if (is_signaling<T>(x) || is_signaling<T>(y)) flags |= NV;
    if (is_nan<T>(x)) return is_nan<T>(y) ? canonical_nan<T>() : y;
    if (is_nan<T>(y)) return x;
  }
  return greater<T>(x, y) == kMaximum ? x : y;
}

struct TMAX {
  static constexpr u32 selector = 0x00B;
  static constexpr int sources = 2;
  static constexpr bool fused = false;
  template <class T, class Bits = typename T::Bits>
  static HD Bits element(Bits x, Bits y, Bits, u32, u32& flags) {
    return select<T, true>(x, y, flags);
  }
};

struct TMIN {
  static constexpr u32 selector = 0x00C;
  static constexpr int sources = 2;
  static constexpr bool fused = false;
  template <class T, class Bits = typename T::Bits>
  static HD Bits element(Bits x, Bits y, Bits, u32, u32& flags) {
    return select<T, false>(x, y, flags);
  }
};

struct TABS {
  static constexpr u32 selector = 0x00F;
  static constexpr int sources = 1;
  static constexpr bool fused = false;
  template <class T, class Bits = typename T::Bits>
  static HD Bits element(Bits x, Bits, Bits, u32, u32&) {
    if constexpr (is_float<T>) return x & Bits(T::sign - 1);
    return T::kind == Kind::signed_integer && (x & T::sign) ? Bits(0 - x) : x;
  }
};

struct TNEG {
  static constexpr u32 selector = 0x011;
  static constexpr int sources = 1;
  static constexpr bool fused = false;
  template <class T, class Bits = typename T::Bits>
  static HD Bits element(Bits x, Bits, Bits, u32, u32&) {
    if constexpr (is_float<T>) return x ^ T::sign;
    return Bits(0 - x);
  }
};

}  // namespace tile
