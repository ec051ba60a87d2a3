// alpha * acc + beta * C, every operation rounded to C's format, on bit patterns.
#pragma once
#include "gemm_formats.cuh"

// Factors as bit patterns of C's format; the imaginary parts of real problems are zero.
struct GemmScale {
  u64 alpha[2], beta[2];
};

// The operations below call common.cuh's so that no compiler contracts them.
HD u64 gemm_multiply(int format, u64 x, u64 y) {
  switch (format) {
    case GEMM_F16:
      return gemm_f64_to_f16((double)gemm_f16_to_f32((u16)x) * (double)gemm_f16_to_f32((u16)y));
    case GEMM_F32:
      return float_to_bits(mul_f32(bits_to_float((u32)x), bits_to_float((u32)y)));
    case GEMM_F64:
      return double_to_bits(fma_f64(bits_to_double(x), bits_to_double(y), -0.0));
    default:
      return x * y;
  }
}

HD u64 gemm_add(int format, u64 x, u64 y) {
  switch (format) {
    // A sum of two halves has at most 41 significant bits: exact in f64.
    case GEMM_F16:
      return gemm_f64_to_f16((double)gemm_f16_to_f32((u16)x) + (double)gemm_f16_to_f32((u16)y));
    case GEMM_F32:
      return float_to_bits(add_f32(bits_to_float((u32)x), bits_to_float((u32)y)));
    case GEMM_F64:
      return double_to_bits(fma_f64(bits_to_double(x), 1.0, bits_to_double(y)));
    default:
      return x + y;
  }
}

HD u64 gemm_negate(int format, u64 x) {
  switch (format) {
    case GEMM_F16:
      return x ^ 0x8000;
    case GEMM_F32:
      return x ^ 0x80000000u;
    case GEMM_F64:
      return x ^ (u64)1 << 63;
    default:
      return 0 - x;
  }
}

// -0 counts as zero, as does +0.
HD bool gemm_is_zero(int format, u64 x) {
  u64 sign = gemm_negate(format, 0);
  return x == 0 || (sign && x == sign);
}

HD u64 gemm_one(int format) {
  return format == GEMM_F16   ? 0x3C00
         : format == GEMM_F32 ? 0x3F800000u
         : format == GEMM_F64 ? 0x3FF0000000000000ull
                              : 1;
}

// factor * x in place; a zero imaginary part is not multiplied.
HD void gemm_scale(int format, int parts, const u64* factor, u64* x) {
  if (parts == 1 || gemm_is_zero(format, factor[1])) {
    for (int part = 0; part < parts; part++) x[part] = gemm_multiply(format, factor[0], x[part]);
    return;
  }
  u64 re = gemm_add(format, gemm_multiply(format, factor[0], x[0]),
                    gemm_negate(format, gemm_multiply(format, factor[1], x[1])));
  u64 im = gemm_add(format, gemm_multiply(format, factor[0], x[1]),
                    gemm_multiply(format, factor[1], x[0]));
  x[0] = re;
  x[1] = im;
}

HD u64 gemm_load_bits(int format, const void* memory, i64 index) {
  switch (gemm_bytes(format)) {
    case 2:
      return ((const u16*)memory)[index];
    case 4:
      return ((const u32*)memory)[index];
    default:
      return ((const u64*)memory)[index];
  }
}

HD void gemm_store_bits(int format, void* memory, i64 index, u64 bits) {
  switch (gemm_bytes(format)) {
    case 2:
      ((u16*)memory)[index] = (u16)bits;
      break;
    case 4:
      ((u32*)memory)[index] = (u32)bits;
      break;
    default:
      ((u64*)memory)[index] = bits;
  }
}

// Finish one element: `acc` holds its parts as bits; C is read only where beta is not zero.
HD void gemm_finish(int format, int parts, GemmScale scale, u64* acc, const void* c, i64 c_index,
                    void* d, i64 d_index) {
  bool imaginary = parts == 2;
  bool unit =
      scale.alpha[0] == gemm_one(format) && !(imaginary && !gemm_is_zero(format, scale.alpha[1]));
  if (!unit) gemm_scale(format, parts, scale.alpha, acc);
  bool reads =
      !gemm_is_zero(format, scale.beta[0]) || (imaginary && !gemm_is_zero(format, scale.beta[1]));
  if (reads) {
    u64 old[2] = {0, 0};
    for (int part = 0; part < parts; part++)
      old[part] = gemm_load_bits(format, c, c_index * parts + part);
    gemm_scale(format, parts, scale.beta, old);
    for (int part = 0; part < parts; part++) acc[part] = gemm_add(format, acc[part], old[part]);
  }
  for (int part = 0; part < parts; part++)
    gemm_store_bits(format, d, d_index * parts + part, acc[part]);
}
