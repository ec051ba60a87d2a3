"""The door of the tile machine: `Core` runs bundles; `fma`, `elements` and `tiles` need no machine.

Every bundle passes its preflight whole, is computed privately, and is published as one operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import dispatch
from ..backends import arrays
from ..errors import ArchitecturalFault, BadValue, TileLegalityFault
from . import assembly, legality
from .descriptor import PES, Tile, register_name
from .elementwise import Batch, elements, fma, run_tiles, tile_shape, tiles
from .header import SCALAR_REGISTERS, TYPES, Header, collect, start
from .machine import CORE_CAPACITY, Machine
from .numeric import PadValue, pad_value
from .operations import operation
from .words import STOPS, Word, decode, words_of

__all__ = ["Batch", "Core", "Retired", "elements", "fma", "tiles"]


@dataclass(frozen=True)
class Retired:
    """One bundle that completed.

    Attributes
    ----------
    operation : str
        Its mnemonic.
    destination : int or None
        The register that it published; None where PE_MASK was zero and nothing happened.
    flags : int
        What it raised; the core's flags hold it from now on.
    """

    operation: str
    destination: int | None
    flags: int


class Core:
    """One core of the tile machine: 64 tile registers, four PEs, 256 KiB, sticky flags.

    Parameters
    ----------
    dtype_set, fault_map, nan_corner, names : str
        Readings of the specification; see `legality.Rules`.
    fragments : int
        4: each PE owns a fragment of every tile; 1: the single fragment of the public executable
        model.
    capacity : int
        Bytes of tile storage, all PEs together.
    backend : str
        What computes: "auto", "cuda", "host", "numpy" or "check".

    Examples
    --------
    >>> import numpy as np
    >>> core = Core(backend="numpy")
    >>> for register in range(3):
    ...     core.write(register, np.full((1, 8), 0x3F800000, np.uint32), "FP32")
    >>> retired = core.execute('''
    ...     BSTART.VEC TFMA, FP32
    ...     B.DIM LB0=8
    ...     B.IOT T#1, T#2, mask=1111
    ...     B.IOT T#3, mask=1111, last, ->N<128B>
    ...     BSTOP''')
    >>> hex(core.tile(retired[0].destination).bits[0, 0, 7]), core.flags
    ('0x40000000', 0)
    """

    def __init__(
        self,
        dtype_set: str = "contract",
        fault_map: str = "contract",
        nan_corner: str = "ieee",
        names: str = "absolute",
        fragments: int = PES,
        capacity: int = CORE_CAPACITY,
        backend: str = "auto",
    ) -> None:
        given = {
            "dtype_set": dtype_set,
            "fault_map": fault_map,
            "nan_corner": nan_corner,
            "names": names,
        }
        for name, value in given.items():
            if value not in legality.CHOICES[name]:
                raise BadValue(f"{name}={value!r}; legal: {', '.join(legality.CHOICES[name])}")
        if fragments not in (1, PES):
            raise BadValue(f"fragments={fragments!r}; legal: 4 or 1")
        if not isinstance(capacity, int) or capacity < 0:
            raise BadValue(f"capacity={capacity!r}; legal: bytes, 0 or more")
        dispatch.resolve(backend)
        self.rules = legality.Rules(**given)
        self.backend = backend
        self.machine = Machine(fragments, capacity)
        self.scalars = [0] * SCALAR_REGISTERS
        self.write = self.machine.write

    @property
    def flags(self) -> int:
        """Return the sticky flags: NV 1, DZ 2, OF 4, UF 8, NX 16."""
        return self.machine.flags

    def clear_flags(self) -> None:
        """Clear the sticky flags, as software writing CORE_STATE would."""
        self.machine.flags = 0

    def tile(self, index: int) -> Tile:
        """Return the tile in a register; raise `BadValue` where it is not allocated."""
        return self.machine.tile(index)

    def release(self, index: int) -> None:
        """Free a register; raise `BadValue` where it is not allocated."""
        self.machine.release(index)

    def snapshot(self) -> bytes:
        """Return a digest of the whole architectural state."""
        return self.machine.snapshot()

    def execute(self, bundle: Any) -> list[Retired]:
        """Run a program of one or more bundles, each committed at its stop or at the next start.

        Parameters
        ----------
        bundle : str, bytes, or iterable of int
            Assembly, a little-endian stream, or words.

        Returns
        -------
        list of Retired
            One for each bundle.

        Raises
        ------
        ArchitecturalFault
            With the byte offset of its word as `address`. The bundle that faults has no effect;
            bundles before it stay executed.
        BadValue
            For text that does not assemble, or a program whose last bundle never stops.
        """
        retired: list[Retired] = []
        header: Header | None = None
        address = 0
        program = assembly.assemble(bundle) if isinstance(bundle, str) else words_of(bundle)
        for number, bits in enumerate(program):
            try:
                word = decode(bits)
                header = self._step(header, word, retired)
            except ArchitecturalFault as fault:
                fault.address = address
                fault.args = (f"{fault} (word {number} at +{address:#x}: {_shown(bits)})",)
                raise
            address += word.form.width // 8
        if header is not None:
            raise BadValue(
                f"the bundle of {header.operation.name} never stops; it ends with BSTOP or "
                f"another BSTART"
            )
        return retired

    def _step(self, header: Header | None, word: Word, retired: list[Retired]) -> Header | None:
        if word.form.name in STOPS or word.form.name == "BSTART.TEPL":
            if header is not None:
                retired.append(self._commit(header))
            return start(word) if word.form.name == "BSTART.TEPL" else None
        collect(header, word, self.scalars)
        return header

    def _commit(self, header: Header) -> Retired:
        plan = legality.preflight(header, self.machine, self.rules)
        if plan is None:
            return Retired(header.operation.name, None, 0)
        return self._perform(plan)

    def operate(
        self, name: str, destination: int, *sources: int, pad: PadValue | str = "Null"
    ) -> Retired:
        """Run an operation on registers directly; here a destination may be a source too.

        Parameters
        ----------
        name : str
            Mnemonic.
        destination : int
            An allocated register; its descriptor and mask are the operation's.
        sources : int
            Registers; each is read as it was before the call.
        pad : str
            "Zero", "Max", "Min" or "Null".

        Raises
        ------
        BadType, BadValue
            For a register outside 0 to 63, or another number of sources than the operation reads.
        TileLegalityFault
            Where a source is not allocated, not defined, or does not match the destination.
        """
        row, target = operation(name), self.machine.tile(destination)
        if len(sources) != row.sources:
            raise BadValue(f"{name} with {len(sources)} sources; legal: {row.sources}")
        destination = self.machine.check_index(destination)
        sources = tuple(map(self.machine.check_index, sources))
        if target.descriptor.dtype.name not in row.types(self.rules.dtype_set):
            raise TileLegalityFault(f"{name}: DataType {target.descriptor.dtype.name} [{TYPES}]")
        found = []
        for index in sources:
            tile = self.machine.registers.get(index)
            found.append(legality.check_source(row, register_name(index), tile, target.mask))
        for index, tile in zip(sources, found, strict=True):
            legality.check_match(row, register_name(index), tile, target.descriptor, target.mask)
        plan = legality.Plan(
            row, target.descriptor, destination, target.mask, tuple(found), pad_value(pad)
        )
        return self._perform(plan)

    def _perform(self, plan: legality.Plan) -> Retired:
        """Compute privately, then publish payload, definedness, descriptor and flags together."""
        descriptor = plan.descriptor
        batch = tuple(tile.bits[None] for tile in plan.sources)
        shape = tile_shape(
            batch[0].shape,
            descriptor.dtype,
            (descriptor.valid_rows, descriptor.valid_columns),
            plan.pad,
            plan.mask,
        )
        bits, defined, flags = run_tiles(
            plan.operation, descriptor.dtype, batch, shape, self.backend, self.rules.nan_corner, ()
        )
        parts = arrays.to_numpy(bits)[0], arrays.to_numpy(defined)[0]
        raised = int(arrays.to_numpy(flags)[0])
        self.machine.publish(plan.destination, Tile(descriptor, plan.mask, *parts))
        self.machine.flags |= raised
        return Retired(plan.operation.name, plan.destination, raised)


def _shown(bits: int) -> str:
    try:
        return assembly.describe(decode(bits))
    except ArchitecturalFault:
        return f"{bits:#x}"
