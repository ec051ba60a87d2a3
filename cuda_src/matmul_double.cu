// The tuned product of the binary64 chain on the FP64 tensor cores: their mma is a chain of fused
// multiply-adds along ascending k, so that a sequence of them is the chain of the model.
//
// 128 x 128 outputs a block, eight warps of 64 x 32; STAGES chunks of k are on their way to shared
// memory.
#include "matmul_raster.cuh"

constexpr int SIDE = 128, CHUNK = 16, THREADS = 256, PAD = 4, STAGES = 3;
constexpr int ITEMS = SIDE * CHUNK / THREADS;
constexpr int TILES_DOWN = 4, TILES_ACROSS = 4;  // 16 x 8 tiles of a warp

struct __align__(16) Buffer {
  double a[CHUNK][SIDE + PAD];
  double b[CHUNK][SIDE + PAD];
};

// D += A B for 8 x 4 and 4 x 8: lane 4 g + t holds A at (g, t), B at (t, g), D at (g, 2 t) and (g,
// 2 t + 1).
__device__ __forceinline__ void mma_k4(double& d0, double& d1, double a, double b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(d0), "+d"(d1)
      : "d"(a), "d"(b));
}

// The same for 16 x 16 and 16 x 8: A at (g, t), (g + 8, t), (g, t + 4) and so on, B at (t, g), (t +
// 4, g) and so on, D at (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
__device__ __forceinline__ void mma_k16(double (&d)[4], const double (&a)[8],
                                        const double (&b)[4]) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
      "{%4,%5,%6,%7,%8,%9,%10,%11}, "
      "{%12,%13,%14,%15}, {%0,%1,%2,%3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
        "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
  UNROLL for (int n = 0; n < 4; ++n) UNROLL for (int half = 0; half < 2; ++half)
      mma_k4(d[2 * half], d[2 * half + 1], a[2 * n + half], b[n]);
#endif
}

// Items of one operand at even steps through (SIDE, CHUNK), along whichever of the two lies dense
// in memory.
struct Loader {
  const double* from;
  i64 step, k_stride;
  int row, k, row_step, k_step, rows;

  __device__ __forceinline__ Loader(const void* base, i64 batch_offset, i64 first, i64 count,
                                    i64 row_stride, i64 k_stride)
      : k_stride(k_stride) {
    const bool along_k = k_stride == 1 || row_stride != 1;
    const int thread = threadIdx.x;
    row = along_k ? thread / CHUNK : thread % SIDE;
    k = along_k ? thread % CHUNK : thread / SIDE;
    row_step = along_k ? THREADS / CHUNK : 0;
    k_step = along_k ? 0 : THREADS / SIDE;
    step = row_step * row_stride + k_step * k_stride;
    rows = (int)min_of((i64)SIDE, count - first);
    from = (const double*)base + batch_offset + (first + row) * row_stride + k * k_stride;
  }

  // Starts the copy; items outside become zeros.
  __device__ __forceinline__ void start(i64 first, i64 k_end,
                                        double (&to)[CHUNK][SIDE + PAD]) const {
    const double* at = from + first * k_stride;
    UNROLL for (int n = 0; n < ITEMS; ++n) {
      const bool inside = row + n * row_step < rows && first + k + n * k_step < k_end;
      const u32 target = (u32)__cvta_generic_to_shared(&to[k + n * k_step][row + n * row_step]);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(target),
                   "l"(inside ? at + n * step : from), "r"(inside ? 8 : 0));
    }
  }
};

// One chunk of k; `count` of its rows belong to the chain.
__device__ __forceinline__ void accumulate(double (&d)[TILES_DOWN][TILES_ACROSS][4],
                                           const Buffer& s, int top, int left, int count) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  if (count == CHUNK) {
    double b[TILES_ACROSS][4];
    UNROLL for (int j = 0; j < TILES_ACROSS; ++j) UNROLL for (int n = 0; n < 4; ++n) b[j][n] =
        s.b[t + 4 * n][left + 8 * j + g];
    UNROLL for (int i = 0; i < TILES_DOWN; ++i) {
      double a[8];
      UNROLL for (int n = 0; n < 8; ++n) a[n] = s.a[t + n / 2 * 4][top + 16 * i + n % 2 * 8 + g];
      UNROLL for (int j = 0; j < TILES_ACROSS; ++j) mma_k16(d[i][j], a, b[j]);
    }
    return;
  }
  ROLLED for (int k = 0; k < count; k += 4) UNROLL for (int i = 0; i < TILES_DOWN; ++i)
      UNROLL for (int j = 0; j < TILES_ACROSS; ++j) UNROLL for (int half = 0; half < 2; ++half)
          mma_k4(d[i][j][2 * half], d[i][j][2 * half + 1], s.a[k + t][top + 16 * i + 8 * half + g],
                 s.b[k + t][left + 8 * j + g]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_double(const __grid_constant__ Problem p, const __grid_constant__ MatmulPointers in,
                  int k_of_instruction) {
  extern __shared__ __align__(16) u8 memory[];
  Buffer* buffer = (Buffer*)memory;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int top = warp / 4 * 64, left = warp % 4 * 32;
  const TilePlace at = place_of_block(p, blockIdx.x, SIDE, SIDE);
  const Loader a(in.a, at.batch * p.a.batch, at.row, p.m, p.a.row, p.a.column);
  const Loader b(in.b, at.batch * p.b.batch, at.column, p.n, p.b.column, p.b.row);
  // Zeros beyond the padded k would be links that the chain does not have.
  const i64 end = (p.k + k_of_instruction - 1) / k_of_instruction * k_of_instruction;
  UNROLL for (int n = 0; n < STAGES - 1; ++n) {
    a.start(n * CHUNK, p.k, buffer[n].a);
    b.start(n * CHUNK, p.k, buffer[n].b);
    asm volatile("cp.async.commit_group;");
  }
  double d[TILES_DOWN][TILES_ACROSS][4];
  const i64 row = at.row + top + g, column = at.column + left + 2 * t;
  UNROLL for (int i = 0; i < TILES_DOWN; ++i) UNROLL for (int j = 0; j < TILES_ACROSS; ++j)
      UNROLL for (int e = 0; e < 4; ++e) d[i][j][e] = bits_to_double(initial_accumulator<u64>(
          p, in, at.batch, row + 16 * i + e / 2 * 8, column + 8 * j + e % 2));
  int stage = 0;
  ROLLED for (i64 first = 0; first < end; first += CHUNK) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    const int ahead = stage == 0 ? STAGES - 1 : stage - 1;
    a.start(first + (STAGES - 1) * CHUNK, p.k, buffer[ahead].a);
    b.start(first + (STAGES - 1) * CHUNK, p.k, buffer[ahead].b);
    asm volatile("cp.async.commit_group;");
    accumulate(d, buffer[stage], top, left, (int)min_of((i64)CHUNK, end - first));
    stage = stage == STAGES - 1 ? 0 : stage + 1;
  }
  UNROLL for (int i = 0; i < TILES_DOWN; ++i) UNROLL for (int j = 0; j < TILES_ACROSS; ++j)
      UNROLL for (int e = 0; e < 4; ++e) {
    const double x = d[i][j][e];
    store_result<u64>(p, in, at.batch, row + 16 * i + e / 2 * 8, column + 8 * j + e % 2,
                      x == x ? double_to_bits(x) : 0x7FF8000000000000ull);
  }
}
