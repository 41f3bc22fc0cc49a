"""The parts of a program in order: which of them only tile 0 runs, and in front of which all tiles need a barrier.

Launched work begins when all engines of its tile have finished the work before it. A barrier stands only in front of work that
accesses bytes which another tile accessed since the last barrier, where one of the two accesses is a write. Work that only leaves
results of tile 0 behind is run by tile 0 only; so are loops and branches that hold nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np

from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.kc_control import KcExit, KcFunction, KcLoop
from hlo2tx8.device.program import Buffer, BufferUse
from hlo2tx8.link.footprint import Footprint, SlotAccess, meets
from hlo2tx8.lower.buffer_table import BufferLife
from hlo2tx8.lower.encode.encode import ViewBase


@dataclass(frozen=True, eq=False)
class LinkedCode:
    """Records with the buffers they use, numbered from 0, and the DDR bytes they access.

    `alone` are the records that tile 0 runs where no other tile has work, and `sources[i]` is the index in `records` of `alone[i]`.
    `lives` says of a kernel's buffers when their places are theirs, `bases` where arguments begin in their slots.
    """

    records: Sequence[Record]
    buffers: Sequence[Buffer]
    uses: Sequence[BufferUse]
    footprint: Footprint
    alone: Sequence[Record] = ()
    sources: Sequence[int] = ()
    lives: Sequence[BufferLife] = ()
    bases: tuple[tuple[int, ViewBase], ...] = ()


@dataclass(eq=False)
class LaunchWork:
    """One launch of `code`. `numbers` are its DDR slots in the program, None if the code already names them.

    `decides` is True if the launch leaves values in registers on which a later branch or loop depends: whoever runs that must run
    this too. `guests` are uses of buffers of the next launch. `tiles` are those that run it, if not all do. `stays` are buffers
    that the launches of a loop find as they were loaded before it, by number; what is from `kept_from` on is not its own, if not 0.
    """

    code: LinkedCode
    footprint: Footprint
    numbers: Sequence[int] | None = None
    name: str = ""
    origin: str = ""
    decides: bool = False
    is_guarded: bool = False
    must_meet: bool = False
    guests: Sequence[BufferUse] = ()
    tiles: tuple[int, ...] = ()
    stays: "Mapping[int, Staying]" = field(default_factory=dict[int, "Staying"])
    kept_from: int = 0


@dataclass(eq=False)
class Staying:
    """A buffer through all turns of a loop, which is one for all launches that touch it."""

    name: str


@dataclass(eq=False)
class Scalars:
    """Records that compute registers for a later branch or loop, or that leave a loop."""

    records: Sequence[Record]


@dataclass(eq=False)
class Call:
    """A call of a function: all tiles meet before it and at its end, so that nobody needs to know what it accesses."""

    record: Record
    is_guarded: ClassVar[bool] = False


@dataclass(eq=False)
class Nest:
    """A loop, a branch or a function: the record that begins it, its body, and the record that ends it. `stays` live up
    to that."""

    begin: Record
    end: Record
    body: "list[Piece]" = field(default_factory=list["Piece"])
    is_guarded: bool = False
    must_meet: bool = False
    stays: Sequence[Staying] = ()

    @property
    def work(self) -> Iterator[LaunchWork]:
        """All launches inside, at any depth."""
        for piece in self.body:
            if isinstance(piece, LaunchWork):
                yield piece
            elif isinstance(piece, Nest):
                yield from piece.work

    @property
    def has_calls(self) -> bool:
        """Are functions called inside, at any depth?"""
        return any(isinstance(piece, Call) or (isinstance(piece, Nest) and piece.has_calls) for piece in self.body)

    @property
    def footprint(self) -> Footprint:
        """What tile 0 accesses inside, for a loop or branch that only tile 0 runs."""
        return Footprint(tuple(access for work in self.work for access in work.footprint.of_tile_0().accesses))


Piece: TypeAlias = LaunchWork | Scalars | Call | Nest


def guard(pieces: Sequence[Piece]) -> None:
    """Set `is_guarded` on the parts that only tile 0 needs to run."""
    for piece in pieces:
        if isinstance(piece, LaunchWork):
            piece.is_guarded = piece.footprint.is_alone and not (piece.decides or piece.tiles or piece.stays)
        elif isinstance(piece, Nest):
            is_alone = any(True for _ in piece.work) and all(work.footprint.is_alone for work in piece.work)
            piece.is_guarded = is_alone and not piece.has_calls and piece.begin.kind is not KcFunction
            if not piece.is_guarded:
                guard(piece.body)


# ------------------------------------------------------------------------------------------------------------ barriers


@dataclass
class State:
    """The DDR accesses since the last barrier: one per slot and direction. If `is_bound`, whatever follows needs a barrier
    first.
    """

    accesses: dict[tuple[int, bool], SlotAccess] = field(default_factory=dict[tuple[int, bool], SlotAccess])
    is_empty: bool = True
    is_bound: bool = False

    def must_meet(self, footprint: Footprint) -> bool:
        """True if work with this footprint must not begin before a barrier."""
        if self.is_empty:
            return False
        if self.is_bound or footprint.is_bound:
            return True
        return any(
            meets(access, other)
            for access in footprint.accesses
            for is_write in ((False, True) if access.is_write else (True,))
            if (other := self.accesses.get((access.slot, is_write))) is not None
        )

    def with_work(self, accesses: Sequence[SlotAccess], is_bound: bool) -> "State":
        """The state after work with these accesses, without a barrier before it."""
        new = dict(self.accesses)
        for access in accesses:
            key = access.slot, access.is_write
            old = new.get(key)
            new[key] = access if old is None else _both(old, access)
        return State(new, False, self.is_bound or is_bound)

    def joined(self, other: "State") -> "State":
        """The state if either of two ways may have been taken: the accesses of both."""
        both = self.with_work(tuple(other.accesses.values()), other.is_bound)
        return State(both.accesses, self.is_empty and other.is_empty, both.is_bound)

    def equals(self, other: "State") -> bool:
        """True if both states hold the same accesses."""
        flags = (self.is_empty, self.is_bound) == (other.is_empty, other.is_bound)
        return flags and self.accesses.keys() == other.accesses.keys() and all(map(_equal, *_pairs(self, other)))


def _pairs(a: State, b: State) -> tuple[list[SlotAccess], list[SlotAccess]]:
    return list(a.accesses.values()), [b.accesses[key] for key in a.accesses]


def _equal(a: SlotAccess, b: SlotAccess) -> bool:
    return np.array_equal(a.first, b.first) and np.array_equal(a.end, b.end)


def _both(a: SlotAccess, b: SlotAccess) -> SlotAccess:
    """All bytes of both; where one has none, those of the other."""
    first = np.where(a.tiles & b.tiles, np.minimum(a.first, b.first), np.where(a.tiles, a.first, b.first))
    end = np.where(a.tiles & b.tiles, np.maximum(a.end, b.end), np.where(a.tiles, a.end, b.end))
    return a._replace(first=first, end=end)


def place_barriers(pieces: Sequence[Piece], state: State) -> State:
    """Set `must_meet` on the parts that need a barrier in front, and return the state behind the last of them.

    A loop is gone through until the state in front of its next turn no longer changes.
    """
    exits: list[State] = []
    return _through(pieces, state, exits)


def _through(pieces: Sequence[Piece], state: State, exits: list[State]) -> State:
    for piece in pieces:
        if isinstance(piece, Scalars):
            exits += [state for record in piece.records if record.kind is KcExit]
        elif isinstance(piece, Call):
            state = State()
        elif isinstance(piece, Nest) and piece.begin.kind is KcFunction:
            place_barriers(piece.body, State())
        elif isinstance(piece, Nest) and not piece.is_guarded:
            state = _loop(piece, state) if piece.begin.kind is KcLoop else state.joined(_through(piece.body, state, exits))
        else:
            footprint = piece.footprint
            if isinstance(piece, LaunchWork) and piece.is_guarded:
                footprint = footprint.of_tile_0()
            piece.must_meet = piece.must_meet or state.must_meet(footprint)
            state = (State() if piece.must_meet else state).with_work(footprint.accesses, footprint.is_bound)
    return state


def _loop(nest: Nest, state: State) -> State:
    while True:
        exits: list[State] = []
        end = _through(nest.body, state, exits)
        start = state.joined(end)
        if start.equals(state):
            break
        state = start
    for other in exits:
        end = end.joined(other)
    return end
