// The register-level kernel: WAVES wavefronts a block, 64 threads each, thread = lane. Compiled
// once for every instruction and model: GPUEMU_CONFIG holds the fields of Config, ALGORITHM the
// type of the dot.
#include "mfma_batch.cuh"

constexpr Config CONFIG = {GPUEMU_CONFIG};

extern "C" __global__ void __launch_bounds__(WAVES* LANES) mfma(const __grid_constant__ Call call) {
  const Batch& batch = call.batch;

  extern __shared__ __align__(16) u8 memory[];
  using Algorithm = ALGORITHM;
  const int slot = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const i64 wave = (i64)blockIdx.x * WAVES + slot;
  const Wave<Algorithm> w(CONFIG, memory + slot * Wave<Algorithm>::bytes(CONFIG));
  const Modifiers mod = batch.modifiers();
  const WaveInputs in = inputs_of_wave(batch, call.pointers, wave < batch.waves ? wave : 0);
  const bool tame = __syncthreads_and(w.load(CONFIG, mod, in, lane));
  if (wave < batch.waves)
    w.compute(CONFIG, mod, in, output_of_wave(CONFIG, call.d, wave), lane, tame);
}
