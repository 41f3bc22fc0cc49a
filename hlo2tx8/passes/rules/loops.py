"""Fewer loop variables, and the number of turns where it is certain; used by the pass simplify-control."""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import CopyOp
from hlo2tx8.dialects.layout import is_tensor
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.dialects.stablehlo import OPS
from hlo2tx8.hlo.lookup import has_spec, spec_of, tensor_like
from hlo2tx8.hlo.regions import inline_region, terminator_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.hlo.trip_count import counter_of, trip_count
from hlo2tx8.ir import i64_attr

TRIP_COUNT = "hlo.trip_count"
"""Attribute of a `stablehlo.while`: it makes exactly that many turns."""
MOST_UNROLLED_OPS = 512
"""Ops that a loop may become: rounds of a cipher are, a loop over the elements of a tensor is not."""
PROGRAM_BYTES = 128
"""What an elementwise op takes of a program, about; a program is fetched as tensors are."""


def simplify_loop(loop: Operation) -> None:
    """Drop loop variables that are not needed, note the number of turns, and inline a loop of no turn or one, or of a few turns
    that need not write their state; ops that nobody reads any more stay for the caller.
    """
    _agree_on_layouts(loop)
    loop = _drop_state(loop, _constant_state(loop))
    loop = _drop_state(loop, _equal_counters(loop))
    loop = _drop_state(loop, _unread_state(loop))
    turns = trip_count(loop)
    if turns == 0:
        Rewriter.replace_op(loop, [], list(loop.operands))
    elif turns == 1:
        inline_region(loop, loop.regions[1].block, list(loop.operands))
    elif turns is not None and _is_worth_unrolling(loop, turns):
        _unroll(loop, turns)
    elif turns is not None:
        loop.attributes[TRIP_COUNT] = i64_attr(turns)


def _is_worth_unrolling(loop: Operation, turns: int) -> bool:
    """Do a few turns compute each element of the state by itself, and would moving it between them take longer than fetching them?

    A turn that is followed by another writes the state, and the other reads it; without a loop both are one kernel.
    """
    body = list(loop.regions[1].block.ops)[:-1]
    computed = [op for op in body if has_spec(op.name) and spec_of(op).kind is Kind.ELEMENTWISE]
    plain = (Kind.ELEMENTWISE, Kind.SHAPING, Kind.CONSTANT)
    if len(body) * turns > MOST_UNROLLED_OPS or not all(has_spec(op.name) and spec_of(op).kind in plain for op in body):
        return False
    state = [tensor_like(value.type) for value in loop.operands if is_tensor(value.type)]
    moved = 2 * sum(prod(like.shape) * like.dtype.itemsize for like in state if like.shape)
    return len(state) == len(loop.operands) and moved >= len(computed) * PROGRAM_BYTES


def _unroll(loop: Operation, turns: int) -> None:
    """The turns one after the other in place of the loop."""
    body, block = loop.regions[1].block, loop.parent
    assert block is not None
    values: list[SSAValue] = list(loop.operands)
    for _ in range(turns):
        mapping: dict[SSAValue, SSAValue] = dict(zip(body.args, values, strict=True))
        for op in ops_of(body)[:-1]:
            block.insert_op_before(op.clone(mapping), loop)
        values = [mapping.get(value, value) for value in terminator_of(body).operands]
    Rewriter.replace_op(loop, [], values)


def _agree_on_layouts(loop: Operation) -> None:
    """State has the layout of the body's parameter wherever it lies; copies where it comes in another."""
    condition, body = (region.block for region in loop.regions)
    types = [arg.type for arg in body.args]
    for reader in (loop, terminator_of(body)):
        for number, type_ in enumerate(types):
            if reader.operands[number].type != type_:
                reader.operands[number] = _copy(reader.operands[number], type_, reader)
    for block, values, first in ((condition, condition.args, condition.first_op), (loop.parent, loop.results, loop.next_op)):
        assert block is not None and first is not None
        for number, type_ in enumerate(types):
            if values[number].type != type_:
                wanted = values[number].type
                value = Rewriter.replace_value_with_new_type(values[number], type_)
                copy = CopyOp(operands=[[value]], result_types=[[wanted]])
                value.replace_all_uses_with(copy.results[0])
                copy.operands = [value]
                block.insert_op_before(copy, first)


def _copy(value: SSAValue, type_: Attribute, before: Operation) -> SSAValue:
    copy = CopyOp(operands=[[value]], result_types=[[type_]])
    block = before.parent
    assert block is not None
    block.insert_op_before(copy, before)
    return copy.results[0]


def _constant_state(loop: Operation) -> dict[int, SSAValue]:
    """State that each turn hands on as it came, and what it is."""
    body = loop.regions[1].block
    returned = terminator_of(body).operands
    return {k: loop.operands[k] for k, arg in enumerate(body.args) if returned[k] is arg}


def _equal_counters(loop: Operation) -> dict[int, int]:
    """Counters with start, step and type of an earlier one."""
    first: dict[tuple[int, int, Attribute], int] = {}
    equal: dict[int, int] = {}
    for k in range(len(loop.operands)):
        counter = counter_of(loop, k)
        if counter is None:
            continue
        key = (counter.start, counter.step, counter.type)
        if key in first:
            equal[k] = first[key]
        else:
            first[key] = k
    return equal


def _unread_state(loop: Operation) -> dict[int, int]:
    """State that neither the condition, nor a reader of the loop, nor other state needs."""
    condition, body = (region.block for region in loop.regions)
    needed = [k for k, r in enumerate(loop.results) if r.first_use or condition.args[k].first_use]
    returned = terminator_of(body).operands
    seen: dict[int, None] = {}
    while needed:
        k = needed.pop()
        if k not in seen:
            seen[k] = None
            needed += _state_read(body, returned[k])
    return {k: k for k in range(len(loop.operands)) if k not in seen}


def _state_read(body: Block, value: SSAValue) -> list[int]:
    """Numbers of the block's arguments that a value depends on."""
    found: list[int] = []
    stack, seen = [value], {value: None}
    while stack:
        at = stack.pop()
        if at in body.args:
            found.append(body.args.index(at))
        elif isinstance(at.owner, Operation) and at.owner.parent is body:
            for op in at.owner.walk():
                for operand in op.operands:
                    if operand not in seen:
                        seen[operand] = None
                        stack.append(operand)
    return found


def _drop_state(loop: Operation, dropped: dict[int, SSAValue] | dict[int, int]) -> Operation:
    """The loop without some of its state; in place of it stands a value from outside, or state of another number."""
    if not dropped:
        return loop
    condition, body = (region.block for region in loop.regions)
    terminator = terminator_of(body)
    for k, instead in dropped.items():
        for args in (condition.args, body.args, loop.results):
            other = args[instead] if isinstance(instead, int) else instead
            if other is not args[k]:
                args[k].replace_all_uses_with(other)
    kept = [k for k in range(len(loop.operands)) if k not in dropped]
    terminator.operands = _only(terminator.operands, kept)
    for block in (condition, body):
        for k in sorted(dropped, reverse=True):
            if block.args[k].first_use is not None:  # unread state that feeds itself only
                block.args[k].replace_all_uses_with(loop.operands[k])
            block.erase_arg(block.args[k])
    new = OPS["while"](
        _only(loop.operands, kept),
        [loop.results[k].type for k in kept],
        dict(loop.properties),
        [loop.detach_region(region) for region in tuple(loop.regions)],
    )
    new.attributes.update(loop.attributes)
    results: list[SSAValue] = [loop.operands[k] for k in range(len(loop.operands))]
    for new_result, k in zip(new.results, kept, strict=True):
        results[k] = new_result
    Rewriter.replace_op(loop, [new], results)
    return new


def _only(values: Sequence[SSAValue], kept: Sequence[int]) -> list[SSAValue]:
    return [values[k] for k in kept]
