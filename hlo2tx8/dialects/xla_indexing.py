"""Indexing maps in the IR: the attribute, and the ops that evaluate a map at SSA values."""

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import IndexType, i1
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.indexing import IndexingMap
from hlo2tx8.ir import DeclaredOp

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


def print_indices(printer: Printer, dims: Sequence[SSAValue], syms: Sequence[SSAValue]) -> None:
    """`(%dims)[%syms]`."""
    with printer.in_parens():
        printer.print_list(dims, printer.print_ssa_value)
    if syms:
        with printer.in_square_brackets():
            printer.print_list(syms, printer.print_ssa_value)


def parse_indices(parser: Parser) -> tuple[list[SSAValue], list[SSAValue]]:
    """What `print_indices` printed."""
    dims = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
    syms = parser.parse_optional_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
    return resolve(parser, dims), resolve(parser, syms or [])


def resolve(parser: Parser, operands: Sequence[UnresolvedOperand]) -> list[SSAValue]:
    """The values of these names, all of type index."""
    return [parser.resolve_operand(operand, index) for operand in operands]


def parse_map(parser: Parser) -> IndexingMapAttr:
    """An `#xla.indexing_map`, or an error at its place."""
    attr = parser.parse_attribute()
    if not isinstance(attr, IndexingMapAttr):
        parser.raise_error("expected #xla.indexing_map")
    return attr


class MapOp(DeclaredOp):
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
        print_indices(printer, self.dims, self.syms)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attr = parse_map(parser)
        dims, syms = parse_indices(parser)
        types: list[list[Attribute]] = cls.result_types_of(attr.data)
        op = cls.build(operands=[dims, syms], result_types=types, properties={"map": attr})
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    @classmethod
    def result_types_of(cls, map: IndexingMap) -> list[list[Attribute]]:
        """The types of the results, one list per result definition."""
        raise NotImplementedError(f"E1006: {cls.name} must say its result types")


@irdl_op_definition
class ApplyIndexingOp(MapOp):
    """`%r0, %r1 = xla.apply_indexing #map(%d0)[%s0]`: the map's results, without a range check."""

    name = "xla.apply_indexing"
    res = var_result_def(index)

    def __init__(self, map: IndexingMapAttr, dims: Sequence[SSAValue], syms: Sequence[SSAValue] = ()):
        super().__init__(operands=[dims, syms], result_types=self.result_types_of(map.data), properties={"map": map})

    @classmethod
    def result_types_of(cls, map: IndexingMap) -> list[list[Attribute]]:
        return [[index] * len(map.results)]


@irdl_op_definition
class InDomainOp(MapOp):
    """`%b = xla.in_domain #map(%d0)[%s0]`: whether all bounds and constraints of a map hold."""

    name = "xla.in_domain"
    res = result_def(i1)

    def __init__(self, map: IndexingMapAttr, dims: Sequence[SSAValue], syms: Sequence[SSAValue] = ()):
        super().__init__(operands=[dims, syms], result_types=[i1], properties={"map": map})

    @classmethod
    def result_types_of(cls, map: IndexingMap) -> list[list[Attribute]]:
        return [[i1]]
