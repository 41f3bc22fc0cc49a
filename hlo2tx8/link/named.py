"""Named SPM buffers for the linker's own records, so that strict mode checks copies and updates as it checks kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

from hlo2tx8.device.isa import Role
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.program import Buffer, BufferUse


@dataclass(frozen=True)
class LinkerBuffer:
    """A named range of SPM used by linker records: `copies` buffers that take turns, `stride_bytes` apart."""

    name: str
    address: int
    size_bytes: int
    copies: int = 1
    stride_bytes: int = 0


def table_of(
    records: Sequence[Record], places: Sequence[LinkerBuffer], first_record: int, first_buffer: int
) -> tuple[list[Buffer], list[BufferUse]]:
    """The buffers and their uses by records that go through these ranges, numbered from `first_buffer` and `first_record` on.

    An operand with a constant address uses the range that begins there; one with an address in a register uses the only range there
    is.
    """
    at = {place.address: k for k, place in enumerate(places)}
    used: dict[int, list[int]] = {}
    uses: list[BufferUse] = []
    for i, record in enumerate(records, first_record):
        for operand, f in enumerate(record.kind.FIELDS):
            if f.role in (Role.SPM_READ, Role.SPM_WRITE):
                address = record.fields[f.name]
                k = at[address] if isinstance(address, int) else 0
                used.setdefault(k, []).append(i)
                uses.append(BufferUse(i, operand, k))
    kept = {k: first_buffer + number for number, k in enumerate(used)}
    buffers = [
        Buffer(p.name, p.address, p.size_bytes, p.copies, p.stride_bytes, used[k][0], used[k][-1])
        for k in used
        for p in (places[k],)
    ]
    return buffers, [use._replace(buffer=kept[use.buffer]) for use in uses]
