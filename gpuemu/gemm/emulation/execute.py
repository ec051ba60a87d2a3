"""The door: `emulated_matmul` validates, chooses scheme and planes, calls a backend."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dispatch
from ...backends import arrays, cuda
from ...errors import BadShape, BadType, BadValue, Mismatch
from . import report, scheme
from .scheme import Setting

SCHEMES = ("slices", "crt", "auto")
ROUNDINGS = ("truncate", "nearest")
CONTROLS = ("fixed", "dynamic")
DEFAULT_BITS = {"float32": 23, "float64": 52}
MAX_BITS = 61


@dataclass(frozen=True)
class Call:
    """A validated call: operands as given, scalars, and the choices that are not the data's."""

    a: Any
    b: Any
    c: Any
    alpha: float
    beta: float
    dtype: np.dtype[Any]
    bits: int
    scheme: str
    nearest: bool
    dynamic: bool
    split: bool
    workspace: int | None
    timing: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N, K of one matrix product."""
        return int(self.a.shape[-2]), int(self.b.shape[-1]), int(self.a.shape[-1])


def emulated_matmul(
    A: Any,
    B: Any,
    C: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    mantissa_bits: int | None = None,
    scheme: str = "slices",
    slice_rounding: str = "truncate",
    mantissa_control: str = "fixed",
    split_k: str | None = None,
    backend: str = "auto",
    workspace: int | None = None,
    timing: bool = False,
) -> Any:
    """Return `alpha * A @ B + beta * C` computed from int8 products that are exact in int32.

    Parameters
    ----------
    A, B : float32 or float64 arrays (..., M, K), (..., K, N)
        Both of one dtype; leading dimensions broadcast. Rows of A and columns of B may be strided.
    C : array (..., M, N), optional
        Of the result's shape and dtype; not read where `beta` is 0.
    alpha, beta : float
        Rounded to the dtype.
    mantissa_bits : int
        X, 1 to 61: bits kept below the largest element of a row or column. Default 23
        (float32), 52 (float64).
    scheme : str
        "slices": ceil((X + 1) / 8) int8 slices, S (S + 1) / 2 products. "crt": residues
        modulo as many small primes as X needs, one product each, the exact integer product
        rounded once. "auto": whichever is fastest on this device, or native where that is
        (on the CPU: slices up to 4, then crt).
    slice_rounding : str
        "truncate" (toward zero) or "nearest": how the last slice is cut. `crt` always
        rounds to nearest.
    mantissa_control : str
        "fixed", or "dynamic": more slices where the exponents spread inside rows and
        columns, native arithmetic where 8 slices (16 moduli) are not enough.
    split_k : None or "auto"
        "auto" sums partial products over ranges of K where K > 33025 (crt: 131056), which
        is refused otherwise.
    backend : str
        "auto", "cuda", "host", "numpy" or "check".
    workspace : int, optional
        Most bytes of device memory for slices and int32 sums; default a quarter of the
        device's memory.
    timing : bool
        Time every stage on the device (`emulation_report().stage_ms`); costs a synchronisation.

    Returns
    -------
    array (..., M, N)
        Of the dtype and library of A.

    Raises
    ------
    BadValue, BadShape, BadType
        Before anything is computed.
    BackendUnavailable
        Where the backend cannot run.

    Notes
    -----
    With alpha = 1 and beta = 0 the error obeys `scheme.slices_bound`: about
    `K * (127 to 254 + 64 (S - 1)) * 2^-8(S-1)` units of `2^-(row shift + column shift)` (a unit
    is at most `amax_i * bmax_j / 63^2`), plus the rounding of the result. `crt`:
    `scheme.residues_bound`, at most `sqrt(K) * 2^-X * |a_i| * |b_j|` in Euclidean norms plus
    one rounding. A row or column with an infinity or a NaN gives what IEEE arithmetic gives
    (NaN, or the infinity; finite products count as finite). Negative zero results are +0. Sums
    that overflow on the way, but not in the end, come out right.

    Examples
    --------
    >>> a = np.array([[1.0, 2.0**-7]], np.float32)
    >>> b = np.array([[1.0], [1.0]], np.float32)
    >>> for bits in (7, 23):
    ...     c = emulated_matmul(a, b, mantissa_bits=bits, backend="numpy")
    ...     print(f"{c.view(np.uint32).item():08X}")
    3F800000
    3F810000
    """
    call = _validate(
        A,
        B,
        C,
        alpha,
        beta,
        mantissa_bits,
        scheme,
        slice_rounding,
        mantissa_control,
        split_k,
        workspace,
        timing,
    )
    implementations = {name: _runner(call, name) for name in ("cuda", "host", "numpy")}
    result = dispatch.run(backend, implementations, _compare, (A, B))
    return arrays.like(result, A)


def _validate(
    a: Any,
    b: Any,
    c: Any,
    alpha: Any,
    beta: Any,
    bits: Any,
    scheme_name: str,
    rounding: str,
    control: str,
    split: Any,
    workspace: Any,
    timing: bool,
) -> Call:
    for name, value, legal in (
        ("scheme", scheme_name, SCHEMES),
        ("slice_rounding", rounding, ROUNDINGS),
        ("mantissa_control", control, CONTROLS),
        ("split_k", split, (None, "auto")),
    ):
        if value not in legal:
            raise BadValue(f"{name}={value!r}; legal: {', '.join(map(repr, legal))}")
    dtype = _common_dtype(a, b)
    if bits is None:
        bits = DEFAULT_BITS[dtype.name]
    if isinstance(bits, bool) or not isinstance(bits, (int, np.integer)):
        raise BadType(f"mantissa_bits={bits!r}; legal: an integer from 1 to {MAX_BITS}")
    if not 1 <= bits <= MAX_BITS:
        raise BadValue(f"mantissa_bits={bits}; legal: 1 to {MAX_BITS} (8 slices, 16 moduli)")
    if workspace is not None and (
        isinstance(workspace, bool) or not isinstance(workspace, int) or workspace <= 0
    ):
        raise BadValue(f"workspace={workspace!r}; legal: a positive number of bytes, or None")
    result_shape = _result_shape(a, b)
    _check_addend(c, beta, dtype, result_shape)
    k = int(a.shape[-1])
    if split is None:
        limit = scheme.SUM_LIMIT if scheme_name == "crt" else scheme.MAX_K
        if k > limit:
            raise BadValue(
                f"emulation_k_dimension_too_large: K={k} with scheme {scheme_name!r}; "
                f'legal: K <= {limit}, or split_k="auto", which sums partial products'
            )
    scalars = []
    for name, value in (("alpha", alpha), ("beta", beta)):
        try:
            scalars.append(float(dtype.type(value)))
        except (TypeError, ValueError) as error:
            raise BadType(f"{name}={value!r}; legal: a real number") from error
    return Call(
        a, b, c, scalars[0], scalars[1], dtype, int(bits), scheme_name, rounding == "nearest",
        control == "dynamic", split == "auto", workspace, timing,
    )  # fmt: skip


def _common_dtype(a: Any, b: Any) -> np.dtype[Any]:
    names = []
    for name, x in (("A", a), ("B", b)):
        if not hasattr(x, "dtype") or not hasattr(x, "shape"):
            raise BadType(f"{name} is a {type(x).__name__}; legal: an array of float32 or float64")
        names.append(str(x.dtype).removeprefix("torch."))
    if names[0] != names[1] or names[0] not in DEFAULT_BITS:
        raise BadType(f"A is {names[0]} and B is {names[1]}; legal: both float32, or both float64")
    return np.dtype(names[0])


def _result_shape(a: Any, b: Any) -> tuple[int, ...]:
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise BadShape(
            f"A has shape {tuple(a.shape)}, B {tuple(b.shape)}; legal: (..., M, K) and (..., K, N)"
        )
    if a.shape[-1] != b.shape[-2]:
        raise BadShape(
            f"A has K={a.shape[-1]}, B has K={b.shape[-2]}; legal: equal "
            "(incompatible_k_dimensions)"
        )
    try:
        batch = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    except ValueError as error:
        raise BadShape(
            f"batch dimensions {tuple(a.shape[:-2])} and {tuple(b.shape[:-2])} do not broadcast"
        ) from error
    return (*batch, int(a.shape[-2]), int(b.shape[-1]))


def _check_addend(c: Any, beta: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if c is None:
        if beta != 0:
            raise BadValue(f"beta={beta!r} without C; legal: beta=0, or C of shape {shape}")
        return
    if tuple(c.shape) != shape:
        raise BadShape(f"C has shape {tuple(c.shape)}; legal: {shape}, the shape of A @ B")
    if str(c.dtype).removeprefix("torch.") != dtype.name:
        raise BadType(f"C is {c.dtype}; legal: {dtype.name}, the dtype of A and B")


def setting_for(call: Call, backend: str) -> Setting:
    """Return scheme and planes that a call asks for, before the data are looked at."""
    chosen = call.scheme
    if chosen == "auto":
        if backend == "cuda":
            from . import tuning

            chosen = tuning.choose(call.dtype.name, call.shape, call.bits)
        else:
            chosen = "slices" if scheme.slices_for(call.bits) <= 4 else "crt"
    return planes_for(chosen, call.bits, call.nearest)


def planes_for(chosen: str, bits: int, nearest: bool) -> Setting:
    """Return a scheme's setting for a number of bits; native where no setting has that many."""
    if chosen == "slices" and scheme.slices_for(bits) <= scheme.MAX_SLICES:
        return Setting("slices", scheme.slices_for(bits), nearest, bits)
    if chosen == "crt" and bits <= scheme.residue_bits(len(scheme.MODULI)):
        return Setting("crt", scheme.moduli_for(bits), True, bits)
    return Setting("native", 0, nearest, bits)


def _runner(call: Call, backend: str) -> Any:
    def run() -> Any:
        convert = arrays.to_cupy if backend == "cuda" else arrays.to_numpy
        a, b = convert(call.a, "A"), convert(call.b, "B")
        c = convert(call.c, "C") if call.c is not None and call.beta != 0 else None
        setting = setting_for(call, "cuda" if cuda.available() and backend == "cuda" else "numpy")
        return _batched(call, backend, a, b, c, setting)

    return run


def _implementation(backend: str) -> Any:
    if backend == "cuda":
        from . import device

        return device
    if backend == "host":
        from . import hostside

        return hostside
    from . import oracle

    return oracle


def _batched(call: Call, backend: str, a: Any, b: Any, c: Any, setting: Setting) -> Any:
    """Run every matrix of a batch; the report counts them all."""
    implementation = _implementation(backend)
    library: Any = importlib.import_module("cupy" if backend == "cuda" else "numpy")
    record = report.Record(call.shape, call.dtype.name, backend, setting, call.bits, call.timing)
    if call.dynamic and setting.scheme != "native":
        span = max(
            (implementation.exponent_span(x, y) for x, y in _pairs(library, a, b)), default=0
        )
        setting = planes_for(setting.scheme, min(call.bits + span, 1 << 20), call.nearest)
        record.raise_to(setting, span)
    if setting.scheme == "native":
        with np.errstate(all="ignore"):
            product = a @ b
        result = implementation.scale(product, call.alpha, call.beta, c)
        report.publish(record)
        return result
    limit = scheme.SUM_LIMIT if setting.scheme == "crt" else scheme.SPLIT_K
    if not call.split:
        limit = max(limit, call.shape[2])
    ranges = scheme.k_ranges(call.shape[2], limit)
    result = library.empty(_result_shape(a, b), call.dtype)
    for index, (x, y) in zip(np.ndindex(*result.shape[:-2]), _pairs(library, a, b), strict=True):
        addend = None if c is None else c[index]
        implementation.multiply(
            x,
            y,
            addend,
            call.alpha,
            call.beta,
            result[index],
            setting,
            ranges,
            call.workspace,
            record,
        )
    report.publish(record)
    return result


def _pairs(library: Any, a: Any, b: Any) -> list[tuple[Any, Any]]:
    if len(a.shape) == 2 and len(b.shape) == 2:
        return [(a, b)]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (
        library.broadcast_to(a, batch + a.shape[-2:]),
        library.broadcast_to(b, batch + b.shape[-2:]),
    )
    return [(a[i], b[i]) for i in np.ndindex(*batch)]


def _compare(got: Any, want: Any, backend: str) -> None:
    """Raise `Mismatch` at the first output whose bits differ; NaN equals NaN."""
    got, want = arrays.to_numpy(got), arrays.to_numpy(want)
    unsigned = np.dtype(f"u{want.dtype.itemsize}")
    bad = (got.view(unsigned) != want.view(unsigned)) & ~(np.isnan(got) & np.isnan(want))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        digits = 2 * want.dtype.itemsize
        raise Mismatch(
            f"emulated_matmul: {int(bad.sum())} of {bad.size} outputs differ; first at {at}: "
            f"{backend} {int(got[at].view(unsigned)):0{digits}X}, "
            f"numpy {int(want[at].view(unsigned)):0{digits}X}"
        )
