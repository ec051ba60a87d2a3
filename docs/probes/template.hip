// @question@
// Written by generate.py, which also says what each answer means. One wavefront, one instruction.
//   hipcc --offload-arch=@arch@ @name@.hip -o @name@ && ./@name@ > @name@.json
//   python generate.py @name@.json     which reading is it?
//   gpuemu verify @name@.json          is it the emulator's default?
#include <hip/hip_runtime.h>
#include <stdio.h>
#include <string.h>

typedef unsigned u1;
typedef unsigned u2 __attribute__((ext_vector_type(2)));
typedef unsigned u4 __attribute__((ext_vector_type(4)));
typedef unsigned u8 __attribute__((ext_vector_type(8)));

template <class T, int N> __device__ T load(const unsigned* words) {
  union { T whole; unsigned part[N]; } value;
  for (int n = 0; n < N; ++n) value.part[n] = words[64 * n + threadIdx.x];
  return value.whole;
}

template <class T, int N> __device__ void store(unsigned* words, T whole) {
  union { T whole; unsigned part[N]; } value;
  value.whole = whole;
  for (int n = 0; n < N; ++n) words[64 * n + threadIdx.x] = value.part[n];
}

__global__ void probe(const unsigned* a_words, const unsigned* b_words, const unsigned* c_words,
                      const unsigned* idx_words, unsigned* d_words) {
@kernels@
#endif
}

// Registers before, 64 lanes each.
@arrays@

struct Target {
  const char *arch, *instruction, *modifiers;
  const unsigned *a, *b, *c, *idx;
  int na, nb, nc;
};
static const Target targets[] = {
@targets@
};

// A vector file names the words that are not zero by register and lane.
static void print(const char* name, const unsigned* words, int registers, const char* end) {
  const char* separator = "";
  printf("    \"%s\": {", name);
  for (int n = 0; n < 64 * registers; ++n) {
    if (!words[n]) continue;
    printf("%s\"%d:%d\": \"%08X\"", separator, n / 64, n % 64, words[n]);
    separator = ", ";
  }
  printf("}%s\n", end);
}

static unsigned* upload(const unsigned* words, int registers) {
  unsigned* device = 0;
  if (hipMalloc((void**)&device, 256 * registers)) return 0;
  if (words && hipMemcpy(device, words, 256 * registers, hipMemcpyHostToDevice)) return 0;
  return device;
}

int main() {
  hipDeviceProp_t properties;
  if (hipGetDeviceProperties(&properties, 0)) return 1;
  for (const Target& t : targets) {
    if (strncmp(properties.gcnArchName, t.arch, 6)) continue;
    unsigned after[64 * 16], *a = upload(t.a, t.na), *b = upload(t.b, t.nb), *c = upload(t.c, t.nc);
    unsigned *idx = upload(t.idx, 1), *d = upload(0, t.nc);
    if (!a || !b || !c || !idx || !d) return 1;
    hipLaunchKernelGGL(probe, dim3(1), dim3(64), 0, 0, a, b, c, idx, d);
    if (hipMemcpy(after, d, 256 * t.nc, hipMemcpyDeviceToHost)) return 1;
    printf("{\"format\": \"gpuemu-vectors\", \"version\": 1, \"origin\": \"silicon\",\n");
    printf(" \"device\": \"%s\", \"tool\": \"probe @name@\",\n", properties.gcnArchName);
    printf(" \"groups\": [{\"instruction\": \"%s\", \"arch\": \"%s\",\n", t.instruction, t.arch);
    printf("  \"modifiers\": {%s},\n  \"cases\": [{\n", t.modifiers);
    print("a", t.a, t.na, ",");
    print("b", t.b, t.nb, ",");
    print("c", t.c, t.nc, ",");
    if (t.idx) print("idx", t.idx, 1, ",");
    print("d", after, t.nc, "}]}]}");
    return 0;
  }
  fprintf(stderr, "no target for %s\n", properties.gcnArchName);
  return 1;
}
