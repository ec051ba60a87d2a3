// A second implementation of the matrix instructions, for testing the first: one output at a time,
// values in double arithmetic, matrix elements found through tables. It shares nothing with mfma_*:
// neither the bit fields, nor the layout formulas, nor the shortcuts. Slow and plain.
#pragma once
#include "reference_sum.cuh"

namespace reference {

enum Algorithm { FMA32, FMA64, EXACT, PAIRWISE, ALIGNED, INTEGER };

// As in Format, all fields of these have 64 bits.
struct Model {
  i64 algorithm, group, interleave, product_bits, product_rounding, merge_rounding, sum_bits,
      sum_rounding, accumulator_bits, accumulator_rounding, drop_tiny, result_bits, result_rounding,
      output_rounding, product_overflow, flush_inputs, flush_outputs, dense_grouping;
};

struct Call {
  const u32 *a, *b, *c, *idx, *scale_a, *scale_b;  // register images, (waves, vgprs, 64) each
  u32* d;
  // The place of every element: word of the image << 8 | first bit.
  const u32 *at_a, *at_b, *at_d, *at_idx, *at_scale_a, *at_scale_b;
  i64 waves, blocks, m, n, k, products;
  i64 words_a, words_b, words_d;  // of one image
  i64 sparse, scaled, negate;
  Format format_a, format_b;
  Model model;
};

const int LANE_COUNT = 64, MAX_TERMS = 64, MAX_SUMS = 4;

// ---- elements

HD u64 element(const u32* image, u32 place, const Format& f) {
  const int word = place >> 8, first = place & 0xFF, bits = (int)f.bits;
  u64 found = image[word];
  if (first + bits > 32) found |= (u64)image[word + LANE_COUNT] << 32;
  found >>= first;
  return bits == 64 ? found : found & ((1ull << bits) - 1);
}

// One output of one wavefront.
struct Output {
  const Call& call;
  const u32 *a, *b, *idx, *scale_a, *scale_b;
  int block, row, column;

  HD int dense(int p) const {
    if (!call.sparse) return p;
    const u32 place = call.at_idx[row * call.products + p];
    return p / 2 * 4 + (int)(idx[place >> 8] >> (place & 0xFF) & 3);
  }
  HD u64 code_a(int p) const {
    return element(a, call.at_a[(block * call.m + row) * call.products + p], call.format_a);
  }
  HD u64 code_b(int p) const {
    return element(b, call.at_b[(block * call.k + dense(p)) * call.n + column], call.format_b);
  }
  HD double value_a(int p) const {
    const double x = decode(call.format_a, code_a(p), call.model.flush_inputs);
    return with_sign(x, call.negate & 1);
  }
  HD double value_b(int p) const {
    const double x = decode(call.format_b, code_b(p), call.model.flush_inputs);
    return with_sign(x, call.negate >> 1 & 1);
  }
  HD u32 scale(const u32* image, const u32* places, i64 at) const {
    return image[places[at] >> 8] >> (places[at] & 0xFF) & 0xFF;
  }
  // The exponent that the scales of product p add up to; false where one is NaN.
  HD bool scale_exponent(int p, int& e) const {
    e = 0;
    if (!call.scaled) return true;
    const u32 x = scale(scale_a, call.at_scale_a, row * (call.k / 32) + p / 32);
    const u32 y = scale(scale_b, call.at_scale_b, p / 32 * call.n + column);
    e = (int)(x + y) - 254;
    return x != 0xFF && y != 0xFF;
  }
};

// ---- the algorithms

HD u32 dot_fma32(const Output& o, u32 c) {
  const Model& model = o.call.model;
  float d = bits_to_float(c);
  if (model.flush_inputs) d = (float)flushed(d, -126, false);
  ROLLED for (int p = 0; p < o.call.products; ++p) {
    d = fma_f32((float)o.value_a(p), (float)o.value_b(p), d);
    if (model.flush_outputs) d = (float)flushed(d, -126, true);
  }
  return result_bits(d);
}

HD u64 dot_fma64(const Output& o, u64 c) {
  double d = with_sign(bits_to_double(c), o.call.negate >> 2 & 1);
  ROLLED for (int p = 0; p < o.call.products; ++p) d = fma_f64(o.value_a(p), o.value_b(p), d);
  return is_nan(d) ? double_to_bits(not_a_number()) : double_to_bits(d);
}

HD u32 dot_integer(const Output& o, u32 c) {
  ROLLED for (int p = 0; p < o.call.products; ++p) c +=
      (u32)((int)(i8)o.code_a(p) * (int)(i8)o.code_b(p));
  return c;
}

HD u32 dot_pairwise(const Output& o, u32 c) {
  const Model& model = o.call.model;
  const auto step = [&](float x) {
    return model.flush_outputs ? (float)flushed(x, -126, true) : x;
  };
  float d = bits_to_float(c);
  if (model.flush_inputs) d = (float)flushed(d, -126, false);
  ROLLED for (int first = 0; first < o.call.products; first += (int)model.group) {
    float sum[4];
    ROLLED for (int t = 0; t < model.group; ++t) sum[t] =
        step((float)o.value_a(first + t) * (float)o.value_b(first + t));
    ROLLED for (int count = (int)model.group; count > 1; count /= 2) {
      ROLLED for (int t = 0; t < count / 2; ++t) sum[t] = step(sum[2 * t] + sum[2 * t + 1]);
    }
    d = step(d + sum[0]);
  }
  return result_bits(d);
}

HD u32 dot_exact(const Output& o, u32 c) {
  const Model& model = o.call.model;
  double d = bits_to_float(c);
  if (model.flush_inputs) d = flushed(d, -126, false);
  ROLLED for (int first = 0; first < o.call.products; first += (int)model.group) {
    LongSum sum;
    double plain = d;
    if (is_finite(d)) sum.add(d);
    ROLLED for (int t = 0; t < model.group; ++t) {
      double x = o.value_a(first + t) * o.value_b(first + t);
      if (model.product_overflow && magnitude(x) >= power(128))
        x = with_sign(infinity(), is_negative(x));
      plain += x;
      if (is_finite(x)) sum.add(x);
    }
    d = to_binary32(is_finite(plain) ? sum.to_odd() : plain, model.output_rounding);
    if (model.flush_outputs) d = flushed(d, -126, true);
  }
  return result_bits((float)d);
}

// The products' sum (in units of 2^(e_dot - product_bits)) and the accumulator, aligned and added.
HD double merge(const Model& model, double total, int e_dot, double d) {
  const int e_c = max_int(exponent(d, -126), -126), e = max_int(e_dot, e_c);
  const int bits = max_int((int)model.sum_bits, (int)model.accumulator_bits);
  const int below = max_int(e_dot - e, -1000);
  const double sum = round_whole(total * power(below + (int)(model.sum_bits - model.product_bits)),
                                 model.sum_rounding);
  double kept = round_whole(d * power((int)model.accumulator_bits - e), model.accumulator_rounding);
  if (model.drop_tiny && e_c < e - model.accumulator_bits - 1) kept = 0;
  double s = sum * power(bits - (int)model.sum_bits) +
             kept * power(bits - (int)model.accumulator_bits) + 0.0;
  const int e_s = max_int(exponent(s, NOTHING) + e - bits, -126);
  const int surplus = max_int(e_s - (int)model.result_bits - (e - bits), 0);
  s = round_whole(s * power(-surplus), model.result_rounding) + 0.0;
  const int unit = e - bits + surplus;
  return to_binary32(s * power(max_int(unit < 900 ? unit : 900, -1000)), model.output_rounding);
}

HD u32 dot_aligned(const Output& o, u32 c) {
  const Model& model = o.call.model;
  const int emin_a = emin_of(o.call.format_a), emin_b = emin_of(o.call.format_b);
  double d = bits_to_float(c);
  if (model.flush_inputs) d = flushed(d, -126, false);
  ROLLED for (int first = 0; first < o.call.products; first += (int)model.group) {
    double term[MAX_TERMS];
    int slot[MAX_TERMS], top[MAX_SUMS];
    double special = is_finite(d) ? 0.0 : d;
    ROLLED for (int s = 0; s < MAX_SUMS; ++s) top[s] = 2 * NOTHING;
    ROLLED for (int t = 0; t < model.group; ++t) {
      const int p = first + t;
      const double a = o.value_a(p), b = o.value_b(p), x = a * b;
      slot[t] = (model.dense_grouping ? o.dense(p) : p) % (int)model.interleave;
      top[slot[t]] = max_int(top[slot[t]], exponent(a, emin_a) + exponent(b, emin_b));
      if (model.product_overflow && magnitude(x) >= power(128))
        special += with_sign(infinity(), is_negative(x));
      else if (!is_finite(x))
        special += x;
      term[t] = is_finite(x) ? x : 0.0;
    }
    int scale;
    if (!o.scale_exponent(first, scale)) special = not_a_number();

    int e_dot = 2 * NOTHING;
    ROLLED for (int s = 0; s < model.interleave; ++s) e_dot = max_int(e_dot, top[s]);
    double total = 0;
    ROLLED for (int s = 0; s < model.interleave; ++s) {
      const double unit = power((int)model.product_bits - max_int(top[s], -500));
      double sum = 0;
      ROLLED for (int t = 0; t < model.group; ++t) if (slot[t] == s) sum +=
          round_whole(term[t] * unit, model.product_rounding);
      if (model.interleave > 1)
        sum = round_whole(sum * power(max_int(top[s] - e_dot, -1000)), model.merge_rounding);
      total += sum;
    }
    d = special == 0 ? merge(model, total, e_dot + scale, is_finite(d) ? d : 0.0) : special;
    if (model.flush_outputs) d = flushed(d, -126, true);
  }
  return result_bits((float)d);
}

HD void compute(const Call& call, i64 number) {
  const i64 outputs = call.blocks * call.m * call.n, wave = number / outputs;
  const int at = (int)(number % outputs);
  const Output o = {call,
                    call.a + wave * call.words_a,
                    call.b + wave * call.words_b,
                    call.sparse ? call.idx + wave * LANE_COUNT : nullptr,
                    call.scaled ? call.scale_a + wave * LANE_COUNT : nullptr,
                    call.scaled ? call.scale_b + wave * LANE_COUNT : nullptr,
                    at / (int)(call.m * call.n),
                    at / (int)call.n % (int)call.m,
                    at % (int)call.n};
  const i64 word = wave * call.words_d + (call.at_d[at] >> 8);
  const u32 c = call.c[word];
  switch (call.model.algorithm) {
    case FMA32:
      call.d[word] = dot_fma32(o, c);
      return;
    case EXACT:
      call.d[word] = dot_exact(o, c);
      return;
    case PAIRWISE:
      call.d[word] = dot_pairwise(o, c);
      return;
    case ALIGNED:
      call.d[word] = dot_aligned(o, c);
      return;
    case INTEGER:
      call.d[word] = dot_integer(o, c);
      return;
    default: {
      const u64 d = dot_fma64(o, c | (u64)call.c[word + LANE_COUNT] << 32);
      call.d[word] = (u32)d;
      call.d[word + LANE_COUNT] = (u32)(d >> 32);
    }
  }
}

}  // namespace reference
