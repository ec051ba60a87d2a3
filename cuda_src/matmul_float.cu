// The tuned products of the models "fma" (binary32), "pairwise" and "exact": a register tile a
// thread, operands as floating-point numbers in shared memory, the next chunk of k brought there
// beside the current one.
//
// GPUEMU_CONFIG holds the fields of Config, MODEL the type of the arithmetic below, CHUNK the k
// held at a time.
#include "matmul_intrinsics.cuh"
#include "matmul_raster.cuh"

constexpr Config CONFIG = {GPUEMU_CONFIG};
constexpr int LANES_ACROSS = 16, THREADS = LANES_ACROSS * LANES_ACROSS;

#ifdef __CUDA_ARCH__
// binary32 arithmetic that flushes subnormal operands and results to zeros of their sign: what the
// instruction set calls ftz is what the "pairwise" models do at every step.
HD float mul_flush(float a, float b) {
  float d;
  asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}
HD float add_flush(float a, float b) {
  float d;
  asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}
HD float fma_flush(float a, float b, float c) {
  float d;
  asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}
HD double fma_up(double a, double b, double c) { return __fma_ru(a, b, c); }
HD float half_to_float(u16 code) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(code));
  return x;
}
#else
HD float flushed(float x) { return bits_to_float(flush_subnormal(float_to_bits(x))); }
HD float mul_flush(float a, float b) { return flushed(flushed(a) * flushed(b)); }
HD float add_flush(float a, float b) { return flushed(flushed(a) + flushed(b)); }
HD float fma_flush(float a, float b, float c) {
  return flushed(fma_f32(flushed(a), flushed(b), flushed(c)));
}
HD double fma_up(double a, double b, double c) { return -fma_down(-a, b, -c); }
HD float half_to_float(u16 code) { return bits_to_float(to_binary32(CONFIG.a, code, false)); }
#endif

// The binary32 value of a code; what is not one of the wide formats takes the general way.
HD float value_of(const Operand& o, u32 code) {
  const bool flush = CONFIG.flush_inputs;
  if (o.bits == 32 && o.used_bits == 23)
    return bits_to_float(flush ? flush_to_plus_zero(code) : code);
  if (o.bits == 16 && o.used_bits == 7 && o.exponent_bits == 8)
    return bits_to_float(flush ? flush_to_plus_zero(code << 16) : code << 16);
  if (o.bits == 16 && o.used_bits == 10 && o.exponent_bits == 5)
    return flush && (code & 0x7C00) == 0 ? 0.0f : half_to_float((u16)code);
  return bits_to_float(to_binary32(o, code, flush));
}

// The same arithmetic as an instruction of one link.
HD constexpr Config one_link(Config c) {
  c.products = c.k = c.group;
  return c;
}
constexpr Config LINK = one_link(CONFIG);

template <class T, int N>
struct Row {
  T at[N];
};

// Model "fma": one fused multiply-add a k.
struct FmaTile {
  using Value = float;
  static constexpr int ROWS = 8, COLUMNS = 8, BLOCKS = 2, STEP = 1;
  float d[ROWS][COLUMNS];

  HD static bool wild(float) { return false; }
  HD void chunk_start() {}
  template <bool TAME, class Fetch>
  HD void link(int k, Fetch fetch) {
    Row<float, ROWS> a;
    Row<float, COLUMNS> b;
    fetch(k, a, b);
    UNROLL for (int i = 0; i < ROWS; ++i) UNROLL for (int j = 0; j < COLUMNS; ++j) d[i][j] =
        fma_f32(a.at[i], b.at[j], d[i][j]);
  }
};

// Model "pairwise". A product of two of these inputs is exact in binary32, so that product and sum
// may share one FMA, unless the product overflows or is subnormal: a chunk with such items is wild,
// and takes every step by itself. A tame chunk leaves no negative zero in d either, so that what an
// instruction does to the accumulator that comes in (zeros lose their sign) need be done once a
// chunk.
struct PairwiseTile {
  using Value = float;
  static constexpr int ROWS = 8, COLUMNS = 4, BLOCKS = 2, GROUP = CONFIG.group, STEP = GROUP;
  static constexpr bool ALWAYS_TAME = CONFIG.a.exponent_bits <= 5 && CONFIG.b.exponent_bits <= 5;
  float d[ROWS][COLUMNS];

  HD static bool wild(float x) {
    if (ALWAYS_TAME) return false;
    const u32 magnitude = float_to_bits(x) & 0x7FFFFFFFu;
    return magnitude - 1 < ((127u - 40) << 23) - 1 || magnitude >= (127u + 45) << 23;
  }
  HD void chunk_start() {
    if (CONFIG.flush_inputs) UNROLL
    for (int i = 0; i < ROWS; ++i) UNROLL
    for (int j = 0; j < COLUMNS; ++j) d[i][j] = add_flush(d[i][j], 0.0f);
  }
  template <bool TAME>
  HD static float two(float a0, float b0, float a1, float b1) {
    const float first = mul_flush(a0, b0);
    return TAME ? fma_flush(a1, b1, first) : add_flush(first, mul_flush(a1, b1));
  }
  template <bool TAME, class Fetch>
  HD void link(int k, Fetch fetch) {
    Row<float, ROWS> a[GROUP];
    Row<float, COLUMNS> b[GROUP];
    UNROLL for (int t = 0; t < GROUP; ++t) fetch(k + t, a[t], b[t]);
    if (!TAME && k % CONFIG.k == 0) chunk_start();
    UNROLL for (int i = 0; i < ROWS; ++i) UNROLL for (int j = 0; j < COLUMNS; ++j) {
      float sum = two<TAME>(a[0].at[i], b[0].at[j], a[1].at[i], b[1].at[j]);
      if (GROUP == 4)
        sum = add_flush(sum, two<TAME>(a[GROUP - 2].at[i], b[GROUP - 2].at[j], a[GROUP - 1].at[i],
                                       b[GROUP - 1].at[j]));
      d[i][j] = add_flush(d[i][j], sum);
    }
  }
};

// Model "exact": the sum of a link is bracketed in binary64, once rounding every step down and once
// up. Where both ends round to the same binary32 number, that is the sum's; elsewhere the plain dot
// decides.
struct ExactTile {
  using Value = double;
  static constexpr int ROWS = 4, COLUMNS = 4, BLOCKS = 2, GROUP = CONFIG.group, STEP = GROUP;
  float d[ROWS][COLUMNS];
  u32 doubtful;  // of the last link, a bit an output

  HD static bool wild(double) { return false; }
  HD void chunk_start() {}
  template <bool TAME, class Fetch>
  HD void link(int k, Fetch fetch) {
    double low[ROWS][COLUMNS], high[ROWS][COLUMNS];
    UNROLL for (int i = 0; i < ROWS; ++i) UNROLL for (int j = 0; j < COLUMNS; ++j) low[i][j] =
        high[i][j] = widen(d[i][j]);
    UNROLL for (int t = 0; t < GROUP; ++t) {
      Row<double, ROWS> a;
      Row<double, COLUMNS> b;
      fetch(k + t, a, b);
      UNROLL for (int i = 0; i < ROWS; ++i) UNROLL for (int j = 0; j < COLUMNS; ++j) {
        low[i][j] = fma_down(a.at[i], b.at[j], low[i][j]);
        high[i][j] = fma_up(a.at[i], b.at[j], high[i][j]);
      }
    }
    doubtful = 0;
    UNROLL for (int i = 0; i < ROWS; ++i) UNROLL for (int j = 0; j < COLUMNS; ++j) {
      const float up = narrow(high[i][j]);
      if (narrow(low[i][j]) == up)
        d[i][j] = up;
      else
        doubtful |= 1u << (i * COLUMNS + j);
    }
  }
};

using Tile = MODEL;
using Value = Tile::Value;
constexpr bool EXACT_MODEL = sizeof(Value) == 8;
constexpr int VECTOR = 16 / (int)sizeof(Value);  // numbers that one access of shared memory moves
constexpr int BLOCK_ROWS = LANES_ACROSS * Tile::ROWS, BLOCK_COLUMNS = LANES_ACROSS * Tile::COLUMNS;

struct __align__(16) Buffer {
  Value a[CHUNK][BLOCK_ROWS + VECTOR];
  Value b[CHUNK][BLOCK_COLUMNS + VECTOR];
};

// A thread's rows come in vectors, one from each span of LANES_ACROSS vectors: no bank conflicts.
HD int row_of(int t, int n) { return n / VECTOR * LANES_ACROSS * VECTOR + VECTOR * t + n % VECTOR; }

template <int N>
__device__ __forceinline__ void read_row(const Value* line, int t, Row<Value, N>& out) {
  struct __align__(16) Vector {
    Value at[VECTOR];
  };
  UNROLL for (int n = 0; n < N; n += VECTOR) {
    const Vector v = *(const Vector*)(line + row_of(t, n));
    UNROLL for (int m = 0; m < VECTOR; ++m) out.at[n + m] = v.at[m];
  }
}

// What a thread brings of one operand: items at even steps through (rows, CHUNK), along whichever
// of the two lies dense in memory.
template <int SIDE, int WIDTH>
struct Loader {
  static constexpr int ITEMS = SIDE * CHUNK / THREADS;
  const u8* from;  // this thread's first item of the next chunk
  i64 step;        // between its items
  int rows;
  bool along_k;

  __device__ __forceinline__ int row() const {
    return along_k ? threadIdx.x / CHUNK : threadIdx.x % SIDE;
  }
  __device__ __forceinline__ int k() const {
    return along_k ? threadIdx.x % CHUNK : threadIdx.x / SIDE;
  }
  __device__ __forceinline__ int row_step() const { return along_k ? THREADS / CHUNK : 0; }
  __device__ __forceinline__ int k_step() const { return along_k ? 0 : THREADS / SIDE; }

  __device__ __forceinline__ Loader(const void* base, int bytes, i64 batch_offset, i64 first,
                                    i64 count, i64 row_stride, i64 k_stride) {
    along_k = k_stride == 1 || row_stride != 1;
    step = (row_step() * row_stride + k_step() * k_stride) * bytes;
    rows = (int)min_of((i64)SIDE, count - first);
    from = (const u8*)base + (batch_offset + (first + row()) * row_stride + k() * k_stride) * bytes;
  }

  // Brings the next chunk, of which `left` lie inside, and moves on.
  template <int BITS>
  __device__ __forceinline__ void fetch(i64 left, i64 k_bytes, u32 (&raw)[ITEMS]) {
    if (rows == SIDE && left >= CHUNK) {
      const u8* at = from;
      UNROLL for (int n = 0; n < ITEMS; ++n, at += step) raw[n] = (u32)load_code(at, BITS, 0);
    } else {
      UNROLL for (int n = 0; n < ITEMS; ++n) {
        const bool inside = row() + n * row_step() < rows && k() + n * k_step() < left;
        raw[n] = inside ? (u32)load_code(from + n * step, BITS, 0) : 0;
      }
    }
    from += CHUNK * k_bytes;
  }

  // Returns whether an item is wild.
  __device__ __forceinline__ bool store(const Operand& o, const u32 (&raw)[ITEMS],
                                        Value (&to)[CHUNK][WIDTH]) const {
    bool wild = false;
    Value* at = &to[k()][row()];
    const int apart = k_step() * WIDTH + row_step();
    UNROLL for (int n = 0; n < ITEMS; ++n) {
      const Value x = value_of(o, raw[n]);
      wild |= Tile::wild(x);
      at[n * apart] = x;
    }
    return wild;
  }
};

// One link of one output by the plain dot.
COLD u32 plain_link(const Problem& p, const MatmulPointers& in, i64 batch, i64 row, i64 column,
                    i64 first, u32 d) {
  auto fetch = [&](int t, Item& x, Item& y) {
    x = decode(CONFIG.a, (u32)code_of_a(CONFIG, p, in, batch, row, first + t), false);
    y = decode(CONFIG.b, (u32)code_of_b(CONFIG, p, in, batch, first + t, column), false);
    return t;
  };
  return Exact::dot(LINK, d, fetch, [](int) { return 0; });
}

template <bool TAME, class T>
__device__ __forceinline__ void one_link_of_tile(T& tile, const Buffer& s, int k, const Problem& p,
                                                 const MatmulPointers& in, const TilePlace& at,
                                                 i64 first) {
  const LanePlace lane = place_of_lane(threadIdx.x);
  tile.template link<TAME>(k, [&](int t, Row<Value, Tile::ROWS>& a, Row<Value, Tile::COLUMNS>& b) {
    read_row(s.a[t], lane.y, a);
    read_row(s.b[t], lane.x, b);
  });
  if constexpr (EXACT_MODEL) {
    if (tile.doubtful) UNROLL
    for (int i = 0; i < Tile::ROWS; ++i) UNROLL
    for (int j = 0; j < Tile::COLUMNS; ++j)
      if (tile.doubtful >> (i * Tile::COLUMNS + j) & 1)
        tile.d[i][j] = bits_to_float(plain_link(p, in, at.batch, at.row + row_of(lane.y, i),
                                                at.column + row_of(lane.x, j), first + k,
                                                float_to_bits(tile.d[i][j])));
  }
}

template <bool TAME>
__device__ __forceinline__ void one_chunk(Tile& tile, const Buffer& s, int count, const Problem& p,
                                          const MatmulPointers& in, const TilePlace& at,
                                          i64 first) {
  tile.chunk_start();
  if (TAME && count == CHUNK) {
    UNROLL for (int k = 0; k < CHUNK; k += Tile::STEP)
        one_link_of_tile<TAME>(tile, s, k, p, in, at, first);
  } else {
    ROLLED for (int k = 0; k < count; k += Tile::STEP)
        one_link_of_tile<TAME>(tile, s, k, p, in, at, first);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, Tile::BLOCKS)
    matmul_float(const __grid_constant__ Problem p, const __grid_constant__ MatmulPointers in) {
  DYNAMIC_SHARED(memory);
  Buffer* buffer = (Buffer*)memory;
  const auto [ty, tx] = place_of_lane(threadIdx.x);
  const TilePlace at = place_of_block(p, blockIdx.x, BLOCK_ROWS, BLOCK_COLUMNS);
  constexpr int A_BITS = CONFIG.a.bits, B_BITS = CONFIG.b.bits;
  Loader<BLOCK_ROWS, BLOCK_ROWS + VECTOR> a(in.a, (A_BITS + 7) / 8, at.batch * p.a.batch, at.row,
                                            p.m, p.a.row, p.a.column);
  Loader<BLOCK_COLUMNS, BLOCK_COLUMNS + VECTOR> b(in.b, (B_BITS + 7) / 8, at.batch * p.b.batch,
                                                  at.column, p.n, p.b.column, p.b.row);
  Tile tile;
  UNROLL for (int i = 0; i < Tile::ROWS; ++i) UNROLL for (int j = 0; j < Tile::COLUMNS; ++j) {
    const u32 d = initial_accumulator<u32>(p, in, at.batch, at.row + row_of(ty, i),
                                           at.column + row_of(tx, j));
    // A zero that the exact sum starts from has no sign.
    tile.d[i][j] = bits_to_float(EXACT_MODEL && d == 0x80000000u ? 0 : d);
  }
  u32 raw_a[a.ITEMS], raw_b[b.ITEMS];
  const i64 a_bytes = p.a.column * ((A_BITS + 7) / 8), b_bytes = p.b.row * ((B_BITS + 7) / 8);
  a.template fetch<A_BITS>(p.k, a_bytes, raw_a);
  b.template fetch<B_BITS>(p.k, b_bytes, raw_b);
  bool wild = a.store(CONFIG.a, raw_a, buffer[0].a);
  wild |= b.store(CONFIG.b, raw_b, buffer[0].b);
  wild = __syncthreads_or(wild);
  const i64 end =
      p.steps(CONFIG) * CONFIG.k;  // zeros beyond it would be links that the chain does not have
  int current = 0;
  ROLLED for (i64 first = 0; first < end; first += CHUNK, current ^= 1) {
    a.template fetch<A_BITS>(p.k - first - CHUNK, a_bytes, raw_a);
    b.template fetch<B_BITS>(p.k - first - CHUNK, b_bytes, raw_b);
    const int count = (int)min_of((i64)CHUNK, end - first);
    if (wild)
      one_chunk<false>(tile, buffer[current], count, p, in, at, first);
    else
      one_chunk<true>(tile, buffer[current], count, p, in, at, first);
    wild = a.store(CONFIG.a, raw_a, buffer[current ^ 1].a);
    wild |= b.store(CONFIG.b, raw_b, buffer[current ^ 1].b);
    wild = __syncthreads_or(wild);
  }
  UNROLL for (int i = 0; i < Tile::ROWS; ++i) UNROLL for (int j = 0; j < Tile::COLUMNS; ++j) {
    const u32 d = float_to_bits(tile.d[i][j]);
    store_result(p, in, at.batch, at.row + row_of(ty, i), at.column + row_of(tx, j),
                 is_nan32(d) ? QUIET_NAN : d);
  }
}
