// The GEMM's plain path in the host build: the same dot products and epilogue as the kernels,
// looped.
#pragma once
#include <stddef.h>

#include <vector>

#include "gemm_dot.cuh"
#include "gemm_epilogue.cuh"
#include "gemm_view.cuh"

namespace gemm_host {

// Operands of one part, packed along the (for complex: alternating) k.
template <class Operand>
std::vector<Operand> pack(const GemmView& view, const void* memory, i64 rows, i64 k,
                          const GemmPart& part) {
  std::vector<Operand> packed((size_t)(rows * k * part.parts));
  for (i64 row = 0; row < rows; row++)
    for (i64 at = 0; at < k * part.parts; at++)
      packed[(size_t)(row * k * part.parts + at)] =
          gemm_part_operand<Operand>(view, memory, row, at, part);
  return packed;
}

struct Problem {
  i64 m, n, k;
  int kind, c_format, parts, step;
  GemmView a, b, c, d;
  GemmRule rule;
  GemmScale scale;
};

template <class Dot>
void run(const Problem& p, const void* a, const void* b, const void* c, void* d) {
  using Operand = typename Dot::Operand;
  i64 k = p.k * p.parts;
  std::vector<u64> planes[2];
  for (int output = 0; output < p.parts; output++) {
    auto left = pack<Operand>(p.a, a, p.m, p.k, GemmPart{p.parts, p.step, output, false});
    auto right = pack<Operand>(p.b, b, p.n, p.k, GemmPart{p.parts, p.step, output, true});
    planes[output].resize((size_t)(p.m * p.n));
    for (i64 m = 0; m < p.m; m++)
      for (i64 n = 0; n < p.n; n++) {
        typename Dot::Acc acc = 0;
        for (i64 at = 0; at < k; at += p.rule.group)
          Dot::step(acc, &left[(size_t)(m * k + at)], &right[(size_t)(n * k + at)], p.rule);
        planes[output][(size_t)(m * p.n + n)] = Dot::bits(acc);
      }
  }
  for (i64 m = 0; m < p.m; m++)
    for (i64 n = 0; n < p.n; n++) {
      u64 acc[2] = {0, 0};
      for (int part = 0; part < p.parts; part++) acc[part] = planes[part][(size_t)(m * p.n + n)];
      gemm_finish(p.c_format, p.parts, p.scale, acc, c, gemm_index(p.c, m, n), d,
                  gemm_index(p.d, m, n));
    }
}

}  // namespace gemm_host

// Kinds as in gpuemu/gemm/device.py. Returns 0, or 1 for a kind that C's format does not have.
extern "C" int gemm_host_run(const void* a, const void* b, const void* c, void* d,
                             const i64* numbers, const u64* factors) {
  gemm_host::Problem p;
  const i64* x = numbers;
  p.m = x[0], p.n = x[1], p.k = x[2];
  p.kind = (int)x[3], p.c_format = (int)x[4], p.parts = (int)x[5], p.step = (int)x[6];
  p.a = GemmView{(int)x[7], x[8], (int)x[9]};
  p.b = GemmView{(int)x[10], x[11], (int)x[12]};
  p.c = GemmView{p.c_format, x[13], (int)x[14]};
  p.d = GemmView{p.c_format, x[15], (int)x[16]};
  p.rule =
      GemmRule{(int)x[17], (int)x[18], (int)x[19], (int)x[20], (int)x[21], (int)x[22], (int)x[23]};
  p.scale = GemmScale{{factors[0], factors[1]}, {factors[2], factors[3]}};
  bool half = p.c_format == GEMM_F16;
  if (p.kind == GEMM_INTEGER && gemm_bytes(p.c_format) == 4)
    gemm_host::run<GemmInteger32>(p, a, b, c, d);
  else if (p.kind == GEMM_INTEGER && gemm_bytes(p.c_format) == 8)
    gemm_host::run<GemmInteger64>(p, a, b, c, d);
  else if (p.kind == GEMM_CHAIN && half)
    gemm_host::run<GemmChain16>(p, a, b, c, d);
  else if (p.kind == GEMM_CHAIN && p.c_format == GEMM_F32)
    gemm_host::run<GemmChain32>(p, a, b, c, d);
  else if (p.kind == GEMM_CHAIN && p.c_format == GEMM_F64)
    gemm_host::run<GemmChain64>(p, a, b, c, d);
  else if (p.kind == GEMM_FUSED && half)
    gemm_host::run<GemmFused<true>>(p, a, b, c, d);
  else if (p.kind == GEMM_FUSED && p.c_format == GEMM_F32)
    gemm_host::run<GemmFused<false>>(p, a, b, c, d);
  else
    return 1;
  return 0;
}
