// dot, model "pairwise": binary32 products summed in a tree of two or four, then added to the
// accumulator, every step rounded to nearest even, subnormals flushed where the model says so.
#pragma once
#include "mfma_round.cuh"

struct Pairwise {
  using Value = u32;  // binary32
  using Accumulator = u32;
  static const int OUTPUTS_AT_ONCE = 4;  // of a lane, unrolled

  HD static Value load(const Config& c, const Operand& o, u64 code) {
    return to_binary32(o, (u32)code, c.flush_inputs);
  }

  HD static float step(const Config& c, float x) {
    return c.flush_outputs ? bits_to_float(flush_subnormal(float_to_bits(x))) : x;
  }

  template <class Fetch, class Scale>
  HD static u32 dot(const Config& c, u32 d, Fetch fetch, Scale) {
    float sum = bits_to_float(c.flush_inputs ? flush_to_plus_zero(d) : d);
    UNROLL for (int k = 0; k < c.products; k += c.group) {
      float p[4] = {};
      UNROLL for (int t = 0; t < c.group; ++t) {
        Value a, b;
        fetch(k + t, a, b);
        p[t] = step(c, mul_f32(bits_to_float(a), bits_to_float(b)));
      }
      float link = p[0];
      if (c.group >= 2) link = step(c, add_f32(p[0], p[1]));
      if (c.group == 4) link = step(c, add_f32(link, step(c, add_f32(p[2], p[3]))));
      sum = step(c, add_f32(sum, link));
    }
    const u32 bits = float_to_bits(sum);
    return is_nan32(bits) ? QUIET_NAN : bits;
  }
};
