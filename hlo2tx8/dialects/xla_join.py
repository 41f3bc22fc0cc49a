"""`xla.join_at`: updates that are joined with the lanes of a step that their indices name, one after the other.

In a step with lanes [%line, %place, %column], each of whose lines has 512 places and 2048 updates:

%new = xla.join_at along 1 updates 2048 init(%old : f32) {
^bb0(%k: index):
  %i = tensor.extract %p1[%line, %k]
  xla.yield %i : i32
} of {
^bb0(%k: index):
  %u = tensor.extract %p2[%line, %k, %column]
  xla.yield %u : f32
} by {
^bb0(%a: f32, %b: f32):
  %c = arith.addf %a, %b : f32
  xla.yield %c : f32
} : f32
"""

from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, region_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.dialects.xla_dot import yielded
from hlo2tx8.dialects.xla_indexing import index
from hlo2tx8.ir import DeclaredOp, i64_attr


class JoinAtForm(DeclaredOp):
    """What updates of a step's lanes say at every level: the lane dimension of the places, how many updates a line has, the place
    and the element of each, how an element is joined with the one that is there.

    Places depend on the lanes in front of that dimension, which must be whole, elements on all others. A place that is no lane is
    left out.
    """

    along = prop_def(IntegerAttr.constr(i64))
    updates = prop_def(IntegerAttr.constr(i64))
    init = operand_def()
    places = region_def("single_block")
    elements = region_def("single_block")
    combiner = region_def("single_block")
    res = result_def()
    traits = traits_def()

    def __init__(self, along: int, updates: int, init: SSAValue, places: Block, elements: Block, combiner: Block):
        super().__init__(
            operands=[init],
            result_types=[init.type],
            properties={"along": i64_attr(along), "updates": i64_attr(updates)},
            regions=[Region(places), Region(elements), Region(combiner)],
        )

    @property
    def lane(self) -> int:
        """The lane dimension of the step whose lanes are places."""
        return self.along.value.data

    @property
    def num_updates(self) -> int:
        return self.updates.value.data


@irdl_op_definition
class JoinAtOp(JoinAtForm):
    """init, with the updates whose place is this lane joined with it in order: `combiner` takes what is there and an update."""

    name = "xla.join_at"
    assembly_format = (
        "`along` $along `updates` $updates `init` `(` $init `:` type($init) `)` $places `of` $elements `by` $combiner"
        " attr-dict `:` type($res)"
    )

    def verify_(self) -> None:
        type_ = self.init.type
        if any(list(block.arg_types) != [index] for block in (self.places.block, self.elements.block)):
            raise VerifyException("xla.join_at: places and elements depend on the number of the update")
        if yielded(self.places.block).type != i32 or yielded(self.elements.block).type != type_ or self.res.type != type_:
            raise VerifyException("xla.join_at: places are i32, elements and the result are of the type of the initial value")
        if list(self.combiner.block.arg_types) != [type_, type_]:
            raise VerifyException("xla.join_at: the combiner takes two values")
