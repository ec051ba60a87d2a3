// dot, model "fma": one fused multiply-add a k, ascending, rounded to nearest even each time.
#pragma once
#include "mfma_round.cuh"

struct Fma32 {
  using Value = u32;
  using Accumulator = u32;
  static const int OUTPUTS_AT_ONCE = 8;  // of a lane, unrolled

  HD static Value load(const Config& c, const Operand& o, u64 code) {
    return to_binary32(o, (u32)code, c.flush_inputs);
  }

  template <class Fetch, class Scale>
  HD static u32 dot(const Config& c, u32 d, Fetch fetch, Scale) {
    float sum = bits_to_float(c.flush_inputs ? flush_to_plus_zero(d) : d);
    UNROLL for (int k = 0; k < c.products; ++k) {
      Value a, b;
      fetch(k, a, b);
      sum = fma_f32(bits_to_float(a), bits_to_float(b), sum);
      if (c.flush_outputs) sum = bits_to_float(flush_subnormal(float_to_bits(sum)));
    }
    const u32 bits = float_to_bits(sum);
    return is_nan32(bits) ? QUIET_NAN : bits;
  }
};

struct Fma64 {
  using Value = u64;
  using Accumulator = u64;
  static const int OUTPUTS_AT_ONCE = 8;  // of a lane, unrolled

  HD static Value load(const Config&, const Operand&, u64 bits) { return bits; }

  template <class Fetch, class Scale>
  HD static u64 dot(const Config& c, u64 d, Fetch fetch, Scale) {
    double sum = bits_to_double(d);
    UNROLL for (int k = 0; k < c.products; ++k) {
      Value a, b;
      fetch(k, a, b);
      sum = fma_f64(bits_to_double(a), bits_to_double(b), sum);
    }
    return sum == sum ? double_to_bits(sum) : 0x7FF8000000000000ull;
  }
};
