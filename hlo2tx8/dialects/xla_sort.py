"""`xla.sort_lanes`: lanes of a step in order.

In a step with lanes [%row, %column], the numbers of each row from the smallest to the largest:

%a, %b = xla.sort_lanes along 1 of (%x, %y : f32, f32)

and with `descending(%odd : index)` the other way round in steps in which that is 1.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.dialects.xla_indexing import index
from hlo2tx8.ir import DeclaredOp, i64_attr


class SortLanesForm(DeclaredOp):
    """What a sort of lanes says at every level: along which lane dimension, the words, and whether the largest comes first.

    Tuples of words are ordered by the first word, equal ones by the next; all of a line differ. Words are f32, no NaN and no -0. A
    line that `is_bitonic` rises, then falls, or is a rotation of one that does.
    """

    along = prop_def(IntegerAttr.constr(i64))
    is_bitonic = opt_prop_def(UnitAttr)
    words = var_operand_def()
    descending = opt_operand_def(index)
    res = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def()

    def __init__(self, along: int, words: Sequence[SSAValue], descending: SSAValue | None, *, is_bitonic: bool = False):
        super().__init__(
            operands=[words, descending],
            result_types=[[value.type for value in words]],
            properties={"along": i64_attr(along)} | ({"is_bitonic": UnitAttr()} if is_bitonic else {}),
        )

    @property
    def lane(self) -> int:
        """The lane dimension of the step that is sorted along."""
        return self.along.value.data

    def verify_(self) -> None:
        if not self.words or list(self.res.types) != list(self.words.types):
            raise VerifyException(f"{self.name}: words and results are of the same types")


@irdl_op_definition
class SortLanesOp(SortLanesForm):
    """The words of all lanes of the step that differ along one dimension alone, in order; those lanes live all, or none does.

    `descending` is the same in all lanes of a step: 1 where the largest comes first, else 0.
    """

    name = "xla.sort_lanes"
    assembly_format = (
        "(`bitonic` $is_bitonic^)? `along` $along `of` `(` $words `:` type($words) `)` (`descending` `(` $descending^ `)`)?"
        " attr-dict `:` type($res)"
    )
