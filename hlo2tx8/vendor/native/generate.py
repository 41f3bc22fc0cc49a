"""Writes `tx8.h`, `tx8_ops.h` and `timed_kinds.h` into a folder: `python -m hlo2tx8.vendor.native.generate FOLDER`.

`tx8.h` is what main programs include: formats, the chip description, a structure per instruction class with a function for each
of its instructions, which fills a parameter block. libtx8model has those functions from `tx8_ops.h`, and from `timed_kinds.h` what
instructions cost. The build calls this.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from hlo2tx8.device.assembler import LEVELS
from hlo2tx8.device.chip import Beats, Cycles
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS, Engine, Instruction
from hlo2tx8.device.isa.fields import Role
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KC_SCALARS
from hlo2tx8.device.timing.kinds import kinds_text

PARAMS = {
    Engine.CT: ("CT_Param", "I_CGRA"),
    Engine.NE: ("TsmNeInstr", "I_NEUR"),
    Engine.RDMA: ("DMA_Param", "I_RDMA"),
    Engine.WDMA: ("DMA_Param", "I_WDMA"),
    Engine.TDMA: ("TD_Param", "I_TDMA"),
    Engine.DTE: ("DTE_Param", "I_DTE"),
    Engine.KC: ("SC_Param", "I_SCALAR"),
}
"""Of an engine: its parameter block, and its type."""
MOST_POSITIONAL = 7
WORDS = {"rela": "relation", "act": "activation", "trans": "transcendental", "data_move": "move"}
CHIP_NUMBERS = ("tiles", "mesh_columns", "spm_limit", "queue_depth", "clock_hz")
CHIP_RATES = ("ddr_bytes_per_cycle", "ddr_read_charge", "ddr_write_charge", "satrelu_bound", "leakyrelu_slope")


@dataclass(frozen=True)
class CFunction:
    """The function of an instruction in C: a member of the class `group`; `operands` are positions of FIELDS in the order of
    arguments, all others are levels of one turn. With `named` they are members of a structure."""

    kind: type[Instruction]
    group: str
    name: str
    operands: tuple[int, ...]
    named: bool

    @property
    def owner(self) -> str:
        """The class's structure."""
        return "Tsm" + "".join(word.capitalize() for word in self.group.split("_"))

    @property
    def arguments(self) -> str:
        """The structure of named operands."""
        return f"{self.owner}_{self.name}"

    @property
    def tail(self) -> tuple[str, ...]:
        """Arguments behind the operands, by their type."""
        rounds = self.kind.ENGINE is Engine.CT
        return ("RND_Mode",) * rounds + ("Data_Format",) * bool(self.kind.FORMATS) + ("Data_Format",) * bool(self.kind.FORMATS2)

    def signature(self) -> str:
        """Its parameters in C."""
        names = [self.kind.FIELDS[k].name for k in self.operands]
        given = [f"const {self.arguments} *o"] if self.named else [f"int64_t {name}" for name in names]
        tail = {"RND_Mode": ["rounding"], "Data_Format": ["format", "source_format"]}
        return ", ".join(
            [f"{PARAMS[self.kind.ENGINE][0]} *p", *given, *(f"{type_} {tail[type_].pop(0)}" for type_ in self._tail_list())]
        )

    def _tail_list(self) -> list[str]:
        return list(self.tail)


def _parts(kind: type[Instruction]) -> tuple[str, str]:
    """Class and name of an instruction: CGRATensor_ArithOp_V_VS_add is addVS of arith."""
    words = kind.MNEMONIC.split("_")
    if words[0] != "CGRATensor":
        group = {"KC": "scalar"}.get(words[0], words[0].lower())
        form = "".join(word for word in words[1:-1] if word in ("V", "VV")) if words[0] == "KC" else ""
        rest = [word for word in words[1:] if word not in ("V", "VV")]
        return group, _camel(rest) + form
    group = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words[1].removesuffix("Op")).lower()
    result, source, rest = words[2], words[3], words[4:]
    name = _camel([word for word in rest if word != "loop"]) + ("" if result in ("V", "T") else f"_{result}_") + source
    return WORDS.get(group, group), name + ("Loop" if "loop" in rest else "")


def _camel(words: list[str]) -> str:
    return words[0] + "".join(word[:1].upper() + word[1:] for word in words[1:])


@cache
def functions() -> tuple[CFunction, ...]:
    """The functions of all instructions that an engine, or the kernel core's vector unit, executes."""
    return tuple(f for kind in INSTRUCTIONS if kind not in KC_CONTROL + KC_SCALARS for f in _functions_of(kind))


@cache
def of_kind(kind: type[Instruction]) -> tuple[CFunction, ...]:
    """The functions of one instruction: one without levels, if it has levels, and one with all operands."""
    return tuple(f for f in functions() if f.kind is kind)


def _functions_of(kind: type[Instruction]) -> Iterator[CFunction]:
    group, name = _parts(kind)
    places = list(range(len(kind.FIELDS)))
    if kind.FIELDS[0].name == "dst":  # what is written stands behind what is read, before counts
        first_count = next((k for k in places[1:] if kind.FIELDS[k].role is Role.COUNT), len(places))
        places = [*places[1:first_count], 0, *places[first_count:]]
    plain = [k for k in places if kind.FIELDS[k].name not in LEVELS]
    if len(plain) != len(places) and len(plain) <= MOST_POSITIONAL:
        yield CFunction(kind, group, name, tuple(plain), named=False)
        yield CFunction(kind, group, name + "Strided", tuple(range(len(places))), named=True)
    else:
        is_named = len(places) > MOST_POSITIONAL
        yield CFunction(kind, group, name, tuple(range(len(places)) if is_named else places), named=is_named)


def header_text() -> str:
    """`tx8.h`."""
    lines = [
        "/* Generated from the instruction classes. Do not edit. */",
        "#ifndef TX8_H",
        "#define TX8_H",
        "",
        "#include <stdint.h>",
        "",
    ]
    lines += [f"typedef enum Data_Format {{ {', '.join(f'Fmt_{f.name} = {f.value}' for f in Format)} }} Data_Format;"]
    lines += [f"typedef enum RND_Mode {{ {', '.join(f'RND_{r.name} = {r.value}' for r in Rounding)} }} RND_Mode;"]
    lines += [f"typedef enum TsmEngine {{ {', '.join(f'TSM_{e.name} = {1 << e.value}' for e in Engine)} }} TsmEngine;"]
    lines += ["", "/* The chip description's numbers. Laws that are not known are NAN. */", "typedef struct TsmChip {"]
    lines += [f"    int64_t {', '.join(CHIP_NUMBERS)};", f"    double {', '.join(CHIP_RATES)};"]
    lines += [f"    int64_t {', '.join(f.name for f in fields(Cycles))};"]
    lines += [
        f"    struct {{ int64_t {', '.join(f.name for f in fields(Beats))}; }} beats;",
        "} TsmChip;",
        "",
        '#include "tx8_model.h"',
        "",
    ]
    for f in functions():
        if f.named:
            names = ", ".join(field.name for field in f.kind.FIELDS)
            lines.append(f"typedef struct {f.arguments} {{ int64_t {names}; }} {f.arguments};")
    groups = list(dict.fromkeys(f.group for f in functions()))
    for group in groups:
        members = [f for f in functions() if f.group == group]
        lines += ["", f"typedef struct {members[0].owner} {{"]
        lines += [f"    void (*{f.name})({f.signature()});" for f in members] + [f"}} {members[0].owner};"]
    lines += ["", "typedef struct TsmOpPointer {", *(f"    const void *{group}_pointer;" for group in groups), "} TsmOpPointer;"]
    lines += ["", "const TsmOpPointer *getTsmOpPointer(void);", "", "#endif", ""]
    return "\n".join(lines)


def functions_text() -> str:
    """`tx8_ops.h`."""
    lines = ["/* Generated from the instruction classes. Do not edit. */"]
    for f in functions():
        _, type_ = PARAMS[f.kind.ENGINE]
        named = {f.kind.FIELDS[k].name for k in f.operands}
        values = [
            (f"o->{field.name}" if f.named else field.name) if field.name in named else str(LEVELS[field.name])
            for field in f.kind.FIELDS
        ]
        ctrl = [
            str(f.kind.OPCODE),
            "(uint8_t)format" if f.kind.FORMATS else "0",
            "(uint8_t)source_format" if f.kind.FORMATS2 else "0",
        ]
        ctrl += ["(uint8_t)rounding" if "RND_Mode" in f.tail else "0", str(int(f.kind.ENGINE))]
        lines += ["", f"static void {f.owner}_{f.name}_({f.signature()}) {{", f"    p->inter_type = {type_};"]
        lines += [f"    p->ctrl = (TsmCtlRegs){{{', '.join(ctrl)}}};", f"    const int64_t operands[] = {{{', '.join(values)}}};"]
        lines += [f"    p->param.num = {len(values)};", "    memcpy(p->param.operand, operands, sizeof operands);", "}"]
    groups = list(dict.fromkeys(f.group for f in functions()))
    for group in groups:
        members = [f for f in functions() if f.group == group]
        inside = ", ".join(f"{f.owner}_{f.name}_" for f in members)
        lines += ["", f"static const {members[0].owner} {group}_functions = {{{inside}}};"]
    pointers = ", ".join(f"&{group}_functions" for group in groups)
    lines += ["", f"static const TsmOpPointer POINTERS = {{{pointers}}};", ""]
    return "\n".join(lines)


def texts() -> dict[str, str]:
    """The text of each header by file name."""
    return {"tx8.h": header_text(), "tx8_ops.h": functions_text(), "timed_kinds.h": kinds_text()}


def write(folder: Path) -> None:
    """Writes the headers that are not there as they should be."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
