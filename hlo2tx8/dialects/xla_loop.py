"""`xla.loop`, the loop over an indexing map, and its terminator."""

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.dialects.xla_indexing import IndexingMapAttr, index, parse_map, print_indices, resolve
from hlo2tx8.ir import DeclaredOp, i64_attr


@irdl_op_definition
class YieldOp(DeclaredOp):
    """Ends a turn of `xla.loop` with the new values of the iter args."""

    name = "xla.yield"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"

    def __init__(self, arguments: Sequence[SSAValue]):
        super().__init__(operands=[arguments])


@irdl_op_definition
class LoopOp(DeclaredOp):
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
            properties={"map": map, "num_lanes": i64_attr(num_lanes)},
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
        print_indices(printer, self.dims, self.range_args)
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
        dims = resolve(parser, unresolved)

        def name() -> Parser.UnresolvedArgument:
            return parser.parse_argument(expect_type=False)

        ranges = parser.parse_optional_comma_separated_list(Parser.Delimiter.SQUARE, name) or []
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, name)
        parser.parse_keyword("in")
        map = parse_map(parser)
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
