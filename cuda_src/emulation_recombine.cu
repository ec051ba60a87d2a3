// int32 planes to the product, with partial sums, alpha and beta: one pass.
//
// Defines: ELEMENT_BITS 32|64; SCHEME 0 (slices) with PLANE_COUNT and USE_GROUPS, or 1 (residues)
// with PLANE_COUNT.
#include "emulation_values.cuh"

using namespace emulation;

#if ELEMENT_BITS == 32
using Bits = u32;
using Real = float;
#else
using Bits = u64;
using Real = double;
#endif
#if SCHEME == 0
using Value = SliceValue<Real, PLANE_COUNT, USE_GROUPS != 0>;
constexpr int WIDTH = 4;  // neighbouring columns a thread
#else
using Value = ResidueValue<Real, PLANE_COUNT>;
constexpr int WIDTH = 2;
#endif

constexpr int BLOCK_ROWS = 32, BLOCK_COLUMNS = 32 * WIDTH;

struct alignas(4 * WIDTH) Sums {
  i32 v[WIDTH];
};
struct alignas(sizeof(Real) * WIDTH > 16 ? 16 : sizeof(Real) * WIDTH) Reals {
  Real v[WIDTH];
};

__device__ __forceinline__ Sums load_sums(const i32* p) {
  Sums s;
#if SCHEME == 0
  const int4 w = __ldcs(reinterpret_cast<const int4*>(p));
  s.v[0] = w.x, s.v[1] = w.y, s.v[2] = w.z, s.v[3] = w.w;
#else
  const int2 w = __ldcs(reinterpret_cast<const int2*>(p));
  s.v[0] = w.x, s.v[1] = w.y;
#endif
  return s;
}

// Planes: [p][rows][plane_row], plane_row a multiple of 16. Block: 32 x 8 threads.
extern "C" __global__ void __launch_bounds__(256)
    recombine(const i32* __restrict__ planes, i64 plane_stride, i64 plane_row, i32 rows,
              i32 columns, const i32* a_exponents, const i32* b_exponents, const Bits* a, i64 a_row,
              i64 a_column, const Bits* b, i64 b_row, i64 b_column, i32 k, i32 padded_k,
              const Real* c, i64 c_row, i64 c_column, Real alpha, Real beta, Real* out, i64 out_row,
              i32 add, i32 finish) {
  const Epilogue<Real, Bits> epilogue = {
      a_exponents, b_exponents, a,        a_row, a_column, b,   b_row,   b_column, k,     padded_k,
      c,           c_row,       c_column, alpha, beta,     out, out_row, add,      finish};
  const i32 first = blockIdx.x * BLOCK_COLUMNS + WIDTH * threadIdx.x;
  if (first >= columns) return;
  i32 b_exponent[WIDTH];
  UNROLL for (int j = 0; j < WIDTH; ++j) {
    b_exponent[j] = first + j < columns ? b_exponents[first + j] : 0;
  }
  const bool whole = first + WIDTH <= columns && ((u64)out % sizeof(Reals)) == 0 &&
                     (out_row * sizeof(Real)) % sizeof(Reals) == 0;
  const i32 last = min_of(rows, (i32)(blockIdx.y + 1) * BLOCK_ROWS);
  for (i32 i = blockIdx.y * BLOCK_ROWS + threadIdx.y; i < last; i += 8) {
    const i32* own = planes + i * plane_row + first;
    const i32 a_exponent = a_exponents[i];
    Reals result = {};
#if SCHEME == 1 || USE_GROUPS == 0
    Sums sums[PLANE_COUNT];
    UNROLL for (int p = 0; p < PLANE_COUNT; ++p) sums[p] = load_sums(own + p * plane_stride);
    UNROLL for (int j = 0; j < WIDTH; ++j) {
      if (first + j < columns)
        result.v[j] = epilogue.element<Value>([&](int p) { return sums[p].v[j]; }, i, first + j,
                                              a_exponent, b_exponent[j]);
    }
#else
    for (int j = 0; j < WIDTH && first + j < columns; ++j) {
      result.v[j] = epilogue.element<Value>([&](int p) { return own[p * plane_stride + j]; }, i,
                                            first + j, a_exponent, b_exponent[j]);
    }
#endif
    Real* to = out + i * out_row + first;
    if (whole) {
      *reinterpret_cast<Reals*>(to) = result;
    } else {
      for (int j = 0; j < WIDTH && first + j < columns; ++j) to[j] = result.v[j];
    }
  }
}
