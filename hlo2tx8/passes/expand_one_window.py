"""Pass expand-one-window: a scatter of a single window that replaces what is there becomes an update in place.

    scatter %x, %i, %u    ⟶    %v = select (0 <= %i and %i <= room), %u, (dynamic_slice %x, %i)
                               dynamic_update_slice %x, %v, %i

Both read and write where the window lies inside, at the nearest place; if that is another one, what is there stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneAttr, StringAttr, TensorType, i1
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.scatter import scatter_place


@dataclass(frozen=True)
class ExpandOneWindowPass(ModulePass):
    """Rewrites such scatters; see the module docstring."""

    name = "expand-one-window"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.scatter": _update_in_place})


def replaces(op: Operation) -> bool:
    """True if the body of a scatter returns its update."""
    body = op.regions[0].block
    terminator = body.last_op
    assert terminator is not None
    return tuple(terminator.operands) == tuple(body.args[len(op.results) :])


def _update_in_place(op: Operation) -> None:
    has_layout = any(not isinstance(as_tensor(value.type).encoding, NoneAttr) for value in (*op.operands, *op.results))
    if len(op.results) != 1 or has_layout or not replaces(op):
        return
    tensor, indices, update = op.operands
    shapes = tuple(tensor_like(value.type).shape for value in op.operands)
    attributes = attributes_of(op)
    numbers = attributes["scatter_dimension_numbers"]
    place, windows = scatter_place(attributes, *shapes)
    num_windows = prod(n for dim, n in enumerate(shapes[2]) if dim not in windows)
    if num_windows != 1 or 0 in shapes[2] or numbers.input_batching_dims or min(place.rooms, default=0) < 0:
        return
    e = Expansion(op)
    sizes = [shapes[2][dim] for dim in windows]
    for dim in sorted(numbers.inserted_window_dims):
        sizes.insert(dim, 1)
    found = e.emit("reshape", [indices], e.like(indices, (prod(shapes[1]),)))
    starts = [e.splat(0, e.like(indices, ()))] * len(sizes)
    for number, dim in enumerate(place.dims):
        starts[dim] = _element(e, found, number)
    window = e.emit("reshape", [update], e.like(update, sizes))
    if place.dims:
        old = e.emit("dynamic_slice", [tensor, *starts], window.type, slice_sizes=int_array(sizes))
        is_inside = _is_inside(e, [starts[dim] for dim in place.dims], place.rooms)
        is_inside = e.emit("broadcast_in_dim", [is_inside], TensorType(i1, sizes), broadcast_dimensions=int_array(()))
        window = e.emit("select", [is_inside, window, old], window.type)
    e.replace(e.emit("dynamic_update_slice", [tensor, window, *starts], tensor.type))


def _element(e: Expansion, values: SSAValue, at: int) -> SSAValue:
    """One of a list."""
    bounds = {"start_indices": [at], "limit_indices": [at + 1], "strides": [1]}
    one = e.emit("slice", [values], e.like(values, (1,)), **{name: int_array(n) for name, n in bounds.items()})
    return e.emit("reshape", [one], e.like(values, ()))


def _is_inside(e: Expansion, starts: Sequence[SSAValue], rooms: Sequence[int]) -> SSAValue:
    """Is each start from 0 to its room?"""
    type_ = TensorType(i1, ())
    found = [
        e.emit("compare", [start, e.splat(bound, as_tensor(start.type))], type_, comparison_direction=StringAttr(direction))
        for start, room in zip(starts, rooms, strict=True)
        for direction, bound in (("GE", 0), ("LE", min(room, int(np.iinfo(tensor_like(start.type).dtype).max))))
    ]
    inside = found[0]
    for other in found[1:]:
        inside = e.emit("and", [inside, other], type_)
    return inside
