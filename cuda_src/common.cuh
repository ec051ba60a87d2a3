// Types and bit-level helpers shared by NVRTC, nvcc and the host compiler.
//
// Nothing is included under NVRTC: it has no standard headers. HD marks a function that the GPU and
// the host build both compile; everything here is exact, so both give the same bits.
#pragma once

#ifdef __CUDACC__
#define HD __device__ __forceinline__
#define COLD __device__ __noinline__  // rare paths: out of line, so that hot loops stay small
#define UNROLL _Pragma("unroll")
#define UNROLL_LINK UNROLL  // over the products of a link
#define UNROLL_2 _Pragma("unroll 2")
#define ROLLED _Pragma("unroll 1")
#else
#define HD inline __attribute__((always_inline))
#define COLD inline __attribute__((noinline))
#define UNROLL
#ifndef UNROLL_LINK
#define UNROLL_LINK
#endif
#define UNROLL_2
#define ROLLED
#endif

using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i128 = __int128;
using u128 = unsigned __int128;

#ifdef __CUDA_ARCH__
HD u32 float_to_bits(float x) { return __float_as_uint(x); }
HD float bits_to_float(u32 x) { return __uint_as_float(x); }
HD u64 double_to_bits(double x) { return (u64)__double_as_longlong(x); }
HD double bits_to_double(u64 x) { return __longlong_as_double((i64)x); }
HD int clz32(u32 x) { return __clz((int)x); }
HD int clz64(u64 x) { return __clzll((i64)x); }
HD float fma_f32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
HD double fma_f64(double a, double b, double c) { return __fma_rn(a, b, c); }
HD float mul_f32(float a, float b) { return __fmul_rn(a, b); }
HD float add_f32(float a, float b) { return __fadd_rn(a, b); }
#else
template <class To, class From>
inline To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps every bit");
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}
HD u32 float_to_bits(float x) { return bit_cast<u32>(x); }
HD float bits_to_float(u32 x) { return bit_cast<float>(x); }
HD u64 double_to_bits(double x) { return bit_cast<u64>(x); }
HD double bits_to_double(u64 x) { return bit_cast<double>(x); }
// As on the GPU, clz of zero is the width.
HD int clz32(u32 x) { return x ? __builtin_clz(x) : 32; }
HD int clz64(u64 x) { return x ? __builtin_clzll(x) : 64; }
HD float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
HD double fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
HD float mul_f32(float a, float b) { return a * b; }
HD float add_f32(float a, float b) { return a + b; }
#endif

template <class T>
HD T min_of(T a, T b) {
  return a < b ? a : b;
}
template <class T>
HD T max_of(T a, T b) {
  return a > b ? a : b;
}
