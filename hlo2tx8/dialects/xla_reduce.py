"""`xla.reduce`: one block of a reduction, whose elements lanes give side by side. `xla.reduce_lanes`: over the lanes of a step.
`xla.scan_lanes`: of the lanes of a step up to each.

%new = xla.reduce lanes 64 init(%acc : f32) {
^bb0(%lane: index):
  %x = tensor.extract %p0[%i, %lane]
  xla.yield %x : f32
} by {
^bb0(%a: f32, %b: f32):
  %c = arith.addf %a, %b : f32
  xla.yield %c : f32
}

In a step with lanes [%row, %column], the sum of each row, known in every lane of the row:

%sum = xla.reduce_lanes over [1] of (%x : f32) init (%zero : f32) {
^bb0(%a: f32, %b: f32):
  %c = arith.addf %a, %b : f32
  xla.yield %c : f32
} : f32
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
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
from hlo2tx8.ir import DeclaredOp, i64_array, i64_attr


class ReduceForm(DeclaredOp):
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
            properties={"lanes": i64_attr(lanes)} | ({"is_outer": UnitAttr()} if is_outer else {}),
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


class ReduceLanesForm(DeclaredOp):
    """What a reduction over lanes of the step says at every level: which lanes, their elements, how two are joined."""

    over = prop_def(DenseArrayBase.constr(i64))
    elements = var_operand_def()
    init = var_operand_def()
    combiner = region_def("single_block")
    res = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def()

    def __init__(self, over: Sequence[int], elements: Sequence[SSAValue], init: Sequence[SSAValue], combiner: Block):
        types: list[Attribute] = [value.type for value in elements]
        super().__init__(
            operands=[elements, init],
            result_types=[types],
            properties={"over": i64_array(over)},
            regions=[Region(combiner)],
        )

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lane dimensions of the step that are joined."""
        return tuple(int(lane) for lane in self.over.get_values())

    def verify_(self) -> None:
        types = list(self.elements.types)
        if list(self.init.types) != types or list(self.res.types) != types:
            raise VerifyException(f"{self.name}: elements, initial values and results are of the same types")
        if len(self.combiner.block.args) != 2 * len(types):
            raise VerifyException(f"{self.name}: the combiner takes two values per result")


@irdl_op_definition
class ReduceLanesOp(ReduceLanesForm):
    """init joined with the elements of all lanes of the step that differ from this one along the dimensions `over` alone.

    `over` numbers the lanes of the loop around, each of which must be whole: all of its lanes live in every step. The combiner is
    as that of `xla.reduce`; the initial value is the same in the lanes that are joined.
    """

    name = "xla.reduce_lanes"
    assembly_format = (
        "`over` $over `of` `(` $elements `:` type($elements) `)` `init` `(` $init `:` type($init) `)` $combiner"
        " attr-dict `:` type($res)"
    )


@irdl_op_definition
class ScanLanesOp(ReduceLanesForm):
    """init joined with the elements of all lanes up to this one along the one dimension `over`.

    Each element is joined with the one before it, what that gives with the one 2 before it, then 4, 8 ..., and at last the initial
    value in front. All lanes along the dimension live, or none does; the initial value is the same in all of them.
    """

    name = "xla.scan_lanes"
    assembly_format = (
        "`over` $over `of` `(` $elements `:` type($elements) `)` `init` `(` $init `:` type($init) `)` $combiner"
        " attr-dict `:` type($res)"
    )
