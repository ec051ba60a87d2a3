// What a kernel has to know of an instruction, its operand formats and its arithmetic model: plain
// ints.
//
// Under NVRTC the values are compile-time constants (GPUEMU_CONFIG), so that every loop unrolls and
// every branch on them folds; the host build reads the same struct at run time.
// gpuemu/mfma/config.py fills it, field by field in this order.
#pragma once
#include "common.cuh"

enum Algorithm { FMA32 = 0, FMA64 = 1, EXACT = 2, PAIRWISE = 3, ALIGNED = 4, INTEGER = 5 };
enum Rounding { TO_ZERO = 0, DOWN = 1, UP = 2, TO_NEAREST = 3 };
enum NanCodes { NAN_IEEE = 0, NAN_ALL_ONES = 1, NAN_NEGATIVE_ZERO = 2, NAN_NONE = 3 };

// One operand's number format and its place in the registers.
struct Operand {
  int bits;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  int nan;        // NanCodes
  int used_bits;  // mantissa bits that the multiplier reads; the rest is cut off (xf32: 10)
  int shift;      // zero bits put below a decoded significand, for the model's sake
  int vgprs;      // registers of a lane
  int items;      // items of a lane
  int chunk;      // items of a lane that are neighbours in k
};

struct Config {
  int algorithm;
  int m, n, k, blocks;  // k counts dense columns, also of a sparse instruction
  int products;         // of one output: k, or k / 2 of a sparse instruction
  int d_vgprs;
  int sparse;      // two of every four k are stored, chosen by idx
  int index_bits;  // width of one index set
  int scaled;      // an E8M0 scale for every 32 k
  Operand a, b;
  int group;             // products of a link (stored ones, of a sparse instruction)
  int dense_grouping;    // a sparse instruction deals products to partial sums by dense k
  int interleave;        // partial sums of a link; product k goes to partial sum k % interleave
  int narrow;            // partial sums fit 31 bits and products are cut off toward zero
  int product_bits;      // fraction bits kept of a product below the partial sum's largest exponent
  int product_rounding;  // Rounding
  int merge_rounding;    // of a partial sum when it is merged
  int sum_bits;  // fraction bits kept of the sum below the largest exponent, accumulator included
  int sum_rounding;
  int accumulator_bits;  // the same for the accumulator
  int accumulator_rounding;
  int result_bits;  // fraction bits kept of the total below its own exponent
  int result_rounding;
  int output_rounding;   // to binary32
  int drop_tiny;         // an accumulator below every kept bit counts as zero
  int product_overflow;  // a product of 2^128 or more is an infinity
  int flush_inputs;      // subnormal A, B and incoming C are +0
  int flush_outputs;     // subnormal results of every binary32 step are signed zeros
};

// What changes from call to call.
struct Modifiers {
  int cbsz, abid, blgp;
  int lane_block;      // the other reading of cbsz
  int neg;             // bit 0 A, bit 1 B, bit 2 C
  int index_set;       // of a sparse instruction
  int byte_a, byte_b;  // of the scale registers
  int formula_output;  // f64 4x4x4: C and D by the manuals' general formula
};
