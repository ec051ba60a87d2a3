// The host build's door to the MFMA headers: the phases of the kernel, lane by lane.
#pragma once
#include <vector>

#include "mfma_batch.cuh"

namespace mfma_host {

template <class Algorithm>
void run(const Config& c, const Batch& batch, const Pointers& pointers, u32* d) {
  std::vector<u64> memory((std::size_t)Wave<Algorithm>::bytes(c) / sizeof(u64) + 1);
  const Wave<Algorithm> w(c, memory.data());
  const Modifiers mod = batch.modifiers();
  for (i64 wave = 0; wave < batch.waves; ++wave) {
    const WaveInputs in = inputs_of_wave(batch, pointers, wave);
    bool tame = true;
    for (int lane = 0; lane < LANES; ++lane) tame = w.load(c, mod, in, lane) && tame;
    const Image<u32> out = output_of_wave(c, d, wave);
    for (int lane = 0; lane < LANES; ++lane) w.compute(c, mod, in, out, lane, tame);
  }
}

}  // namespace mfma_host

extern "C" {

int gpuemu_mfma_config_fields() { return (int)(sizeof(Config) / sizeof(int)); }
int gpuemu_mfma_batch_fields() { return (int)(sizeof(Batch) / sizeof(i64)); }

void gpuemu_mfma(const Config* config, const Batch* batch, const Pointers* pointers, u32* d) {
  const Config& c = *config;
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
