"""The PTO tile machine: bundles, legality, faults, padding, masks, sticky flags, and TFMA."""

from .assembly import assemble, disassemble
from .descriptor import Descriptor, Tile
from .execute import Batch, Core, Retired, elements, fma, tiles
from .numeric import flag_names
from .words import join, split

__all__ = [
    "Batch",
    "Core",
    "Descriptor",
    "Retired",
    "Tile",
    "assemble",
    "disassemble",
    "elements",
    "flag_names",
    "fma",
    "join",
    "split",
    "tiles",
]
