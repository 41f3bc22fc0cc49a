"""The pieces of a program as they are appended: records that belong to no kernel, copies, boxes, loops and branches."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import KcLoadScalar
from hlo2tx8.device.program import Buffer, BufferUse
from hlo2tx8.dialects.launch import UpdateOp
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.signature import port_of
from hlo2tx8.link.assemble import code_of
from hlo2tx8.link.barriers import Call, LaunchWork, Nest, Piece, Scalars
from hlo2tx8.link.boxes import Start, box_of, box_place, distances, read_starts, start_places, write_box
from hlo2tx8.link.moves import Move, in_order
from hlo2tx8.link.named import LinkerBuffer, table_of
from hlo2tx8.link.records import copy_place, copy_slot, read_back, scalar_place, written_by
from hlo2tx8.link.slots import Slots
from hlo2tx8.lower.encode.encode import ViewBase

SELECTORS = {"bool": Format.PRED} | {f.name.lower(): f for f in KcLoadScalar.FORMATS}
"""Formats of what decides a branch or a place, by dtype name."""


@dataclass
class PieceBuilder:
    """Appends pieces; `slots` says where values are."""

    chip: Chip
    slots: Slots = field(default_factory=Slots)
    made: list[Piece] = field(default_factory=list[Piece])
    """Of the loop or branch that is being filled."""
    held: dict[int, tuple[SSAValue, int]] = field(default_factory=dict[int, tuple[SSAValue, int]])
    """Registers behind the last piece: each has that number, clamped to 0 up to that."""
    read: set[SSAValue] = field(default_factory=set[SSAValue])
    """Scalars that were read from their slots."""

    @contextmanager
    def nest(self, begin: Record, end: Record) -> Generator[None]:
        """A context: everything that is appended in it becomes the body of one loop or branch."""
        outer, self.made = self.made, []
        self.held.clear()
        yield
        self.held.clear()
        self.made = [*outer, Nest(begin, end, self.made)]

    def add(self, piece: Piece) -> None:
        """Append a piece."""
        self.made.append(piece)
        if isinstance(piece, Call):
            self.held.clear()
        elif self.held:
            records = piece.code.records if isinstance(piece, LaunchWork) else piece.records if isinstance(piece, Scalars) else ()
            for number in written_by(records).intersection(self.held):
                del self.held[number]

    def read_back(self, value: SSAValue, register: Register, op: Operation) -> None:
        """Append records that bring the scalar `value` into a register of the kernel core."""
        self.read.add(value)
        fmt = SELECTORS[port_of(value.type).dtype]
        records = read_back(self.slots.of[value], fmt, register, self.chip, origin_of(op))
        self.append([(records, [scalar_place(fmt, self.chip)])], "", op, decides=True)

    def append(
        self, parts: Sequence[tuple[Iterable[Record], Sequence[LinkerBuffer]]], name: str, op: Operation, *, decides: bool = False
    ) -> None:
        """Append records that belong to no kernel, with the SPM ranges that they use."""
        records: list[Record] = []
        buffers: list[Buffer] = []
        uses: list[BufferUse] = []
        for part, places in parts:
            new = list(part)
            tables = table_of(new, places, len(records), len(buffers))
            records += new
            buffers += tables[0]
            uses += tables[1]
        code = code_of(records, buffers, uses, self.chip.tiles)
        self.add(LaunchWork(code, code.footprint, None, name, origin_of(op), decides))

    def bring(self, values: Sequence[SSAValue], targets: Sequence[int], op: Operation) -> None:
        """Append copies that bring each of the values into its slot of `targets`."""
        self.copy([Move(self.slots.of[value], target, value.type) for value, target in zip(values, targets, strict=True)], op)

    def copy(self, moves: Sequence[Move], op: Operation) -> None:
        """Append copies that have the effect of happening all at once: ordered, and through a scratch slot where two values change
        places.
        """
        held: list[int] = []

        def aside(type_: Attribute) -> int:
            held.append(self.slots.scratch(type_))
            self.slots.hold(held[-1])
            return held[-1]

        parts: list[tuple[Iterable[Record], Sequence[LinkerBuffer]]] = []
        for number, move in enumerate(in_order(moves, aside)):
            size = port_of(move.type).size_bytes
            records = copy_slot(move.source, move.target, size, number, self.chip, origin_of(op))
            parts.append((records, [copy_place(size, number, self.chip)]))
        if parts:
            self.append(parts, "copy", op)
        for slot in held:
            self.slots.release(slot)

    def copy_part(self, source: int, base: ViewBase, target: int, num_bytes: int, op: Operation) -> None:
        """Append a copy of what begins there in a slot."""
        records = copy_slot(source, target, num_bytes, 0, self.chip, origin_of(op), base)
        self.append([(records, [copy_place(num_bytes, 0, self.chip)])], "copy", op)

    def update(self, op: UpdateOp, *, is_last_use: bool) -> None:
        """Append the records that write the box, and before them a copy of the old value if it is still needed."""
        source, old = self.slots.of[op.update], self.slots.of[op.tensor]
        target = self.slots.over(op.result, op.tensor, is_last_use=is_last_use)
        self.copy([Move(old, target, op.tensor.type)], op)
        outer, inner = port_of(op.tensor.type), port_of(op.update.type)
        if 0 in inner.shape:
            return
        order = outer.layout[::-1] or tuple(range(len(outer.shape)))
        item_bytes = outer.size_bytes // prod(outer.shape)
        steps = distances(outer.shape, order, item_bytes)
        starts = [
            self.start(value, step, room - size)
            for value, step, room, size in zip(op.starts, steps, outer.shape, inner.shape, strict=True)
        ]
        box = box_of(inner.shape, outer.shape, order, item_bytes)
        origin = origin_of(op)
        reading = read_starts(starts, self.chip, origin), start_places(starts, self.chip)
        writing = write_box(source, target, box, self.chip, origin), [box_place(box, self.chip)]
        self.append([reading, writing], "update", op)

    def start(self, value: SSAValue, distance: int, room: int) -> Start:
        """The start of an update along one dimension, whose indices are `distance` bytes apart and must stay in 0..room."""
        known = scalar_of(value)
        if known is not None:
            return Start(int(known), None, distance, room)
        self.read.add(value)
        return Start(self.slots.of[value], SELECTORS[port_of(value.type).dtype], distance, room)


def origin_of(op: Operation) -> str:
    """The source location of an op of @main, or of the op around it; "" if there is none."""
    inner: Operation | None = op
    while inner is not None:
        loc = inner.attributes.get("loc")
        if isinstance(loc, StringAttr) and loc.data:
            return loc.data
        inner = inner.parent_op()
    return ""
