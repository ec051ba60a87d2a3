"""The door: `emulated_matmul` validates, chooses scheme and planes, calls a backend."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

import numpy as np

from ... import dispatch
from ...backends import arrays
from ...errors import Mismatch
from . import repeats, report, request, scheme
from .request import Call
from .scheme import Setting


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
        X, 1 to 63 (crt: 61): bits kept below the largest element of a row or column. Default
        23 (float32), 52 (float64).
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
        columns, native arithmetic with its own rules where 8 slices (16 moduli) are not enough.
    split_k : None or "auto"
        "auto" adds partial products over ranges of K in the dtype where K > 33025
        (crt: 131056), which is refused otherwise.
    backend : str
        "auto", "cuda", "host", "numpy" or "check" (which compares no native products; there
        scheme "auto" is the CPU's).
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
    is at most `amax_i * bmax_j / 63^2`), plus `260 K u` such units for adding the diagonals
    of S > 1 slices in the dtype, plus the rounding of the result, `3 u |C|`; u = 2^-24 or 2^-53.
    So float32 gains little from more than 4 slices. `crt`: `scheme.residues_bound`, at most
    `sqrt(K) * 2^-X * |a_i| * |b_j|` in Euclidean norms plus one rounding. Split ranges of K
    have each its own bound, and each addition of two rounds once.

    A row or column with an infinity or a NaN gives what IEEE arithmetic gives (NaN, or the
    infinity; finite products count as finite). A sum that is exactly zero is +0 before alpha.
    Sums that overflow on the way, but not in the end, come out right within a range of K.

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
    key = None
    if not timing and type(backend) is str and backend in ("auto", "cuda"):
        key = repeats.key(
            A, B, C, alpha, beta,
            (mantissa_bits, type(mantissa_bits), workspace, type(workspace), backend,
             mantissa_control, scheme, slice_rounding, split_k),
        )  # fmt: skip
        again = repeats.find(key)
        if again is not None:
            return again(A, B, C, alpha, beta)
    chosen = request.options(
        mantissa_bits, scheme, slice_rounding, mantissa_control, split_k, workspace
    )
    call = request.validate(A, B, C, alpha, beta, chosen, timing)
    checked = backend == "check"
    implementations = {
        "cuda": lambda: _run(call, "cuda", key, checked=checked),
        "host": lambda: _run(call, "host", checked=checked),
        "numpy": lambda: _run(call, "numpy", checked=checked),
    }
    result = dispatch.run(backend, implementations, _compare, (A, B))
    return arrays.like(result, A)


def setting_for(call: Call, backend: str) -> Setting:
    """Return scheme and planes that a call asks for, before the data are looked at."""
    chosen = call.options.scheme
    if chosen == "auto":
        if backend == "cuda":
            from . import tuning

            chosen = tuning.choose(call.dtype_name, call.shape, call.bits)
        else:
            many = scheme.slices_for(call.bits) > 4 and call.bits <= request.MOST_BITS["crt"]
            chosen = "crt" if many else "slices"
    return planes_for(chosen, call.bits, call.options.nearest)


@lru_cache(maxsize=256)
def planes_for(chosen: str, bits: int, nearest: bool) -> Setting:
    """Return a scheme's setting for a number of bits; native where no setting has that many."""
    if chosen == "slices" and scheme.slices_for(bits) <= scheme.MAX_SLICES:
        return Setting("slices", scheme.slices_for(bits), nearest, bits)
    if chosen == "crt" and bits <= scheme.residue_bits(len(scheme.MODULI)):
        return Setting("crt", scheme.moduli_for(bits), True, bits)
    return Setting("native", 0, nearest, bits)


def _run(call: Call, backend: str, key: Any = None, *, checked: bool = False) -> Any:
    """Compute a call on one backend, and publish its report; remember it where it has a key.

    `checked`: as one side of a comparison, both of which take the oracle's setting and publish the
    report of the other.
    """
    convert = arrays.to_cupy if backend == "cuda" else arrays.to_numpy
    a, b = convert(call.a, "A"), convert(call.b, "B")
    c = convert(call.c, "C") if call.c is not None and call.beta != 0 else None
    setting = setting_for(call, "numpy" if checked else backend)
    record = report.Record(call.shape, call.dtype_name, backend, setting, call.bits, call.timing)
    if call.options.dynamic and setting.scheme != "native":
        setting = _raised(call, backend, a, b, record)
    implementation = _implementation(backend)
    if setting.scheme == "native":
        product = implementation.native(a, b)
        result = implementation.scale(product, call.alpha, call.beta, c)
    else:
        result = _emulated(call, backend, a, b, c, record)
    if not (checked and backend == "numpy"):
        report.publish(record)
    if key is not None:
        repeats.remember(key, call, setting, _ranges(call, setting))
    return result


def _raised(call: Call, backend: str, a: Any, b: Any, record: report.Record) -> Setting:
    """Return the setting that dynamic control asks for after looking at the exponents."""
    implementation = _implementation(backend)
    spans = (implementation.exponent_span(x, y) for x, y in _pairs(backend, a, b))
    span = max(spans, default=0)
    bits = min(call.bits + span, 1 << 20)
    record.raise_to(planes_for(record.setting.scheme, bits, call.options.nearest), span)
    return record.setting


def _emulated(call: Call, backend: str, a: Any, b: Any, c: Any, record: report.Record) -> Any:
    """Run every matrix of a batch; the record counts them all."""
    multiply, setting = _implementation(backend).multiply, record.setting
    ranges = _ranges(call, setting)
    library = _library(backend)
    if len(a.shape) == 2 and len(b.shape) == 2:
        matrices: Any = ((a, b, c, library.empty(call.shape[:2], call.dtype)),)
        result = matrices[0][3]
    else:
        result = library.empty(request.result_shape(a, b), call.dtype)
        matrices = (
            (x, y, None if c is None else c[i], result[i])
            for i, (x, y) in zip(np.ndindex(*result.shape[:-2]), _pairs(backend, a, b), strict=True)
        )
    for x, y, addend, out in matrices:
        multiply(
            x,
            y,
            addend,
            call.alpha,
            call.beta,
            out,
            setting,
            ranges,
            call.options.workspace,
            record,
        )
    return result


def _ranges(call: Call, setting: Setting) -> tuple[tuple[int, int], ...]:
    k = call.shape[2]
    most, limit = scheme.MAX_K, scheme.SPLIT_K
    if setting.scheme == "crt":
        most = limit = scheme.SUM_LIMIT
    return scheme.k_ranges(k, limit if call.options.split and k > most else max(limit, k))


def _library(backend: str) -> Any:
    return importlib.import_module("cupy" if backend == "cuda" else "numpy")


def _implementation(backend: str) -> Any:
    if backend == "cuda":
        from . import device

        return device
    if backend == "host":
        from . import hostside

        return hostside
    from . import oracle

    return oracle


def _pairs(backend: str, a: Any, b: Any) -> list[tuple[Any, Any]]:
    if len(a.shape) == 2 and len(b.shape) == 2:
        return [(a, b)]
    library = _library(backend)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (
        library.broadcast_to(a, batch + a.shape[-2:]),
        library.broadcast_to(b, batch + b.shape[-2:]),
    )
    return [(a[i], b[i]) for i in np.ndindex(*batch)]


def _compare(got: Any, want: Any, backend: str) -> None:
    """Raise `Mismatch` at the first output whose bits differ; NaN equals NaN.

    A product that went native has the bits of the machine's library, which no oracle knows.
    """
    if report.went_native():
        return
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
