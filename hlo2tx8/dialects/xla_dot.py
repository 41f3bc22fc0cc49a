"""`xla.dot`: one block of a contraction, as the matrix engine computes it.

%new = xla.dot lanes 256 init(%acc : f32) {
^bb0(%k: index):
  %x = tensor.extract %p0[%i, %k]
  xla.yield %x : bf16
} by {
^bb0(%k: index):
  %y = tensor.extract %p1[%k, %j]
  xla.yield %y : bf16
}
"""

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerAttr, IntegerType, i8, i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, region_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.dialects.xla_indexing import index


def sums_type(element: Attribute) -> Attribute | None:
    """The type in which products of two such elements are added up; None if the matrix engine does not multiply them."""
    if isinstance(element, BFloat16Type | Float16Type | Float32Type):
        return Float32Type()
    return i32 if isinstance(element, IntegerType) and element == i8 else None


@irdl_op_definition
class DotOp(IRDLOperation):
    """init + the sum over lanes of a row's element times a column's; lanes are taken in order, see `device/ne_rules.py`.

    Both regions get the lane and yield an element; f32 elements count without the bits TF32 lacks. What differs from one row to
    the next occurs in `row` only, what differs from one column to the next in `column` only.
    """

    name = "xla.dot"
    lanes = prop_def(IntegerAttr.constr(i64))
    init = operand_def()
    row = region_def("single_block")
    column = region_def("single_block")
    res = result_def()
    traits = traits_def()
    assembly_format = "`lanes` $lanes `init` `(` $init `:` type($init) `)` $row `by` $column attr-dict `:` type($res)"

    def __init__(self, lanes: int, init: SSAValue, row: Block, column: Block):
        super().__init__(
            operands=[init],
            result_types=[init.type],
            properties={"lanes": IntegerAttr(lanes, i64)},
            regions=[Region(row), Region(column)],
        )

    @property
    def num_lanes(self) -> int:
        return self.lanes.value.data

    @property
    def element_type(self) -> Attribute:
        """The type of the elements that are multiplied."""
        return yielded(self.row.block).type

    def verify_(self) -> None:
        for block in (self.row.block, self.column.block):
            if list(block.arg_types) != [index]:
                raise VerifyException("xla.dot: the elements depend on the lane")
            if yielded(block).type != self.element_type:
                raise VerifyException("xla.dot: rows and columns have elements of one type")
        if self.init.type != sums_type(self.element_type) or self.res.type != self.init.type:
            raise VerifyException("xla.dot: sums are of the type of the engine's partial sums")


def yielded(block: Block) -> SSAValue:
    """The one value that a block's terminator hands on."""
    terminator = block.last_op
    assert terminator is not None
    return terminator.operands[0]
