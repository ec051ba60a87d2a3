"""Values to bits, against the dtypes of NumPy and ml_dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu import formats
from gpuemu.difftest import items

FLOATS = [fmt for fmt in formats.FORMATS.values() if fmt.is_float]


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
def test_every_finite_code_survives(fmt: formats.Format) -> None:
    codes = np.arange(1 << min(fmt.bits, 16), dtype=np.uint64) << np.uint64(max(fmt.bits - 16, 0))
    codes = codes.astype(fmt.storage)
    with np.errstate(invalid="ignore"):
        values = codes.view(fmt.dtype).astype(np.float64)
    finite = np.isfinite(values)
    assert np.array_equal(items.encode(fmt, values[finite]), codes[finite])


@pytest.mark.parametrize("fmt", [f for f in FLOATS if f.bits < 64], ids=lambda f: f.name)
def test_between_two_codes_the_one_nearer_zero(fmt: formats.Format) -> None:
    low = np.arange(0, min(items.max_finite(fmt), 30000), dtype=fmt.storage)
    high = low + low.dtype.type(1)
    middle = (
        low.view(fmt.dtype).astype(np.float64) * 0.25
        + high.view(fmt.dtype).astype(np.float64) * 0.75
    )
    assert np.array_equal(items.encode(fmt, middle), low)


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
def test_range(fmt: formats.Format) -> None:
    if fmt.bits < 64:
        assert int(items.encode(fmt, np.array(1e300))) == items.max_finite(fmt)
    if fmt.infinities:
        assert np.isneginf(
            items.encode(fmt, np.array([-np.inf])).view(fmt.dtype).astype(np.float64)
        )[0]
    assert fmt.classify(items.max_finite(fmt)) == "finite"
    beyond = items.max_finite(fmt) + 1
    assert beyond >= 1 << (fmt.bits - 1) or fmt.classify(beyond) != "finite"
    assert fmt.value(items.min_normal(fmt)) == 2**fmt.emin if fmt.emin >= 0 else True


def test_integers_are_held_to_their_range() -> None:
    assert items.encode(formats.get("i8"), np.array([200.0, -200.0, -1.9])).tolist() == [
        127,
        128,
        255,
    ]


@pytest.mark.parametrize(
    "fmt", [*FLOATS, formats.get("i8"), formats.get("i32")], ids=lambda f: f.name
)
def test_special_codes_hold_every_kind(fmt: formats.Format) -> None:
    codes = [int(code) for code in items.special_codes(fmt)]
    assert all(0 <= code < 1 << fmt.bits for code in codes)
    kinds = {fmt.classify(code) for code in codes}
    assert ("nan" in kinds) == (fmt.nan != "none")
    assert ("inf" in kinds) == fmt.infinities
