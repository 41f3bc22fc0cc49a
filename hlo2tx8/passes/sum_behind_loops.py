"""Pass sum-behind-loops: a sum of the products of all turns is one product behind the loop, of what the turns have written.

    while (%i = 0, %s = %a)                                  while (%i = 0, %d = 0)                          [64, 32, 1024]
      do %x = %xs at %i          [1, 32, 512] of 64            do %d' = %d with %y at %i
         %y = ...                [32, 1024]              ⟶        return %i + 1, %d'
         return %i + 1, %s + dot %x, %y   [512, 1024]        %s = %a + dot %xs, %d                           over 64 and 32

So the gradient of a recurrent network's weights is not read and written in each turn. One factor is a slice of a tensor from
outside, a different one in each turn; the other is at most half of the sum. Rounded less often, in another order:
`Options(reassociate=False)` leaves the pass out.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, dot_numbers
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.stablehlo import OPS
from hlo2tx8.hlo.regions import terminator_of
from hlo2tx8.hlo.trip_count import counters_in, goes_through
from hlo2tx8.notes import add_notes
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.passes.integers.products import DotProduct
from hlo2tx8.passes.rules.loops import TRIP_COUNT
from hlo2tx8.passes.rules.slices import DOTS, is_inside, slice_of
from hlo2tx8.schedule.costs import size_bytes

MOVES = ("stablehlo.transpose", "stablehlo.reshape")
"""What may be done to a product before it is added."""
LEAST_TIMES = 2
"""Times what is written in each turn that the sum must be as large."""


@dataclass(frozen=True)
class _Summed:
    """Loop variable number `position` is a sum of products, moved by `moves` and added by `add`; operand `side` of the product is
    the slice that `read` takes of a tensor."""

    position: int
    add: Operation
    moves: tuple[Operation, ...]
    dot: Operation
    side: int
    read: Operation


@dataclass(frozen=True)
class SumBehindLoopsPass(ModulePass):
    """Rewrites while loops; see the module docstring."""

    name = "sum-behind-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes: list[str] = []
        for loop in ops_named(op, ("stablehlo.while",)):
            turns = loop.attributes.get(TRIP_COUNT)
            if isinstance(turns, IntegerAttr):
                found = [own for k in range(len(loop.operands)) if (own := _summed(loop, k, turns.value.data)) is not None]
                notes += [
                    f"a sum of {turns.value.data} products of {shape_of(own.dot.results[0])} is one: reassociated" for own in found
                ]
                if found:
                    _behind(loop, found, turns.value.data)
        add_notes(op, notes)


def _summed(loop: Operation, position: int, turns: int) -> _Summed | None:
    """The sum that a loop variable is, None if it is none, or is better left."""
    condition, body = (region.block for region in loop.regions)
    arg, end = body.args[position], terminator_of(body)
    add = arg.get_user_of_unique_use()
    if add is None or add.name != "stablehlo.add" or condition.args[position].first_use is not None:
        return None
    if end.operands[position] is not add.results[0] or not add.results[0].has_one_use():
        return None
    value = next((value for value in add.operands if value is not arg), arg)
    moves: list[Operation] = []
    while isinstance(owner := value.owner, Operation) and owner.parent is body and value.has_one_use() and owner.name in MOVES:
        moves.insert(0, owner)
        value = owner.operands[0]
    if not isinstance(owner, Operation) or owner.parent is not body or owner.name not in DOTS or not value.has_one_use():
        return None
    if DotProduct.of(Expansion(owner)).batch[0]:
        return None
    for side in (0, 1):
        read, written = _each_slice(owner.operands[side], loop, turns), owner.operands[1 - side]
        is_small = LEAST_TIMES * size_bytes(written) <= size_bytes(value)
        if read is not None and is_small and isinstance(written.owner, Operation) and is_inside(written, body):
            return _Summed(position, add, tuple(moves), owner, side, read)
    return None


def _each_slice(value: SSAValue, loop: Operation, turns: int) -> Operation | None:
    """What reads a value if it is a slice of a tensor from outside, of which each turn reads another one and all turns all."""
    read = slice_of(value, loop.regions[1].block)
    if read is None or shape_of(read.operands[0])[0] != turns:
        return None
    return read if goes_through(read.operands[1], counters_in(loop), turns) else None


def _behind(loop: Operation, found: list[_Summed], turns: int) -> None:
    """Lets the turns write a factor of each product, and puts the products behind the loop."""
    condition, body = (region.block for region in loop.regions)
    starts, operands, types = list(loop.operands), list(loop.operands), [result.type for result in loop.results]
    for own in found:
        written, at, k = own.dot.operands[1 - own.side], own.read.operands[1], own.position
        e = Expansion(own.add)
        types[k] = type_ = e.like(written, (turns, *shape_of(written)))
        operands[k] = Expansion(loop).splat(0, type_)
        Rewriter.replace_value_with_new_type(condition.args[k], type_)
        arg = Rewriter.replace_value_with_new_type(body.args[k], type_)
        row, zero = e.reshaped(written, (1, *shape_of(written))), e.splat(0, e.like(at, ()))
        places = [at, *[zero] * len(shape_of(written))]
        terminator_of(body).operands[k] = e.emit("dynamic_update_slice", [arg, row, *places], type_)
        for op in (own.add, *reversed(own.moves)):
            Rewriter.erase_op(op)
    assert loop.parent is not None
    new_loop = OPS["while"](operands, types, dict(loop.properties), [loop.detach_region(region) for region in tuple(loop.regions)])
    new_loop.attributes.update(loop.attributes)
    loop.parent.insert_op_before(new_loop, loop)
    results: list[SSAValue] = list(new_loop.results)
    for own in found:
        results[own.position] = _sum(Expansion(loop), own, new_loop.results[own.position], starts[own.position])
        slice_ = own.dot.operands[own.side].owner
        for op in (own.dot, slice_, own.read):
            if isinstance(op, Operation) and all(result.first_use is None for result in op.results):
                Rewriter.erase_op(op)
    Rewriter.replace_op(loop, [], results)


def _sum(e: Expansion, own: _Summed, written: SSAValue, start: SSAValue) -> SSAValue:
    """The product of all turns, moved as those of each were, and what the sum began with."""
    contracted = [[0, *(dim + 1 for dim in dims)] for dims in DotProduct.of(Expansion(own.dot)).contracted]
    factors = [own.read.operands[0], written] if own.side == 0 else [written, own.read.operands[0]]
    properties = {**own.dot.properties, "dot_dimension_numbers": dot_numbers((), (), *contracted)}
    made = e.emit("dot_general", factors, own.dot.results[0].type, **properties)
    for move in own.moves:
        made = e.same(move, [made], move.results[0].type)
    return e.emit("add", [start, made], start.type)
