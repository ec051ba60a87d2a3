"""Arithmetic models: how one output is computed from its products, as data rows.

An instruction computes D from C and K products along ascending k, in links of `group` products.
What happens inside a link is the model's algorithm:

fma
    One fused multiply-add a product, rounded to nearest even.
exact
    Accumulator and products are summed without error and rounded once.
pairwise
    binary32 products, summed in a tree of two or four, then added to the accumulator; every step
    rounds.
aligned
    Products are aligned to their largest exponent and cut at `product_bits` fraction bits; their
    sum and the accumulator are aligned again, cut, added, cut once more, and rounded to binary32.
integer
    Exact, modulo 2**32.

The parameters of the CDNA1 to CDNA3 rows are those of the published model MMA-Sim 2.1.1
(arXiv:2511.10909v2), whose authors compared it with MI100, MI250X and MI300X. Rows marked
`unverified` have no public measurement: their parameters are inferred from throughput, and anyone
who has measured the chip can replace them with `register`.

No model fixes NaN payloads or the sign of a zero that an `exact` or `aligned` sum ends in; every
NaN result here is 0x7FC00000 (0x7FF8000000000000 for f64), every such zero is +0.
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from ..errors import BadType, BadValue, UnknownModel

Algorithm = Literal["fma", "exact", "pairwise", "aligned", "integer"]
Rounding = Literal["zero", "down", "up", "nearest"]

ALGORITHMS = ("fma", "exact", "pairwise", "aligned", "integer")
ROUNDINGS = ("zero", "down", "up", "nearest")


@dataclass(frozen=True)
class Model:
    """One arithmetic model.

    Attributes
    ----------
    name : str
    algorithm : "fma", "exact", "pairwise", "aligned" or "integer"
    output : "f32", "f64" or "i32"
        The format of C and D.
    group : int
        Products of a link, at most 64 (pairwise: 2 or 4); a shorter K makes a shorter link.
    interleave : int
        aligned: partial sums of a link; product k goes to partial sum k % interleave. At most 4.
    input_bits : int or None
        Mantissa bits that the multiplier reads of A and B; the rest is cut off.
    product_bits, product_rounding
        aligned: fraction bits kept of a product below its partial sum's largest exponent, and how
        the rest is rounded.
    merge_rounding
        aligned: of a partial sum, when it is brought to the largest exponent of all.
    sum_bits, sum_rounding; accumulator_bits, accumulator_rounding
        aligned: fraction bits kept of the products' sum and of the accumulator, below the larger of
        their exponents.
    drop_tiny_accumulator : bool
        aligned: an accumulator wholly below its kept bits counts as zero, whatever its rounding.
    result_bits, result_rounding
        aligned: fraction bits kept of the total below its own exponent, before the last rounding.
    output_rounding
        exact, aligned: the rounding of a link's result to binary32.
    product_overflow : bool
        exact, aligned: a product of magnitude 2**128 or more is an infinity.
    flush_inputs, flush_outputs : bool
        Subnormal A, B and C count as +0; subnormal results of a step become zeros of their sign.
    dense_grouping : bool
        Of a sparse instruction: links and partial sums count dense columns of A, not stored ones.
    fidelity, source : str
    """

    name: str
    algorithm: Algorithm
    output: Literal["f32", "f64", "i32"] = "f32"
    group: int = 1
    interleave: int = 1
    input_bits: int | None = None
    product_bits: int = 24
    product_rounding: Rounding = "zero"
    merge_rounding: Rounding = "down"
    sum_bits: int = 32
    sum_rounding: Rounding = "down"
    accumulator_bits: int = 24
    accumulator_rounding: Rounding = "down"
    drop_tiny_accumulator: bool = False
    result_bits: int = 31
    result_rounding: Rounding = "down"
    output_rounding: Rounding = "nearest"
    product_overflow: bool = True
    flush_inputs: bool = False
    flush_outputs: bool = False
    dense_grouping: bool = False
    fidelity: str = "unverified"
    source: str = "user"

    def __post_init__(self) -> None:
        """Refuse parameters that the implementations cannot compute exactly."""
        _check_types(self)
        for name, legal in (("algorithm", ALGORITHMS), ("output", ("f32", "f64", "i32"))):
            if getattr(self, name) not in legal:
                raise BadValue(f"{name}={getattr(self, name)!r}; legal: {', '.join(legal)}")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_rounding") and value not in ROUNDINGS:
                raise BadValue(f"{field.name}={value!r}; legal: {', '.join(ROUNDINGS)}")
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise BadValue(f"{name}={value} of model {self.name}; legal: {low}..{high}")
        if self.group & (self.group - 1) or self.interleave & (self.interleave - 1):
            raise BadValue(
                f"group={self.group}, interleave={self.interleave}; legal: powers of two"
            )
        if self.algorithm == "pairwise" and self.group not in (1, 2, 4):
            raise BadValue(f"group={self.group} of a pairwise model; legal: 1, 2, 4")
        outputs = {"fma": ("f32", "f64"), "integer": ("i32",)}.get(self.algorithm, ("f32",))
        if self.output not in outputs:
            raise BadValue(
                f"output={self.output!r} of an algorithm {self.algorithm!r}; "
                f"legal: {', '.join(outputs)}"
            )
        if self.output == "f64" and (
            self.flush_inputs or self.flush_outputs or self.input_bits is not None
        ):
            raise BadValue(f"model {self.name}: an f64 chain neither flushes nor cuts its inputs")
        object.__setattr__(self, "_hash", hash(tuple(self.parameters().values())))

    def __hash__(self) -> int:
        """Return the hash of all fields, computed once: every call looks its model up."""
        found: int = self.__dict__["_hash"]
        return found

    def parameters(self) -> dict[str, Any]:
        """Return every field by name."""
        return asdict(self)


_RANGES = (
    ("group", 1, 64),
    ("interleave", 1, 4),
    ("input_bits", 0, 23),
    ("product_bits", 1, 40),
    ("sum_bits", 1, 44),
    ("accumulator_bits", 1, 44),
    ("result_bits", 23, 44),
)


def _check_types(model: Model) -> None:
    integers = {name for name, _, _ in _RANGES}
    for field in fields(model):
        value = getattr(model, field.name)
        if field.name in integers:
            optional = field.name == "input_bits" and value is None
            if not optional and (isinstance(value, bool) or not isinstance(value, int)):
                raise BadType(f"{field.name}={value!r}; legal: an int")
        elif field.type == "bool" and not isinstance(value, bool):
            raise BadType(f"{field.name}={value!r}; legal: True or False")
    if not isinstance(model.name, str) or not model.name:
        raise BadType(f"name={model.name!r}; legal: a non-empty string")


_MMASIM = "MMA-Sim 2.1.1, arXiv:2511.10909v2"
_GUESS = "parameters inferred from throughput; no public measurement"

_SILICON: dict[str, Any] = {"fidelity": "published-model", "source": _MMASIM}
_FLUSH: dict[str, Any] = {"flush_inputs": True, "flush_outputs": True}


def _wide(name: str, **parameters: Any) -> Model:
    """Return a row of the two-partial-sum kind that CDNA3 has for 8-bit floats."""
    shared: dict[str, Any] = {
        "interleave": 2,
        "drop_tiny_accumulator": True,
        "product_overflow": False,
    }
    return Model(name, "aligned", **(shared | parameters))


_ROWS = (
    Model("fma_f32", "fma", **_SILICON),
    Model("fma_f64", "fma", output="f64", **_SILICON),
    Model("cdna1_f16", "exact", group=4, product_overflow=False, **_SILICON),
    Model("cdna1_bf16", "exact", group=2, product_overflow=False, **_SILICON),
    Model("cdna2_f16", "pairwise", group=4, **_FLUSH, **_SILICON),
    Model("cdna2_bf16", "pairwise", group=2, **_FLUSH, **_SILICON),
    Model("cdna2_bf16_1k", "pairwise", group=4, **_FLUSH, **_SILICON),
    Model("cdna3_f16", "aligned", group=8, **_SILICON),
    Model("cdna3_bf16", "aligned", group=8, **_SILICON),
    Model("cdna3_xf32", "aligned", group=4, input_bits=10, **_SILICON),
    _wide("cdna3_fp8", group=16, **_SILICON),
    Model("cdna4_16bit", "aligned", group=8, source="assumed as on CDNA3"),
    _wide("cdna4_16bit_wide", group=16, product_overflow=True, source=_GUESS),
    _wide("cdna4_fp8", group=16, source="assumed as on CDNA3, with OCP formats"),
    _wide("cdna4_f8f6f4", group=32, source=_GUESS),
    Model(
        "i8",
        "integer",
        output="i32",
        fidelity="documented",
        source="CDNA3 and CDNA4 instruction set guides",
    ),
)

_registry: dict[str, Model] = {row.name: row for row in _ROWS}
BUILT_IN = frozenset(_registry)


def models() -> dict[str, Model]:
    """Return every known model by name.

    >>> models()["cdna3_f16"].group
    8
    """
    return dict(_registry)


def register(model: Model) -> Model:
    """Add a model of one's own to `models()`, so that names find it; return it.

    Raises
    ------
    BadValue
        For a built-in name: those rows stay what they are.
    """
    if not isinstance(model, Model):
        raise BadType(f"register wants a gpuemu.Model, got {type(model).__name__}")
    if model.name in BUILT_IN:
        raise BadValue(f"model name {model.name!r} is built in; choose another")
    _registry[model.name] = model
    return model


def get(model: str | Model) -> Model:
    """Return a model by name, or itself; raise `UnknownModel` with near names."""
    if isinstance(model, Model):
        return model
    if not isinstance(model, str):
        raise BadType(f"model={model!r}; legal: a gpuemu.Model or one of {', '.join(_registry)}")
    if model not in _registry:
        near = difflib.get_close_matches(model, _registry, n=3)
        raise UnknownModel(f"no model is named {model!r}; legal: {', '.join(near or _registry)}")
    return _registry[model]
