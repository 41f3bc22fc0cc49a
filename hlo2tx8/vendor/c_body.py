"""The statements of one function of main.c: records of a kernel, in C."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hlo2tx8.device.assembler import LEVELS
from hlo2tx8.device.isa.encoding import Operand, Record, Register
from hlo2tx8.device.isa.fields import Engine, Role
from hlo2tx8.device.isa.kc_control import (
    KC_SCALARS,
    KcAffine,
    KcBarrier,
    KcCall,
    KcExit,
    KcFloorDiv,
    KcHalt,
    KcIf,
    KcLoadScalar,
    KcLoop,
    KcMax,
    KcMin,
    KcMod,
    KcMul,
    KcWait,
)
from hlo2tx8.device.program import Buffer, Program
from hlo2tx8.errors import InputError
from hlo2tx8.vendor.blocks import RecordNode, all_reads, all_sets, sets
from hlo2tx8.vendor.c_text import comment, fp32_text, number_text, unique
from hlo2tx8.vendor.native.generate import PARAMS, CFunction, of_kind

TERMS = 4
MOST_SLICES = 1 << 30
TURN_CYCLES = 2  # of a loop, as in the timing model
CALLED = {KcFloorDiv: "TsmDiv", KcMod: "TsmMod", KcMin: "TsmMin", KcMax: "TsmMax"}


@dataclass(frozen=True)
class Names:
    """What records call by number: slots, SPM buffers by (record, operand), `shared` registers, what lives `after` each loop."""

    slots: tuple[str, ...]
    buffers: Mapping[tuple[int, int], tuple[str, Buffer]]
    shared: frozenset[int]
    after: Mapping[int, frozenset[int]]

    @staticmethod
    def of(program: Program, slots: tuple[str, ...], shared: frozenset[int], after: Mapping[int, frozenset[int]]) -> "Names":
        """Of a program; of equal names all but the first are numbered."""
        taken: set[str] = set()
        names = [unique(f"spm_{buffer.name}", taken) for buffer in program.buffers]
        uses = {(use.record, use.operand): (names[use.buffer], program.buffers[use.buffer]) for use in program.uses}
        return Names(slots, uses, shared, after)

    def register(self, number: int) -> str:
        """A register in C."""
        return {0: "0", 1: "tile->id"}.get(number, f"r[{number}]" if number in self.shared else f"r{number}")


@dataclass
class KernelText:
    """The statements of some records; `is_called` as a function of the program, which takes no tensors."""

    names: Names
    nodes: Sequence[RecordNode]
    is_called: bool = False
    pending: int = 0
    origin: str = ""
    functions: dict[str, str] = field(default_factory=dict[str, str])
    params: dict[str, str] = field(default_factory=dict[str, str])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    locals: set[int] = field(default_factory=set[int])

    def lines(self) -> list[str]:
        """All statements, blocks four spaces inside each other."""
        return [*self._inside(self.nodes), *self._spend()]

    def declarations(self) -> Iterator[str]:
        """What they need, once they are there."""
        for type_, name in self.params.items():
            kind = next(kind for block, kind in PARAMS.values() if block == type_)
            yield f"{type_} {name} = {{{kind}, {{0}}, {{0}}}};"
        for group, owner in self.functions.items():
            yield f"const {owner} *{group} = getTsmOpPointer()->{group}_pointer;"
        for name, buffer in self.buffers.items():
            copies = f", {buffer.copies} copies {buffer.stride_bytes:,} apart" if buffer.copies > 1 else ""
            yield f"const int64_t {name} = {buffer.address:#x}; /* {buffer.size_bytes:,} bytes{copies} */"
        if self.locals:
            yield f"int64_t {', '.join(f'r{number} = 0' for number in sorted(self.locals))};"

    def _inside(self, nodes: Sequence[RecordNode]) -> Iterator[str]:
        for node in nodes:
            yield from self._node(node)

    def _block(self, nodes: Sequence[RecordNode]) -> Iterator[str]:
        for line in (*self._inside(nodes), *self._spend()):
            yield f"    {line}"
        yield "}"

    def _spend(self) -> Iterator[str]:
        if self.pending:
            yield f"KC_CYCLES({self.pending});"
        self.pending = 0

    def _node(self, node: RecordNode) -> Iterator[str]:
        record, kind = node.record, node.record.kind
        if kind in KC_SCALARS:
            yield from self._scalar(node)
            return
        if kind in (KcIf, KcExit, KcCall):
            self.pending += 1
        yield from self._spend()
        if kind is KcLoop:
            yield from self._loop(node)
        elif kind is KcIf:
            yield f"if ({self._value(node, 'value')}) {{"
            yield from self._block(node.body)
        elif kind is KcExit:
            yield f"if (!{self._value(node, 'value')}) break;"
        elif kind is KcCall:
            yield f"cycle_total = ADD_VALID_CYCLE(cycle_total, function_{record.fields['number']}(tile, r));"
        elif kind is KcWait:
            yield f"TsmWait({self._engines(node)});"
        elif kind is KcBarrier:
            yield "TsmBarrier();"
        elif kind is KcHalt:
            if node is not self.nodes[-1]:
                raise InputError("E1004", "a program that ends before its last record has no main.c")
        else:
            yield from self._instruction(node)

    def _engines(self, node: RecordNode) -> str:
        mask = node.record.fields["engines"]
        if isinstance(mask, Register):
            return f"(uint32_t){self._value(node, 'engines')}"
        return " | ".join(f"TSM_{e.name}" for e in Engine if mask >> e & 1) or "0"

    def _loop(self, node: RecordNode) -> Iterator[str]:
        rd, inside = sets(node.record) or 0, all_sets(node.body)
        lo, hi, step = (self._value(node, name) for name in ("lo", "hi", "step"))
        bounds = {name: node.record.fields[name] for name in ("hi", "step")}
        for name, bound in bounds.items():
            if isinstance(bound, Register) and bound.number in inside | {rd}:
                yield f"const int64_t {name}_{node.index} = {hi if name == 'hi' else step};"
                hi, step = (f"hi_{node.index}", step) if name == "hi" else (hi, f"step_{node.index}")
        if isinstance(bounds["step"], Register):
            yield f'if ({step} <= 0) TsmFail("a loop whose step is not positive");'
        is_plain = rd and rd not in inside | self.names.shared and rd not in self.names.after.get(node.index, frozenset())
        of_slices = self._is_of_slices(node)
        counter = f"r{rd}" if is_plain else f"i{node.index}"
        if of_slices:
            counter = f"slices_{node.index}.dynamic_offset[0]"
            yield f"G_SHAPE slices_{node.index} = TsmSlices({lo}, {hi}, {step});"
            yield f"while (!slices_{node.index}.done) {{"
            if is_plain and rd in all_reads(node.body):
                yield f"    const int64_t r{rd} = {counter};"
        else:
            yield f"for (int64_t {counter} = {lo}; {counter} < {hi}; {counter} += {step}) {{"
        if not is_plain and rd and (rd in self.names.shared or rd in all_reads(self.nodes)):
            if rd not in self.names.shared:
                self.locals.add(rd)
            yield f"    {self.names.register(rd)} = {counter};"
        self.pending = TURN_CYCLES
        *body, end = self._block(node.body)
        yield from body
        if of_slices:
            yield f"    TsmNextSlice(&slices_{node.index});"
        yield end

    def _is_of_slices(self, node: RecordNode) -> bool:
        """Is it a loop over known slices around all others, which loads or stores what is in DDR?"""
        bounds = [node.record.fields[name] for name in ("lo", "hi", "step")]
        return node in self.nodes and all(isinstance(n, int) and abs(n) < MOST_SLICES for n in bounds) and _has_dma(node.body)

    def _scalar(self, node: RecordNode) -> Iterator[str]:
        record, rd = node.record, sets(node.record) or 0
        self.pending += scalar_cycles(record)
        is_read = rd in self.names.shared or rd in all_reads(self.nodes)
        if record.kind is KcLoadScalar:
            yield from self._spend()
        elif not rd or not is_read:
            return
        text = self._result(node)
        if not rd or not is_read:
            yield f"(void){text};"
            return
        if rd not in self.names.shared:
            self.locals.add(rd)
        yield f"{self.names.register(rd)} = {text};"

    def _result(self, node: RecordNode) -> str:
        kind = node.record.kind
        if kind is KcAffine:
            return self._sum(node)
        if kind is KcLoadScalar:
            return f"TsmLoadScalar({self._value(node, 'address')}, Fmt_{node.record.fmt.name})"
        a, b = self._value(node, "a"), self._value(node, "b")
        return f"{CALLED[kind]}({a}, {b})" if kind in CALLED else f"{a} {'*' if kind is KcMul else '<'} {b}"

    def _sum(self, node: RecordNode) -> str:
        """c + r1*k1 + ..."""
        given = node.record.fields
        terms: list[str] = []
        for i in range(1, TERMS + 1):
            one, other = given.get(f"r{i}", 0), given.get(f"k{i}", 0)
            if 0 in (one, other):
                continue
            texts = [self._value(node, name) for name, value in ((f"k{i}", other), (f"r{i}", one)) if value != 1]
            terms.append(" * ".join(texts) or "1")
        constant = self._value(node, "c")
        return " + ".join(terms if constant == "0" and terms else [constant, *terms]).replace("+ -", "- ")

    def _value(self, node: RecordNode, name: str) -> str:
        """An operand in C: a register, a place in a buffer, a slot, a number."""
        value: Operand = node.record.fields.get(name, LEVELS.get(name, 0))
        if isinstance(value, Register):
            if (
                value.number not in self.names.shared | {0, 1}
                and value.number not in self.locals
                and not self._is_counter(value.number)
            ):
                self.locals.add(value.number)
            return self.names.register(value.number)
        place = next(k for k, f in enumerate(node.record.kind.FIELDS) if f.name == name)
        if node.record.kind.FIELDS[place].role is Role.SLOT and 0 <= value < len(self.names.slots):
            return f"{self.names.slots[value]}{'_tsr.' if self.is_called else '->'}addr"
        found = self.names.buffers.get((node.index, place))
        if found is None:
            return f"{value:#x}" if node.record.kind.FIELDS[place].role in (Role.SPM_READ, Role.SPM_WRITE) else number_text(value)
        text, buffer = found
        self.buffers[text] = buffer
        return text if value == buffer.address else f"{text} + {value - buffer.address}".replace("+ -", "- ")

    def _is_counter(self, number: int) -> bool:
        """Is it a register that only plain loops around its readers set?"""
        return number not in _set_otherwise(self.nodes, self.names)

    def _instruction(self, node: RecordNode) -> Iterator[str]:
        record = node.record
        function = _function(record)
        self.functions[function.group] = function.owner
        block = PARAMS[record.kind.ENGINE][0]
        param = self.params.setdefault(block, {"TsmNeInstr": "ne_param"}.get(block, block.lower()))
        names = [record.kind.FIELDS[k].name for k in function.operands]
        values = [_imm(record) if name == "imm" else self._value(node, name) for name in names]
        if function.named:
            pairs = ", ".join(f".{name} = {value}" for name, value in zip(names, values, strict=True))
            values = [f"&({function.arguments}){{{pairs}}}"]
        formats = [record.fmt, record.fmt2]
        tail = [f"RND_{record.rounding.name}" if type_ == "RND_Mode" else f"Fmt_{formats.pop(0).name}" for type_ in function.tail]
        origin = record.origin if record.origin != self.origin else ""
        self.origin = record.origin
        if origin:
            yield f"/* {comment(origin)} */"
        yield f"{function.group}->{function.name}(&{param}, {', '.join([*values, *tail])});"
        yield f"cycle_total = ADD_VALID_CYCLE(cycle_total, TsmExecute(&{param}));"


def _has_dma(nodes: Sequence[RecordNode]) -> bool:
    return any(node.record.kind.ENGINE in (Engine.RDMA, Engine.WDMA) or _has_dma(node.body) for node in nodes)


def scalar_cycles(record: Record) -> int:
    """Cycles of the kernel core: one per operation; of a sum, one per product."""
    if record.kind is not KcAffine:
        return 1
    return max(1, sum(record.fields.get(f"k{i}", 0) != 0 for i in range(1, TERMS + 1)))


def _function(record: Record) -> CFunction:
    found = of_kind(record.kind)
    has_levels = any(record.fields.get(name, default) != default for name, default in LEVELS.items())
    return found[-1] if has_levels else found[0]


def _set_otherwise(nodes: Sequence[RecordNode], names: Names) -> frozenset[int]:
    """The registers that scalars set, or loops whose counters others need."""
    found = frozenset[int]()
    for node in nodes:
        rd = sets(node.record)
        if rd is not None and (
            node.record.kind is not KcLoop or rd in all_sets(node.body) or rd in names.after.get(node.index, frozenset())
        ):
            found |= {rd}
        found |= _set_otherwise(node.body, names)
    return found


def _imm(record: Record) -> str:
    """An FP32 immediate: a number of C if it is finite, else its bits."""
    value = record.fields["imm"]
    if isinstance(value, Register):
        return KernelText(Names((), {}, frozenset(), {}), ()).names.register(value.number)
    bits = value & 0xFFFFFFFF
    (number,) = struct.unpack("<f", struct.pack("<I", bits))
    is_finite = bits >> 23 & 0xFF != 0xFF
    return f"TsmBits({fp32_text(number)}f)" if is_finite and value == bits else f"INT64_C({value})"
