// What the kernels of emulated precision are launched with; `device_steps.py` fills both structs.
#pragma once
#include "emulation_residues.cuh"

#if ELEMENT_BITS == 32
using Bits = u32;
using Real = float;
#else
using Bits = u64;
using Real = double;
#endif

// What changes from call to call: addresses and scalars, the same for every launch of a call.
struct Call {
  const Bits* a;
  const Bits* b;
  const Real* c;  // not read where beta is zero
  Real* out;
  i8* workspace;
  i32* exponents;
  Real alpha, beta;
};

// What a plan fixes for one encoding. Offsets and strides count elements of the array they are in
// (`out`: bytes of the workspace).
struct EncodeStep {
  i64 first;   // the first vector's first element
  i64 stride;  // between vectors where k is contiguous, else between neighbours along k
  i64 out, vector_stride, plane_stride;
  i32 right;  // 0: rows of A, 1: columns of B
  i32 length, padded, vectors;
  i32 exponents;
  u32 limit;
  i32 limit_exponent;
  i32 held;  // of `encode_columns`: runs that a thread holds, a multiple of those in registers
};

// What a plan fixes for one recombination: `sums` counts bytes, the rest elements.
struct RecombineStep {
  i64 sums, plane_stride, plane_row;
  i64 a, a_row, a_column;
  i64 b, b_row, b_column;
  i64 c, c_row, c_column;
  i64 out, out_row;
  i32 rows, columns, k, padded_k;
  i32 a_exponents, b_exponents;
  i32 add, finish;
};
