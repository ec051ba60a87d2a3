// The tuned product of the binary64 chain on the FP64 tensor cores: their mma is a chain of fused
// multiply-adds along ascending k, so that a sequence of them is the chain of the model.
//
// 128 x 128 outputs a block, eight warps of 64 x 32. STAGES - 1 chunks of k are on their way to
// shared memory; a warp reads the operands of its next mma while the present one runs.
#include "matmul_double_mma.cuh"
#include "matmul_raster.cuh"

constexpr int SIDE = 128, CHUNK = 16, THREADS = 256;
constexpr int TILES_DOWN = 4, TILES_ACROSS = 4;                 // 16 x 8 tiles of a warp
constexpr int STEPS = CHUNK / MMA_K, SETS = STEPS > 1 ? 2 : 1;  // of fragments, used in turn
constexpr int ALONG_ROWS = SIDE + 4, ALONG_K = CHUNK + 4;       // pitches without bank conflicts
constexpr int OPERAND = SIDE * ALONG_K;                         // doubles of one operand's chunk
constexpr int PAIRS = SIDE * CHUNK / 2 / THREADS;  // of neighbours, brought by a thread

struct Fragments {
  double a[TILES_DOWN][MMA_K / 2], b[TILES_ACROSS][MMA_K / 4];
};
using Accumulators = double[TILES_DOWN][TILES_ACROSS][4];

// Where an item lies in an operand's chunk: in memory's order, so that pairs stay pairs.
template <bool K_DENSE>
HD int place_of(int row, int k) {
  return K_DENSE ? row * ALONG_K + k : k * ALONG_ROWS + row;
}

// Pairs of neighbours at even steps through (SIDE, CHUNK), along the dense one of the two.
template <bool K_DENSE>
struct Loader {
  const double* from;
  i64 stride, step;  // between neighbours, between pairs
  int row, k, rows;
  bool vector;  // every pair lies on 16 bytes

  static constexpr int ROW_STEP = K_DENSE ? SIDE / PAIRS : 0;
  static constexpr int K_STEP = K_DENSE ? 0 : CHUNK / PAIRS;

  __device__ __forceinline__ Loader(const void* base, i64 batch_offset, i64 first, i64 count,
                                    i64 row_stride, i64 k_stride) {
    const int thread = threadIdx.x;
    row = K_DENSE ? thread / (CHUNK / 2) : thread % (SIDE / 2) * 2;
    k = K_DENSE ? thread % (CHUNK / 2) * 2 : thread / (SIDE / 2);
    rows = (int)min_of((i64)SIDE, count - first);
    stride = K_DENSE ? k_stride : row_stride;
    const i64 across = K_DENSE ? row_stride : k_stride;
    step = across * (K_DENSE ? ROW_STEP : K_STEP);
    const double* start = (const double*)base + batch_offset + first * row_stride;
    vector = stride == 1 && ((u64)start | (u64)(8 * across)) % 16 == 0;
    from = start + row * row_stride + k * k_stride;
  }

  // Starts the copy of a chunk and moves on to the next; items outside become zeros.
  __device__ __forceinline__ void start(i64 left, i64 k_stride, double* to) {
    double* target = to + place_of<K_DENSE>(row, k);
    if (vector && rows == SIDE && left >= CHUNK) {
      UNROLL for (int n = 0; n < PAIRS; ++n)
          copy_pair(target + place_of<K_DENSE>(n * ROW_STEP, n * K_STEP), from + n * step);
    } else {
      UNROLL for (int n = 0; n < PAIRS; ++n) UNROLL for (int e = 0; e < 2; ++e) {
        const bool inside = row + n * ROW_STEP + (K_DENSE ? 0 : e) < rows &&
                            k + n * K_STEP + (K_DENSE ? e : 0) < left;
        copy_one(target + place_of<K_DENSE>(n * ROW_STEP, n * K_STEP) + e,
                 from + n * step + e * stride, inside);
      }
    }
    from += CHUNK * k_stride;
  }
};

template <bool A_K_DENSE, bool B_K_DENSE>
__device__ __forceinline__ void read(Fragments& f, const double* a, const double* b, int k, int top,
                                     int left) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  UNROLL for (int i = 0; i < TILES_DOWN; ++i) UNROLL for (int n = 0; n < MMA_K / 2; ++n) f.a[i][n] =
      a[place_of<A_K_DENSE>(top + 16 * i + n % 2 * 8 + g, k + n / 2 * 4 + t)];
  UNROLL for (int j = 0; j < TILES_ACROSS; ++j) UNROLL for (int n = 0; n < MMA_K / 4; ++n)
      f.b[j][n] = b[place_of<B_K_DENSE>(left + 8 * j + g, k + 4 * n + t)];
}

template <bool A_K_DENSE, bool B_K_DENSE>
__device__ __forceinline__ void product(const Problem& p, const MatmulPointers& in,
                                        const TilePlace& at, i64 end, double* memory, int top,
                                        int left, Accumulators& d) {
  Loader<A_K_DENSE> a(in.a, at.batch * p.a.batch, at.row, p.m, p.a.row, p.a.column);
  Loader<B_K_DENSE> b(in.b, at.batch * p.b.batch, at.column, p.n, p.b.column, p.b.row);
  i64 ahead = 0;
  auto bring = [&](int stage) {
    a.start(p.k - ahead, p.a.column, memory + stage * 2 * OPERAND);
    b.start(p.k - ahead, p.b.row, memory + stage * 2 * OPERAND + OPERAND);
    copies_end();
    ahead += CHUNK;
  };
  auto wait = [] {
    copies_wait<STAGES - 2>();
    __syncthreads();
  };
  UNROLL for (int n = 0; n < STAGES - 1; ++n) bring(n);
  int stage = 0, free = STAGES - 1;
  auto read_step = [&](Fragments& f, int step) {
    const double* chunk = memory + stage * 2 * OPERAND;
    read<A_K_DENSE, B_K_DENSE>(f, chunk, chunk + OPERAND, step * MMA_K, top, left);
  };
  Fragments f[SETS];
  auto multiply = [&](const Fragments& x) {
    UNROLL for (int i = 0; i < TILES_DOWN; ++i) UNROLL for (int j = 0; j < TILES_ACROSS; ++j)
        mma(d[i][j], x.a[i], x.b[j]);
  };
  wait();
  read_step(f[0], 0);
  i64 rest = end;
  ROLLED for (; rest >= CHUNK; rest -= CHUNK) {
    bring(free);
    free = stage;
    UNROLL for (int step = 0; step < STEPS; ++step) {
      if (SETS == 1) multiply(f[0]);
      if (step == STEPS - 1) {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        wait();
      }
      read_step(f[(step + 1) % SETS], (step + 1) % STEPS);
      if (SETS == 2) multiply(f[step % SETS]);
    }
  }
  // Zeros beyond the padded k would be links that the chain does not have.
  const double* x = memory + stage * 2 * OPERAND;
  const double* y = x + OPERAND;
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  ROLLED for (int k = 0; k < (int)rest; k += 4) UNROLL for (int i = 0; i < TILES_DOWN; ++i)
      UNROLL for (int j = 0; j < TILES_ACROSS; ++j) UNROLL for (int half = 0; half < 2; ++half)
          mma_k4(d[i][j][2 * half], d[i][j][2 * half + 1],
                 x[place_of<A_K_DENSE>(top + 16 * i + 8 * half + g, k + t)],
                 y[place_of<B_K_DENSE>(left + 8 * j + g, k + t)]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_double(const __grid_constant__ Problem p, const __grid_constant__ MatmulPointers in,
                  int k_of_instruction) {
  DYNAMIC_SHARED(bytes);
  double* memory = (double*)bytes;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int top = warp / 4 * 64, left = warp % 4 * 32;
  const TilePlace at = place_of_block(p, blockIdx.x, SIDE, SIDE);
  const i64 end = (p.k + k_of_instruction - 1) / k_of_instruction * k_of_instruction;
  Accumulators d;
  const i64 row = at.row + top + g, column = at.column + left + 2 * t;
  UNROLL for (int i = 0; i < TILES_DOWN; ++i) UNROLL for (int j = 0; j < TILES_ACROSS; ++j)
      UNROLL for (int e = 0; e < 4; ++e) d[i][j][e] = bits_to_double(initial_accumulator<u64>(
          p, in, at.batch, row + 16 * i + e / 2 * 8, column + 8 * j + e % 2));
  const bool a_k_dense = p.a.column == 1, b_k_dense = p.b.row == 1;
  if (a_k_dense && b_k_dense)
    product<true, true>(p, in, at, end, memory, top, left, d);
  else if (a_k_dense)
    product<true, false>(p, in, at, end, memory, top, left, d);
  else if (b_k_dense)
    product<false, true>(p, in, at, end, memory, top, left, d);
  else
    product<false, false>(p, in, at, end, memory, top, left, d);
  UNROLL for (int i = 0; i < TILES_DOWN; ++i) UNROLL for (int j = 0; j < TILES_ACROSS; ++j)
      UNROLL for (int e = 0; e < 4; ++e) {
    const double x = d[i][j][e];
    store_result<u64>(p, in, at.batch, row + 16 * i + e / 2 * 8, column + 8 * j + e % 2,
                      x == x ? double_to_bits(x) : 0x7FF8000000000000ull);
  }
}
