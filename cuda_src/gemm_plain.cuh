// The plain engine of a tile: every thread owns a strided set of elements of C and runs the shared
// dot products.
#pragma once
#include "gemm_dot.cuh"
#include "gemm_view.cuh"

#if GEMM_KIND == 0
template <int BYTES>
struct GemmIntegerOf;
template <>
struct GemmIntegerOf<4> {
  using type = GemmInteger32;
};
template <>
struct GemmIntegerOf<8> {
  using type = GemmInteger64;
};
using GemmDot = GemmIntegerOf<gemm_bytes(C_FORMAT)>::type;
#elif GEMM_KIND == 1
template <int FORMAT>
struct GemmChainOf {
  using type = GemmChain32;
};
template <>
struct GemmChainOf<GEMM_F16> {
  using type = GemmChain16;
};
template <>
struct GemmChainOf<GEMM_F64> {
  using type = GemmChain64;
};
using GemmDot = GemmChainOf<C_FORMAT>::type;
#else
using GemmDot = GemmFused<C_FORMAT == GEMM_F16>;
#endif

struct GemmPlain {
  using Operand = GemmDot::Operand;
  static constexpr int ROWS = (TILE_M + GRID_M - 1) / GRID_M,
                       COLUMNS = (TILE_N + GRID_N - 1) / GRID_N;
  // Accumulators stay in registers only where loops over them are unrolled; a tile with too many
  // for that spills anyway, and unrolling it would take the compiler minutes.
  static constexpr int UNROLL_ROWS = ROWS * COLUMNS <= 256 ? ROWS : 1;
  static constexpr int UNROLL_COLUMNS = ROWS * COLUMNS <= 256 ? COLUMNS : 1;
  GemmDot::Acc acc[ROWS * COLUMNS];

  __device__ __forceinline__ GemmPlain() {
#pragma unroll UNROLL_ROWS* UNROLL_COLUMNS
    for (int i = 0; i < ROWS * COLUMNS; i++) acc[i] = 0;
  }

  static __device__ __forceinline__ Operand load(const GemmView& view, const void* memory, i64 row,
                                                 i64 at, const GemmPart& part) {
    return gemm_part_operand<Operand>(view, memory, row, at, part);
  }

  // Rows and columns beyond the tile repeat the last one, so that no thread diverges; they are not
  // stored.
  __device__ __forceinline__ void run(const Operand* a, const Operand* b, int k, int thread) {
    constexpr GemmRule rule{GROUP,   FRACTION, ZERO_EXPONENT, OUTPUT_FRACTION,
                            LEAST_A, LEAST_B,  THROUGH_F16};
    int row = thread / GRID_N, column = thread % GRID_N;
    for (int at = 0; at < k; at += GROUP) {
#pragma unroll UNROLL_ROWS
      for (int i = 0; i < ROWS; i++) {
        int m = min_of(row + i * GRID_M, TILE_M - 1);
#pragma unroll UNROLL_COLUMNS
        for (int j = 0; j < COLUMNS; j++) {
          int n = min_of(column + j * GRID_N, TILE_N - 1);
          GemmDot::step(acc[i * COLUMNS + j], a + m * STRIDE + at, b + n * STRIDE + at, rule);
        }
      }
    }
  }

  template <class Visit>
  __device__ __forceinline__ void each(int thread, Visit visit) const {
    int row = thread / GRID_N, column = thread % GRID_N;
#pragma unroll UNROLL_ROWS
    for (int i = 0; i < ROWS; i++) {
#pragma unroll UNROLL_COLUMNS
      for (int j = 0; j < COLUMNS; j++) {
        int m = row + i * GRID_M, n = column + j * GRID_N;
        if (row < GRID_M && m < TILE_M && n < TILE_N) visit(m, n, i * COLUMNS + j);
      }
    }
  }

  __device__ __forceinline__ u64 bits(int index) const { return GemmDot::bits(acc[index]); }
};
