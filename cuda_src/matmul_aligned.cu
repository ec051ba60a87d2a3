// The tuned product of the "aligned" models (matmul_chain.cuh): 64 x 64 outputs a block, 4 x 4 a
// thread, operands converted while they are brought to shared memory, where the next chunk of k is
// prepared beside the current one.
//
// GPUEMU_CONFIG holds the fields of Config, WORD the integer of the plain dot, CHUNK the k held at
// a time, KEPT the type that keeps the accumulators' binary32 values between links, BLOCKS how many
// blocks share a multiprocessor. A chunk with an item that this path does not take (infinity, NaN,
// extreme exponent) goes to the plain dot.
#include "matmul_chain.cuh"
#include "matmul_raster.cuh"

constexpr Config CONFIG = {GPUEMU_CONFIG};
constexpr int SIDE = 64, THREADS = 256, RUN = 8, PAIRS = CHUNK / 2;
constexpr int TASKS = SIDE * (CHUNK / RUN);  // runs of one operand
constexpr int ROUNDS = 2 * TASKS / THREADS;
constexpr int CHAINS = CONFIG.interleave;

// The bits that a code takes in memory.
HD constexpr int stored(int bits) { return bits <= 8 ? 8 : bits; }
struct Raw {
  u32 codes[RUN];      // where packed, as they lie in memory: unpacking would wait for them
  u32 before[CHAINS];  // the codes before the run, where its link began there
  bool packed;
};

struct Side {
  double magnitude[CHUNK][SIDE];
  u32 flip[CHUNK][SIDE];   // by slot_of(row)
  u32 codes[PAIRS][SIDE];  // of two neighbours along k, by slot_of(row)
};
struct Buffer {
  Side a, b;
};

// A thread's four rows are 2 t, 2 t + 1 and those plus 32: pairs of doubles without bank conflicts.
// Where a row takes one word, the four lie together.
__device__ __forceinline__ int slot_of(int row) {
  return row % 32 / 2 * 4 + row / 32 * 2 + row % 2;
}
__device__ __forceinline__ int row_of(int t, int n) { return n / 2 * 32 + 2 * t + n % 2; }

// A code at an edge, where it may be missing.
COLD u32 padded_code(const Problem& p, const MatmulPointers& in, bool is_a, i64 batch, i64 line,
                     i64 k) {
  return (u32)(is_a ? code_of_a(CONFIG, p, in, batch, line, k)
                    : code_of_b(CONFIG, p, in, batch, k, line));
}

// One run of k of one row of A or one column of B.
struct Task {
  const u8* from;  // its first item of the next chunk
  int row, k;
  bool is_a, inside, vector;

  Task() = default;
  __device__ __forceinline__ Task(const Problem& p, const MatmulPointers& in, const TilePlace& at,
                                  int number) {
    is_a = number < TASKS;
    const int own = number % TASKS;
    row = own % SIDE;
    k = own / SIDE * RUN;
    const int bytes = stored(is_a ? CONFIG.a.bits : CONFIG.b.bits) / 8;
    const i64 index = (is_a ? at.row : at.column) + row;
    inside = index < (is_a ? p.m : p.n);
    const i64 line_stride = (is_a ? p.a.row : p.b.column) * bytes;
    const u8* base =
        (const u8*)(is_a ? in.a : in.b) + at.batch * (is_a ? p.a.batch : p.b.batch) * bytes;
    const u8* line = base + (inside ? index : 0) * line_stride;
    vector = stride(p) == bytes && ((u64)line | (u64)line_stride) % 16 == 0;
    from = line + k * stride(p);
  }

  // Between items along k, in bytes.
  __device__ __forceinline__ i64 stride(const Problem& p) const {
    return is_a ? p.a.column * (stored(CONFIG.a.bits) / 8) : p.b.row * (stored(CONFIG.b.bits) / 8);
  }

  // Brings the run of the chunk at `first` and moves on to the next.
  template <int BITS>
  __device__ __forceinline__ void fetch(const Problem& p, const MatmulPointers& in,
                                        const TilePlace& place, i64 first, Raw& raw) {
    const i64 at = first + k, step = stride(p);
    const bool whole = inside && at + RUN <= p.k;
    raw.packed = vector && whole;
    UNROLL for (int n = 0; n < CHAINS; ++n) raw.before[n] = 0;
    if (k % CONFIG.group != 0) UNROLL
    for (int n = 0; n < CHAINS; ++n)
      if (inside && at - CHAINS + n < p.k)
        raw.before[n] = (u32)load_code(from + (n - CHAINS) * step, BITS, 0);
    if (raw.packed) {
      if (stored(BITS) == 8) {
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
          inside && at < p.k ? padded_code(p, in, is_a, place.batch, line, at + n) : 0;
    }
    from += CHUNK * step;
  }

  // Convert a run; returns whether an item is not for this path.
  template <int BITS>
  __device__ __forceinline__ bool prepare(const Operand& o, Raw& raw, Side& side) const {
    constexpr int STORED = stored(BITS), PER_WORD = 32 / STORED;
    if (PER_WORD > 1 && raw.packed) UNROLL
    for (int n = RUN - 1; n >= 0; --n)
      raw.codes[n] = raw.codes[n / PER_WORD] >> n % PER_WORD * STORED & (1u << STORED % 32) - 1;
    bool special = false;
    u32 before[CHAINS];
    UNROLL for (int n = 0; n < CHAINS; ++n) before[n] = chain_item(o, raw.before[n], is_a).sign;
    const int slot = slot_of(row);
    u32 pair = 0;
    UNROLL for (int n = 0; n < RUN; ++n) {
      if ((n % CONFIG.group) == 0 && CONFIG.group <= RUN) UNROLL
      for (int g = 0; g < CHAINS; ++g) before[g] = 0;
      const ChainItem x = chain_item(o, raw.codes[n], is_a);
      special |= x.special;
      side.magnitude[k + n][row] = x.magnitude;
      side.flip[k + n][slot] = x.sign ^ before[n % CHAINS];
      before[n % CHAINS] = x.sign;
      pair = n % 2 ? pair | (u32)x.code << 16 : (u32)(u16)x.code;
      if (n % 2) side.codes[(k + n) / 2][slot] = pair;
    }
    return special;
  }
};

__device__ __forceinline__ void fetch_task(Task& task, const Problem& p, const MatmulPointers& in,
                                           const TilePlace& at, i64 first, Raw& raw) {
  if (CONFIG.a.bits == CONFIG.b.bits || task.is_a)
    task.fetch<CONFIG.a.bits>(p, in, at, first, raw);
  else
    task.fetch<CONFIG.b.bits>(p, in, at, first, raw);
}
__device__ __forceinline__ bool prepare_task(const Task& task, Raw& raw, Buffer& buffer) {
  return task.is_a ? task.prepare<CONFIG.a.bits>(CONFIG.a, raw, buffer.a)
                   : task.prepare<CONFIG.b.bits>(CONFIG.b, raw, buffer.b);
}

// One link of the 4 x 4 outputs, from position `first` of the buffer.
__device__ __forceinline__ void link(const Buffer& s, int first, int ty, int tx, KEPT (&c)[4][4]) {
  u32 top[4][4];
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) top[i][j] = START_PAIR;
  UNROLL for (int k = 0; k < CONFIG.group; k += 2) {
    const uint4 a4 = *(const uint4*)&s.a.codes[(first + k) / 2][4 * ty];
    const uint4 b4 = *(const uint4*)&s.b.codes[(first + k) / 2][4 * tx];
    const u32 a[4] = {a4.x, a4.y, a4.z, a4.w}, b[4] = {b4.x, b4.y, b4.z, b4.w};
    UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) top[i][j] =
        add_max_s16x2(a[i], b[j], top[i][j]);
  }
  double x[CHAINS][4][4];
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
    if (CHAINS == 1) {
      top[i][j] = anchor_of_both(top[i][j]);
      x[0][i][j] = from_words(top[i][j], 0);
    } else {
      x[0][i][j] = from_words(top[i][j] << 16, 0);
      x[CHAINS - 1][i][j] = from_words(top[i][j], 0);
    }
  }
  UNROLL for (int k = 0; k < CONFIG.group; ++k) {
    const double2 a0 = *(const double2*)&s.a.magnitude[first + k][2 * ty];
    const double2 a1 = *(const double2*)&s.a.magnitude[first + k][2 * ty + 32];
    const double2 b0 = *(const double2*)&s.b.magnitude[first + k][2 * tx];
    const double2 b1 = *(const double2*)&s.b.magnitude[first + k][2 * tx + 32];
    const uint4 fa = *(const uint4*)&s.a.flip[first + k][4 * ty];
    const uint4 fb = *(const uint4*)&s.b.flip[first + k][4 * tx];
    const double a[4] = {a0.x, a0.y, a1.x, a1.y}, b[4] = {b0.x, b0.y, b1.x, b1.y};
    const u32 flip_a[4] = {fa.x, fa.y, fa.z, fa.w}, flip_b[4] = {fb.x, fb.y, fb.z, fb.w};
    UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
      double& chain = x[k % CHAINS][i][j];
      chain = chain_step(chain, a[i], b[j], flip_a[i], flip_b[j]);
    }
  }
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
    if (CHAINS == 1)
      c[i][j] = (KEPT)chain_end(x[0][i][j], top[i][j], (double)c[i][j]);
    else
      c[i][j] = (KEPT)chain_end_of_two(x[0][i][j], x[CHAINS - 1][i][j], top[i][j] << 16, top[i][j],
                                       (double)c[i][j], CONFIG.drop_tiny);
  }
}

// The same arithmetic as an instruction of one link.
HD constexpr Config one_link(Config c) {
  c.products = c.k = c.group;
  return c;
}
constexpr Config LINK = one_link(CONFIG);

// A chunk of one output by the plain dot.
COLD u32 plain_chunk(const Problem& p, const MatmulPointers& in, i64 batch, i64 row, i64 column,
                     i64 first, u32 d) {
  auto scale = [](int) { return 0; };
  ROLLED for (int k = 0; k < CHUNK; k += CONFIG.group) {
    auto fetch = [&](int t, Item& x, Item& y) {
      x = decode(CONFIG.a, (u32)code_of_a(CONFIG, p, in, batch, row, first + k + t), false);
      y = decode(CONFIG.b, (u32)code_of_b(CONFIG, p, in, batch, first + k + t, column), false);
      return t;
    };
    d = Aligned<WORD>::dot(LINK, d, fetch, scale);
  }
  return d;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    matmul_aligned(const __grid_constant__ Problem p, const __grid_constant__ MatmulPointers in) {
  DYNAMIC_SHARED(memory);
  Buffer* buffer = (Buffer*)memory;
  const int thread = threadIdx.x;
  const auto [ty, tx] = place_of_lane(thread);
  const TilePlace at = place_of_block(p, blockIdx.x, SIDE, SIDE);
  KEPT c[4][4];
  bool special = false, lost = false;  // in the chunk to come; in the accumulators, for good
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
    const u32 d = initial_accumulator<u32>(p, in, at.batch, at.row + row_of(ty, i),
                                           at.column + row_of(tx, j));
    lost |= !is_finite32(d);
    c[i][j] = bits_to_float(d);
  }
  Task task[ROUNDS];
  Raw raw[ROUNDS];
  UNROLL for (int n = 0; n < ROUNDS; ++n) {
    task[n] = Task(p, in, at, thread + n * THREADS);
    fetch_task(task[n], p, in, at, 0, raw[n]);
    special |= prepare_task(task[n], raw[n], buffer[0]);
  }
  bool plain = __syncthreads_or(special || lost);
  int current = 0;
#pragma unroll 1
  for (i64 first = 0; first < p.k; first += CHUNK, current ^= 1) {
    const i64 next = first + CHUNK;
    UNROLL for (int n = 0; n < ROUNDS; ++n) fetch_task(task[n], p, in, at, next, raw[n]);
    if (!plain) {
#pragma unroll 1
      for (int k = 0; k < CHUNK; k += CONFIG.group) link(buffer[current], k, ty, tx, c);
    } else {
      UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
        const i64 row = at.row + row_of(ty, i), column = at.column + row_of(tx, j);
        const u32 d =
            plain_chunk(p, in, at.batch, row, column, first, float_to_bits((float)c[i][j]));
        lost |= !is_finite32(d);
        c[i][j] = bits_to_float(d);
      }
    }
    special = false;
    UNROLL for (int n = 0; n < ROUNDS; ++n) special |=
        prepare_task(task[n], raw[n], buffer[current ^ 1]);
    plain = __syncthreads_or(special || lost);
  }
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
    const u32 d = float_to_bits((float)c[i][j]);
    store_result(p, in, at.batch, at.row + row_of(ty, i), at.column + row_of(tx, j),
                 is_nan32(d) ? QUIET_NAN : d);
  }
}
