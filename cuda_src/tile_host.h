// The C ABI of the tile machine's host build: what the kernels run, one vector a step.
#pragma once
#include "tile_elementwise.cuh"

namespace tile {

// Three sources as bytes, and the vector or element at an index of each.
struct Sources {
  const u8* base[3];

  template <class Item>
  Item at(int source, u64 index) const {
    Item item;
    __builtin_memcpy(&item, base[source] + index * sizeof(Item), sizeof(Item));
    return item;
  }
};

template <class Op, class T>
u32 flat(const Sources& in, u8* out, u64 items, u32 options) {
  using Bits = typename T::Bits;
  u32 flags = 0;
  const u64 vectors = items / kLanes<Bits>;
  for (u64 i = 0; i < vectors; ++i) {
    const Vector result =
        apply<Op, T>(in.at<Vector>(0, i), in.at<Vector>(1, i), in.at<Vector>(2, i), options, flags);
    __builtin_memcpy(out + i * sizeof(Vector), &result, sizeof(Vector));
  }
  for (u64 i = vectors * kLanes<Bits>; i < items; ++i) {
    const Bits result =
        element<Op, T>(in.at<Bits>(0, i), in.at<Bits>(1, i), in.at<Bits>(2, i), options, flags);
    __builtin_memcpy(out + i * sizeof(Bits), &result, sizeof(Bits));
  }
  return flags;
}

template <class Op, class T>
void batch(const Sources& in, u8* out, u8* defined, u32* flags, const Shape& shape) {
  constexpr int lanes = kLanes<typename T::Bits>;
  for (u64 i = 0; i < shape.items / lanes; ++i) {
    const u64 item = i * lanes;
    const Vector result =
        tile_vector<Op, T>(shape, item, in.at<Vector>(0, i), in.at<Vector>(1, i),
                           in.at<Vector>(2, i), defined + item, flags[tile_of(shape, item)]);
    __builtin_memcpy(out + i * sizeof(Vector), &result, sizeof(Vector));
  }
}

// Call visitor(operation, type) for the pair that a selector and a DataType code name.
template <class Op, class... Types, class Visitor>
bool with_type(u32 code, Visitor visitor) {
  return ((code == Types::code && (visitor(Op(), Types()), true)) || ...);
}
template <class... Ops, class Visitor>
bool with_operation(u32 selector, u32 code, Visitor visitor) {
  return ((selector == Ops::selector &&
           with_type<Ops, FP64, FP32, TF32, HF32, FP16, BF16, E4M3, E5M2, S64, S32, S16, S8, U64,
                     U32, U16, U8>(code, visitor)) ||
          ...);
}
template <class Visitor>
bool dispatch(u32 selector, u32 code, Visitor visitor) {
  return with_operation<TFMA, TADD, TSUB, TMUL, TMAX, TMIN, TABS, TNEG>(selector, code, visitor);
}

}  // namespace tile

// Returns the OR of all flags, or all ones for an operation or type that does not exist.
extern "C" u32 gpuemu_tile_flat(u32 selector, u32 type, const u8* left, const u8* right,
                                const u8* addend, u8* out, u64 items, u32 options) {
  const tile::Sources in = {{left, right, addend}};
  u32 flags = ~0u;
  tile::dispatch(selector, type, [&](auto op, auto element) {
    flags = tile::flat<decltype(op), decltype(element)>(in, out, items, options);
  });
  return flags;
}

// Returns 1, or 0 for an operation or type that does not exist.
extern "C" u32 gpuemu_tile_batch(u32 selector, u32 type, const u8* left, const u8* right,
                                 const u8* addend, u8* out, u8* defined, u32* flags, u64 items,
                                 u32 log_fragments, u32 log_elements, u32 log_columns,
                                 u32 valid_rows, u32 valid_columns, u32 selected, u32 pad_defined,
                                 u64 pad, u32 options) {
  const tile::Sources in = {{left, right, addend}};
  const tile::Shape shape = {items,         log_fragments, log_elements, log_columns, valid_rows,
                             valid_columns, selected,      pad_defined,  pad,         options};
  return tile::dispatch(selector, type, [&](auto op, auto element) {
    tile::batch<decltype(op), decltype(element)>(in, out, defined, flags, shape);
  });
}
