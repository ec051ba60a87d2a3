// Model "aligned" in binary64: a link as one chain of fused multiply-adds.
//
// Let e be the largest exponent of a link's products and M = 1.5 * 2^(e + 28): its unit in the last
// place is 2^(e - 24), just where products are cut off. X = M + T takes up |a| |b| by an FMA that
// rounds down, which cuts the product off at that place. A negative product is taken up by -X,
// which is why X carries the sign of the product before: -X + |p| rounded down is -(X - |p| cut
// off). So an item is |x|, an exponent code for the maximum, and the flip: its sign against the
// sign of the item before it in the chain.
//
// The accumulator c joins by the same rounding: X + c rounded down cuts c at 2^(e - 24) where e is
// above c's exponent, and is exact or immaterial elsewhere. Of the two floors that remain, at 32
// bits below e and 31 below the total's own exponent, the second implies the first: where
// cancellation makes the total's exponent the smaller one, the sum lies on that grid already.
//
// It holds for product_bits 24, sum_bits 32, accumulator_bits 24, result_bits 31, all but the
// products rounded down; links of at most 64; item exponents between LOWEST and HIGHEST; a finite
// accumulator. With them no product overflows and no result is subnormal unless it is exact.
#pragma once
#include "matmul_intrinsics.cuh"

const int LOWEST = -50, HIGHEST = 45;
const int CODE_SHIFT =
    4;  // an exponent code is E << 4: in the high half of a word, the top of a binary64's high word
const int ANCHOR = 1023 + 28;  // the exponent field of M, above e
const i32 ANCHOR_HALF = 8;     // the .5 of M's significand
const i32 ZERO_CODE = -16000;  // a zero's: below every sum of codes, two of them still fit 16 bits
const i32 START = ((ANCHOR - 126) << CODE_SHIFT) +
                  ANCHOR_HALF;  // a link of zeros: below every accumulator's last place
const u32 START_PAIR = (u32)START << 16 | (u32)START;

struct ChainItem {
  double magnitude;
  u32 sign;  // in bit 31
  i32 code;
  bool special;  // not for this path
};

// An item of at most 20 used bits, so that the high word of a binary64 holds them. Hidden bits of
// subnormals are taken off again; their exponent stays that of the lowest normal.
HD ChainItem chain_item(const Operand& o, u32 code, bool is_a) {
  const u32 magnitude = (code & ((1u << (o.bits - 1)) - 1)) >> (o.mantissa_bits - o.used_bits);
  const u32 field = magnitude >> o.used_bits;
  const bool subnormal = field == 0;
  const u32 high = ((subnormal ? 1u << o.used_bits : 0u) + magnitude << (20 - o.used_bits)) +
                   ((u32)(1023 - o.bias) << 20);
  const double hidden = from_words(subnormal ? (u32)(1024 - o.bias) << 20 : 0u, 0);
  const i32 anchor = is_a ? ((ANCHOR - 1023) << CODE_SHIFT) + ANCHOR_HALF : -(1023 << CODE_SHIFT);
  const i32 exponent = (i32)(high >> 16 & 0xFFF0u) + anchor;
  const u32 lowest = (u32)max_of(LOWEST + o.bias, 0), highest = (u32)(HIGHEST + o.bias);
  const bool extreme = magnitude != 0 && field - lowest > highest - lowest;
  return {from_words(high, 0) - hidden, code << (32 - o.bits) & 0x80000000u,
          magnitude == 0 ? ZERO_CODE : exponent, extreme || is_special(o, code, field)};
}

// X with the sign for the next product, which then joins.
HD double chain_step(double x, double a, double b, u32 flip_a, u32 flip_b) {
  return fma_down(a, b, from_words(high_word(x) ^ flip_a ^ flip_b, low_word(x)));
}

// The same where the sign of the product is at hand, in bit 31: X takes it.
HD double chain_join(double x, double a, double b, u32 sign) {
  return fma_down(a, b, from_words(with_sign_of(high_word(x), sign), low_word(x)));
}

// The larger of the two exponents in a pair of codes, as M; its low half may hold rubbish, which
// does not matter to what M is for, as long as it is the same M that is subtracted.
HD u32 anchor_of_both(u32 pair) {
  const i32 low = (i32)(pair << 16), high = (i32)pair;
  return (u32)max_of(low, high);
}

// u floored to 32 significant bits, then rounded to binary32 with subnormals; stays in binary64.
HD double round_result(double u) {
  const i32 lowest = (1023 - 126) << 20;
  const double q = from_words((u32)max_of((i32)(high_word(u) & 0x7FF00000u), lowest), 0);
  const double floored = fma_down(q, 1.5 * 0x1p21, u);
  const double rounded = fma_f64(q, 1.5 * (0x1p29 - 0x1p21), floored);
  return fma_f64(q, -1.5 * 0x1p29, rounded);
}

// The accumulator after a link of one partial sum.
HD double chain_end(double x, u32 anchor, double c) {
  return round_result(add_near(add_down(absolute(x), c), -from_words(anchor, 0)));
}

// The same of two partial sums, each cut off at the larger exponent when they merge; `drop`: an
// accumulator wholly below the last kept place counts as zero.
HD double chain_end_of_two(double x0, double x1, u32 anchor0, u32 anchor1, double c, bool drop) {
  const double t0 = add_near(absolute(x0), -from_words(anchor0, 0));
  const double t1 = add_near(absolute(x1), -from_words(anchor1, 0));
  const u32 top = (u32)max_of((i32)anchor0, (i32)anchor1);
  const double m = from_words(top, 0);
  if (drop) {
    const i32 threshold = (i32)(top & 0x7FF00000u) - ((28 + 25) << 20);
    if ((i32)(high_word(c) & 0x7FFFFFFFu) < threshold) c = 0;
  }
  const double y = add_down(add_down(m, t0), t1);
  return round_result(add_near(add_down(y, c), -m));
}
