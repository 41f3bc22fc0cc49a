"""Drawing of shapes, and of ops that only move elements, for random graphs and random uses of one op."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hlo2tx8.hlo.ops.shaping import pad_shape
from hlo2tx8.hlo.spec import TensorLike

SIZES = (*(1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 60, 64, 65, 100, 127, 128, 129, 255, 256, 257, 1000), 0)
LARGEST = 20_000
MAX_RANK = 6


@dataclass
class MoveDrawer:
    """Draws shapes, and moves of operands that are known by a number; equal states of `rng` give the same."""

    rng: np.random.Generator

    @abstractmethod
    def of(self, tensor: TensorLike) -> int:
        """The number of an operand of that dtype and shape."""

    @abstractmethod
    def append(self, name: str, result: TensorLike, operands: tuple[int, ...], **attributes: Any) -> int:
        """Takes a use of an op; the number of its result."""

    def below(self, low: int, high: int) -> int:
        """A whole number in [low, high)."""
        return int(self.rng.integers(low, high))

    def pick(self, choices: Any) -> Any:
        """One of the choices."""
        return choices[self.below(0, len(choices))]

    def shape(self) -> tuple[int, ...]:
        """Up to MAX_RANK dimensions, LARGEST elements; one may be 0."""
        rank = self.below(0, MAX_RANK + 1)
        found: list[int] = []
        for _ in range(rank):
            fitting = [n for n in SIZES if n * prod(filter(None, found)) <= LARGEST]  # a 0 may be joined with more
            size = int(self.pick(fitting[:8] if self.rng.random() < 0.5 else fitting))
            found.append(size or self.below(0, 2))
        return tuple(int(n) for n in self.rng.permutation(found))

    def transpose(self, source: int, own: TensorLike) -> None:
        """Dimensions in another order."""
        order = tuple(int(d) for d in self.rng.permutation(len(own.shape)))
        self.append("stablehlo.transpose", TensorLike(tuple(own.shape[d] for d in order), own.dtype), (source,), permutation=order)

    def reverse(self, source: int, own: TensorLike) -> None:
        """Some dimensions backwards."""
        dims = tuple(d for d in range(len(own.shape)) if self.rng.random() < 0.5)
        self.append("stablehlo.reverse", own, (source,), dimensions=dims)

    def slice(self, source: int, own: TensorLike) -> None:
        """A part of each dimension, in strides."""
        whole = self.rng.random(len(own.shape)) < 0.4
        starts = tuple(0 if w else self.below(0, max(1, n // 2 + 1)) for w, n in zip(whole, own.shape, strict=True))
        limits = tuple(n if w else self.below(min(s + 1, n), n + 1) for w, s, n in zip(whole, starts, own.shape, strict=True))
        strides = tuple(1 if self.rng.random() < 0.6 else self.below(1, 4) for _ in own.shape)
        shape = tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, strides, strict=True))
        attributes = {"start_indices": starts, "limit_indices": limits, "strides": strides}
        self.append("stablehlo.slice", TensorLike(shape, own.dtype), (source,), **attributes)

    def pad(self, source: int, own: TensorLike) -> None:
        """Edges of either sign, and elements between."""
        edges = [(self.below(-2, 4), self.below(-2, 4), int(self.pick((0, 0, 0, 1, 2)))) for _ in own.shape]
        edges = [(0, 0, 0) if self.rng.random() < 0.4 else e for e in edges]
        spread = [n + max(0, n - 1) * e[2] for n, e in zip(own.shape, edges, strict=True)]
        edges = [e if n + e[0] + e[1] >= 0 else (0, 0, e[2]) for n, e in zip(spread, edges, strict=True)]
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        attributes = {name: tuple(e[k] for e in edges) for k, name in enumerate(names)}
        (result,) = pad_shape(attributes, (own,))
        if own.shape and prod(result.shape) <= 2 * LARGEST:
            self.append("stablehlo.pad", result, (source, self.of(TensorLike((), own.dtype))), **attributes)

    def reshape(self, source: int, own: TensorLike) -> None:
        """The same elements in another shape."""
        pieces = [1] * self.below(0 if prod(own.shape) == 1 else 1, MAX_RANK + 1)
        for factor in _factors(prod(own.shape)):
            pieces[self.below(0, len(pieces))] *= factor
        self.append("stablehlo.reshape", TensorLike(tuple(pieces), own.dtype), (source,))

    def concatenate(self, source: int, own: TensorLike) -> None:
        """Side by side with others; nothing of a scalar."""
        if not own.shape:
            return
        along = self.below(0, len(own.shape))
        parts, total = [source], own.shape[along]
        for _ in range(self.below(1, 4)):
            size = own.shape[along] if self.rng.random() < 0.6 else self.below(0, 6)
            shape = (*own.shape[:along], size, *own.shape[along + 1 :])
            if prod(shape) <= LARGEST:
                parts.insert(self.below(0, len(parts) + 1), self.of(TensorLike(shape, own.dtype)))
                total += size
        shape = (*own.shape[:along], total, *own.shape[along + 1 :])
        if prod(shape) <= 4 * LARGEST:
            self.append("stablehlo.concatenate", TensorLike(shape, own.dtype), tuple(parts), dimension=along)

    def broadcast(self, source: int, own: TensorLike) -> None:
        """New dimensions."""
        shape, dims = list(own.shape), list(range(len(own.shape)))
        for _ in range(self.below(1, 3)):
            size = int(self.pick((1, 2, 3, 5, 16, 33)))
            if len(shape) == MAX_RANK or size * prod(shape) > LARGEST:
                break
            at = self.below(0, len(shape) + 1)
            shape.insert(at, size)
            dims = [d + (d >= at) for d in dims]
        self.append("stablehlo.broadcast_in_dim", TensorLike(tuple(shape), own.dtype), (source,), broadcast_dimensions=tuple(dims))

    def broadcast_in_front(self, source: int, own: TensorLike) -> None:
        """New dimensions before the others."""
        sizes = tuple(int(self.pick((1, 2, 3, 5, 16))) for _ in range(self.below(0, 3)))
        self.append("stablehlo.broadcast", TensorLike((*sizes, *own.shape), own.dtype), (source,), broadcast_sizes=sizes)

    def iota(self, _: int, own: TensorLike) -> None:
        """Numbers along a dimension; nothing of a scalar."""
        if own.shape:
            self.append("stablehlo.iota", own, (), iota_dimension=self.below(0, len(own.shape)))


MOVES: Mapping[str, Callable[[MoveDrawer, int, TensorLike], None]] = {
    **{f"stablehlo.{m.__name__}": m for m in (MoveDrawer.transpose, MoveDrawer.reverse, MoveDrawer.slice, MoveDrawer.pad)},
    **{f"stablehlo.{m.__name__}": m for m in (MoveDrawer.reshape, MoveDrawer.concatenate, MoveDrawer.iota)},
    "stablehlo.broadcast_in_dim": MoveDrawer.broadcast,
    "stablehlo.broadcast": MoveDrawer.broadcast_in_front,
}
"""By op, what draws a use of it on an operand."""


def _factors(number: int) -> list[int]:
    found: list[int] = []
    divisor = 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found if number else [0]
