"""What a descriptor implies: the threads of a block and the class of instruction.

Property names follow nvmath-python where it has them. Sizes are in elements and bytes as named.
"""

from __future__ import annotations

from math import isqrt

from ..errors import BadValue
from .instructions import (
    WGMMA_PRECISIONS,
    WGMMA_THREADS,
    Instruction,
    TensorCore,
    find_instruction,
    tensor_core,
)
from .operators import SM, BlockDim, EnableInputStreaming, RequiredMantissaBits, WithPipeline
from .storage import Storage
from .target import Target


class Traits(Storage):
    """The queryable side of a descriptor; `Descriptor` adds the operators themselves."""

    # ----------------------------------------------------------------- threads

    @property
    def suggested_block_dim(self) -> tuple[int, int, int]:
        """Threads that suit the tile: the power of two not below sqrt(M N), 32 to 1024.

        Where only BlockDim stands between the descriptor and wgmma, 128 (M <= 128) or 256 at least.
        """
        if not self.is_complete:
            raise BadValue(f"a suggested block size needs Size, Function and SM: {self}")
        m, n, _ = self.size
        root = isqrt(m * n)
        threads = min(max(1 << (root - 1).bit_length() if root > 1 else 1, 32), 1024)
        if SM in self and not self._wgmma_obstacles(threads=None):
            threads = max(threads, 128 if m <= 128 else 256)
        return threads, 1, 1

    @property
    def block_dim(self) -> tuple[int, int, int]:
        """Threads of the block: BlockDim, else the suggested ones."""
        given = self.get(BlockDim)
        return (given.x, given.y, given.z) if given else self.suggested_block_dim

    @property
    def block_dim_source(self) -> str:
        """Where `block_dim` came from: "given" or "heuristic" (there is no tuning table)."""
        return "given" if BlockDim in self else "heuristic"

    @property
    def block_size(self) -> int:
        """Threads of the block in all."""
        x, y, z = self.block_dim
        return x * y * z

    max_threads_per_block = block_size
    min_blocks_per_multiprocessor = 1

    # ----------------------------------------------------------------- instruction

    @property
    def instruction(self) -> Instruction | None:
        """The `mma.sync` instruction that serves the tile, or None: a chain of FMAs (or an AMD
        target)."""
        if Target in self:
            return None
        return find_instruction(self.precision.names, self.size, self.sm.arch)

    def _wgmma_obstacles(self, threads: int | None) -> list[str]:
        """Return what keeps the descriptor from wgmma; `threads=None`: a suggested block size
        suits."""
        size, sm = self.size, self.sm
        gates = {
            "WithPipeline() is missing": WithPipeline in self,
            "EnableInputStreaming() is missing": EnableInputStreaming in self,
            f"the target is {sm.name}, wgmma exists on sm_90a: SM(900, 'arch_specific')": sm.name
            == "sm_90a",
            f"Alignment is {tuple(self.alignment)}, wgmma wants (16, 16, 16)": self.alignment
            == (16, 16, 16),
            f"{self.precision} has no wgmma form": self.precision.names in WGMMA_PRECISIONS,
            "Type is complex, wgmma multiplies real matrices": self.parts == 1,
            f"M={size[0]} is no multiple of 64": size[0] % 64 == 0,
            f"N={size[1]} is no multiple of 8": size[1] % 8 == 0,
            f"K={size[2]} is no multiple of the 32 bytes of one wgmma": size[2]
            * self.precision.a.bytes
            % 32
            == 0,
            f"RequiredMantissaBits runs integer slices, not {self.precision}": RequiredMantissaBits
            not in self,
        }
        if threads is not None:
            gates[f"BlockDim has {threads} threads, wgmma wants 128, 256, 512 or 1024"] = (
                threads in WGMMA_THREADS
            )
        return [message for message, open_ in gates.items() if not open_]

    @property
    def why_not_wgmma(self) -> tuple[str, ...]:
        """Every obstacle between this descriptor and Hopper's wgmma; empty where it is selected."""
        target = self.get(Target)
        if target:
            return (f"the target is {target.arch}",)
        return tuple(self._wgmma_obstacles(self.block_size if BlockDim in self else None))

    @property
    def mma_class(self) -> str:
        """Which class of instruction the original selects, silently: "fma", "mma_sync" or "wgmma";
        "mfma" on AMD."""
        if Target in self:
            return "mfma"
        if not self.why_not_wgmma:
            return "wgmma"
        return "mma_sync" if self.instruction else "fma"

    @property
    def tensor_core(self) -> TensorCore | None:
        """How the target's tensor cores add, or None where integers, f64 or FMA chains make it
        moot."""
        if (
            self.mma_class in ("fma", "mfma")
            or self.precision.c.is_integer
            or self.precision.c.name == "f64"
        ):
            return None
        return tensor_core(self.sm.arch, self.precision.names, self.mma_class == "wgmma")
