// dot, model "pairwise": binary32 products summed in a tree of two or four, then added to the
// accumulator, every step rounded to nearest even, subnormals flushed where the model says so.
#pragma once
#include "mfma_dot.cuh"

struct Pairwise : Dot<Pairwise> {
  using Value = u32;  // binary32
  using Accumulator = u32;

  HD static Value load(const Config& c, const Operand& o, u64 code) {
    return to_binary32(o, (u32)code, c.flush_inputs);
  }
  HD static u32 start(const Config& c, u32 d) { return c.flush_inputs ? flush_to_plus_zero(d) : d; }
  HD static u32 finish(u32 d) { return is_nan32(d) ? QUIET_NAN : d; }

  HD static float step(const Config& c, float x) {
    return c.flush_outputs ? bits_to_float(flush_subnormal(float_to_bits(x))) : x;
  }

  template <class Fetch>
  HD static u32 link(const Config& c, u32 d, const Value* a, const Value* b, const int*, int, Fetch,
                     int) {
    float p[4] = {};
    UNROLL_LINK for (int t = 0; t < c.group; ++t) p[t] =
        step(c, mul_f32(bits_to_float(a[t]), bits_to_float(b[t])));
    float sum = p[0];
    if (c.group >= 2) sum = step(c, add_f32(p[0], p[1]));
    if (c.group == 4) sum = step(c, add_f32(sum, step(c, add_f32(p[2], p[3]))));
    return float_to_bits(step(c, add_f32(bits_to_float(d), sum)));
  }
};
