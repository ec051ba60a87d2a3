// Runs the kernels of one .cu file on CPU threads: one thread a CUDA thread, blocks in turn.
#pragma once
#include <barrier>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

struct Index {
  int x, y, z;
};
inline thread_local Index threadIdx, blockIdx;
inline Index blockDim, gridDim;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define DYNAMIC_SHARED(name) alignas(16) static unsigned char name[200 * 1024]

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};

namespace threads {
inline std::unique_ptr<std::barrier<>> block;
inline std::vector<std::unique_ptr<std::barrier<>>> warps;
inline std::vector<unsigned long long> lanes;
inline std::mutex lock;
inline int own() { return threadIdx.y * blockDim.x + threadIdx.x; }
}  // namespace threads

inline void __syncthreads() { threads::block->arrive_and_wait(); }

inline unsigned long long __shfl_xor_sync(unsigned, unsigned long long value, int mask) {
  const int own = threads::own();
  threads::lanes[own] = value;
  threads::warps[own / 32]->arrive_and_wait();
  const unsigned long long got = threads::lanes[own ^ mask];
  threads::warps[own / 32]->arrive_and_wait();
  return got;
}

template <class T>
void atomicMax(T* address, T value) {
  const std::lock_guard<std::mutex> guard(threads::lock);
  if (*address < value) *address = value;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}

template <class... Args, size_t... I>
void run_grid(void (*kernel)(Args...), void** args, std::index_sequence<I...>) {
  const int count = blockDim.x * blockDim.y;
  const auto fresh = [count]() noexcept {
    threads::block = std::make_unique<std::barrier<>>(count);
    threads::warps.clear();
    for (int w = 0; w < count; w += 32)
      threads::warps.push_back(std::make_unique<std::barrier<>>(count - w < 32 ? count - w : 32));
  };
  fresh();
  threads::lanes.assign(count, 0);
  std::barrier round(count, fresh);
  std::vector<std::thread> running;
  for (int t = 0; t < count; ++t)
    running.emplace_back([&, t] {
      threadIdx = {t % blockDim.x, t / blockDim.x, 0};
      for (int b = 0; b < gridDim.x * gridDim.y; ++b) {
        blockIdx = {b % gridDim.x, b / gridDim.x, 0};
        kernel(*static_cast<std::remove_cv_t<Args>*>(args[I])...);
        threads::block->arrive_and_drop();
        round.arrive_and_wait();
      }
    });
  for (auto& thread : running) thread.join();
}

template <class... Args>
void launch(void (*kernel)(Args...), void** args, const int* shape) {
  gridDim = {shape[0], shape[1], 1};
  blockDim = {shape[2], shape[3], 1};
  run_grid(kernel, args, std::index_sequence_for<Args...>());
}

#define EXPORT(kernel) \
  extern "C" void launch_##kernel(void** args, const int* shape) { launch(kernel, args, shape); }
