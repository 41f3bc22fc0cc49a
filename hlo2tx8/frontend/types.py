"""Types: MLIR's, as xDSL has them, and back to text."""

from functools import cache
from typing import cast

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ComplexType, FunctionType, IntegerType, NoneAttr, Signedness, TensorType, TupleType
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError as XdslParseError

from hlo2tx8.dialects.hlo import Hlo, LayoutAttr
from hlo2tx8.errors import CompileError, ParseError

Layout = tuple[int, ...] | None
"""Minor to major; None is row-major."""


@cache
def _context() -> Context:
    context = Context(allow_unregistered=True)
    context.load_dialect(builtin.Builtin)
    context.load_dialect(Hlo)
    return context


@cache
def type_from_text(text: str) -> Attribute:
    """The xDSL type of MLIR's text: unsigned integers as `ui32`, tokens as an unregistered type; else CompileError."""
    try:
        return Parser(_context(), text).parse_type()
    except XdslParseError:
        raise CompileError("E1001", f"no type {text}") from None


def with_layout(type_: Attribute, order: Layout) -> Attribute:
    """A tensor type with a layout; without one where it is row-major. ParseError for an order that names other dimensions."""
    if not isinstance(type_, TensorType) or order is None:
        return cast(Attribute, type_)
    tensor = cast("TensorType[Attribute]", type_)
    rank = tensor.get_num_dims()
    if len(order) != rank or (order == row_major(rank) and not isinstance(tensor.encoding, LayoutAttr)):
        return tensor
    if sorted(order) != list(range(rank)):
        raise ParseError("E1003", f"{{{','.join(map(str, order))}}} is no layout of {rank} dimensions")
    encoding = NoneAttr() if order == row_major(rank) else LayoutAttr(order)
    return TensorType(tensor.get_element_type(), tensor.get_shape(), encoding)


def row_major(rank: int) -> tuple[int, ...]:
    """The layout (minor to major) in which the last dimension is the fastest."""
    return tuple(reversed(range(rank)))


def layout_of(type_: Attribute) -> Layout:
    """The layout (minor to major) of a tensor type, None if it has none."""
    if isinstance(type_, TensorType) and isinstance(type_.encoding, LayoutAttr):
        return type_.encoding.minor_to_major
    return None


_SIGNS = {Signedness.SIGNLESS: "i", Signedness.SIGNED: "si", Signedness.UNSIGNED: "ui"}


@cache
def type_to_text(type_: Attribute) -> str:
    """MLIR's text of a type; layouts are dropped."""
    match type_:
        case TensorType():
            shape = "".join(f"{n}x" if n >= 0 else "?x" for n in type_.get_shape())
            return f"tensor<{shape}{type_to_text(type_.get_element_type())}>"
        case ComplexType():
            return f"complex<{type_to_text(cast(Attribute, type_.get_element_type()))}>"
        case IntegerType():
            return f"{_SIGNS[type_.signedness.data]}{type_.width.data}"
        case TupleType():
            return f"tuple<{', '.join(type_to_text(t) for t in type_.types)}>"
        case FunctionType():
            ins, outs = (", ".join(type_to_text(t) for t in ts) for ts in (type_.inputs, type_.outputs))
            return f"({ins}) -> ({outs})"
        case _:
            return str(type_)
