// The host build's door to the MFMA headers. Any call runs the phases of the kernel, lane by lane;
// dense instructions of the built-in models run 16 neighbouring lanes at a time instead.
#pragma once
#include "mfma_rows.h"

namespace mfma_host {

template <class Algorithm>
void run(const Config& c, const Batch& batch, const Pointers& pointers, u32* d) {
  const LaneByLane<Algorithm> lanes(c, batch.modifiers());
  for (i64 wave = 0; wave < batch.waves; ++wave)
    lanes.run(inputs_of_wave(batch, pointers, wave), output_of_wave(c, d, wave));
}

}  // namespace mfma_host

extern "C" {

int gpuemu_mfma_config_fields() { return (int)(sizeof(Config) / sizeof(int)); }
int gpuemu_mfma_batch_fields() { return (int)(sizeof(Batch) / sizeof(i64)); }

void gpuemu_mfma(const Config* config, const Batch* batch, const Pointers* pointers, u32* d) {
  const Config& c = *config;
  if (mfma_host::run_by_rule(c, *batch, *pointers, d)) return;
  switch (c.algorithm) {
    case FMA32:
      return mfma_host::run<Fma32>(c, *batch, *pointers, d);
    case FMA64:
      return mfma_host::run<Fma64>(c, *batch, *pointers, d);
    case EXACT:
      return mfma_host::run<Exact>(c, *batch, *pointers, d);
    case PAIRWISE:
      return mfma_host::run<Pairwise>(c, *batch, *pointers, d);
    case INTEGER:
      return mfma_host::run<Integer>(c, *batch, *pointers, d);
    default:
      return c.narrow ? mfma_host::run<Aligned<i32>>(c, *batch, *pointers, d)
                      : mfma_host::run<Aligned<i64>>(c, *batch, *pointers, d);
  }
}
}
