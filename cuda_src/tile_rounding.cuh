// Fused multiply-add in the directed roundings, which the GPU has as instructions.
//
// fma_down and fma_up bracket the exact sum: they are equal exactly where it is representable, and
// otherwise neighbours, one of them with an odd last bit.
#pragma once
#include "common.cuh"

#ifndef __CUDACC__
#include <cfenv>
#endif

namespace tile {

#ifdef __CUDA_ARCH__
HD float fma_down(float x, float y, float z) { return __fmaf_rd(x, y, z); }
HD float fma_up(float x, float y, float z) { return __fmaf_ru(x, y, z); }
HD double fma_down(double x, double y, double z) { return __fma_rd(x, y, z); }
HD double fma_up(double x, double y, double z) { return __fma_ru(x, y, z); }
#else
HD float fma_nearest(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
HD double fma_nearest(double x, double y, double z) { return __builtin_fma(x, y, z); }
// The compiler knows nothing of rounding modes: volatile keeps the operation between the two
// switches.
template <class F>
inline F fma_in_mode(int mode, F x, F y, F z) {
  volatile F left = x, right = y, addend = z;
  std::fesetround(mode);
  volatile F result = fma_nearest(F(left), F(right), F(addend));
  std::fesetround(FE_TONEAREST);
  return result;
}
template <class F>
inline F fma_down(F x, F y, F z) {
  return fma_in_mode(FE_DOWNWARD, x, y, z);
}
template <class F>
inline F fma_up(F x, F y, F z) {
  return fma_in_mode(FE_UPWARD, x, y, z);
}
#endif

#ifdef __CUDACC__
HD float fma_nearest(float x, float y, float z) { return fma_f32(x, y, z); }
HD double fma_nearest(double x, double y, double z) { return fma_f64(x, y, z); }
#endif

}  // namespace tile
