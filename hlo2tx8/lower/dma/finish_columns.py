"""The end of a shared product: columns of the result are finished one set after the other, each stored while the next is computed.
What follows the products of other steps is spread over the turns of the step after them, as many parts in each.

    last step:  scf.for %k = 0 to 32 { turn(%k); gemm(%k) }          scf.for %k = 0 to 22 { turn(%k); gemm(%k) }
                turn(32); gemm(32)                             ⟶    scf.for %k = 22 to 32 { turn(%k); gemm(%k, set 0) }
                store                                                turn(32); gemm(32, set 0); store(set 0)
                                                                     scf.for %set = 1 to 8 {
                                                                       scf.for %k = 22 to 32 { gemm(%k, %set) }
                                                                       gemm(32, %set); store(%set)
                                                                     }

The last panels stay in their slots: as many as there are. A set is a number of channel blocks, which lie one after the other in the
engine's layout, in the panel of columns as in sums and result. Of products with the same rows, one is finished after the other.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.kc_control import KcWait
from hlo2tx8.device.isa.ne import NeGemm, psum_format
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.dialects.nested import cloned, nested_ops
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.column_sets import Columns, stored_sums
from hlo2tx8.lower.dma.done_beside import Beside, Spread
from hlo2tx8.lower.dma.epilogue_parts import COPIES
from hlo2tx8.lower.dma.mesh import quotient
from hlo2tx8.lower.dma.panels import Panels
from hlo2tx8.lower.dma.slices import clone_slice, collect_slice, drop_unused
from hlo2tx8.lower.select.step_builder import StepBuilder

Emitted: TypeAlias = Callable[[StepBuilder], Size]
"""A size that is computed where it is needed."""


def finish(panels: Panels, products: Sequence[Columns], kept: int) -> None:
    """Rewrites a step loop whose turns have their protocol: what follows the last products goes into the turns of the next step,
    and in the last step the last `kept` panels are multiplied set by set."""
    loop, turns = panels.loop, panels.sites[0].loop
    assert turns is not None
    before, parts = _put_off_in_steps(panels, products)
    step_counter = loop.body.block.args[0]
    end = cloned(loop)
    found = dict(zip(nested_ops(loop), nested_ops(end), strict=True))
    _block_of(loop).insert_op_after(end, loop)
    loop.operands[1] = end.operands[0] = before.value(panels.num_steps - 1)
    own_turns, lasts = found[turns], [op for own in products if isinstance(op := found[own.last], NeGemm)]
    assert isinstance(own_turns, scf.ForOp)
    ends = [
        replace(own, limit=found[_owner_of(own.limit)].results[0]) if isinstance(own.limit, SSAValue) else own for own in products
    ]
    mapping: dict[SSAValue, SSAValue] = {step_counter: end.body.block.args[0]}
    _finish_step(own_turns, lasts, ends, parts, mapping, panels.num_panels, kept, is_only=panels.num_steps == 1)
    for op in [op for own in products for op in own.epilogue.ops]:
        if isinstance(op, Instruction):
            _erase(found[op])
            _erase(op)
    drop_unused(loop)
    drop_unused(end)
    for alloc in [alloc for own in products for alloc in (*own.epilogue.moved, *own.epilogue.local)]:
        _erase(alloc)
    if panels.num_steps == 1:
        _erase(loop)


def finish_in_place(panels: Panels, columns: Columns) -> None:
    """Rewrites a step loop whose turns have their protocol, so that the result is left where it is added up: the last panel of each
    step is multiplied set by set, and each set stored. The sums of the next step wait for that: the range check sees to it."""
    last, sums = columns.last, {result: gemm.field("psum") for gemm, result in stored_sums(panels, [columns]).items()}
    step = _at(last)
    with _loop(step, step.value(0), step.value(columns.limit)) as number:
        step.insert(_gemm_of_set(step, last, number, columns.size))
        _finish_set(step, columns, number, {}, {})
    for op in (last, *(op for op in columns.epilogue.ops if isinstance(op, Instruction))):
        _erase(op)
    for result, value in sums.items():
        assert isinstance(value, SSAValue)
        result.result.replace_all_uses_with(value)
    drop_unused(panels.loop)


def hand_over(panels: Panels, products: Sequence[Columns], following: Sequence[Beside]) -> None:
    """Rewrites a step loop whose turns have their protocol: what follows the products of a step goes into the turns of the next
    one, that of the last step into first turns of the following loops."""
    loop, last = panels.loop, panels.num_steps - 1
    _, parts = _put_off_in_steps(panels, products)
    all_turns, before = sum(own.turns for own in following), 0
    for beside in following:
        other, num_turns = beside.panels, beside.turns
        turns, counter = other.sites[0].loop, other.loop.body.block.args[0]
        assert turns is not None
        all_steps = num_turns >= other.num_panels
        each = other.num_panels - 1 if all_steps else 0
        is_part = num_turns < other.turns_beside

        def conditions(
            step: StepBuilder,
            counter: SSAValue = counter,
            turns: scf.ForOp = turns,
            limit: int = num_turns if is_part else 0,
            steps: int = 1 if all_steps else other.num_steps,
        ) -> list[Size]:
            first = [step.subtract(1, counter)] if steps > 1 else []
            return [*first, step.subtract(limit, turns.body.block.args[0])] if limit else first

        def turn(step: StepBuilder, turns: scf.ForOp = turns, counter: SSAValue = counter, each: int = each) -> Size:
            return step.add(turns.body.block.args[0], step(counter, each))

        for columns, buffers in zip(products, parts, strict=True):
            own = loop.body.block.args[0]
            _put_off(turns, columns, buffers, own, lambda step: last, conditions, (before, all_turns), turn)
        before += num_turns
    for op in [op for own in products for op in own.epilogue.ops if isinstance(op, Instruction)]:
        _erase(op)
    drop_unused(loop)
    for alloc in [alloc for own in products for alloc in (*own.epilogue.moved, *own.epilogue.local)]:
        _erase(alloc)


def _put_off_in_steps(panels: Panels, products: Sequence[Columns]) -> tuple[StepBuilder, list[dict[SSAValue, SSAValue]]]:
    """Puts what follows the products of a step into the turns of the next one; where buffers are made before the loop, and those of
    parts."""
    loop, turns = panels.loop, panels.sites[0].loop
    assert turns is not None
    for alloc in [op for op in loop.body.block.ops if isinstance(op, spm.AllocOp)]:
        alloc.detach()
        _block_of(loop).insert_op_before(alloc, loop)
    before, counter = _at(loop), loop.body.block.args[0]
    parts = [own.epilogue.shorten(own.num_parts, before) for own in products]
    _add_up_in_parts(panels, products)
    if panels.num_steps > 1:
        for own, buffers in zip(products, parts, strict=True):
            own_turns = 0, panels.num_panels - 1
            _put_off(turns, own, buffers, counter, lambda step: step.subtract(counter, 1), lambda step: [counter], own_turns)
    return before, parts


def _add_up_in_parts(panels: Panels, products: Sequence[Columns]) -> None:
    """Lets the products of a step leave their result in its part of the buffer, where each step has one."""
    loop = panels.loop
    for result in [own.epilogue.result for own in products if own.epilogue.result.num_steps > 1]:
        for gemm in [op for op in nested_ops(loop) if isinstance(op, NeGemm)]:
            for number in [number for number, value in enumerate(gemm.operands) if value is result.result]:
                step = _at(gemm)
                gemm.operands[number] = step.at(result.result, step(loop.body.block.args[0], result.step_bytes))


def _put_off(
    turns: scf.ForOp,
    columns: Columns,
    parts: dict[SSAValue, SSAValue],
    counter: SSAValue,
    number: Emitted,
    conditions: Callable[[StepBuilder], list[Size]],
    of_turns: tuple[int, int],
    turn_of: Emitted | None = None,
) -> None:
    """Adds what follows the products of a step to the turns of another one, as many parts to each, where conditions are positive.
    `counter` counts the steps, of which it is the one with that number. `of_turns`: that many come before these, and there are so
    many of them all; `turn_of`: which of these it is, the loop's own if nothing is said."""
    (before, num_turns), epilogue = of_turns, columns.epilogue
    step = _at_end(turns.body.block)
    turn_of = turn_of or (lambda step: turns.body.block.args[0])
    if epilogue.once and not before:  # in front of the next panel in the queue
        begin = next((op for op in turns.body.block.ops if isinstance(op, KcWait)), None)  # none if all was sent before
        first = Builder(InsertPoint.after(begin) if begin is not None else InsertPoint.at_start(turns.body.block))
        ahead = StepBuilder(first, first, (), {})
        with ahead.if_positive([*conditions(ahead), ahead.subtract(1, turn_of(ahead))]):
            epilogue.emit(epilogue.once, ahead, 0, columns.num_parts, {counter: ahead.value(number(ahead))}, {})
    with step.if_positive(conditions(step)):
        mapping = {counter: step.value(number(step))}
        present, is_decided = columns.limit, isinstance(columns.limit, SSAValue)
        if isinstance(present, SSAValue):
            present = step.insert(_owner_of(present).clone(value_mapper=dict(mapping))).results[0]
        spread, turn = Spread.over(epilogue, columns.num_parts, num_turns), turn_of(step)
        ends = step.add(turn, before), step.add(turn, before + 1)
        first, limit = (quotient(step, step.value(step.add(step.emit(at, spread.each), spread.more)), spread.of) for at in ends)
        with _loop(step, first, limit) as stage:
            if epilogue.ahead:
                with step.if_positive(columns.left_from(step, stage, present)):
                    epilogue.emit(epilogue.ahead, step, stage, columns.num_parts, mapping, parts)
                part = step.subtract(stage, 1)
                with step.if_positive([stage, *(columns.left_from(step, part, present) if is_decided else [])]):
                    epilogue.emit(epilogue.compute, step, part, columns.num_parts, mapping, parts)
            else:
                with step.if_positive(columns.left_from(step, stage, present) if is_decided else []):
                    epilogue.emit(epilogue.compute, step, stage, columns.num_parts, mapping, parts)


def _finish_set(
    step: StepBuilder, columns: Columns, number: Size, mapping: dict[SSAValue, SSAValue], parts: dict[SSAValue, SSAValue]
) -> None:
    """What follows the products of a set; behind each part DMA is told to bring what the second next one needs, in its place."""
    epilogue, each = columns.epilogue, columns.num_parts // columns.num_sets
    first = step(number, each)

    def finish_part(part: Size) -> None:
        epilogue.emit(epilogue.compute, step, part, columns.num_parts, mapping, parts)
        following = step.add(part, COPIES)
        if epilogue.ahead and not (isinstance(following, int) and following >= columns.num_parts):
            with step.if_positive(columns.left_from(step, following, columns.limit)):
                epilogue.emit(epilogue.ahead, step, following, columns.num_parts, mapping, parts)

    if each == 1:
        finish_part(first)
        return
    with _loop(step, step.value(first), step.value(step.add(first, each))) as part:
        finish_part(part)


@contextmanager
def _loop(step: StepBuilder, first: SSAValue, limit: SSAValue) -> Generator[SSAValue]:
    """Emits what follows as the body of a loop; yields its counter."""
    outer, body = step.builder, Block(arg_types=[IndexType()])
    step.insert(for_op(first, limit, step.value(1), [], body))
    step.builder = Builder(InsertPoint.at_end(body))
    yield body.args[0]
    body.add_op(yield_op())
    step.builder = outer


def _finish_step(
    turns: scf.ForOp,
    lasts: Sequence[NeGemm],
    products: Sequence[Columns],
    parts: Sequence[dict[SSAValue, SSAValue]],
    mapping: dict[SSAValue, SSAValue],
    num_panels: int,
    kept: int,
    *,
    is_only: bool,
) -> None:
    """Cuts the loop over the panels of the last step, and adds the sets, of which the first goes into the turns that are kept. What
    the epilogue reads first comes in the last of these: then no panel does. `is_only`: there is no other step."""
    here = _at(turns)
    first_kept, end = here.value(num_panels - kept), here.value(num_panels - 1)
    own = cloned(turns)
    _block_of(turns).insert_op_after(own, turns)
    turns.operands[1] = own.operands[0] = first_kept
    gemms = [op for op in own.body.block.ops if isinstance(op, NeGemm)]
    for columns, gemm, last, buffers in zip(products, gemms, lasts, parts, strict=True):
        epilogue, step = columns.epilogue, _at(lasts[-1])
        is_first = columns is products[0]
        of_turn = _at(gemm)
        late = (of_turn if is_only else _at_end(own.body.block)) if is_first else step  # behind what the step before has left
        with late.if_positive([late.subtract(own.body.block.args[0], late.value(num_panels - 3))] if is_first else []):
            epilogue.emit(epilogue.once, late, 0, columns.num_parts, mapping, {})
            if epilogue.ahead:
                epilogue.emit(epilogue.ahead, late, 0, columns.num_parts, mapping, buffers)
        for part in range(1, min(COPIES, columns.num_parts) if epilogue.ahead else 1):
            with step.if_positive(columns.left_from(step, part, columns.limit)):
                epilogue.emit(epilogue.ahead, step, part, columns.num_parts, mapping, buffers)
        if is_first:
            of_turn.insert(_gemm_of_set(of_turn, gemm, 0, columns.size))
            step.insert(_gemm_of_set(step, last, 0, columns.size))
            _finish_set(step, columns, 0, mapping, buffers)
        with _loop(step, step.value(int(is_first)), step.value(columns.limit)) as number:
            with _loop(step, first_kept, end) as turn:
                wanted: set[Operation] = set()
                collect_slice(gemm, own, wanted)
                clone_slice(own.body.block, wanted, {own.body.block.args[0]: turn}, step.builder)
                whole = next(op for op in step.builder.insertion_point.block.ops if isinstance(op, NeGemm))
                step.insert(_gemm_of_set(step, whole, number, columns.size))
                _erase(whole)
            step.insert(_gemm_of_set(step, last, number, columns.size))
            _finish_set(step, columns, number, mapping, buffers)
    for op in (*gemms, *lasts):
        _erase(op)
    if kept == num_panels:
        _erase(turns)


def _gemm_of_set(step: StepBuilder, op: NeGemm, number: Size, size: int) -> NeGemm:
    """The product of a set of columns."""
    values: dict[str, Any] = dict(op.values())
    first = step(number, size)
    distances = {
        "dst": step(step(first, values["rows"]), op.fmt.bytes),
        "psum": step(step(first, values["rows"]), psum_format(op.fmt2).bytes),
        "right": step(step(first, values["depth"]), op.fmt2.bytes),
    }
    for name, distance in distances.items():
        values[name] = step.at(values[name], distance)
    values["columns"] = size
    return NeGemm.make(fmt=op.fmt, fmt2=op.fmt2, rnd=op.rounding, origin=op.origin, **values)


def _at(op: Operation) -> StepBuilder:
    builder = Builder(InsertPoint.before(op))
    return StepBuilder(builder, builder, (), {})


def _at_end(block: Block) -> StepBuilder:
    """At the end of a loop's body."""
    end = block.last_op
    builder = Builder(InsertPoint.before(end) if isinstance(end, scf.YieldOp) else InsertPoint.at_end(block))
    return StepBuilder(builder, builder, (), {})


def _block_of(op: Operation) -> Block:
    block = op.parent_block()
    assert block is not None
    return block


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


def _owner_of(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner
