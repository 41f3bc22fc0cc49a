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
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of, has_spec, spec_of
from hlo2tx8.hlo.ops.dot import Dims, numbers_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.contraction import is_dot

BROADCAST, CONSTANT = "stablehlo.broadcast_in_dim", "stablehlo.constant"


@dataclass(frozen=True)
class _EndedProduct:
    """A dot and the arithmetic on each of its elements up to a value, in order. Nothing of it is read elsewhere; whatever else the
    arithmetic reads is broadcast or constant."""

    dot: Operation
    steps: tuple[Operation, ...]

    @property
    def num_dims(self) -> tuple[int, int, int]:
        """How many dimensions of the result are batch dimensions, rows of the first operand, columns of the second."""
        lhs_batch, _, lhs_contract, _ = dot_dimensions(self.dot)
        rows, columns = (len(_shape(value)) - len(lhs_batch) - len(lhs_contract) for value in self.dot.operands)
        return len(lhs_batch), rows, columns


def dot_dimensions(dot: Operation) -> tuple[Dims, Dims, Dims, Dims]:
    """Of a dot or dot_general the batch dimensions of the first operand and of the second, then those that are added up."""
    return ((), (), (len(_shape(dot.operands[0])) - 1,), (0,)) if dot.name == "stablehlo.dot" else numbers_of(attributes_of(dot))


def turned_product(op: Operation, order: Sequence[int]) -> SSAValue | None:
    """A transpose of a product, of whose result rows of the first operand become innermost: the product with its operands exchanged
    has them there, and what is left to transpose are whole rows."""
    found = _ended_product(op)
    if found is None:
        return None
    batch, rows, columns = found.num_dims
    if not rows or order[-1] != batch + rows - 1:
        return None
    turn = [*range(batch), *range(batch + rows, batch + rows + columns), *range(batch, batch + rows)]
    e, after = Expansion(op), [turn.index(dim) for dim in order]
    made: dict[SSAValue, SSAValue] = {found.dot.results[0]: _exchanged(found.dot, turn, e)}
    for step in found.steps:
        operands = [made[value] if value in made else _reordered(value, turn, e) for value in step.operands]
        value = step.results[0]
        made[value] = e.same(step, operands, e.like(value, [_shape(value)[dim] for dim in turn]))
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
            if not _is_of_each_element(owner):
                return None
            steps.add(owner)
            waiting += owner.operands
    if len(dots) != 1:
        return None
    (dot,) = dots
    in_order = [own for own in op.parent.ops if own in steps] if steps and op.parent else []
    is_read_elsewhere = any(use.operation not in {*steps, op} for own in (dot, *steps) for use in own.results[0].uses)
    return None if is_read_elsewhere or "algorithm" in dot.properties else _EndedProduct(dot, tuple(in_order))


def _is_of_each_element(op: Operation) -> bool:
    """Is an element of the result made of those at the same place of the operands?"""
    if not has_spec(op.name) or spec_of(op).kind is not Kind.ELEMENTWISE or op.regions or len(op.results) != 1:
        return False
    return all(_shape(value) == _shape(op.results[0]) for value in op.operands)


def _exchanged(dot: Operation, turn: Sequence[int], e: Expansion) -> SSAValue:
    """The dot with its operands exchanged, whose result has the dimensions of the other in the order `turn`."""
    (lhs, rhs), (lhs_batch, rhs_batch, lhs_contract, rhs_contract) = dot.operands, dot_dimensions(dot)
    properties = {**dot.properties, "dot_dimension_numbers": dot_numbers(rhs_batch, lhs_batch, rhs_contract, lhs_contract)}
    if "precision_config" in dot.properties:
        properties["precision_config"] = ArrayAttr(reversed(cast(ArrayAttr[Attribute], dot.properties["precision_config"]).data))
    type_ = e.like(dot.results[0], [_shape(dot.results[0])[dim] for dim in turn])
    return e.emit("dot_general", [rhs, lhs], type_, **properties)


def _reordered(value: SSAValue, turn: Sequence[int], e: Expansion) -> SSAValue:
    """What is broadcast or constant, with its dimensions in the order `turn`."""
    owner, type_ = cast(Operation, value.owner), e.like(value, [_shape(value)[dim] for dim in turn])
    if owner.name == BROADCAST:
        dims = [turn.index(int(dim)) for dim in attributes_of(owner)["broadcast_dimensions"]]
        return e.emit("broadcast_in_dim", [owner.operands[0]], type_, broadcast_dimensions=int_array(dims))
    scalar = scalar_of(value)
    return e.transpose(value, turn) if scalar is None else e.splat(scalar.item(), type_)


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(as_tensor(value.type).get_shape())
