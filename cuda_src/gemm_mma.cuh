// The tensor-core engine of a tile: warps share its mma.sync instructions, fragments come from
// shared memory.
//
// In 32-bit words along k all shapes have one fragment layout (PTX ISA, matrix fragments for mma):
// lane 4 g + t holds of A the words (row g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4) as far as
// the shape has them, of B (column g, t), (g, t + 4). f64 m8n8k4 has one double each at (g, t).
#pragma once
#include "gemm_view.cuh"

#define GEMM_TEXT(x) #x
#define GEMM_STRING(x) GEMM_TEXT(x)
#define GEMM_MMA                                                                             \
  "mma.sync.aligned." GEMM_STRING(MMA_SHAPE) ".row.col." GEMM_STRING(MMA_C) "." GEMM_STRING( \
      MMA_A) "." GEMM_STRING(MMA_B) "." GEMM_STRING(MMA_C) " "

template <int BYTES>
struct GemmRaw;
template <>
struct GemmRaw<1> {
  using type = u8;
};
template <>
struct GemmRaw<2> {
  using type = u16;
};
template <>
struct GemmRaw<4> {
  using type = u32;
};
template <>
struct GemmRaw<8> {
  using type = u64;
};

struct GemmMma {
  using Operand = GemmRaw<gemm_bytes(A_FORMAT)>::type;
  static constexpr int BYTES = sizeof(Operand);
  static constexpr bool DOUBLE = C_FORMAT == GEMM_F64, HALF = C_FORMAT == GEMM_F16;
  static constexpr int HIGH = MMA_M / 8;                        // row halves of a fragment: 1 or 2
  static constexpr int WIDE = DOUBLE ? 1 : MMA_K * BYTES / 16;  // word groups along k: 1 or 2
  static constexpr int ATOMS_M = TILE_M / MMA_M, ATOMS_N = TILE_N / MMA_N;
  static constexpr int MINE_M = (ATOMS_M + GRID_M - 1) / GRID_M,
                       MINE_N = (ATOMS_N + GRID_N - 1) / GRID_N;
  // As in gemm_plain.cuh.
  static constexpr bool FEW = MINE_M * MINE_N <= 128;
  static constexpr int UNROLL_M = FEW ? MINE_M : 1, UNROLL_N = FEW ? MINE_N : 1;
  static constexpr int REGISTERS = DOUBLE ? 2 : HALF ? HIGH : 2 * HIGH;
  using Register = GemmRaw<DOUBLE ? 8 : 4>::type;
  Register acc[MINE_M * MINE_N][REGISTERS];

  __device__ __forceinline__ GemmMma() {
#pragma unroll UNROLL_M* UNROLL_N
    for (int i = 0; i < MINE_M * MINE_N; i++) {
      UNROLL
      for (int r = 0; r < REGISTERS; r++) acc[i][r] = 0;
    }
  }

  static __device__ __forceinline__ Operand load(const GemmView& view, const void* memory, i64 row,
                                                 i64 at, const GemmPart& part) {
    // Raw bits; a negated part flips the sign, which every float format has on top.
    GemmPosition from = gemm_position(at, part);
    Operand bits = ((const Operand*)memory)[gemm_part_index(view, row, from, part)];
    return from.negated ? (Operand)(bits ^ (Operand)((Operand)1 << (8 * BYTES - 1))) : bits;
  }

  static __device__ __forceinline__ u32 word(const Operand* shared, int row, int at, int index) {
    u32 bits = *(const u32*)(shared + row * STRIDE + at + index * 4 / BYTES);
    return A_FORMAT == GEMM_TF32 ? gemm_round_tf32(bits) : bits;
  }

  __device__ __forceinline__ void run(const Operand* a, const Operand* b, int k, int thread) {
    int warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
    int warp_m = warp / GRID_N, warp_n = warp % GRID_N;
    if (warp_m >= GRID_M) return;
    for (int at = 0; at < k; at += MMA_K) {
      Register fb[MINE_N][WIDE];
#pragma unroll UNROLL_N
      for (int j = 0; j < MINE_N; j++) {
        int column = min_of(warp_n + j * GRID_N, ATOMS_N - 1) * MMA_N + g;
        UNROLL
        for (int w = 0; w < WIDE; w++) fb[j][w] = fetch(b, column, at, t + 4 * w);
      }
#pragma unroll UNROLL_M
      for (int i = 0; i < MINE_M; i++) {
        int row = min_of(warp_m + i * GRID_M, ATOMS_M - 1) * MMA_M + g;
        Register fa[WIDE * HIGH];
        UNROLL
        for (int w = 0; w < WIDE; w++) {
          UNROLL
          for (int h = 0; h < HIGH; h++) fa[w * HIGH + h] = fetch(a, row + 8 * h, at, t + 4 * w);
        }
#pragma unroll UNROLL_N
        for (int j = 0; j < MINE_N; j++) multiply(acc[i * MINE_N + j], fa, fb[j]);
      }
    }
  }

  static __device__ __forceinline__ Register fetch(const Operand* shared, int row, int at,
                                                   int index) {
    if (DOUBLE) return (Register)shared[row * STRIDE + at + index];
    return word(shared, row, at, index);
  }

#ifdef __CUDACC__
  // A template, so that the branches for other register types are not compiled.
  template <class R>
  static __device__ __forceinline__ void multiply(R* d, const R* a, const R* b) {
    if constexpr (sizeof(R) == 8) {
      double d0 = bits_to_double(d[0]), d1 = bits_to_double(d[1]);
      asm volatile(GEMM_MMA "{%0,%1}, {%2}, {%3}, {%0,%1};"
                   : "+d"(d0), "+d"(d1)
                   : "d"(bits_to_double(a[0])), "d"(bits_to_double(b[0])));
      d[0] = double_to_bits(d0), d[1] = double_to_bits(d1);
    } else if constexpr (HALF) {
      if constexpr (WIDE == 2)
        asm volatile(GEMM_MMA "{%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                     : "+r"(d[0]), "+r"(d[1])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      else
        asm volatile(GEMM_MMA "{%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                     : "+r"(d[0]), "+r"(d[1])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    } else if constexpr (GEMM_KIND == GEMM_INTEGER) {
      if constexpr (HIGH == 1)
        asm volatile(GEMM_MMA "{%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+r"(d[0]), "+r"(d[1])
                     : "r"(a[0]), "r"(b[0]));
      else if constexpr (WIDE == 2)
        asm volatile(GEMM_MMA "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      else
        asm volatile(GEMM_MMA "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    } else {
      float f[4];
      UNROLL
      for (int r = 0; r < 4; r++) f[r] = bits_to_float(d[r]);
      if constexpr (WIDE == 2)
        asm volatile(GEMM_MMA "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      else
        asm volatile(GEMM_MMA "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]));
      UNROLL
      for (int r = 0; r < 4; r++) d[r] = float_to_bits(f[r]);
    }
  }
#else
  static void multiply(Register* d, const Register* a, const Register* b) {
    simulated_mma(d, a, b);
  }
#endif

  // Element `e` of a fragment lies in row g + 8 (e / 2), column 2 t + e % 2.
  template <class Visit>
  __device__ __forceinline__ void each(int thread, Visit visit) const {
    int warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
    int warp_m = warp / GRID_N, warp_n = warp % GRID_N;
#pragma unroll UNROLL_M
    for (int i = 0; i < MINE_M; i++) {
#pragma unroll UNROLL_N
      for (int j = 0; j < MINE_N; j++) {
        int atom_m = warp_m + i * GRID_M, atom_n = warp_n + j * GRID_N;
        if (warp_m >= GRID_M || atom_m >= ATOMS_M || atom_n >= ATOMS_N) continue;
        UNROLL
        for (int e = 0; e < 2 * HIGH; e++)
          visit(atom_m * MMA_M + g + 8 * (e / 2), atom_n * MMA_N + 2 * t + e % 2,
                (i * MINE_N + j) * 2 * HIGH + e);
      }
    }
  }

  __device__ __forceinline__ u64 bits(int index) const {
    int atom = index / (2 * HIGH), e = index % (2 * HIGH);
    return HALF ? acc[atom][e / 2] >> (16 * (e % 2)) & 0xFFFF : acc[atom][e % REGISTERS];
  }
};
