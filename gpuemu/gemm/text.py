"""Descriptors as text: the sum of operators, in Python's or in C++'s spelling."""

from __future__ import annotations

import ast
import re
from typing import Any

from ..errors import BadValue
from .descriptor import OPERATORS, Descriptor
from .operators import Operator, Thread

_BY_NAME: dict[str, type[Operator]] = {kind.__name__: kind for kind in (*OPERATORS, Thread)}


def parse(text: str) -> Descriptor:
    """Return the descriptor that a sum of operators spells.

    Parameters
    ----------
    text : str
        "Size(128, 128, 32) + Precision(f16, f16, f32) + …", or the C++ form with template
        arguments. Names without quotes are taken as words. `repr` of a descriptor is a legal text.

    Raises
    ------
    BadValue
        With the part that is no operator.

    Examples
    --------
    >>> parse("Size<64, 64, 32>() + Precision<__half, __half, float>() + SM<900, arch_specific>()")
    Size(m=64, n=64, k=32) + SM(arch=900, modifier='arch_specific') + Precision('f16', 'f16', 'f32')
    """
    plain = _from_cpp(text)
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
    except SyntaxError as error:
        raise BadValue(
            f"{text!r} is no sum of operators: {error.msg} at column {error.offset}"
        ) from None
    result = Descriptor()
    for node in _terms(tree):
        result = result + _operator(node, plain)
    return result


def _from_cpp(text: str) -> str:
    text = re.sub(r"\bdecltype\s*\((.*)\)\s*;?\s*$", r"\1", text.strip(), flags=re.DOTALL)
    text = re.sub(r"\b\w+::", "", text)
    text = re.sub(r"(\w+)\s*<([^<>]*)>\s*\(\s*\)", r"\1(\2)", text)
    return " ".join(text.split())


def _terms(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_terms(node.left), *_terms(node.right)]
    return [node]


def _operator(node: ast.expr, text: str) -> Operator:
    part = ast.get_source_segment(text, node) or text
    if not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BY_NAME
    ):
        raise BadValue(
            f"{part!r} is no operator; legal: {', '.join(_BY_NAME)}, each with parentheses"
        )
    arguments = [_value(x, part) for x in node.args]
    keywords = {x.arg: _value(x.value, part) for x in node.keywords if x.arg}
    try:
        return _BY_NAME[node.func.id](*arguments, **keywords)
    except TypeError as error:
        raise BadValue(f"{part}: {error}") from None


def _value(node: ast.expr, part: str) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant):
        return node.value
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
    ):
        return -node.operand.value  # type: ignore[operator]  # the operator refuses what is no number
    raise BadValue(f"{part!r}: {ast.unparse(node)!r} is no number and no word")
