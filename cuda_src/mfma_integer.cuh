// dot, model "integer": exact products of signed bytes, summed modulo 2^32.
#pragma once
#include "mfma_dot.cuh"

struct Integer : Dot<Integer> {
  using Value = i32;
  using Accumulator = u32;

  HD static Value load(const Config&, const Operand&, u64 code) { return (i8)code; }
  HD static u32 start(const Config&, u32 d) { return d; }
  HD static u32 finish(u32 d) { return d; }

  template <class Fetch>
  HD static u32 link(const Config& c, u32 d, const Value* a, const Value* b, const int*, int, Fetch,
                     int) {
    UNROLL_LINK for (int t = 0; t < c.group; ++t) d += (u32)(a[t] * b[t]);
    return d;
  }
};
