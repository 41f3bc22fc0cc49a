"""Which bands a group computes, and what that costs: an estimate of each number of bands, before anything is emitted."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf, prod

from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.alike_loads import apart_cycles, is_spread, spread_cycles
from hlo2tx8.device.isa import Engine
from hlo2tx8.device.rates import Rates
from hlo2tx8.device.two_turns import Turn, Unit
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.indexing import Dim
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.schedule.band_costs import band_bytes, compute, is_computed, parts_of, reread, turning, window_bytes
from hlo2tx8.schedule.band_group_member import HEIGHT, BandGroupMember
from hlo2tx8.schedule.bands import Bands, BandSplit
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.plan import Candidate, Estimate

SPM_SHARE = 0.97
"""Of the scratchpad, that the estimated buffers may take: alignment and constants need some."""
PHASE_SHARES = (1.03, 1.0, 0.97, 0.94)
"""The same of phases, one after the other until their kernel fits: where turns overlap, they may take less than estimated."""
MARGIN_ROWS = 3
"""Of a tensor that stays: above and below a tile's own, and by which the next one is moved."""
ALIVE = 2
"""Vectors of an epilogue that are alive at once beside its operand."""


@dataclass(frozen=True)
class BandGroupPlan:
    """Bands of each fusion's result, the modelled cycles of the group with them, and the bytes of SPM that its buffers take; if it
    `is_overlapped`, two turns are computed at once."""

    split: BandSplit
    bands: tuple[Bands, ...]
    cycles: float
    spm_bytes: int
    is_overlapped: bool = False

    @property
    def candidate(self) -> "Candidate[BandGroupPlan]":
        """The plan as one of those that a kernel is chosen from."""
        name = f"bands of {self.bands[-1].rows} rows{', two turns at once' if self.is_overlapped else ''}"
        return Candidate(name, Estimate(self.cycles, self.spm_bytes), self)


@dataclass(frozen=True)
class BandChain:
    """Fusions in order of execution, as members of a group if it `is_closed`.

    As a phase of a kernel: what it reads of `resident` is in the scratchpads, its result goes there if it `stays`, and all that
    stays during the phase takes `taken_bytes` of a tile (`kept_beside`). `share` of the scratchpad may be estimated to be taken.
    """

    fusions: tuple[FusionOp, ...]
    members: tuple[BandGroupMember, ...]
    rates: Rates
    resident: frozenset[SSAValue] = frozenset()
    stays: bool = False
    taken_bytes: int = 0
    share: float = SPM_SHARE

    @property
    def is_closed(self) -> bool:
        """Is each fusion's result but the last one's read inside of the chain, by bands, and nowhere else?"""
        members = dict[Operation, BandGroupMember](zip(self.fusions, self.members, strict=True))
        uses = [list(fusion.results[0].uses) for fusion in self.fusions[:-1]]
        is_read = all(use.operation in members and use.index in members[use.operation].reads for own in uses for use in own)
        return is_read and all(uses)

    @property
    def fits(self) -> bool:
        """Is there room for what all steps read as a whole? If not, there is none in a longer chain."""
        return self._whole_bytes <= self.share * self.rates.spm_bytes

    @property
    def may_gain(self) -> bool:
        """Has it a convolution and something beside it, or a pool, which by itself reads each element of each window?"""
        return any(member.pool is not None for member in self.members) or (
            len(self.members) > 1 and any(member.dot is not None for member in self.members)
        )

    def plans(self) -> list[BandGroupPlan]:
        """Plans that are estimated to fit, the fastest first."""
        ways = [way for way in map(self._way, self._counts()) if way is not None]
        found = [plan for way in ways for plan in (self._alone(way), self._overlapped(way)) if plan is not None]
        return sorted(found, key=_rank)

    def best_plan(self) -> BandGroupPlan | None:
        """The first of `plans`, without those that cannot be it: two turns at once that take more even if the busiest engine
        never waits."""
        ways = [way for way in map(self._way, self._counts()) if way is not None]
        found = [plan for plan in map(self._alone, ways) if plan is not None]
        for way in ways:
            least = min((plan.cycles for plan in found), default=inf)
            if self._cycles(way, way.turn.least_at_once) <= least and (plan := self._overlapped(way)) is not None:
                found.append(plan)
        return min(found, key=_rank, default=None)

    def _counts(self) -> list[int]:
        height = self.members[-1].shape[HEIGHT]
        return [count for count in range(1, height + 1) if height % count == 0]

    def _way(self, count: int) -> "_BandWay | None":
        """What so many bands per image take; None where they do not fit, or cannot be computed so."""
        split = BandSplit(self.members[-1].shape[0], count, self.rates.tiles)
        if self.is_phase and not split.is_even:
            return None
        needed = self._bands(count)
        if any(needed[fusion.results[0]].start_of(Dim(0)) is None for fusion in self.fusions):
            return None
        buffers = self._buffers(split, needed)
        if buffers.num_bytes > self._room:
            return None
        computed = [
            [*self._clipped(fusion, own, needed), *parts_of(own, needed[fusion.results[0]].rows, self.rates)]
            for fusion, own in self._both()
        ]
        computed[0] = [*self._moved(self._resident(needed), needed), *self._kept(split, needed), *computed[0]]
        computed[-1] += self._moved([self.fusions[-1].results[0]] if self.stays else [], needed)
        turn = _turn(computed)
        return _BandWay(
            split, needed, buffers, turn, tuple(accumulate(map(len, computed))), *self._ends(split, needed, turn.cycles)
        )

    @property
    def _room(self) -> float:
        return self.share * self.rates.spm_bytes

    def _alone(self, way: "_BandWay") -> BandGroupPlan | None:
        """The plan of turns one after the other, if it fits."""
        num_bytes = way.buffers.num_bytes
        if num_bytes > min(self._room, SPM_SHARE * self.rates.spm_bytes):
            return None
        return self._plan(way, num_bytes, way.turn.cycles, is_overlapped=False)

    def _overlapped(self, way: "_BandWay") -> BandGroupPlan | None:
        """The plan of two turns at once that is the fastest of those that fit, if that is as fast as one after the other."""
        if not way.split.is_even or way.split.num_turns == 1:
            return None
        best, taken = (way.turn.cycles, len(way.turn.units)), 0
        for least, cut in sorted((way.turn.least(cut), cut) for cut in way.turn.cuts()):
            if least > best[0]:
                break
            num_bytes = self._cut_bytes(way, next(number for number, end in enumerate(way.ends) if cut <= end))
            if num_bytes <= self._room and (found := (way.turn.merged(cut).cycles, cut)) < best:
                best, taken = found, num_bytes
        return self._plan(way, taken, best[0], is_overlapped=True) if taken else None

    def _plan(self, way: "_BandWay", num_bytes: int, each: float, *, is_overlapped: bool) -> BandGroupPlan:
        bands = tuple(way.needed[fusion.results[0]] for fusion in self.fusions)
        return BandGroupPlan(way.split, bands, self._cycles(way, each), num_bytes, is_overlapped)

    @property
    def is_phase(self) -> bool:
        """Does something that it reads or makes stay in the scratchpads?"""
        return bool(self.resident) or self.stays

    @cached_property
    def read_by_windows(self) -> set[SSAValue]:
        """What some fusion, or what reads a copy of it, reads by other rows than those of its own result."""
        found: set[SSAValue] = set()
        for fusion, member in reversed(self._both()):
            for number, reads in member.reads.items():
                is_moved = (reads.stride, reads.first, reads.last) != (1, 0, 0)
                if is_moved or (member.is_copy and fusion.results[0] in found):
                    found.add(fusion.operands[number])
        return found

    @cached_property
    def last_readers(self) -> dict[SSAValue, int | None]:
        """The number of the last fusion that reads each result, 0 if none does; None if it is read otherwise than by bands too."""
        numbers = {fusion: number for number, fusion in enumerate[Operation](self.fusions)}
        found: dict[SSAValue, int | None] = {}
        for value in (value for fusion in self.fusions for value in fusion.results):
            readers = [(numbers.get(use.operation), use.index) for use in value.uses]
            known = [number for number, index in readers if number is not None and index in self.members[number].reads]
            found[value] = max(known, default=0) if len(known) == len(readers) else None
        return found

    @cached_property
    def stays_whole(self) -> set[SSAValue]:
        """What no window reads and the last fusion does, so that no result that stays takes its place."""
        return {v for v, number in self.last_readers.items() if number == len(self.fusions) - 1} - self.read_by_windows

    def cycles_apart(self) -> float:
        """Modelled cycles of the fusions as kernels of their own, each of which reads each operand once, but images and weights of
        windows as often as tiles cut the others."""
        total = 0.0
        for fusion, member in self._both():
            moved = sum(map(size_bytes, (*dict.fromkeys(fusion.operands), *fusion.results))) + reread(fusion, member, self.rates)
            computed = compute(member, member.shape[0] * member.shape[HEIGHT], self.rates)
            total += max(moved / self.rates.ddr, computed / self.rates.tiles) + turning(member, self.rates) + self.rates.kernel
        return total

    def read_twice(self) -> list[SSAValue]:
        """What comes from outside and is read band by band by several members, by the windows of a pool, or where it
        stays by other windows."""
        readers: dict[SSAValue, int] = {}
        for fusion, member in self._both():
            for number, reads in member.reads.items():
                value = fusion.operands[number]
                is_of_windows = member.pool is not None or (value in self.resident and reads.last > reads.first)
                readers[value] = readers.get(value, 0) + (2 if is_of_windows else 1)
        return [value for value, count in readers.items() if count > 1 and value not in self._inside]

    def _bands(self, count: int) -> dict[SSAValue, Bands]:
        """The bands that are needed of each tensor that is read band by band, and of the result."""
        needed: dict[SSAValue, Bands] = {self.fusions[-1].results[0]: Bands.of(self.members[-1].shape[HEIGHT], count)}
        for fusion, member in reversed(self._both()):
            own = needed[fusion.results[0]]
            for number, reads in member.reads.items():
                value, bands = fusion.operands[number], own.read(reads)
                needed[value] = needed[value].join(bands) if value in needed else bands
        return needed

    def _both(self) -> list[tuple[FusionOp, BandGroupMember]]:
        return list(zip(self.fusions, self.members, strict=True))

    @cached_property
    def _whole_bytes(self) -> int:
        """Of what members read as a whole: weights, factors of channels."""
        of_each = (
            value
            for fusion, member in zip(self.fusions, self.members, strict=True)
            for number, value in enumerate(fusion.operands)
            if number not in member.reads
        )
        return sum(map(size_bytes, dict.fromkeys(of_each)))

    @cached_property
    def _inside(self) -> set[SSAValue]:
        return {fusion.results[0] for fusion in self.fusions}

    def _from_outside(self, needed: dict[SSAValue, Bands]) -> list[SSAValue]:
        return [value for value in needed if value not in self._inside]

    def _resident(self, needed: dict[SSAValue, Bands]) -> list[SSAValue]:
        return [value for value in self._from_outside(needed) if value in self.resident]

    def _loaded(self, needed: dict[SSAValue, Bands]) -> list[SSAValue]:
        return [value for value in self._from_outside(needed) if value not in self.resident]

    def _moved(self, values: Sequence[SSAValue], needed: dict[SSAValue, Bands]) -> list[tuple[Engine, float]]:
        """What TDMA does to move bands of these from or to the buffers in which they stay."""
        return [(Engine.TDMA, band_bytes(value, needed[value]) / self.rates.move + self.rates.move_start) for value in values]

    def _cycles(self, way: "_BandWay", each: float) -> float:
        """Of the whole chip, if a turn of several takes `each` so many: what does not overlap, and turns in which loads, stores and
        engines do."""
        return way.ends_cycles + (way.split.num_turns - 1) * max(way.least_cycles, each) + self.rates.kernel

    def _ends(self, split: BandSplit, needed: dict[SSAValue, Bands], computed: float) -> tuple[float, float]:
        """Cycles of the ends of the loop, which is where loads, stores and engines do not overlap, with weights, and the least that
        each further turn takes. A turn by itself is `computed` in so many. Where something stays, the phase before has loaded the
        weights; they are sent, and rows exchanged, while the first turn's loads come."""
        rates, turns = self.rates, split.num_turns
        active = min(split.num_bands, rates.tiles)
        stored = 0 if self.stays else band_bytes(self.fusions[-1].results[0], needed[self.fusions[-1].results[0]])
        loaded = sum(band_bytes(value, needed[value]) for value in self._loaded(needed))
        first, last, later = (
            max(moved * active / rates.ddr, moved / rates.transfer)
            for moved in (loaded, stored, loaded + stored - self._kept_bytes(split, needed))
        )
        reloads = turns if turns > 1 and not split.is_even else 1
        size = self._whole_bytes
        is_sent = is_spread(size, active, rates)
        whole = spread_cycles(size, rates) if is_sent else reloads * apart_cycles(size, active, rates)
        whole += reloads * sum(turning(member, rates) for member in self.members)
        begin = whole + first
        if is_sent and split.is_even:
            read = size / rates.ddr
            begin = max(first, whole + self._exchanged(needed) - read) + (0.0 if self.resident else read)
        least = later if split.is_even else first + computed + last  # a guarded turn loads for itself
        return begin + computed + last, least

    def _exchanged(self, needed: dict[SSAValue, Bands]) -> float:
        """Cycles in which neighbours send each other rows of what stays: all tiles meet before and after that."""
        cycles = 0.0
        for value in self._resident(needed):
            others = needed[value].rows - needed[value].fresh_rows(len(needed[value].starts))
            sent = others * band_bytes(value, needed[value]) / needed[value].rows
            cycles += self.rates.barrier + 2 * self.rates.link_start + 2 * sent / self.rates.link
        return cycles

    def _kept_bytes(self, split: BandSplit, needed: dict[SSAValue, Bands]) -> float:
        """Bytes that a turn needs and the one before has loaded: they stay, see `keep-rows`."""
        if split.num_turns == 1 or not split.is_even:
            return 0.0
        parts = ((value, needed[value]) for value in self._loaded(needed))
        return sum(band_bytes(value, own) * (1 - own.fresh_rows(split.num_turns) / own.rows) for value, own in parts)

    def _kept(self, split: BandSplit, needed: dict[SSAValue, Bands]) -> list[tuple[Engine, float]]:
        """What TDMA does for them."""
        kept = self._kept_bytes(split, needed)
        return [(Engine.TDMA, kept / self.rates.move + self.rates.move_start)] if kept else []

    def _clipped(self, fusion: FusionOp, member: BandGroupMember, needed: dict[SSAValue, Bands]) -> list[tuple[Engine, float]]:
        """What TDMA does where a member reads, row by row, some of the rows that are there."""
        rows = needed[fusion.results[0]].rows
        found: list[tuple[Engine, float]] = []
        for number, reads in member.reads.items():
            value = fusion.operands[number]
            if reads.first == reads.last and reads.stride == 1 and needed[value].rows > rows:
                cycles = band_bytes(value, needed[value]) * rows / needed[value].rows / self.rates.move
                found.append((Engine.TDMA, cycles + self.rates.move_start))
        return found

    def _buffers(self, split: BandSplit, needed: dict[SSAValue, Bands]) -> "_Buffers":
        """Of the buffers: what is loaded and stored in two copies, weights, and what each member needs while it is computed."""
        copies = 2 if split.num_turns > 1 else 1
        kept = self._whole_bytes + self.taken_bytes + sum(band_bytes(value, needed[value]) for value in self._resident(needed))
        kept += sum(copies * band_bytes(value, needed[value]) for value in self._loaded(needed))
        result = self.fusions[-1].results[0]
        kept += (copies - 1) * band_bytes(result, needed[result]) * (not self.stays)
        last_read = {value: number for number, fusion in enumerate(self.fusions) for value in fusion.operands}
        made: list[tuple[int, int]] = []
        widths: list[int] = []
        for number, (fusion, member) in enumerate(self._both()):
            own = 0 if member.is_copy else band_bytes(fusion.results[0], needed[fusion.results[0]])
            wide = sum(num_bytes for last, num_bytes in made if last >= number) + own
            if any(map(is_computed, member.partitioned.functions[0].instructions)):
                wide += ALIVE * own
            if member.dot is not None and member.lines:
                wide += window_bytes(member, member.dot, needed[fusion.results[0]].rows)
                wide += size_bytes(member.dot.operands[1 - member.rows]) if member.turns_weights else 0
            widths.append(wide)
            made.append((last_read.get(fusion.results[0], 0), own))
        return _Buffers(kept, tuple(widths))

    def _cut_bytes(self, way: "_BandWay", cut: int) -> int:
        """Bytes of the buffers of turns that are cut in a member: the widest moment of either half, a third copy of what is read on
        both sides, and the member's result."""
        needed, buffers = way.needed, way.buffers
        copied: dict[SSAValue, SSAValue] = {f.results[0]: f.operands[0] for f, member in self._both() if member.is_copy}
        late = {copied.get(value, value) for fusion in self.fusions[cut:] for value in fusion.operands}
        kept = sum(band_bytes(value, needed[value]) for value in self._from_outside(needed) if value in late)
        kept += band_bytes(self.fusions[cut].results[0], needed[self.fusions[cut].results[0]])
        return buffers.kept + kept + max(buffers.widths[: cut + 1]) + max(buffers.widths[cut:])


@dataclass(frozen=True)
class _Buffers:
    """Bytes that are `kept` all the time, and that each member needs beside."""

    kept: int
    widths: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Up to the widest moment."""
        return self.kept + max(self.widths)


@dataclass(frozen=True)
class _BandWay:
    """A number of bands: those needed of each tensor, the buffers of turns one after the other, the engines' work of one, how many
    units of it there are up to the end of each member, the cycles of the ends of the loop and the least of each further turn."""

    split: BandSplit
    needed: dict[SSAValue, Bands]
    buffers: _Buffers
    turn: Turn
    ends: tuple[int, ...]
    ends_cycles: float
    least_cycles: float


def _rank(plan: BandGroupPlan) -> tuple[float, bool]:
    return plan.cycles, not plan.is_overlapped


def kept_beside(there: Mapping[SSAValue, bool], result: SSAValue | None, whole: Container[SSAValue], rates: Rates) -> int:
    """Bytes of a tile that stay during a phase: what is `there` from earlier ones, each with whether the phase is the last to read
    it, and its result, if that stays, which takes the place of what is not read again.

    A tile has its part of each, as a `whole` if no window reads it and no result takes its place; others have rows of neighbours
    beside it too, and rows by which what takes the place is moved.
    """
    gives_way = any(is_last and result is not None and size_bytes(value) >= size_bytes(result) for value, is_last in there.items())
    total = 0
    for value in (*there, *([] if result is None or gives_way else [result])):
        margin = 0 if value in whole else MARGIN_ROWS * size_bytes(value) // prod(tensor_type(value).get_shape()[: HEIGHT + 1])
        total += size_bytes(value) // rates.tiles + margin
    return total


def _turn(members: Sequence[Sequence[tuple[Engine, float]]]) -> Turn:
    """A turn in which each of the members' parts waits for the one before."""
    parts = [part for own in members for part in own]
    return Turn([Unit((part,), (number - 1,) if number else ()) for number, part in enumerate(parts)])
