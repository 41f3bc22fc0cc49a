"""chip_parallel of tx8be's ops as tiles of arrays: Data cuts the first dimension, Tensor the last one, DataTensor both.

Chips are counted along x, then y, then z; along each axis dp_dim and tp_dim are the numbers of parts for data and for tensors,
those for tensors inside of those for data, unless `is_dp_inner`. Where an attribute has no numbers, all chips take part: the rows
of their mesh for data and the columns for tensors where both are cut.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.errors import InputError

_PARALLEL = re.compile(r"\{chip_parallel=(\w+) dp=(\d+),(\d+),(\d+) tp=(\d+),(\d+),(\d+) is_dp_inner=(\d)\}")


@dataclass(frozen=True)
class ChipParallel:
    """A mode, and the numbers of parts for data and tensors along x, y, z."""

    mode: str
    data: tuple[int, int, int]
    tensor: tuple[int, int, int]
    is_dp_inner: bool

    @staticmethod
    def found_in(text: str, mesh: tuple[int, int]) -> "ChipParallel | None":
        """The first one in a text, as ParallelAttr.sharding gives it, on chips in columns and rows; None if there is none.
        InputError if it is for another number of chips.
        """
        found = _PARALLEL.search(text)
        if found is None:
            return None
        numbers = [int(word) for word in found.groups()[1:7]]
        mode, data, tensor, count = found[1], tuple(numbers[:3]), tuple(numbers[3:]), prod(mesh)
        if prod(numbers) == 1:
            data, tensor = {"Data": ((count, 1, 1), (1, 1, 1)), "DataTensor": ((1, mesh[1], 1), (mesh[0], 1, 1))}.get(
                mode, ((1, 1, 1), (count, 1, 1))
            )
        elif prod(numbers) != count:
            raise InputError("E1004", f"chip_parallel shares out over {prod(numbers)} chips, and there are {count}")
        return ChipParallel(mode, data, tensor, found[8] == "1")  # pyright: ignore[reportArgumentType]

    @property
    def radices(self) -> list[int]:
        """How chips are counted: parts along each axis, from the outermost."""
        pairs = zip(self.data[::-1], self.tensor[::-1], strict=True)
        return [n for pair in pairs for n in (pair[::-1] if self.is_dp_inner else pair)]

    def tiles(self, rank: int) -> tuple[list[int], npt.NDArray[Any]]:
        """Parts of each dimension of an array, and the chips [parts of dimension 0, ..., those that have the same]."""
        first = int(self.is_dp_inner)
        order = [first, first + 2, first + 4, 1 - first, 3 - first, 5 - first]
        grid = np.arange(prod(self.radices)).reshape(self.radices).transpose(order).reshape(prod(self.data), prod(self.tensor))
        counts = [1] * rank
        is_data = self.mode in ("Data", "DataTensor") and (rank > 1 or self.mode == "Data")
        if rank and is_data:
            counts[0] = grid.shape[0]
        if rank and self.mode in ("Tensor", "DataTensor"):
            counts[-1] = grid.shape[1]
        if not is_data:
            grid = grid.T
        return counts, grid.reshape([*counts, -1])


def mode_of(counts: Sequence[int]) -> str:
    """The mode that cuts an array of which each dimension has so many parts; None for another one, and for one that is whole."""
    if not counts or any(n > 1 for n in counts[1:-1]):
        return "None"
    is_data, is_tensor = counts[0] > 1, len(counts) > 1 and counts[-1] > 1
    return ("Data" if is_data else "") + ("Tensor" if is_tensor else "") or "None"
