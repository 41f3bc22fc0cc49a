"""From encoded kernels and @main's launches to one program.

Every launch contributes its kernel's records with the slots renumbered; between launches all engines finish and the tiles
meet at a barrier, because the next launch may read what another tile wrote. Values between launches live in scratch slots
that are used again once their last reader has run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.device.isa import Role
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.kc_control import KcBarrier, KcHalt, KcWait
from hlo2tx8.device.program import Buffer, BufferUse, Program, Slot, SlotKind
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.launch import KernelOp
from hlo2tx8.errors import LevelError
from hlo2tx8.lower.encode import EncodedKernel
from hlo2tx8.module import find_main, port_of

ALL_ENGINES = 0x7F
WAIT = Record(KcWait, {"engines": ALL_ENGINES})


def link(module: ModuleOp, encoded: Mapping[str, EncodedKernel], spm_bytes: int) -> Program:
    """The program of a module whose kernels are encoded; `spm_bytes` is the most that any of them needs."""
    linker = _Linker()
    main = find_main(module).body.block
    for i, arg in enumerate(main.args):
        linker.slots[arg] = linker.add(SlotKind.INPUT, i, arg.type)
    ops = tuple(main.ops)
    last_use = {value: op for op in ops for value in op.operands}
    returned = next(op for op in ops if isinstance(op, ReturnOp))
    for i, value in enumerate(returned.arguments):
        if value in linker.slots:
            raise LevelError("E1006", "@main returns an input or one value twice")
        linker.slots[value] = linker.add(SlotKind.OUTPUT, i, value.type)
    for op in ops:
        if isinstance(op, KernelOp):
            linker.launch(op, encoded[op.callee.string_value()])
            linker.release([v for v in op.operands if last_use[v] is op])
        elif op.name == "stablehlo.constant":
            linker.constant(op)
        elif op is not returned:
            raise LevelError("E1006", f"{op.name} cannot be linked")
    return linker.program(spm_bytes)


@dataclass
class _Linker:
    slots: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    table: list[Slot] = field(default_factory=list[Slot])
    constants: list[npt.NDArray[Any]] = field(default_factory=list[npt.NDArray[Any]])
    records: list[Record] = field(default_factory=list[Record])
    free: list[int] = field(default_factory=list[int])
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    uses: list[BufferUse] = field(default_factory=list[BufferUse])

    def add(self, kind: SlotKind, index: int, type_: Attribute) -> int:
        """A new slot for a tensor; its number."""
        port = port_of(type_)
        self.table.append(Slot(kind, index, port.dtype, port.shape, port.size_bytes, f"{kind.value}{index}"))
        return len(self.table) - 1

    def constant(self, op: Operation) -> None:
        """A constant too large to be written into instructions gets a slot of its own."""
        value = decode_attributes(op)["value"]
        port = port_of(op.results[0].type)
        array = np.broadcast_to(np.asarray(value), port.shape)
        self.slots[op.results[0]] = self.add(SlotKind.CONSTANT, len(self.constants), op.results[0].type)
        self.constants.append(np.ascontiguousarray(port.to_device(array)).reshape(port.shape))

    def scratch(self, type_: Attribute) -> int:
        """A scratch slot for a tensor: the smallest free one that is large enough, or a new one."""
        size = port_of(type_).size_bytes
        fitting = [s for s in self.free if self.table[s].size_bytes >= size]
        if not fitting:
            return self.add(SlotKind.SCRATCH, sum(s.kind is SlotKind.SCRATCH for s in self.table), type_)
        best = min(fitting, key=lambda s: self.table[s].size_bytes)
        self.free.remove(best)
        return best

    def launch(self, op: KernelOp, kernel: EncodedKernel) -> None:
        """Append the kernel's records for this launch."""
        for result in op.results:
            if result not in self.slots:
                self.slots[result] = self.scratch(result.type)
        temporary = [self.scratch(t) for t in kernel.scratch]
        numbers = (*(self.slots[v] for v in (*op.operands, *op.results)), *temporary)
        if self.records:
            self.records += (WAIT, Record(KcBarrier))
        start, first = len(self.records), len(self.buffers)
        self.records.extend(renumber(record, numbers) for record in kernel.records)
        self.buffers += (replace(b, first_record=b.first_record + start, last_record=b.last_record + start) for b in kernel.buffers)
        self.uses += (BufferUse(use.record + start, use.operand, use.buffer + first) for use in kernel.uses)
        self.free.extend(temporary)
        self.release([r for r in op.results if r.first_use is None])

    def release(self, values: list[Any]) -> None:
        """Give back the scratch slots of values nobody reads any more."""
        for value in values:
            slot = self.slots[value]
            if self.table[slot].kind is SlotKind.SCRATCH and slot not in self.free:
                self.free.append(slot)

    def program(self, spm_bytes: int) -> Program:
        """Everything that was appended, then a wait for all engines and the end."""
        code, origins = encode_records((*self.records, WAIT, Record(KcHalt)))
        return Program(
            code=code,
            slots=tuple(self.table),
            constants=tuple(self.constants),
            origins=origins,
            spm_bytes=spm_bytes,
            buffers=tuple(self.buffers),
            uses=tuple(self.uses),
        )


def renumber(record: Record, slots: Sequence[int]) -> Record:
    """The record with the kernel's slot numbers replaced by the program's."""
    names = [f.name for f in record.kind.FIELDS if f.role is Role.SLOT]
    if not names:
        return record
    changed = {name: slots[number] for name in names if isinstance(number := record.fields[name], int)}
    return replace(record, fields={**record.fields, **changed})
