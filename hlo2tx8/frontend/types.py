"""Types: MLIR's, as xDSL has them, and back to text."""

from functools import cache
from typing import cast

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ComplexType, FunctionType, IntegerType, NoneAttr, Signedness, TensorType, TupleType
from xdsl.ir import Attribute
from xdsl.parser import Parser

from hlo2tx8.dialects.hlo import Hlo, LayoutAttr


@cache
def _context() -> Context:
    context = Context(allow_unregistered=True)
    context.load_dialect(builtin.Builtin)
    context.load_dialect(Hlo)
    return context


@cache
def type_from_text(text: str) -> Attribute:
    """The xDSL type of MLIR's text: tensors, unsigned integers as `ui32`, tokens as an unregistered type."""
    return Parser(_context(), text).parse_type()


def with_layout(type_: Attribute, order: tuple[int, ...] | None) -> Attribute:
    """A tensor type with a layout; without one where it is row-major."""
    if order is None or not isinstance(type_, TensorType):
        return type_
    if order == tuple(reversed(range(len(type_.get_shape())))):
        return cast(Attribute, type_)
    tensor = cast(TensorType[Attribute], type_)
    return TensorType(tensor.element_type, tensor.get_shape(), LayoutAttr.of(order))


@cache
def type_to_text(type_: Attribute) -> str:
    """MLIR's text of a type; layouts are dropped."""
    match type_:
        case TensorType():
            shape = "".join(f"{n}x" if n >= 0 else "?x" for n in type_.get_shape())
            return f"tensor<{shape}{type_to_text(type_.element_type)}>"
        case ComplexType():
            return f"complex<{type_to_text(type_.element_type)}>"
        case IntegerType():
            prefix = {Signedness.SIGNLESS: "i", Signedness.SIGNED: "si", Signedness.UNSIGNED: "ui"}
            return f"{prefix[type_.signedness.data]}{type_.width.data}"
        case TupleType():
            return f"tuple<{', '.join(type_to_text(t) for t in type_.types)}>"
        case FunctionType():
            ins, outs = (", ".join(type_to_text(t) for t in ts) for ts in (type_.inputs, type_.outputs))
            return f"({ins}) -> ({outs})"
        case NoneAttr():
            return "none"
        case _:
            return str(type_)
