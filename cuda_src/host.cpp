// The host build: every domain's C ABI over the headers that the GPU runs.
#include "mfma_host.h"
#include "matmul_host.h"
#if __has_include("tile_host.h")
#include "tile_host.h"
#endif
#if __has_include("gemm_host.h")
#include "gemm_host.h"
#endif
#if __has_include("emulation_host.h")
#include "emulation_host.h"
#endif
