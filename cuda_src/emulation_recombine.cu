// int32 planes to the product, with partial sums, alpha and beta: one pass.
//
// Defines: ELEMENT_BITS 32|64; SCHEME 0 (slices) with PLANE_COUNT and USE_GROUPS, or 1 (residues)
// with PLANE_COUNT.
#include "emulation_launch.cuh"
#include "emulation_values.cuh"

using namespace emulation;

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
    recombine(const Call call, const RecombineStep at) {
  const i32* __restrict__ planes = reinterpret_cast<const i32*>(call.workspace + at.sums);
  const i64 plane_stride = at.plane_stride, plane_row = at.plane_row, out_row = at.out_row;
  const i32 rows = at.rows, columns = at.columns;
  const i32* a_exponents = call.exponents + at.a_exponents;
  const i32* b_exponents = call.exponents + at.b_exponents;
  Real* out = call.out + at.out;
  const Epilogue<Real, Bits> epilogue = {a_exponents, b_exponents,   call.a + at.a, at.a_row,
                                         at.a_column, call.b + at.b, at.b_row,      at.b_column,
                                         at.k,        at.padded_k,   call.c + at.c, at.c_row,
                                         at.c_column, call.alpha,    call.beta,     out,
                                         out_row,     at.add,        at.finish};
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
