"""Products, sums, maxima and windows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.netlist.emit.build import Builder, Value
from hlo2tx8.netlist.emit.layout import ONE, TILED, Axis, AxisName, Key, Layout, dense, whole_tiles
from hlo2tx8.netlist.emit.moves import ordered, project, relayout
from hlo2tx8.netlist.emit.operands import Known, Operand, agreed, placed, with_layout
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.shapes import TILE

Pairs = Sequence[tuple[int, int]]


def dot(builder: Builder, x: Operand, y: Operand, batch: Pairs, contract: Pairs, df: str) -> Value:
    """[batch, others of x, others of y], summed over what is contracted."""
    ranks = len(x.layout.sizes), len(y.layout.sizes)
    free_x = [(dim, -1) for dim in range(ranks[0]) if dim not in [a for a, _ in (*batch, *contract)]]
    free_y = [(-1, dim) for dim in range(ranks[1]) if dim not in [b for _, b in (*batch, *contract)]]
    dims = [*batch, *contract, *free_x, *free_y]
    shape = [x.layout.shape[a] if a >= 0 else y.layout.shape[b] for a, b in dims]
    x, y = (_spread(operand, [pair[side] for pair in dims], shape) for side, operand in enumerate((x, y)))
    (x, y), (left, right) = agreed(builder, (x, y))
    keys = left.keys
    ends = [len(batch), len(batch) + len(contract), len(batch) + len(contract) + len(free_x), len(dims)]
    groups = [[k for k in keys if first <= k[0] < end] for first, end in zip([0, *ends], ends, strict=False)]
    of_batch, of_sum, of_x, of_y = groups
    above = [key for key in left.peeled("z")[0] if key in of_x] if isinstance(x, Value) else []
    z_of = next((lay for lay in (left, right) if {*lay.z.strides} >= {*of_batch}), left)
    z = dense(
        left,
        [*(k for k in z_of.peeled("z")[0] if k in of_batch), *(k for k in of_batch if k not in z_of.z.strides), *above],
        unit=1,
    )
    inner = _sum_axis(left, [lay for lay, v in ((left, x), (right, y)) if isinstance(v, Value)], of_sum)
    rows = _kept_axis(left, left, [k for k in of_x if k not in above], ("r", "c"))
    columns = _kept_axis(left, right, of_y, ("c", "r"))
    first = placed(builder, x, left.on(z=z, r=rows, c=inner))
    second = placed(builder, y, right.on(z=z, r=inner, c=columns))
    made = left.on(z=z, r=replace(rows, full=first.layout.r.full), c=replace(columns, full=second.layout.c.full))
    value = builder.product(first, second, made, df)
    kept = [dim for dim in range(len(dims)) if not ends[0] <= dim < ends[1]]
    return picked(value, kept)


def _spread(operand: Operand, dims: Sequence[int], shape: Sequence[int]) -> Operand:
    """With its dimensions in another order; where that has -1 it has none, and is the same for every index."""
    if isinstance(operand, Known):
        order = [dim for dim in dims if dim >= 0]
        full = operand.array.transpose(order)[tuple(slice(None) if dim >= 0 else None for dim in dims)]
        return Known(np.broadcast_to(full, shape), operand.df)
    layout = operand.layout
    sizes = tuple(layout.sizes[dim] if dim >= 0 else ((size,) if size > 1 else ()) for dim, size in zip(dims, shape, strict=True))
    names = {(dim, part): (at, part) for at, dim in enumerate(dims) if dim >= 0 for part in range(len(layout.sizes[dim]))}
    return with_layout(operand, layout.renamed(sizes, names))


def picked(value: Value, dims: Sequence[int]) -> Value:
    """With dimensions in another order, or without some that lie nowhere any more."""
    layout = value.layout
    names = {(dim, part): (at, part) for at, dim in enumerate(dims) for part in range(len(layout.sizes[dim]))}
    return replace(value, layout=layout.renamed(tuple(layout.sizes[dim] for dim in dims), names))


ORDERS: tuple[tuple[AxisName, ...], ...] = (("c", "r"), ("r", "c"))
"""Where what is summed up lies in the factors."""


def _sum_axis(sizes: Layout, layouts: Sequence[Layout], keys: Sequence[Key]) -> Axis:
    """Where what is summed lies: as one of the factors has it, if nothing else is there."""
    sides: list[tuple[Layout, AxisName]] = [(lay, name) for lay, names in zip(layouts, ORDERS, strict=False) for name in names]
    for layout, name in sides:
        if {*layout.axis(name).strides} == {*keys} and keys:
            return replace(layout.axis(name), full=False)
    for layout, name in sides:
        axis = layout.axis(name)
        if axis.strides and {*axis.strides} < {*keys}:
            return dense(sizes, [key for key in keys if key not in axis.strides], inner=replace(axis, full=False))
    return dense(sizes, keys)


def _kept_axis(sizes: Layout, layout: Layout, keys: Sequence[Key], names: Sequence[str]) -> Axis:
    """Where what is not summed lies: as it does, if nothing else is there."""
    for name in names:
        axis = layout.axis("r" if name == "r" else "c")
        if keys and {*axis.strides} == {*keys}:
            return replace(axis, full=False)
    return dense(sizes, keys)


def reduced(builder: Builder, value: Value, dims: Sequence[int], kind: str) -> Value:
    """The sum ("add") or the maximum over some dimensions, which are gone."""
    layout = value.layout
    gone = {key for key in layout.placed if key[0] in dims}
    repeats = prod(layout.size(key) for key in layout.keys if key[0] in dims and key not in gone)
    value = _summed(builder, value, gone) if kind == "add" else _largest(builder, value, gone)
    if kind == "add" and repeats > 1:
        factor = np.broadcast_to(np.float32(repeats), value.layout.shape)
        value = builder.elementwise("multiply", [value, placed(builder, Known(factor, value.df), value.layout)])
    return picked(value, [dim for dim in range(len(layout.sizes)) if dim not in dims])


def _summed(builder: Builder, value: Value, gone: set[Key]) -> Value:
    layout = value.layout
    on_z = [key for key in layout.peeled("z")[0] if key in gone]
    if on_z:
        outer, inner = layout.peeled("c")
        z = dense(layout, [key for key in layout.peeled("z")[0] if key not in gone], unit=1)
        value = relayout(builder, value, layout.on(z=z, c=dense(layout, [*on_z, *outer], inner=inner)))
    for name in TILED:
        strides = value.layout.axis(name).strides
        if any(key in gone for key in strides):
            kept = [key for key in ordered(strides) if key not in gone]
            value = project(builder, value, name, dense(layout, kept) if kept else ONE)
    return value


def _largest(builder: Builder, value: Value, gone: set[Key]) -> Value:
    for name in TILED:
        axis, (outer, inner) = value.layout.axis(name), value.layout.peeled(name)
        away = [key for key in ordered(axis.strides) if key not in gone]
        if away and len(away) < len(axis.strides):
            if not any(key in gone for key in inner.strides):
                away = [key for key in outer if key in gone]
                rest = dense(value.layout, [key for key in outer if key not in gone], inner=inner)
            else:
                rest = dense(value.layout, [key for key in ordered(axis.strides) if key in gone])
            z = dense(value.layout, [*value.layout.peeled("z")[0], *away], unit=1)
            value = relayout(builder, value, value.layout.on(**{"z": z, name: rest}))
    z = value.layout.peeled("z")[0]
    if group := [key for key in z if key in gone]:
        kept = [key for key in z if key not in gone]
        value = relayout(builder, value, value.layout.on(z=dense(value.layout, [*kept, *group], unit=1)))
        made = value.layout.on(z=dense(value.layout, kept, unit=1))
        value = builder.op("reduce", [value], made, value.pad, dim="z", type="max", z=prod(map(made.size, group)))
    for name in TILED:
        if any(key in gone for key in value.layout.axis(name).strides):
            value = builder.lowered(value, name)
            others = any(value.layout.has_holes(other) for other in TILED if other != name)
            made = value.layout.on(**{name: Axis(TILE)})
            pad = 0.0 if not others or value.pad == 0 else None  # rows of holes have what they had in column 0, and 0 elsewhere
            value = builder.op("reduce", [value], made, pad, dim=name, type="max")
    return value


def windowed(
    builder: Builder,
    value: Value,
    dims: Sequence[int],
    window: Window,
    counts: Sequence[int],
    columns: Sequence[int] | None = None,
    *,
    is_summed: bool = False,
) -> Value:
    """[taps, dimensions]: what each position of the window sees, 0 outside; counts are those of windows along `dims`, which the
    window slides over. `is_summed`: [1, dimensions], their sum. `columns` are dimensions that shall be there.
    """
    layout = value.layout.merged()
    keys = [key for key in layout.keys if key[0] in dims]
    by_dim = [key for dim in dims for key in keys if key[0] == dim]
    beside = [key for key in layout.placed if key not in keys]
    own = [key for key in beside if key[0] in columns] if columns is not None else [k for k in beside if k in layout.c.strides]
    c = layout.c if {*own} == {*layout.c.strides} else dense(layout, own)
    on_z = [key for key in layout.peeled("z")[0] if key in beside and key not in own]
    on_z += [key for key in beside if key not in own and key not in on_z]
    z = dense(layout, on_z, unit=1)
    value = relayout(builder, replace(value, layout=layout), layout.on(z=z, r=dense(layout, by_dim), c=c))
    matrix = window_matrix(builder, [layout.shape[dim] for dim in dims], window, counts, is_summed=is_summed)
    taps, high = matrix.shape[0], whole_tiles(prod(counts))
    spread = np.zeros((value.layout.r.span, taps, high), np.float32)
    spread[: matrix.shape[2], :, : matrix.shape[1]] = matrix.transpose(2, 0, 1)
    sizes: list[tuple[int, ...]] = [(taps,) if taps > 1 else ()]
    strides: dict[Key, int] = {(0, 0): high} if taps > 1 else {}
    for dim, parts in enumerate(layout.sizes):
        if dim in dims:
            at = list(dims).index(dim)
            parts = (counts[at],) if counts[at] > 1 else ()
            if parts:
                strides[dim + 1, 0] = prod(counts[at + 1 :])
        sizes.append(parts)
    names: Mapping[Key, Key] = {key: (key[0] + 1, key[1]) for key in beside}
    made = value.layout.renamed(tuple(sizes), names).on(r=Axis(taps * high, strides))
    return builder.multiplied(value, "r", spread.reshape(value.layout.r.span, taps * high), made)


def window_matrix(builder: Builder, sizes: Sequence[int], window: Window, counts: Sequence[int], *, is_summed: bool) -> Array:
    """[taps, windows, elements] with 1 where a position of a window is an element; `is_summed`: [1, windows, elements]."""
    taps, total, out = prod(window.size), prod(sizes), prod(counts)
    builder.bounded(taps * whole_tiles(total) * whole_tiles(out))
    found = np.zeros((taps, out, total), np.float32)
    for number, offset in enumerate(np.ndindex(*window.size)):
        at, inside = np.zeros(tuple(counts), np.int64), np.ones(tuple(counts), bool)
        for dim, size in enumerate(sizes):
            line = np.arange(counts[dim]) * window.strides[dim] + offset[dim] * window.window_dilations[dim] - window.low[dim]
            there, rest = np.divmod(line, window.base_dilations[dim])
            shape = [-1 if other == dim else 1 for other in range(len(sizes))]
            inside &= ((rest == 0) & (there >= 0) & (there < size)).reshape(shape)
            at = at * size + there.reshape(shape)
        rows = np.flatnonzero(inside.reshape(-1))
        found[number, rows, at.reshape(-1)[rows]] = 1
    return found.sum(axis=0, keepdims=True) if is_summed else found
