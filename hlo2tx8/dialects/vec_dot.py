"""`vec.dot`: a block of a contraction inside of a box."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, region_def, result_def

from hlo2tx8.dialects.xla_dot import DotForm, WindowLine, yielded
from hlo2tx8.ir import i64_array


@irdl_op_definition
class VecDotOp(DotForm):
    """init + the sum over the depth of row times column, for each lane of the box.

    `depth` are the sizes of the lane dimensions that are summed over, row-major. Vectors inside `row` have the lane dimensions
    `row_lanes`, those inside `column` the dimensions `column_lanes`: k is dimension k of the box, -1 - j dimension j of the depth.
    Where a window goes along dimension k of `row_lanes`, that is the window's line.
    """

    name = "vec.dot"
    init = operand_def(VectorType)
    depth = prop_def(DenseArrayBase.constr(i64))
    row_lanes = prop_def(DenseArrayBase.constr(i64))
    column_lanes = prop_def(DenseArrayBase.constr(i64))
    row = region_def("single_block")
    column = region_def("single_block")
    res = result_def(VectorType)

    def __init__(
        self,
        init: SSAValue,
        depth: Sequence[int],
        row_lanes: Sequence[int],
        column_lanes: Sequence[int],
        row: Block,
        column: Block,
        windows: Sequence[WindowLine] = (),
        *,
        is_per_channel: bool = False,
        is_backward: bool = False,
        parts: int = 1,
    ):
        arrays = {"depth": depth, "row_lanes": row_lanes, "column_lanes": column_lanes}
        super().__init__(
            operands=[init],
            result_types=[init.type],
            properties={name: i64_array(array) for name, array in arrays.items()}
            | self.of_windows(windows, is_per_channel, is_backward, parts),
            regions=[Region(row), Region(column)],
        )

    @property
    def is_tap_by_tap(self) -> bool:
        """Is it a convolution whose weights are a matrix of features and filters for each element of its windows? All steps load as
        many rows and filters for it, or fill values for those that some do not have along a window's line, or of the last ones."""
        return self.is_by_element(self.column_lanes.get_values())

    @property
    def element_type(self) -> Attribute:
        """The type of the vectors' elements that are multiplied."""
        type_ = yielded(self.row.block).type
        assert isinstance(type_, VectorType)
        return cast("VectorType[Attribute]", type_).element_type
