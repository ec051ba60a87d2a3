// Element formats of GEMM operands: bits to values and back, exact or rounded once.
//
// A format is a small integer that Python and the host build share. On the GPU it is a compile-time
// constant, so every switch below folds away.
#pragma once
#include "common.cuh"

enum GemmFormat {
  GEMM_F8E4M3FN,
  GEMM_F8E5M2,
  GEMM_F16,
  GEMM_BF16,
  GEMM_TF32,
  GEMM_F32,
  GEMM_F64,
  GEMM_I8,
  GEMM_U8,
  GEMM_I16,
  GEMM_U16,
  GEMM_I32,
  GEMM_U32,
  GEMM_I64,
  GEMM_U64
};

HD constexpr int gemm_bytes(int format) {
  return format == GEMM_F8E4M3FN || format == GEMM_F8E5M2 || format == GEMM_I8 || format == GEMM_U8
             ? 1
         : format == GEMM_F16 || format == GEMM_BF16 || format == GEMM_I16 || format == GEMM_U16 ? 2
         : format == GEMM_F64 || format == GEMM_I64 || format == GEMM_U64 ? 8
                                                                          : 4;
}

// The value of a float with few bits, as f32: every such value is an f32, subnormals included.
HD float gemm_small_float(u32 bits, int exponent_bits, int fraction_bits) {
  u32 sign = bits >> (exponent_bits + fraction_bits) & 1;
  u32 field = bits >> fraction_bits & ((1u << exponent_bits) - 1);
  u32 fraction = bits & ((1u << fraction_bits) - 1);
  int bias = (1 << (exponent_bits - 1)) - 1;
  if (field)
    return bits_to_float(sign << 31 | (field + 127 - bias) << 23 |
                         fraction << (23 - fraction_bits));
  float unit = bits_to_float((u32)(127 + 1 - bias - fraction_bits) << 23);
  float magnitude = mul_f32((float)fraction, unit);
  return sign ? -magnitude : magnitude;
}

HD float gemm_f16_to_f32(u16 bits) {
  if ((bits & 0x7C00) == 0x7C00)
    return bits_to_float((u32)(bits & 0x8000) << 16 | 0x7F800000u | (u32)(bits & 0x3FF) << 13);
  return gemm_small_float(bits, 5, 10);
}

HD float gemm_f8_to_f32(u8 bits, bool e5m2) {
  if (e5m2) {
    if ((bits & 0x7C) == 0x7C)
      return bits_to_float((u32)(bits & 0x80) << 24 | 0x7F800000u | (u32)(bits & 3) << 21);
    return gemm_small_float(bits, 5, 2);
  }
  return (bits & 0x7F) == 0x7F ? bits_to_float(0x7FFFFFFFu) : gemm_small_float(bits, 4, 3);
}

// f32 bits to tf32: nearest, ties away from zero; every NaN becomes one that survives truncation.
HD u32 gemm_round_tf32(u32 bits) {
  u32 magnitude = bits & 0x7FFFFFFFu;
  if (magnitude >= 0x7F800000u) return magnitude == 0x7F800000u ? bits : 0x7FFFFFFFu;
  return (bits + 0x1000u) & 0xFFFFE000u;
}

// Round a magnitude `value` times 2^weight to a float of `fraction` bits, to nearest even or down.
// The result is the bit pattern without its sign; beyond the largest number it is infinity.
HD u32 gemm_round_magnitude(u64 value, int weight, int fraction, int least_exponent, u32 infinity,
                            bool nearest) {
  if (value == 0) return 0;
  int exponent = max_of(63 - clz64(value) + weight, least_exponent);
  int shift = exponent - fraction - weight;
  u64 kept = shift <= 0 ? value << -shift : shift < 64 ? value >> shift : 0;
  if (nearest && shift > 0 && shift < 64) {
    u64 rest = value - (kept << shift);
    u64 half = (u64)1 << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
  }
  // Exponent field less one, for `kept` brings the hidden bit; a carry moves up by itself.
  i64 field = (i64)exponent - least_exponent;
  if (field > 4096) return infinity;
  u64 bits = ((u64)field << fraction) + kept;
  return bits >= infinity ? infinity : (u32)bits;
}

HD u16 gemm_f64_to_f16(double x) {
  u64 bits = double_to_bits(x);
  u16 sign = (u16)(bits >> 48 & 0x8000);
  int field = (int)(bits >> 52 & 0x7FF);
  u64 fraction = bits & 0xFFFFFFFFFFFFFull;
  if (field == 0x7FF) return (u16)(sign | (fraction ? 0x7E00 : 0x7C00));
  if (field == 0) return sign;
  return (u16)(sign |
               gemm_round_magnitude(fraction | (u64)1 << 52, field - 1075, 10, -14, 0x7C00, true));
}

// What an accumulator of format C sees of an operand: its value, rounded to C where C is narrower.
template <class Operand>
HD Operand gemm_operand(int format, const void* memory, i64 index);

HD double gemm_float_value(int format, const void* memory, i64 index) {
  switch (format) {
    case GEMM_F8E4M3FN:
      return gemm_f8_to_f32(((const u8*)memory)[index], false);
    case GEMM_F8E5M2:
      return gemm_f8_to_f32(((const u8*)memory)[index], true);
    case GEMM_F16:
      return gemm_f16_to_f32(((const u16*)memory)[index]);
    case GEMM_BF16:
      return bits_to_float((u32)((const u16*)memory)[index] << 16);
    case GEMM_TF32:
      return bits_to_float(gemm_round_tf32(((const u32*)memory)[index]));
    case GEMM_F32:
      return ((const float*)memory)[index];
    default:
      return ((const double*)memory)[index];
  }
}

// An operand has at most a quarter of the accumulator's 64 bits.
HD u64 gemm_integer_value(int format, const void* memory, i64 index) {
  switch (format) {
    case GEMM_I8:
      return (u64)(i64)((const i8*)memory)[index];
    case GEMM_U8:
      return ((const u8*)memory)[index];
    case GEMM_I16:
      return (u64)(i64)((const i16*)memory)[index];
    default:
      return ((const u16*)memory)[index];
  }
}

template <>
HD double gemm_operand<double>(int format, const void* memory, i64 index) {
  return gemm_float_value(format, memory, index);
}
template <>
HD float gemm_operand<float>(int format, const void* memory, i64 index) {
  if (format == GEMM_F64) return (float)((const double*)memory)[index];
  return (float)gemm_float_value(format, memory, index);
}
template <>
HD u32 gemm_operand<u32>(int format, const void* memory, i64 index) {
  return (u32)gemm_integer_value(format, memory, index);
}
template <>
HD u64 gemm_operand<u64>(int format, const void* memory, i64 index) {
  return gemm_integer_value(format, memory, index);
}
