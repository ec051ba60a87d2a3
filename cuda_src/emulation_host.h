// C ABI of emulated precision for the host build: the same elements as the kernels, in plain loops.
#pragma once
#include "emulation_values.cuh"

namespace emulation {

struct Layout {
  i64 vectors, length, padded, vector_step, k_step, out_vector, out_plane;
};

template <class Encoder, class Bits>
void encode(const Bits* x, const Layout& at, i8* out, i32* exponents, u32 limit,
            i32 limit_exponent) {
  for (i64 v = 0; v < at.vectors; ++v) {
    const Bits* line = x + v * at.vector_step;
    u64 maximum = 0, norm = 0;
    for (i64 k = 0; k < at.length; ++k)
      maximum = max_of(maximum, (u64)absolute(line[k * at.k_step]));
    maximum = widen((Bits)maximum);
    if (Encoder::NEEDS_NORM && maximum >> 52 != 2047) {
      const Scale unit = norm_unit(bit_width(maximum));
      for (i64 k = 0; k < at.length; ++k) {
        const u64 term = norm_term(line[k * at.k_step], unit);
        norm += term * term;
      }
    }
    exponents[v] = Encoder::exponent(maximum, norm, limit, limit_exponent);
    for (i64 k = 0; k < at.padded; k += 4) {
      Bits quad[4];
      u32 word[Encoder::PLANES] = {};
      for (int j = 0; j < 4; ++j) quad[j] = k + j < at.length ? line[(k + j) * at.k_step] : 0;
      if (exponents[v] != NONFINITE) Encoder::encode(quad, exponents[v], word);
      for (int p = 0; p < Encoder::PLANES; ++p)
        for (int j = 0; j < 4; ++j)
          out[v * at.out_vector + p * at.out_plane + k + j] = (i8)(word[p] >> 8 * j);
    }
  }
}

template <class Value, class Real, class Bits>
void recombine(const i32* planes, i64 plane_stride, i64 plane_row, i64 rows, i64 columns,
               const Epilogue<Real, Bits>& epilogue) {
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < columns; ++j) {
      const auto plane = [&](int p) { return planes[p * plane_stride + i * plane_row + j]; };
      epilogue.out[i * epilogue.out_row + j] = epilogue.template element<Value>(
          plane, (i32)i, (i32)j, epilogue.a_exponents[i], epilogue.b_exponents[j]);
    }
}

// Calls f.template run<N>() for the N that equals `count`; false where it is out of range.
template <int LOWEST, int HIGHEST, class F>
bool dispatch(int count, F f) {
  if constexpr (LOWEST > HIGHEST) {
    return false;
  } else {
    if (count != LOWEST) return dispatch<LOWEST + 1, HIGHEST>(count, f);
    f.template run<LOWEST>();
    return true;
  }
}

template <class Bits>
struct EncodeSlices {
  const Bits* x;
  const Layout& at;
  i8* out;
  i32* exponents;
  bool nearest;
  template <int N>
  void run() const {
    if (nearest)
      encode<SliceEncoder<Bits, N, true>>(x, at, out, exponents, 0, 0);
    else
      encode<SliceEncoder<Bits, N, false>>(x, at, out, exponents, 0, 0);
  }
};

template <class Bits>
struct EncodeResidues {
  const Bits* x;
  const Layout& at;
  i8* out;
  i32* exponents;
  bool weighted;
  u32 limit;
  i32 limit_exponent;
  template <int N>
  void run() const {
    if (weighted)
      encode<ResidueEncoder<Bits, N, true>>(x, at, out, exponents, limit, limit_exponent);
    else
      encode<ResidueEncoder<Bits, N, false>>(x, at, out, exponents, limit, limit_exponent);
  }
};

template <class Real, class Bits>
struct Recombine {
  const i32* planes;
  i64 plane_stride, plane_row, rows, columns;
  bool crt, grouped;
  const Epilogue<Real, Bits>& epilogue;
  template <int N>
  void run() const {
    if constexpr (N <= 8) {
      if (!crt && grouped)
        return recombine<SliceValue<Real, N, true>>(planes, plane_stride, plane_row, rows, columns,
                                                    epilogue);
      if (!crt)
        return recombine<SliceValue<Real, N, false>>(planes, plane_stride, plane_row, rows, columns,
                                                     epilogue);
    }
    if constexpr (N >= 3) {
      if (crt)
        recombine<ResidueValue<Real, N>>(planes, plane_stride, plane_row, rows, columns, epilogue);
    }
  }
};

template <class Bits>
int encode_any(int crt, int count, int flag, const void* x, const Layout& at, i8* out,
               i32* exponents, u32 limit, i32 limit_exponent) {
  const Bits* bits = static_cast<const Bits*>(x);
  if (crt) {
    const EncodeResidues<Bits> run = {bits, at, out, exponents, flag != 0, limit, limit_exponent};
    return !dispatch<3, 16>(count, run);
  }
  return !dispatch<1, 8>(count, EncodeSlices<Bits>{bits, at, out, exponents, flag != 0});
}

}  // namespace emulation

// flag: slices rounded to nearest; residues weighted by the CRT inverses. `layout`: seven i64 as in
// Layout, steps in elements. Returns 0, or 1 where `count` is out of range.
extern "C" int gpuemu_emulation_encode(int bits, int crt, int count, int flag, const void* x,
                                       const i64* layout, i8* out, i32* exponents, u32 limit,
                                       i32 limit_exponent) {
  const emulation::Layout at = {layout[0], layout[1], layout[2], layout[3],
                                layout[4], layout[5], layout[6]};
  return bits == 32 ? emulation::encode_any<u32>(crt, count, flag, x, at, out, exponents, limit,
                                                 limit_exponent)
                    : emulation::encode_any<u64>(crt, count, flag, x, at, out, exponents, limit,
                                                 limit_exponent);
}

// out[i][j] = sum over [first, last) of a[i][.] * b[j][.], an int32 that never overflows.
extern "C" void gpuemu_emulation_products(const i8* a, i64 a_row, const i8* b, i64 b_row, i64 rows,
                                          i64 columns, i64 k, i32* out, i64 out_row) {
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < columns; ++j) {
      i32 sum = 0;
      for (i64 l = 0; l < k; ++l) sum += (i32)a[i * a_row + l] * (i32)b[j * b_row + l];
      out[i * out_row + j] = sum;
    }
}

namespace emulation {

// `at`: plane stride, plane row, rows, columns, k, padded k, a row, a column, b row, b column, c
// row, c column, out row. `flags`: crt, count, grouped, add, finish.
template <class Real, class Bits>
int recombine_any(const i32* planes, const i64* at, const int* flags, const i32* a_exponents,
                  const i32* b_exponents, const void* a, const void* b, const void* c, Real alpha,
                  Real beta, void* out) {
  const Epilogue<Real, Bits> epilogue = {a_exponents,
                                         b_exponents,
                                         static_cast<const Bits*>(a),
                                         at[6],
                                         at[7],
                                         static_cast<const Bits*>(b),
                                         at[8],
                                         at[9],
                                         (i32)at[4],
                                         (i32)at[5],
                                         static_cast<const Real*>(c),
                                         at[10],
                                         at[11],
                                         alpha,
                                         beta,
                                         static_cast<Real*>(out),
                                         at[12],
                                         flags[3],
                                         flags[4]};
  const Recombine<Real, Bits> run = {planes, at[0],         at[1],         at[2],
                                     at[3],  flags[0] != 0, flags[2] != 0, epilogue};
  return !dispatch<1, 16>(flags[1], run);
}

}  // namespace emulation

extern "C" int gpuemu_emulation_recombine_f32(const i32* planes, const i64* at, const int* flags,
                                              const i32* a_exponents, const i32* b_exponents,
                                              const void* a, const void* b, const void* c,
                                              float alpha, float beta, void* out) {
  return emulation::recombine_any<float, u32>(planes, at, flags, a_exponents, b_exponents, a, b, c,
                                              alpha, beta, out);
}

extern "C" int gpuemu_emulation_recombine_f64(const i32* planes, const i64* at, const int* flags,
                                              const i32* a_exponents, const i32* b_exponents,
                                              const void* a, const void* b, const void* c,
                                              double alpha, double beta, void* out) {
  return emulation::recombine_any<double, u64>(planes, at, flags, a_exponents, b_exponents, a, b, c,
                                               alpha, beta, out);
}
