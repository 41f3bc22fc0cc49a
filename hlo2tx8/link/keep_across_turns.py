"""What every turn of a loop loads anew from slots that the loop does not write is loaded once, before it: weights, mostly.

    KC_loop                                     RDMA_load 0x2c0000 slot 4
      RDMA_load 0x10000 slot 4                  KC_loop
      RDMA_load 0x28000 slot 6            ⟶       RDMA_load 0x28000 slot 6
      NE_gemm left=0x28000 right=0x10000          NE_gemm left=0x28000 right=0x2c0000
      ...                                         ...
    KC_end                                      KC_end

These buffers have places of their own at the end of the scratchpad through all turns; buffers of the loop's other launches are
moved out of their way. What has no room is loaded in each turn as before, the largest have their places first. Of kernels that
are launched several times in a turn only those whose plans count on it keep anything: launches of the others stay equal, and are in
the program once.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.kc_control import KcLoadScalar, KcLoop
from hlo2tx8.link.barriers import LaunchWork, LinkedCode, Nest, Piece, Staying
from hlo2tx8.link.equal_runs import LEAST_RUNS
from hlo2tx8.link.footprint import footprint_of
from hlo2tx8.link.invariant_records import invariant_records
from hlo2tx8.link.load_ahead import Moved, needed, without
from hlo2tx8.link.seams import turns_of
from hlo2tx8.lower.dma.allocate_spm import LiveRange, SpmRange, SpmSpace, place_all

ALWAYS = LiveRange(-1, 1 << 62)
"""Through a whole kernel."""


def keep_across_turns(pieces: list[Piece], chip: Chip, moved: Moved, counting: Container[str]) -> None:
    """Changes the code of launches in loops, and puts launches that load their buffers in front of these, outer loops first;
    `counting` are the names of kernels whose plans count on it."""
    space = SpmSpace(chip.spm_allocation_start, chip.spm_limit, chip.spm_alignment_bytes)
    for at in reversed(range(len(pieces))):
        piece = pieces[at]
        if isinstance(piece, Nest):
            if piece.begin.kind is KcLoop:
                pieces[at:at] = _LoopThatKeeps(piece, space, chip.tiles, moved, counting).keep()
            keep_across_turns(piece.body, chip, moved, counting)


def keeping(code: LinkedCode, is_fixed: Sequence[bool]) -> LinkedCode:
    """A kernel's code without what loads and makes buffers that may stay while these slots are not written."""
    return without(code, frozenset(record for part in invariant_records(code, is_fixed).parts for record in part.records))


@dataclass
class _LoopThatKeeps:
    """A loop in which launches may keep what they load; `moved` as of `load_ahead`, `placed` what was found for launches that are
    asked again."""

    nest: Nest
    space: SpmSpace
    tiles: int
    moved: Moved
    counting: Container[str]
    placed: dict[tuple[object, ...], Sequence[int] | None] = field(default_factory=dict[tuple[object, ...], Sequence[int] | None])

    def keep(self) -> Sequence[Piece]:
        """Lets stay what has room; what loads it before the loop."""
        works = [*self.nest.work]
        if len(turns_of(self.nest.begin)) == 1 or self.nest.has_calls or any(work.tiles for work in works):
            return ()
        end = min([self.space.limit, *(work.kept_from for work in works if work.kept_from)])
        chosen: dict[LaunchWork, dict[int, int]] = {}
        for work, buffers in sorted(self.candidates(works), key=lambda own: -self.bytes_of(*own)):
            start = end - self.bytes_of(work, buffers)
            new = {**chosen, work: {**chosen.get(work, {}), **self.one_after_the_other(work, buffers, start)}}
            if start > self.space.start and all(self.far(own, new.get(own, {}), start) is not None for own in works):
                chosen, end = new, start
        return self.changed(works, chosen, end) if chosen else ()

    def candidates(self, works: Sequence[LaunchWork]) -> Iterator[tuple[LaunchWork, Sequence[int]]]:
        """Buffers of a launch that may stay together."""
        launches = Counter(work.name for work in works)
        for work in works:
            if launches[work.name] >= LEAST_RUNS and work.name not in self.counting:
                continue
            if not work.footprint.is_alone and _is_movable(work):
                yield from ((work, part.buffers) for part in invariant_records(work.code, self.fixed(work)).parts)

    @cached_property
    def written(self) -> set[int]:
        """The slots that the loop's launches write."""
        return {access.slot for work in self.nest.work for access in work.footprint.accesses if access.is_write}

    def fixed(self, work: LaunchWork) -> Sequence[bool]:
        """Which slots of a launch none of the loop's writes."""
        return [slot not in self.written for slot in work.numbers or ()]

    def bytes_of(self, work: LaunchWork, buffers: Sequence[int]) -> int:
        """What buffers of a launch take, one after the other."""
        return sum(self.space.aligned(work.code.buffers[n].size_bytes) * work.code.buffers[n].copies for n in buffers)

    def one_after_the_other(self, work: LaunchWork, buffers: Sequence[int], start: int) -> dict[int, int]:
        """Their addresses from there on."""
        return {number: start + self.bytes_of(work, buffers[:k]) for k, number in enumerate(buffers)}

    def far(self, work: LaunchWork, addresses: Mapping[int, int], end: int) -> Sequence[int] | None:
        """How many bytes further each buffer of a launch is, if some have these addresses and all others are before `end`; None if
        they have no room."""
        code, others = work.code, [n for n in range(len(work.code.buffers)) if n not in addresses]
        places = {n: code.buffers[n].address for n in others}
        if any(code.buffers[n].end > end for n in others):
            key = id(code), tuple(addresses), end
            if key not in self.placed:
                self.placed[key] = self.place(work, others, end)
            found = self.placed[key]
            if found is None:
                return None
            places = dict(zip(others, found, strict=True))
        return [{**places, **addresses}[n] - buffer.address for n, buffer in enumerate(code.buffers)]

    def place(self, work: LaunchWork, buffers: Sequence[int], end: int) -> Sequence[int] | None:
        """Addresses before `end`, None if there is no room."""
        if not _is_movable(work) or work.footprint.is_alone:  # what tile 0 runs of it would stay where it is
            return None
        if any(record.kind is KcLoadScalar for record in work.code.records):
            return None
        sizes = [(work.code.buffers[n].size_bytes, work.code.buffers[n].copies) for n in buffers]
        taken = [SpmRange(end, self.space.limit - end, [ALWAYS.start], [ALWAYS.end])]
        found = place_all(sizes, [work.code.lives[n] for n in buffers], self.space, taken)
        return found if all(at + self.bytes_of(work, [n]) <= end for n, at in zip(buffers, found, strict=True)) else None

    def changed(self, works: Sequence[LaunchWork], chosen: Mapping[LaunchWork, Mapping[int, int]], end: int) -> Sequence[Piece]:
        """Changes the launches, which leave alone what is behind `end`; those that load it."""
        loads: list[Piece] = []
        for work in works:
            fixed, addresses = self.fixed(work), chosen.get(work, {})
            far = self.far(work, addresses, end)
            assert far is not None
            work.kept_from = end
            if any(far):
                work.code = self.moved(work.name, work.code, far)
            if addresses:
                loads.append(self.loading(work, addresses, fixed))
        self.nest.stays = [staying for work in works for staying in work.stays.values()]
        return loads

    def loading(self, work: LaunchWork, addresses: Mapping[int, int], fixed: Sequence[bool]) -> LaunchWork:
        """What loads these buffers, which the launch itself does no more."""
        code, numbers = work.code, work.numbers
        assert numbers is not None
        found = invariant_records(code, fixed)
        gone = frozenset(record for part in found.parts if addresses.keys() >= {*part.buffers} for record in part.records)
        stays = {buffer: Staying(code.buffers[buffer].name) for buffer in addresses}
        sources = sorted(gone | found.scalars)
        guests = [sources[i] for i in needed([code.records[i] for i in sources], frozenset(map(sources.index, gone)))]
        at = {source: place for place, source in enumerate(guests)}
        records = [code.records[i] for i in guests]
        uses = [use._replace(record=at[use.record]) for use in code.uses if use.record in gone]
        loads = LinkedCode(records, code.buffers, uses, footprint_of(records, self.tiles))
        left = without(code, gone)
        work.code = replace(left, footprint=footprint_of(left.records, self.tiles), lives=())
        work.footprint = work.code.footprint.renumbered(numbers)
        work.stays = stays
        footprint = loads.footprint.renumbered(numbers)
        return LaunchWork(loads, footprint, numbers, work.name, work.origin, stays=stays, kept_from=work.kept_from)


def _is_movable(work: LaunchWork) -> bool:
    """Is it a kernel whose buffers may have other places?"""
    return bool(work.name) and work.numbers is not None and len(work.code.lives) == len(work.code.buffers)
