"""TileAssignment: which device holds which tile of an array; and reshards, as text in a custom call."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
RESHARD_TARGET = "tx8_reshard"
"""The custom call for a reshard that no collective op expresses; its backend_config is that of `encode_reshards`."""


@dataclass(frozen=True)
class TileAssignment:
    """An array split into `tile_counts[d]` equal parts along dimension d, as OpSharding's tile assignment.

    With `num_summands` > 1 the array is unreduced: each tile is the sum of that many arrays on different devices.
    `devices` lists the devices of tile 0 (tiles in row-major order), summand 0, then those of summand 1, ...; as many for each,
    all with equal contents.
    """

    tile_counts: tuple[int, ...]
    num_summands: int
    devices: tuple[int, ...]

    @property
    def num_replicas(self) -> int:
        """How many devices hold the same summand of the same tile."""
        return len(self.devices) // (prod(self.tile_counts) * self.num_summands)

    def shard_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one tile of an array of that shape."""
        return tuple(size // count for size, count in zip(shape, self.tile_counts, strict=True))

    def assemble(self, shards: Mapping[int, Array]) -> Array:
        """The whole array, from the shards by device: tiles side by side, their summands added up in order."""
        first = np.asarray(shards[self.devices[0]])
        whole = np.zeros([size * count for size, count in zip(first.shape, self.tile_counts, strict=True)], first.dtype)
        owners = iter(self.devices[:: self.num_replicas])
        for index in np.ndindex(*self.tile_counts):
            tile = whole[self._slices(index, first.shape)]
            tile[...] = shards[next(owners)]
            for _ in range(1, self.num_summands):
                tile[...] = tile + shards[next(owners)]
        return whole

    def disassemble(self, whole: Array, source: "TileAssignment") -> dict[int, Array]:
        """The shards by device of a whole array that came from `source`.

        An unreduced tile's elements go to the summand whose first device held them in `source`, those that none held to the
        first summand; the other summands are zero there.
        """
        shape = self.shard_shape(whole.shape)
        found: dict[int, Array] = {}
        owners = iter(self.devices)
        for index in np.ndindex(*self.tile_counts):
            where = self._slices(index, shape)
            tile = whole[where].copy()
            groups = [[next(owners) for _ in range(self.num_replicas)] for _ in range(self.num_summands)]
            for group in reversed(groups[1:]):
                is_held = np.zeros(whole.shape, np.bool_)
                is_held[source.tile_slices(group[0], whole.shape)] = True
                is_held[source.tile_slices(groups[0][0], whole.shape)] = False
                summand: Array = np.where(is_held[where], tile, np.zeros_like(tile))
                tile = np.where(is_held[where], np.zeros_like(tile), tile)
                for device in group:
                    found[device] = summand
            for device in groups[0]:
                found[device] = tile
        return found

    def tile_slices(self, device: int, shape: Sequence[int]) -> Any:
        """The index of a device's tile in an array of that shape; an index of no elements if the device has none."""
        if device not in self.devices:
            return (slice(0, 0), ...) if len(shape) else ...
        number = self.devices.index(device) // (self.num_replicas * self.num_summands)
        index = np.unravel_index(number, self.tile_counts) if self.tile_counts else ()
        return self._slices(tuple(int(i) for i in index), self.shard_shape(shape))

    def _slices(self, index: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        return (*(slice(i * size, (i + 1) * size) for i, size in zip(index, shape, strict=True)), ...)


Reshard = tuple[TileAssignment, TileAssignment]
"""The assignment that one group of devices has, and the one that it is to get."""


def encode_reshards(reshards: Iterable[Reshard]) -> str:
    """The reshards of all groups of devices as JSON, which `decode_reshards` reads."""
    return json.dumps([[(a.tile_counts, a.num_summands, a.devices) for a in reshard] for reshard in reshards])


def decode_reshards(text: str) -> list[Reshard]:
    """The reshards of all groups of devices."""

    def assignment(tile_counts: list[int], num_summands: int, devices: list[int]) -> TileAssignment:
        return TileAssignment(tuple(tile_counts), num_summands, tuple(devices))

    return [(assignment(*source), assignment(*target)) for source, target in json.loads(text)]
