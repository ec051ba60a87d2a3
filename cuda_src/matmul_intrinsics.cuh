// Directed rounding and packed maxima: GPU instructions, and what stands for them where there is no
// GPU.
#pragma once
#include "mfma_round.cuh"

#ifdef __CUDA_ARCH__
HD double fma_down(double a, double b, double c) { return __fma_rd(a, b, c); }
HD u32 with_sign_of(u32 x, u32 y) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, 0x80000000, 0xD8;" : "=r"(r) : "r"(x), "r"(y));
  return r;
}
HD double add_down(double a, double b) { return __dadd_rd(a, b); }
HD double add_near(double a, double b) { return __dadd_rn(a, b); }
HD double absolute(double x) { return fabs(x); }
HD u32 add_max_s16x2(u32 a, u32 b, u32 c) { return __viaddmax_s16x2(a, b, c); }
HD u32 high_word(double x) { return (u32)__double2hiint(x); }
HD u32 low_word(double x) { return (u32)__double2loint(x); }
HD double from_words(u32 high, u32 low) { return __hiloint2double((int)high, (int)low); }
HD double widen(float x) { return (double)x; }
HD float narrow(double x) { return __double2float_rn(x); }
#else
#include <cfenv>
// Compilers move arithmetic across fesetround; volatile operands keep it in place.
__attribute__((noinline)) inline double fma_down(double a, double b, double c) {
  volatile double x = a, y = b, z = c;
  std::fesetround(FE_DOWNWARD);
  volatile double r = __builtin_fma(x, y, z);
  std::fesetround(FE_TONEAREST);
  return r;
}
HD u32 with_sign_of(u32 x, u32 y) { return (x & 0x7FFFFFFFu) | (y & 0x80000000u); }
HD double add_down(double a, double b) { return fma_down(a, 1.0, b); }
HD double add_near(double a, double b) { return a + b; }
HD double absolute(double x) { return __builtin_fabs(x); }
HD i32 half_of(u32 x, int n) { return (i16)(x >> 16 * n); }
HD u32 add_max_s16x2(u32 a, u32 b, u32 c) {
  const i32 low = max_of((i32)(i16)(half_of(a, 0) + half_of(b, 0)), half_of(c, 0));
  const i32 high = max_of((i32)(i16)(half_of(a, 1) + half_of(b, 1)), half_of(c, 1));
  return (u32)high << 16 | (u32)(u16)low;
}
HD u32 high_word(double x) { return (u32)(double_to_bits(x) >> 32); }
HD u32 low_word(double x) { return (u32)double_to_bits(x); }
HD double from_words(u32 high, u32 low) { return bits_to_double((u64)high << 32 | low); }
HD double widen(float x) { return x; }
HD float narrow(double x) { return (float)x; }
#endif
