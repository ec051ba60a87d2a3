"""Instructions as their users write them: assembly lines, builtin calls, machine words."""

from .call import AssemblyCall, Operands, constant_accumulator
from .listing import Statement, read_listing
from .operands import Constant, Registers
from .reader import decode, parse, parse_statement

__all__ = [
    "AssemblyCall",
    "Constant",
    "Operands",
    "Registers",
    "Statement",
    "constant_accumulator",
    "decode",
    "parse",
    "parse_statement",
    "read_listing",
]
