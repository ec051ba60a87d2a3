// dot, model "fma": one fused multiply-add a k, ascending, rounded to nearest even each time.
#pragma once
#include "mfma_dot.cuh"

struct Fma32 : Dot<Fma32> {
  using Value = u32;
  using Accumulator = u32;

  HD static Value load(const Config& c, const Operand& o, u64 code) {
    return to_binary32(o, (u32)code, c.flush_inputs);
  }
  HD static u32 start(const Config& c, u32 d) { return c.flush_inputs ? flush_to_plus_zero(d) : d; }
  HD static u32 finish(u32 d) { return is_nan32(d) ? QUIET_NAN : d; }

  template <class Fetch>
  HD static u32 link(const Config& c, u32 d, const Value* a, const Value* b, const int*, int, Fetch,
                     int) {
    float sum = bits_to_float(d);
    UNROLL_LINK for (int t = 0; t < c.group; ++t) {
      sum = fma_f32(bits_to_float(a[t]), bits_to_float(b[t]), sum);
      if (c.flush_outputs) sum = bits_to_float(flush_subnormal(float_to_bits(sum)));
    }
    return float_to_bits(sum);
  }
};

struct Fma64 : Dot<Fma64> {
  using Value = u64;
  using Accumulator = u64;

  HD static Value load(const Config&, const Operand&, u64 code) { return code; }
  HD static u64 start(const Config&, u64 d) { return d; }
  HD static u64 finish(u64 d) {
    const double x = bits_to_double(d);
    return x == x ? d : 0x7FF8000000000000ull;
  }

  template <class Fetch>
  HD static u64 link(const Config& c, u64 d, const Value* a, const Value* b, const int*, int, Fetch,
                     int) {
    double sum = bits_to_double(d);
    UNROLL_LINK for (int t = 0; t < c.group; ++t) sum =
        fma_f64(bits_to_double(a[t]), bits_to_double(b[t]), sum);
    return double_to_bits(sum);
  }
};
