"""`OpShares`: how parts of an op's result are parts of its operands: over tiles (sharding), in time (split), and as boxes.

gemm of [M, K] and [K, N], result in (4, 2) parts:        (4, 1) of the left, (1, 2) of the right
conv 3x3, rows 8..15 of the result:                       rows 7..16 of the image, less what is padding
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from hlo2tx8.errors import InputError
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.hlo.spec import Attributes, Kind, Maps, OpSpec, TensorLike
from hlo2tx8.indexing import Dim, IndexingMap, Interval, Sym
from hlo2tx8.indexing.indexing_map import Variable
from hlo2tx8.spmd.derive_rule import derive_rule
from hlo2tx8.spmd.sharding_rule import OpShardingRule

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ShardingSplit:
    """Parts of each dimension: `sharding` over tiles, `split` one after the other; () where the op cannot have it so."""

    sharding: Shape
    split: Shape


@dataclass(frozen=True)
class WindowParam:
    """A box of an operand; `low` and `high` are how far beyond the operand the op's windows reach."""

    start: Shape
    size: Shape
    low: Shape
    high: Shape


@dataclass(frozen=True)
class OpShares:
    """Of one use of an op; `reduction` is the op that its region consists of."""

    spec: OpSpec
    attributes: Attributes
    operands: tuple[TensorLike, ...]
    results: tuple[TensorLike, ...]
    reduction: str = ""

    @cached_property
    def rule(self) -> OpShardingRule:
        """Its factors."""
        return derive_rule(self.spec, self.attributes, self.operands, self.results, self.reduction)

    @cached_property
    def maps(self) -> Maps:
        """From indices of the first result to those of each operand; of windows too. () where they are not known."""
        if self.spec.indexing is not None and self.spec.update_indexing is None:
            return self.spec.indexing(self.attributes, self.results[0], self.operands)
        if "window_dimensions" not in self.attributes or "scatter" in self.spec.name or len(self.operands) != 2:
            return ()
        window, shape = Window.of(self.attributes), self.results[0].shape
        if set(window.base_dilations) != {1}:
            return ()
        steps = zip(window.strides, window.window_dilations, window.low, strict=True)
        exprs = [Dim(d) * stride + Sym(d) * dilation - low for d, (stride, dilation, low) in enumerate(steps)]
        return ((IndexingMap.from_shape(exprs, shape, window.size),), (IndexingMap.from_shape([], shape),))

    def chosen(self) -> list[int]:
        """The operands of which a part is read that other operands choose, as a table's rows are."""
        size = self.results[0].shape
        found: list[int] = []
        for number, (own, tensor) in enumerate(zip(self.maps, self.operands, strict=True) if self.maps and 0 not in size else ()):
            fixed = [m.at_runtime_zero() for m in own]
            if any(m.runtime for m in own) and _box(fixed, (0,) * len(size), size, tensor.shape).size != tensor.shape:
                found.append(number)
        return found

    def result_shapes(self, shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        """The results' shapes of operands with those shapes; InputError where they do not follow."""
        given = tuple(t.shape for t in self.operands)
        if [len(s) for s in shapes] != [len(s) for s in given]:
            raise InputError("E1004", f"{self.spec.name} takes operands of ranks {[len(s) for s in given]}")
        if tuple(shapes) == given:
            return tuple(t.shape for t in self.results)
        operands = tuple(replace(t, shape=shape) for t, shape in zip(self.operands, shapes, strict=True))
        if self.spec.shape is not None:
            return tuple(t.shape for t in self.spec.shape(self.attributes, operands))
        return tuple(
            tuple(self._size(number, d, n, shapes) for d, n in enumerate(t.shape)) for number, t in enumerate(self.results)
        )

    def _size(self, number: int, dim: int, old: int, shapes: Sequence[Shape]) -> int:
        """A dimension of a result: of the operands that have its factor, or as windows count."""
        factor = self.rule.results[number][dim]
        places = [(a, e) for a, dims in enumerate(self.rule.operands) for e, f in enumerate(dims) if f == factor and f is not None]
        if any(self.operands[a].shape[e] != old for a, e in places):
            places = []
        elif places or factor is not None:
            sizes = {shapes[a][e] for a, e in places} or {old}
            if len(sizes) > 1:
                raise InputError("E1004", f"{self.spec.name} takes dimensions of one size, got {sorted(sizes)}")
            return sizes.pop()
        moved = [
            (a, e, expr.affine_terms()[1].get(Dim(dim), 0))
            for a, own in enumerate(self.maps)
            for m in own
            for e, expr in enumerate(m.results)
            if expr.leaves() & {Dim(dim)} and shapes[a][e] != self.operands[a].shape[e]
        ]
        if not moved and all(s == t.shape for s, t in zip(shapes, self.operands, strict=True)):
            return old
        if moved and self.spec.is_variadic:
            return old + sum(shapes[a][e] - self.operands[a].shape[e] for a, e, _ in moved)
        if len(moved) == 1 and moved[0][2] == 1:
            a, e, _ = moved[0]
            return old + shapes[a][e] - self.operands[a].shape[e]
        raise InputError("E1004", f"dimension {dim} of {self.spec.name}'s result does not follow from other operands")

    def of_operands(self, wanted: ShardingSplit) -> tuple[ShardingSplit, ...]:
        """The parts of each operand for parts of the first result. What the op cannot have so is () of all operands.

        An op on channels (batch norm) is sharded along them only, and split along the others only: its parameters are loaded once.
        """
        rank = len(self.results[0].shape)
        if len(wanted.sharding) != rank or len(wanted.split) != rank or min((*wanted.sharding, *wanted.split, 1)) < 1:
            raise InputError("E1004", f"{self.spec.name} has a result of rank {rank}: a number of 1 or more for each dimension")
        if self.spec.kind is Kind.PER_CHANNEL:
            return self._of_channels(wanted)
        sharding, split = self._parts(wanted.sharding), self._parts(wanted.split)
        none: tuple[Shape, ...] = ((),) * len(self.operands)
        return tuple(ShardingSplit(a, b) for a, b in zip(sharding or none, split or none, strict=True))

    def _of_channels(self, wanted: ShardingSplit) -> tuple[ShardingSplit, ...]:
        """Of parameters as tx8be has them, in the rank of the result with 1 in front of the channels."""
        channel = self.rule.operands[1][0]
        is_channel = [factor == channel for factor in self.rule.results[0]]
        sharding = () if any(n > 1 and not c for n, c in zip(wanted.sharding, is_channel, strict=True)) else wanted.sharding
        split = () if any(n > 1 and c for n, c in zip(wanted.split, is_channel, strict=True)) else wanted.split
        parameter = ShardingSplit(sharding, (1,) * len(is_channel))
        return (ShardingSplit(sharding, split), *(parameter for _ in self.operands[1:]))

    def _parts(self, wanted: Shape) -> tuple[Shape, ...]:
        """Parts of each operand; () if a dimension of the result cannot have its number."""
        found = [[1] * len(t.shape) for t in self.operands]
        for dim, count in enumerate(wanted):
            if count == 1:
                continue
            factor = self.rule.results[0][dim]
            if factor is not None:
                places = [(a, e) for a, dims in enumerate(self.rule.operands) for e, f in enumerate(dims) if f == factor]
                if self.results[0].shape[dim] != self.rule.factor_sizes[factor] and self.rule.factor_sizes[factor] % count:
                    return ()  # blocks of a reshape
            else:
                windows = self._windowed(dim)
                if windows is None:
                    return ()
                places = windows
            for a, e in places:
                found[a][e] *= count
        return tuple(map(tuple, found))

    def _windowed(self, dim: int) -> list[tuple[int, int]] | None:
        """Operand dimensions along which windows move with a dimension of the result; None if it is no such dimension."""
        places: list[tuple[int, int]] = []
        for a, own in enumerate(self.maps):
            for m in own:
                for e, expr in enumerate(m.results):
                    if Dim(dim) not in expr.leaves():
                        continue
                    terms = expr.affine_terms()[1]
                    if terms.get(Dim(dim), 0) < 1 or any(isinstance(leaf, Dim) and leaf != Dim(dim) for leaf in expr.leaves()):
                        return None
                    places.append((a, e))
        is_once = len({a for a, _ in places}) == len(places)
        return places if places and is_once and not self.spec.is_variadic else None

    def slices(self, wanted: ShardingSplit) -> tuple[Shape, ...]:
        """The shape of each operand for the largest part of the first result; InputError for parts that the op cannot have."""
        if any(
            not (found.sharding and found.split) and t.shape
            for found, t in zip(self.of_operands(wanted), self.operands, strict=True)
        ):
            raise InputError("E1004", f"{self.spec.name} cannot be shared out so")
        count = zip(self.results[0].shape, wanted.sharding, wanted.split, strict=True)
        size = tuple(ceil(ceil(n / shards) / splits) for n, shards, splits in count)
        return tuple(window.size for window in self.windows((0,) * len(size), size))

    def windows(self, start: Shape, size: Shape) -> tuple[WindowParam, ...]:
        """The box of each operand from which a box of the first result is computed; all of one of which nothing is known."""
        shape = self.results[0].shape
        boxes = list(zip(start, size, shape, strict=False))
        if len(start) != len(shape) or len(size) != len(shape) or any(s < 0 or n < 1 or s + n > whole for s, n, whole in boxes):
            raise InputError("E1004", f"{start} and {size} are no box of {shape}")
        if not self.maps:
            return tuple(_all(t.shape) for t in self.operands)
        return tuple(_box(own, start, size, t.shape) for own, t in zip(self.maps, self.operands, strict=True))


def _all(shape: Shape) -> WindowParam:
    zeros = (0,) * len(shape)
    return WindowParam(zeros, shape, zeros, zeros)


def _box(maps: Sequence[IndexingMap], start: Shape, size: Shape, shape: Shape) -> WindowParam:
    """What the maps reach in an operand of that shape."""
    dims = tuple(Variable(s, s + n - 1) for s, n in zip(start, size, strict=True))
    placed = [replace(m, dims=dims) for m in maps]
    whole = [_union([m.bounds(m.results[e]) for m in placed]) for e in range(len(shape))]
    inside = [reach.intersect(Interval(0, n - 1)) for reach, n in zip(whole, shape, strict=True)]
    return WindowParam(
        tuple(i.lo for i in inside),
        tuple(max(0, i.hi - i.lo + 1) for i in inside),
        tuple(max(0, -w.lo) for w in whole),
        tuple(max(0, w.hi - n + 1) for w, n in zip(whole, shape, strict=True)),
    )


def _union(found: Sequence[Interval]) -> Interval:
    return Interval(min(i.lo for i in found), max(i.hi for i in found))
