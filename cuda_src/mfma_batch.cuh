// Where the operands of a batch lie: strides in words, over two batch dimensions, registers and
// lanes.
#pragma once
#include "mfma_wave.cuh"

struct Strides {
  i64 outer, inner, vgpr, lane;
};

// The arguments of one call; gpuemu/mfma/batch.py packs them as 64-bit integers in this order.
struct Batch {
  i64 waves, inner_waves;  // all of them, and those of the inner dimension
  Strides a, b, c, idx, scale_a, scale_b;
  i64 cbsz, abid, blgp, lane_block, neg, index_set, byte_a, byte_b, formula_output;

  HD Modifiers modifiers() const {
    return {(int)cbsz,      (int)abid,   (int)blgp,   (int)lane_block,    (int)neg,
            (int)index_set, (int)byte_a, (int)byte_b, (int)formula_output};
  }
};

HD Input input_of_wave(const u32* base, const Strides& s, i64 outer, i64 inner) {
  return {base + outer * s.outer + inner * s.inner, s.vgpr, s.lane};
}

struct Pointers {
  const u32 *a, *b, *c, *idx, *scale_a, *scale_b;
};

// Everything that a kernel is told: one struct, passed by value.
struct Call {
  Batch batch;
  Pointers pointers;
  u32* d;
};

HD WaveInputs inputs_of_wave(const Batch& batch, const Pointers& p, i64 wave) {
#ifdef GPUEMU_DENSE
  const i64 outer = 0, inner = wave;
#else
  const i64 outer = wave / batch.inner_waves, inner = wave % batch.inner_waves;
#endif
  return {input_of_wave(p.a, batch.a, outer, inner),
          input_of_wave(p.b, batch.b, outer, inner),
          input_of_wave(p.c, batch.c, outer, inner),
          input_of_wave(p.idx, batch.idx, outer, inner),
          input_of_wave(p.scale_a, batch.scale_a, outer, inner),
          input_of_wave(p.scale_b, batch.scale_b, outer, inner)};
}

// The result is dense: (waves, d_vgprs, 64).
HD Image<u32> output_of_wave(const Config& c, u32* d, i64 wave) {
  return {d + wave * c.d_vgprs * LANES, LANES, 1};
}
