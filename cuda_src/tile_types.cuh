// The element types of the tile machine, one struct each with its DataType code, and what their
// bits mean.
#pragma once
#include "common.cuh"

// A function that few elements need: kept out of line, so that the common path stays short.
#ifdef __CUDACC__
#define RARE __device__ __noinline__
#else
#define RARE __attribute__((noinline))
#endif

namespace tile {

constexpr u32 NV = 1, OF = 4, UF = 8, NX = 16;  // DZ = 2 never occurs here
enum class Kind { narrow_float, native_float, signed_integer, unsigned_integer };

// kNanCornerAsl: infinity times quiet NaN plus an infinity of opposite sign is invalid.
constexpr u32 kNanCornerAsl = 1;

template <int kExponent, int kMantissa, int kUnused = 0, bool kInfinities = true>
struct NarrowFloat {  // computed in binary32, which holds all its values
  static constexpr Kind kind = Kind::narrow_float;
  static constexpr int exponent = kExponent, mantissa = kMantissa, unused = kUnused;
  static constexpr bool infinities = kInfinities;
  static constexpr int emin = 2 - (1 << (exponent - 1));
  static constexpr u32 sign = 1u << (exponent + mantissa + unused);
  static constexpr u32 infinity =
      infinities ? ((1u << exponent) - 1) << (mantissa + unused) : sign - 1;
  static constexpr u32 quiet = 1u << (mantissa - 1 + unused);
  static constexpr u32 one = ((1u << (exponent - 1)) - 1) << (mantissa + unused);
};
template <class Float, class FloatBits, int kExponent, int kMantissa>
struct NativeFloat {
  static constexpr Kind kind = Kind::native_float;
  using Value = Float;
  static constexpr int mantissa = kMantissa;
  static constexpr bool infinities = true;
  static constexpr FloatBits sign = FloatBits(1) << (kExponent + kMantissa);
  static constexpr FloatBits quiet = FloatBits(1) << (kMantissa - 1);
  static constexpr FloatBits infinity = sign - 2 * quiet;
  static constexpr FloatBits one = sign / 2 - 2 * quiet;
};

struct FP16 : NarrowFloat<5, 10> {
  static constexpr u32 code = 4;
  using Bits = u16;
};
struct BF16 : NarrowFloat<8, 7> {
  static constexpr u32 code = 5;
  using Bits = u16;
};
struct TF32 : NarrowFloat<8, 10, 13> {
  static constexpr u32 code = 2;
  using Bits = u32;
};
struct HF32 : NarrowFloat<8, 11, 12> {
  static constexpr u32 code = 3;
  using Bits = u32;
};
struct E4M3 : NarrowFloat<4, 3, 0, false> {
  static constexpr u32 code = 7;
  using Bits = u8;
};
struct E5M2 : NarrowFloat<5, 2> {
  static constexpr u32 code = 8;
  using Bits = u8;
};
struct FP32 : NativeFloat<float, u32, 8, 23> {
  static constexpr u32 code = 1;
  using Bits = u32;
};
struct FP64 : NativeFloat<double, u64, 11, 52> {
  static constexpr u32 code = 0;
  using Bits = u64;
};
template <class Unsigned, class Signed, u32 kCode>
struct Integer {
  static constexpr u32 code = kCode;
  using Bits = Unsigned;
  using Ordered = Signed;
  static constexpr Kind kind =
      Signed(-1) < Signed(0) ? Kind::signed_integer : Kind::unsigned_integer;
  static constexpr Unsigned one = 1;
  static constexpr Unsigned sign = Unsigned(Unsigned(1) << (8 * sizeof(Unsigned) - 1));
};
struct S64 : Integer<u64, i64, 16> {};
struct S32 : Integer<u32, i32, 17> {};
struct S16 : Integer<u16, i16, 18> {};
struct S8 : Integer<u8, i8, 19> {};
struct U64 : Integer<u64, u64, 24> {};
struct U32 : Integer<u32, u32, 25> {};
struct U16 : Integer<u16, u16, 26> {};
struct U8 : Integer<u8, u8, 27> {};

template <class T>
constexpr bool is_float = T::kind == Kind::narrow_float || T::kind == Kind::native_float;

template <class T>
HD typename T::Bits magnitude(typename T::Bits x) {
  return x & typename T::Bits(T::sign - 1);
}
template <class T>
HD bool is_nan(typename T::Bits x) {
  return T::infinities ? magnitude<T>(x) > T::infinity : magnitude<T>(x) == T::infinity;
}
template <class T>
HD bool is_signaling(typename T::Bits x) {
  return is_nan<T>(x) && !(x & T::quiet);
}
template <class T>
HD bool is_infinite(typename T::Bits x) {
  return T::infinities && magnitude<T>(x) == T::infinity;
}
template <class T>
HD typename T::Bits canonical_nan() {
  return T::infinities ? T::infinity | T::quiet : T::infinity;
}

}  // namespace tile
