"""What goes between the ops of an epoch and its queues, as the records of its program move it, and over which links of the mesh."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import SlotKind
from hlo2tx8.device.timing import model
from hlo2tx8.device.timing.engines import Issued, Range
from hlo2tx8.frontend.shim import pytrees
from hlo2tx8.netlist.epochs import Segment
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.origin import split_origin

THROUGH_DDR = "DDR"
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


def op_of(origin: str, names: Sequence[str], other: str) -> str:
    """The op that a record or an instruction is of, by the first names of where it comes from; `other` if it is none of them."""
    return next((part for part in split_origin(origin).get("hlo", origin).split("/")[:2] if part in names), other)


def edges_of(executable: Executable, segment: Segment, num_tiles: Mapping[str, int], inputs: int) -> list[Edge]:
    """The edges in the order in which they are first used, for one of the inputs that the program takes; what an op moves for
    itself is none. `num_tiles` are how many tiles run each op."""
    program, chip = executable.program, executable.chip
    names = [op.name for op in segment.ops]
    made = dict(_named(executable, SlotKind.INPUT))
    left = dict(_named(executable, SlotKind.OUTPUT))
    sums: dict[tuple[str, str], tuple[float, float]] = {}
    for record, cost in zip(decode_records(program.code, program.origins), executable.report.records, strict=True):
        slot = record.fields.get("slot")
        if record.kind not in (Rdma, Wdma) or not isinstance(slot, int):
            continue
        op = op_of(record.origin, names, "")
        ends = (made.get(slot, ""), op) if record.kind is Rdma else (op, left.get(slot, ""))
        if record.kind is Wdma:
            made[slot] = op
        if all(ends) and ends[0] != ends[1]:
            bytes, cycles = sums.get(ends, (0.0, 0.0))
            busy = cost.busy_cycles * chip.tiles / num_tiles.get(op, chip.tiles)
            sums[ends] = bytes + cost.bytes / inputs, cycles + busy / inputs
    return [Edge(*ends, THROUGH_DDR, *moved) for ends, moved in sums.items()]


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


@dataclass
class _Links:
    """Hears of packets, and counts their bytes by link."""

    executable: Executable
    bytes: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])

    def begin(self, first_record: int, cycle: float, parts: int) -> int:
        return ALL

    def end(self, ddr: Sequence[tuple[float, float]]) -> None:
        pass

    def instruction(self, tiles: Sequence[int], issued: Issued) -> None:
        packet = issued.shape.work.packet
        if packet is None:
            return
        for tile in tiles:
            links = {link for way in packet.ways(tile, self.executable.chip) for link in way}
            self.bytes.update(dict.fromkeys(links, packet.bytes))

    def work(self, tiles: Sequence[int], record: int, engine: int, ranges: tuple[Range, ...], start: float, end: float) -> None:
        pass

    def pause(self, tiles: Sequence[int], record: int, what: str, start: float, end: float, turns: int = 0) -> None:
        pass


def links_of(executable: Executable) -> dict[tuple[int, int], int]:
    """Bytes over each link between two tiles that a run of the program uses, the most used first."""
    records = decode_records(executable.program.code, executable.program.origins)
    if not any(record.kind.ENGINE is Engine.DTE for record in records):
        return {}
    heard = _Links(executable)
    model(executable.program, executable.chip, heard)
    return dict(sorted(heard.bytes.items(), key=lambda item: (-item[1], item[0])))
