// Making and comparing cases, one element at a time: what gpuemu/difftest does in NumPy, with all
// steps of one function in one kernel. Every number here has the bits that NumPy gives it.
#pragma once
#include "common.cuh"

namespace cases {

// ---- random draws: difftest/streams.py

const u64 GOLDEN = 0x9E3779B97F4A7C15ull;

HD u64 mix(u64 x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

HD double normal_power(i64 e) { return bits_to_double((u64)(e + 1023) << 52); }
// 2^e, for e from -1074 (below: 0) to 1023
HD double power(i64 e) {
  const i64 half = e >> 1;
  return normal_power(half) * normal_power(e - half);
}
// floor(log2 |x|) of normal values, -1023 of smaller ones
HD int exponent(double x) { return (int)(double_to_bits(x) >> 52 & 0x7FF) - 1023; }
HD bool is_negative(double x) { return double_to_bits(x) >> 63; }
HD double magnitude(double x) { return bits_to_double(double_to_bits(x) << 1 >> 1); }

enum Kind { STATE, WORDS, BELOW, SIGN, SIGNIFICAND, BELL };

// All fields have 64 bits: gpuemu/difftest/device_cases.py packs them in this order.
struct Draw {
  const u64* states;  // of the cases; STATE: their numbers
  void* out;          // (cases, size) words, integers or doubles
  i64 cases, size;
  u64 position;  // of the first word of a case
  i64 kind;
  i64 low;    // BELOW: the least number
  u64 limit;  // BELOW: how many numbers; SIGNIFICAND: fraction bits, from 1 to 52; STATE: the key
};

HD u64 below(u64 word, u64 limit) { return (word >> 32) * limit >> 32; }

HD double significand(u64 word, int fraction_bits) {
  return (double)(word >> (64 - fraction_bits)) * normal_power(-fraction_bits) + 1.0;
}

HD double bell(u64 word, u64 digits) {
  double total = 0.5 - 131072.0;
  for (int shift = 0; shift < 64; shift += 16) total += (double)(word >> shift & 0xFFFF);
  const double size = significand(digits, 52) * power(exponent(total * (1.5 / 65536.0)));
  return is_negative(total) ? -size : size;
}

HD void draw(const Draw& d, i64 number) {
  const u64 state = d.states[number / d.size], position = d.position + (u64)(number % d.size);
  const u64 word = mix(state + position * GOLDEN);
  if (d.kind == STATE) ((u64*)d.out)[number] = mix((state + 1) * GOLDEN) ^ d.limit;
  if (d.kind == WORDS) ((u64*)d.out)[number] = word;
  if (d.kind == BELOW) ((i64*)d.out)[number] = (i64)below(word, d.limit) + d.low;
  if (d.kind == SIGN) ((double*)d.out)[number] = below(word, 2) ? -1.0 : 1.0;
  if (d.kind == SIGNIFICAND) ((double*)d.out)[number] = significand(word, (int)d.limit);
  if (d.kind == BELL) {
    const u64 digits = mix(state + (position + (u64)d.size) * GOLDEN);
    ((double*)d.out)[number] = bell(word, digits);
  }
}

struct Powers {
  const i64* exponents;
  double* out;
  i64 count;
};

HD void raise(const Powers& p, i64 number) { p.out[number] = power(p.exponents[number]); }

// ---- values as codes of a format: difftest/items.py

struct Encode {
  const double* values;
  void* codes;
  i64 count, bytes;  // of a code
  i64 is_float, bits, mantissa_bits, emin, emax, max_finite;
  i64 infinity;  // its code, or -1
  i64 no_negative_zero;
};

HD u64 code_of_integer(const Encode& f, double x) {
  const double half = (double)(1ll << (f.bits - 1));
  const double held = min_of(max_of(x, -half), half - 1);
  return (u64)(i64)held & ((1ull << f.bits) - 1);
}

HD u64 code_of_float(const Encode& f, double x) {
  const double size = min_of(magnitude(x), power(f.emax) * 2);
  const i64 e = max_of((i64)exponent(size), f.emin);
  const i64 steps = (i64)(size * power(f.mantissa_bits - e));
  i64 code = min_of(((e - f.emin) << f.mantissa_bits) + steps, f.max_finite);
  if (f.infinity >= 0 && magnitude(x) > 1.7976931348623157e308) code = f.infinity;
  const bool negative = is_negative(x) && !(f.no_negative_zero && code == 0);
  return (u64)code | (u64)negative << (f.bits - 1);
}

HD u64 load(const void* codes, i64 bytes, i64 at) {
  if (bytes == 1) return ((const u8*)codes)[at];
  if (bytes == 2) return ((const u16*)codes)[at];
  if (bytes == 4) return ((const u32*)codes)[at];
  return ((const u64*)codes)[at];
}

HD void encode(const Encode& f, i64 number) {
  const double x = f.values[number];
  const u64 code = f.is_float ? code_of_float(f, x) : code_of_integer(f, x);
  if (f.bytes == 1) ((u8*)f.codes)[number] = (u8)code;
  if (f.bytes == 2) ((u16*)f.codes)[number] = (u16)code;
  if (f.bytes == 4) ((u32*)f.codes)[number] = (u32)code;
}

// ---- codes as register images: difftest/images.py

struct Pack {
  const void* codes;  // (cases, items)
  const i64* item;    // (slots, words): what a slot of a word holds
  const i64* shift;   // (slots, words): to the left; 32 where the slot holds nothing
  u32* image;         // (cases, words)
  i64 cases, items, bytes, slots, words;
};

HD void pack(const Pack& p, i64 number) {
  const i64 wave = number / p.words, word = number % p.words;
  u32 found = 0;
  for (i64 slot = 0; slot < p.slots; ++slot) {
    const i64 at = slot * p.words + word, shift = p.shift[at];
    const u64 code = load(p.codes, p.bytes, wave * p.items + p.item[at]);
    found |= (u32)(shift < 0 ? code >> -shift : code << shift);
  }
  p.image[number] = found;
}

// ---- results: difftest/runner.py

enum Nan { NAN_BITS, NAN_F32, NAN_F64 };  // whether bits decide, or NaNs of a format are all equal

struct Compare {
  const u32 *got, *want;  // (cases, words)
  u8* differ;             // (cases): set to 1 where any register differs
  i64 cases, words, nan;
};

HD bool is_nan32(u32 x) { return (x & 0x7FFFFFFFu) > 0x7F800000u; }
// Of the pair of registers that `at` is one of.
HD bool is_nan64(const u32* image, i64 at, bool upper) {
  const u32 low = image[upper ? at - 64 : at], high = image[upper ? at : at + 64] & 0x7FFFFFFFu;
  return high > 0x7FF00000u || (high == 0x7FF00000u && low != 0);
}

HD void compare(const Compare& c, i64 number) {
  if (c.got[number] == c.want[number]) return;
  if (c.nan == NAN_F32 && is_nan32(c.got[number]) && is_nan32(c.want[number])) return;
  const bool upper = number % c.words / 64 % 2;
  if (c.nan == NAN_F64 && is_nan64(c.got, number, upper) && is_nan64(c.want, number, upper)) return;
  c.differ[number / c.words] = 1;
}

}  // namespace cases
