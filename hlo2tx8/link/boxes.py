"""Records for `launch.update`: a dense value is written into a larger one, at indices that are known only when the program runs.

    update f32[2, 1, 64] into f32[2, 512, 64] at (0, i, 0)      runs of 256 bytes, two of them, 131072 bytes apart,
                                                                from 256 * i on

Large boxes are shared among the tiles along one dimension, and go through SPM in pieces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Operand, Record, Register
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcEnd,
    KcEndIf,
    KcIf,
    KcLess,
    KcLoadScalar,
    KcLoop,
    KcMax,
    KcMin,
    KcWait,
)
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.link.named import LinkerBuffer
from hlo2tx8.link.records import GRAIN_BYTES, PIECE_BYTES, SMALL_BYTES, TILE

BASE, BEGIN, COUNT, FLAG, HERE, THERE, PLACE, ADDRESS, PIECE, AT, START = map(Register, range(2, 13))
"""First byte of the box; the tile's first turn of the shared dimension, and its turns; offsets of a piece in both values; which
of two places in SPM, its address; bytes of a run in a piece, and its place in the run; a start that is read."""
FIRST_TURN = 16
"""The first of the registers that count turns of dimensions that are no levels of a descriptor."""
NUM_LEVELS = 3


@dataclass(frozen=True)
class Start:
    """Where a box begins along a dimension: a number, or a scalar of format `fmt` in a slot. It is clamped to 0..room and counts
    `distance` bytes.
    """

    value: int
    fmt: Format | None
    distance: int
    room: int


@dataclass(frozen=True)
class UpdateBox:
    """The bytes of a dense value inside of a larger one: loops of (turns, bytes per turn in the larger value), outermost first,
    around runs of `run` bytes.
    """

    levels: tuple[tuple[int, int], ...]
    run: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of turns of each loop, and then the bytes of a run."""
        return (*(turns for turns, _ in self.levels), self.run)

    @property
    def there(self) -> tuple[int, ...]:
        """Bytes per turn of each loop in the larger value."""
        return (*(distance for _, distance in self.levels), 1)

    @property
    def here(self) -> tuple[int, ...]:
        """Bytes per turn of each loop in the dense value."""
        return tuple(prod(self.sizes[k + 1 :]) for k in range(len(self.sizes)))


def distances(shape: Sequence[int], order: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    """The stride in bytes of each dimension of a dense value whose dimensions lie in memory in `order`, slowest first."""
    found = [0] * len(shape)
    step = item_bytes
    for dim in reversed(order):
        found[dim] = step
        step *= shape[dim]
    return tuple(found)


def box_of(inner: Sequence[int], outer: Sequence[int], order: Sequence[int], item_bytes: int) -> UpdateBox:
    """The box of a value of shape `inner` in one of shape `outer`; both have their dimensions in memory in `order`, slowest
    first.
    """
    there = distances(outer, order, item_bytes)
    run = item_bytes
    levels: list[tuple[int, int]] = []
    for dim in reversed(order):
        size, distance = inner[dim], there[dim]
        if size == 1:
            continue
        if not levels and distance == run:
            run *= size
        elif levels and distance == prod(levels[-1]):
            levels[-1] = (levels[-1][0] * size, levels[-1][1])
        else:
            levels.append((size, distance))
    return UpdateBox(tuple(reversed(levels)), run)


def start_places(starts: Sequence[Start], chip: Chip) -> list[LinkerBuffer]:
    """The SPM ranges that scalar starts are loaded to, in the order of `starts`."""
    return [
        LinkerBuffer(f"start {k}", chip.spm_allocation_start + k * GRAIN_BYTES, s.fmt.bytes)
        for k, s in enumerate(starts)
        if s.fmt is not None and s.room
    ]


def read_starts(starts: Sequence[Start], chip: Chip, origin: str) -> Iterator[Record]:
    """Records that load the scalar starts and compute register BASE, the offset in bytes of the box's first byte."""
    known = sum(min(max(s.value, 0), s.room) * s.distance for s in starts if s.fmt is None)
    yield Record(KcAffine, {"rd": BASE, "c": known})
    places = iter(start_places(starts, chip))
    unknown = [(s, s.fmt, next(places).address) for s in starts if s.fmt is not None and s.room]
    for start, fmt, address in unknown:
        yield Record(Rdma, {"dst": address, "slot": start.value, "offset": 0, "count": 1}, fmt, origin=origin)
    if unknown:
        yield Record(KcWait, {"engines": 1 << Engine.RDMA})
    for start, fmt, address in unknown:
        yield Record(KcLoadScalar, {"rd": START, "address": address}, fmt, origin=origin)
        yield Record(KcMax, {"rd": START, "a": START, "b": 0})
        yield Record(KcMin, {"rd": START, "a": START, "b": start.room})
        yield Record(KcAffine, {"rd": BASE, "c": 0, "r1": BASE, "k1": 1, "r2": START, "k2": start.distance})


def box_place(box: UpdateBox, chip: Chip) -> LinkerBuffer:
    """The SPM range that a box is copied through, two buffers that take turns."""
    num_bytes = min(_levels(_largest(box, chip.tiles)[1])[1], PIECE_BYTES)
    return LinkerBuffer("update", chip.spm_allocation_start, num_bytes, 2, PIECE_BYTES)


def write_box(source: int, target: int, box: UpdateBox, chip: Chip, origin: str = "") -> Iterator[Record]:
    """Records that copy the dense value in slot `source` into the box in slot `target` that begins BASE bytes behind its first
    byte.
    """
    if prod(box.sizes) == 0:
        return
    split, largest = _largest(box, chip.tiles)
    if split is None:
        yield Record(KcLess, {"rd": FLAG, "a": TILE, "b": 1})
        yield Record(KcIf, {"value": FLAG})
    else:
        share = largest[split]
        yield Record(KcAffine, {"rd": BEGIN, "c": 0, "r1": TILE, "k1": share})
        yield Record(KcAffine, {"rd": COUNT, "c": box.sizes[split], "r1": BEGIN, "k1": -1})
        yield Record(KcMin, {"rd": COUNT, "a": COUNT, "b": share})
        yield Record(KcLess, {"rd": FLAG, "a": 0, "b": COUNT})
        yield Record(KcIf, {"value": FLAG})
    yield from _pieces(source, target, box, largest, split, chip, origin)
    yield Record(KcEndIf)


def _largest(box: UpdateBox, tiles: int) -> tuple[int | None, tuple[int, ...]]:
    """The dimension that is shared among the tiles, None if one does all; and the sizes of the largest share."""
    if prod(box.sizes) <= SMALL_BYTES:
        return None, box.sizes
    grains = [*(turns for turns, _ in box.levels), -(-box.run // GRAIN_BYTES)]
    split = max(range(len(grains)), key=lambda k: (min(grains[k], tiles), -k))
    share = -(-grains[split] // tiles)
    share *= 1 if split < len(box.levels) else GRAIN_BYTES
    return split, (*box.sizes[:split], share, *box.sizes[split + 1 :])


def _levels(largest: Sequence[int]) -> tuple[int, int]:
    """How many of the dimensions a loop turns, and the bytes of what one descriptor moves."""
    last = outer = len(largest) - 1
    num_bytes = largest[last]
    while outer and last - outer < NUM_LEVELS and num_bytes * largest[outer - 1] <= PIECE_BYTES:
        outer -= 1
        num_bytes *= largest[outer]
    return outer, num_bytes


def _pieces(
    source: int, target: int, box: UpdateBox, largest: Sequence[int], split: int | None, chip: Chip, origin: str
) -> Iterator[Record]:
    """Loops over what is too large for a piece, or has too many dimensions for a descriptor."""
    sizes: list[Operand] = [COUNT if k == split else size for k, size in enumerate(box.sizes)]
    last, outer = len(sizes) - 1, _levels(largest)[0]
    turns = [Register(FIRST_TURN + k) for k in range(outer)]
    for turn, size in zip(turns, sizes, strict=False):
        yield Record(KcLoop, {"rd": turn, "lo": 0, "hi": size, "step": 1})
    is_cut = largest[last] > PIECE_BYTES
    if is_cut:
        yield Record(KcLoop, {"rd": AT, "lo": 0, "hi": sizes[last], "step": PIECE_BYTES})
        yield Record(KcAffine, {"rd": PIECE, "c": 0, "r1": AT, "k1": -1, **_term(2, sizes[last])})
        yield Record(KcMin, {"rd": PIECE, "a": PIECE, "b": PIECE_BYTES})
    for offset, start, far in ((HERE, None, box.here), (THERE, BASE, box.there)):
        terms = [(start, 1)] if start is not None else []
        terms += [(BEGIN, far[split])] if split is not None else []
        terms += list(zip(turns, far, strict=False))
        yield from _sum(offset, [*terms, *([(AT, 1)] if is_cut else [])])
    yield Record(KcAffine, {"rd": PLACE, "c": 1, "r1": PLACE, "k1": -1})
    yield Record(KcLess, {"rd": PLACE, "a": 0, "b": PLACE})
    yield Record(KcAffine, {"rd": ADDRESS, "c": chip.spm_allocation_start, "r1": PLACE, "k1": PIECE_BYTES})
    count = PIECE if is_cut else sizes[last]
    for kind, offset, far in ((Rdma, HERE, box.here), (Wdma, THERE, box.there)):
        levels = {f"n{last - k}": sizes[k] for k in range(outer, last)} | {f"s{last - k}": far[k] for k in range(outer, last)}
        where = {"dst": ADDRESS, "slot": source} if kind is Rdma else {"slot": target, "src": ADDRESS}
        yield Record(kind, {**where, "offset": offset, "count": count, **levels}, Format.UINT8, origin=origin)
    for _ in range(outer + is_cut):
        yield Record(KcEnd)


def _term(number: int, operand: Operand) -> dict[str, Operand]:
    """One times a register or a number, as term of a linear form whose constant is 0."""
    return {f"r{number}": operand, f"k{number}": 1} if isinstance(operand, Register) else {"c": operand}


def _sum(target: Register, terms: Sequence[tuple[Register, int]]) -> Iterator[Record]:
    """target = the sum of all (register, factor), three at a time."""
    yield Record(KcAffine, {"rd": target, "c": 0})
    for first in range(0, len(terms), 3):
        few = dict(enumerate(terms[first : first + 3], 2))
        fields: dict[str, Operand] = {"rd": target, "c": 0, "r1": target, "k1": 1}
        for number, (register, factor) in few.items():
            fields |= {f"r{number}": register, f"k{number}": factor}
        yield Record(KcAffine, fields)
