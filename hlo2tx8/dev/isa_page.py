"""The page of the instruction set: every instruction with what its class declares."""

import sys
from collections.abc import Sequence

from hlo2tx8.dev import isa_uses
from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS, Engine, Field, Instruction, Role
from hlo2tx8.device.isa.base import constraints
from hlo2tx8.device.isa.ct_move import CT_CONVERT_FORMATS, CtConvert
from hlo2tx8.device.isa.forms import CT_FLOATS, KC_ALL, KC_FLOATS, KC_INTEGERS, KcGatherForm, KcScalar, KcScatterForm
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KcAffine, KcBarrier, KcCall, KcExit, KcIf, KcLoop, KcWait
from hlo2tx8.device.status import Status
from hlo2tx8.device.timing.ne_cycles import ne_cycles_text

WORDS = {
    Role.SPM_READ: "in",
    Role.SPM_WRITE: "out",
    Role.REMOTE_READ: "remote in",
    Role.REMOTE_WRITE: "remote out",
    Role.SLOT: "slot",
    Role.DDR_READ: "from",
    Role.DDR_WRITE: "to",
    Role.COUNT: "count",
    Role.STRIDE: "stride",
    Role.IMMEDIATE: "value",
    Role.REGISTER: "register",
}
FORMAT_SETS: tuple[tuple[str, Sequence[Format]], ...] = (
    ("any", tuple(Format)),
    ("all", KC_ALL),
    ("floats", CT_FLOATS),
    ("KC floats", KC_FLOATS),
    ("integers", KC_INTEGERS),
)
LEAD = """One class per instruction in `hlo2tx8/device/isa/` states all of this; the parser, the printer, the verifier, the
encoding, both tiers of the emulator, the timing model and this page follow it.

- Operands: `in` and `out` are byte addresses in SPM, `from` and `to` byte offsets in a DDR slot, `stride` and `count` are
  in elements, for `TDMA_gatherScatter` in bytes. A value is a number or a register of the kernel core; `=` shows a default.
- Formats:
{sets}
- Roundings: elementwise instructions of CT take all five (nearest even, toward zero, up, down, by chance) and round the exact
  result once; of rsqrt and transcendental functions that is their FP64 value. Reductions and pooling join in FP32 to nearest even
  and round what they write. A zero keeps the sign that it has to nearest even, by chance hashes the number of the element in
  its vector or tensor. Conversions have a table below. All others round to nearest even.
- Constraints C1, C2, ... are checked by the verifier where values are known, and by the emulator, which faults
  `bad_descriptor`. Addresses have to lie inside of SPM and of their slot, or the emulator faults `out_of_bounds`.
- Cycles are those of the built-in chip. `bytes` is the widest operand, for transfers all that is moved, where runs shorter
  than {dma_run} bytes (DMA) or {tdma_run} bytes (TDMA) count as that long; `share` is a tile's part of the DDR bandwidth,
  `rate` is {int8} for INT8 operands of the matrix engine and 1 for others, padded(c) are channels with those
  that fill their block. Issue takes {issue} cycles more on the kernel core, except for its own instructions.
- Instructions whose law nobody has published want an entry of `laws` in the chip description; without it they fault
  `unpublished` when they run.
- The last column names a source whose program has the instruction, or says why the compiler selects it for none.
- A tile keeps exception bits on demand, see `Emulator.run_with_status`: {status}."""
CONVERSIONS = """Rows convert into columns; `r` marks those that take a rounding (nearest even, toward zero, up, down, by
chance), the others round to nearest even where they round. Floats saturate into integers, NaN becomes 0. From INT8 a zero
point is subtracted."""


def isa_text() -> str:
    """Lead, one table per module of instructions, conversions."""
    chip = load_chip()
    sets = "\n".join(f"  - *{name}*: {_names(formats)}" for name, formats in FORMAT_SETS[1:])
    cycles = chip.cycles
    lead = LEAD.format(
        sets=sets,
        dma_run=cycles.dma_min_run_bytes,
        tdma_run=cycles.tdma_min_run_bytes,
        issue=cycles.issue,
        int8=cycles.ne_int8_speedup,
        status=", ".join((s.name or "").lower().replace("_", " ") for s in Status),
    )
    parts = ["# Instructions", lead]
    modules = sorted({cls.__module__ for cls in INSTRUCTIONS}, key=lambda m: min(c.OPCODE for c in _of(m)))
    for module in modules:
        header = ("opcode", "name", "engine", "operands", "formats", "constraints", "cycles", "meaning", "selected for")
        rows = [row(cls, chip) for cls in sorted(_of(module), key=lambda cls: cls.OPCODE)]
        parts += [f"## {(sys.modules[module].__doc__ or '').strip().splitlines()[0]}", table(header, rows)]
    parts += ["## Conversions of CT", CONVERSIONS, _conversions()]
    return "\n\n".join(parts) + "\n"


def _of(module: str) -> list[type[Instruction]]:
    return [cls for cls in INSTRUCTIONS if cls.__module__ == module]


def _names(formats: Sequence[Format]) -> str:
    return " ".join(f.name.lower() for f in formats)


def row(cls: type[Instruction], chip: Chip) -> tuple[str, ...]:
    """The cells of one instruction."""
    rules = "; ".join(f"C{i} {c.text}" for i, c in enumerate(constraints(cls), 1))
    meaning = (cls.__doc__ or "").strip().splitlines()[0]
    operands = ", ".join(map(_operand, cls.FIELDS))
    facts = str(cls.OPCODE), f"`{cls.MNEMONIC}`", cls.ENGINE.name, operands, _formats(cls), rules, cycles_text(cls, chip), meaning
    use = isa_uses.stored().get(cls.MNEMONIC)
    return *facts, f"*nothing: {isa_uses.reason(cls.MNEMONIC)}*" if use is None else f"`{use}`"


def _operand(field: Field) -> str:
    word = WORDS[field.role]
    name = field.name if word == field.name else f"{word} {field.name}"
    return name if field.default is None else f"{name}={field.default}"


def _formats(cls: type[Instruction]) -> str:
    if cls is CtConvert:
        return "see conversions"
    return f"{_set_name(cls.FORMATS)} from {_set_name(cls.FORMATS2)}" if cls.FORMATS2 else _set_name(cls.FORMATS)


def _set_name(members: Sequence[Format]) -> str:
    return next((name for name, formats in FORMAT_SETS if set(formats) == set(members)), _names(members))


def cycles_text(cls: type[Instruction], chip: Chip) -> str:
    """The cost as a formula, also a Python expression of operands, `bytes`, `share` and `rate`, held against the timing model."""
    c = chip.cycles
    fixed = {**dict.fromkeys(KC_CONTROL, 0), KcIf: 1, KcExit: 1, KcCall: 1, KcWait: c.wait, KcBarrier: c.barrier}
    beat = chip.beats.of(cls.COST)
    times = f"{beat} * " if beat != 1 else ""
    if cls in fixed:
        return "2 per turn" if cls is KcLoop else str(fixed[cls])
    if issubclass(cls, KcScalar) or cls is KcAffine:
        return "1 per term" if cls is KcAffine else "1"
    if issubclass(cls, KcGatherForm | KcScatterForm):
        return "max(n, 1)"
    match cls.ENGINE:
        case Engine.KC:
            return f"{times}max(ceil(bytes / {c.kc_vector_bytes_per_cycle}), 1)"
        case Engine.CT:
            return f"{c.ct_startup} + {times}ceil(bytes / {c.ct_bytes_per_cycle})"
        case Engine.RDMA | Engine.WDMA:
            return f"{c.dma_startup} + bytes / share"
        case Engine.TDMA:
            return f"{c.tdma_startup} + bytes / {c.tdma_bytes_per_cycle}"
        case Engine.DTE:
            return f"{c.dte_startup} + {c.dte_hop} * hops + bytes / share of {c.dte_bytes_per_cycle}"
        case Engine.NE:
            return ne_cycles_text(cls, c)
        case _:
            return ""


def _conversions() -> str:
    def cell(source: Format, target: Format) -> str:
        if not CtConvert.takes(target, source, Rounding.NEAREST_EVEN):
            return ""
        return "r" if CtConvert.takes(target, source, Rounding.TOWARD_ZERO) else "x"

    header = ("from", *(f.name.lower() for f in CT_CONVERT_FORMATS))
    return table(header, [(s.name.lower(), *(cell(s, t) for t in CT_CONVERT_FORMATS)) for s in CT_CONVERT_FORMATS])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
