"""Columns of a product that are taken apart behind it, and products of their own in place of the parts.

    %y = dot %x, %w                        [32, 2048]         %y0 = dot %x, (slice %w [:, 0:512])
    %a = add %y, broadcast %bias                              %a0 = add %y0, broadcast (slice %bias [0:512])
    %i = slice %a [:, 0:512]                           ⟶
    %f = slice %a [:, 512:1024]                               and so on with the other columns

Between the product and the slices are moves and elementwise operations, each read once; the weights are in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.instruction import CONSTANTS, kind_of, shape_of, tensor_type

DOT, SLICE, RESHAPE, TRANSPOSE, BROADCAST, CONVERT = (
    f"stablehlo.{name}" for name in ("dot_general", "slice", "reshape", "transpose", "broadcast_in_dim", "convert")
)
IsBeside: TypeAlias = Callable[[SSAValue], bool]
"""May an elementwise operation between a product and its parts read such a value as well?"""


@dataclass(frozen=True)
class ColumnsAt:
    """An instruction behind the product, and which dimension of its result the parts lie along: `unit` columns an index, of each of
    `heads` that other dimensions count."""

    op: Operation
    dim: int
    unit: int
    heads: int = 1


ArePartsOf: TypeAlias = Callable[[Sequence[Operation]], bool]
"""Are slices of columns, which do not overlap, to be products of their own?"""


def steps_to_parts(dot: Operation, are_parts: ArePartsOf, is_beside: IsBeside) -> list[ColumnsAt] | None:
    """A product and what stands between it and its parts; None if it is not to be split."""
    _, batch, _, added = numbers_of(attributes_of(dot))
    rank = len(shape_of(dot.operands[1]))
    if batch or len(added) != rank - 1 or not _is_in_memory(dot.operands[1]):
        return None
    return _to_parts([ColumnsAt(dot, len(shape_of(dot.results[0])) - 1, 1)], are_parts, is_beside)


def is_repeated(value: SSAValue) -> bool:
    """Is it a constant, or made by repeating something?"""
    return isinstance(value.owner, Operation) and value.owner.name in (*CONSTANTS, BROADCAST)


def split_columns(steps: Sequence[ColumnsAt]) -> None:
    """Puts a product of its own in the place of each part."""
    for part in [use.operation for use in steps[-1].op.results[0].uses]:
        _split(part, steps)
    for step in reversed(steps):
        Rewriter.erase_op(step.op)


def _to_parts(steps: list[ColumnsAt], are_parts: ArePartsOf, is_beside: IsBeside) -> list[ColumnsAt] | None:
    """The steps from the product to the parts, of which these are the first ones."""
    reader = steps[-1].op.results[0].get_user_of_unique_use()
    if reader is None:
        return steps if _are_apart(steps[-1]) and are_parts([use.operation for use in steps[-1].op.results[0].uses]) else None
    ways = (_to_parts([*steps, step], are_parts, is_beside) for step in _behind(reader, steps[-1], is_beside))
    return next((way for way in ways if way is not None), None)


def _behind(op: Operation, before: ColumnsAt, is_beside: IsBeside) -> Iterator[ColumnsAt]:
    """What the step of an instruction that reads a step's result may be: the dimensions along which parts may lie then."""
    value = before.op.results[0]
    if not has_spec(op.name) or len(op.results) != 1 or not is_row_major(tensor_type(op.results[0])):
        return
    if op.name == TRANSPOSE:
        yield ColumnsAt(op, [*attributes_of(op)["permutation"]].index(before.dim), before.unit, before.heads)
    elif op.name == RESHAPE:
        old, new = shape_of(value), shape_of(op.results[0])
        first = next((d for d in range(len(new)) if prod(new[:d]) == prod(old[: before.dim]) and new[d] > 1), len(new))
        for place in range(first, len(new)):
            outer, left = prod(new[first:place]), prod(new[first : place + 1])
            if old[before.dim] % left:
                break
            yield ColumnsAt(op, place, before.unit * (old[before.dim] // left), before.heads * outer)
    elif kind_of(op) is Kind.ELEMENTWISE and all(v is value or is_beside(v) for v in op.operands if shape_of(v) == shape_of(value)):
        yield ColumnsAt(op, before.dim, before.unit, before.heads)


def _are_apart(last: ColumnsAt) -> bool:
    """Are all readers of a value parts along the dimension, at least two, that do not overlap?"""
    taken, readers = 0, [use.operation for use in last.op.results[0].uses]
    if len(readers) < 2 or any(op.name != SLICE for op in readers):
        return False
    for first, end in sorted(_bounds(op, last.dim) or (-1, -1) for op in readers):
        if first < taken:
            return False
        taken = end
    return True


def _bounds(part: Operation, dim: int) -> tuple[int, int] | None:
    """Where a slice begins and ends along a dimension, if it has all along the others."""
    fields, shape = attributes_of(part), shape_of(part.operands[0])
    own = list(zip(fields["start_indices"], fields["limit_indices"], fields["strides"], shape, strict=True))
    if any(step != 1 for _, _, step, _ in own) or any((a, b) != (0, n) for d, (a, b, _, n) in enumerate(own) if d != dim):
        return None
    return int(own[dim][0]), int(own[dim][1])


def _is_in_memory(value: SSAValue) -> bool:
    """Is it an argument, a constant, or a part of one, maybe of another type?"""
    while isinstance(owner := value.owner, Operation) and owner.name not in CONSTANTS:
        if not has_spec(owner.name) or not (owner.name == CONVERT or kind_of(owner) in (Kind.SHAPING, Kind.INDEXED)):
            return False
        if len(owner.operands) > 1 and kind_of(owner) is Kind.SHAPING:
            return False
        value = owner.operands[0]
    return True


def _split(part: Operation, steps: Sequence[ColumnsAt]) -> None:
    """Puts a product of its own in a part's place. Where the part is at one index of a dimension it goes without that."""
    bounds = _bounds(part, steps[-1].dim)
    assert bounds is not None
    e, (first, end), heads = Expansion(part), (bound * steps[-1].unit for bound in bounds), steps[-1].heads
    dot = steps[0].op
    (free,) = set(range(len(shape_of(dot.operands[1])))) - {*numbers_of(attributes_of(dot))[3]}
    weights = _weights(e, dot.operands[1], free, _HeadColumns(heads, first, end))
    made = e.same(dot, [dot.operands[0], weights], _type(e, steps[0], heads, first, end))
    is_gone = False
    for before, step in pairwise(steps):
        op, joined = step.op, heads // step.heads
        type_ = _type(e, step, joined, first, end)
        is_gone |= op.name == RESHAPE and end - first == step.unit
        shape = type_.get_shape()
        left = shape[: step.dim] + shape[step.dim + 1 :] if is_gone else shape
        if op.name == TRANSPOSE:
            order = [int(dim) for dim in attributes_of(op)["permutation"]]
            made = e.transpose(made, [d - (d > before.dim) for d in order if d != before.dim] if is_gone else order)
        elif op.name == RESHAPE:
            made = e.reshaped(made, left)
        else:
            old, cut = before.op.results[0], _HeadColumns(joined, first // step.unit, end // step.unit)
            operands = [made if v is old else e.reshaped(_part_of_rows(e, v, step.dim, cut), left) for v in op.operands]
            made = e.same(op, operands, e.like(op.results[0], left))
    e.replace(e.reshaped(made, shape_of(part.results[0])))


def _type(e: Expansion, step: ColumnsAt, joined: int, first: int, end: int) -> TensorType[Attribute]:
    """Of a part of a step's result, whose dimension has so many heads."""
    shape = list(shape_of(step.op.results[0]))
    shape[step.dim] = joined * (end - first) // step.unit
    return e.like(step.op.results[0], shape)


def _weights(e: Expansion, value: SSAValue, dim: int, cut: "_HeadColumns") -> SSAValue:
    """Some columns of weights, which are converted behind that."""
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == CONVERT:
        return e.converted(cut.of(e, owner.operands[0], dim), tensor_type(value).element_type)
    return cut.of(e, value, dim)


@dataclass(frozen=True)
class _HeadColumns:
    """Indices `first` to `end` of those that each of some heads has, one after the other."""

    heads: int
    first: int
    end: int

    @property
    def size(self) -> int:
        return self.heads * (self.end - self.first)

    def of(self, e: Expansion, value: SSAValue, dim: int) -> SSAValue:
        """The value with these indices of a dimension."""
        shape = shape_of(value)
        if self.heads == 1:
            return _cut(e, value, dim, self.first, self.end)
        apart = e.reshaped(value, (*shape[:dim], self.heads, shape[dim] // self.heads, *shape[dim + 1 :]))
        return e.reshaped(e.sliced(apart, dim + 1, self.first, self.end), (*shape[:dim], self.size, *shape[dim + 1 :]))


def _cut(e: Expansion, value: SSAValue, dim: int, first: int, end: int) -> SSAValue:
    """Some indices of a dimension; of a slice they are a slice of what that is of."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name != SLICE or set(attributes_of(owner)["strides"]) > {1}:
        return e.sliced(value, dim, first, end)
    starts, limits = ([*map(int, attributes_of(owner)[name])] for name in ("start_indices", "limit_indices"))
    starts[dim], limits[dim] = starts[dim] + first, starts[dim] + end
    type_ = e.like(value, [limit - start for start, limit in zip(starts, limits, strict=True)])
    bounds = {"start_indices": int_array(starts), "limit_indices": int_array(limits), "strides": int_array([1] * len(starts))}
    return e.emit("slice", owner.operands[:1], type_, **bounds)


def _part_of_rows(e: Expansion, value: SSAValue, dim: int, cut: _HeadColumns) -> SSAValue:
    """Some indices of a dimension of what is the same in all rows, or of a constant."""
    owner, shape = value.owner, list(shape_of(value))
    if not isinstance(owner, Operation) or owner.name not in (BROADCAST, RESHAPE) or shape[dim] == cut.size:
        return cut.of(e, value, dim)
    source = owner.operands[0]
    if owner.name == RESHAPE:
        if prod(shape) != shape[dim] or shape_of(source) != (shape[dim],):
            return cut.of(e, value, dim)
        source, dims = _part_of_rows(e, source, 0, cut), [dim]
    else:
        dims = [int(d) for d in attributes_of(owner)["broadcast_dimensions"]]
        if dim in dims and shape_of(source)[dims.index(dim)] > 1:
            source = _part_of_rows(e, source, dims.index(dim), cut)
    shape[dim] = cut.size
    return e.emit("broadcast_in_dim", [source], e.like(value, shape), broadcast_dimensions=int_array(dims))
