"""`xla.dot`: one block of a contraction, as the matrix engine computes it.

%new = xla.dot lanes [256] windows [] parts 1 : i64 init(%acc : f32) {
^bb0(%k: index):
  %x = tensor.extract %p0[%i, %k]
  xla.yield %x : bf16
} by {
^bb0(%k: index):
  %y = tensor.extract %p1[%k, %j]
  xla.yield %y : bf16
}
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    Float16Type,
    Float32Type,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    f32,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.dialects.xla_indexing import index
from hlo2tx8.ir import DeclaredOp, i64_array, i64_attr


def sums_type(element: Attribute) -> Attribute | None:
    """The type in which products of two such elements are added up; None if the matrix engine does not multiply them."""
    if isinstance(element, BFloat16Type | Float16Type | Float32Type):
        return f32
    return i32 if isinstance(element, IntegerType) and element == i8 else None


@dataclass(frozen=True)
class WindowLine:
    """Rows along lane dimension `lane` of the loop and window elements along dimension `depth` of the dot lie on one line of the
    image, at row * stride + element * dilation.
    """

    lane: int
    depth: int
    stride: int
    dilation: int

    def extent(self, rows: int, taps: int) -> int:
        """The number of elements on the line that the windows of `rows` neighbouring rows cover."""
        return (rows - 1) * self.stride + (taps - 1) * self.dilation + 1

    def factors(self) -> tuple[int, int]:
        """Integers (u, v): an index p on the line can be written as row = u * p, element = v * p in any linear expression of rows
        and elements.
        """
        assert gcd(self.stride, self.dilation) == 1
        u = pow(self.stride, -1, self.dilation) if self.dilation > 1 else 0
        return u, (1 - u * self.stride) // self.dilation


PASSES: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((0, 0),),
    2: ((1, 2), (2, 1), (0, 0)),
    3: ((2, 3), (1, 1), (3, 2), (1, 3), (3, 1), (0, 0)),
}
"""The products of parts that stand for one product of elements in so many parts, smallest first.

The part behind the last is the first one of finite numbers: infinity times a further part, which may be 0, is nothing to add."""


class DotForm(DeclaredOp):
    """What a block of a contraction says at every level.

    `windows` are those of a convolution: then the dimensions of the depth are elements of a window, the last one features, with
    which zeros up to a multiple of what the engine takes are multiplied too; `is_per_channel`, where every column has rows of its
    own, has no features. `is_backward`, the gradient of weights, has none either: its windows are as large as the image, and
    the last of its rows are channels. f32 elements in one part are multiplied as TF32, in several as sums of so many BF16 numbers.
    """

    windows = prop_def(DenseArrayBase.constr(i64))
    is_per_channel = opt_prop_def(UnitAttr)
    is_backward = opt_prop_def(UnitAttr)
    parts = prop_def(IntegerAttr.constr(i64))

    @staticmethod
    def of_windows(windows: Sequence[WindowLine], is_per_channel: bool, is_backward: bool, parts: int) -> dict[str, Attribute]:
        """The properties of a convolution's block with these windows."""
        numbers = [number for w in windows for number in (w.lane, w.depth, w.stride, w.dilation)]
        properties: dict[str, Attribute] = {"windows": i64_array(numbers)}
        properties["parts"] = i64_attr(parts)
        flags = {"is_per_channel": is_per_channel, "is_backward": is_backward}
        return properties | {name: UnitAttr() for name, is_set in flags.items() if is_set}

    @property
    def num_parts(self) -> int:
        """The number of narrower numbers that an f32 factor is split into; 1 without a split."""
        return self.parts.value.data

    @property
    def window_list(self) -> tuple[WindowLine, ...]:
        numbers = [int(number) for number in self.windows.get_values()]
        return tuple(WindowLine(*numbers[i : i + 4]) for i in range(0, len(numbers), 4))

    def is_by_element(self, column_lanes: Sequence[int]) -> bool:
        """Is it a convolution that is one product per element of a window? The last of its columns' lanes are filters then, lanes
        of the box, and no dimension of the depth."""
        is_plain = self.is_per_channel is None and self.is_backward is None
        return bool(self.window_list) and is_plain and column_lanes[-1] >= 0


@irdl_op_definition
class DotOp(DotForm):
    """init + the sum over lanes of a row's element times a column's; lanes are taken in order, see `device/definition/ne_rules.py`.

    Both regions get a lane of each dimension and yield an element; f32 elements count as `parts` says. What differs
    from one row to the next occurs in `row` only, what differs from one column to the next in `column` only.
    """

    name = "xla.dot"
    lanes = prop_def(DenseArrayBase.constr(i64))
    init = operand_def()
    row = region_def("single_block")
    column = region_def("single_block")
    res = result_def()
    traits = traits_def()
    assembly_format = (
        "(`per_channel` $is_per_channel^)? (`backward` $is_backward^)? `lanes` $lanes `windows` $windows `parts` $parts"
        " `init` `(` $init `:` type($init) `)` $row `by` $column attr-dict `:` type($res)"
    )

    def __init__(
        self,
        lanes: Sequence[int],
        init: SSAValue,
        row: Block,
        column: Block,
        windows: Sequence[WindowLine] = (),
        *,
        is_per_channel: bool = False,
        is_backward: bool = False,
        parts: int = 1,
    ):
        super().__init__(
            operands=[init],
            result_types=[init.type],
            properties={"lanes": i64_array(lanes)} | self.of_windows(windows, is_per_channel, is_backward, parts),
            regions=[Region(row), Region(column)],
        )

    @property
    def lane_shape(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self.lanes.get_values())

    @property
    def element_type(self) -> Attribute:
        """The type of the elements that are multiplied."""
        return yielded(self.row.block).type

    def verify_(self) -> None:
        for block in (self.row.block, self.column.block):
            if list(block.arg_types) != [index] * len(self.lane_shape):
                raise VerifyException("xla.dot: the elements depend on a lane of each dimension")
            if yielded(block).type != self.element_type:
                raise VerifyException("xla.dot: rows and columns have elements of one type")
        if self.init.type != sums_type(self.element_type) or self.res.type != self.init.type:
            raise VerifyException("xla.dot: sums are of the type of the engine's partial sums")


def yielded(block: Block) -> SSAValue:
    """The one value that a block's terminator hands on."""
    terminator = block.last_op
    assert terminator is not None
    return terminator.operands[0]
