"""Where the extreme of a row is, the first of equal ones or the first NaN: one instruction of the vector engine per row.

    %m = vec.reduce_lanes over [1] of %x init -inf, maximum
    %f = or (compare EQ %x, %m), (compare NE %x, %x)             CT_argmax (%x + 0.0), row by row
    %s = select %f, (convert the number of the lane), inf
    %p = vec.reduce_lanes over [1] of %s init inf, minimum       its index as FP32

The sum makes both zeros the same, which the instruction tells apart and the comparison does not.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.ct_arith import CtAddVS
from hlo2tx8.device.isa.ct_auxiliary import CtArgMax, CtArgMin
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.ct_reduce import CtReduceMax, CtReduceMin
from hlo2tx8.dialects import vec
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.indexing import Sym
from hlo2tx8.lower.element_format import constant_bits, storage_format
from hlo2tx8.lower.select.instruction_tables import does
from hlo2tx8.lower.select.select_reduce import ct_reduction
from hlo2tx8.lower.select.step_builder import INDEX, StepBuilder

LEAST_ROW = 64
"""Elements of a row; shorter ones are not worth an instruction each."""
EXTREMES: dict[type[Instruction], tuple[type[Instruction], float]] = {
    CtReduceMax: (CtArgMax, -np.inf),
    CtReduceMin: (CtArgMin, np.inf),
}


@dataclass(frozen=True)
class PlaceOfExtreme:
    """`kind` finds the places of extremes of `source`, [rows, lanes]; nothing else needs the operations `unneeded`."""

    kind: type[Instruction]
    source: SSAValue
    lanes: int
    unneeded: tuple[Operation, ...]


def places_of_extremes(block: Block, step: StepBuilder) -> dict[Operation, PlaceOfExtreme]:
    """The reductions of a box that give the place of an extreme of its rows."""
    found: dict[Operation, PlaceOfExtreme] = {}
    for op in block.ops:
        if isinstance(op, vec.VecReduceLanesOp) and len(op.elements) == 1 and _joins_neighbours(op, step):
            place = _place(op, step.shape[op.lanes[0]])
            if place is not None:
                found[op] = place
    return found


def _joins_neighbours(op: vec.VecReduceLanesOp, step: StepBuilder) -> bool:
    """Is a row the lanes along one dimension, inside of all others and long enough?"""
    moving = [lane for lane, size in enumerate(step.shape) if size > 1]
    return len(op.lanes) == 1 and moving[-1:] == [op.lanes[0]] and step.shape[op.lanes[0]] >= LEAST_ROW


def _place(op: vec.VecReduceLanesOp, lanes: int) -> PlaceOfExtreme | None:
    """What the minimum `op` is, if it is the place of an extreme."""
    if ct_reduction(op.combiner.block, storage_format(op.res[0].type)) is not CtReduceMin or not _is_splat(op.init[0], np.inf):
        return None
    select = _made_by(op.elements[0], "select")
    if select is None or not _is_splat(select.operands[2], np.inf):
        return None
    either, numbers = _made_by(select.operands[0], "or"), _made_by(select.operands[1], "convert")
    if either is None or numbers is None or not _counts_lanes(numbers.operands[0], op.lanes[0]):
        return None
    equal, unequal = (_made_by(value, "compare") for value in either.operands)
    if equal is None or unequal is None or _direction(equal) != "EQ" or _direction(unequal) != "NE":
        return None
    source, extreme = equal.operands
    best = extreme.owner
    if tuple(unequal.operands) != (source, source) or not isinstance(best, vec.VecReduceLanesOp) or best.lanes != op.lanes:
        return None
    kind, start = EXTREMES.get(ct_reduction(best.combiner.block, storage_format(source.type)) or Instruction, (None, 0.0))
    if kind is None or tuple(best.elements) != (source,) or not _is_splat(best.init[0], start):
        return None
    counter = numbers.operands[0].owner
    assert isinstance(counter, Operation)
    return PlaceOfExtreme(kind, source, lanes, _only_for(op, (select, either, numbers, counter, equal, unequal, best)))


def _only_for(op: Operation, others: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """Those of the others whose results are read by `op` and by each other alone; each stands in front of what it makes."""
    needed: list[Operation] = [op]
    for other in others:
        if all(use.operation in needed for result in other.results for use in result.uses):
            needed.append(other)
    return tuple(needed[1:])


def _made_by(value: SSAValue, name: str) -> Operation | None:
    owner = value.owner
    return owner if isinstance(owner, Operation) and does(owner, name) else None


def _direction(op: Operation) -> str:
    direction = op.attributes.get("comparison_direction")
    is_total = op.attributes.get("compare_type") == StringAttr("TOTALORDER")
    return direction.data if isinstance(direction, StringAttr) and not is_total else ""


def _counts_lanes(value: SSAValue, lane: int) -> bool:
    """Is it the number of the lane along a dimension?"""
    return isinstance(value.owner, vec.IndexOp) and value.owner.map.data.results == (Sym(lane),)


def _is_splat(value: SSAValue, number: float) -> bool:
    owner, dtype = value.owner, storage_format(value.type).numpy_dtype
    bits = int.from_bytes(np.array(number, dtype).tobytes(), "little")
    return isinstance(owner, vec.SplatOp) and constant_bits(owner.value) == bits


def select_place_of_extreme(step: StepBuilder, rows: StepBuilder, place: PlaceOfExtreme, source: SSAValue) -> SSAValue:
    """The places as FP32, an element per row; `source` is the buffer of what is looked at, by `step`."""
    fmt, origin = storage_format(place.source.type), step.origin
    canonical, best, places, result = step.alloc(fmt), step.alloc(fmt, 1), rows.alloc(Format.INT32), rows.alloc(Format.FP32)
    step.insert(CtAddVS.make(fmt=fmt, dst=canonical, a=source, imm=0, n=step.count(), origin=origin))
    body = Block(arg_types=[INDEX])
    lower, upper, stride = (step.value(n) for n in (0, rows.count(), 1))
    step.insert(for_op(lower, upper, stride, [], body))
    outer, step.builder, row = step.builder, Builder(InsertPoint.at_end(body)), body.args[0]
    src, index = step.at(canonical, step(row, place.lanes * fmt.bytes)), step.at(places, step(row, Format.INT32.bytes))
    step.insert(place.kind.make(fmt=fmt, dst=best, index=index, src=src, n=place.lanes, origin=origin))
    step.insert(yield_op())
    step.builder = outer
    make = CtConvert.make
    step.insert(make(fmt=Format.FP32, fmt2=Format.INT32, dst=result, src=places, n=rows.count(), origin=origin))
    return result
