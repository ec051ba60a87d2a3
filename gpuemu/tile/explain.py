"""One fused multiply-add, step by step: exact product, exact sum, the rounding, the flags."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from . import exact
from .numeric import DataType, flag_names


@dataclass(frozen=True)
class Explanation:
    """The steps of one element, as text and as bits.

    Attributes
    ----------
    steps : tuple of (str, str)
        Name and description of each step, in order.
    bits, flags : int
        The result.
    """

    steps: tuple[tuple[str, str], ...]
    bits: int
    flags: int


def _power(significand: int, exponent: int) -> str:
    return f"{significand} * 2^{exponent}"


def _approximate(significand: int, exponent: int) -> str:
    value = Fraction(significand) * Fraction(2) ** exponent
    try:
        return f"{float(value):.17g}"
    except OverflowError:
        return "beyond binary64"


def _operand(dtype: DataType, code: int) -> str:
    value = exact.decode(dtype, code)
    sign = "-" if value.negative else "+"
    text = f"{code:0{dtype.bits // 4}X}  "
    if value.is_nan:
        return text + f"{value.kind} NaN"
    if value.kind == "inf":
        return text + f"{sign}infinity"
    if value.is_zero:
        return text + f"{sign}0"
    numbers = value.signed, value.exponent
    normal = value.significand >> dtype.mantissa_bits
    kind = "" if normal else " (subnormal)"
    return text + f"{_power(*numbers)} = {_approximate(*numbers)}{kind}"


def explain(
    dtype: DataType, left: int, right: int, addend: int, nan_corner: str = "ieee"
) -> Explanation:
    """Explain left * right + addend.

    >>> from gpuemu.tile.numeric import data_type
    >>> for name, text in explain(data_type("FP16"), 0x3E00, 0x3956, 0x0001).steps:
    ...     print(f"{name:8} {text}")
    left     3E00  1536 * 2^-10 = 1.5
    right    3956  1366 * 2^-11 = 0.6669921875
    addend   0001  1 * 2^-24 = 5.9604644775390625e-08 (subnormal)
    product  2098176 * 2^-21 = 1.00048828125, exact
    sum      16785409 * 2^-24 = 1.0004883408546448, exact
    grid     unit in the last place 2^-10: 1024.50006103515625 units
    result   3C01  1025 * 2^-10 = 1.0009765625
    flags    NX: rounded to nearest, ties to even
    """
    step = exact.fma(dtype, left, right, addend, nan_corner)
    steps = [
        ("left", _operand(dtype, left)),
        ("right", _operand(dtype, right)),
        ("addend", _operand(dtype, addend)),
    ]
    x, y = exact.decode(dtype, left), exact.decode(dtype, right)
    if x.kind == y.kind == "finite":
        product = exact.product(x, y)
        numbers = product.signed, product.exponent
        steps.append(("product", f"{_power(*numbers)} = {_approximate(*numbers)}, exact"))
    if step.magnitude:
        steps += _rounding(dtype, step)
    steps.append(("result", _operand(dtype, step.bits)))
    steps.append(("flags", f"{flag_names(step.flags)}: {step.reason}"))
    return Explanation(tuple(steps), step.bits, step.flags)


def _rounding(dtype: DataType, step: exact.Step) -> list[tuple[str, str]]:
    sign = -1 if step.bits & dtype.sign_bit else 1
    numbers = sign * step.magnitude, step.exponent
    units = Fraction(step.magnitude) * Fraction(2) ** (step.exponent - step.quantum)
    grid = f"unit in the last place 2^{step.quantum}: {_decimal(units)} units"
    lines = [("sum", f"{_power(*numbers)} = {_approximate(*numbers)}, exact"), ("grid", grid)]
    if step.tiny:
        lines.append(("tiny", f"rounded at full precision it lies below 2^{dtype.emin}"))
    return lines


def _decimal(value: Fraction) -> str:
    """Return a binary fraction in decimal, exact up to 40 bits below the point."""
    whole, rest = divmod(value.numerator, value.denominator)
    if not rest:
        return str(whole)
    places = value.denominator.bit_length() - 1
    if places > 40:
        return f"{whole} + {float(Fraction(rest, value.denominator)):.6g}"
    digits = str(rest * 5**places).rjust(places, "0").rstrip("0")
    return f"{whole}.{digits}"
