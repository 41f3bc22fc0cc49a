"""Slices, pads and concatenations. Slices and reversals move nothing; the others put arrays beside each other."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hlo2tx8.netlist.emit.build import Builder, Value
from hlo2tx8.netlist.emit.layout import AxisName, Key, Layout, dense
from hlo2tx8.netlist.emit.moves import fits, gathered, ordered, relayout
from hlo2tx8.netlist.emit.operands import Known, Operand, is_empty, placed, together


def as_value(builder: Builder, operand: Operand) -> Value:
    """A constant as something that ops read."""
    return operand if isinstance(operand, Value) else placed(builder, operand, operand.layout)


def sliced(builder: Builder, value: Value, dim: int, start: int, step: int, count: int) -> Value:
    """So many elements of a dimension, from one on; the step may be negative."""
    size = value.layout.shape[dim]
    if (start, step, count) == (0, 1, size):
        return value
    value = _of_one_part(builder, value, dim)
    layout, key = value.layout, (dim, 0)
    name = layout.axis_of(key) if layout.sizes[dim] else None
    if name == "z" and step == 1:
        return _spliced_out(builder, value, key, start, count)
    if name == "z":
        value = gathered(builder, value, [key])
        layout, name = value.layout, "c"
    sizes = tuple((count,) if at == dim and count > 1 else () if at == dim else parts for at, parts in enumerate(layout.sizes))
    if name is None:
        return replace(value, layout=replace(layout, sizes=sizes))
    axis = layout.axis(name)
    strides = {k: stride * step if k == key else stride for k, stride in axis.strides.items() if k != key or count > 1}
    cut = replace(axis, strides=strides, base=axis.base + start * axis.strides[key], full=False)
    return replace(value, layout=replace(layout, sizes=sizes).on(**{name: cut}), pad=None)


def _of_one_part(builder: Builder, value: Value, dim: int) -> Value:
    value = replace(value, layout=value.layout.merged())
    parts = len(value.layout.sizes[dim])
    if parts > 1:
        value = gathered(builder, value, [(dim, part) for part in range(parts)])
        value = replace(value, layout=value.layout.merged())
    return value


def _spliced_out(builder: Builder, value: Value, key: Key, start: int, count: int) -> Value:
    layout = value.layout
    unit, size = layout.z.strides[key], layout.size(key)
    sizes = tuple(
        (count,) if at == key[0] and count > 1 else () if at == key[0] else parts for at, parts in enumerate(layout.sizes)
    )
    made = replace(layout, sizes=sizes)
    order = [k for k in layout.peeled("z")[0] if k != key or count > 1]
    made = made.on(z=dense(made, order, unit=1))
    rule = (start * unit, count * unit, (size - start) * unit)
    return builder.op("splice", [builder.straight(value)], made, value.pad, granularity="t", input0=rule)


def reversed_(builder: Builder, value: Value, dims: Sequence[int]) -> Value:
    """With the elements along dimensions in the other order."""
    for dim in dims:
        size = value.layout.shape[dim]
        value = sliced(builder, value, dim, size - 1, -1, size) if size > 1 else value
    return value


def within(builder: Builder, value: Value, dim: int, size: int, low: int, step: int) -> Value:
    """In a longer dimension, from `low` on in steps, with zeros around and between."""
    old = value.layout.shape[dim]
    if (size, low) == (old, 0):
        return value
    value = _of_one_part(builder, value, dim)
    layout, key = value.layout, (dim, 0)
    name: AxisName = "r" if key in layout.r.strides else "c"
    if key in layout.z.strides:
        value = gathered(builder, value, [key])
        layout = value.layout
    order = ordered(layout.axis(name).strides)
    if key not in order:
        order = [key, *order]
    longer = replace(layout, sizes=tuple((size,) if at == dim else parts for at, parts in enumerate(layout.sizes)))
    axis = dense(longer, order)
    strides = {k: stride * step if k == key else stride for k, stride in axis.strides.items() if k != key or old > 1}
    part = replace(axis, strides=strides, base=low * axis.strides[key], full=False)
    value = relayout(builder, value, layout.on(**{name: part}))
    if value.layout.axis(name).full:  # only one of its copies stays
        value = replace(value, layout=value.layout.on(**{name: part}), pad=None)
    value = builder.cleaned(value)
    return replace(value, layout=longer.on(**{name: axis}), pad=0.0)


def padded(builder: Builder, value: Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int], fill: float) -> Value:
    """With `fill` around and between elements; negative padding cuts."""
    inside = np.zeros((), bool)
    for dim, size in enumerate(value.layout.shape):
        step = interior[dim] + 1
        total = low[dim] + high[dim] + (size - 1) * step + 1
        at = np.arange(size) * step + low[dim]
        kept = np.flatnonzero((at >= 0) & (at < total))
        if not len(kept):
            raise builder.refuse("padding that cuts everything")
        value = sliced(builder, value, dim, int(kept[0]), 1, len(kept))
        value = within(builder, value, dim, total, int(at[kept[0]]), step)
        line = np.isin(np.arange(total), at[kept])
        inside = inside[..., None] & line if dim else line
    if fill == 0 or inside.all():
        return value
    rest = Known(np.where(inside, np.float32(0), np.float32(fill)), value.df)
    return builder.elementwise("add", together(builder, [value, rest]))


def concatenated(builder: Builder, operands: Sequence[Operand], dim: int) -> Value:
    """One array after the other along a dimension."""
    values = [as_value(builder, operand) for operand in operands if not is_empty(operand)]
    sizes = [value.layout.shape[dim] for value in values]
    if (joined := _spliced(builder, values, dim, sizes)) is not None:
        return joined
    total, at, made = sum(sizes), 0, list[Value]()
    for value, size in zip(values, sizes, strict=True):
        made.append(within(builder, value, dim, total, at, 1))
        at += size
    found = made[0]
    for other in made[1:]:
        found = builder.elementwise("add", together(builder, [found, other]))
    return found


def _spliced(builder: Builder, values: Sequence[Value], dim: int, sizes: Sequence[int]) -> Value | None:
    """Arrays with the dimension on z, and everything else at the same place; None if they are not."""
    layouts = [value.layout.merged() for value in values]
    if len(values) > 8 or any(len(lay.sizes[dim]) != 1 or lay.axis_of((dim, 0)) != "z" for lay in layouts):
        return None
    first, key = layouts[0], (dim, 0)
    whole = [_with_size(lay, key, 1) for lay in layouts]
    if any(
        lay.sizes != whole[0].sizes or not fits(lay, whole[0]) or lay.r.full != first.r.full or lay.c.full != first.c.full
        for lay in whole
    ):
        return None
    made = _with_size(first, key, sum(sizes))
    unit = first.z.strides[key]
    rules = {f"input{n}": (0, size * unit, size * unit) for n, size in enumerate(sizes)}
    pads = {value.pad for value in values}
    pad = pads.pop() if len(pads) == 1 else None
    return builder.op("splice", [builder.straight(value) for value in values], made, pad, "", granularity="t", **rules)


def _with_size(layout: Layout, key: Key, size: int) -> Layout:
    """With another number of slices of a part on z."""
    sizes = tuple((size,) if at == key[0] else parts for at, parts in enumerate(layout.sizes))
    made = replace(layout, sizes=sizes)
    return made.on(z=dense(made, layout.peeled("z")[0], unit=1))
