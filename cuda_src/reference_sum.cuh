// The exact sum of the second implementation.
#pragma once
#include "reference_values.cuh"

namespace reference {

// A long accumulator: a whole number of 2^LOWEST in limbs of 32 bits, each with room for carries.
struct LongSum {
  static const int LIMBS = 22, LOWEST = -352;
  i64 limb[LIMBS];

  HD LongSum() { ROLLED for (int i = 0; i < LIMBS; ++i) limb[i] = 0; }
  // A finite double that is 0 or from 2^-298 to 2^257.
  HD void add(double x) {
    if (x == 0) return;
    const u64 bits = double_to_bits(x);
    const int at = (int)(bits >> 52 & 0x7FF) - 1075 - LOWEST;  // of the last significand bit
    const u128 wide = (u128)((bits & 0xFFFFFFFFFFFFFull) | 1ull << 52) << (at % 32);
    ROLLED for (int part = 0; part < 3; ++part) {
      const i64 piece = (i64)(u64)(wide >> (32 * part) & 0xFFFFFFFFu);
      limb[at / 32 + part] += bits >> 63 ? -piece : piece;
    }
  }
  // The sum as a double of 53 bits, the last of them set where bits were left out.
  HD double to_odd() {
    i64 carry = 0;
    ROLLED for (int i = 0; i < LIMBS; ++i) {
      const i64 x = limb[i] + carry;
      carry = x >> 32;
      limb[i] = x - carry * 4294967296ll;
    }
    const bool negative = carry < 0;
    if (negative) {
      i64 one = 1;  // two's complement
      ROLLED for (int i = 0; i < LIMBS; ++i) {
        const i64 x = (0xFFFFFFFFll - limb[i]) + one;
        one = x >> 32;
        limb[i] = x & 0xFFFFFFFFll;
      }
    }
    int top = LIMBS - 1;
    ROLLED while (top >= 0 && limb[top] == 0)-- top;
    if (top < 0) return 0.0;
    u128 head = 0;
    ROLLED for (int i = 0; i < 3; ++i) head = head << 32 | (u64)(top >= i ? limb[top - i] : 0);
    bool rest = false;
    ROLLED for (int i = top - 3; i >= 0; --i) rest = rest || limb[i] != 0;
    int drop = 0;
    ROLLED while (head >> drop >> 53)++ drop;
    const u64 kept = (u64)(head >> drop);
    if ((u128)kept << drop != head) rest = true;
    const double x = (double)(rest ? kept | 1 : kept) * power(LOWEST + 32 * (top - 2) + drop);
    return with_sign(x, negative);
  }
};

}  // namespace reference
