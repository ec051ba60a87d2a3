"""GEMM descriptors: immutable sets of operators, composed with `+` in any order or built from
keywords.

A rule between two operators is checked as soon as both are there, so that its verdict does not
depend on the order of composition. A rule of the form "X needs Y" can only be judged of a finished
sum: `Descriptor.finalize` checks those, and everything that runs a descriptor calls it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import BackendUnavailable, BadType, BadValue
from .axes import Axis, fixed_free_record
from .operators import (
    SM,
    Alignment,
    Arrangement,
    Block,
    BlockDim,
    BlocksPerCluster,
    EnableInputStreaming,
    Function,
    LeadingDimension,
    Operator,
    Precision,
    RequiredMantissaBits,
    Size,
    StaticBlockDim,
    TransposeMode,
    Type,
    WithPipeline,
    col_major,
    integer,
)
from .target import Target
from .traits import Traits

if TYPE_CHECKING:
    from .sweep import SweepTable

OPERATORS: tuple[type[Operator], ...] = (
    Size,
    Function,
    SM,
    Target,
    Block,
    Precision,
    Type,
    Arrangement,
    TransposeMode,
    BlockDim,
    BlocksPerCluster,
    LeadingDimension,
    Alignment,
    StaticBlockDim,
    EnableInputStreaming,
    WithPipeline,
    RequiredMantissaBits,
)

O = TypeVar("O", bound=Operator)  # noqa: E741 - an operator type


class Descriptor(Traits):
    """A GEMM problem, whole or in part.

    Parameters
    ----------
    **keywords
        nvmath-python's names: `size`, `precision`, `data_type`, `function`, `sm`, `execution`,
        `block_dim` or `block_size`, `leading_dimension`, `arrangement`, `transpose_mode`,
        `alignment`, `static_block_dim`, `enable_input_streaming`, `with_pipeline`; and
        `blocks_per_cluster`, `required_mantissa_bits`. A keyword left out leaves its operator out;
        `sm=None` is the current device.

    Examples
    --------
    >>> from gpuemu.gemm import Function, Size
    >>> d = Descriptor(size=(128, 128, 32), function="MM")
    >>> d == Function("MM") + Size(128, 128, 32), d.is_complete
    (True, False)
    """

    def __init__(self, **keywords: Any) -> None:
        self._operators: Mapping[type[Operator], Operator] = types.MappingProxyType({})
        for made in _from_keywords(keywords):
            self._operators = (self + made)._operators

    @classmethod
    def _of(cls, operators: Mapping[type[Operator], Operator]) -> Descriptor:
        made = cls()
        ordered = {kind: operators[kind] for kind in OPERATORS if kind in operators}
        made._operators = types.MappingProxyType(ordered)
        _check_pairs(made)
        return made

    def __add__(self, other: Operator | Descriptor) -> Descriptor:
        return compose(self, other)

    def __iter__(self) -> Iterator[Operator]:
        return iter(self._operators.values())

    def __contains__(self, kind: type[Operator]) -> bool:
        return kind in self._operators

    def get(self, kind: type[O]) -> O | None:
        """Return the operator of a type, or None where it was not given."""
        return self._operators.get(kind)  # type: ignore[return-value]  # keyed by its own type

    def without(self, *kinds: type[Operator]) -> Descriptor:
        """Return the descriptor less some operators: how a variant replaces one decision."""
        return Descriptor._of(
            {kind: op for kind, op in self._operators.items() if kind not in kinds}
        )

    def replace(self, *operators: Operator) -> Descriptor:
        """Return the descriptor with some operators put in the place of those of the same type."""
        result = self.without(*map(type, operators))
        for op in operators:
            result = result + op
        return result

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Descriptor):
            return NotImplemented
        return dict(self._operators) == dict(other._operators)

    def __hash__(self) -> int:
        return hash(frozenset(self._operators.values()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, tuple(self)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self)) or "Descriptor()"

    def finalize(self) -> Descriptor:
        """Check what only a finished sum can satisfy, and return the descriptor.

        Raises
        ------
        BadValue
            An operator that runs must be there and is not, or one operator needs another.
        """
        needed = (Size, Function, Target if Target in self else SM, Block)
        missing = [kind.__name__ for kind in needed if kind not in self]
        if missing:
            raise BadValue(
                f"the descriptor cannot be executed without {', '.join(missing)}: {self}"
            )
        if RequiredMantissaBits in self and WithPipeline not in self:
            raise BadValue(f"{self.get(RequiredMantissaBits)} needs WithPipeline(): {self}")
        return self

    def axes(
        self,
        fixed: tuple[str, ...] = (),
        free: tuple[str, ...] = (),
        shared_memory_budget: int | None = None,
        register_budget: int | None = None,
    ) -> tuple[Axis, ...]:
        """Return the record of what is fixed and what is free; see `gpuemu.gemm.axes`."""
        return fixed_free_record(self, fixed, free, shared_memory_budget, register_budget)

    def sweep(self, a: Any, b: Any, **options: Any) -> SweepTable:
        """Run every variant along the free axes on the caller's data; see
        `gpuemu.gemm.sweep.sweep`."""
        from .sweep import sweep

        return sweep(self, a, b, **options)


def compose(left: Operator | Descriptor, right: Operator | Descriptor) -> Descriptor:
    """Return the union of two sides of a `+`; refuse an operator that both have."""
    merged: dict[type[Operator], Operator] = {}
    for side in (left, right):
        if not isinstance(side, (Operator, Descriptor)):
            raise BadType(
                f"{side!r} is a {type(side).__name__}; a descriptor adds operators and descriptors"
            )
        for op in [side] if isinstance(side, Operator) else side:
            if type(op) in merged:
                raise BadValue(
                    f"{type(op).__name__} is given twice: {merged[type(op)]} and {op}; "
                    "legal: at most one of each operator (use .replace to change one)"
                )
            merged[type(op)] = op
    return Descriptor._of(merged)


def finished(d: Any) -> Descriptor:
    """Return a descriptor that can run; a single operator counts as a sum of one.

    Raises
    ------
    BadType
        For anything but operators and their sums.
    BadValue
        As `Descriptor.finalize`.
    """
    if isinstance(d, Operator):
        d = _rebuild(d)
    if not isinstance(d, Descriptor):
        raise BadType(
            f"the descriptor is a {type(d).__name__}; legal: a sum of operators, such as "
            "Size(16, 16, 16) + Precision('f16', 'f16', 'f32') + Function('MM') + SM(900) + Block()"
        )
    return d.finalize()


def _rebuild(*operators: Operator) -> Descriptor:
    """Return a descriptor from its operators: how one is unpickled."""
    return Descriptor._of({type(op): op for op in operators})


def _check_pairs(d: Descriptor) -> None:
    """Apply the rules between operators, each once all its operators are there."""
    _check_types(d)
    if Arrangement in d and TransposeMode in d:
        raise BadValue(
            "Arrangement and TransposeMode both give the storage order; legal: one of them"
        )
    if SM in d and Target in d:
        raise BadValue(f"{d.get(SM)} and {d.get(Target)} both name the target; legal: one of them")
    cluster, sm = d.get(BlocksPerCluster), d.get(SM)
    if cluster and sm and sm.arch < 900:
        raise BadValue(f"{cluster}: {sm.name} has no clusters; legal: SM(900) and later")
    lead = d.get(LeadingDimension)
    if lead and Size in d and Function in d:
        _check_leading_dimension(d, lead)


def _check_types(d: Descriptor) -> None:
    precision, kind, emulated = d.get(Precision), d.get(Type), d.get(RequiredMantissaBits)
    if precision and kind and kind.value == "complex" and precision.unsigned:
        raise BadValue(f"Type('complex') with {precision}: unsigned integers have no complex form")
    if emulated and kind and kind.value != "real":
        raise BadValue(f"{emulated} emulates real products; Type is {kind.value!r}, legal: 'real'")
    if emulated and precision and precision.names not in (("f32",) * 3, ("f64",) * 3):
        raise BadValue(f"{emulated} with {precision}; legal: all three f32, or all three f64")


def _check_leading_dimension(d: Descriptor, lead: LeadingDimension) -> None:
    for name, given, order, (rows, columns) in zip(
        "ABC", (lead.a, lead.b, lead.c), d.arrangement, (d.a_dim, d.b_dim, d.c_dim), strict=True
    ):
        least, extent = (rows, "rows") if order == col_major else (columns, "columns")
        if given is not None and given < least:
            raise BadValue(
                f"LeadingDimension {name}={given} is less than the {least} {extent} of a {order} "
                f"{rows}x{columns} tile; legal: {least} and up"
            )


def _tuple(kind: type[Operator]) -> Callable[[Any], Operator]:
    """Return a builder that spreads a sequence (or named tuple) and passes a single value alone."""

    def build(value: Any) -> Operator:
        if isinstance(value, kind):
            return value
        if isinstance(value, Operator):
            raise BadType(
                f"{kind.keyword}={value!r} is a {type(value).__name__}; legal: a {kind.__name__}, "
                "or its arguments"
            )
        arguments = value if isinstance(value, (tuple, list)) else (value,)
        if hasattr(value, "x") and hasattr(value, "y") and hasattr(value, "z"):
            arguments = (value.x, value.y, value.z)
        try:
            inspect.signature(kind).bind(*arguments)
        except TypeError as error:
            raise BadType(f"{kind.keyword}={value!r}: {error}") from None
        return kind(*arguments)

    return build


def _flag(kind: type[Operator]) -> Callable[[Any], Operator | None]:
    def build(value: Any) -> Operator | None:
        if not isinstance(value, bool):
            raise BadType(
                f"{kind.keyword}={value!r} is a {type(value).__name__}; legal: True or False"
            )
        return kind() if value else None

    return build


def _sm(value: Any) -> Operator:
    """Build SM from an operator, 900, (900, "arch_specific"), a compute capability pair, or None:
    the device."""
    if value is None:
        from .device import current_capability

        try:
            value = current_capability()
        except BackendUnavailable as error:
            raise BackendUnavailable(f"sm=None means the current device: {error}") from error
    if isinstance(value, (tuple, list)) and len(value) == 2 and not isinstance(value[1], str):
        return SM(100 * integer(value[0], "sm major") + 10 * integer(value[1], "sm minor"))
    return _tuple(SM)(value)


def _execution(value: Any) -> Operator:
    if value in ("Block", Block()):
        return Block()
    raise BadValue(f"execution={value!r}; a GEMM runs at block level, legal: 'Block'")


def _block_dim(value: Any) -> Operator | None:
    return None if isinstance(value, str) and value == "suggested" else _tuple(BlockDim)(value)


def _leading_dimension(value: Any) -> Operator | None:
    if isinstance(value, str) and value == "suggested":
        raise BadValue(
            "leading_dimension='suggested' needs a whole descriptor; build it first, then add "
            "LeadingDimension(*descriptor.suggested_leading_dimension)"
        )
    return _tuple(LeadingDimension)(value)


_BUILDERS: dict[str, Callable[[Any], Operator | None]] = {
    "size": _tuple(Size),
    "function": _tuple(Function),
    "sm": _sm,
    "execution": _execution,
    "precision": _tuple(Precision),
    "data_type": _tuple(Type),
    "arrangement": _tuple(Arrangement),
    "transpose_mode": _tuple(TransposeMode),
    "block_dim": _block_dim,
    "block_size": _tuple(BlockDim),
    "blocks_per_cluster": _tuple(BlocksPerCluster),
    "leading_dimension": _leading_dimension,
    "alignment": _tuple(Alignment),
    "static_block_dim": _flag(StaticBlockDim),
    "enable_input_streaming": _flag(EnableInputStreaming),
    "with_pipeline": _flag(WithPipeline),
    "required_mantissa_bits": _tuple(RequiredMantissaBits),
}


def _from_keywords(keywords: Mapping[str, Any]) -> list[Operator]:
    if "block_dim" in keywords and "block_size" in keywords:
        raise BadValue("block_dim and block_size both give the threads; legal: one of them")
    made = []
    for name, value in keywords.items():
        if name not in _BUILDERS:
            raise BadType(f"{name!r} is no keyword of a descriptor; legal: {', '.join(_BUILDERS)}")
        operator = _BUILDERS[name](value)
        if operator is not None:
            made.append(operator)
    return made
