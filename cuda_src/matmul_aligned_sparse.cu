// The tuned product of a sparse A under the "aligned" models (matmul_chain.cuh): a thread has 4
// columns of PER_THREAD rows, and for every stored item of A gathers the row of B that it chose.
//
// Every row chooses its own rows of B, so the sign of an item against the one before it is not
// known beforehand: signs lie in the lowest bits of the exponent codes, where they disturb nothing
// (M's significand has room for them), and XOR of two codes is the sign of a product.
//
// GPUEMU_CONFIG holds the fields of Config, WORD the integer of the plain dot, CHUNK the stored k
// held at a time, KEPT the type that keeps the accumulators' binary32 values between links, BLOCKS
// how many blocks share a multiprocessor. A chunk with an item that this path does not take
// (infinity, NaN, extreme exponent) goes to the plain dot.
#include "matmul_chain.cuh"
#include "matmul_runs.cuh"

constexpr Config CONFIG = {GPUEMU_CONFIG};
constexpr int SIDE = 16, THREADS = SIDE * SIDE, COLUMNS = 4;  // columns of a thread
constexpr int CHAINS = CONFIG.interleave;
constexpr int PAIRS = COLUMNS / 2;

struct Shape {
  static constexpr int ROWS = SIDE * PER_THREAD, COLUMNS = SIDE * ::COLUMNS, A_K = CHUNK,
                       B_K = 2 * CHUNK;
};
using Runs = Task<Shape>;
constexpr int ROUNDS = (Runs::TASKS + THREADS - 1) / THREADS;

struct alignas(16) Stored {
  double value;
  u32 codes;  // the exponent code and sign, twice
  u32 place;  // of the chosen row of B in the buffer, in bytes
};
struct DenseRow {
  VALUE value[Shape::COLUMNS];
  u16 code[Shape::COLUMNS];  // by slot_of(column)
};
struct Buffer {
  DenseRow b[Shape::B_K];
  Stored a[Shape::A_K][Shape::ROWS];
};

// A run, and where it is of A, the places of its items in their groups of four, a byte each.
struct Fetched {
  Raw raw;
  u32 chosen[2];
};

// Neighbours of a quarter warp share a row; quarters side by side have different columns, so that
// they read different banks wherever their rows of B lie.
struct Lane {
  int y, x;
};
__device__ __forceinline__ Lane lane_of(int thread) {
  const int warp = thread / 32, quarter = thread % 32 / 8;
  return {warp / 2 * 4 + quarter, (warp + quarter) % 2 * 8 + thread % 8};
}

template <int BITS>
__device__ __forceinline__ void fetch_run(Runs& task, const Problem& p, const MatmulPointers& in,
                                          const TilePlace& at, i64 first, Fetched& run) {
  run.chosen[0] = run.chosen[1] = 0;
  if (task.is_a && task.inside) {
    const i64 k = first + task.k;
    const u8* from = in.chosen + at.batch * p.chosen.batch + (at.row + task.row) * p.chosen.row +
                     k * p.chosen.column;
    if (p.chosen.column == 1 && k + RUN <= p.k / 2 && (u64)from % 8 == 0) {
      const uint2 all = *(const uint2*)from;
      run.chosen[0] = all.x, run.chosen[1] = all.y;
    } else {
      UNROLL for (int n = 0; n < RUN; ++n) if (k + n < p.k / 2) run.chosen[n / 4] |=
          (u32)from[n * p.chosen.column] << n % 4 * 8;
    }
  }
  task.fetch<BITS>(CONFIG, p, in, at, task.is_a ? first : 2 * first, run.raw);
}

__device__ __forceinline__ void put(double* row, int column, double x) { row[column] = x; }
__device__ __forceinline__ void put(u32* row, int column, double x) {
  row[slot_of(column)] = high_word(x);
}

// Converts a run; returns whether an item is not for this path.
template <int BITS>
__device__ __forceinline__ bool prepare_run(const Runs& task, const Operand& o, Fetched& run,
                                            Buffer& buffer) {
  unpack<BITS>(run.raw);
  bool special = false;
  UNROLL for (int n = 0; n < RUN; ++n) {
    const ChainItem x = chain_item(o, run.raw.codes[n], task.is_a);
    special |= x.special;
    const u32 code = (u32)(u16)x.code | x.sign >> 31;
    const int k = task.k + n;
    if (task.is_a) {
      const u32 chosen = run.chosen[n / 4] >> n % 4 * 8 & 3u;
      buffer.a[k][task.row] = {x.magnitude, code * 0x10001u,
                               (k / 2 * 4 + chosen) * (u32)sizeof(DenseRow)};
    } else {
      put(buffer.b[k].value, task.row, x.magnitude);
      buffer.b[k].code[slot_of(task.row)] = (u16)code;
    }
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
  return task.is_a ? prepare_run<CONFIG.a.bits>(task, CONFIG.a, run, buffer)
                   : prepare_run<CONFIG.b.bits>(task, CONFIG.b, run, buffer);
}

__device__ __forceinline__ double value_of(const uint4& a) { return from_words(a.y, a.x); }
__device__ __forceinline__ void four_values(const double* row, int t, double (&v)[4]) {
  const double2 b0 = *(const double2*)&row[2 * t], b1 = *(const double2*)&row[2 * t + 32];
  v[0] = b0.x, v[1] = b0.y, v[2] = b1.x, v[3] = b1.y;
}
__device__ __forceinline__ void four_values(const u32* row, int t, double (&v)[4]) {
  const uint4 b = *(const uint4*)&row[4 * t];
  v[0] = from_words(b.x, 0), v[1] = from_words(b.y, 0);
  v[2] = from_words(b.z, 0), v[3] = from_words(b.w, 0);
}

// One link of a row's four outputs, from stored position `first` of the buffer.
__device__ __forceinline__ void link(const Buffer& s, int first, int row, int tx,
                                     KEPT (&c)[COLUMNS]) {
  uint4 a[CONFIG.group];
  u32 negative[CONFIG.group][PAIRS];  // the products' signs, in bits 0 and 16
  u32 top[CHAINS][PAIRS];             // of two columns each
  UNROLL for (int g = 0; g < CHAINS; ++g) UNROLL for (int n = 0; n < PAIRS; ++n) top[g][n] =
      START_PAIR;
  UNROLL for (int k = 0; k < CONFIG.group; ++k) {
    a[k] = *(const uint4*)&s.a[first + k][row];
    const DenseRow& b = *(const DenseRow*)((const u8*)s.b + a[k].w);
    const uint2 codes = *(const uint2*)&b.code[COLUMNS * tx];
    u32(&t)[PAIRS] = top[k % CHAINS];
    t[0] = add_max_s16x2(a[k].z, codes.x, t[0]);
    t[1] = add_max_s16x2(a[k].z, codes.y, t[1]);
    negative[k][0] = a[k].z ^ codes.x, negative[k][1] = a[k].z ^ codes.y;
  }
  double x[CHAINS][COLUMNS];
  u32 anchor[CHAINS][COLUMNS];
  UNROLL for (int g = 0; g < CHAINS; ++g) UNROLL for (int n = 0; n < COLUMNS; ++n) {
    anchor[g][n] = n % 2 ? top[g][n / 2] : top[g][n / 2] << 16;
    x[g][n] = from_words(anchor[g][n], 0);
  }
  UNROLL for (int k = 0; k < CONFIG.group; ++k) {
    const DenseRow& b = *(const DenseRow*)((const u8*)s.b + a[k].w);
    double values[COLUMNS];
    four_values(b.value, tx, values);
    UNROLL for (int n = 0; n < COLUMNS; ++n) {
      double& chain = x[k % CHAINS][n];
      chain = chain_join(chain, value_of(a[k]), values[n], negative[k][n / 2] << (n % 2 ? 15 : 31));
    }
  }
  UNROLL for (int n = 0; n < COLUMNS; ++n) {
    if (CHAINS == 1)
      c[n] = (KEPT)chain_end(x[0][n], anchor[0][n], (double)c[n]);
    else
      c[n] = (KEPT)chain_end_of_two(x[0][n], x[CHAINS - 1][n], anchor[0][n], anchor[CHAINS - 1][n],
                                    (double)c[n], CONFIG.drop_tiny);
  }
}

// The same arithmetic as an instruction of one link.
HD constexpr Config one_link(Config c) {
  c.products = c.group;
  c.k = 2 * c.group;
  return c;
}
constexpr Config LINK = one_link(CONFIG);

// A chunk of one output by the plain dot.
COLD u32 plain_chunk(const Problem& p, const MatmulPointers& in, i64 batch, i64 row, i64 column,
                     i64 first, int count, u32 d) {
  auto scale = [](int) { return 0; };
  ROLLED for (int start = 0; start < count; start += CONFIG.group) {
    auto fetch = [&](int t, Item& x, Item& y) {
      const i64 k = first + start + t;
      const bool inside = row < p.m && k < p.k / 2;
      const int chosen =
          inside ? in.chosen[batch * p.chosen.batch + row * p.chosen.row + k * p.chosen.column] : 0;
      x = decode(CONFIG.a, (u32)code_of_a(CONFIG, p, in, batch, row, k), false);
      y = decode(CONFIG.b, (u32)code_of_b(CONFIG, p, in, batch, k / 2 * 4 + chosen, column), false);
      return t;
    };
    d = Aligned<WORD>::dot(LINK, d, fetch, scale);
  }
  return d;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    matmul_aligned_sparse(const __grid_constant__ Problem p,
                          const __grid_constant__ MatmulPointers in) {
  DYNAMIC_SHARED(memory);
  Buffer* buffer = (Buffer*)memory;
  const int thread = threadIdx.x;
  const auto [ty, tx] = lane_of(thread);
  const TilePlace at = place_of_block(p, blockIdx.x, Shape::ROWS, Shape::COLUMNS);
  KEPT c[PER_THREAD][COLUMNS];
  bool special = false, lost = false;  // in the chunk to come; in the accumulators, for good
  UNROLL for (int i = 0; i < PER_THREAD; ++i) UNROLL for (int n = 0; n < COLUMNS; ++n) {
    const u32 d = initial_accumulator<u32>(p, in, at.batch, at.row + ty + SIDE * i,
                                           at.column + row_of(tx, n));
    lost |= !is_finite32(d);
    c[i][n] = bits_to_float(d);
  }
  Runs task[ROUNDS];
  Fetched run[ROUNDS];
  auto works = [&](int n) {
    return Runs::TASKS % THREADS == 0 || thread + n * THREADS < Runs::TASKS;
  };
  UNROLL for (int n = 0; n < ROUNDS; ++n) if (works(n)) {
    task[n] = Runs(CONFIG, p, in, at, thread + n * THREADS);
    fetch_task(task[n], p, in, at, 0, run[n]);
    special |= prepare_task(task[n], run[n], buffer[0]);
  }
  bool plain = __syncthreads_or(special || lost);
  const i64 end = p.steps(CONFIG) * CONFIG.products;
  int current = 0;
#pragma unroll 1
  for (i64 first = 0; first < end; first += CHUNK, current ^= 1) {
    const i64 next = first + CHUNK;
    const int count = products_of_chunk<CONFIG.products, CHUNK>(end - first);
    UNROLL for (int n = 0; n < ROUNDS; ++n) if (works(n))
        fetch_task(task[n], p, in, at, next, run[n]);
    if (!plain) {
#pragma unroll 1
      for (int k = 0; k < count; k += CONFIG.group) UNROLL
      for (int i = 0; i < PER_THREAD; ++i) link(buffer[current], k, ty + SIDE * i, tx, c[i]);
    } else {
      UNROLL for (int i = 0; i < PER_THREAD; ++i) UNROLL for (int n = 0; n < COLUMNS; ++n) {
        const i64 row = at.row + ty + SIDE * i, column = at.column + row_of(tx, n);
        const u32 d =
            plain_chunk(p, in, at.batch, row, column, first, count, float_to_bits((float)c[i][n]));
        lost |= !is_finite32(d);
        c[i][n] = bits_to_float(d);
      }
    }
    special = false;
    UNROLL for (int n = 0; n < ROUNDS; ++n) if (works(n)) special |=
        prepare_task(task[n], run[n], buffer[current ^ 1]);
    plain = __syncthreads_or(special || lost);
  }
  UNROLL for (int i = 0; i < PER_THREAD; ++i) UNROLL for (int n = 0; n < COLUMNS; ++n) {
    const u32 d = float_to_bits((float)c[i][n]);
    store_result(p, in, at.batch, at.row + ty + SIDE * i, at.column + row_of(tx, n),
                 is_nan32(d) ? QUIET_NAN : d);
  }
}
