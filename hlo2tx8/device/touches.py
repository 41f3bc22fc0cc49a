"""What an instruction touches: ranges of SPM and DDR from its declaration, exactly where it says how it strides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.dte import destinations
from hlo2tx8.device.isa.fields import Field, Operands, Role
from hlo2tx8.device.isa.lsu import TdmaGatherScatter, TdmaMemset

Levels = tuple[tuple[int, int], ...]


def spm_of(tile: int) -> int:
    """The number of a tile's SPM as a space; DDR slots are the numbers from 0 on."""
    return -1 - tile


def tile_of(space: int) -> int:
    """The number of the tile whose SPM this space is."""
    return -1 - space


def name_of(space: int) -> str:
    """A space in words."""
    return f"SPM of tile {tile_of(space)}" if space < 0 else f"DDR slot {space}"


@dataclass(frozen=True)
class Touch:
    """Bytes [start, end) of a space; with `levels`, pairs of stride and count in bytes, only `run` bytes at each of their turns.

    `field` is the operand it belongs to; `is_open` if data decide how far it reaches, `end` being the most. `tag` tells the data of
    named buffers apart, see `BufferTable`.
    """

    space: int
    start: int
    end: int
    is_write: bool
    field: str = ""
    run: int = 0
    levels: Levels = ()
    tag: int = 1
    is_open: bool = False

    @property
    def is_dense(self) -> bool:
        """Does it touch all bytes from its first to its last?"""
        return not self.levels

    def hits(self, other: "Touch") -> bool:
        """Do the ranges conflict: overlap, and one of them writes?"""
        return self.space == other.space and (self.is_write or other.is_write) and self.start < other.end and other.start < self.end

    def where(self) -> np.ndarray:
        """Index of every byte."""
        if self.is_dense:
            return np.arange(self.start, self.end)
        return (self.start + strided_offsets(self.levels)[:, None] + np.arange(self.run)).reshape(-1)

    def part_of(self, space: np.ndarray) -> np.ndarray:
        """A view of the bytes' elements in an array with one for each byte of their space, in the order of `where`."""
        if self.is_dense:
            return space[self.start : self.end]
        size = space.itemsize
        counts, strides = [n for _, n in reversed(self.levels)], [stride * size for stride, _ in reversed(self.levels)]
        return np.ndarray((*counts, self.run), space.dtype, space, self.start * size, (*strides, size))

    def common(self, other: "Touch") -> tuple[int, int] | None:
        """[first, last] of the bytes both touch, exactly; None if there are none."""
        if self.is_dense and other.is_dense:
            first, last = max(self.start, other.start), min(self.end, other.end) - 1
            return (first, last) if first <= last else None
        both = np.intersect1d(self.where(), other.where())
        return (int(both[0]), int(both[-1])) if both.size else None


def strided_offsets(levels: Sequence[tuple[int, int]]) -> np.ndarray:
    """Offsets of all turns of nested levels, innermost first."""
    offsets = np.zeros(1, np.int64)
    for stride, count in levels:
        offsets = (np.arange(count, dtype=np.int64)[:, None] * stride + offsets).reshape(-1)
    return offsets


def touches(kind: type[Instruction], o: Operands, tile: int, spm_bytes: int) -> Iterator[Touch]:
    """Everything an instruction whose constraints hold touches; an operand of data-dependent extent reaches to the end of SPM."""
    for f in kind.FIELDS:
        match f.role:
            case Role.SPM_READ | Role.SPM_WRITE:
                touch = _spm(kind, f, o, spm_of(tile), spm_bytes)
            case Role.REMOTE_READ | Role.REMOTE_WRITE:
                yield from _remote(f, o)
                continue
            case Role.DDR_READ | Role.DDR_WRITE:
                touch = _ddr(f, o)
            case _:
                continue
        if touch.start != touch.end:
            yield touch


def _spm(kind: type[Instruction], f: Field, o: Operands, space: int, spm_bytes: int) -> Touch:
    start = o[f.name]
    is_write = f.role is Role.SPM_WRITE
    num_bytes = f.num_bytes(o) if f.num_bytes else max(spm_bytes - start, 1)
    touch = Touch(space, start, start + num_bytes, is_write, f.name, is_open=f.num_bytes is None)
    if kind is TdmaGatherScatter:
        side = "w" if is_write else "r"
        return _strided(touch, o["run_bytes"], [(o[f"{side}s{i}"], o[f"{side}n{i}"]) for i in (1, 2, 3)])
    if kind is TdmaMemset and num_bytes:
        return _strided(touch, o["n"] * o.fmt.bytes, [(o[f"s{i}"] * o.fmt.bytes, o[f"n{i}"]) for i in (1, 2)])
    return touch


def _remote(f: Field, o: Operands) -> Iterator[Touch]:
    """One for each tile that is named."""
    assert f.num_bytes is not None
    start, end = o[f.name], o[f.name] + f.num_bytes(o)
    levels = [(o[f"s{i}"] * o.fmt.bytes, o[f"n{i}"]) for i in (1, 2, 3)] if "count" in o.values else []
    run = o["count"] * o.fmt.bytes if levels else end - start
    for tile in destinations(o) if start != end else ():
        yield _strided(Touch(spm_of(tile), start, end, f.role is Role.REMOTE_WRITE, f.name), run, levels)


def _ddr(f: Field, o: Operands) -> Touch:
    size, start = o.fmt.bytes, o[f.name]
    levels = [(o[f"s{i}"] * size, o[f"n{i}"]) for i in (1, 2, 3)]
    end = start + o["count"] * size + sum((n - 1) * s for s, n in levels)
    return _strided(Touch(o["slot"], start, end, f.role is Role.DDR_WRITE, f.name), o["count"] * size, levels)


def _strided(touch: Touch, run: int, levels: Sequence[tuple[int, int]]) -> Touch:
    """With levels, if the bytes are not all of the range."""
    kept: list[tuple[int, int]] = []
    for stride, count in levels:
        if count == 1 or stride == 0:
            continue
        if stride == run and not kept:
            run *= count
        else:
            kept.append((stride, count))
    return replace(touch, run=run, levels=tuple(kept)) if kept else touch
