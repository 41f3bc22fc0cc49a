"""Which DDR slots transfers reach whose slot is in a register, as far as that grows with the counter of a loop.

KC_loop r8 = 0 to 3
  KC_affine r9 = 5 + 2*r8
  RDMA_load slot r9                slots 5, 7, 9
"""

from collections.abc import Iterator, Sequence

from hlo2tx8.device.isa.encoding import Record, Register, number_of
from hlo2tx8.device.isa.fields import Role
from hlo2tx8.device.isa.kc_control import KcAffine, KcLoop
from hlo2tx8.link.seams import turns_of

MOST_TURNS = 1 << 16


def named_slots(records: Sequence[Record]) -> Iterator[tuple[int, Sequence[int]]]:
    """(record, slots) of all transfers, with the slot that one names, or those that its register holds one after the other;
    none if that is not known."""
    known: dict[int, range] = {}
    for at, record in enumerate(records):
        if "rd" in record.fields:
            values = _values(record, known)
            known.pop(number_of(record.fields["rd"]), None)
            if values is not None:
                known[number_of(record.fields["rd"])] = values
        for field in record.kind.FIELDS:
            if field.role is Role.SLOT:
                slot = record.fields[field.name]
                yield at, known.get(slot.number, ()) if isinstance(slot, Register) else (slot,)


def _values(record: Record, known: dict[int, range]) -> range | None:
    """What a record puts into its register, turn by turn; None if that is not known."""
    fields = record.fields
    if record.kind is KcLoop:
        turns = turns_of(record)
        return turns if turns.stop - turns.start < MOST_TURNS else None
    start, counter, factor = fields.get("c"), fields.get("r1", 0), fields.get("k1", 0)
    if (
        record.kind is not KcAffine
        or not isinstance(start, int)
        or not isinstance(factor, int)
        or any(fields.get(f"r{i}", 0) != 0 for i in (2, 3, 4))
    ):
        return None
    turns = known.get(counter.number) if isinstance(counter, Register) else None
    if turns is None or not factor:
        return None
    return range(start + factor * turns.start, start + factor * turns.stop, factor * turns.step)
