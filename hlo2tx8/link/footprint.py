"""Which bytes of which DDR slots a stretch of records reads and writes on each tile, worked out from loops, branches and addresses.

    KC_affine r2 = 512 + -64*r1                         tile 0: 64, tile 1: 64, ... tile 8: 0, ...
    KC_min r2 = min(r2, 64); KC_less r3 = 0 < r2
    KC_if r3                                            tiles 0 .. 7
      WDMA slot=9 offset=256*r1 count=r2                tile 0: 0..256, tile 1: 256..512, ...

A register is followed as an interval, a loop's counter as all of its values at once. A value that was loaded from SPM, or is not
computed from counters and the tile's number, is unknown, and so are the bytes that a transfer with it reaches. A strided box counts
as everything from its first to its last byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.encoding import Operand, Record, Register, number_of, partners
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcFloorDiv,
    KcIf,
    KcLess,
    KcLoop,
    KcMax,
    KcMin,
    KcMod,
    KcMul,
)
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.link.records import TILE, ZERO, written_by

Numbers: TypeAlias = npt.NDArray[np.int64]
Registers: TypeAlias = dict[int, "RegisterRange"]
MOST = 1 << 40
"""Numbers beyond are unknown."""
PLACES = ("dst", "src", "slot")
"""Fields of a transfer that say nothing about the bytes in the slot."""
END = 1 << 62
"""Of a slot whose size nobody asked for."""


class RegisterRange(NamedTuple):
    """The least and the greatest value a register may hold, one of each per tile."""

    least: Numbers
    most: Numbers


class SlotAccess(NamedTuple):
    """The bytes of a slot that each tile reads or writes: from `first` up to but not including `end`, none where `end <= first`."""

    slot: int
    is_write: bool
    first: Numbers
    end: Numbers

    @property
    def tiles(self) -> npt.NDArray[np.bool_]:
        """Mask of the tiles that access any byte."""
        return self.first < self.end


@dataclass(frozen=True)
class Footprint:
    """All DDR accesses of a stretch of records. If `is_bound`, tiles synchronise or exchange data in it, so it needs a barrier on
    both sides.
    """

    accesses: tuple[SlotAccess, ...]
    is_bound: bool = False

    @property
    def is_alone(self) -> bool:
        """True if no tile but tile 0 writes anything."""
        return not self.is_bound and not any(a.tiles[1:].any() for a in self.accesses if a.is_write)

    def of_tile_0(self) -> "Footprint":
        """The footprint if only tile 0 runs the records."""
        return Footprint(tuple(a._replace(end=np.where(np.arange(len(a.end)) > 0, a.first, a.end)) for a in self.accesses))

    def renumbered(self, slots: Sequence[int]) -> "Footprint":
        """The same footprint with slot number n replaced by `slots[n]`."""
        return Footprint(tuple(a._replace(slot=slots[a.slot]) for a in self.accesses), self.is_bound)


def meets(a: SlotAccess, b: SlotAccess) -> bool:
    """True if two different tiles access a common byte, one by `a` and one by `b`, and one of the two is a write."""
    if a.slot != b.slot or not (a.is_write or b.is_write):
        return False
    overlap = (a.first[:, None] < b.end[None, :]) & (b.first[None, :] < a.end[:, None])
    overlap &= a.tiles[:, None] & b.tiles[None, :]
    np.fill_diagonal(overlap, False)
    return bool(overlap.any())


def footprint_of(records: Sequence[Record], tiles: int) -> Footprint:
    """The footprint of records on a chip with `tiles` tiles; when they start, nothing is known of the registers but the tile's
    number.
    """
    if any(r.kind.ENGINE is Engine.DTE for r in records):
        return _bound(records, tiles)
    walk = _FootprintWalk(records, partners(records), tiles, _asked(records))
    walk.run(
        0,
        len(records),
        np.ones(tiles, bool),
        {ZERO.number: RegisterRange(*[np.zeros(tiles, np.int64)] * 2), TILE.number: RegisterRange(*[np.arange(tiles)] * 2)},
    )
    found = Footprint(tuple(SlotAccess(slot, is_write, *ends) for (slot, is_write), ends in walk.found.items()))
    meets_itself = any(r.kind is KcBarrier for r in records)
    return _bound(records, tiles) if meets_itself and not found.is_alone else found


def _bound(records: Sequence[Record], tiles: int) -> Footprint:
    whole = np.zeros(tiles, np.int64), np.full(tiles, END)
    slots = {(record.fields["slot"], record.kind is Wdma): None for record in records if record.kind in (Rdma, Wdma)}
    return Footprint(tuple(SlotAccess(slot, is_write, *whole) for slot, is_write in slots if isinstance(slot, int)), is_bound=True)


@dataclass
class _FootprintWalk:
    records: Sequence[Record]
    partners: Sequence[int]
    tiles: int
    asked: set[int]
    found: dict[tuple[int, bool], tuple[Numbers, Numbers]] = field(default_factory=dict[tuple[int, bool], tuple[Numbers, Numbers]])
    constants: dict[int, RegisterRange] = field(default_factory=dict[int, RegisterRange])

    def run(self, at: int, end: int, active: npt.NDArray[np.bool_], registers: Registers) -> None:
        """The records from `at` to before `end` on the tiles that are `active`."""
        while at < end:
            record, partner = self.records[at], self.partners[at]
            fields = record.fields
            if record.kind is KcIf:
                value = self.value(fields["value"], registers)
                may = active if value is None else active & ((value.least != 0) | (value.most != 0))
                self.block(at, may, dict(registers), registers)
            elif record.kind is KcLoop:
                lo, hi = (self.value(fields[name], registers) for name in ("lo", "hi"))
                inside = {r: v for r, v in registers.items() if r not in self.written(at + 1, partner)}
                if lo is not None and hi is not None:
                    inside[number_of(fields["rd"])] = RegisterRange(lo.least, np.maximum(lo.most, hi.most - 1))
                    self.block(at, active & (lo.least < hi.most), inside, registers)
                else:
                    inside.pop(number_of(fields["rd"]), None)
                    self.block(at, active, inside, registers)
            elif record.kind in (Rdma, Wdma):
                self.transfer(record, active, registers)
            elif "rd" in fields and number_of(fields["rd"]) in self.asked:
                self.scalar(record, registers)
            at = partner + 1 if record.kind in (KcIf, KcLoop) else at + 1

    def block(self, at: int, active: npt.NDArray[np.bool_], inside: Registers, registers: Registers) -> None:
        """The block that begins with record `at`; what it writes is not known behind it."""
        if active.any():
            self.run(at + 1, self.partners[at], active, inside)
        for number in self.written(at, self.partners[at]):
            registers.pop(number, None)

    def written(self, at: int, end: int) -> set[int]:
        """The registers that the records from `at` to before `end` write."""
        return written_by(self.records[at:end])

    def value(self, operand: Operand, registers: Mapping[int, RegisterRange]) -> RegisterRange | None:
        """None if nothing is known."""
        if isinstance(operand, Register):
            return registers.get(operand.number)
        if operand not in self.constants and abs(operand) < MOST:
            self.constants[operand] = RegisterRange(*[np.full(self.tiles, operand)] * 2)
        return self.constants.get(operand)

    def scalar(self, record: Record, registers: Registers) -> None:
        """A record that writes a register."""
        result: RegisterRange | None = None
        values = {name: self.value(operand, registers) for name, operand in record.fields.items() if name != "rd"}
        known = {name: value for name, value in values.items() if value is not None}
        if len(known) == len(values):
            if record.kind is KcAffine:
                result = _sum([known["c"], *(_product(known[f"r{i}"], known[f"k{i}"]) for i in (1, 2, 3, 4) if f"r{i}" in known)])
            elif issubclass(record.kind, KcScalar):
                result = _combined(record.kind, known["a"], known["b"])
        number = number_of(record.fields["rd"])
        registers.pop(number, None)
        if number and result is not None and result.least.min() > -MOST and result.most.max() < MOST:
            registers[number] = result

    def transfer(self, record: Record, active: npt.NDArray[np.bool_], registers: Mapping[int, RegisterRange]) -> None:
        """A load or a store."""
        fields = {f.name: record.fields.get(f.name, f.default) for f in record.kind.FIELDS}
        sizes = {
            name: self.value(o, registers) for name, o in fields.items() if name not in ("dst", "src", "slot") and o is not None
        }
        slot = fields["slot"]
        assert isinstance(slot, int)
        first, end = np.zeros(self.tiles, np.int64), np.full(self.tiles, END)
        known = {name: value for name, value in sizes.items() if value is not None}
        if len(known) == len(sizes):
            reach, moves = known["count"].most, known["count"].most > 0
            for i in (1, 2, 3):
                reach = reach + known[f"s{i}"].most * (known[f"n{i}"].most - 1)
                moves = moves & (known[f"n{i}"].most > 0)
            active = active & moves
            first, end = known["offset"].least, known["offset"].most + reach * record.fmt.bytes
        if not active.any():
            return
        first, end = np.where(active, first, END), np.where(active, end, -END)
        key = slot, record.kind is Wdma
        if key in self.found:
            first, end = np.minimum(first, self.found[key][0]), np.maximum(end, self.found[key][1])
        self.found[key] = first, end


def _asked(records: Sequence[Record]) -> set[int]:
    """The registers that decide, by others too, whether transfers are made and which bytes they reach."""
    found: set[int] = set()
    made: list[tuple[int, list[int]]] = []
    for record in records:
        fields = record.fields
        if record.kind in (Rdma, Wdma):
            found.update([o.number for name, o in fields.items() if isinstance(o, Register) and name not in PLACES])
        elif record.kind in (KcIf, KcLoop):
            found.update([o.number for name, o in fields.items() if isinstance(o, Register) and name != "rd"])
        elif "rd" in fields:
            operands = [o.number for name, o in fields.items() if isinstance(o, Register) and name != "rd"]
            made.append((number_of(fields["rd"]), operands))
    num_found = -1
    while num_found < len(found):
        num_found = len(found)
        for number, operands in reversed(made):
            if number in found:
                found.update(operands)
    return found


def _product(a: RegisterRange, b: RegisterRange) -> RegisterRange | None:
    """None if it is too large."""
    if int(np.abs(a).max()) * int(np.abs(b).max()) >= MOST:
        return None
    if b.least is b.most and (factor := int(b.least[0])) >= 0 and (b.least == factor).all():
        return RegisterRange(a.least * factor, a.most * factor)
    ends = a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most
    return RegisterRange(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _sum(terms: Sequence[RegisterRange | None]) -> RegisterRange | None:
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        return None
    return RegisterRange(sum(t.least for t in known[1:]) + known[0].least, sum(t.most for t in known[1:]) + known[0].most)


def _combined(kind: type[KcScalar], a: RegisterRange, b: RegisterRange) -> RegisterRange | None:
    """What a scalar instruction makes of two intervals; None if that is not known."""
    if kind is KcMin or kind is KcMax:
        f = np.minimum if kind is KcMin else np.maximum
        return RegisterRange(f(a.least, b.least), f(a.most, b.most))
    if kind is KcMul:
        return _product(a, b)
    if kind is KcLess:
        return RegisterRange((a.most < b.least).astype(np.int64), (a.least < b.most).astype(np.int64))
    if kind not in (KcFloorDiv, KcMod) or (b.least != b.most).any() or (b.least <= 0).any():
        return None
    low, high = a.least // b.least, a.most // b.least
    if kind is KcFloorDiv:
        return RegisterRange(low, high)
    stays = low == high
    return RegisterRange(np.where(stays, a.least % b.least, 0), np.where(stays, a.most % b.least, b.least - 1))
