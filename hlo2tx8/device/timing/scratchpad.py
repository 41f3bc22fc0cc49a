"""What lies in the scratchpad of a tile over time, and which instruction reads what which other one wrote.

A byte is occupied from the start of the instruction that writes it to the end of the last one that touches it before it is written
again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hlo2tx8.device.timing.costs import Range
from hlo2tx8.device.timing.timeline import Slice


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes [start, end) that slice number `writer` wrote, in use until `until`."""

    start: int
    end: int
    writer: int
    since: float
    until: float


@dataclass(frozen=True)
class ScratchpadUse:
    """(cycle, bytes occupied from there on); (writer, reader) between engines, numbers of the slices that were given."""

    occupied: tuple[tuple[float, int], ...]
    flows: tuple[tuple[int, int], ...]


def follow_scratchpad(slices: Sequence[Slice]) -> ScratchpadUse:
    """What a tile's instructions, in the order of issue, keep in its SPM."""
    pieces: list[_Piece] = []
    lives: list[tuple[float, int]] = []
    flows: dict[tuple[int, int], None] = {}
    for number, s in enumerate(slices):
        for r in s.ranges:
            if r.is_write or r.start >= r.end:
                continue
            for i in _overlapped(pieces, r):
                pieces[i] = replace(pieces[i], until=max(pieces[i].until, s.end))
                if slices[pieces[i].writer].engine != s.engine:
                    flows[pieces[i].writer, number] = None
        for r in s.ranges:
            if r.is_write and r.start < r.end:
                _write(pieces, r, _Piece(r.start, r.end, number, s.start, s.end), lives)
    for piece in pieces:
        _close(piece, piece.until, lives)
    return ScratchpadUse(_sums(lives), tuple(flows))


def _overlapped(pieces: Sequence[_Piece], r: Range) -> range:
    """Which of the pieces, in order and apart from each other, a range meets."""
    return range(bisect_right(pieces, r.start, key=lambda p: p.end), bisect_left(pieces, r.end, key=lambda p: p.start))


def _write(pieces: list[_Piece], r: Range, new: _Piece, lives: list[tuple[float, int]]) -> None:
    """Puts a piece in the place of what was there, whose life ends now at the latest."""
    met = _overlapped(pieces, r)
    rest: list[_Piece] = []
    for piece in pieces[met.start : met.stop]:
        lost = replace(piece, start=max(piece.start, r.start), end=min(piece.end, r.end))
        _close(lost, min(lost.until, new.since), lives)
        rest += [replace(piece, end=r.start)] if piece.start < r.start else []
        rest += [replace(piece, start=r.end)] if r.end < piece.end else []
    pieces[met.start : met.stop] = sorted([*rest, new], key=lambda p: p.start)


def _close(piece: _Piece, until: float, lives: list[tuple[float, int]]) -> None:
    if until > piece.since:
        lives += ((piece.since, piece.end - piece.start), (until, piece.start - piece.end))


def _sums(changes: Sequence[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    """Running totals, one per cycle in which they change."""
    found: list[tuple[float, int]] = []
    total = 0
    for cycle, change in sorted(changes):
        total += change
        if found and found[-1][0] == cycle:
            found.pop()
        if not found or found[-1][1] != total:
            found.append((cycle, total))
    return tuple(found)
