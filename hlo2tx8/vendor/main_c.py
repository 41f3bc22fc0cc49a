"""`main_c`: a program as the main program of a tile in C: a function per kernel, with loops and branches as the records have them.

    G_SHAPE slices_2 = TsmSlices(0, 96, 1);
    while (!slices_2.done) {
        const int64_t r2 = slices_2.dynamic_offset[0];
        r3 = TsmMod(r2, 2);
        KC_CYCLES(4);
        /* gelu.hlo:6 square */
        arith->mulVV(&ct_param, r3, r3, spm_square, 8192, RND_NEAREST_EVEN, Fmt_BF16);
        cycle_total = ADD_VALID_CYCLE(cycle_total, TsmExecute(&ct_param));
    }

All tiles run it, told apart by tile->id. KC_CYCLES counts what the kernel core takes for scalars, turns and branches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from textwrap import wrap

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, decode_records
from hlo2tx8.device.isa.fields import Engine, Role
from hlo2tx8.device.isa.kc_control import KcCall, KcFunction
from hlo2tx8.device.program import Program, Slot, SlotKind
from hlo2tx8.vendor.blocks import RecordNode, all_reads, all_sets, liveness, tree
from hlo2tx8.vendor.c_body import KernelText, Names
from hlo2tx8.vendor.c_text import comment, unique
from hlo2tx8.vendor.native.generate import CHIP_NUMBERS, CHIP_RATES

MOST_DIMS = 6
WIDTH = 140
FORMATS = {fmt.numpy_dtype.name: fmt.name for fmt in reversed(Format)} | {"bool": Format.PRED.name}


def main_c(program: Program, chip: Chip, name: str) -> str:
    """The text of main.c for a program; `name` is the module's."""
    return "\n".join([*_MainFile(program, chip, name).lines(), ""])


def constants_of(program: Program) -> bytes:
    """The file const.bin: all constants, one behind the other."""
    return b"".join(array.tobytes() for array in program.constants)


@dataclass(frozen=True)
class _MainPart:
    """Top-level records as one function in C."""

    name: str
    origin: str
    nodes: tuple[RecordNode, ...]


@dataclass(frozen=True)
class _MainFile:
    program: Program
    chip: Chip
    name: str

    @cached_property
    def records(self) -> list[Record]:
        return decode_records(self.program.code, self.program.origins)

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots."""
        return tuple(f"{slot.kind.value}_{slot.index}" for slot in self.program.slots)

    @cached_property
    def parts(self) -> tuple[_MainPart, ...]:
        """What follows each other: kernels as the program's launches say."""
        nodes = [node for node in tree(self.records) if node.record.kind is not KcFunction]
        starts = {launch.first: launch for launch in self.program.launches}
        found: list[tuple[str, str, list[RecordNode]]] = []
        taken: set[str] = set()
        for node in nodes:
            if node.index in starts or not found:
                launch = starts.get(node.index)
                word = launch.name if launch else "begin"
                found.append((unique(f"op_{word}", taken), launch.origin if launch else "", []))
            found[-1][2].append(node)
        return tuple(_MainPart(name, origin, tuple(inside)) for name, origin, inside in found)

    @cached_property
    def functions(self) -> tuple[_MainPart, ...]:
        """What is called, in its order."""
        nodes = [node for node in tree(self.records) if node.record.kind is KcFunction]
        return tuple(_MainPart(f"function_{number}", "", node.body) for number, node in enumerate(nodes))

    @cached_property
    def names(self) -> Names:
        if self.functions:  # registers are the same inside
            everything = [node for part in (*self.functions, *self.parts) for node in part.nodes]
            return Names.of(self.program, self.slots, all_sets(everything) | all_reads(everything), {})
        found = liveness([part.nodes for part in self.parts])
        return Names.of(self.program, self.slots, found.shared, found.after)

    def lines(self) -> Iterator[str]:
        used = sorted({slot for part in (*self.parts, *self.functions) for slot in _slots_of(part.nodes, len(self.slots))})
        yield f"/* {comment(self.name)}: what the kernel core of a tile runs. The same file serves all {self.chip.tiles} tiles. */"
        yield '#include "tx8.h"'
        yield ""
        yield from self._chip()
        yield ""
        for number in used:
            yield from _tensor(self.program.slots[number], number, self.slots[number])
        for part in self.functions:
            yield from self._function(part, ())
        for part in self.parts:
            yield from self._function(part, _slots_of(part.nodes, len(self.slots)))
        yield from self._tile_main()
        yield from self._program()

    def _chip(self) -> Iterator[str]:
        chip, laws = self.chip, self.chip.laws
        numbers = {name: chip.mesh[-1] if name == "mesh_columns" else getattr(chip, name) for name in CHIP_NUMBERS}
        rates = {name: getattr(laws, name) if name.endswith(("bound", "slope")) else getattr(chip, name) for name in CHIP_RATES}
        pairs = [f".{key} = {value}" for key, value in numbers.items()]
        pairs += [f".{key} = {'NAN' if value is None else repr(float(value))}" for key, value in rates.items()]
        pairs += [f".{f.name} = {getattr(chip.cycles, f.name)}" for f in fields(chip.cycles)]
        pairs += [f".beats.{f.name} = {getattr(chip.beats, f.name)}" for f in fields(chip.beats)]
        yield "/* The chip description: sizes in bytes, rates in bytes per cycle, cycles. */"
        yield "static const TsmChip CHIP = {"
        kept = [f"{pair}," for pair in pairs]
        while kept:
            line = kept.pop(0)
            while kept and len(line) + len(kept[0]) + 5 < WIDTH:
                line += f" {kept.pop(0)}"
            yield f"    {line}"
        yield "};"

    def _function(self, part: _MainPart, slots: Sequence[int]) -> Iterator[str]:
        body = KernelText(self.names, part.nodes, is_called=part in self.functions)
        text = body.lines()
        given = "".join(f", const TSR *{self.slots[slot]}" for slot in slots) + ", int64_t *r" * self._takes_registers(part)
        yield ""
        if part.origin:
            yield f"/* {comment(part.origin)} */"
        yield from _wrapped(f"static uint64_t {part.name}(Tile *tile{given}) {{", "")
        yield "    uint64_t cycle_total = 0;"
        for line in body.declarations():
            yield from _wrapped(line, "    ")
        for line in text:
            yield from _wrapped(line.strip(), line[: len(line) - len(line.lstrip())] + "    ")
        yield "    return cycle_total;"
        yield "}"

    def _takes_registers(self, part: _MainPart) -> bool:
        """Does it set or read one of those that parts share, or call what may?"""
        return bool(self.names.shared) and (
            part in self.functions or bool(self.names.shared & (all_sets(part.nodes) | all_reads(part.nodes))) or _calls(part.nodes)
        )

    def _tile_main(self) -> Iterator[str]:
        yield ""
        yield "static void tile_main(Tile *tile) {"
        yield "    uint64_t cycle_total = 0;"
        if self.names.shared:
            yield f"    int64_t r[{max(self.names.shared) + 1}] = {{0}}; /* registers that one kernel leaves to another */"
        for part in self.parts:
            given = "".join(f", &{self.slots[slot]}_tsr" for slot in _slots_of(part.nodes, len(self.slots)))
            given += ", r" * self._takes_registers(part)
            yield from _wrapped(f"cycle_total = ADD_VALID_CYCLE(cycle_total, {part.name}(tile{given}));", "    ")
        yield "}"

    def _program(self) -> Iterator[str]:
        kinds = {kind: f"TSM_{kind.name}" for kind in SlotKind}
        offset = 0
        yield ""
        yield "static const TsmSlot SLOTS[] = {"
        for slot in self.program.slots:
            index = slot.index
            if slot.kind is SlotKind.CONSTANT:
                index = sum(self.program.constants[k].nbytes for k in range(slot.index))
            taken = -1 if slot.takes_over is None else slot.takes_over
            yield f"    {{{kinds[slot.kind]}, {index}, {slot.size_bytes}, {taken}}},"
            offset += 1
        if not offset:
            yield "    {TSM_SCRATCH, 0, 0, -1},"
        yield "};"
        linked = int(any(record.kind.ENGINE is Engine.DTE for record in self.records))
        yield ""
        yield "static const TsmProgram PROGRAM = {"
        name = comment(self.name).replace("\\", "").replace('"', "")
        yield f'    .name = "{name}", .chip = &CHIP, .slots = SLOTS, .num_slots = {offset}, .is_linked = {linked},'
        yield f"    .program_bytes = {self.program.code_bytes}, .tile_main = tile_main,"
        yield "};"
        yield ""
        yield "int main(int argc, char **argv) { return TsmRun(&PROGRAM, argc, argv); }"


def _calls(nodes: Sequence[RecordNode]) -> bool:
    return any(node.record.kind is KcCall or _calls(node.body) for node in nodes)


def _slots_of(nodes: Sequence[RecordNode], count: int) -> tuple[int, ...]:
    """The slots that records name."""
    found: set[int] = set()
    for node in nodes:
        found |= {
            value
            for f in node.record.kind.FIELDS
            if f.role is Role.SLOT and isinstance(value := node.record.fields.get(f.name), int) and value < count
        }
        found |= set(_slots_of(node.body, count))
    return tuple(sorted(found))


def _tensor(slot: Slot, number: int, name: str) -> Iterator[str]:
    shape = slot.shape if len(slot.shape) <= MOST_DIMS else (slot.num_elements,)
    sizes = ", ".join(map(str, shape)) or "1"
    yield f"static L_SHAPE {name}_shape = {{{{{sizes}}}, {{0}}, {{{sizes}}}, {{{sizes}}}, {len(shape)}}};"
    yield f"static TSR {name}_tsr = {{Fmt_{FORMATS.get(slot.dtype, Format.RAW8.name)}, {number}, &{name}_shape}};"


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + "    ", break_long_words=False, break_on_hyphens=False
    )
