"""What products in a loop read again in each turn, and may leave in the scratchpads meanwhile: weights, mostly.

    while (%h = %h0) { hlo.fusion(%h, %w) { dot %h, %w } }        operand 1 of the fusion may stay, if all of %w has room

The largest have their room first; of products whose kernels would not keep them in it, none is kept. What is left is the room of
all kernels in the loop.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import CallOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp, GroupOp, LibraryOp
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.emitters.counters import WHILE
from hlo2tx8.fusion.views import is_view
from hlo2tx8.hlo.placement import tiles_of
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.contraction import is_dot
from hlo2tx8.partitioner.instruction import kind_of
from hlo2tx8.passes.rules.loops import TRIP_COUNT
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.work_split import NOTHING, Stays

MOST_KEPT = 0.75
"""The part of the scratchpads that may be left to what stays."""
LEAST_EACH = 4 / 3
"""Times its share of a tensor that a tile must be able to keep, as not all tiles may have some of it."""
UNKNOWN_TURNS = 8
"""Turns that a loop is thought to make whose number of turns depends on data."""


def stays_of(blocks: Iterable[Block], rates: Rates, keeps: Callable[[FusionOp, Stays], bool]) -> dict[Operation, Stays]:
    """Of all that is computed in the loops of blocks, and of the loops: what is left to others in them. `keeps` says whether a
    fusion's best plan would keep what it may."""
    found: dict[Operation, Stays] = {}
    for op in (op for block in blocks for op in block.ops):
        if op.name == WHILE:
            found |= _of_loop(op, rates, keeps) if not any(map(_is_in_the_way, nested_ops(op))) else {}
        elif op.name in CONTROL:
            found |= stays_of([region.block for region in op.regions], rates, keeps)
    return found


def _is_in_the_way(op: Operation) -> bool:
    """Does an op need scratchpads as they are given, by itself or on some tiles?"""
    return isinstance(op, CallOp | LibraryOp) or tiles_of(op) is not None


def _of_loop(loop: Operation, rates: Rates, keeps: Callable[[FusionOp, Stays], bool]) -> dict[Operation, Stays]:
    """What is shared out to those that keep it, if each has that."""
    wanted = sorted(_wanted(loop, 1), key=lambda own: -_multiplied_bytes(*own[:2]))
    while wanted:
        found = _shared_out(loop, wanted, rates)
        idle = {fusion for fusion, own in found.items() if own.operands and isinstance(fusion, FusionOp) and not keeps(fusion, own)}
        if not idle:
            return found
        wanted = [own for own in wanted if own[0] not in idle]
    return {}


def _shared_out(loop: Operation, wanted: Sequence[tuple[FusionOp, int, int]], rates: Rates) -> dict[Operation, Stays]:
    """What is left when each has its least room is shared out alike, up to all of a tensor for a tile."""
    turns: dict[Operation, int] = {fusion: count for fusion, _, count in wanted}
    chosen: dict[Operation, dict[int, float]] = {}
    most = left = MOST_KEPT * rates.spm_bytes
    for fusion, number, _ in wanted:
        share = LEAST_EACH * _multiplied_bytes(fusion, number) / rates.tiles
        if share <= left:
            chosen.setdefault(fusion, {})[number] = share
            left -= share
    if not chosen:
        return {}
    times = min(rates.tiles / LEAST_EACH, most / (most - left))
    kept = {op: int(times * sum(shares.values())) for op, shares in chosen.items()}
    room = rates.spm_bytes - sum(kept.values())
    inside = [op for op in nested_ops(loop) if isinstance(op, FusionOp | GroupOp)]

    def own(op: Operation) -> Stays:
        kept_bytes = kept.get(op, 0)
        return Stays(frozenset(chosen.get(op, ())), kept_bytes, room + kept_bytes, turns.get(op, 1), _is_apart(op, chosen))

    return {op: own(op) for op in (loop, *inside)}


def stays_at(op: Operation, known: Mapping[Operation, Stays]) -> Stays:
    """Of a fusion or a group, which may have been made since they became known: then of the loop around it."""
    around: Operation | None = op
    while around is not None and around not in known:
        around = around.parent_op()
    return NOTHING if around is None else known[around]


def _is_apart(group: Operation, chosen: Mapping[Operation, Container[int]]) -> bool:
    """May all weights of a group's products stay, and are they more than what its fusions hand on to each other?"""
    if not isinstance(group, GroupOp) or group.phases is None:
        return False
    fusions = [op for op in group.body.block.ops if isinstance(op, FusionOp)]
    weights = [(op, number) for op in fusions for number in _multiplied(op) if _is_outside(op.operands[number], op)]
    handed_on = sum(size_bytes(result) for op in fusions[:-1] for result in op.results)
    is_kept = all(number in chosen.get(op, ()) for op, number in weights)
    return bool(weights) and is_kept and sum(size_bytes(op.operands[n]) for op, n in weights) > 2 * handed_on


def _wanted(op: Operation, turns: int) -> Iterator[tuple[FusionOp, int, int]]:
    """Fusions with products in the regions of an op, with operands that are not made in the innermost loop around them, and the
    turns of that."""
    if op.name == WHILE:
        counted = op.attributes.get(TRIP_COUNT)
        turns = counted.value.data if isinstance(counted, IntegerAttr) else UNKNOWN_TURNS
    for region in op.regions:
        for inner in region.block.ops:
            if isinstance(inner, FusionOp):
                if turns > 1:
                    yield from (
                        (inner, number, turns) for number in _multiplied(inner) if _is_outside(inner.operands[number], inner)
                    )
            elif inner.regions:
                yield from _wanted(inner, turns)


def _multiplied(fusion: FusionOp) -> list[int]:
    """Numbers of the operands that the fusion's dots multiply."""
    dots = [op for op in fusion.body.block.ops if is_dot(op)]
    sources = (parameter_of(value) for dot in dots for value in dot.operands)
    return [*dict.fromkeys(number for number in sources if number is not None)]


def _multiplied_bytes(fusion: FusionOp, number: int) -> int:
    """What of an operand the fusion's dots multiply: all, or parts of it."""
    dots = [op for op in fusion.body.block.ops if is_dot(op)]
    parts = [size_bytes(value) for dot in dots for value in dot.operands if parameter_of(value) == number]
    return min(size_bytes(fusion.operands[number]), sum(parts))


def _is_outside(value: SSAValue, op: Operation) -> bool:
    """Is a value made before the innermost loop around an op, or a view of such a value?"""
    if isinstance(value.owner, FusionOp) and is_view(value.owner):
        return all(_is_outside(operand, value.owner) for operand in value.owner.operands)
    block = op.parent_block()
    around = block.parent_op() if block is not None else None
    if isinstance(value, BlockArgument) and value.owner is block and isinstance(around, GroupOp):
        return _is_outside(around.operands[value.index], around)
    while block is not None:
        if value.owner is block or (isinstance(value.owner, Operation) and value.owner.parent_block() is block):
            return False
        around = block.parent_op()
        if around is None or around.name == WHILE:
            return around is not None
        block = around.parent_block()
    return False


def parameter_of(value: SSAValue) -> int | None:
    """The number of the parameter that a value is, in another shape or between zeros."""
    while isinstance(value.owner, Operation) and (len(value.owner.operands) == 1 or kind_of(value.owner) is Kind.SHAPING):
        value = value.owner.operands[0]
    return value.index if isinstance(value, BlockArgument) else None
