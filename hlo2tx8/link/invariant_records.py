"""What a kernel does alike in each turn of a loop around it: loads from slots that nothing in the loop writes, and what is made of
these alone.

    KC_affine r3 = 512*r1                                    alike: of the tile's number
    RDMA_load 0x10000 slot 4 offset=r3                       alike, as slot 4 is not written
    RDMA_load 0x28000 slot 6                                 not: slot 6 is written in the loop
    CGRATensor_CvtOp_fp32_bf16 0x30000 src=0x10000           alike
    NE_gemm 0x20000 left=0x28000 right=0x30000               not

A buffer stays as it is if only such records write it, and all that reads it comes behind them. Records in loops of the kernel's own
are taken for others, and so are those under a condition that is not alike itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.encoding import Record, Register, number_of, partners
from hlo2tx8.device.isa.fields import SPM_ROLES, Role
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import KcAffine, KcIf, KcLoop
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.link.barriers import LinkedCode
from hlo2tx8.link.records import TILE, ZERO, written_by

WRITES = (Role.SPM_WRITE, Role.REMOTE_WRITE)


@dataclass(frozen=True)
class StayingBuffers:
    """Buffers that stay as they are together, as some are made of others; the records that write them."""

    buffers: tuple[int, ...]
    records: tuple[int, ...]


@dataclass(frozen=True)
class InvariantRecords:
    """What may stay, apart from each other, and the records that compute registers and branches alike in each turn."""

    parts: tuple[StayingBuffers, ...]
    scalars: frozenset[int]


def invariant_records(code: LinkedCode, is_fixed: Sequence[bool]) -> InvariantRecords:
    """Of a kernel's code; `is_fixed` says of its slots that the loop does not write them."""
    touches: dict[int, list[tuple[int, bool]]] = {}
    for use in code.uses:
        role = code.records[use.record].kind.FIELDS[use.operand].role
        touches.setdefault(use.record, []).append((use.buffer, role in WRITES))
    walk = _InvariantWalk(code.records, partners(code.records), is_fixed, touches)
    walk.run(0, len(code.records), {ZERO.number, TILE.number})
    return InvariantRecords(tuple(walk.parts()), frozenset(walk.scalars))


@dataclass
class _InvariantWalk:
    """`alike` are records of engines that may be so, as far as their numbers go."""

    records: Sequence[Record]
    partners: Sequence[int]
    is_fixed: Sequence[bool]
    touches: dict[int, list[tuple[int, bool]]]
    scalars: set[int] = field(default_factory=set[int])
    alike: set[int] = field(default_factory=set[int])

    def run(self, at: int, end: int, known: set[int]) -> None:
        """The records from `at` to before `end`; `known` are the registers that hold the same in each turn."""
        while at < end:
            record, partner = self.records[at], self.partners[at]
            if record.kind in (KcIf, KcLoop):
                if record.kind is KcIf and _is_known(record, known):
                    self.scalars |= {at, partner}
                    self.run(at + 1, partner, set(known))
                known -= written_by(self.records[at:partner])
                at = partner
            elif "rd" in record.fields:
                is_known = (record.kind is KcAffine or issubclass(record.kind, KcScalar)) and _is_known(record, known)
                number = number_of(record.fields["rd"])
                known.discard(number)
                if is_known and number:
                    known.add(number)
                    self.scalars.add(at)
            elif record.kind.ENGINE not in (Engine.KC, Engine.DTE) and record.kind is not Wdma and _is_known(record, known):
                slot = record.fields.get("slot")
                if record.kind is not Rdma or (isinstance(slot, int) and self.is_fixed[slot]):
                    self.alike.add(at)
            at += 1

    def parts(self) -> list[StayingBuffers]:
        """The buffers that stay, with those that they are made of."""
        places = {i: sum(f.role in SPM_ROLES for f in record.kind.FIELDS) for i, record in enumerate(self.records)}
        if any(number != len(self.touches.get(i, ())) for i, number in places.items()):
            return []
        writers, readers = dict[int, list[int]](), dict[int, list[int]]()
        for i, touched in sorted(self.touches.items()):
            for buffer, is_write in touched:
                (writers if is_write else readers).setdefault(buffer, []).append(i)
        staying = set(writers)
        while True:
            made = {i for i in self.alike if all(buffer in staying for buffer, _ in self.touches[i])}
            left = {b for b in staying if made.issuperset(writers[b]) and _are_behind(readers.get(b, ()), writers[b], made)}
            if left == staying:
                break
            staying = left
        return _together(staying, writers, self.touches)


def _are_behind(readers: Sequence[int], writers: Sequence[int], made: set[int]) -> bool:
    """Do readers that are not moved themselves read what is there in the end?"""
    return all(reader > writers[-1] for reader in readers if reader not in made)


def _together(staying: set[int], writers: dict[int, list[int]], touches: dict[int, list[tuple[int, bool]]]) -> list[StayingBuffers]:
    """Buffers by what writes them; those that one record touches are together."""
    found: list[tuple[set[int], set[int]]] = []
    for buffer in sorted(staying):
        records = set(writers[buffer])
        buffers = {other for i in records for other, _ in touches[i]} | {buffer}
        near = [part for part in found if part[0] & buffers]
        for part in near:
            found.remove(part)
            buffers |= part[0]
            records |= part[1]
        found.append((buffers, records))
    return [StayingBuffers(tuple(sorted(buffers)), tuple(sorted(records))) for buffers, records in found]


def _is_known(record: Record, known: set[int]) -> bool:
    return all(value.number in known for name, value in record.fields.items() if name != "rd" and isinstance(value, Register))
