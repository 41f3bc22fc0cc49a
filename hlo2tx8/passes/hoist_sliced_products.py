"""Pass hoist-sliced-products: products of the slice of each turn with the same matrix are one product before the loop.

    while (%i = 0, %h = %a)                                  %p = dot %xs, %w                     [64, 32, 2048]
      do %x = %xs at %i          [1, 32, 512] of 64   ⟶     while (%i = 0, %h = %a)
         %y = dot %x, %w         [32, 2048]                    do %y = %p at %i
         return %i + 1, tanh (%y + dot %h, %u)                    return %i + 1, tanh (%y + dot %h, %u)

So the weights of a recurrent network's inputs are read once, not in each turn. It is done where the loop makes as many turns as
there are slices, and the weights of all turns are more than what the product of all slices writes and reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.hlo_indexed import ReadAtOp, place_properties
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo.lookup import has_spec
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.partitioner.instruction import kind_of, shape_of
from hlo2tx8.partitioner.turns import is_same_in_all_turns
from hlo2tx8.passes.integers.products import DotProduct
from hlo2tx8.passes.rules.columns import is_repeated
from hlo2tx8.passes.rules.loops import TRIP_COUNT
from hlo2tx8.passes.rules.slices import DOTS, is_inside, slice_of
from hlo2tx8.schedule.costs import size_bytes

MOVES = ("stablehlo.slice", "stablehlo.reshape", "stablehlo.transpose", "stablehlo.convert")
"""What weights may be made by in each turn."""


@dataclass(frozen=True)
class HoistSlicedProductsPass(ModulePass):
    """Rewrites the bodies of while loops; see the module docstring."""

    name = "hoist-sliced-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for loop in ops_named(op, ("stablehlo.while",)):
            turns, body = loop.attributes.get(TRIP_COUNT), loop.regions[1].block
            if not isinstance(turns, IntegerAttr):
                continue
            for dot in ops_of(body):
                read = _slice_of(dot, body)
                if read is not None and _is_worth(dot, read.operands[0], turns.value.data):
                    _hoist(loop, dot, read)


def _slice_of(dot: Operation, body: Block) -> Operation | None:
    """What reads the slice that is a dot's first operand: one whole element along the first dimension of a tensor from outside, as
    the other operand is."""
    if dot.name not in DOTS or DotProduct.of(Expansion(dot)).batch[0] or _moved_from(dot.operands[1], body) is None:
        return None
    return slice_of(dot.operands[0], body)


def _moved_from(value: SSAValue, body: Block) -> list[Operation] | None:
    """The moves in a loop's body that make a value of one from outside, the last one first; None if it is made otherwise."""
    found: list[Operation] = []
    while is_inside(value, body):
        owner = value.owner
        if not isinstance(owner, Operation) or owner.name not in MOVES:
            return None
        found.append(owner)
        value = owner.operands[0]
    return found


def _is_worth(dot: Operation, slices: SSAValue, turns: int) -> bool:
    """Does each turn read a slice of its own, and less if they are multiplied at once?"""
    count = shape_of(slices)[0]
    return 1 < count == turns and size_bytes(dot.operands[1]) * (count - 1) > 2 * count * size_bytes(dot.results[0])


def _hoist(loop: Operation, dot: Operation, read: Operation) -> None:
    (slices, place), (result,) = read.operands, dot.results
    before, e = Expansion(loop), Expansion(dot)
    lhs_contract, rhs_contract = DotProduct.of(e).contracted
    numbers = dot_numbers((), (), [dim + 1 for dim in lhs_contract], rhs_contract)
    properties = {**dot.properties, "dot_dimension_numbers": numbers}
    shape = (shape_of(slices)[0], *shape_of(result))
    mapping: dict[SSAValue, SSAValue] = {}
    weights = _in_front(loop, dot.operands[1], mapping)
    whole = before.emit("dot_general", [slices, weights], before.like(result, shape), **properties)
    gone, last = list[Operation](), dot
    while (op := _added_to(last)) is not None:
        operands = [whole if v is last.results[0] else _repeated(before, _in_front(loop, v, mapping), shape) for v in op.operands]
        whole = before.same(op, operands, before.like(op.results[0], shape))
        gone.append(last)
        last = op
    e, result = Expansion(last), last.results[0]
    map = IndexingMap.identity((1, *shape[1:]))
    fields = place_properties(map, [map.with_results(())], [0], [shape[0] - 1])
    own = e.insert(ReadAtOp([whole, place], [e.like(result, (1, *shape[1:]))], fields)).results[0]
    e.replace(e.emit("reshape", [own], result.type))
    for op in reversed(gone):
        Rewriter.erase_op(op)


def _repeated(e: Expansion, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """A value of a turn for all of them."""
    return e.emit("broadcast_in_dim", [value], e.like(value, shape), broadcast_dimensions=int_array(range(1, len(shape))))


def _added_to(made: Operation) -> Operation | None:
    """What is made of a product alone element by element, with what is the same in all turns and in all rows."""
    op = made.results[0].get_user_of_unique_use()
    if op is None or not has_spec(op.name) or kind_of(op) is not Kind.ELEMENTWISE or len(op.results) > 1:
        return None
    others = [number for number, value in enumerate(op.operands) if value is not made.results[0]]
    is_alike = all(is_repeated(op.operands[number]) and is_same_in_all_turns(op, number) for number in others)
    return op if is_alike and op.parent is made.parent else None


def _in_front(loop: Operation, value: SSAValue, mapping: dict[SSAValue, SSAValue]) -> SSAValue:
    """The same value in front of a loop, where what makes it in the loop's body is copied."""
    if value not in mapping and isinstance(owner := value.owner, Operation) and is_inside(value, loop.regions[1].block):
        for operand in owner.operands:
            _in_front(loop, operand, mapping)
        assert loop.parent is not None
        loop.parent.insert_op_before(owner.clone(mapping), loop)
    return mapping.get(value, value)
