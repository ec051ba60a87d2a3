"""How the kernels that encode are launched: threads, and what of a vector stays on the chip.

The figures are those of emulation_encode.cuh and emulation_encode_columns.cu.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

ROW_THREADS, COLUMN_THREADS = 512, 256
ROW_BYTES = 128  # of a vector, that a thread keeps in registers
SECTOR = 32  # bytes of a row that a block of columns takes
RUN = 32  # bytes of a vector that a thread of such a block takes at a time
#: Runs that a thread keeps in registers, and that many times more it may keep in shared memory:
#: 48 KiB a block, so that four blocks share a multiprocessor.
KEPT, SHARED_PARTS = 2, 3
#: Blocks that may share their vectors, each a kernel to compile; every such device allows 8.
CLUSTERS = (1, 4, 8)


class Columns(NamedTuple):
    """A launch of `encode_columns`: vectors and threads of a block, blocks of a cluster, runs that
    a thread holds, bytes of shared memory.
    """

    vectors: int
    threads: int
    cluster: int
    held: int
    shared: int


@cache
def clusters(device: int) -> bool:
    """Tell whether blocks of a device can share their memory: Hopper and later."""
    import cupy

    return int(cupy.cuda.Device(device).compute_capability) >= 90


def row_threads(itemsize: int, padded_k: int) -> int:
    """Return how many threads encode a vector that lies contiguous along k."""
    warp = 32 * ROW_BYTES // itemsize  # elements that a warp keeps
    return min(ROW_THREADS, max(32, -(-padded_k // warp) * 32))


def columns(itemsize: int, padded_k: int, may_cluster: bool) -> Columns:
    """Return the smallest cluster whose threads hold all of their vectors; else the largest.

    >>> columns(8, 8192, True)
    Columns(vectors=4, threads=256, cluster=4, held=8, shared=49152)
    >>> columns(4, 40, False)
    Columns(vectors=8, threads=32, cluster=1, held=2, shared=0)
    """
    vectors, kept = SECTOR // itemsize, KEPT * RUN // itemsize
    threads = -(-padded_k // kept) * vectors
    threads = min(COLUMN_THREADS, -(-threads // 32) * 32)
    part = threads // vectors * kept  # values of k that a block's registers hold
    most = 1 + SHARED_PARTS
    usable = CLUSTERS if may_cluster else CLUSTERS[:1]
    cluster = next((c for c in usable if c * part * most >= padded_k), usable[-1])
    parts = min(-(-padded_k // (cluster * part)), most)
    return Columns(vectors, threads, cluster, KEPT * parts, (parts - 1) * KEPT * RUN * threads)
