"""Dialect `vec`: one step of a loop nest as dense vectors over a box of lanes.

A *box* is the set of lanes one step computes, `[c, n1, n2, ...]`, in row-major order. Lane dimensions may be ragged: `valid`
of the entries along them are computed, and vectors are dense without the others. Every vector value inside `vec.box` has the
box's shape, one more dimension inside `vec.reduce`, and those that `vec.dot` names inside of it. Memory
is reached by `vec.load` and `vec.store` alone, whose lane strides are elements of a 1-D tensor in DDR.

    scf.for %step = %c0 to %c48 step %c1 {
      vec.box [8192] {
        %o = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile * 786432 + step * 8192), ...">(%tile, %step)
        %x = vec.load %p0[%o] {strides = [1]} : vector<8192xbf16>
        %y = arith.mulf %x, %x : vector<8192xbf16>
        vec.store %y, %r0[%o] {strides = [1]}
      }
    }
"""

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import NoTerminator, Pure

from hlo2tx8.dialects.vec_access import LoadAtOp, ReadScalarOp, StoreAtOp
from hlo2tx8.dialects.vec_dot import VecDotOp
from hlo2tx8.dialects.xla import IndexingMapAttr
from hlo2tx8.dialects.xla_join import JoinAtForm
from hlo2tx8.dialects.xla_reduce import ReduceForm, ReduceLanesForm
from hlo2tx8.dialects.xla_sort import SortLanesForm
from hlo2tx8.indexing import Const, IndexingMap, Interval
from hlo2tx8.ir import DeclaredOp, i64_array, i64_attr, integers, vector_type_of


def ints(array: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The values of an integer array attribute."""
    return integers(array)


@irdl_op_definition
class ExtentOp(DeclaredOp):
    """`clamp(reduce(map(ivs)), lower, upper)` with reduce = min or max over the map's results: a bound of a box, as an index.

    `kind = "min"` for an exclusive upper bound (a tail), `"max"` for a lower bound.
    """

    name = "vec.extent"
    ivs = var_operand_def(IndexType)
    map = prop_def(IndexingMapAttr)
    kind = prop_def(StringAttr)
    lower = prop_def(IntegerAttr)
    upper = prop_def(IntegerAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    def __init__(self, ivs: Sequence[SSAValue], map: IndexingMap, kind: str, lower: int, upper: int):
        super().__init__(
            operands=[ivs],
            properties={
                "map": IndexingMapAttr(map),
                "kind": StringAttr(kind),
                "lower": i64_attr(lower),
                "upper": i64_attr(upper),
            },
            result_types=[IndexType()],
        )

    @property
    def constant(self) -> int | None:
        """The bound, if it is the same everywhere."""
        values = [result.value for result in self.map.data.results if isinstance(result, Const)]
        if len(values) < len(self.map.data.results):
            return None
        found = min(values) if self.kind.data == "min" else max(values)
        return max(self.lower.value.data, min(self.upper.value.data, found))

    @property
    def bounds(self) -> Interval:
        """Bounds of the bound, over all steps."""
        return self.within([self.map.data.bounds(result) for result in self.map.data.results])

    def evaluate(self, ivs: Sequence[np.ndarray]) -> np.ndarray:
        """The bound at arrays of index values that broadcast together."""
        results, _ = self.map.data.evaluate(ivs)
        found = reduce(np.minimum if self.kind.data == "min" else np.maximum, results)
        return np.clip(found, self.lower.value.data, self.upper.value.data)

    def within(self, ranges: Sequence[Interval]) -> Interval:
        """Bounds of the bound, if the map's results are in these."""
        pick = min if self.kind.data == "min" else max
        least, most = (pick(numbers) for numbers in ([i.lo for i in ranges], [i.hi for i in ranges]))
        lower, upper = self.lower.value.data, self.upper.value.data
        return Interval(max(lower, min(upper, least)), max(lower, min(upper, most)))


@irdl_op_definition
class BoxOp(DeclaredOp):
    """Runs its body over the lanes `shape`; along the dimensions `ragged` only the first `valid` entries count, none if it is 0."""

    name = "vec.box"
    valid = var_operand_def(IndexType)
    shape = prop_def(DenseArrayBase.constr(i64))
    ragged = prop_def(DenseArrayBase.constr(i64))
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, shape: Sequence[int], valid: Mapping[int, SSAValue], body: Block):
        super().__init__(
            operands=[tuple(valid.values())],
            properties={"shape": i64_array(shape), "ragged": i64_array(tuple(valid))},
            regions=[Region(body)],
        )

    @property
    def valid_of(self) -> dict[int, SSAValue]:
        """The number of valid entries along each ragged dimension."""
        return dict(zip(ints(self.ragged), self.valid, strict=True))

    @property
    def lane_shape(self) -> tuple[int, ...]:
        return ints(self.shape)


@irdl_op_definition
class LoadOp(DeclaredOp):
    """result[l0, l1, ...] = source[offset + sum(strides[k] * lk)] where every clipped lane lies in its bounds, else `fill`.

    `clipped` lists lane dimensions; `lower` and `upper` (exclusive) hold one index each per clipped dimension.
    """

    name = "vec.load"
    source = operand_def(TensorType)
    offset = operand_def(IndexType)
    lower = var_operand_def(IndexType)
    upper = var_operand_def(IndexType)
    fill = opt_operand_def()
    strides = prop_def(DenseArrayBase.constr(i64))
    clipped = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        source: SSAValue,
        offset: SSAValue,
        strides: Sequence[int],
        result_type: Attribute,
        region: "BoxRegion | None" = None,
        fill: SSAValue | None = None,
    ):
        region = region or BoxRegion((), (), ())
        super().__init__(
            operands=[source, offset, region.lower, region.upper, fill],
            properties={"strides": i64_array(strides), "clipped": i64_array(region.dims)},
            result_types=[result_type],
        )


class BoxRegion:
    """A part of a box: for each lane dimension in `dims` only lanes in [lower, upper) belong to it."""

    def __init__(self, dims: Sequence[int], lower: Sequence[SSAValue], upper: Sequence[SSAValue]):
        self.dims, self.lower, self.upper = tuple(dims), tuple(lower), tuple(upper)


@irdl_op_definition
class StoreOp(DeclaredOp):
    """target[offset + sum(strides[k] * lk)] = value[l0, l1, ...] for every valid lane of the box."""

    name = "vec.store"
    value = operand_def(VectorType)
    target = operand_def(TensorType)
    offset = operand_def(IndexType)
    strides = prop_def(DenseArrayBase.constr(i64))

    def __init__(self, value: SSAValue, target: SSAValue, offset: SSAValue, strides: Sequence[int]):
        super().__init__(operands=[value, target, offset], properties={"strides": i64_array(strides)})


@irdl_op_definition
class GatherOp(DeclaredOp):
    """result[l] = source[index[l]] where mask[l], else undefined: an access that no affine descriptor describes.

    The kernel core reads it, element by element, from a copy of the whole source tensor in SPM.
    """

    name = "vec.gather"
    source = operand_def(TensorType)
    index = operand_def(VectorType)
    result = result_def(VectorType)

    def __init__(self, source: SSAValue, index: SSAValue, result_type: Attribute):
        super().__init__(operands=[source, index], result_types=[result_type])


@irdl_op_definition
class IndexOp(DeclaredOp):
    """result[l] = map(ivs)[l], an integer per lane; the map's dimensions are loop variables, its ranges the lanes."""

    name = "vec.index"
    ivs = var_operand_def(IndexType)
    map = prop_def(IndexingMapAttr)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def __init__(self, ivs: Sequence[SSAValue], map: IndexingMap, result_type: Attribute):
        super().__init__(operands=[ivs], properties={"map": IndexingMapAttr(map)}, result_types=[result_type])


@irdl_op_definition
class MaskOp(DeclaredOp):
    """result[l] = (every clipped lane lies in its bounds): the indicator of a part of the box, as i1."""

    name = "vec.mask"
    lower = var_operand_def(IndexType)
    upper = var_operand_def(IndexType)
    clipped = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(self, region: BoxRegion, shape: Sequence[int]):
        super().__init__(
            operands=[region.lower, region.upper],
            properties={"clipped": i64_array(region.dims)},
            result_types=[vector_type_of(i1, shape)],
        )


@irdl_op_definition
class SplatOp(DeclaredOp):
    """result[l] = value: a scalar constant in every lane."""

    name = "vec.splat"
    value = operand_def()
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, shape: Sequence[int]):
        super().__init__(operands=[value], result_types=[vector_type_of(value.type, shape)])


@irdl_op_definition
class BroadcastOp(DeclaredOp):
    """A vector of the box, repeated along the lane dimension that a `vec.reduce` adds."""

    name = "vec.broadcast"
    value = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, result_type: Attribute):
        super().__init__(operands=[value], result_types=[result_type])


@irdl_op_definition
class VecReduceOp(ReduceForm):
    """`init` combined with the elements along one more lane dimension, for each lane of the box; in any order.

    Values inside of `elements`, which yields the elements, have that dimension too: behind those of the box, or before them if
    `is_outer`. `combiner` takes two scalars per result, all first operands before all second ones.
    """

    name = "vec.reduce"
    init = var_operand_def(VectorType)
    res = var_result_def(VectorType)


@irdl_op_definition
class VecReduceLanesOp(ReduceLanesForm):
    """`init` combined with the elements along the lane dimensions `over` of the box, for each lane along the others.

    The result is the same in all lanes along `over`. `combiner` takes scalars as that of `vec.reduce` does.
    """

    name = "vec.reduce_lanes"


@irdl_op_definition
class VecScanLanesOp(ReduceLanesForm):
    """`init` combined with the elements up to each lane along the one lane dimension `over`, as `xla.scan_lanes` does."""

    name = "vec.scan_lanes"


@irdl_op_definition
class VecSortLanesOp(SortLanesForm):
    """The words of all lanes of the box that differ along one dimension alone, in order."""

    name = "vec.sort_lanes"


@irdl_op_definition
class VecJoinAtOp(JoinAtForm):
    """Updates joined in order with the lanes of the box that their places name.

    Vectors inside of `elements` have the lanes of the box with updates in the place of `along`; those inside of `places` have one
    lane only along the dimensions behind.
    """

    name = "vec.join_at"


def enclosing_box(op: Operation) -> BoxOp:
    """The box whose lanes `op` computes."""
    parent = op.parent_op()
    while not isinstance(parent, BoxOp):
        assert parent is not None, f"{op.name} outside a vec.box"
        parent = parent.parent_op()
    return parent


Vec = Dialect(
    "vec",
    [
        ExtentOp,
        BoxOp,
        LoadOp,
        LoadAtOp,
        StoreOp,
        StoreAtOp,
        GatherOp,
        IndexOp,
        MaskOp,
        SplatOp,
        BroadcastOp,
        VecReduceOp,
        VecDotOp,
        VecReduceLanesOp,
        VecScanLanesOp,
        VecSortLanesOp,
        VecJoinAtOp,
        ReadScalarOp,
    ],
    [],
)
__all__ = [
    "BoxOp",
    "BoxRegion",
    "BroadcastOp",
    "ExtentOp",
    "GatherOp",
    "IndexOp",
    "LoadAtOp",
    "LoadOp",
    "MaskOp",
    "ReadScalarOp",
    "SplatOp",
    "StoreAtOp",
    "StoreOp",
    "Vec",
    "VecDotOp",
    "VecJoinAtOp",
    "VecReduceLanesOp",
    "VecReduceOp",
    "VecScanLanesOp",
    "VecSortLanesOp",
    "enclosing_box",
    "ints",
]
