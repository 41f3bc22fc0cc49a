"""Objectives as text, `microseconds * area ** 0.5`: arithmetic over the numbers of a table, and nothing else of Python."""

import ast
import operator
from collections.abc import Callable, Mapping
from math import isfinite, log, sqrt
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.sweep.results import NUMBERS

LONGEST = 1000
_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda x, y: x / y,
    ast.Pow: lambda x, y: float(x**y),  # a complex number is none
}
_FUNCTIONS: Mapping[str, Callable[[list[float]], float]] = {
    "min": min,
    "max": max,
    "sqrt": lambda numbers: sqrt(*numbers),
    "log": lambda numbers: log(*numbers),
    "abs": lambda numbers: abs(*numbers),
}
_OF_ONE = ("sqrt", "log", "abs")
NAMES = tuple(name for name in NUMBERS if name != "cpu_seconds")


class Objective:
    """Numbers, columns, + - * / **, brackets and the functions min, max, sqrt, log, abs; InputError for anything else."""

    def __init__(self, text: str) -> None:
        try:
            if len(text) > LONGEST:
                raise ValueError("it is too long")
            self.tree = ast.parse(text.strip(), mode="eval").body
            _check(self.tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            what = str(error) if type(error) is ValueError else "it cannot be read"
            raise InputError(
                "E1004", f"{text!r} is no objective: {what}", hint=f"numbers, + - * / **, {', '.join(NAMES)}"
            ) from None

    def of(self, row: Mapping[str, Any]) -> float | None:
        """Its number for a row; None where it has none: a column that is not known, a division by 0, a number that is too large."""
        try:
            found = _value(self.tree, row)
        except (ValueError, TypeError, ArithmeticError):
            return None
        return found if isfinite(found) else None


def _check(node: ast.expr) -> None:
    """ValueError for what is no arithmetic."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return
        case ast.Name(id=name) if name in NAMES:
            return
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            _check(left)
            _check(right)
        case ast.Call(func=ast.Name(id=name), args=[_, *more] as args, keywords=[]) if name in _FUNCTIONS:
            if more and name in _OF_ONE:
                raise ValueError(f"{name} takes one number")
            for arg in args:
                _check(arg)
        case _:
            raise ValueError(f"it has {ast.unparse(node)!r}")


def _value(node: ast.expr, row: Mapping[str, Any]) -> float:
    """The number of what `_check` has passed."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return float(row[name])
        case ast.UnaryOp(operand=operand):
            return -_value(operand, row)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, row), _value(right, row))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name]([_value(arg, row) for arg in args])
        case _:
            raise AssertionError(ast.dump(node))
