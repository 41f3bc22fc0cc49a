"""Writes `device/native/isa.h` from the instruction classes: `python -m hlo2tx8.device.isa.header [--check]`."""

import re
import sys
from pathlib import Path

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS, Engine, Field
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.ct_pool import CtPoolForm
from hlo2tx8.device.isa.ct_reduce import CtReduce
from hlo2tx8.device.isa.dte import MOST_DESTINATIONS
from hlo2tx8.device.isa.encoding import HEADER_WORDS, RECORD_WORDS
from hlo2tx8.device.isa.lsu import MOST_ELEMENTS
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.device.status import Status

PATH = Path(__file__).parents[1] / "native" / "isa.h"


def _upper(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def header_text() -> str:
    """Enumerations of opcodes, formats, roundings, engines, and operand positions per instruction."""
    lines = ["/* Generated from the instruction classes. Do not edit. */", "#ifndef HLO2TX8_ISA_H", "#define HLO2TX8_ISA_H", ""]
    constants = {
        "RECORD_WORDS": RECORD_WORDS,
        "HEADER_WORDS": HEADER_WORDS,
        "MOST_ELEMENTS": MOST_ELEMENTS,
        "DTE_MOST_DESTINATIONS": MOST_DESTINATIONS,
    }
    lines += [*(f"#define {name} {value}" for name, value in constants.items()), ""]
    for prefix, names in (
        ("FORMAT", {f.name: f.value for f in Format}),
        ("ROUND", {r.name: r.value for r in Rounding}),
        ("ENGINE", {e.name: e.value for e in Engine}),
        ("STATUS", {s.name or "": s.value for s in Status}),
        ("OP", {_upper(c.__name__): c.OPCODE for c in INSTRUCTIONS}),
    ):
        lines.append(f"enum {prefix.lower()}_code {{")
        lines += [f"    {prefix}_{name} = {value}," for name, value in names.items()]
        lines += ["};", ""]
    for cls in INSTRUCTIONS:
        lines += [f"#define {_upper(cls.__name__)}__{f.name.upper()} {i}" for i, f in enumerate(cls.FIELDS)]
    lines += ["", "/* Bit t of entry s: format s converts into format t, to nearest even and in the other roundings. */"]
    for rounding in (Rounding.NEAREST_EVEN, Rounding.TOWARD_ZERO):
        masks = [sum(CtConvert.takes(t, s, rounding) << t for t in Format) for s in Format]
        lines.append(f"#define CT_CONVERT_{rounding.name} {{{', '.join(f'{mask:#x}' for mask in masks)}}}")
    for cls in INSTRUCTIONS:
        if cls.ENGINE is Engine.NE or issubclass(cls, (CtReduce, CtPoolForm)):
            lines += ["", f"#define {_upper(cls.__name__)}__BOUNDS \\", f"    {{ {', '.join(map(_bound, cls.FIELDS))} }}"]
    results = [sum(NeGemm.takes(t, s, Rounding.NEAREST_EVEN) << t for t in Format) for s in Format]
    lines += ["", "/* Bit t of entry s: a gemm of operands in format s gives format t. */"]
    lines += [f"#define NE_GEMM_RESULTS {{{', '.join(f'{mask:#x}' for mask in results)}}}", "", "#endif", ""]
    return "\n".join(lines)


def _bound(f: Field) -> str:
    """Name, least and most of an operand; without limits for an address."""
    if f.least is None or f.most is None:
        return f'{{"{f.name}", INT64_MIN, INT64_MAX}}'
    return f'{{"{f.name}", {f.least}, {f.most}}}'


def main(arguments: list[str]) -> int:
    """0 if written or, with --check, up to date; 1 otherwise."""
    text = header_text()
    if "--check" in arguments:
        return 0 if PATH.exists() and PATH.read_text() == text else 1
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
