"""A program as text: one line per record, loops and branches indented, origins beside.

3  KC_loop                         rd=r2 lo=0 hi=48 step=1
4    RDMA.bf16                     dst=r5 slot=0 offset=r6 count=16384              ; gelu.py:12
"""

from hlo2tx8.device.isa.encoding import Record, Register, decode_records
from hlo2tx8.device.isa.kc_control import KcEnd, KcEndIf, KcIf, KcLoop
from hlo2tx8.device.program import Program

ZERO = Register(0)


def listing(program: Program) -> str:
    """Slots, then records."""
    slots = [f"slot {i}: {s.kind.value} {s.index} {s.dtype}{list(s.shape)}" for i, s in enumerate(program.slots)]
    lines: list[str] = []
    depth = 0
    for number, record in enumerate(decode_records(program.code, program.origins)):
        depth -= record.kind in (KcEnd, KcEndIf)
        lines.append(f"{number:5}  {'  ' * depth}{line(record)}")
        depth += record.kind in (KcLoop, KcIf)
    return "\n".join([*slots, *lines])


def line(record: Record) -> str:
    """Mnemonic with formats, operands, origin."""
    kind = record.kind
    suffix = f".{record.fmt.name.lower()}" if kind.FORMATS else ""
    source = f"_{record.fmt2.name.lower()}" if kind.FORMATS2 else ""
    shown = [f for f in kind.FIELDS if record.fields[f.name] not in (f.default, f.default if f.default is None else ZERO)]
    operands = " ".join(f"{f.name}={_operand(record.fields[f.name])}" for f in shown)
    text = f"{kind.MNEMONIC + source + suffix:36} {operands}".rstrip()
    return f"{text:96} ; {record.origin}" if record.origin else text


def _operand(value: int | Register) -> str:
    return f"r{value.number}" if isinstance(value, Register) else str(value)
