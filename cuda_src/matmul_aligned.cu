// The tuned product of the "aligned" models (matmul_chain.cuh): 64 x 64 outputs a block, 4 x 4 a
// thread, operands converted while they are brought to shared memory, where the next chunk of k is
// prepared beside the current one.
//
// GPUEMU_CONFIG holds the fields of Config, WORD the integer of the plain dot, CHUNK the k held at
// a time. A chunk with an item that this path does not take (infinity, NaN, extreme exponent) goes
// to the plain dot.
#include "matmul_chain.cuh"
#include "matmul_raster.cuh"

constexpr Config CONFIG = {GPUEMU_CONFIG};
constexpr int SIDE = 64, THREADS = 256, RUN = 8, PAIRS = CHUNK / 2;
constexpr int TASKS = SIDE * (CHUNK / RUN);  // runs of one operand
constexpr int ROUNDS = 2 * TASKS / THREADS;
constexpr int CHAINS = CONFIG.interleave;
using Raw = u32[RUN];

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

// One run of k of one row of A or one column of B.
struct Task {
  const u8* line;  // its first item
  i64 stride;      // between items, in bytes
  int row, k;
  bool is_a, inside, vector;

  __device__ __forceinline__ Task(const Problem& p, const MatmulPointers& in, const TilePlace& at,
                                  int number) {
    const int bits_a = CONFIG.a.bits, bits_b = CONFIG.b.bits;
    is_a = number < TASKS;
    const int own = number % TASKS;
    row = own % SIDE;
    k = own / SIDE * RUN;
    const int bytes = (is_a ? bits_a : bits_b) <= 8 ? 1 : (is_a ? bits_a : bits_b) / 8;
    const i64 index = (is_a ? at.row : at.column) + row;
    inside = index < (is_a ? p.m : p.n);
    stride = (is_a ? p.a.column : p.b.row) * bytes;
    const i64 line_stride = (is_a ? p.a.row : p.b.column) * bytes;
    const u8* base =
        (const u8*)(is_a ? in.a : in.b) + at.batch * (is_a ? p.a.batch : p.b.batch) * bytes;
    line = base + (inside ? index : 0) * line_stride;
    vector = stride == bytes && ((u64)line | (u64)line_stride) % 16 == 0;
  }

  template <int BITS>
  __device__ __forceinline__ u32 item(i64 at, i64 k_end) const {
    return inside && at >= 0 && at < k_end ? (u32)load_code(line + at * stride, BITS, 0) : 0;
  }

  template <int BITS>
  __device__ __forceinline__ void fetch(i64 first, i64 k_end, u32 (&raw)[RUN]) const {
    const i64 at = first + k;
    if (vector && inside && at + RUN <= k_end) {
      const u8* from = line + at * stride;
      if (BITS == 32) {
        const uint4 low = ((const uint4*)from)[0], high = ((const uint4*)from)[1];
        raw[0] = low.x, raw[1] = low.y, raw[2] = low.z, raw[3] = low.w;
        raw[4] = high.x, raw[5] = high.y, raw[6] = high.z, raw[7] = high.w;
      } else if (BITS == 16) {
        const uint4 all = *(const uint4*)from;
        const u32 word[4] = {all.x, all.y, all.z, all.w};
        UNROLL for (int n = 0; n < RUN; ++n) raw[n] = word[n / 2] >> 16 * (n % 2) & 0xFFFF;
      } else {
        const uint2 all = *(const uint2*)from;
        const u32 word[2] = {all.x, all.y};
        UNROLL for (int n = 0; n < RUN; ++n) raw[n] = word[n / 4] >> 8 * (n % 4) & 0xFF;
      }
    } else {
      UNROLL for (int n = 0; n < RUN; ++n) raw[n] = item<BITS>(at + n, k_end);
    }
  }

  // Convert a run; returns whether an item is not for this path.
  template <int BITS>
  __device__ __forceinline__ bool prepare(const Operand& o, i64 first, i64 k_end,
                                          const u32 (&raw)[RUN], Side& side) const {
    bool special = false;
    u32 before[CHAINS] = {};
    if (k % CONFIG.group != 0) UNROLL
    for (int n = 0; n < CHAINS; ++n)
      before[n] = chain_item(o, item<BITS>(first + k - CHAINS + n, k_end), is_a).sign;
    const int slot = slot_of(row);
    u32 pair = 0;
    UNROLL for (int n = 0; n < RUN; ++n) {
      if ((n % CONFIG.group) == 0 && CONFIG.group <= RUN) UNROLL
      for (int g = 0; g < CHAINS; ++g) before[g] = 0;
      const ChainItem x = chain_item(o, raw[n], is_a);
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

__device__ __forceinline__ void fetch_task(const Task& task, i64 first, i64 k_end, Raw& raw) {
  if (task.is_a)
    task.fetch<CONFIG.a.bits>(first, k_end, raw);
  else
    task.fetch<CONFIG.b.bits>(first, k_end, raw);
}
__device__ __forceinline__ bool prepare_task(const Task& task, i64 first, i64 k_end, const Raw& raw,
                                             Buffer& buffer) {
  return task.is_a ? task.prepare<CONFIG.a.bits>(CONFIG.a, first, k_end, raw, buffer.a)
                   : task.prepare<CONFIG.b.bits>(CONFIG.b, first, k_end, raw, buffer.b);
}

// One link of the 4 x 4 outputs, from position `first` of the buffer.
__device__ __forceinline__ void link(const Buffer& s, int first, int ty, int tx,
                                     double (&c)[4][4]) {
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
      c[i][j] = chain_end(x[0][i][j], top[i][j], c[i][j]);
    else
      c[i][j] = chain_end_of_two(x[0][i][j], x[CHAINS - 1][i][j], top[i][j] << 16, top[i][j],
                                 c[i][j], CONFIG.drop_tiny);
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
  const int thread = threadIdx.x, ty = thread / 16, tx = thread % 16;
  const TilePlace at = place_of_block(p, blockIdx.x, SIDE, SIDE);
  double c[4][4];
  bool special = false, lost = false;  // in the chunk to come; in the accumulators, for good
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
    const u32 d = initial_accumulator<u32>(p, in, at.batch, at.row + row_of(ty, i),
                                           at.column + row_of(tx, j));
    lost |= !is_finite32(d);
    c[i][j] = widen(bits_to_float(d));
  }
  Raw raw[ROUNDS];
  UNROLL for (int n = 0; n < ROUNDS; ++n) {
    const Task task(p, in, at, thread + n * THREADS);
    fetch_task(task, 0, p.k, raw[n]);
    special |= prepare_task(task, 0, p.k, raw[n], buffer[0]);
  }
  bool plain = __syncthreads_or(special || lost);
  int current = 0;
#pragma unroll 1
  for (i64 first = 0; first < p.k; first += CHUNK, current ^= 1) {
    const i64 next = first + CHUNK;
    UNROLL for (int n = 0; n < ROUNDS; ++n)
        fetch_task(Task(p, in, at, thread + n * THREADS), next, p.k, raw[n]);
    if (!plain) {
#pragma unroll 1
      for (int k = 0; k < CHUNK; k += CONFIG.group) link(buffer[current], k, ty, tx, c);
    } else {
      UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
        const i64 row = at.row + row_of(ty, i), column = at.column + row_of(tx, j);
        const u32 d =
            plain_chunk(p, in, at.batch, row, column, first, float_to_bits(narrow(c[i][j])));
        lost |= !is_finite32(d);
        c[i][j] = widen(bits_to_float(d));
      }
    }
    special = false;
    UNROLL for (int n = 0; n < ROUNDS; ++n) special |=
        prepare_task(Task(p, in, at, thread + n * THREADS), next, p.k, raw[n], buffer[current ^ 1]);
    plain = __syncthreads_or(special || lost);
  }
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
    const u32 d = float_to_bits(narrow(c[i][j]));
    store_result(p, in, at.batch, at.row + row_of(ty, i), at.column + row_of(tx, j),
                 is_nan32(d) ? QUIET_NAN : d);
  }
}
