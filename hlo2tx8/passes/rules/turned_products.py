"""A product whose result is transposed: of exchanged operands, with the arithmetic between the two on elements in the other order.

    transpose (dot_general %a, %b)                        ⟶    dot_general %b, %a
    transpose (add (dot_general %a, %b), broadcast %c)    ⟶    add (dot_general %b, %a), broadcast %c

So the arithmetic ends the product, and no transpose reads what it has stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.partitioner.contraction import dot_dimensions, is_dot, num_batch_and_free
from hlo2tx8.partitioner.instruction import is_elementwise, shape_of

BROADCAST, CONSTANT = "stablehlo.broadcast_in_dim", "stablehlo.constant"


@dataclass(frozen=True)
class _EndedProduct:
    """A dot and the arithmetic on each of its elements up to a value, in order. Nothing of it is read elsewhere; whatever else the
    arithmetic reads is broadcast or constant."""

    dot: Operation
    steps: tuple[Operation, ...]


def turned_product(op: Operation, order: Sequence[int]) -> SSAValue | None:
    """A transpose of a product, of whose result rows of the first operand become innermost: the product with its operands exchanged
    has them there, and what is left to transpose are whole rows."""
    found = _ended_product(op)
    if found is None:
        return None
    batch, (rows, columns) = num_batch_and_free(found.dot)
    if not rows or order[-1] != rows[-1]:
        return None
    turn = [*range(batch), *columns, *rows]
    e, after = Expansion(op), [turn.index(dim) for dim in order]
    made: dict[SSAValue, SSAValue] = {found.dot.results[0]: _exchanged(found.dot, turn, e)}
    for step in found.steps:
        operands = [made[value] if value in made else _reordered(value, turn, e) for value in step.operands]
        value = step.results[0]
        made[value] = e.same(step, operands, e.like(value, [shape_of(value)[dim] for dim in turn]))
    return e.transpose(made[op.operands[0]], after)


def _ended_product(op: Operation) -> _EndedProduct | None:
    dots, steps, waiting = set[Operation](), set[Operation](), [op.operands[0]]
    while waiting:
        owner = waiting.pop().owner
        if not isinstance(owner, Operation) or owner.parent is not op.parent:
            return None
        if is_dot(owner):
            dots.add(owner)
        elif owner.name not in (BROADCAST, CONSTANT) and owner not in steps:
            is_of_elements = has_spec(owner.name) and is_elementwise(owner) and not owner.regions and len(owner.results) == 1
            if not is_of_elements or any(shape_of(value) != shape_of(owner.results[0]) for value in owner.operands):
                return None
            steps.add(owner)
            waiting += owner.operands
    if len(dots) != 1:
        return None
    (dot,) = dots
    in_order = [own for own in op.parent.ops if own in steps] if steps and op.parent else []
    is_read_elsewhere = any(use.operation not in {*steps, op} for own in (dot, *steps) for use in own.results[0].uses)
    return None if is_read_elsewhere or "algorithm" in dot.properties else _EndedProduct(dot, tuple(in_order))


def _exchanged(dot: Operation, turn: Sequence[int], e: Expansion) -> SSAValue:
    """The dot with its operands exchanged, whose result has the dimensions of the other in the order `turn`."""
    (lhs, rhs), (lhs_batch, rhs_batch, lhs_contract, rhs_contract) = dot.operands, dot_dimensions(dot)
    properties = {**dot.properties, "dot_dimension_numbers": dot_numbers(rhs_batch, lhs_batch, rhs_contract, lhs_contract)}
    if "precision_config" in dot.properties:
        properties["precision_config"] = ArrayAttr(reversed(cast(ArrayAttr[Attribute], dot.properties["precision_config"]).data))
    type_ = e.like(dot.results[0], [shape_of(dot.results[0])[dim] for dim in turn])
    return e.emit("dot_general", [rhs, lhs], type_, **properties)


def _reordered(value: SSAValue, turn: Sequence[int], e: Expansion) -> SSAValue:
    """What is broadcast or constant, with its dimensions in the order `turn`."""
    owner = cast(Operation, value.owner)
    if owner.name == BROADCAST:
        type_ = e.like(value, [shape_of(value)[dim] for dim in turn])
        dims = [turn.index(int(dim)) for dim in attributes_of(owner)["broadcast_dimensions"]]
        return e.emit("broadcast_in_dim", [owner.operands[0]], type_, broadcast_dimensions=int_array(dims))
    return e.transpose(value, turn)
