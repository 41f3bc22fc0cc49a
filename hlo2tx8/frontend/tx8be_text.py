"""`read_tx8be`: the text of a module in the dialect `tx8be` to xDSL ops that know their places, verified."""

import re
import struct
from bisect import bisect_right
from itertools import accumulate

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, StringAttr
from xdsl.dialects.func import Func
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError as XdslError
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.dialects.hlo import Hlo, origin
from hlo2tx8.dialects.tx8be import Tx8be
from hlo2tx8.errors import ParseError
from hlo2tx8.frontend.text_limits import check_text

_OP = re.compile(r'^[^/"#\n]*"tx8be\.\w+"\s*\(', re.MULTILINE)

_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*+"?|//[^\n]*+')
"""Strings, with their ends where they have one, and comments."""


def is_tx8be(text: str) -> bool:
    """Does the text of a module have an op of that dialect?"""
    return _OP.search(text) is not None


class _Places:
    """Offsets of a text as `file:line:column`."""

    def __init__(self, text: str, name: str) -> None:
        self.file, self.length = name, len(text)
        self.lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]

    def at(self, offset: int) -> str:
        """The place of a character."""
        line = bisect_right(self.lines, min(offset, self.length))
        return f"{self.file}:{line}:{min(offset, self.length) - self.lines[line - 1] + 1}"


class _PlacedParser(Parser):
    """xDSL's parser; every op gets the attribute `loc`, its place."""

    def __init__(self, ctx: Context, text: str, places: _Places) -> None:
        super().__init__(ctx, text, places.file)
        self.places = places

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        op.attributes["loc"] = StringAttr(self.places.at(start))
        return op


def read_tx8be(text: str, name: str) -> ModuleOp:
    """The module of a text; ParseError names `file:line:column`, and the op where it is one that does not verify."""
    check_text(text, name)
    ctx = Context()
    for dialect in (Builtin, Func, Hlo, Tx8be):
        ctx.load_dialect(dialect)
    places = _Places(text, name)
    for found in _STRING.finditer(text):  # xDSL's lexer takes exponential time for a string without an end
        if found[0][0] == '"' and (len(found[0]) == 1 or found[0][-1] != '"'):
            raise ParseError("E1003", f"{places.at(found.start())}: a string has no end")
    try:
        module = _PlacedParser(ctx, text, places).parse_module()
    except XdslError as error:
        raise ParseError("E1003", f"{places.at(error.span.start)}: {_line_of(error.msg)}") from None
    except RecursionError:
        raise ParseError("E1003", f"{name}: types, attributes or regions are too deep inside each other") from None
    except (ValueError, VerifyException, KeyError, IndexError, OverflowError, TypeError, AssertionError, struct.error) as error:
        raise ParseError("E1003", f"{name}: {_line_of(error) or 'malformed text'}") from None
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except (VerifyException, ValueError) as error:
            raise ParseError("E1003", f"{origin(op) or name}: {op.name}: {_line_of(error)}") from None
    return module


def _line_of(error: object) -> str:
    """The last line of a message that is no drawing: xDSL shows the module above it."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip(" ^-~")), "")
