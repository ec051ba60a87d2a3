// C tile = alpha A B + beta C for one descriptor, whose every choice is a compile-time constant.
//
// A block computes one TILE_M x TILE_N tile: a ring of STAGES slabs of A and B in shared memory, k
// contiguous there whatever the storage order; then either `mma.sync` on whole fragments or the
// plain dot products that the host build shares. Rows, columns and k beyond the extents read as
// zero and nothing beyond them is touched in memory.
#include "gemm_copy.cuh"
#include "gemm_dot.cuh"
#include "gemm_epilogue.cuh"
#include "gemm_view.cuh"

#ifdef MMA_SHAPE
#include "gemm_mma.cuh"
using Engine = GemmMma;
#else
#include "gemm_plain.cuh"
using Engine = GemmPlain;
#endif

// Load rows [first, first + ROWS) and SLAB positions of k into shared memory.
template <int ROWS, bool IS_B>
__device__ __forceinline__ void load_slab(Engine::Operand* shared, const GemmView& view,
                                          const void* memory, i64 first, i64 rows, i64 k0, i64 k,
                                          int output, int thread) {
#if VECTOR
  constexpr int PIECE = 16 / sizeof(Engine::Operand);
  for (int i = thread; i < ROWS * (SLAB / PIECE); i += THREADS) {
    int row = i / (SLAB / PIECE), at = i % (SLAB / PIECE) * PIECE;
    bool inside = first + row < rows && k0 + at < k;
    i64 index = inside ? (first + row) * view.leading + k0 + at : 0;
    gemm_copy_16(shared + row * STRIDE + at, (const Engine::Operand*)memory + index, inside);
  }
#else
  constexpr bool K_FASTEST = IS_B ? B_COL : !A_COL;
  GemmPart part{PARTS, STEP, output, IS_B};
  for (int i = thread; i < ROWS * SLAB; i += THREADS) {
    int row = K_FASTEST ? i / SLAB : i % ROWS, at = K_FASTEST ? i % SLAB : i / ROWS;
    bool inside = first + row < rows && k0 + at < k;
    shared[row * STRIDE + at] =
        inside ? Engine::load(view, memory, first + row, k0 + at, part) : Engine::Operand(0);
  }
#endif
}

extern "C" __global__ void __launch_bounds__(LAUNCHED)
    gemm_tile(const void* a, const void* b, const void* c, void* d, i64 m, i64 n, i64 k, i64 lda,
              i64 ldb, i64 ldc, i64 ldd, u64 alpha_re, u64 alpha_im, u64 beta_re, u64 beta_im) {
  GEMM_DYNAMIC_SHARED(shared_bytes);
  using Operand = Engine::Operand;
  constexpr int STAGE = (TILE_M + TILE_N) * STRIDE;
  Operand* shared = (Operand*)shared_bytes;
  GemmView view_a{A_FORMAT, lda, A_COL}, view_b{B_FORMAT, ldb, B_COL};
  GemmView view_c{C_FORMAT, ldc, C_COL}, view_d{C_FORMAT, ldd, C_COL};
  GemmScale scale{{alpha_re, alpha_im}, {beta_re, beta_im}};

  // Threads that the launch has beyond BlockDim only keep the barriers company.
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  bool active = thread < THREADS;
  i64 tiles_m = (m + TILE_M - 1) / TILE_M;
  i64 first_m = blockIdx.x % tiles_m * TILE_M, first_n = blockIdx.x / tiles_m * TILE_N;
  i64 length = k * PARTS;
  i64 slabs = (length + SLAB - 1) / SLAB;

  Engine engine[PARTS];
  UNROLL
  for (int output = 0; output < PARTS; output++) {
    auto load = [&](i64 slab) {
      if (active && slab < slabs) {
        Operand* stage = shared + slab % STAGES * STAGE;
        load_slab<TILE_M, false>(stage, view_a, a, first_m, m, slab * SLAB, length, output, thread);
        load_slab<TILE_N, true>(stage + TILE_M * STRIDE, view_b, b, first_n, n, slab * SLAB, length,
                                output, thread);
      }
      gemm_copy_commit();
    };
    for (int stage = 0; stage < STAGES - 1; stage++) load(stage);
    for (i64 slab = 0; slab < slabs; slab++) {
      if (STAGES == 1) {  // nothing ahead: the slab itself, once the last one is used up
        __syncthreads();
        load(slab);
      }
      gemm_copy_wait<(STAGES > 1 ? STAGES - 2 : 0)>();
      __syncthreads();
      if (STAGES > 1) load(slab + STAGES - 1);
      Operand* stage = shared + slab % STAGES * STAGE;
      i64 rest = length - slab * SLAB;
      if (active)
        engine[output].run(stage, stage + TILE_M * STRIDE, rest < SLAB ? (int)rest : SLAB, thread);
    }
    __syncthreads();
  }
  if (!active) return;
  engine[0].each(thread, [&](int row, int column, int index) {
    if (first_m + row >= m || first_n + column >= n) return;
    u64 acc[2] = {0, 0};
    UNROLL
    for (int part = 0; part < PARTS; part++) acc[part] = engine[part].bits(index);
    i64 at_c = gemm_index(view_c, first_m + row, first_n + column);
    gemm_finish(C_FORMAT, PARTS, scale, acc, c, at_c, d,
                gemm_index(view_d, first_m + row, first_n + column));
  });
}
