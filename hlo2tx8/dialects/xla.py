"""The `xla` dialect: loops over indexing maps, element functions, scalar ops arith and math cannot name.

%r = xla.loop (%tile)[%step, %lane] -> (%i, %j) in #map lanes 1 iter_args(%it = %out) -> (tensor<..>) {
  %v = xla.pure_call @f(%p, %i, %j) : (tensor<..>, index, index) -> bf16
  %n = tensor.insert %v into %it[%i, %j] : tensor<..>
  xla.yield %n : tensor<..>
}
"""

from collections.abc import Mapping, Sequence
from typing import Self

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Data, Dialect, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.indexing import IndexingMap

index = IndexType()


@irdl_attr_definition
class IndexingMapAttr(Data[IndexingMap]):
    """`#xla.indexing_map<"(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3]">`."""

    name = "xla.indexing_map"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> IndexingMap:
        with parser.in_angle_brackets():
            return IndexingMap.parse(parser.parse_str_literal())

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data))


def _print_indices(printer: Printer, dims: Sequence[SSAValue], syms: Sequence[SSAValue]) -> None:
    with printer.in_parens():
        printer.print_list(dims, printer.print_ssa_value)
    if syms:
        with printer.in_square_brackets():
            printer.print_list(syms, printer.print_ssa_value)


def _parse_indices(parser: Parser) -> tuple[list[SSAValue], list[SSAValue]]:
    dims = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
    syms = parser.parse_optional_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
    return _resolve(parser, dims), _resolve(parser, syms or [])


def _resolve(parser: Parser, operands: Sequence[UnresolvedOperand]) -> list[SSAValue]:
    return [parser.resolve_operand(operand, index) for operand in operands]


def _parse_map(parser: Parser) -> IndexingMapAttr:
    attr = parser.parse_attribute()
    if not isinstance(attr, IndexingMapAttr):
        parser.raise_error("expected #xla.indexing_map")
    return attr


@irdl_op_definition
class TileIdOp(IRDLOperation):
    """`%tile = xla.tile_id [0, 15]`: the tile this runs on, in the closed range."""

    name = "xla.tile_id"
    range = prop_def(DenseArrayBase.constr(i64))
    tile = result_def(index)
    traits = traits_def(Pure())
    assembly_format = "$range attr-dict"

    def __init__(self, num_tiles: int = 16):
        super().__init__(result_types=[index], properties={"range": DenseArrayBase.from_list(i64, [0, num_tiles - 1])})


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a turn of `xla.loop` with the new values of the iter args."""

    name = "xla.yield"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"

    def __init__(self, arguments: Sequence[SSAValue]):
        super().__init__(operands=[arguments])


@irdl_op_definition
class LoopOp(IRDLOperation):
    """For all range variables of `map`, at the given dimensions, where its domain holds: the body.

    Block arguments: range variables, map results, iter args. The last `num_lanes` range variables are the
    lanes of one step, the others are steps. Points outside the domain or the constraints are skipped.
    """

    name = "xla.loop"
    map = prop_def(IndexingMapAttr)
    num_lanes = prop_def(IntegerAttr.constr(i64))
    dims = var_operand_def(index)
    iter_args = var_operand_def()
    res = var_result_def()
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def()

    def __init__(
        self,
        map: IndexingMapAttr,
        dims: Sequence[SSAValue],
        iter_args: Sequence[SSAValue],
        num_lanes: int,
        body: Region | None = None,
    ):
        types = [value.type for value in iter_args]
        if body is None:
            num_index = len(map.data.ranges) + len(map.data.results)
            body = Region(Block(arg_types=[index] * num_index + types))
        super().__init__(
            operands=[dims, iter_args],
            result_types=[types],
            properties={"map": map, "num_lanes": IntegerAttr(num_lanes, i64)},
            regions=[body],
        )

    @property
    def range_args(self) -> tuple[SSAValue, ...]:
        """The induction variables, one per range variable of the map."""
        return tuple(self.body.block.args[: len(self.map.data.ranges)])

    @property
    def index_args(self) -> tuple[SSAValue, ...]:
        """The map's results inside the body."""
        start = len(self.map.data.ranges)
        return tuple(self.body.block.args[start : start + len(self.map.data.results)])

    @property
    def iter_block_args(self) -> tuple[SSAValue, ...]:
        """The iter args inside the body."""
        return tuple(self.body.block.args[len(self.map.data.ranges) + len(self.map.data.results) :])

    def verify_(self) -> None:
        domain = self.map.data
        if domain.runtime:
            raise VerifyException("xla.loop: runtime variables are not allowed")
        if len(self.dims) != len(domain.dims):
            raise VerifyException(f"xla.loop: {len(self.dims)} dimensions for a map with {len(domain.dims)}")
        if not 0 <= self.num_lanes.value.data <= len(domain.ranges):
            raise VerifyException("xla.loop: num_lanes exceeds the number of range variables")
        expected = len(domain.ranges) + len(domain.results) + len(self.iter_args)
        if len(self.body.block.args) != expected:
            raise VerifyException(f"xla.loop: {expected} block arguments expected")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_indices(printer, self.dims, self.range_args)
        printer.print_string(" -> (")
        printer.print_list(self.index_args, printer.print_ssa_value)
        printer.print_string(") in ")
        printer.print_attribute(self.map)
        printer.print_string(f" lanes {self.num_lanes.value.data} iter_args(")
        pairs = list(zip(self.iter_block_args, self.iter_args, strict=True))
        for position, (arg, init) in enumerate(pairs):
            printer.print_string(", " if position else "")
            printer.print_ssa_value(arg)
            printer.print_string(" = ")
            printer.print_ssa_value(init)
        printer.print_string(") -> (")
        printer.print_list([value.type for value in self.iter_args], printer.print_attribute)
        printer.print_string(") ")
        printer.print_region(self.body, print_entry_block_args=False)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        unresolved = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        dims = _resolve(parser, unresolved)

        def name() -> Parser.UnresolvedArgument:
            return parser.parse_argument(expect_type=False)

        ranges = parser.parse_optional_comma_separated_list(Parser.Delimiter.SQUARE, name) or []
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, name)
        parser.parse_keyword("in")
        map = _parse_map(parser)
        parser.parse_keyword("lanes")
        num_lanes = parser.parse_integer()
        parser.parse_keyword("iter_args")

        def assignment() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
            arg = name()
            parser.parse_punctuation("=")
            return arg, parser.parse_unresolved_operand()

        pairs = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, assignment)
        parser.parse_punctuation("->")
        types = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_type)
        inits = parser.resolve_operands([init for _, init in pairs], types, parser.pos)
        args = [arg.resolve(index) for arg in (*ranges, *results)]
        args += [arg.resolve(type_) for (arg, _), type_ in zip(pairs, types, strict=True)]
        body = parser.parse_region(args)
        op = cls(map, dims, inits, num_lanes, body)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


class _MapOp(IRDLOperation):
    """Form of the ops that evaluate a map at SSA values: `name #map(%dims)[%syms]`."""

    map = prop_def(IndexingMapAttr)
    dims = var_operand_def(index)
    syms = var_operand_def(index)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        map = self.map.data
        if len(self.dims) != len(map.dims) or len(self.syms) != len(map.ranges) + len(map.runtime):
            raise VerifyException(f"{self.name}: operands do not match the variables of the map")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.map)
        _print_indices(printer, self.dims, self.syms)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attr = _parse_map(parser)
        dims, syms = _parse_indices(parser)
        types: list[list[Attribute]] = cls.result_types_of(attr.data)
        op = cls.build(operands=[dims, syms], result_types=types, properties={"map": attr})
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    @classmethod
    def result_types_of(cls, map: IndexingMap) -> list[list[Attribute]]:
        """The types of the results, one list per result definition."""
        raise NotImplementedError(f"E1006: {cls.name} must say its result types")


@irdl_op_definition
class ApplyIndexingOp(_MapOp):
    """`%r0, %r1 = xla.apply_indexing #map(%d0)[%s0]`: the map's results, without a range check."""

    name = "xla.apply_indexing"
    res = var_result_def(index)

    def __init__(self, map: IndexingMapAttr, dims: Sequence[SSAValue], syms: Sequence[SSAValue] = ()):
        super().__init__(operands=[dims, syms], result_types=self.result_types_of(map.data), properties={"map": map})

    @classmethod
    def result_types_of(cls, map: IndexingMap) -> list[list[Attribute]]:
        return [[index] * len(map.results)]


@irdl_op_definition
class InDomainOp(_MapOp):
    """`%b = xla.in_domain #map(%d0)[%s0]`: whether all bounds and constraints of a map hold."""

    name = "xla.in_domain"
    res = result_def(i1)

    def __init__(self, map: IndexingMapAttr, dims: Sequence[SSAValue], syms: Sequence[SSAValue] = ()):
        super().__init__(operands=[dims, syms], result_types=[i1], properties={"map": map})

    @classmethod
    def result_types_of(cls, map: IndexingMap) -> list[list[Attribute]]:
        return [[i1]]


@irdl_op_definition
class PureCallOp(IRDLOperation):
    """A call without effects: equal operands give equal results, so it may be merged, moved and dropped."""

    name = "xla.pure_call"
    callee = prop_def(FlatSymbolRefAttrConstr)
    arguments = var_operand_def()
    res = var_result_def()
    traits = traits_def(Pure())
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    def __init__(self, callee: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]):
        super().__init__(
            operands=[arguments],
            result_types=[result_types],
            properties={"callee": SymbolRefAttr(callee)},
        )


@irdl_op_definition
class ElementwiseOp(IRDLOperation):
    """`xla.elementwise "stablehlo.compare"(%a, %b) {..} : (f32, f32) -> i1`: an HLO op on scalars or vectors.

    Used where arith and math have no op of the same meaning; the meaning is the OpSpec of that name, and the
    op's HLO attributes are its attributes here.
    """

    name = "xla.elementwise"
    op = prop_def(StringAttr)
    arguments = var_operand_def()
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "$op `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    def __init__(
        self,
        op: str,
        arguments: Sequence[SSAValue],
        result_type: Attribute,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        super().__init__(
            operands=[arguments],
            result_types=[result_type],
            properties={"op": StringAttr(op)},
            attributes=dict(attributes or {}),
        )


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A scalar arith.constant cannot hold (unsigned, 8-bit float, complex): `value` is an `hlo.literal`."""

    name = "xla.constant"
    value = prop_def()
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($res)"

    def __init__(self, value: Attribute, result_type: Attribute):
        super().__init__(result_types=[result_type], properties={"value": value})


@irdl_op_definition
class AllocateScratchOp(IRDLOperation):
    """A tensor in device memory for an element function that is called more than once; contents undefined."""

    name = "xla.allocate_scratch"
    res = result_def(TensorType)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, result_type: Attribute):
        super().__init__(result_types=[result_type])


@irdl_op_definition
class SyncTilesOp(IRDLOperation):
    """Barrier of all tiles: after it, every tile sees what any tile wrote into these tensors."""

    name = "xla.sync_tiles"
    arguments = var_operand_def(TensorType)
    res = var_result_def(TensorType)
    traits = traits_def()
    assembly_format = "$arguments attr-dict `:` type($arguments) `->` type($res)"

    def __init__(self, arguments: Sequence[SSAValue]):
        super().__init__(operands=[arguments], result_types=[[value.type for value in arguments]])


ENTRY: str = "xla.entry"
"""Unit attribute of the function that writes a fusion's results."""
LANE: str = "xla.lane"
"""Unit attribute of the scf.for loops over the lanes of one step."""


Xla = Dialect(
    "xla",
    [
        TileIdOp,
        LoopOp,
        YieldOp,
        ApplyIndexingOp,
        InDomainOp,
        PureCallOp,
        ElementwiseOp,
        ConstantOp,
        AllocateScratchOp,
        SyncTilesOp,
    ],
    [IndexingMapAttr],
)
