"""Dialect `hlo`: what HLO has beyond StableHLO: fusions with a kind, layouts, literals, bitcast and copy.

%0 = "hlo.fusion"(%arg0) <{kind = "kLoop"}> ({
^bb0(%p : tensor<6x512x4096xbf16>):
  ...
  "stablehlo.return"(%r)
})
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
from xdsl.ir import Attribute, Data, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from hlo2tx8.dialects.hlo_bits import FromBitsOp, ToBitsOp
from hlo2tx8.dialects.hlo_indexed import ReadAtOp, WriteAtOp
from hlo2tx8.dialects.hlo_lines import JoinAtOp, ScanOp, SortWordsOp
from hlo2tx8.dialects.literal import ElementsAttr, Literal, LiteralAttr, is_splat_literal
from hlo2tx8.dialects.xla_indexing import IndexingMapAttr
from hlo2tx8.ir import DeclaredOp, integers, text_attr


@irdl_attr_definition
class LayoutAttr(Data[tuple[int, ...]]):
    """Tensor encoding `#hlo.layout<[0, 1]>`: dimensions from the fastest to the slowest in memory."""

    name = "hlo.layout"

    @staticmethod
    def of(minor_to_major: tuple[int, ...]) -> "LayoutAttr":
        return LayoutAttr(tuple(minor_to_major))

    @property
    def minor_to_major(self) -> tuple[int, ...]:
        """The dimensions, the fastest first."""
        return self.data

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        with parser.in_angle_brackets():
            return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(list(self.data)))


def minor_to_major(type_: TensorType[Attribute]) -> tuple[int, ...]:
    """The layout of a tensor type; row-major where it has none."""
    if isinstance(type_.encoding, LayoutAttr):
        return type_.encoding.data
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


@irdl_attr_definition
class OpaqueAttr(Data[str]):
    """`#hlo.opaque<"#sdy.sharding<...>">`: an attribute of a dialect not known here, as MLIR prints it."""

    name = "hlo.opaque"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_str_literal()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data)


@irdl_op_definition
class FusionOp(DeclaredOp):
    """A fusion: block arguments are its parameters, in the order of the operands. `is_expansion`: it is what one instruction
    became, not a fusion of the source. `tiles`: row, column, rows and columns of the tiles that run it, if not all do. `coarse`:
    attributes of the coarse op `fusion_name` that it is; its body is what that computes."""

    name = "hlo.fusion"
    inputs = var_operand_def()
    outputs = var_result_def()
    kind = prop_def(StringAttr)
    fusion_name = opt_prop_def(StringAttr)
    is_expansion = opt_prop_def(UnitAttr)
    tiles = opt_prop_def(DenseArrayBase[IntegerType])
    coarse = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")

    def __init__(self, inputs: list[SSAValue], result_types: list[Attribute], kind: str, body: Region, name: str = "") -> None:
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={"kind": text_attr(kind)} | ({"fusion_name": text_attr(name)} if name else {}),
            regions=[body],
        )


@irdl_op_definition
class LibraryOp(DeclaredOp):
    """A coarse op that a registered kernel computes; its body says what that is. `code`: records, scratchpad and scratch tensors as
    of launch.library, or a module at level LOOPS as text. `epilogue`: the body is what that computes, as a fusion, and a fusion of
    what is computed behind it before it is stored."""

    name = "hlo.library"
    inputs = var_operand_def()
    outputs = var_result_def()
    fusion_name = prop_def(StringAttr)
    kernel = prop_def(StringAttr)
    code = prop_def(DictionaryAttr | StringAttr)
    epilogue = opt_prop_def(UnitAttr)
    body = region_def("single_block")


@irdl_op_definition
class GroupOp(DeclaredOp):
    """Fusions whose intermediates stay in SPM.

    `rows`, of a group that computes some rows of each fusion per step: rows of a chunk, which are one tile's, and of a step.
    `band`, of one whose results are images: rows of the last fusion's result that a step computes.
    `phases`, of one whose fusions, or groups by bands, run one after the other: what several of them read of DDR, or one leaves to
    the next, stays in SPM between them. `attempt`, of one of groups by bands that did not fit: how often they were made anew, for
    less room each time.
    """

    name = "hlo.group"
    inputs = var_operand_def()
    outputs = var_result_def()
    row_split = opt_prop_def(DenseArrayBase.constr(i64), prop_name="rows")
    band_rows = opt_prop_def(IntegerAttr, prop_name="band")
    phases = opt_prop_def(UnitAttr)
    attempt_number = opt_prop_def(IntegerAttr, prop_name="attempt")
    body = region_def("single_block")

    @property
    def attempt(self) -> int:
        """How often its phases were made anew."""
        return self.attempt_number.value.data if self.attempt_number is not None else 0

    @property
    def is_kernel(self) -> bool:
        """Are its fusions one kernel?"""
        return self.row_split is not None or self.band_rows is not None or self.phases is not None


@irdl_op_definition
class BitcastOp(DeclaredOp):
    """The same bytes under another shape or layout."""

    name = "hlo.bitcast"
    operand = var_operand_def()
    result = var_result_def()


@irdl_op_definition
class CopyOp(DeclaredOp):
    """The same elements, in the layout of the result."""

    name = "hlo.copy"
    operand = var_operand_def()
    result = var_result_def()


@irdl_op_definition
class UnknownOp(DeclaredOp):
    """An op no dialect here has: kept, so that all of a module's are reported at once."""

    name = "hlo.unknown"
    inputs = var_operand_def()
    outputs = var_result_def()
    bodies = var_region_def()
    op_name = prop_def(StringAttr)


def name_of(op: Operation) -> str:
    """The op's name in the source: `mhlo.stochastic_convert` of an `hlo.unknown`."""
    return op.op_name.data if isinstance(op, UnknownOp) else op.name


def origin(op: Operation) -> str:
    """`file:line:col name` of the HLO instruction an op came from; empty if unknown."""
    loc = op.attributes.get("loc")
    return loc.data if isinstance(loc, StringAttr) else ""


def decode_attributes(op: Operation) -> dict[str, Any]:
    """The op's properties and attributes as Python values: tuples of ints, ints, str, bool, arrays, Struct."""
    both: Mapping[str, Attribute] = {**op.attributes, **op.properties}
    return {name: decode_attribute(value) for name, value in both.items() if name != "loc"}


def decode_attribute(value: Attribute) -> Any:
    """One attribute as a Python value; an attribute without one stays as it is."""
    decode = _DECODERS.get(type(value))
    return value if decode is None else decode(value)


def _decode_array(value: DenseArrayBase[Any]) -> tuple[int, ...] | tuple[bool, ...]:
    if (width := value.elt_type.width.data) == 64:
        return integers(value)
    as_bool = width == 1
    return tuple(bool(v) if as_bool else int(v) for v in value.get_values())


def _decode_integer(value: IntegerAttr) -> int | bool:
    is_bool = isinstance(value.type, IntegerType) and value.type.width.data == 1
    return bool(value.value.data) if is_bool else value.value.data


_DECODERS: Mapping[type[Attribute], Callable[[Any], Any]] = {
    DenseArrayBase: _decode_array,
    IntegerAttr: _decode_integer,
    FloatAttr: lambda value: value.value.data,
    **dict.fromkeys((StringAttr, StructAttr, OpaqueAttr, IndexingMapAttr), lambda value: value.data),
    **dict.fromkeys((LiteralAttr, ElementsAttr), lambda value: value.array),
    ArrayAttr: lambda value: tuple(map(decode_attribute, value.data)),
    DictionaryAttr: lambda value: {key: decode_attribute(own) for key, own in value.data.items()},
    SymbolRefAttr: lambda value: value.string_value(),
    UnitAttr: lambda value: True,
}
"""By class of attribute: none of them has subclasses, and looking through them is what reading attributes took most of."""


Hlo = Dialect(
    "hlo",
    [
        FusionOp,
        GroupOp,
        LibraryOp,
        BitcastOp,
        CopyOp,
        ReadAtOp,
        WriteAtOp,
        ScanOp,
        SortWordsOp,
        JoinAtOp,
        ToBitsOp,
        FromBitsOp,
        UnknownOp,
    ],
    [ElementsAttr, LayoutAttr, LiteralAttr, OpaqueAttr, StructAttr],
)
__all__ = [
    "BitcastOp",
    "CopyOp",
    "ElementsAttr",
    "FromBitsOp",
    "FusionOp",
    "GroupOp",
    "Hlo",
    "LayoutAttr",
    "LibraryOp",
    "Literal",
    "LiteralAttr",
    "OpaqueAttr",
    "Struct",
    "StructAttr",
    "ToBitsOp",
    "UnknownOp",
    "decode_attribute",
    "decode_attributes",
    "is_splat_literal",
    "minor_to_major",
    "name_of",
    "origin",
]
