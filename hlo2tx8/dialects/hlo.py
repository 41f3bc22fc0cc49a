"""Dialect `hlo`: what HLO has beyond StableHLO: fusions with a kind, layouts, literals, bitcast and copy.

%0 = "hlo.fusion"(%arg0) <{kind = "kLoop"}> ({
^bb0(%p : tensor<6x512x4096xbf16>):
  ...
  "stablehlo.return"(%r)
})
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Data, Dialect, Operation, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class Literal:
    """A constant array, bit-exact; equal if dtype, shape and bytes are. A splat is kept as a 0-d array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array) if array.ndim else np.array(array)
        self.array.setflags(write=False)

    @cached_property
    def digest(self) -> bytes:
        return hashlib.blake2b(self.array.tobytes(), digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Literal)
            and other.array.dtype == self.array.dtype
            and other.array.shape == self.array.shape
            and other.digest == self.digest
        )

    def __hash__(self) -> int:
        return hash((self.array.dtype.name, self.array.shape, self.digest))


@irdl_attr_definition
class LiteralAttr(Data[Literal]):
    """`#hlo.literal<"bfloat16", [2], "base64 of the bytes">`; shape [] for a splat of any shape."""

    name = "hlo.literal"

    @staticmethod
    def from_array(array: np.ndarray, type_: Attribute | None = None) -> "LiteralAttr":
        """The literal of an array; one whose elements all have the same bytes becomes a splat."""
        array = np.asarray(array)
        if array.ndim and array.size:
            rows = array.reshape(-1).view(np.uint8).reshape(array.size, -1)
            if (rows == rows[0]).all():
                array = array.reshape(-1)[:1].reshape(())
        return LiteralAttr(Literal(array))

    @property
    def array(self) -> np.ndarray:
        """The elements; 0-d for a splat."""
        return self.data.array

    def broadcast(self, shape: tuple[int, ...]) -> np.ndarray:
        """The elements in the shape of the constant."""
        return np.broadcast_to(self.array, shape)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Literal:
        with parser.in_angle_brackets():
            name = parser.parse_str_literal()
            parser.parse_punctuation(",")
            shape = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            parser.parse_punctuation(",")
            data = base64.b64decode(parser.parse_str_literal())
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        return Literal(np.frombuffer(data, dtype).reshape(shape))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.array.dtype.name)
            printer.print_string(f", [{', '.join(str(n) for n in self.array.shape)}], ")
            printer.print_string_literal(base64.b64encode(self.array.tobytes()).decode())


def is_splat_literal(op: Operation) -> bool:
    """Whether a constant op has the same element everywhere."""
    value = op.properties.get("value")
    return isinstance(value, LiteralAttr) and value.array.ndim == 0


@irdl_attr_definition
class LayoutAttr(ParametrizedAttribute):
    """Tensor encoding `#hlo.layout<array<i64: 0, 1>>`: dimensions from the fastest to the slowest in memory."""

    name = "hlo.layout"
    minor_to_major: DenseArrayBase[IntegerType]

    @staticmethod
    def of(minor_to_major: tuple[int, ...]) -> "LayoutAttr":
        return LayoutAttr(DenseArrayBase.from_list(i64, list(minor_to_major)))

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(int(d) for d in self.minor_to_major.get_values())


def minor_to_major(type_: TensorType[Attribute]) -> tuple[int, ...]:
    """The layout of a tensor type; row-major where it has none."""
    if isinstance(type_.encoding, LayoutAttr):
        return type_.encoding.order
    return tuple(reversed(range(type_.get_num_dims())))


@dataclass(frozen=True)
class Struct:
    """A structured StableHLO attribute: its kind, its fields (integers or tuples), and the text MLIR prints."""

    kind: str
    fields: tuple[tuple[str, Any], ...]
    text: str

    def __getattr__(self, name: str) -> Any:
        for field, value in object.__getattribute__(self, "fields"):
            if field == name:
                return value
        raise AttributeError(f"{object.__getattribute__(self, 'kind')} has no field {name}")


@irdl_attr_definition
class StructAttr(Data[Struct]):
    """`#hlo.struct<"#stablehlo.dot<...>">`: dot, gather, scatter, convolution dimension numbers and their kind."""

    name = "hlo.struct"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Struct:
        from hlo2tx8.dialects.struct_text import parse_struct

        with parser.in_angle_brackets():
            return parse_struct(parser.parse_str_literal())

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data.text)


@irdl_op_definition
class FusionOp(IRDLOperation):
    """A fusion: block arguments are its parameters, in the order of the operands."""

    name = "hlo.fusion"
    inputs = var_operand_def()
    outputs = var_result_def()
    kind = prop_def(StringAttr)
    fusion_name = opt_prop_def(StringAttr)
    body = region_def("single_block")

    def __init__(self, inputs: list[SSAValue], result_types: list[Attribute], kind: str, body: Region, name: str = "") -> None:
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={"kind": StringAttr(kind)} | ({"fusion_name": StringAttr(name)} if name else {}),
            regions=[body],
        )


@irdl_op_definition
class GroupOp(IRDLOperation):
    """Fusions whose intermediates stay in SPM."""

    name = "hlo.group"
    inputs = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class BitcastOp(IRDLOperation):
    """The same bytes under another shape or layout."""

    name = "hlo.bitcast"
    operand = var_operand_def()
    result = var_result_def()


@irdl_op_definition
class CopyOp(IRDLOperation):
    """The same elements, in the layout of the result."""

    name = "hlo.copy"
    operand = var_operand_def()
    result = var_result_def()


@irdl_op_definition
class UnknownOp(IRDLOperation):
    """An op no dialect here has: kept, so that all of a module's are reported at once."""

    name = "hlo.unknown"
    operands_ = var_operand_def()
    results_ = var_result_def()
    op_name = prop_def(StringAttr)


def origin(op: Operation) -> str:
    """`file:line:col name` of the HLO instruction an op came from; empty if unknown."""
    loc = op.attributes.get("loc")
    return loc.data if isinstance(loc, StringAttr) else ""


def decode_attributes(op: Operation) -> dict[str, Any]:
    """The op's properties and attributes as Python values: tuples of ints, ints, str, bool, arrays, Struct."""
    both: Mapping[str, Attribute] = {**op.attributes, **op.properties}
    return {name: decode_attribute(value) for name, value in both.items()}


def decode_attribute(value: Attribute) -> Any:
    """One attribute as a Python value; an attribute without one stays as it is."""
    match value:
        case DenseArrayBase():
            numbers = cast(DenseArrayBase[IntegerType], value)
            as_bool = numbers.elt_type.width.data == 1
            return tuple(bool(v) if as_bool else int(v) for v in numbers.get_values())
        case IntegerAttr():
            if isinstance(value.type, IntegerType) and value.type.width.data == 1:
                return bool(value.value.data)
            return value.value.data
        case FloatAttr():
            return value.value.data
        case StringAttr():
            return value.data
        case LiteralAttr():
            return value.array
        case StructAttr():
            return value.data
        case ArrayAttr():
            return tuple(decode_attribute(v) for v in value.data)
        case DictionaryAttr():
            return {k: decode_attribute(v) for k, v in value.data.items()}
        case SymbolRefAttr():
            return value.string_value()
        case UnitAttr():
            return True
        case _:
            return value


Hlo = Dialect("hlo", [FusionOp, GroupOp, BitcastOp, CopyOp, UnknownOp], [LiteralAttr, LayoutAttr, StructAttr])
__all__ = [
    "BitcastOp",
    "CopyOp",
    "FusionOp",
    "GroupOp",
    "Hlo",
    "LayoutAttr",
    "Literal",
    "LiteralAttr",
    "Struct",
    "StructAttr",
    "UnknownOp",
    "decode_attribute",
    "decode_attributes",
    "is_splat_literal",
    "minor_to_major",
    "origin",
]
