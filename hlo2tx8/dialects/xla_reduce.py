"""`xla.reduce`: one block of a reduction, whose elements lanes give side by side.

%new = xla.reduce lanes 64 init(%acc : f32) {
^bb0(%lane: index):
  %x = tensor.extract %p0[%i, %lane]
  xla.yield %x : f32
} by {
^bb0(%a: f32, %b: f32):
  %c = arith.addf %a, %b : f32
  xla.yield %c : f32
}
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.dialects.xla_indexing import index


class ReduceForm(IRDLOperation):
    """What a block of a reduction says at every level: how many lanes, their elements, how two are joined."""

    lanes = prop_def(IntegerAttr.constr(i64))
    is_outer = opt_prop_def(UnitAttr)
    elements = region_def("single_block")
    combiner = region_def("single_block")

    def __init__(self, lanes: int, init: Sequence[SSAValue], elements: Block, combiner: Block, *, is_outer: bool = False):
        types: list[Attribute] = [value.type for value in init]
        super().__init__(
            operands=[init],
            result_types=[types],
            properties={"lanes": IntegerAttr(lanes, i64)} | ({"is_outer": UnitAttr()} if is_outer else {}),
            regions=[Region(elements), Region(combiner)],
        )

    @property
    def num_lanes(self) -> int:
        return self.lanes.value.data


@irdl_op_definition
class ReduceOp(ReduceForm):
    """init joined with the elements of every lane, each taken once, in any order.

    `elements` yields the elements of a lane, one per result; `combiner` takes two values per result, all of the first operand
    before those of the second, and must be associative and commutative. `is_outer`: an element of the next lane is further away
    in memory than that of the next lane of the loop around.
    """

    name = "xla.reduce"
    init = var_operand_def()
    res = var_result_def()
    traits = traits_def()
    assembly_format = (
        "(`outer` $is_outer^)? `lanes` $lanes `init` `(` $init `:` type($init) `)` $elements `by` $combiner"
        " attr-dict `:` type($res)"
    )

    def verify_(self) -> None:
        types = list(self.init.types)
        if list(self.res.types) != types:
            raise VerifyException("xla.reduce: results are of the types of the initial values")
        if list(self.elements.block.arg_types) != [index]:
            raise VerifyException("xla.reduce: the elements depend on the lane")
        if list(self.combiner.block.arg_types) != [*types, *types]:
            raise VerifyException("xla.reduce: the combiner takes two values per result")
