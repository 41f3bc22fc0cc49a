"""What a step does with the result of its last product, one set of columns after the other.

    %y, %e, %z = alloc 524288; %b = alloc 1024         %y = alloc 524288; %e, %z = alloc 65536, 2 copies; for each %set:
    load(%b); expand(%e, %b)                             load(%b); expand(%e, %b + %set * 128)
    add(%z, %y, %e) of 262144                     ⟶     add(%z, %y + %set * 65536, %e) of 32768
    store(%z)                                            store(%z, %set)

A set is a number of channel blocks, which lie one after the other in every buffer that has an element per element of the result.
What else is loaded is loaded again for each set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.forms import CtV, CtVS, CtVV
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import spm
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.slices import buffers_of
from hlo2tx8.lower.select.step_builder import StepBuilder

ELEMENTWISE = (CtV, CtVV, CtVS, CtConvert, TdmaMemset)
COPIES = 2
"""Of a buffer that one set fills while another one's is read."""


@dataclass(frozen=True)
class Epilogue:
    """`ops` in order, with the arithmetic they depend on; `result` is what the last product leaves, of `blocks` channel blocks of
    `points` rows of `width` channels each; `whole` are the other buffers with an element per element of it."""

    ops: tuple[Operation, ...]
    result: spm.AllocOp
    whole: tuple[spm.AllocOp, ...]
    blocks: int
    points: Size
    width: int
    element_bytes: int

    def emit(
        self, step: StepBuilder, number: Size, num_sets: int, mapping: dict[SSAValue, SSAValue], parts: dict[SSAValue, SSAValue]
    ) -> None:
        """The instructions for a set, with values replaced by `mapping`; `parts` are the buffers of a set instead of whole ones."""
        for op in self.ops:
            if isinstance(op, spm.AllocOp):
                continue
            if not isinstance(op, Instruction) or not self.is_whole(op):
                step.insert(op.clone(value_mapper=mapping))
                continue
            values: dict[str, Any] = {
                name: mapping.get(value, value) if isinstance(value, SSAValue) else value for name, value in op.values().items()
            }
            points = mapping.get(self.points, self.points) if isinstance(self.points, SSAValue) else self.points
            places = {name: self._place(step, value, number, num_sets, parts, points) for name, value in op.values().items()}
            values |= {name: place for name, place in places.items() if place is not None}
            self._cut(step, op, values, number, num_sets)
            step.insert(type(op).make(fmt=op.fmt, fmt2=op.fmt2, rnd=op.rounding, origin=op.origin, **values))

    def is_whole(self, op: Instruction) -> bool:
        """Does an instruction access a buffer with an element per element of the result?"""
        return any(buffer.owner in (self.result, *self.whole) for write in (True, False) for buffer in buffers_of(op, write))

    def _place(
        self,
        step: StepBuilder,
        value: int | SSAValue,
        number: Size,
        num_sets: int,
        parts: dict[SSAValue, SSAValue],
        points: Size,
    ) -> SSAValue | None:
        """Where a set is of a whole buffer; None for anything else."""
        if isinstance(value, int):
            return None
        if value in parts:
            return step.insert(spm.TurnOp(parts[value], step.value(number))).result
        if value.owner is not self.result:
            return None
        elements = step(points, self.width * (self.blocks // num_sets))
        return step.at(value, step(number, step(elements, self.element_bytes)))

    def _cut(self, step: StepBuilder, op: Instruction, values: dict[str, Any], number: Size, num_sets: int) -> None:
        """Changes an instruction's fields to what it does for a set."""
        blocks = self.blocks // num_sets
        if isinstance(op, ELEMENTWISE):
            values["n"] = values["n"] // num_sets
        elif isinstance(op, Rdma | Wdma):
            level = outermost(op)
            distance = step(step(step(number, blocks), values[f"s{level}"]), op.fmt.bytes)
            values["offset"] = step.add(values["offset"], distance)
            values[f"n{level}"] = blocks
        else:
            level = _turns(op)
            if op.field("src") not in (self.result.result, *(alloc.result for alloc in self.whole)):
                values["src"] = step.at(values["src"], step(step(number, blocks), values[f"rs{level}"]))
            values[f"rn{level}"] = values[f"wn{level}"] = blocks


def epilogue_of(ops: Sequence[Operation], result: SSAValue, rows: Size, columns: int, fmt: Format) -> Epilogue | None:
    """What follows a product whose result is `rows` x `columns`, in a format; None if it cannot be cut into sets."""
    width = Blocked(fmt, 1, 1, 1).block_width
    refused = scf.IfOp | scf.ForOp | spm.TurnOp | spm.OffsetOp
    if not isinstance(result.owner, spm.AllocOp) or any(isinstance(op, refused) for op in ops):
        return None
    found = Epilogue(tuple(ops), result.owner, (), columns // width, rows, width, fmt.bytes)
    instructions = [op for op in ops if isinstance(op, Instruction)]
    if not any(isinstance(op, Wdma) for op in instructions):
        return None
    if not isinstance(rows, int):  # blocks of a length that the step decides: only what is stored as it is
        match instructions:
            case [Wdma() as store] if store.field("src") is result and store.field(f"n{outermost(store)}") == found.blocks:
                return found
            case _:
                return None
    count = rows * columns
    whole: list[spm.AllocOp] = []
    for op in instructions:
        for buffer in (*buffers_of(op, is_write=True), *buffers_of(op, is_write=False)):
            alloc = buffer.owner
            if not isinstance(alloc, spm.AllocOp):
                return None
            if alloc is not found.result and alloc.size_bytes >= count and alloc not in whole:
                whole.append(alloc)
    if any(alloc not in ops for alloc in whole):
        return None  # what other steps, or other parts of this one, read is computed once
    found = Epilogue(tuple(ops), result.owner, tuple(whole), columns // width, rows, width, fmt.bytes)
    return found if all(_is_cut(op, found, count) for op in instructions) else None


def _is_cut(op: Instruction, epilogue: Epilogue, count: int) -> bool:
    """Can an instruction be made one for a set?"""
    if not epilogue.is_whole(op):
        return isinstance(op, Rdma | TdmaMemset | TdmaGatherScatter | CtV | CtVV | CtVS)
    own = (epilogue.result, *epilogue.whole)
    fits: dict[str, bool] = {}
    for access in op.accesses():
        if access.space != "spm":
            continue
        fmt = op.fmt2 if access.field == "src" and op.FORMATS2 else op.fmt
        value = op.field(access.field)
        if not isinstance(value, SSAValue) or not isinstance(value.owner, spm.AllocOp):
            return False
        fits[access.field] = value.owner in own and value.owner.size_bytes == count * fmt.bytes
    block_bytes = count // epilogue.blocks * op.fmt.bytes
    match op:
        case CtV() | CtVV() | CtVS() | CtConvert():
            return all(fits.values()) and op.field("n") == count and op.rounding is not Rounding.STOCHASTIC
        case TdmaMemset():
            return all(fits.values()) and op.field("n") == count
        case Rdma() | Wdma():
            level = outermost(op)
            return all(fits.values()) and bool(level) and op.field(f"n{level}") == epilogue.blocks
        case TdmaGatherScatter():
            level = _turns(op)
            if not level or not fits["dst"] or any(op.field(f"{side}n{level}") != epilogue.blocks for side in "rw"):
                return False
            return op.field(f"ws{level}") == block_bytes and (not fits["src"] or op.field(f"rs{level}") == block_bytes)
        case _:
            return False


def outermost(op: Rdma | Wdma) -> int:
    """The outermost level of a transfer that turns more than once, 0 if there is none."""
    return next((level for level in (3, 2, 1) if op.field(f"n{level}") != 1), 0)


def _turns(op: Instruction) -> int:
    """The same of a move that has the same levels on both sides."""
    return next((level for level in (3, 2, 1) if op.field(f"rn{level}") != 1 or op.field(f"wn{level}") != 1), 0)
