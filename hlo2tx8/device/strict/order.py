"""Which accesses are ordered: vector clocks over the engines of a tile, and over the tiles where all of them meet.

A clock counts, per engine of its tile, the instructions known to have finished. The kernel core's advances by waits. An
instruction starts with the kernel core's as it was at issue, and knows in addition what its own queue did before, and the earlier
accesses to its bytes by engines that are range-checked. Tiles learn of each other where all of them meet: what a tile has waited
for before is ordered before all that follows on every tile; anything else on the same bytes is not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.fields import RANGE_CHECKED, Engine, Operands
from hlo2tx8.device.touches import Touch, name_of

Clock = list[int]  # by engine: how many of its instructions have finished


@dataclass(eq=False)
class IssuedInstruction:
    """An instruction a queue was given, as its number `number`; `clock` is what has finished when it finishes, itself included."""

    record: Record
    operands: Operands
    place: FaultPlace
    touches: Sequence[Touch]
    engine: Engine
    number: int
    serial: int
    clock: Clock
    is_done: bool = False

    def conflicts(self, other: "IssuedInstruction") -> bool:
        """Do ranges conflict, as the range check sees them?"""
        return any(a.hits(b) for a in self.touches for b in other.touches)

    def __str__(self) -> str:
        p = self.place
        turns = f", loop counters {list(p.counters)}" if p.counters else ""
        return f"tile {p.tile}, engine {p.engine}, record {p.record} {p.mnemonic}{turns}{f', from {p.origin}' if p.origin else ''}"


class Order:
    """The clocks of one tile. `kernel` is its kernel core's; `last` the newest instruction of each queue."""

    def __init__(self, tile: int) -> None:
        self.tile = tile
        self.serial = 0
        self.kernel: Clock = [0] * len(Engine)
        self.given: Clock = [0] * len(Engine)
        # Per engine, by record and SPM ranges: what nothing has waited for. A later one with the same key is enough to know of.
        self.open: dict[Engine, dict[object, IssuedInstruction]] = {e: {} for e in Engine}

    def issue(self, record: Record, operands: Operands, place: FaultPlace, touched: Sequence[Touch]) -> IssuedInstruction:
        """The instruction with its clock, noted as under way."""
        engine = record.kind.ENGINE
        issued = self.now(record, operands, place, touched)
        before = self._newest(engine)
        if before is not None:
            _join(issued.clock, before.clock)
        if engine in RANGE_CHECKED:
            for other in RANGE_CHECKED:
                for earlier in self._unordered(other, issued.clock):
                    if earlier.conflicts(issued):
                        _join(issued.clock, earlier.clock)
        self.given[engine] += 1
        issued.number = issued.clock[engine] = self.given[engine]
        return issued

    def now(self, record: Record, operands: Operands, place: FaultPlace, touched: Sequence[Touch] = ()) -> IssuedInstruction:
        """An instruction that starts now, after what the kernel core has waited for."""
        self.serial += 1
        return IssuedInstruction(record, operands, place, touched, record.kind.ENGINE, 0, self.serial, list(self.kernel))

    def check(self, issued: IssuedInstruction) -> None:
        """Faults on a race with an instruction of another queue of the tile, then notes this one as under way."""
        for touch in issued.touches:
            self.check_touch(issued, touch)
        known = self.open[issued.engine]
        key = (issued.place.record, *((t.start, t.end) for t in issued.touches if t.space < 0))
        known.pop(key, None)  # the newest comes last
        known[key] = issued

    def check_touch(self, issued: IssuedInstruction, touch: Touch) -> None:
        """Faults if an instruction under way conflicts with what this one touches."""
        for engine in Engine:
            if engine is issued.engine or (engine in RANGE_CHECKED and issued.engine in RANGE_CHECKED):
                continue
            for earlier in self._unordered(engine, issued.clock):
                for other in earlier.touches:
                    if touch.hits(other) and (common := touch.common(other)):
                        raise race(earlier, other, issued, touch, common)

    def wait(self, engine: Engine) -> None:
        """The kernel core knows that the engine has finished all it was given, and what that knew."""
        newest = self._newest(engine)
        if newest is not None:
            _join(self.kernel, newest.clock)
        for e, known in self.open.items():
            for key in [k for k, i in known.items() if i.number <= self.kernel[e]]:
                del known[key]

    def unfinished(self) -> IssuedInstruction | None:
        """The first instruction nothing has waited for."""
        return min((i for known in self.open.values() for i in known.values()), key=lambda i: i.serial, default=None)

    def _newest(self, engine: Engine) -> IssuedInstruction | None:
        return next(reversed(self.open[engine].values()), None)

    def _unordered(self, engine: Engine, clock: Clock) -> Iterator[IssuedInstruction]:
        """Newest first, those under way that a clock does not know of, as it is when the next one is asked for."""
        for issued in reversed(list(self.open[engine].values())):
            if issued.number <= clock[engine]:
                return
            yield issued


def _join(clock: Clock, other: Clock) -> None:
    clock[:] = map(max, clock, other)


def race(first: IssuedInstruction, touched: Touch, second: IssuedInstruction, touch: Touch, common: tuple[int, int]) -> Fault:
    """Both accesses by name."""
    verb, other_verb = ("writes" if t.is_write else "reads" for t in (touch, touched))
    what = f"{verb} bytes [{common[0]:#x}, {common[1] + 1:#x}) of {name_of(touch.space)}, unordered with the access of"
    return Fault(FaultKind.RACE, f"{what} {first}, which {other_verb} them", second.place)


class Region:
    """Bytes several tiles reach, and which tiles did: since they last met, or before and nothing has waited for it."""

    def __init__(self, tiles: int) -> None:
        self.writer = np.zeros(0, np.uint8)
        self.readers = np.zeros(0, np.min_scalar_type((1 << tiles) - 1))
        self.seen: list[tuple[IssuedInstruction, Touch]] = []

    def mark(self, issued: IssuedInstruction, touch: Touch) -> bool:
        """Notes an access; True if it conflicts with one of another tile."""
        if touch.end > self.writer.size:
            self.writer = np.concatenate([self.writer, np.zeros(touch.end - self.writer.size, np.uint8)])
            self.readers = np.concatenate([self.readers, np.zeros(touch.end - self.readers.size, self.readers.dtype)])
        tile = issued.place.tile
        bit = self.readers.dtype.type(1 << tile)
        writers, readers = touch.part_of(self.writer), touch.part_of(self.readers)
        conflicts = bool(((writers != 0) & (writers != tile + 1)).any())
        if touch.is_write:
            conflicts |= bool((readers & ~bit).any())
            writers[:] = tile + 1
        else:
            readers |= bit
        self.seen.append((issued, touch))
        return conflicts

    def forget(self, kernels: Sequence[Clock]) -> None:
        """Keeps what no kernel core has waited for."""
        self.writer[:] = 0
        self.readers[:] = 0
        seen, self.seen = self.seen, []
        for issued, touch in seen:
            if issued.number > kernels[issued.place.tile][issued.engine]:
                self.mark(issued, touch)


class Meetings:
    """Accesses of different tiles to one memory: to DDR, and to SPM if `is_remote`, that is if tiles reach each other's."""

    def __init__(self, tiles: int, is_remote: bool) -> None:
        self.tiles, self.is_remote = tiles, is_remote
        self.regions: dict[int, Region] = {}

    def check(self, issued: IssuedInstruction, touches: Sequence[Touch]) -> None:
        """Faults on a race of an instruction, which touches these bytes, with another tile."""
        for touch in touches:
            if touch.space >= 0 or self.is_remote:
                region = self.regions.setdefault(touch.space, Region(self.tiles))
                if region.mark(issued, touch):
                    self._fault(region, issued, touch)

    def meet(self, kernels: Sequence[Clock]) -> None:
        """All tiles are at a barrier, with these clocks."""
        for region in self.regions.values():
            region.forget(kernels)

    @staticmethod
    def _fault(region: Region, issued: IssuedInstruction, touch: Touch) -> None:
        for other, touched in region.seen:
            if other.place.tile != issued.place.tile and touch.hits(touched) and (common := touch.common(touched)):
                raise race(other, touched, issued, touch, common)
