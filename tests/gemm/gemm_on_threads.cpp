// The program around gemm_on_threads.h: numbers and operands from files, the result to a file.
#include "gemm_on_threads.h"

#include "gemm.cu"

// Of exactly the file's size, so that the address sanitizer sees the first byte beyond it.
static std::vector<unsigned char> read_file(const char* name) {
  FILE* file = std::fopen(name, "rb");
  if (!file) std::abort();
  std::fseek(file, 0, SEEK_END);
  std::vector<unsigned char> data((size_t)std::ftell(file));
  std::rewind(file);
  if (std::fread(data.data(), 1, data.size(), file) != data.size()) std::abort();
  std::fclose(file);
  return data;
}

// numbers: grid, block x y z, shared bytes, then the kernel's integer arguments and factors.
int main(int, char** names) {
  auto numbers = read_file(names[1]), a = read_file(names[2]), b = read_file(names[3]);
  auto c = read_file(names[4]), d = read_file(names[5]);
  const i64* x = (const i64*)numbers.data();
  const u64* f = (const u64*)(x + 12);
  blockDim = {(int)x[1], (int)x[2], (int)x[3]};
  const int count = blockDim.x * blockDim.y * blockDim.z;
  for (int tile = 0; tile < x[0]; ++tile) {
    dynamic_shared = std::vector<unsigned char>((size_t)x[4], 0xFF);
    block_barrier = std::make_unique<std::barrier<>>(count);
    warp_barriers.clear();
    for (int w = 0; w < count; w += 32)
      warp_barriers.push_back(std::make_unique<std::barrier<>>(count - w < 32 ? count - w : 32));
    std::vector<std::thread> running;
    for (int t = 0; t < count; ++t)
      running.emplace_back([&, t, tile] {
        blockIdx = {tile, 0, 0};
        threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
        gemm_tile(a.data(), b.data(), c.data(), d.data(), x[5], x[6], x[7], x[8], x[9], x[10], x[11],
                  f[0], f[1], f[2], f[3]);
        block_barrier->arrive_and_drop();
      });
    for (auto& thread : running) thread.join();
  }
  FILE* file = std::fopen(names[5], "wb");
  std::fwrite(d.data(), 1, d.size(), file);
  std::fclose(file);
}
