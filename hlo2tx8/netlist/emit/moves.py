"""From one layout to another: by manipulations where whole tiles move, by products with zeros and ones where elements do."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from hlo2tx8.netlist.emit.build import TRANSPOSE, Builder, Value
from hlo2tx8.netlist.emit.layout import AXES, ONE, TILED, Axis, AxisName, Key, Layout, common, dense, grouped
from hlo2tx8.netlist.tms import Tm

Stacks: TypeAlias = tuple[tuple[Key, ...], ...]
"""Parts on z, rows and columns, the outermost first; those of z are all there are."""
MOST_STATES = 200_000
FILLS: Mapping[AxisName, Key] = {"r": (-1, 0), "c": (-1, 1)}
"""Stand for repetitions of a tile that is full."""


def relayout(builder: Builder, value: Value, target: Layout) -> Value:
    """The same array in another layout. What is at a single position there may be at all of them."""
    if fits(value.layout, target):
        return value
    if _is_rather_turned(value.layout, target):
        value = turned(value)
    for name in TILED:
        value = _made_ready(builder, value, target, name)
    value = _restacked(builder, value, target)
    for name in TILED:
        if not _axis_fits(value.layout.axis(name), target.axis(name)):
            value = project(builder, value, name, target.axis(name))
    assert fits(value.layout, target), (value.layout, target)
    return value


def fits(layout: Layout, target: Layout) -> bool:
    """Is everything where the target has it?"""
    return all(_axis_fits(layout.axis(name), target.axis(name)) for name in AXES)


def _axis_fits(axis: Axis, target: Axis) -> bool:
    is_there = (axis.span, axis.strides, axis.base) == (target.span, target.strides, target.base)
    return is_there and (axis.full or not target.full)


def turned(value: Value) -> Value:
    """With rows and columns exchanged."""
    layout = value.layout
    tms = value.tms[:-1] if value.tms[-1:] == (TRANSPOSE,) else (*value.tms, TRANSPOSE)
    return replace(value, layout=layout.on(r=layout.c, c=layout.r), tms=tms)


def _is_rather_turned(layout: Layout, target: Layout) -> bool:
    def shared(a: Axis, b: Axis) -> int:
        return sum(key in b.strides for key in a.strides)

    across = shared(layout.r, target.c) + shared(layout.c, target.r)
    return across > shared(layout.r, target.r) + shared(layout.c, target.c)


def project(builder: Builder, value: Value, name: AxisName, axis: Axis) -> Value:
    """With another rows' or columns' axis: parts that it does not have are summed up, those that lay nowhere are repeated."""
    old = value.layout
    new = old.on(**{name: axis})
    keys = list(dict.fromkeys((*old.axis(name).strides, *axis.strides)))
    builder.bounded(old.axis(name).span * axis.span)
    before, after = old.places(name, keys).reshape(-1), new.places(name, keys).reshape(-1)
    matrix = np.zeros((old.axis(name).span, axis.span), np.float32)
    for copy in range(axis.copies):
        np.add.at(matrix, (before, after + copy), 1)
    return builder.multiplied(value, name, matrix, new)


def _made_ready(builder: Builder, value: Value, target: Layout, name: AxisName) -> Value:
    """With whole tiles that are to stay on the axis as they are, and those that are to leave it around them."""
    layout = value.layout
    here, wanted = layout.axis(name).strides, target.axis(name).strides
    outer, inner = layout.peeled(name)
    _, goal = target.peeled(name)
    if _block_fits(layout, inner, goal):
        return value
    leaving = [key for key in ordered(here) if key not in wanted]
    staying = [key for key in ordered(here) if key in wanted]
    if all(key in here or layout.axis_of(key) is None for key in goal.strides):
        block = goal if any(key in here for key in goal.strides) else ONE
        others = [key for key in staying if key not in goal.strides]
        return project(builder, value, name, dense(layout, [*leaving, *others], inner=block))
    if all(key in outer for key in leaving):
        return value
    return project(builder, value, name, dense(layout, leaving, inner=dense(layout, staying) if staying else ONE))


def ordered(strides: Mapping[Key, int]) -> list[Key]:
    """Parts of an axis, the outermost first."""
    return sorted(strides, key=lambda key: -abs(strides[key]))


def _block_fits(layout: Layout, inner: Axis, goal: Axis) -> bool:
    """Is a block of whole tiles the one that is wanted, or will be when its tile is repeated?"""
    if _axis_fits(inner, goal):
        return True
    return inner.full and not inner.strides and all(layout.axis_of(key) is None for key in goal.strides)


def _restacked(builder: Builder, value: Value, target: Layout) -> Value:
    """With parts of whole tiles moved between axes, and repeated."""
    layout = value.layout
    found: dict[AxisName, Axis] = {}
    pad = value.pad
    goals: list[tuple[Key, ...]] = [tuple(target.peeled("z")[0])]
    sizes = {key: layout.size(key) for key in layout.keys}
    for name in TILED:
        outer, goal = target.peeled(name)
        inner = layout.peeled(name)[1]
        if _block_fits(layout, inner, goal):
            repeats = goal.span // inner.span
            sizes[FILLS[name]] = repeats
            goals.append((*outer, *((FILLS[name],) if repeats > 1 else ())))
            block = Axis(goal.span, goal.strides, goal.base, inner.full and not goal.strides)
            if inner.full and not block.full and not value.is_uniform:
                pad = None  # what is no element any more is as it was
        else:
            outer = [k for k in ordered(target.axis(name).strides) if k not in inner.strides and layout.axis_of(k)]
            goals.append(tuple(outer))
            block = inner
        found[name] = dense(layout, outer, inner=block)
    starts = tuple(tuple(layout.peeled(name)[0]) for name in AXES)
    if starts == tuple(goals):
        tms: tuple[Tm, ...] = ()
    else:
        tms = _manipulations(builder, starts, tuple(goals), sizes)
    moved = {key for goal in goals for key in goal} - {key for start in starts for key in start} - {*FILLS.values()}
    assert not any(layout.axis_of(key) for key in moved), "a part within tiles is no part of whole tiles"
    z = dense(layout, goals[0], unit=1)
    return replace(value, layout=layout.on(z=z, **found), tms=(*value.tms, *tms), pad=pad)


def _manipulations(builder: Builder, start: Stacks, goal: Stacks, sizes: Mapping[Key, int]) -> tuple[Tm, ...]:
    """The fewest that get from stacks to others; found by trying all, level by level."""
    start, goal, sizes = _joined(start, goal, sizes)
    pending = frozenset(key for stack in goal for key in stack) - {key for stack in start for key in stack}
    seen: dict[Stacks, tuple[Stacks, Tm] | None] = {start: None}
    ready = deque([start])
    while ready and len(seen) < MOST_STATES:
        state = ready.popleft()
        if state == goal:
            path: list[Tm] = []
            while (step := seen[state]) is not None:
                state, tm = step
                path.append(tm)
            return tuple(reversed(path))
        there = {key for stack in state for key in stack}
        for after, tm in _neighbours(state, [key for key in pending if key not in there], sizes):
            if after not in seen:
                seen[after] = (state, tm)
                ready.append(after)
    raise builder.refuse("its elements are moved in too many parts")


def _joined(start: Stacks, goal: Stacks, sizes: Mapping[Key, int]) -> tuple[Stacks, Stacks, dict[Key, int]]:
    """With parts as one that follow each other before and after."""
    sizes = dict(sizes)
    while True:
        pairs = [{pair for stack in stacks for pair in pairwise(stack)} for stacks in (start, goal)]
        both = pairs[0] & pairs[1]
        if not both:
            return start, goal, sizes
        first, second = min(both)
        sizes[first] *= sizes[second]
        start, goal = (tuple(tuple(k for k in stack if k != second) for stack in stacks) for stacks in (start, goal))


def _neighbours(state: Stacks, pending: Sequence[Key], sizes: Mapping[Key, int]) -> list[tuple[Stacks, Tm]]:
    z, r, c = state
    found: list[tuple[Stacks, Tm]] = []
    if r:
        found.append((((*z, r[0]), r[1:], c), Tm("vslice", (sizes[r[0]],))))
    if c:
        found.append((((*z, c[0]), r, c[1:]), Tm("hslice", (sizes[c[0]],))))
    if z:
        found.append(((z[:-1], (z[-1], *r), c), Tm("vstack", (sizes[z[-1]],))))
        found.append(((z[:-1], r, (z[-1], *c)), Tm("hstack", (sizes[z[-1]],))))
    for key in pending:
        if key not in FILLS.values():
            found.append((((key, *z), r, c), Tm("broadcast", ("z", sizes[key]))))
        if key != FILLS["c"]:
            found.append(((z, (key, *r), c), Tm("broadcast", ("r", sizes[key]))))
        if key != FILLS["r"]:
            found.append(((z, r, (key, *c)), Tm("broadcast", ("c", sizes[key]))))
    return found


def gathered(builder: Builder, value: Value, keys: Sequence[Key]) -> Value:
    """With parts without gaps in the columns, in this order, and all others that were there on z."""
    layout = value.layout
    others = [key for key in ordered(layout.c.strides) if key not in keys]
    rows = [key for key in ordered(layout.r.strides) if key in keys]
    z = [key for key in layout.peeled("z")[0] if key not in keys]
    r = dense(layout, [k for k in ordered(layout.r.strides) if k not in keys]) if rows else layout.r
    return relayout(builder, value, layout.on(z=dense(layout, [*z, *others], unit=1), r=r, c=dense(layout, keys)))


def reshaped(builder: Builder, value: Value, shape: Sequence[int]) -> Value:
    """The same elements, in row-major order, as an array of another shape."""
    flat = tuple(size for parts in value.layout.sizes for size in parts)
    names = {key: (0, number) for number, key in enumerate(value.layout.keys)}
    line = value.layout.renamed((flat,), names).merged()
    if (factors := common([line.sizes[0], [size for size in shape if size > 1]])) is None:
        start, end = _clash(line.sizes[0], shape)
        value = gathered(builder, replace(value, layout=line), [(0, n) for n in range(start, end)])
        line = value.layout.merged()
        factors = common([line.sizes[0], [size for size in shape if size > 1]])
        if factors is None:  # another place where parts do not meet
            return reshaped(builder, replace(value, layout=line), shape)
    line = line.split((tuple(factors),))
    sizes = grouped(factors, shape)
    keys = [(dim, part) for dim, parts in enumerate(sizes) for part in range(len(parts))]
    layout = line.renamed(sizes, {(0, number): key for number, key in enumerate(keys)})
    return replace(value, layout=layout)


def _clash(sizes: Sequence[int], shape: Sequence[int]) -> tuple[int, int]:
    """The first parts, from the minor end, whose product has no factors in common order with the shape: from which to which."""
    left = [size for size in shape if size > 1]
    end = at = len(sizes)
    a = b = 1
    while at or left:
        if a <= b and at:
            at -= 1
            a *= sizes[at]
        else:
            b *= left.pop()
        if a == b:
            if common([sizes[at:end], _tail(shape, sizes[at:], sizes[end:])]) is None:
                return at, end
            end = at
    return 0, len(sizes)


def _tail(shape: Sequence[int], outer: Sequence[int], inner: Sequence[int]) -> list[int]:
    """Dimensions of the shape between two products of its last ones."""
    made, found = 1, list[int]()
    high, low = int(np.prod(outer, dtype=np.int64)), int(np.prod(inner, dtype=np.int64))
    for size in reversed([size for size in shape if size > 1]):
        if low <= made < high:
            found.insert(0, size)
        made *= size
    return found
