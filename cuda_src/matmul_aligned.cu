// The tuned product of the "aligned" models (matmul_chain.cuh): 64 x 64 outputs a block, 4 x 4 a
// thread, operands converted while they are brought to shared memory, where the next chunk of k is
// prepared beside the current one.
//
// GPUEMU_CONFIG holds the fields of Config, WORD the integer of the plain dot, CHUNK the k held at
// a time, KEPT the type that keeps the accumulators' binary32 values between links, BLOCKS how many
// blocks share a multiprocessor. A chunk with an item that this path does not take (infinity, NaN,
// extreme exponent) goes to the plain dot.
#include "matmul_chain.cuh"
#include "matmul_runs.cuh"

constexpr Config CONFIG = {GPUEMU_CONFIG};
constexpr int SIDE = 64, THREADS = 256, PAIRS = CHUNK / 2;
constexpr int CHAINS = CONFIG.interleave;

struct Shape {
  static constexpr int ROWS = SIDE, COLUMNS = SIDE, A_K = CHUNK, B_K = CHUNK;
};
using Runs = Task<Shape>;
constexpr int ROUNDS = Runs::TASKS / THREADS;

// A run, and the codes before it where its link began there.
struct Fetched {
  Raw raw;
  u32 before[CHAINS];
};

struct Side {
  double magnitude[CHUNK][SIDE];
  u32 flip[CHUNK][SIDE];   // by slot_of(row)
  u32 codes[PAIRS][SIDE];  // of two neighbours along k, by slot_of(row)
};
struct Buffer {
  Side a, b;
};

// Brings a run and moves on to the next chunk's.
template <int BITS>
__device__ __forceinline__ void fetch_run(Runs& task, const Problem& p, const MatmulPointers& in,
                                          const TilePlace& at, i64 first, Fetched& run) {
  UNROLL for (int n = 0; n < CHAINS; ++n) run.before[n] = 0;
  if (task.k % CONFIG.group != 0) UNROLL
  for (int n = 0; n < CHAINS; ++n)
    if (task.inside && first + task.k - CHAINS + n < p.k)
      run.before[n] = (u32)load_code(task.from + (n - CHAINS) * task.stride(CONFIG, p), BITS, 0);
  task.fetch<BITS>(CONFIG, p, in, at, first, run.raw);
}

// Converts a run; returns whether an item is not for this path.
template <int BITS>
__device__ __forceinline__ bool prepare_run(const Runs& task, const Operand& o, Fetched& run,
                                            Side& side) {
  unpack<BITS>(run.raw);
  bool special = false;
  u32 before[CHAINS];
  UNROLL for (int n = 0; n < CHAINS; ++n) before[n] = chain_item(o, run.before[n], task.is_a).sign;
  const int slot = slot_of(task.row);
  u32 pair = 0;
  UNROLL for (int n = 0; n < RUN; ++n) {
    if ((n % CONFIG.group) == 0 && CONFIG.group <= RUN) UNROLL
    for (int g = 0; g < CHAINS; ++g) before[g] = 0;
    const ChainItem x = chain_item(o, run.raw.codes[n], task.is_a);
    special |= x.special;
    side.magnitude[task.k + n][task.row] = x.magnitude;
    side.flip[task.k + n][slot] = x.sign ^ before[n % CHAINS];
    before[n % CHAINS] = x.sign;
    pair = n % 2 ? pair | (u32)x.code << 16 : (u32)(u16)x.code;
    if (n % 2) side.codes[(task.k + n) / 2][slot] = pair;
  }
  return special;
}

__device__ __forceinline__ void fetch_task(Runs& task, const Problem& p, const MatmulPointers& in,
                                           const TilePlace& at, i64 first, Fetched& run) {
  if (CONFIG.a.bits == CONFIG.b.bits || task.is_a)
    fetch_run<CONFIG.a.bits>(task, p, in, at, first, run);
  else
    fetch_run<CONFIG.b.bits>(task, p, in, at, first, run);
}
__device__ __forceinline__ bool prepare_task(const Runs& task, Fetched& run, Buffer& buffer) {
  return task.is_a ? prepare_run<CONFIG.a.bits>(task, CONFIG.a, run, buffer.a)
                   : prepare_run<CONFIG.b.bits>(task, CONFIG.b, run, buffer.b);
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
                     i64 first, int count, u32 d) {
  auto scale = [](int) { return 0; };
  ROLLED for (int k = 0; k < count; k += CONFIG.group) {
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
  Runs task[ROUNDS];
  Fetched run[ROUNDS];
  UNROLL for (int n = 0; n < ROUNDS; ++n) {
    task[n] = Runs(CONFIG, p, in, at, thread + n * THREADS);
    fetch_task(task[n], p, in, at, 0, run[n]);
    special |= prepare_task(task[n], run[n], buffer[0]);
  }
  bool plain = __syncthreads_or(special || lost);
  const i64 end = p.steps(CONFIG) * CONFIG.k;
  int current = 0;
#pragma unroll 1
  for (i64 first = 0; first < end; first += CHUNK, current ^= 1) {
    const i64 next = first + CHUNK;
    const int count = products_of_chunk<CONFIG.k, CHUNK>(end - first);
    UNROLL for (int n = 0; n < ROUNDS; ++n) fetch_task(task[n], p, in, at, next, run[n]);
    if (!plain) {
#pragma unroll 1
      for (int k = 0; k < count; k += CONFIG.group) link(buffer[current], k, ty, tx, c);
    } else {
      UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
        const i64 row = at.row + row_of(ty, i), column = at.column + row_of(tx, j);
        const u32 d =
            plain_chunk(p, in, at.batch, row, column, first, count, float_to_bits((float)c[i][j]));
        lost |= !is_finite32(d);
        c[i][j] = bits_to_float(d);
      }
    }
    special = false;
    UNROLL for (int n = 0; n < ROUNDS; ++n) special |=
        prepare_task(task[n], run[n], buffer[current ^ 1]);
    plain = __syncthreads_or(special || lost);
  }
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 4; ++j) {
    const u32 d = float_to_bits((float)c[i][j]);
    store_result(p, in, at.batch, at.row + row_of(ty, i), at.column + row_of(tx, j),
                 is_nan32(d) ? QUIET_NAN : d);
  }
}
