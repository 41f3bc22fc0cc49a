"""Updates of the lanes of a step as instructions: the kernel core takes them one after the other.

Lines of places are in a buffer with columns for what is left out behind them. First the kernel core finds the number of the columns
of all updates at once, then it walks over them: a number, and an operation on the columns that it names, in place.

    [4, 512, 16] places     line * 512 + place, or 2048 where there is no such place
    turn of an update       target[number] = target[number] + update, 16 columns
"""

from math import prod

from xdsl.builder import Builder
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.kc_move import KcVSelect
from hlo2tx8.device.isa.kc_vector import KcVAdd, KcVEq, KcVMin, KcVOr
from hlo2tx8.dialects import vec
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.dialects.xla_dot import yielded
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import BoxLevel
from hlo2tx8.lower.element_format import Splat, storage_format
from hlo2tx8.lower.select.instruction_tables import KC_BINARY, hlo_name
from hlo2tx8.lower.select.select_access import read_scalar
from hlo2tx8.lower.select.select_memory import iota_sum
from hlo2tx8.lower.select.selector import Selector
from hlo2tx8.lower.select.step_builder import INDEX, StepBuilder

WORDS = {1: Format.UINT8, 2: Format.UINT16, 4: Format.UINT32, 8: Format.UINT64}
"""Formats in which elements of so many bytes are moved as they are."""


def select_join_at(s: Selector, op: vec.VecJoinAtOp) -> SSAValue:
    """The lanes with the updates."""
    step, fmt, lane = s.step, storage_format(op.init.type), op.lane
    lines, places, columns = prod(step.shape[:lane]), step.shape[lane], prod(step.shape[lane + 1 :])
    found = [_vector(s, op, block) for block in (op.places.block, op.elements.block)]
    target = step.alloc(fmt, (lines * places + 1) * columns)
    init = s.vector(op.init)
    if isinstance(init, Splat):
        step.fill(target, init.bits, fmt, (lines * places + 1) * columns)
    else:
        step.move(target, init, [BoxLevel(step.count(), (1, 1))], fmt)
        step.fill(step.at(target, lines * places * columns * fmt.bytes), 0, fmt, columns)
    walk = _of_shape(step, (*step.shape[:lane], op.num_updates), lane)
    updates = found[1]
    if isinstance(updates, Splat):
        updates = s.filled_before_steps(updates, columns)
    number = _numbers(s, walk, s.buffer(found[0]), lines, places)
    block = Block(arg_types=[INDEX])
    lower, upper, by = (step.value(bound) for bound in (0, walk.count(), 1))
    step.insert(for_op(lower, upper, by, [], Region(block)))
    outer, step.builder = step.builder, Builder(InsertPoint.at_end(block))
    turn, size = block.args[0], columns * fmt.bytes
    dst = step.at(target, step(read_scalar(step, number, turn, Format.INT32), size))
    update = updates if isinstance(found[1], Splat) else step.at(updates, step(turn, size))
    _join(step, op.combiner.block, dst, update, fmt, columns)
    block.add_op(yield_op())
    step.builder = outer
    return target


def _join(step: StepBuilder, block: Block, dst: SSAValue, update: SSAValue, fmt: Format, n: int) -> None:
    """An update joined with what is there; one that takes its place is or-ed with itself."""
    first, kind, operands = block.first_op, KcVOr, (update, update)
    if yielded(block) is block.args[1] and fmt.bytes in WORDS:
        fmt = WORDS[fmt.bytes]
    elif first is None or first.next_op is not block.last_op or hlo_name(first) not in KC_BINARY:
        raise CompileError("E3201", "no instruction joins an update with what is there")
    else:
        kind = KC_BINARY[hlo_name(first)]
        given: dict[SSAValue, SSAValue] = {block.args[0]: dst, block.args[1]: update}
        operands = (given[first.operands[0]], given[first.operands[1]])
    step.insert(kind.make(fmt=fmt, dst=dst, a=operands[0], b=operands[1], n=n, origin=step.origin))


def _vector(s: Selector, op: vec.VecJoinAtOp, block: Block) -> SSAValue | Splat:
    """What a block gives for all updates; places are the same in all columns."""
    behind = s.step.shape[op.lane + 1 :] if block is op.elements.block else (1,) * (len(s.step.shape) - op.lane - 1)
    inner = s.within(_of_shape(s.step, (*s.step.shape[: op.lane], op.num_updates, *behind), op.lane))
    inner.select(block)
    s.step.origin = inner.step.origin
    return inner.vector(yielded(block))


def _numbers(s: Selector, walk: StepBuilder, places: SSAValue, lines: int, size: int) -> SSAValue:
    """Of each update, the number of its columns among those of all lines; `lines` * `size` where its place is none."""
    n, origin = walk.count(), s.step.origin
    limit = s.filled_before_steps(Splat(size, Format.UINT32), walk.num_lanes)
    limited = walk.alloc(Format.INT32)
    walk.insert(KcVMin.make(fmt=Format.UINT32, dst=limited, a=places, b=limit, n=n, origin=origin))
    if lines == 1:
        return limited
    key = ("first places", walk.shape, size)
    if key not in s.hoisted:
        terms = [(walk.shape[-1], lines, size)]
        s.hoisted[key] = s.within(walk).in_prologue(lambda: iota_sum(walk, walk.num_lanes, 0, terms, Format.INT32))
    outside, moved, number = walk.alloc(Format.PRED), walk.alloc(Format.INT32), walk.alloc(Format.INT32)
    walk.insert(KcVEq.make(fmt=Format.INT32, dst=outside, a=limited, b=limit, n=n, origin=origin))
    walk.insert(KcVAdd.make(fmt=Format.INT32, dst=moved, a=limited, b=s.hoisted[key], n=n, origin=origin))
    last = s.filled_before_steps(Splat(lines * size, Format.INT32), walk.num_lanes)
    walk.insert(KcVSelect.make(fmt=Format.INT32, dst=number, pred=outside, a=last, b=moved, n=n, origin=origin))
    return number


def _of_shape(step: StepBuilder, shape: tuple[int, ...], lane: int) -> StepBuilder:
    """The step with other lanes from `lane` on, all of them; those in front may be ragged."""
    return StepBuilder(step.builder, step.prologue, shape, {k: n for k, n in step.valid.items() if k < lane}, step.origin)
