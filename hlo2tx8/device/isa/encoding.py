"""Programs as records of 24 little-endian 64-bit words, one per instruction.

word 0: opcode (bits 0-15), format (16-23), source format (24-31), rounding (32-39), engine (40-47)
word 1: bit k set = operand k is a register number, otherwise an immediate
word 2: index into the program's origins
word 3: for loops, branches and their ends: the record index of the partner
words 4..23: operands as signed integers, in the order of FIELDS
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import BY_OPCODE
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.kc_control import KcEnd, KcEndIf, KcIf, KcLoop

RECORD_WORDS = 24
HEADER_WORDS = 4


class Register(NamedTuple):
    """A register operand."""

    number: int


Operand: TypeAlias = int | Register


@dataclass(frozen=True)
class Record:
    """One instruction with concrete operands."""

    kind: type[Instruction]
    fields: Mapping[str, Operand] = field(default_factory=dict[str, Operand])
    fmt: Format = Format.INT8
    fmt2: Format = Format.INT8
    rounding: Rounding = Rounding.NEAREST_EVEN
    origin: str = ""


class EncodingError(ValueError):
    """Words that are no program."""


def encode_records(records: Sequence[Record]) -> tuple[np.ndarray, tuple[str, ...]]:
    """(uint64[n, 24], origins) of a sequence of records whose loops and branches nest."""
    words = np.zeros((len(records), RECORD_WORDS), np.uint64)
    origins: dict[str, int] = {}
    open_blocks: list[int] = []
    for i, record in enumerate(records):
        kind = record.kind
        head = kind.OPCODE | record.fmt << 16 | record.fmt2 << 24 | record.rounding << 32 | kind.ENGINE << 40
        registers = 0
        operands: list[int] = []
        for position, f in enumerate(kind.FIELDS):
            value = record.fields.get(f.name, f.default)
            if value is None:
                raise EncodingError(f"{kind.MNEMONIC}: field {f.name} is missing")
            if isinstance(value, Register):
                registers |= 1 << position
                value = value.number
            operands.append(value)
        words[i, :HEADER_WORDS] = head, registers, origins.setdefault(record.origin, len(origins)), 0
        words[i, HEADER_WORDS : HEADER_WORDS + len(operands)] = np.array(operands, np.int64).view(np.uint64)
        if kind in (KcLoop, KcIf):
            open_blocks.append(i)
        elif kind in (KcEnd, KcEndIf):
            if not open_blocks:
                raise EncodingError(f"record {i}: {kind.MNEMONIC} without a beginning")
            start = open_blocks.pop()
            words[start, 3], words[i, 3] = i, start
    if open_blocks:
        raise EncodingError(f"record {open_blocks[-1]}: a loop or branch has no end")
    return words, tuple(origins)


def decode_records(words: np.ndarray, origins: Sequence[str]) -> list[Record]:
    """The records of encoded words; raises EncodingError naming the record that is none."""
    if words.ndim != 2 or words.shape[1] != RECORD_WORDS or words.dtype != np.uint64:
        raise EncodingError(f"a program is uint64[n, {RECORD_WORDS}], not {words.dtype}{list(words.shape)}")
    return [_decode(i, [int(w) for w in row], origins) for i, row in enumerate(words)]


def _decode(i: int, row: Sequence[int], origins: Sequence[str]) -> Record:
    kind = BY_OPCODE.get(row[0] & 0xFFFF)
    if kind is None:
        raise EncodingError(f"record {i}: illegal opcode {row[0] & 0xFFFF}")
    try:
        fmt, fmt2 = Format(row[0] >> 16 & 0xFF), Format(row[0] >> 24 & 0xFF)
        rounding = Rounding(row[0] >> 32 & 0xFF)
    except ValueError as error:
        raise EncodingError(f"record {i}: {kind.MNEMONIC}: {error}") from None
    if kind.FORMATS and fmt not in kind.FORMATS:
        raise EncodingError(f"record {i}: {kind.MNEMONIC} does not take format {fmt.name}")
    if kind.FORMATS2 and fmt2 not in kind.FORMATS2:
        raise EncodingError(f"record {i}: {kind.MNEMONIC} does not take source format {fmt2.name}")
    fields: dict[str, Operand] = {}
    for position, f in enumerate(kind.FIELDS):
        word = row[HEADER_WORDS + position]
        value = word - (1 << 64) if word >> 63 else word
        if row[1] >> position & 1:
            if not 0 <= value < 64:
                raise EncodingError(f"record {i}: {kind.MNEMONIC}: no register {value}")
            fields[f.name] = Register(value)
        else:
            fields[f.name] = value
    origin = origins[row[2]] if row[2] < len(origins) else ""
    return Record(kind, fields, fmt, fmt2, rounding, origin)
