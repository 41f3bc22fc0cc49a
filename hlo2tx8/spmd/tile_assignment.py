"""Which device has which part of an array."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MOVE = "tx8_move"
"""The custom call for a change of place that jaxlib has no collectives for; its backend_config has both, for groups of devices."""


@dataclass(frozen=True)
class Place:
    """An array cut into `tiles[d]` equal parts along dimension d, each the sum of `summands` arrays.

    `devices` has the devices of tile 0 (row major), summand 0, then of summand 1, ...: equally many of each, all with the same.
    """

    tiles: tuple[int, ...]
    summands: int
    devices: tuple[int, ...]

    @property
    def copies(self) -> int:
        return len(self.devices) // (prod(self.tiles) * self.summands)

    def local(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a part of an array."""
        return tuple(size // count for size, count in zip(shape, self.tiles, strict=True))

    def whole(self, parts: Mapping[int, Array]) -> Array:
        """The array, of the parts by device."""
        first = np.asarray(parts[self.devices[0]])
        whole = np.zeros([size * count for size, count in zip(first.shape, self.tiles, strict=True)], first.dtype)
        places = iter(self.devices[:: self.copies])
        for index in np.ndindex(*self.tiles):
            tile = whole[self._slices(index, first.shape)]
            tile[...] = parts[next(places)]
            for _ in range(1, self.summands):
                tile[...] = tile + parts[next(places)]
        return whole

    def parts(self, whole: Array, source: "Place") -> dict[int, Array]:
        """The parts by device. A summand has what its device has in `source`, the first what nobody has."""
        shape = self.local(whole.shape)
        found: dict[int, Array] = {}
        places = iter(self.devices)
        for index in np.ndindex(*self.tiles):
            cut = self._slices(index, shape)
            tile = whole[cut].copy()
            groups = [[next(places) for _ in range(self.copies)] for _ in range(self.summands)]
            for group in reversed(groups[1:]):
                own = np.zeros(whole.shape, np.bool_)
                own[source.region(group[0], whole.shape)] = True
                own[source.region(groups[0][0], whole.shape)] = False
                part: Array = np.where(own[cut], tile, np.zeros_like(tile))
                tile = np.where(own[cut], np.zeros_like(tile), tile)
                for device in group:
                    found[device] = part
            for device in groups[0]:
                found[device] = tile
        return found

    def region(self, device: int, shape: Sequence[int]) -> Any:
        """What a device has of an array of that shape; nothing if it has none."""
        if device not in self.devices:
            return (slice(0, 0), ...) if len(shape) else ...
        number = self.devices.index(device) // (self.copies * self.summands)
        return self._slices(tuple(int(i) for i in np.unravel_index(number, self.tiles)) if self.tiles else (), self.local(shape))

    def _slices(self, index: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        return (*(slice(i * size, (i + 1) * size) for i, size in zip(index, shape, strict=True)), ...)


Moves = Iterable[tuple[Place, Place]]


def text_of_moves(moves: Moves) -> str:
    """What `moves_of_text` reads."""
    return json.dumps([[(place.tiles, place.summands, place.devices) for place in move] for move in moves])


def moves_of_text(text: str) -> list[tuple[Place, Place]]:
    """From where to where, for each group of devices."""

    def place(tiles: list[int], summands: int, devices: list[int]) -> Place:
        return Place(tuple(tiles), summands, tuple(devices))

    return [(place(*source), place(*target)) for source, target in json.loads(text)]
