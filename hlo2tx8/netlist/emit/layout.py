"""Where the elements of an array lie in a tensor of tiles [z, rows, columns].

The dimensions of an array are cut into parts, and every part lies along one axis with a stride, or nowhere: then all of its indices
are the same element. So reshapes, transposes, slices and reversals of an array change its layout and move nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.shapes import TILE, Shape

AxisName: TypeAlias = Literal["z", "r", "c"]
AXES: tuple[AxisName, ...] = ("z", "r", "c")
TILED: tuple[AxisName, ...] = ("r", "c")
Key: TypeAlias = tuple[int, int]
"""A part: the number of its dimension, and of the part in that, from the major one."""
Sizes: TypeAlias = tuple[tuple[int, ...], ...]
"""Of the parts, by dimension."""


def whole_tiles(size: int) -> int:
    """Elements of the tiles that hold so many, at least of one tile."""
    return max(1, -(-size // TILE)) * TILE


@dataclass(frozen=True)
class Axis:
    """`span` positions, of which the parts with these strides take those from `base` on. If it is `full`, every position of a block
    that no part divides holds the same, else the first of the block does alone.
    """

    span: int
    strides: Mapping[Key, int] = field(default_factory=dict[Key, int])
    base: int = 0
    full: bool = False

    @property
    def copies(self) -> int:
        """Positions in a row that hold the same."""
        return min(self.strides.values(), default=self.span) if self.full else 1


ONE = Axis(TILE, full=True)
"""A tile of which all positions are the same."""


@dataclass(frozen=True)
class Layout:
    """The parts of each dimension, and their places on the axes."""

    sizes: Sizes
    z: Axis
    r: Axis
    c: Axis

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(map(prod, self.sizes))

    @property
    def tiles(self) -> Shape:
        return Shape(self.z.span, self.r.span // TILE, self.c.span // TILE)

    @property
    def keys(self) -> list[Key]:
        return [(dim, part) for dim, parts in enumerate(self.sizes) for part in range(len(parts))]

    @property
    def placed(self) -> list[Key]:
        """Parts that lie somewhere."""
        return [key for key in self.keys if self.axis_of(key)]

    def size(self, key: Key) -> int:
        return self.sizes[key[0]][key[1]]

    def axis(self, name: AxisName) -> Axis:
        return getattr(self, name)

    def axis_of(self, key: Key) -> AxisName | None:
        return next((name for name in AXES if key in self.axis(name).strides), None)

    def on(self, **axes: Axis) -> "Layout":
        """With other axes."""
        return replace(self, **axes)

    def places(self, name: AxisName, keys: Sequence[Key]) -> Array:
        """Positions on an axis of all indices of these parts, an array of their sizes."""
        axis = self.axis(name)
        found: Array = np.full((1,) * len(keys), axis.base, np.int64)
        for at, key in enumerate(keys):
            line = np.arange(self.size(key), dtype=np.int64) * axis.strides.get(key, 0)
            found = found + line.reshape([-1 if other == at else 1 for other in range(len(keys))])
        return np.broadcast_to(found, [self.size(key) for key in keys])

    def covered(self, name: AxisName) -> Array:
        """Which positions of an axis hold elements."""
        axis = self.axis(name)
        found: Array = np.zeros(axis.span, bool)
        found[(self.places(name, list(axis.strides)).reshape(-1, 1) + np.arange(axis.copies)).reshape(-1)] = True
        return found

    def has_holes(self, name: AxisName) -> bool:
        """Are there positions that hold no element?"""
        axis = self.axis(name)
        return axis.copies * prod(map(self.size, axis.strides)) != axis.span

    def peeled(self, name: AxisName) -> tuple[list[Key], Axis]:
        """The parts that divide an axis into equal blocks of whole tiles, from the outermost, and the axis of one block."""
        axis, outer = self.axis(name), list[Key]()
        left, span = dict(axis.strides), axis.span
        while left:
            key = max(left, key=lambda k: left[k])
            if left[key] <= 0 or (name != "z" and left[key] % TILE) or left[key] * self.size(key) != span:
                break
            outer.append(key)
            span = left.pop(key)
        return outer, Axis(span, left, axis.base, axis.full)

    def split(self, sizes: Sizes) -> "Layout":
        """With parts cut into these; each is a product of some of them that follow each other."""
        cut: dict[Key, list[Key]] = {}
        for dim, (old, new) in enumerate(zip(self.sizes, sizes, strict=True)):
            at = 0
            for part, size in enumerate(old):
                first, made = at, 1
                while made < size:
                    made *= new[at]
                    at += 1
                cut[dim, part] = [(dim, n) for n in range(first, at)]

        def axis(old: Axis) -> Axis:
            strides: dict[Key, int] = {}
            for key, stride in old.strides.items():
                for part in reversed(cut[key]):
                    strides[part] = stride
                    stride *= sizes[part[0]][part[1]]
            return replace(old, strides=strides)

        return Layout(sizes, axis(self.z), axis(self.r), axis(self.c))

    def renamed(self, sizes: Sizes, names: Mapping[Key, Key]) -> "Layout":
        """The same places under other names; parts without one hold a single index, or lie nowhere."""

        def axis(old: Axis) -> Axis:
            return replace(old, strides={names[key]: stride for key, stride in old.strides.items() if key in names})

        return Layout(sizes, axis(self.z), axis(self.r), axis(self.c))

    def merged(self) -> "Layout":
        """With as few parts as say the same."""
        sizes: list[tuple[int, ...]] = []
        names: dict[Key, Key] = {}
        for dim, parts in enumerate(self.sizes):
            made: list[int] = []
            for part, size in enumerate(parts):
                if part and self._continues((dim, part - 1), (dim, part)):
                    made[-1] *= size
                    names.pop((dim, part - 1))
                else:
                    made.append(size)
                names[dim, part] = (dim, len(made) - 1)
            sizes.append(tuple(made))
        return self.renamed(tuple(sizes), names)

    def _continues(self, major: Key, minor: Key) -> bool:
        name = self.axis_of(minor)
        if name is None or self.axis_of(major) != name:
            return name is None and self.axis_of(major) is None
        strides = self.axis(name).strides
        return strides[major] == strides[minor] * self.size(minor)


def dense(layout: Layout, keys: Sequence[Key], *, inner: Axis | None = None, unit: int = TILE) -> Axis:
    """An axis of parts without gaps between them, the first outermost; around an inner axis if there is one."""
    span, strides = (inner.span, dict(inner.strides)) if inner else (1, dict[Key, int]())
    for key in reversed(keys):
        strides[key] = span
        span *= layout.size(key)
    tiles = -(-span // unit)
    tiles = tiles if unit == 1 or inner else _divided(tiles)
    return Axis(tiles * unit, strides, inner.base if inner else 0, bool(inner and inner.full))


def _divided(tiles: int) -> int:
    """So many or a few more, so that cores can share them."""
    while tiles > 16 and all(tiles % part for part in range(4, 9)):
        tiles += 1
    return tiles


def plain(shape: Sequence[int]) -> Layout:
    """As the host has an array: columns are the last dimension, rows the one before, z all others."""
    sizes = tuple((size,) if size > 1 else () for size in shape)
    keys = [(dim, 0) for dim, parts in enumerate(sizes) if parts]
    layout = Layout(sizes, Axis(1), Axis(TILE), Axis(TILE))
    last = len(sizes) - 1
    return layout.on(
        z=dense(layout, [k for k in keys if k[0] < last - 1], unit=1),
        r=dense(layout, [k for k in keys if k[0] == last - 1]),
        c=dense(layout, [k for k in keys if k[0] == last]),
    )


def common(lists: Sequence[Sequence[int]]) -> list[int] | None:
    """The fewest factors, in order, of which every list's are products of some that follow each other; None if there are none."""
    found = [size for size in lists[0] if size > 1]
    for other in lists[1:]:
        left, right = list(found), [size for size in other if size > 1]
        found = list[int]()
        while left and right:
            a, b = left.pop(), right.pop()
            small, large = min(a, b), max(a, b)
            if large % small:
                return None
            found.insert(0, small)
            if large > small:
                (left if a == large else right).append(large // small)
    return found


def grouped(sizes: Sequence[int], shape: Sequence[int]) -> Sizes:
    """Factors by the dimension that they are part of."""
    left, made = list(sizes), list[tuple[int, ...]]()
    for size in shape:
        parts: list[int] = []
        while prod(parts) < size:
            parts.append(left.pop(0))
        made.append(tuple(parts))
    return tuple(made)
