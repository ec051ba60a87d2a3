// Register-level kernels on the tensor cores, one warp a wavefront, where they compute the very
// same bits: i8, whose sums are exact modulo 2^32, and f64, whose mma is a chain of fused
// multiply-adds along ascending k. A fragment register of mma is a register of an MFMA lane, so
// operands go straight from memory to the tensor core.
#include "mfma_batch.cuh"

constexpr Config CONFIG = {GPUEMU_CONFIG};
const int WARP = 32;

HD void mma_i8(i32 (&d)[4], u32 a0, u32 a1, u32 b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
}

HD void mma_f64(double (&d)[2], double a, double b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(d[0]), "+d"(d[1])
      : "d"(a), "d"(b));
}

// Four neighbours along k of one row of A (column of B): one register of one lane. Zero beyond K.
HD u32 quad_a(const Modifiers& mod, const WaveInputs& in, int block, int row, int quad) {
  const int per_lane = CONFIG.a.items / 4;
  if (quad >= CONFIG.k / 4) return 0;
  const int lane = row + CONFIG.m * (block + CONFIG.blocks * (quad / per_lane));
  return in.a.at(quad % per_lane, source_lane_a(CONFIG, mod, lane));
}
HD u32 quad_b(const Modifiers& mod, const WaveInputs& in, int block, int column, int quad) {
  const int per_lane = CONFIG.b.items / 4;
  if (quad >= CONFIG.k / 4) return 0;
  const int lane = column + CONFIG.n * (block + CONFIG.blocks * (quad / per_lane));
  return in.b.at(quad % per_lane, source_lane_b(mod, lane));
}

// One 16 x 8 tile of a block of 16 or 32 rows.
HD void tile_i8(const Modifiers& mod, const WaveInputs& in, const Image<u32>& out, int block,
                int top, int left) {
  const int row = top + threadIdx.x % WARP / 4, quad = threadIdx.x % 4, column = left + 2 * quad;
  Slot slot[4];
  i32 d[4];
  UNROLL for (int n = 0; n < 4; ++n) {
    slot[n] = slot_of_output(CONFIG, mod, {block, row + 8 * (n / 2), column + n % 2});
    d[n] = (i32)in.c.at(slot[n].item, slot[n].lane);
  }
  UNROLL for (int k = 0; k < CONFIG.k; k += 16) mma_i8(
      d, quad_a(mod, in, block, row, k / 4 + quad), quad_a(mod, in, block, row + 8, k / 4 + quad),
      quad_b(mod, in, block, left + row - top, k / 4 + quad));
  UNROLL for (int n = 0; n < 4; ++n) out.at(slot[n].item, slot[n].lane) = (u32)d[n];
}

// Four blocks of 4 x 4 x 4: their A on the diagonal of a 16 x 16 matrix, their B below each other.
HD void small_blocks_i8(const Modifiers& mod, const WaveInputs& in, const Image<u32>& out,
                        int first) {
  const int row = threadIdx.x % WARP / 4, quad = threadIdx.x % 4, column = 2 * quad;
  Slot slot[4];
  i32 d[4] = {};
  UNROLL for (int n = 0; n < 4; ++n) {
    const int r = row + 8 * (n / 2);
    slot[n] = slot_of_output(CONFIG, mod, {first + r / 4, r % 4, column % 4 + n % 2});
    if (column < 4) d[n] = (i32)in.c.at(slot[n].item, slot[n].lane);
  }
  const u32 a = quad_a(mod, in, first + quad, row % 4, 0);
  const u32 b = row < 4 ? quad_b(mod, in, first + quad, row, 0) : 0;
  mma_i8(d, quad == row / 4 ? a : 0, quad == row / 4 + 2 ? a : 0, b);
  if (column >= 4) return;
  UNROLL for (int n = 0; n < 4; ++n) out.at(slot[n].item, slot[n].lane) = (u32)d[n];
}

HD double read_f64(const Input& x, int item, int lane, bool negate) {
  const u64 bits = x.at(2 * item, lane) | (u64)x.at(2 * item + 1, lane) << 32;
  return bits_to_double(negate ? bits ^ 1ull << 63 : bits);
}

HD void write_f64(const Image<u32>& out, int item, int lane, double x) {
  const u64 bits = x == x ? double_to_bits(x) : 0x7FF8000000000000ull;
  out.at(2 * item, lane) = (u32)bits;
  out.at(2 * item + 1, lane) = (u32)(bits >> 32);
}

// One 8 x 8 tile: of the 16 x 16 block, or two 4 x 4 blocks on its diagonal, the rest thrown away.
HD void tile_f64(const Modifiers& mod, const WaveInputs& in, const Image<u32>& out, int top,
                 int left) {
  const int row = threadIdx.x % WARP / 4, k = threadIdx.x % 4, column = 2 * k;
  const bool small = CONFIG.blocks > 1;
  const int a_block = small ? top / 4 + row / 4 : 0, a_row = small ? row % 4 : top + row;
  const int b_column = small ? row % 4 : left + row;
  const int a_lane = a_row + CONFIG.m * (a_block + CONFIG.blocks * k);
  const int b_lane = b_column + CONFIG.n * (a_block + CONFIG.blocks * k);
  const bool wanted = !small || row / 4 == column / 4;
  const Output first = {a_block, a_row, small ? column % 4 : left + column};
  double d[2] = {};
  Slot slot[2];
  UNROLL for (int n = 0; n < 2; ++n) {
    slot[n] = slot_of_output(CONFIG, mod, {first.block, first.row, first.column + n});
    if (wanted) d[n] = read_f64(in.c, slot[n].item, slot[n].lane, mod.neg & 4);
  }
  mma_f64(d, read_f64(in.a, 0, a_lane, mod.neg & 1),
          read_f64(in.b, 0, source_lane_b(mod, b_lane), mod.neg & 2));
  UNROLL for (int n = 0; n < 2; ++n) if (wanted) write_f64(out, slot[n].item, slot[n].lane, d[n]);
}

extern "C" __global__ void __launch_bounds__(WAVES* WARP) mfma(const __grid_constant__ Call call) {
  const Batch& batch = call.batch;

  const i64 wave = (i64)blockIdx.x * WAVES + threadIdx.x / WARP;
  if (wave >= batch.waves) return;
  const Modifiers mod = batch.modifiers();
  const WaveInputs in = inputs_of_wave(batch, call.pointers, wave);
  const Image<u32> out = output_of_wave(CONFIG, call.d, wave);
  if (CONFIG.algorithm == FMA64) {
    const int rows = CONFIG.blocks > 1 ? 4 * CONFIG.blocks : CONFIG.m;
    const int columns = CONFIG.blocks > 1 ? 8 : CONFIG.n;
    UNROLL for (int top = 0; top < rows; top += 8)
        UNROLL for (int left = 0; left < columns; left += 8) tile_f64(mod, in, out, top, left);
  } else if (CONFIG.m == 4) {
    UNROLL for (int first = 0; first < CONFIG.blocks; first += 4)
        small_blocks_i8(mod, in, out, first);
  } else {
    UNROLL for (int block = 0; block < CONFIG.blocks; ++block)
        UNROLL for (int top = 0; top < CONFIG.m; top += 16)
            UNROLL for (int left = 0; left < CONFIG.n; left += 8)
                tile_i8(mod, in, out, block, top, left);
  }
}
