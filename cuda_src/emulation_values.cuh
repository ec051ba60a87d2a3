// One element of the product from its int32 planes, and the epilogue: partial sums, alpha and beta.
#pragma once
#include "emulation_residues.cuh"

namespace emulation {

// Products of two int8 that an int32 sum holds whatever they are, and a multiple of 16 (see the
// plan).
constexpr i32 SUM_LIMIT = 131056;

HD double exact_double(i32 x) {
#ifdef __CUDA_ARCH__
  return __hiloint2double(0x43300000, x ^ (i32)0x80000000) - 4503601774854144.0;
#else
  return (double)x;
#endif
}

// x * 2^e, rounded once: |e| may leave the range of a factor, so two exact factors are used.
HD double scale_double(double x, i32 e) {
  e = min_of(max_of(e, -1200), 1100);
  const i32 half = e >> 1;
  return x * bits_to_double((u64)(1023 + half) << 52) *
         bits_to_double((u64)(1023 + e - half) << 52);
}

HD double round_to(double x, double) { return x; }
HD double round_to(double x, float) { return (double)(float)x; }

// Slices: diagonals from the least significant, each added in type T; the power of two comes last.
template <class T, int SLICES, bool GROUPED>
struct SliceValue {
  static constexpr int PLANES = SLICES;

  // plane(p): int32 of plane p. Plane order: diagonals from 0, each with its groups along k.
  template <class Plane>
  static HD T value(Plane plane, i32 padded_k, i32 scale) {
    double sum = 0.0;
    if constexpr (!GROUPED) {
      UNROLL for (int d = SLICES - 1; d >= 0; --d) {
        const double weight = 1.0 / (double)(1ull << (8 * d));
        sum = round_to(fma_f64(exact_double(plane(d)), weight, sum), T());
      }
    } else {
      int next = 0;
      for (int d = 0; d < SLICES; ++d) next += ((d + 1) * padded_k + SUM_LIMIT - 1) / SUM_LIMIT;
      for (int d = SLICES - 1; d >= 0; --d) {
        i64 total = 0;
        for (int g = ((d + 1) * padded_k + SUM_LIMIT - 1) / SUM_LIMIT; g > 0; --g)
          total += plane(--next);
        const double weight = bits_to_double((u64)(1023 - 8 * d) << 52);
        sum = round_to(fma_f64((double)total, weight, sum), T());
      }
    }
    return (T)scale_double(sum, scale);
  }
};

using i128 = __int128;
using u128 = unsigned __int128;

COMPILE_TIME u128 moduli_product(int first, int last) {
  u128 product = 1;
  for (int l = first; l < last; ++l) product *= (u128)modulus(l);
  return product;
}

COMPILE_TIME int bits_of(u128 x) {
  int n = 0;
  for (; x; x >>= 1) ++n;
  return n;
}

// top * 2^exponent (top's leading bit set, its last bit sticky) as bits of a float or double, to
// nearest even, with gradual underflow.
template <int PRECISION, int LOWEST, int HIGHEST>
HD u64 round_bits(bool sign, u64 top, i32 exponent) {
  constexpr int WIDTH = PRECISION == 53 ? 63 : 31;
  i32 shift = 64 - PRECISION;
  i32 biased = exponent + shift - LOWEST;  // exponent field less one, of a normal result
  if (biased < 0) {
    shift -= biased;
    biased = 0;
  }
  const u64 sign_bit = (u64)sign << WIDTH;
  if (shift > 64) return sign_bit;
  if (shift == 64) return sign_bit | (top > (1ull << 63) ? 1 : 0);
  const u64 rest = top & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  u64 kept = top >> shift;
  kept += rest > half || (rest == half && (kept & 1));
  const u64 result = ((u64)(u32)biased << (PRECISION - 1)) + kept;
  const u64 infinity = (u64)HIGHEST << (PRECISION - 1);
  return sign_bit | (biased >= HIGHEST || result > infinity ? infinity : result);
}

HD double round_integer(bool sign, u64 top, i32 exponent, double) {
  return bits_to_double(round_bits<53, -1074, 2047>(sign, top, exponent));
}
HD float round_integer(bool sign, u64 top, i32 exponent, float) {
  return bits_to_float((u32)round_bits<24, -149, 255>(sign, top, exponent));
}

// value * 2^exponent, rounded once; zero is +0.
template <class T>
HOST_CALL T round_i128(i128 value, i32 exponent) {
  const bool sign = value < 0;
  const u128 magnitude = sign ? (u128)0 - (u128)value : (u128)value;
  if (magnitude == 0) return (T)0;
  u64 high = (u64)(magnitude >> 64), low = (u64)magnitude;
  i32 e = exponent + 64;
  if (high == 0) {
    high = low;
    low = 0;
    e -= 64;
  }
  const int zeros = clz64(high);
  if (zeros) {
    high = high << zeros | low >> (64 - zeros);
    low <<= zeros;
  }
  return round_integer(sign, high | (low != 0), e - zeros, T());
}

// Residues: the exact integer below half the product of the moduli, then one rounding. Moduli are
// taken three at a time, and sums are kept in 28-bit limbs that cannot overflow 64 bits.
template <class T, int COUNT>
struct ResidueValue {
  static constexpr int PLANES = COUNT;
  static constexpr int GROUPS = (COUNT + 2) / 3;
  static constexpr int LIMBS = (bits_of(moduli_product(0, COUNT)) + 27) / 28;

  // Product c of int8 residues to a small number congruent to it modulo P.
  template <int P>
  static HD i32 reduce(i32 c) {
    if constexpr (P == 256) return c & 255;
    constexpr i32 reciprocal = (i32)(4294967296ull / P);
#ifdef __CUDA_ARCH__
    return c - __mulhi(c, reciprocal) * P;
#else
    return c - (i32)((i64)c * reciprocal >> 32) * P;
#endif
  }

  template <int L, int LAST, int FIRST, class Plane>
  static HOST_CALL i32 group_sum(Plane plane) {
    if constexpr (L == LAST) {
      return 0;
    } else {
      constexpr i32 others = (i32)(moduli_product(FIRST, LAST) / (u128)modulus(L));
      return reduce<modulus(L)>(plane(L)) * others + group_sum<L + 1, LAST, FIRST>(plane);
    }
  }

  template <int G, class Plane>
  static HOST_CALL void accumulate(Plane plane, i64 (&limb)[LIMBS], float& multiple) {
    if constexpr (G < GROUPS) {
      constexpr int first = 3 * G, last = 3 * G + 3 < COUNT ? 3 * G + 3 : COUNT;
      constexpr u128 own = moduli_product(first, last);
      constexpr u128 rest = moduli_product(0, COUNT) / own;
      const i32 t = group_sum<first, last, first>(plane);
      UNROLL for (int i = 0; i < LIMBS; ++i) limb[i] +=
          (i64)t * (i32)(u32)(rest >> 28 * i & 0xFFFFFFF);
      multiple = fma_f32((float)t, 1.0f / (float)(u32)own, multiple);
      accumulate<G + 1>(plane, limb, multiple);
    }
  }

  template <class Plane>
  static HD T value(Plane plane, i32, i32 scale) {
    constexpr u128 product = moduli_product(0, COUNT);
    i64 limb[LIMBS] = {};
    float multiple = 0.0f;
    accumulate<0>(plane, limb, multiple);
    const float magic = 12582912.0f;
    const i32 nearest = (i32)float_to_bits(multiple + magic) - 0x4B400000;
    i128 value = 0;
    UNROLL for (int i = LIMBS - 1; i >= 0; --i) {
      const i64 part = limb[i] - (i64)nearest * (i32)(u32)(product >> 28 * i & 0xFFFFFFF);
      value = value * (1 << 28) + part;
    }
    return round_i128<T>(value, scale);
  }
};

// A row or column with an infinity or a NaN: its products of finite numbers cannot change the
// answer.
template <class T, class Bits>
HD T nonfinite_dot(const Bits* a, i64 a_step, const Bits* b, i64 b_step, i32 k) {
  constexpr Bits infinity = sizeof(Bits) == 4 ? (Bits)0x7F800000u : (Bits)0x7FF0000000000000ull;
  T sum = 0;
  for (i32 i = 0; i < k; ++i) {
    const Bits x = a[i * a_step], y = b[i * b_step];
    if (absolute(x) < infinity && absolute(y) < infinity) continue;
    if constexpr (sizeof(Bits) == 4)
      sum += bits_to_float(x) * bits_to_float(y);
    else
      sum += bits_to_double(x) * bits_to_double(y);
    if (sum != sum) break;
  }
  return sum;
}

// What one output needs besides its planes. Addresses count elements.
template <class T, class Bits>
struct Epilogue {
  const i32* a_exponents;  // of A's rows, slice shifts or residue scales
  const i32* b_exponents;  // of B's columns
  const Bits* a;           // A and B themselves, for vectors that are not finite
  i64 a_row, a_column;
  const Bits* b;
  i64 b_row, b_column;
  i32 k, padded_k;
  const T* c;  // not read where beta is zero
  i64 c_row, c_column;
  T alpha, beta;
  T* out;
  i64 out_row;
  i32 add, finish;  // add: `out` holds the sum of earlier ranges of k; finish: apply alpha and beta

  template <class Value, class Plane>
  HD T element(Plane plane, i32 i, i32 j, i32 a_exponent, i32 b_exponent) const {
    T v;
    if (a_exponent == NONFINITE || b_exponent == NONFINITE)
      v = nonfinite_dot<T>(a + i * a_row, a_column, b + j * b_column, b_row, k);
    else
      v = Value::value(plane, padded_k, -(a_exponent + b_exponent));
    if (add) v = out[i * out_row + j] + v;
    if (!finish) return v;
    v = alpha * v;
    return beta == (T)0 ? v : v + beta * c[i * c_row + j * c_column];
  }
};

}  // namespace emulation
