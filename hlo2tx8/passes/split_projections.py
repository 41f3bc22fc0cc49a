"""Pass split-projections: a product whose columns are taken apart for attention is a product of each part of the weights.

    %y = dot %x, %w                        [512, 2304]         %w0 = slice %w [:, 0:768]
    %b = add %y, broadcast %bias                               %q = add (dot %x, %w0), broadcast (slice %bias [0:768])
    %h = reshape %b                        [512, 3, 12, 64]    %h = reshape %q                                  [512, 1, 12, 64]
    %q = slice %h [:, 0:1]                              ⟶
    %k = slice %h [:, 1:2]                                     and so on with columns 768:1536 and 1536:2304
    %v = slice %h [:, 2:3]

Queries, keys and values are written as one tensor by the product, and by heads by a kernel each; as products of their own they
can be phases of one kernel with the attention that reads them, which loads parts of the weights from where they are. Between the
product and the slices are moves, elementwise operations and what is added to rows; the weights are in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.instruction import CONSTANTS, kind_of, shape_of, tensor_type

DOT, SLICE, RESHAPE, TRANSPOSE, BROADCAST, CONVERT = (
    f"stablehlo.{name}" for name in ("dot_general", "slice", "reshape", "transpose", "broadcast_in_dim", "convert")
)
MOST_STEPS = 24
"""Instructions between a part of a product and the scores that it is for."""


@dataclass(frozen=True)
class _ColumnsAt:
    """An instruction behind the product, and which dimension of its result the parts lie along: `unit` columns an index."""

    op: Operation
    dim: int
    unit: int


@dataclass(frozen=True)
class SplitProjectionsPass(ModulePass):
    """Rewrites products; see the module docstring."""

    name = "split-projections"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for dot in ops_named(op, (DOT,)):
            steps = _steps(dot)
            if steps is not None:
                for part in [use.operation for use in steps[-1].op.results[0].uses]:
                    _split(part, steps)
                for step in reversed(steps):
                    Rewriter.erase_op(step.op)


def _steps(dot: Operation) -> list[_ColumnsAt] | None:
    """A product and what stands between it and its parts; None if it is not to be split."""
    (result,) = dot.results
    _, batch, _, added = numbers_of(attributes_of(dot))
    rank = len(shape_of(dot.operands[1]))
    if batch or len(added) != rank - 1 or not _is_in_memory(dot.operands[1]):
        return None
    steps = [_ColumnsAt(dot, len(shape_of(result)) - 1, 1)]
    while (reader := steps[-1].op.results[0].get_user_of_unique_use()) is not None:
        step = _behind(reader, steps[-1])
        if step is None:
            return None
        steps.append(step)
    return steps if _are_parts(steps[-1]) else None


def _behind(op: Operation, before: _ColumnsAt) -> _ColumnsAt | None:
    """The step of an instruction that reads a step's result; None if its result has no such dimension."""
    value = before.op.results[0]
    if not has_spec(op.name) or len(op.results) != 1 or not is_row_major(tensor_type(op.results[0])):
        return None
    if op.name == TRANSPOSE:
        return _ColumnsAt(op, [*attributes_of(op)["permutation"]].index(before.dim), before.unit)
    if op.name == RESHAPE:
        old, new = shape_of(value), shape_of(op.results[0])
        place = next((d for d in range(len(new)) if prod(new[:d]) == prod(old[: before.dim]) and new[d] > 1), None)
        if place is None or old[before.dim] % new[place]:
            return None
        return _ColumnsAt(op, place, before.unit * (old[before.dim] // new[place]))
    is_elementwise = kind_of(op) is Kind.ELEMENTWISE and all(shape_of(v) == shape_of(op.results[0]) for v in op.operands)
    if is_elementwise and all(other is value or _is_spread(other) for other in op.operands):
        return _ColumnsAt(op, before.dim, before.unit)
    return None


def _is_spread(value: SSAValue) -> bool:
    """Is it a constant, or made by repeating something?"""
    return isinstance(value.owner, Operation) and value.owner.name in (*CONSTANTS, BROADCAST)


def _are_parts(last: _ColumnsAt) -> bool:
    """Are all readers of a value parts along the dimension that do not overlap, each for scores?"""
    value, taken = last.op.results[0], 0
    readers = [use.operation for use in value.uses]
    if len(readers) < 2 or any(op.name != SLICE or not _is_for_scores(op.results[0]) for op in readers):
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


def _is_for_scores(value: SSAValue) -> bool:
    """Does a product with batches read it, or what is made of it element by element and by moves?"""
    pending, seen = [value], set[Operation]()
    while pending and len(seen) < MOST_STEPS:
        for use in pending.pop().uses:
            op = use.operation
            if op.name == DOT and numbers_of(attributes_of(op))[0]:
                return True
            if op not in seen and has_spec(op.name) and kind_of(op) in (Kind.ELEMENTWISE, Kind.SHAPING) and len(op.results) == 1:
                seen.add(op)
                pending.append(op.results[0])
    return False


def _is_in_memory(value: SSAValue) -> bool:
    """Is it an argument, a constant, or a part of one, maybe of another type?"""
    while isinstance(owner := value.owner, Operation) and owner.name not in CONSTANTS:
        if not has_spec(owner.name) or not (owner.name == CONVERT or kind_of(owner) in (Kind.SHAPING, Kind.INDEXED)):
            return False
        if len(owner.operands) > 1 and kind_of(owner) is Kind.SHAPING:
            return False
        value = owner.operands[0]
    return True


def _split(part: Operation, steps: Sequence[_ColumnsAt]) -> None:
    """Puts a product of its own in a part's place. Where the part is at one index of a dimension it goes without that."""
    bounds = _bounds(part, steps[-1].dim)
    assert bounds is not None
    e, (first, end) = Expansion(part), (bound * steps[-1].unit for bound in bounds)
    dot = steps[0].op
    (free,) = set(range(len(shape_of(dot.operands[1])))) - {*numbers_of(attributes_of(dot))[3]}
    made = e.same(dot, [dot.operands[0], _weights(e, dot.operands[1], free, first, end)], _type(e, steps[0], first, end))
    is_gone = False
    for before, step in pairwise(steps):
        op, type_ = step.op, _type(e, step, first, end)
        is_gone |= op.name == RESHAPE and end - first == step.unit
        shape = type_.get_shape()
        left = shape[: step.dim] + shape[step.dim + 1 :] if is_gone else shape
        if op.name == TRANSPOSE:
            order = [int(dim) for dim in attributes_of(op)["permutation"]]
            made = e.transpose(made, [d - (d > before.dim) for d in order if d != before.dim] if is_gone else order)
        elif op.name == RESHAPE:
            made = e.reshaped(made, left)
        else:
            old, ends = before.op.results[0], (first // step.unit, end // step.unit)
            operands = [made if v is old else e.reshaped(_part_of_rows(e, v, step.dim, *ends), left) for v in op.operands]
            made = e.same(op, operands, e.like(op.results[0], left))
    e.replace(e.reshaped(made, shape_of(part.results[0])))


def _type(e: Expansion, step: _ColumnsAt, first: int, end: int) -> TensorType[Attribute]:
    shape = list(shape_of(step.op.results[0]))
    shape[step.dim] = (end - first) // step.unit
    return e.like(step.op.results[0], shape)


def _weights(e: Expansion, value: SSAValue, dim: int, first: int, end: int) -> SSAValue:
    """Some columns of weights, which are converted behind that."""
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == CONVERT:
        return e.converted(e.sliced(owner.operands[0], dim, first, end), tensor_type(value).element_type)
    return e.sliced(value, dim, first, end)


def _part_of_rows(e: Expansion, value: SSAValue, dim: int, first: int, end: int) -> SSAValue:
    """Indices `first` to `end` of a dimension of what is the same in all rows, or of a constant."""
    owner, shape = value.owner, list(shape_of(value))
    if not isinstance(owner, Operation) or owner.name not in (BROADCAST, RESHAPE) or shape[dim] == end - first:
        return e.sliced(value, dim, first, end)
    source = owner.operands[0]
    if owner.name == RESHAPE:
        if prod(shape) != shape[dim] or shape_of(source) != (shape[dim],):
            return e.sliced(value, dim, first, end)
        source, dims = _part_of_rows(e, source, 0, first, end), [dim]
    else:
        dims = [int(d) for d in attributes_of(owner)["broadcast_dimensions"]]
        if dim in dims and shape_of(source)[dims.index(dim)] > 1:
            source = _part_of_rows(e, source, dims.index(dim), first, end)
    shape[dim] = end - first
    return e.emit("broadcast_in_dim", [source], e.like(value, shape), broadcast_dimensions=int_array(dims))
