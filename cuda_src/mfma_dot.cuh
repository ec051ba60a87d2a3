// What every arithmetic model's dot has in common: a chain of links along k, each of `group`
// products.
//
// A model is a type with
//   Value, Accumulator      a decoded item of A or B; the bits of C and D
//   load(c, operand, code)  decode an item
//   start(c, d)             the accumulator as the chain takes it
//   link(c, d, a, b, slot, first, fetch, scale_exponent)
//                           the accumulator after products first .. first + group - 1, whose
//                           factors are a[t] and b[t] and whose partial sum is slot[t]; rare paths
//                           call fetch again
//   finish(d)               the result's bits
// and may have
//   tame_item, tame_accumulator, tame_scale, link_tame
//                           a link that is right, and quicker, where they all say yes
//   link_sure               link_tame for many outputs side by side: without branches, and it
//                           clears `sure` where it does not know the result
#pragma once
#include "mfma_round.cuh"

const int MAX_LINK = 64;

template <class Model>
struct Dot {
  template <class Value>
  HD static bool tame_item(const Value&) {
    return true;
  }
  template <class Accumulator>
  HD static bool tame_accumulator(Accumulator) {
    return true;
  }
  // Never called: scaled instructions take aligned models.
  HD static bool tame_scale(int) { return true; }  // GCOVR_EXCL_LINE
  template <class Accumulator, class Value, class Fetch>
  HD static Accumulator link_tame(const Config& c, Accumulator d, const Value* a, const Value* b,
                                  const int* slot, int first, Fetch fetch, int scale_exponent) {
    return Model::link(c, d, a, b, slot, first, fetch, scale_exponent);
  }

  template <class Value>
  struct NoFetch {
    HD int operator()(int, Value&, Value&) const { return 0; }
  };
  template <class Accumulator, class Value>
  HD static Accumulator link_sure(const Config& c, Accumulator d, const Value* a, const Value* b,
                                  const int* slot, bool&) {
    return Model::link_tame(c, d, a, b, slot, 0, NoFetch<Value>(), 0);
  }

  // fetch(k, a, b) gives the factors of product k and returns what `slot` counts;
  // scale(k) gives the exponent of its scales.
  template <class Accumulator, class Fetch, class Scale>
  HD static Accumulator dot(const Config& c, Accumulator d, Fetch fetch, Scale scale) {
    d = Model::start(c, d);
    UNROLL for (int k = 0; k < c.products; k += c.group) {
      typename Model::Value a[MAX_LINK], b[MAX_LINK];
      int slot[MAX_LINK];
      UNROLL for (int t = 0; t < c.group; ++t) slot[t] = fetch(k + t, a[t], b[t]) % c.interleave;
      d = Model::link(c, d, a, b, slot, k, fetch, c.scaled ? scale(k) : 0);
    }
    return Model::finish(d);
  }
};
