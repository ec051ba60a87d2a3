// Residues of scaled integers modulo pairwise coprime numbers up to 256, as int8 planes.
//
// A vector is scaled by the largest power of two that keeps its Euclidean norm below a limit; then
// every dot product of two scaled vectors is an integer below half the product of the moduli.
#pragma once
#include "emulation_digits.cuh"

// COMPILE_TIME: constants; HOST_CALL: inlined on the GPU, left to the compiler on the host, where
// inlining every modulus of every count makes the build slow.
#ifdef __CUDACC__
#define COMPILE_TIME __device__ constexpr
#define HOST_CALL HD
#else
#define COMPILE_TIME constexpr
#define HOST_CALL
#endif

namespace emulation {

COMPILE_TIME int modulus(int l) {
  constexpr int table[16] = {256, 255, 253, 251, 247, 241, 239, 233,
                             229, 227, 223, 217, 211, 199, 197, 193};
  return table[l];
}

// base^exponent modulo p.
COMPILE_TIME int power_mod(int base, int exponent, int p) {
  int result = 1;
  for (int i = 0; i < exponent; ++i) result = result * base % p;
  return result;
}

// Inverse modulo p(l) of the product of the other COUNT - 1 moduli: the weight that the Chinese
// remainder theorem gives to residue l. Multiplied into B's residues, it costs nothing later.
template <int COUNT>
COMPILE_TIME int crt_inverse(int l) {
  const int p = modulus(l);
  int others = 1;
  for (int i = 0; i < COUNT; ++i)
    if (i != l) others = others * (modulus(i) % p) % p;
  for (int x = 1; x < p; ++x)
    if (others * x % p == 1) return x;
  return 0;
}

// factor * 256^i modulo p in [-p/2, p/2): the int8 weight of balanced digit i.
COMPILE_TIME int digit_weight(int i, int factor, int p) {
  const int w = factor % p * power_mod(256 % p, i, p) % p;
  return 2 * w >= p ? w - p : w;
}

COMPILE_TIME u32 digit_weights(int first, int factor, int p) {
  u32 word = 0;
  for (int i = 3; i >= 0; --i) word = word << 8 | (u32)(digit_weight(first + i, factor, p) & 255);
  return word;
}

// Sum of four products of signed bytes, plus c.
HD i32 dot4(u32 a, u32 b, i32 c) {
#ifdef __CUDA_ARCH__
  return __dp4a((i32)a, (i32)b, c);
#else
  for (int i = 0; i < 4; ++i) c += (i32)(i8)(a >> 8 * i) * (i32)(i8)(b >> 8 * i);
  return c;
#endif
}

// The centred residue of t modulo P in the low byte; |t| < 2^22, `acc` = t + the bits of 1.5 *
// 2^23. As a float, acc is 1.5 * 2^23 + t: conversion to and rounding of t / P both come free.
template <int P>
HD u32 centred_residue(i32 acc) {
  if constexpr (P == 256) return (u32)acc;
  constexpr float magic = 12582912.0f, reciprocal = 1.0f / P;
  const float t = bits_to_float((u32)acc) - magic;
  const u32 quotient = float_to_bits(fma_f32(t, reciprocal, magic));
  return (u32)acc - quotient * (u32)P;
}

// What the norm is taken in: units of 2^(width - 14) for elements below 2^width.
HD Scale norm_unit(i32 width) { return scale_by(14 - width); }

// floor(|x|) + 1 in those units, at most 2^14; 0 for 0.
template <class Bits>
HD u32 norm_term(Bits bits, Scale unit) {
  const Bits x = absolute(bits);
  return x ? (u32)scaled(to_double(x), unit) + 1 : 0;
}

// Largest e with |vector * 2^e|^2 <= limit * 2^limit_exponent; 2^31 <= limit < 2^32.
// `norm`: the sum of squared norm terms, below 2^46.
HD i32 residue_scale(u64 amax, u64 norm, u32 limit, i32 limit_exponent) {
  if (amax >> 52 == 2047) return NONFINITE;
  if (norm == 0) return 0;
  const i32 y = (32 + limit_exponent - (64 - clz64(norm))) >> 1;
  const i32 t = 2 * y - limit_exponent;
  const bool fits = t >= 0 ? norm << t <= limit : norm <= (u64)limit << -t;
  return (fits ? y : y - 1) + 14 - bit_width(amax);
}

// Residues of four integers, given by their balanced digits. WEIGHTED: times the CRT inverses.
template <int COUNT, bool WEIGHTED>
struct Residues {
  static constexpr bool SHORT = COUNT <= 7;  // |integer| < 2^28: four digits hold it

  template <int L>
  static HOST_CALL void planes_from(const u64 (&digits)[4], u32 (&out)[COUNT]) {
    if constexpr (L < COUNT) {
      constexpr int p = modulus(L);
      constexpr int factor = WEIGHTED ? crt_inverse<COUNT>(L) : 1;
      constexpr u32 low = digit_weights(0, factor, p), high = digit_weights(4, factor, p);
      u32 r[4];
      UNROLL for (int j = 0; j < 4; ++j) {
        i32 acc = dot4((u32)digits[j], low, 0x4B400000);
        if constexpr (!SHORT && high != 0) acc = dot4((u32)(digits[j] >> 32), high, acc);
        r[j] = centred_residue<p>(acc);
      }
      out[L] = pack_bytes(r[0], r[1], r[2], r[3]);
      planes_from<L + 1>(digits, out);
    }
  }
};

// How a vector's elements become COUNT int8 planes of residues.
template <class Bits, int COUNT, bool WEIGHTED>
struct ResidueEncoder {
  static constexpr int PLANES = COUNT;
  static constexpr bool NEEDS_NORM = true;

  static HD i32 exponent(u64 amax, u64 norm, u32 limit, i32 limit_exponent) {
    return residue_scale(amax, norm, limit, limit_exponent);
  }

  static HD void encode(const Bits (&x)[4], i32 scale, u32 (&out)[PLANES]) {
    const Scale by = scale_by(scale);
    u64 digits[4];
    UNROLL for (int j = 0; j < 4; ++j) {
      const i64 r = to_integer<true>(scaled(to_double(x[j]), by));
      digits[j] = balanced_digits<Residues<COUNT, WEIGHTED>::SHORT ? 4 : 8>((u64)r);
    }
    Residues<COUNT, WEIGHTED>::template planes_from<0>(digits, out);
  }
};

}  // namespace emulation
