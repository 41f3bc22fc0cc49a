"""Operations of level VECTOR: a box adds one array axis per lane dimension, and vectors vary along those axes."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.dialects import vec
from hlo2tx8.hlo import numpy_dtype

Array = npt.NDArray[Any]
Look = Callable[[SSAValue], Array]
VectorOp: TypeAlias = vec.ExtentOp | vec.LoadOp | vec.LoadAtOp | vec.GatherOp | vec.IndexOp | vec.MaskOp | vec.SplatOp
"""Ops of the dialect that compute a value."""


def extent(op: vec.ExtentOp, look: Look) -> Array:
    """The number of lanes of a ragged box: the smallest or largest result of the op's map, clamped to its bounds."""
    return op.evaluate([look(iv) for iv in op.ivs])


def offsets(offset: Array, strides: Sequence[int], lanes: Sequence[Array]) -> Array:
    """The element offset of every lane: `offset` plus stride times lane index, summed over the lane dimensions."""
    for stride, lane in zip(strides, lanes, strict=True):
        offset = offset + stride * lane
    return offset


def inside(op: vec.LoadOp | vec.MaskOp, lanes: Sequence[Array], look: Look) -> Array:
    """A mask over the lanes: True where every clip of the op (a lower and an upper bound on one lane dimension) holds."""
    region: Array = np.ones((1,) * lanes[0].ndim, bool) if lanes else np.ones((), bool)
    for dim, lower, upper in zip(vec.ints(op.clipped), op.lower, op.upper, strict=True):
        region = region & (lanes[dim] >= look(lower)) & (lanes[dim] < look(upper))
    return region


def index_vector(op: vec.IndexOp, lanes: Sequence[Array], look: Look) -> Array:
    """The op's map evaluated at every lane, in the integer type of the result vector."""
    (value,), _ = op.map.data.evaluate([look(iv) for iv in op.ivs], lanes)
    return value.astype(numpy_dtype(element_type(op)))


def element_type(op: Operation) -> Attribute:
    """The type of one element of an op's result."""
    type_ = op.results[0].type
    return cast("VectorType[Attribute]", type_).element_type if isinstance(type_, VectorType) else type_
