"""Programs as records of 32 little-endian 64-bit words, one per instruction.

word 0: opcode (bits 0-15), format (16-23), source format (24-31), rounding (32-39), engine (40-47)
word 1: bit k set = operand k is a register number, otherwise an immediate
word 2: index into the program's origins
word 3: for loops, branches, functions and their ends: the record index of the partner; for an exit: of its loop's end; for a call:
        of its function
words 4..31: operands as signed integers, in the order of FIELDS
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import BY_OPCODE
from hlo2tx8.device.isa.base import Instruction, refusal
from hlo2tx8.device.isa.fields import Role
from hlo2tx8.device.isa.kc_control import KcCall, KcEnd, KcEndIf, KcExit, KcFunction, KcIf, KcLoop, KcReturn

RECORD_WORDS = 32
HEADER_WORDS = 4
NUM_REGISTERS = 64
HEAD_MASK = 0xFF_FFFF_FFFF  # of the first word, all but the engine
MAX_DEPTH = 512  # blocks inside each other, those of called functions included
BEGINS = {KcEnd: KcLoop, KcEndIf: KcIf, KcReturn: KcFunction}
"""What begins the block that an instruction ends."""


class Register(NamedTuple):
    """A register operand."""

    number: int


Operand: TypeAlias = int | Register


def number_of(operand: Operand) -> int:
    """The number of the register that a field names: it is one, or says which."""
    return operand.number if isinstance(operand, Register) else operand


@dataclass(frozen=True)
class Record:
    """One instruction with concrete operands."""

    kind: type[Instruction]
    fields: Mapping[str, Operand] = field(default_factory=dict[str, Operand])
    fmt: Format = Format.INT8
    fmt2: Format = Format.INT8
    rounding: Rounding = Rounding.NEAREST_EVEN
    origin: str = ""

    def with_fields(self, fields: Mapping[str, Operand]) -> "Record":
        """The instruction with other operands, in a fraction of the time that `replace` takes."""
        return Record(self.kind, fields, self.fmt, self.fmt2, self.rounding, self.origin)

    def of_origin(self, origin: str) -> "Record":
        """The same instruction of another origin."""
        return Record(self.kind, self.fields, self.fmt, self.fmt2, self.rounding, origin)


class EncodingError(ValueError):
    """Words that are no program."""


def encode_records(records: Sequence[Record]) -> tuple[np.ndarray, tuple[str, ...]]:
    """(uint64[n, 32], origins) of a sequence of records whose blocks nest."""
    rows: list[list[int]] = []
    origins: dict[str, int] = {}
    for record in records:
        kind = record.kind
        head = kind.OPCODE | record.fmt << 16 | record.fmt2 << 24 | record.rounding << 32 | kind.ENGINE << 40
        registers = 0
        row = [head, 0, origins.setdefault(record.origin, len(origins)), 0]
        for position, f in enumerate(kind.FIELDS):
            value = record.fields.get(f.name, f.default)
            if value is None:
                raise EncodingError(f"{kind.MNEMONIC}: field {f.name} is missing")
            if isinstance(value, Register):
                registers |= 1 << position
                value = value.number
            row.append(value)
        row[1] = registers
        rows.append(row + [0] * (RECORD_WORDS - len(row)))
    words = np.array(rows, np.int64).reshape(len(rows), RECORD_WORDS).view(np.uint64)
    words[:, 3] = partners(records)
    return words, tuple(origins)


def partners(records: Sequence[Record]) -> list[int]:
    """For each record the index of the other end of its block, for an exit that of its loop's end, for a call that of its function,
    0 for all others.

    EncodingError if blocks do not nest, an exit does not stand in a loop, a function stands in a block, or one is called that does
    not end above.
    """
    found = [0] * len(records)
    open_blocks: list[int] = []
    exits: dict[int, list[int]] = {}
    functions: list[tuple[int, int]] = []  # where each begins, and how many blocks are inside each other where it is called
    deepest = 0
    for i, record in enumerate(records):
        if record.kind in BEGINS.values():
            if record.kind is KcFunction and (open_blocks or record.fields["number"] != len(functions)):
                raise EncodingError(f"record {i}: {record.kind.MNEMONIC} {record.fields['number']} in a block or out of order")
            open_blocks.append(i)
            deepest = max(deepest if len(open_blocks) > 1 else 0, len(open_blocks))
        elif record.kind is KcCall:
            number = record.fields["number"]
            if isinstance(number, Register) or not 0 <= number < len(functions):
                raise EncodingError(f"record {i}: {record.kind.MNEMONIC} of a function that does not end above")
            found[i] = functions[number][0]
            deepest = max(deepest, len(open_blocks) + functions[number][1])
        elif record.kind is KcExit:
            if not open_blocks or records[open_blocks[-1]].kind is not KcLoop:
                raise EncodingError(f"record {i}: {record.kind.MNEMONIC} does not stand in a loop")
            exits.setdefault(open_blocks[-1], []).append(i)
        elif record.kind in BEGINS:
            if not open_blocks or records[open_blocks[-1]].kind is not BEGINS[record.kind]:
                raise EncodingError(f"record {i}: {record.kind.MNEMONIC} without a beginning")
            start = open_blocks.pop()
            found[start], found[i] = i, start
            if record.kind is KcReturn:
                functions.append((start, deepest))
            for place in exits.get(start, ()):
                found[place] = i
        if deepest > MAX_DEPTH:
            raise EncodingError(f"record {i}: more than {MAX_DEPTH} blocks inside each other")
    if open_blocks:
        raise EncodingError(f"record {open_blocks[-1]}: a block has no end")
    return found


def origins_of(words: np.ndarray, origins: Sequence[str]) -> list[str]:
    """The origin of each record of encoded words, which need not be decoded for it."""
    numbers: list[int] = words[:, 2].tolist()
    return [origins[number] if number < len(origins) else "" for number in numbers]


def decode_records(words: np.ndarray, origins: Sequence[str]) -> list[Record]:
    """The records of encoded words, whose blocks nest; raises EncodingError naming the record that is none."""
    if words.ndim != 2 or words.shape[1] != RECORD_WORDS or words.dtype != np.uint64:
        raise EncodingError(f"a program is uint64[n, {RECORD_WORDS}], not {words.dtype}{list(words.shape)}")
    operands = words[:, HEADER_WORDS:].view(np.int64).tolist()
    heads = words[:, :HEADER_WORDS].tolist()
    records = [_decode(i, head, row, origins) for i, (head, row) in enumerate(zip(heads, operands, strict=True))]
    partners(records)
    return records


class RecordHead(NamedTuple):
    """What the first word of a record says; `places` are positions of fields that number a register."""

    kind: type[Instruction]
    fmt: Format
    fmt2: Format
    rounding: Rounding
    names: tuple[str, ...]
    places: tuple[int, ...]


@lru_cache(4096)
def head_of(code: int) -> RecordHead:
    """What the first word of a record says, without its engine; EncodingError if it is no instruction."""
    kind = BY_OPCODE.get(code & 0xFFFF)
    if kind is None:
        raise EncodingError(f"illegal opcode {code & 0xFFFF}")
    try:
        fmt, fmt2 = Format(code >> 16 & 0xFF), Format(code >> 24 & 0xFF)
        rounding = Rounding(code >> 32 & 0xFF)
    except ValueError as error:
        raise EncodingError(f"{kind.MNEMONIC}: {error}") from None
    if not kind.takes(fmt, fmt2, rounding):
        raise EncodingError(refusal(kind, fmt, fmt2, rounding))
    places = tuple(k for k, f in enumerate(kind.FIELDS) if f.role is Role.REGISTER)
    return RecordHead(kind, fmt, fmt2, rounding, tuple(f.name for f in kind.FIELDS), places)


def _decode(i: int, head: Sequence[int], operands: Sequence[int], origins: Sequence[str]) -> Record:
    code, registers, origin, _ = head
    try:
        kind, fmt, fmt2, rounding, names, places = head_of(code & HEAD_MASK)
    except EncodingError as error:
        raise EncodingError(f"record {i}: {error}") from None
    fields: dict[str, Operand] = dict(zip(names, operands, strict=False))
    for position in places:
        if not 0 <= operands[position] < NUM_REGISTERS:
            raise EncodingError(f"record {i}: {kind.MNEMONIC}: no register {operands[position]}")
    registers &= (1 << len(operands)) - 1
    while registers:
        position = (registers & -registers).bit_length() - 1
        registers &= registers - 1
        if not 0 <= operands[position] < NUM_REGISTERS:
            raise EncodingError(f"record {i}: {kind.MNEMONIC}: no register {operands[position]}")
        if position < len(names):
            fields[names[position]] = Register(operands[position])
    name = origins[origin] if origin < len(origins) else ""
    return Record(kind, fields, fmt, fmt2, rounding, name)
