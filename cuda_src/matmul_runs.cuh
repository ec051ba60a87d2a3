// Operands of the tuned "aligned" products on their way to shared memory: runs of neighbouring
// items along k, of one row of A or one column of B each.
//
// A Shape says what a block holds at a time: ROWS of A with A_K items each, COLUMNS of B with B_K
// items each.
#pragma once
#include "matmul_raster.cuh"

const int RUN = 8;

// The bits that a code takes in memory.
HD constexpr int stored_bits(int bits) { return bits <= 8 ? 8 : bits; }

// How many of a chunk's products a chain of instructions of OWN products each still has, with
// `left` to come: zeros beyond them would be links that turn -0 into +0.
template <int OWN, int MOST>
__device__ __forceinline__ int products_of_chunk(i64 left) {
  return OWN % MOST == 0 ? MOST : (int)min_of((i64)MOST, left);
}

struct Raw {
  u32 codes[RUN];  // where packed, as they lie in memory: unpacking would wait for them
  bool packed;
};

// A code at an edge, where it may be missing.
COLD u32 padded_code(const Config& c, const Problem& p, const MatmulPointers& in, bool is_a,
                     i64 batch, i64 line, i64 k) {
  return (u32)(is_a ? code_of_a(c, p, in, batch, line, k) : code_of_b(c, p, in, batch, k, line));
}

template <int BITS>
__device__ __forceinline__ void unpack(Raw& raw) {
  constexpr int STORED = stored_bits(BITS), PER_WORD = 32 / STORED;
  if (PER_WORD > 1 && raw.packed) UNROLL
  for (int n = RUN - 1; n >= 0; --n)
    raw.codes[n] = raw.codes[n / PER_WORD] >> n % PER_WORD * STORED & (1u << STORED % 32) - 1;
}

// A thread's four rows are 2 t, 2 t + 1 and those plus 32: pairs of doubles without bank conflicts.
// Where a row takes one word, the four lie together.
__device__ __forceinline__ int slot_of(int row) {
  return row % 32 / 2 * 4 + row / 32 * 2 + row % 2;
}
__device__ __forceinline__ int row_of(int t, int n) { return n / 2 * 32 + 2 * t + n % 2; }

// One run of every chunk.
template <class Shape>
struct Task {
  static constexpr int A_TASKS = Shape::ROWS * (Shape::A_K / RUN);
  static constexpr int TASKS = A_TASKS + Shape::COLUMNS * (Shape::B_K / RUN);

  const u8* from;  // its first item of the next chunk
  int row, k;
  bool is_a, inside, vector;

  Task() = default;
  __device__ __forceinline__ Task(const Config& c, const Problem& p, const MatmulPointers& in,
                                  const TilePlace& at, int number) {
    is_a = number < A_TASKS;
    const int own = is_a ? number : number - A_TASKS, lines = is_a ? Shape::ROWS : Shape::COLUMNS;
    row = own % lines;
    k = own / lines * RUN;
    const int bytes = stored_bits(is_a ? c.a.bits : c.b.bits) / 8;
    const i64 index = (is_a ? at.row : at.column) + row;
    inside = index < (is_a ? p.m : p.n);
    const i64 line_stride = (is_a ? p.a.row : p.b.column) * bytes;
    const u8* base =
        (const u8*)(is_a ? in.a : in.b) + at.batch * (is_a ? p.a.batch : p.b.batch) * bytes;
    const u8* line = base + (inside ? index : 0) * line_stride;
    vector = stride(c, p) == bytes && ((u64)line | (u64)line_stride) % 16 == 0;
    from = line + k * stride(c, p);
  }

  // Between items along k, in bytes.
  __device__ __forceinline__ i64 stride(const Config& c, const Problem& p) const {
    return is_a ? p.a.column * (stored_bits(c.a.bits) / 8) : p.b.row * (stored_bits(c.b.bits) / 8);
  }
  // Items of the whole row or column.
  __device__ __forceinline__ i64 extent(const Config& c, const Problem& p) const {
    return c.sparse && is_a ? p.k / 2 : p.k;
  }

  // Brings the run of the chunk at item `first` and moves on to the next.
  template <int BITS>
  __device__ __forceinline__ void fetch(const Config& c, const Problem& p, const MatmulPointers& in,
                                        const TilePlace& place, i64 first, Raw& raw) {
    const i64 at = first + k, step = stride(c, p), end = extent(c, p);
    const bool whole = inside && at + RUN <= end;
    raw.packed = vector && whole;
    if (raw.packed) {
      if (stored_bits(BITS) == 8) {
        const uint2 all = *(const uint2*)from;
        raw.codes[0] = all.x, raw.codes[1] = all.y;
      } else {
        UNROLL for (int n = 0; n < RUN * BITS / 32; n += 4) {
          const uint4 all = *(const uint4*)(from + 4 * n);
          raw.codes[n] = all.x, raw.codes[n + 1] = all.y;
          raw.codes[n + 2] = all.z, raw.codes[n + 3] = all.w;
        }
      }
    } else if (whole) {
      const u8* item = from;
      UNROLL for (int n = 0; n < RUN; ++n, item += step) raw.codes[n] =
          (u32)load_code(item, BITS, 0);
    } else {
      const i64 line = (is_a ? place.row : place.column) + row;
      UNROLL for (int n = 0; n < RUN; ++n) raw.codes[n] =
          inside && at < end ? padded_code(c, p, in, is_a, place.batch, line, at + n) : 0;
    }
    from += (is_a ? Shape::A_K : Shape::B_K) * step;
  }
};
