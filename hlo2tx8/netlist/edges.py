"""What goes between the ops of an epoch and its queues, as the records of its program move it, and over which links of the mesh."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.dte import DteGather
from hlo2tx8.device.isa.encoding import Operand, Register, decode_records
from hlo2tx8.device.isa.kc_control import KcAffine
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Buffer, SlotKind
from hlo2tx8.device.timing import model
from hlo2tx8.device.timing.engines import Issued, Range
from hlo2tx8.device.timing.noc import LineRates
from hlo2tx8.frontend.shim import pytrees
from hlo2tx8.link.seams import number_of
from hlo2tx8.link.stay import IMAGE
from hlo2tx8.netlist.epochs import Segment
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.origin import split_origin

THROUGH_DDR, THROUGH_LINKS = "DDR", "links"
ALL = 1 << 60
"""Instructions of a stretch that are followed one by one."""


@dataclass(frozen=True)
class Edge:
    """From a queue or op to an op, or from an op to a queue: `bytes` of one input on their `way`, `cycles` in which the tiles of
    the op are busy moving them, a mean over these tiles.
    """

    source: str
    target: str
    way: str
    bytes: float
    cycles: float

    def as_dict(self) -> dict[str, object]:
        """Plain values for YAML."""
        return {
            "from": self.source,
            "to": self.target,
            "way": self.way,
            "bytes": round(self.bytes),
            "cycles": round(self.cycles, 3),
        }


@dataclass
class Sent:
    """What goes from tile to tile in a run of a program, in bytes: over each link of the mesh, and by record."""

    chip: Chip
    links: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    records: Counter[int] = field(default_factory=Counter[int])
    first: int = 0

    def begin(self, first_record: int, cycle: float, parts: int) -> int:
        """A part of the program begins, of which everything is followed."""
        self.first = first_record
        return ALL

    def end(self, ddr: Sequence[tuple[float, float]], noc: Sequence[tuple[float, LineRates]]) -> None:
        """The part is over."""

    def instruction(self, tiles: Sequence[int], issued: Issued) -> None:
        """An instruction of these tiles has ended."""
        packet = issued.shape.work.packet
        if packet is None:
            return
        for tile in tiles:
            self.links.update(dict.fromkeys({link for way in packet.ways(tile, self.chip) for link in way}, packet.bytes))
            self.records[self.first + issued.step.record] += packet.bytes

    def work(self, tiles: Sequence[int], record: int, engine: int, ranges: tuple[Range, ...], start: float, end: float) -> None:
        """Kernel cores executed a record."""

    def pause(self, tiles: Sequence[int], record: int, what: str, start: float, end: float, turns: int = 0) -> None:
        """Kernel cores waited."""


def sent_by(executable: Executable) -> Sent:
    """What the program sends, as its timing has it."""
    sent = Sent(executable.chip)
    records = decode_records(executable.program.code, executable.program.origins)
    if any(record.kind.ENGINE is Engine.DTE for record in records):
        model(executable.program, executable.chip, sent)
    return sent


def op_of(origin: str, names: Sequence[str], other: str) -> str:
    """The op that a record or an instruction is of, by the first names of where it comes from; `other` if it is none of them."""
    return next((part for part in split_origin(origin).get("hlo", origin).split("/")[:2] if part in names), other)


def edges_of(executable: Executable, segment: Segment, num_tiles: Mapping[str, int], inputs: int, sent: Sent) -> list[Edge]:
    """The edges in the order in which they are first used, for one of the inputs that the program takes; what an op moves for
    itself is none. `num_tiles` are how many tiles run each op, `sent` is what the program sends."""
    program, chip = executable.program, executable.chip
    names = [op.name for op in segment.ops]
    made = dict(_named(executable, SlotKind.INPUT))
    left = dict(_named(executable, SlotKind.OUTPUT))
    images = {use.record: slot for use in program.uses if (slot := _image_of(program.buffers[use.buffer])) is not None}
    regions = [(slot, buffer) for buffer in program.buffers if (slot := _image_of(buffer)) is not None]
    bases: dict[int, Operand] = {}
    sums: dict[tuple[str, str, str], tuple[float, float]] = {}
    records = decode_records(program.code, program.origins)
    for number, (record, cost) in enumerate(zip(records, executable.report.records, strict=True)):
        fields, op = record.fields, op_of(record.origin, names, "")
        slot, ends, moved = fields.get("slot"), ("", ""), float(cost.bytes)
        if record.kind is KcAffine:
            bases[number_of(fields["rd"])] = fields["c"]
        elif record.kind is Rdma and isinstance(slot, int):
            ends = made.get(slot, ""), op
        elif record.kind is DteGather:
            place = fields["src"]
            base = number_of(bases.get(place.number, 0) if isinstance(place, Register) else place)
            ends = made.get(next((slot for slot, b in regions if b.address <= base < b.end), -1), ""), op
            moved = float(sent.records[number])
        elif record.kind is Wdma and isinstance(slot, int):
            ends, made[slot] = (op, left.get(slot, "")), op
        elif number in images:
            made[images[number]] = op
        if all(ends) and ends[0] != ends[1]:
            key = (*ends, THROUGH_LINKS if record.kind is DteGather else THROUGH_DDR)
            bytes, cycles = sums.get(key, (0.0, 0.0))
            busy = cost.busy_cycles * chip.tiles / num_tiles.get(op, chip.tiles)
            sums[key] = bytes + moved / inputs, cycles + busy / inputs
    return [Edge(*key, *moved) for key, moved in sums.items()]


def _image_of(buffer: Buffer) -> int | None:
    """The slot that stays in a buffer, None if none does."""
    return int(buffer.name.removeprefix(IMAGE)) if buffer.name.startswith(IMAGE) else None


def _named(executable: Executable, kind: SlotKind) -> Iterator[tuple[int, str]]:
    """The slots of a program's inputs or outputs, and the queues or ops that they are of."""
    calling = executable.calling
    assert calling is not None
    tree = calling.arguments if kind is SlotKind.INPUT else calling.results
    names = dict(_leaves(pytrees().unflatten(tree, range(tree.num_leaves))))
    for number, slot in enumerate(executable.program.slots):
        if slot.kind is kind:
            yield number, names[calling.kept[slot.index] if kind is SlotKind.INPUT else slot.index]


def _leaves(tree: object, name: str = "") -> Iterator[tuple[int, str]]:
    """The leaves of a tree of numbers, by the innermost name around each."""
    if isinstance(tree, int):
        yield tree, name
    elif isinstance(tree, dict):
        for key, part in cast("dict[str, object]", tree).items():
            yield from _leaves(part, key)
    elif isinstance(tree, list | tuple):
        for part in cast("Sequence[object]", tree):
            yield from _leaves(part, name)
