// An operation over 16-byte vectors of elements, and over tiles with padding: what both builds
// share.
#pragma once
#include "tile_operations.cuh"

namespace tile {

struct alignas(16) Vector {
  u32 word[4];
};

template <class Bits>
constexpr int kLanes = 16 / sizeof(Bits);

template <class Bits>
HD Bits get(const Vector& v, int i) {
  if constexpr (sizeof(Bits) == 8) {
    return u64(v.word[2 * i + 1]) << 32 | v.word[2 * i];
  } else {
    constexpr int per = 4 / sizeof(Bits), width = 8 * sizeof(Bits);
    return Bits(v.word[i / per] >> (i % per * width));
  }
}
// The vector starts as zeros, and each element is set once.
template <class Bits>
HD void set(Vector& v, int i, Bits x) {
  if constexpr (sizeof(Bits) == 8) {
    v.word[2 * i] = u32(x);
    v.word[2 * i + 1] = u32(x >> 32);
  } else {
    constexpr int per = 4 / sizeof(Bits), width = 8 * sizeof(Bits);
    v.word[i / per] |= u32(x) << (i % per * width);
  }
}

template <class Op, class T, class Bits = typename T::Bits>
HD Bits element(Bits x, Bits y, Bits z, u32 options, u32& flags) {
  if constexpr (Op::fused) {
    Op::template operands<T>(x, y, z);
    return fused_element<T>(x, y, z, options, flags);
  } else {
    return Op::template element<T>(x, y, z, options, flags);
  }
}

template <class Op, class T>
HD Vector apply(const Vector& x, const Vector& y, const Vector& z, u32 options, u32& flags) {
  using Bits = typename T::Bits;
  if constexpr (Op::fused && T::kind == Kind::narrow_float) {
    Vector result = {};
    Seen seen;
    UNROLL for (int i = 0; i < kLanes<Bits>; ++i) {
      Bits a = get<Bits>(x, i), b = get<Bits>(y, i), c = get<Bits>(z, i);
      Op::template operands<T>(a, b, c);
      set(result, i, fused_quick<T>(a, b, c, seen));
    }
    if (all_common<T>(seen)) {
      flags |= common_flags<T>(seen);
      return result;
    }
  }
  Vector result = {};
  UNROLL for (int i = 0; i < kLanes<Bits>; ++i) {
    set(result, i,
        element<Op, T>(get<Bits>(x, i), get<Bits>(y, i), get<Bits>(z, i), options, flags));
  }
  return result;
}

// Tiles of equal shape, all extents powers of two: [tile][fragment][row][column].
struct Shape {
  u64 items;          // elements of all tiles
  u32 log_fragments;  // 2: one fragment for each of four PEs; 0: one fragment in all
  u32 log_elements;   // of one fragment
  u32 log_columns;
  u32 valid_rows, valid_columns;
  u32 selected;  // bit f: fragment f takes part
  u32 pad_defined;
  u64 pad;
  u32 options;
};

HD bool takes_part(const Shape& shape, u64 item) {
  const u32 fragment = u32(item >> shape.log_elements) & ((1u << shape.log_fragments) - 1);
  return shape.selected >> fragment & 1;
}
HD u64 tile_of(const Shape& shape, u64 item) {
  return item >> (shape.log_elements + shape.log_fragments);
}
HD bool is_valid(const Shape& shape, u64 item) {
  const u32 within = u32(item) & ((1u << shape.log_elements) - 1);
  return (within >> shape.log_columns) < shape.valid_rows &&
         (within & ((1u << shape.log_columns) - 1)) < shape.valid_columns;
}

// One vector of a tile, which never straddles fragments: values, definedness, flags; padding and
// the fragments of PEs that take no part too.
template <class Op, class T>
HD Vector tile_vector(const Shape& shape, u64 item, const Vector& x, const Vector& y,
                      const Vector& z, u8* defined, u32& flags) {
  using Bits = typename T::Bits;
  const bool takes = takes_part(shape, item);
  bool all_valid = takes;
  UNROLL for (int i = 0; i < kLanes<Bits>; ++i) {
    const bool valid = takes && is_valid(shape, item + i);
    defined[i] = valid || (takes && shape.pad_defined);
    all_valid &= valid;
  }
  if (all_valid) return apply<Op, T>(x, y, z, shape.options, flags);
  Vector result = {};
  UNROLL for (int i = 0; i < kLanes<Bits>; ++i) {
    Bits value = takes ? Bits(shape.pad) : Bits(0);
    if (takes && is_valid(shape, item + i)) {
      value =
          element<Op, T>(get<Bits>(x, i), get<Bits>(y, i), get<Bits>(z, i), shape.options, flags);
    }
    set(result, i, value);
  }
  return result;
}

}  // namespace tile
