"""A program as text: one line per record, loops and branches indented, origins beside.

    2  KC_loop                              rd=r3 lo=0 hi=96 step=1
   12    KC_affine                            r7 = 65536 + 16384*r6
   15    CGRATensor_ArithOp_V_VS_mul.bf16     dst=0x20000 a=0x24000 imm=0.044715 n=8192      ; gelu.hlo:10 scaled

Register r1 holds the tile. SPM addresses are hexadecimal, DDR offsets and counts decimal, immediates of CT the FP32
numbers they stand for.
"""

import numpy as np

from hlo2tx8.device.isa.encoding import BEGINS, Record, Register, decode_records
from hlo2tx8.device.isa.fields import SPM_ROLES, Engine, Field
from hlo2tx8.device.isa.kc_control import KcAffine
from hlo2tx8.device.program import Program

ZERO = Register(0)


def listing(program: Program) -> str:
    """The program as text: its DDR slots, then one line per record."""
    slots = [f"slot {i}: {s.kind.value} {s.index} {s.dtype}{list(s.shape)}" for i, s in enumerate(program.slots)]
    lines: list[str] = []
    depth = 0
    for number, record in enumerate(decode_records(program.code, program.origins)):
        depth -= record.kind in BEGINS
        lines.append(f"{number:5}  {'  ' * depth}{line(record)}")
        depth += record.kind in BEGINS.values()
    return "\n".join([*slots, *lines])


def line(record: Record, *, has_origin: bool = True) -> str:
    """One record as text: mnemonic with formats, operands, and its origin if it is asked for."""
    kind = record.kind
    shown = [f for f in kind.FIELDS if record.fields[f.name] not in (f.default, f.default if f.default is None else ZERO)]
    operands = " ".join(f"{f.name}={_operand(f, record.fields[f.name])}" for f in shown)
    if kind is KcAffine:
        operands = _affine(record)
    text = f"{name_of(record):36} {operands}".rstrip()
    return f"{text:96} ; {record.origin}" if record.origin and has_origin else text


def name_of(record: Record) -> str:
    """The mnemonic of a record with its formats, as in `CGRATensor_ArithOp_V_VV_add.bf16`."""
    source = f"_{record.fmt2.name.lower()}" if record.kind.FORMATS2 else ""
    suffix = f".{record.fmt.name.lower()}" if record.kind.FORMATS else ""
    return record.kind.MNEMONIC + source + suffix


def _operand(field: Field, value: int | Register) -> str:
    if isinstance(value, Register):
        return _plain(value)
    if field.role in SPM_ROLES:
        return hex(value)
    if field.name == "imm":
        return str(np.uint32(value & 0xFFFFFFFF).view(np.float32))
    if field.name == "engines":
        return "|".join(engine.name for engine in Engine if value >> engine.value & 1)
    return _plain(value)


def _affine(record: Record) -> str:
    """`rd = c + k*r + ...`, without what is zero."""
    fields = record.fields
    pairs = [(fields[f"k{i}"], fields[f"r{i}"]) for i in range(1, 5)]
    terms = [(f"{_plain(k)}*" if k != 1 else "") + _plain(r) for k, r in pairs if k != 0 and r != ZERO]
    constant = [_plain(fields["c"])] if fields["c"] != 0 or not terms else []
    return f"{_plain(fields['rd'])} = {' + '.join([*constant, *terms])}"


def _plain(value: int | Register) -> str:
    return f"r{value.number}" if isinstance(value, Register) else str(value)
