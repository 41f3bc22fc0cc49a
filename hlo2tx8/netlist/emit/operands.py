"""Operands that come together: constants that have no place yet, parts and layouts that several arrays can share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np

from hlo2tx8.netlist.emit.build import Builder, Value
from hlo2tx8.netlist.emit.layout import TILED, Axis, AxisName, Key, Layout, common, dense, plain
from hlo2tx8.netlist.emit.moves import gathered, ordered, relayout
from hlo2tx8.netlist.formats import Array


@dataclass(frozen=True)
class Known:
    """An array that is known; dimensions along which all elements are the same have stride 0."""

    array: Array
    df: str

    @property
    def layout(self) -> Layout:
        """As the host would have it; what is the same everywhere lies nowhere."""
        layout = plain(self.array.shape)
        kept = {name: _without(layout, name, self.repeats) for name in ("z", *TILED)}
        return layout.on(**kept)

    @property
    def repeats(self) -> list[int]:
        return [dim for dim, stride in enumerate(self.array.strides) if not stride]

    def as_float(self, df: str) -> "Known":
        """In float32, in a format."""
        index = tuple(slice(0, 1) if dim in self.repeats else slice(None) for dim in range(self.array.ndim))
        return Known(np.broadcast_to(self.array[index].astype(np.float32), self.array.shape), df)


Operand: TypeAlias = Value | Known


def _without(layout: Layout, name: AxisName, dims: Sequence[int]) -> Axis:
    keys = [key for key in ordered(layout.axis(name).strides) if key[0] not in dims]
    return dense(layout, keys, unit=1 if name == "z" else 32)


def is_empty(operand: Operand) -> bool:
    """Has it no elements?"""
    return isinstance(operand, Known) and operand.array.size == 0


def const(array: Array, df: str) -> Known:
    """A known array in a format; where all elements along a dimension are the same they are kept once."""
    given = np.asarray(array)
    for dim, size in enumerate(given.shape):
        first = given[(slice(None),) * dim + (slice(0, 1),)]
        if size > 1 and given.strides[dim] and bool((given == first).all()):
            given = np.broadcast_to(first, given.shape)
    return Known(given, df)


def placed(builder: Builder, operand: Operand, target: Layout) -> Value:
    """In a layout of the same parts."""
    if isinstance(operand, Known):
        operand = builder.constant(np.asarray(operand.array), target, operand.df)
    return relayout(builder, operand, target)


def agreed(builder: Builder, operands: Sequence[Operand]) -> tuple[list[Operand], list[Layout]]:
    """Arrays of one shape, with their layouts cut into the same parts; parts that have no factors in common are moved together."""
    found = list(operands)
    layouts = [operand.layout.merged() for operand in found]
    sizes: list[tuple[int, ...]] = []
    for dim in range(len(layouts[0].sizes)):
        if common([layout.sizes[dim] for layout in layouts]) is None:
            for at, operand in enumerate(found):
                if isinstance(operand, Value) and len(layouts[at].sizes[dim]) > 1:
                    value = replace(operand, layout=layouts[at])
                    keys = [(dim, part) for part in range(len(layouts[at].sizes[dim]))]
                    found[at] = value = gathered(builder, value, keys)
                    layouts[at] = value.layout.merged()
            return agreed(builder, found)
        sizes.append(tuple(common([layout.sizes[dim] for layout in layouts]) or ()))
    layouts = [layout.split(tuple(sizes)) for layout in layouts]
    return [with_layout(operand, layout) for operand, layout in zip(found, layouts, strict=True)], layouts


def with_layout(operand: Operand, layout: Layout) -> Operand:
    """The operand with the same places said otherwise."""
    if isinstance(operand, Known):
        return operand
    return replace(operand, layout=layout)


def repeated(operand: Operand, dims: Sequence[int], shape: Sequence[int]) -> Operand:
    """An array whose dimensions are these of a larger one, the same along the others."""
    if isinstance(operand, Known):
        index = tuple(slice(None) if dim in dims else None for dim in range(len(shape)))
        return Known(np.broadcast_to(operand.array.transpose(np.argsort(dims))[index], shape), operand.df)
    layout = operand.layout
    sizes: list[tuple[int, ...]] = [(size,) if size > 1 else () for size in shape]
    for at, dim in enumerate(dims):
        if layout.shape[at] == shape[dim]:
            sizes[dim] = layout.sizes[at]
    names = {(at, part): (dim, part) for at, dim in enumerate(dims) for part in range(len(layout.sizes[at]))}
    return replace(operand, layout=layout.renamed(tuple(sizes), names))


def together(builder: Builder, operands: Sequence[Operand]) -> list[Value]:
    """Arrays of one shape in one layout: that of the largest which is no constant, with parts that only others have."""
    found, layouts = agreed(builder, operands)
    order = sorted(range(len(found)), key=lambda at: (isinstance(found[at], Known), -_size(layouts[at])))
    target = layouts[order[0]]
    for at in order[1:]:
        target = _joined(target, layouts[at])
    full = {name: _with_full(target.axis(name), layouts, name) for name in TILED}
    target = target.on(**full)
    return [placed(builder, operand, target) for operand in found]


def _size(layout: Layout) -> int:
    return prod(layout.size(key) for key in layout.placed)


def _with_full(axis: Axis, layouts: Sequence[Layout], name: AxisName) -> Axis:
    is_full = axis.full and all(layout.axis(name).full or not layout.axis(name).strides for layout in layouts)
    return Axis(axis.span, axis.strides, axis.base, is_full)


def _joined(target: Layout, other: Layout) -> Layout:
    """A layout with those parts of another one that it has nowhere: on the same axis if that is empty, else on z."""
    extra = [key for key in other.placed if target.axis_of(key) is None]
    on_z: list[Key] = []
    for name in TILED:
        axis = other.axis(name)
        keys = [key for key in ordered(axis.strides) if key in extra]
        if keys and not target.axis(name).strides:
            new = axis if len(keys) == len(axis.strides) and axis.base == 0 else dense(target, keys)
            target = target.on(**{name: new})
        else:
            on_z += keys
    on_z = [*(key for key in other.peeled("z")[0] if key in extra), *on_z]
    return target.on(z=dense(target, [*on_z, *target.peeled("z")[0]], unit=1))
