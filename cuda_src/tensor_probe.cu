// One tensor-core instruction on many matrices, to find out how it computes: a 16 x 16 result from
// A, B and C as they lie in memory.
//
// MMA is the instruction's PTX name behind "mma.sync.aligned.". In 32-bit words along k every shape
// has 16 x 8 words of A and 8 x 8 of B: lane 4 g + t holds of A the words (row g, t), (g + 8, t),
// (g, t + 4), (g + 8, t + 4), of B (column g, t), (g, t + 4), of D (g, 2 t), (g, 2 t + 1),
// (g + 8, 2 t), (g + 8, 2 t + 1). f64 m8n8k4 has A at (g, t), B at (t, g), D at (g, 2 t + n).
#include "common.cuh"

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

const int WARP = 32, ROWS = 16, WORDS = 8, WIDE_K = 4;

// One warp computes eight columns of one case; a (cases, 16, 8) words, b (cases, 16 columns, 8), c
// and d (cases, 16, 16). With DOUBLE: a (cases, 16, 4), b (cases, 16 columns, 4).
extern "C" __global__ void tensor_probe(const void* a_words, const void* b_words, const void* c_in,
                                        void* d_out, i64 cases) {
  const i64 warp = (i64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
  const i64 at = warp / 2;
  if (at >= cases) return;
  const int left = 8 * (int)(warp % 2), g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#ifdef DOUBLE
  const double* a = (const double*)a_words + at * ROWS * WIDE_K;
  const double* b = (const double*)b_words + at * ROWS * WIDE_K;
  const double* c = (const double*)c_in + at * ROWS * ROWS;
  double* d = (double*)d_out + at * ROWS * ROWS;
  UNROLL for (int top = 0; top < ROWS; top += 8) {
    const int place = (top + g) * ROWS + left + 2 * t;
    double x[2] = {c[place], c[place + 1]};
    asm("mma.sync.aligned." STRING(MMA) " {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(x[0]), "+d"(x[1])
        : "d"(a[(top + g) * WIDE_K + t]), "d"(b[(left + g) * WIDE_K + t]));
    d[place] = x[0], d[place + 1] = x[1];
  }
#else
  const u32* a = (const u32*)a_words + at * ROWS * WORDS + g * WORDS + t;
  const u32* b = (const u32*)b_words + at * ROWS * WORDS + (left + g) * WORDS + t;
  const float* c = (const float*)c_in + at * ROWS * ROWS;
  float* d = (float*)d_out + at * ROWS * ROWS;
  const int high = g * ROWS + left + 2 * t, low = high + 8 * ROWS;
  float x[4] = {c[high], c[high + 1], c[low], c[low + 1]};
  asm("mma.sync.aligned." STRING(MMA) " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
      : "r"(a[0]), "r"(a[8 * WORDS]), "r"(a[4]), "r"(a[8 * WORDS + 4]), "r"(b[0]), "r"(b[4]));
  d[high] = x[0], d[high + 1] = x[1], d[low] = x[2], d[low + 1] = x[3];
#endif
}
