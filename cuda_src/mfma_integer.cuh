// dot, model "integer": exact products of signed bytes, summed modulo 2^32.
#pragma once
#include "mfma_config.cuh"

struct Integer {
  using Value = i32;
  using Accumulator = u32;
  static const int OUTPUTS_AT_ONCE = 8;  // of a lane, unrolled

  HD static Value load(const Config&, const Operand&, u64 code) { return (i8)code; }

  template <class Fetch, class Scale>
  HD static u32 dot(const Config& c, u32 d, Fetch fetch, Scale) {
    UNROLL for (int k = 0; k < c.products; ++k) {
      Value a, b;
      fetch(k, a, b);
      d += (u32)(a * b);
    }
    return d;
  }
};
