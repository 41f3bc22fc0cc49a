"""The last step of linking: parts of a program, in order, become one list of records with its tables of launches and buffers.

work on tiles 0..15              work
work on tile 0                   wait; barrier
loop                             KC_less r5 = r1 < 1
  work on tile 0                 KC_if r5
  work on tile 0          ⟶        work
end                                wait; loop; work; wait; work; end
work on tiles 0..15              KC_endif
                                 wait; barrier; work
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import KcEndIf, KcIf, KcLess, KcReturn
from hlo2tx8.device.program import Buffer, BufferUse, Launch
from hlo2tx8.link.barriers import Call, LaunchWork, LinkedCode, Nest, Piece, Scalars, State, Staying, guard, place_barriers
from hlo2tx8.link.records import TILE, meet, renumber

GUARD = Register(5)
"""Is this tile 0? Neither a turn nor a selector, which live beside it."""


@dataclass
class Assembled:
    """The records of a program so far, with the tables of launches, buffers and uses that go with them."""

    tiles: int
    records: list[Record] = field(default_factory=list[Record])
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    uses: list[BufferUse] = field(default_factory=list[BufferUse])
    launches: list[Launch] = field(default_factory=list[Launch])
    begun: Sequence[BufferUse] = ()
    """Uses of the next launch's buffers by what stands in the one before it."""
    staying: dict[Staying, int] = field(default_factory=dict[Staying, int])
    """The numbers of buffers that stay through loops."""

    def sequence(self, pieces: Sequence[Piece]) -> None:
        """Append parts that every tile runs."""
        at = 0
        while at < len(pieces):
            piece = pieces[at]
            end = at + 1
            if isinstance(piece, Scalars):
                self.records += piece.records
            elif isinstance(piece, Call):
                self.wait(must_meet=True)
                self.records.append(piece.record)
            elif piece.is_guarded:
                while end < len(pieces) and _goes_on(pieces[end]):
                    end += 1
                self.alone(pieces[at:end], must_meet=piece.must_meet)
            elif isinstance(piece, Nest):
                self.records.append(piece.begin)
                self.sequence(piece.body)
                self.records += (*(meet() if piece.end.kind is KcReturn else ()), piece.end)
                for number in map(self.staying.__getitem__, piece.stays):
                    self.buffers[number] = replace(self.buffers[number], last_record=len(self.records) - 1)
            else:
                self.wait(must_meet=piece.must_meet)
                self.work(piece, piece.code.records, range(len(piece.code.records)))
            at = end

    def alone(self, pieces: Sequence[Piece], *, must_meet: bool) -> None:
        """Append parts that only tile 0 runs, under one branch on the tile's number."""
        self.wait(must_meet=must_meet)
        if self.tiles > 1:
            self.records += (Record(KcLess, {"rd": GUARD, "a": TILE, "b": 1}), Record(KcIf, {"value": GUARD}))
        self.inside(pieces, is_first=True)
        if self.tiles > 1:
            self.records.append(Record(KcEndIf))

    def inside(self, pieces: Sequence[Piece], *, is_first: bool = False) -> None:
        """Append parts inside of that branch: nothing in them waits for other tiles."""
        for piece in pieces:
            match piece:
                case LaunchWork():
                    if not is_first:
                        self.wait(must_meet=False)
                    self.work(piece, piece.code.alone, piece.code.sources)
                case Nest():
                    self.records.append(piece.begin)
                    self.inside(piece.body)
                    self.records.append(piece.end)
                case Scalars():
                    self.records += piece.records
                case Call():
                    raise AssertionError("all tiles call a function")
            is_first = False

    def wait(self, *, must_meet: bool) -> None:
        """Append a wait for all engines, or a barrier: what was written so far can then be read by this tile, or by all."""
        if self.records:
            self.records += meet() if must_meet else meet()[:1]

    def work(self, work: LaunchWork, records: Sequence[Record], sources: Sequence[int]) -> None:
        """Append a launch's records, in the form for all tiles or for tile 0 alone; `sources[i]` is the index of record i in the
        code's records.
        """
        code, start = work.code, len(self.records)
        if work.name:
            self.launches.append(Launch(work.name, work.origin, start))
        renumbered = records if work.numbers is None else (renumber(record, work.numbers) for record in records)
        self.records += (of_launch(record, work.origin) for record in renumbered) if work.tiles else renumbered
        places = {source: start + place for place, source in enumerate(sources)}
        used = [use._replace(record=places[use.record]) for use in code.uses if use.record in places]
        used, self.begun = [*self.begun, *used], [use._replace(record=places[use.record]) for use in work.guests]
        known = {number: self.staying[own] for number, own in work.stays.items() if own in self.staying}
        new = [number for number in dict.fromkeys(use.buffer for use in used) if number not in known]
        kept = {number: len(self.buffers) + k for k, number in enumerate(new)}
        self.staying |= {own: kept[number] for number, own in work.stays.items() if number in kept}
        first, last = dict[int, int](), dict[int, int]()
        for use in used:
            first.setdefault(use.buffer, use.record)
            last[use.buffer] = max(use.record, last.get(use.buffer, use.record))
        for number in kept:
            buffer = code.buffers[number]
            begins, ends = _ends(buffer, start, sources, places)
            begins = min(first[number], begins or first[number])
            self.buffers.append(buffer.between(begins, max(ends, last[number])))
        kept |= known
        self.uses += (use._replace(buffer=kept[use.buffer]) for use in used)


def _ends(buffer: Buffer, start: int, sources: Sequence[int], places: Mapping[int, int]) -> tuple[int, int]:
    """Where the first and the last of the records are now between which a buffer is alive; 0 if none of them is there."""
    if isinstance(sources, range):  # all of them are, one behind the other
        first, last = max(buffer.first_record, 0), min(buffer.last_record, len(sources) - 1)
        return (start + first, start + last) if first <= last else (0, 0)
    here = [place for source, place in places.items() if buffer.first_record <= source <= buffer.last_record] or [0]
    return here[0], here[-1]


def assemble(pieces: Sequence[Piece], tiles: int, change: Callable[[Sequence[Piece]], None] = lambda pieces: None) -> Assembled:
    """The records and tables of a program made of these parts, for a chip with `tiles` tiles; `change` may change them when it is
    known what all tiles run."""
    guard(pieces)
    place_barriers(pieces, State())
    change(pieces)
    return sequence(pieces, tiles)


def sequence(pieces: Sequence[Piece], tiles: int) -> Assembled:
    """The same of parts of which is known where tiles meet."""
    made = Assembled(tiles)
    made.sequence(pieces)
    return made


def of_launch(record: Record, origin: str) -> Record:
    """The record, of an engine, with the launch's origin where its own is of another function, whose kernel is equal."""
    own, scope = _scope(record.origin), _scope(origin)
    return record.of_origin(origin) if record.kind.ENGINE is not Engine.KC and scope and own != scope else record


def _scope(origin: str) -> str:
    """The outermost scope that an origin names, but for the module's; "" if it names none."""
    names = origin.rpartition(" ")[2].split("/")
    while names[0].startswith("jit(") and len(names) > 1:
        names = names[1:]
    return names[0] if len(names) > 1 else ""


def _goes_on(piece: Piece) -> bool:
    """Can it stand behind the same guard as what is in front of it?"""
    return isinstance(piece, LaunchWork | Nest) and piece.is_guarded and not piece.must_meet


def code_of(records: Sequence[Record], buffers: Sequence[Buffer], uses: Sequence[BufferUse], tiles: int) -> LinkedCode:
    """The linkable code of a kernel: its records, buffers and uses, what they access, and what tile 0 runs of them where no other
    tile has work.
    """
    from hlo2tx8.link.footprint import footprint_of
    from hlo2tx8.link.specialize import specialize

    footprint = footprint_of(records, tiles)
    alone, sources = specialize(records) if footprint.is_alone else ([], [])
    return LinkedCode(records, buffers, uses, footprint, alone, sources)
