"""Which order of dimensions the scores of attention get, where queries share keys and scores are transposed on their way.

    %0 = dot_general %q, %k        [batch, heads, tokens, group, tokens of keys]
    %1 = transpose %0              [group, batch, heads, tokens, tokens of keys], all that softmax computes
    %2 = dot_general %v, %1        batches: batch, heads

A product makes its batches first, then the other dimensions of each side in the order they have there; one that reads scores wants
its batches first, and what it adds up last. An order that suits both has no transpose between them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.passes.dimensions.alike import LEAST_RANK, MADE_IN_ANY_ORDER, READ_IN_ANY_ORDER, is_moved, is_reordered, sets_alike
from hlo2tx8.passes.dimensions.channels_last import MOVED, Order
from hlo2tx8.schedule.costs import size_bytes

DOT = "stablehlo.dot_general"
FEW_ROWS = 16
"""Of the innermost dimension of rows: steps of fewer leave the matrix engine idle."""
MADE_AROUND_PRODUCTS = (*MADE_IN_ANY_ORDER, DOT)
READ_AROUND_PRODUCTS = (*READ_IN_ANY_ORDER, DOT, "stablehlo.broadcast_in_dim")


def orders_of_scores(block: Block) -> dict[SSAValue, Order]:
    """The new order of the dimensions of scores, and of what is made of their rows, by which products have no transposes between
    them, and rows that follow each other."""
    dots = [op for op in block.ops if op.name == DOT and is_reordered(op.results[0])]
    if not dots:
        return {}
    turned = [op for op in block.ops if op.name == "stablehlo.transpose"]
    sets = sets_alike(block)
    of_value = {value: number for number, values in enumerate(sets) for value in values}
    found: dict[SSAValue, Order] = {}
    for value in (op.results[0] for op in (*turned, *dots)):
        if value not in of_value or value in found:
            continue
        shape, wanted_orders = shape_of(value), dict.fromkeys(_wanted(sets[of_value[value]], block))
        for wanted in sorted(wanted_orders, key=lambda order, shape=shape: -shape[order[-2]]):
            orders = _Orders(sets, of_value)
            orders.give(value, wanted)
            gathered = size_bytes(value) if shape[-2] < FEW_ROWS <= shape[wanted[-2]] else 0
            if orders.spread(block) and orders.moved_bytes(block) < orders.turned_bytes(turned) + gathered:
                found |= orders.of_values()
                break
    return found


def _wanted(values: Sequence[SSAValue], block: Block) -> Iterator[Order]:
    """Orders of tensors in which products read them best: batches, rows, and what is added up; rows as they are, and in batches
    also so that most of them follow each other. Or in which products make what these are transposed from. Reduced ones are last."""
    found: list[Order] = []
    reduced: set[int] = set()
    for value in values:
        rank, shape = len(shape_of(value)), shape_of(value)
        for use in value.uses:
            op = use.operation
            if op.name == DOT and op.parent is block:
                numbers = numbers_of(attributes_of(op))
                batch, added = numbers[use.index], numbers[2 + use.index]
                rows = [d for d in range(rank) if d not in (*batch, *added)]
                found.append((*batch, *rows, *added))
                if batch:
                    found.append((*batch, *sorted(rows, key=lambda d, shape=shape: shape[d]), *added))
            elif op.name == "stablehlo.reduce":
                reduced.update(int(d) for d in attributes_of(op)["dimensions"])
        owner = value.owner
        if isinstance(owner, Operation) and owner.name == "stablehlo.transpose" and _is_product(owner.operands[0]):
            permutation = _permutation(owner)
            found.append(tuple(permutation.index(d) for d in range(rank)))
    return (order for order in found if reduced and reduced == set(order[len(order) - len(reduced) :]))


def _permutation(transpose: Operation) -> list[int]:
    return [int(d) for d in attributes_of(transpose)["permutation"]]


def _is_product(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and value.owner.name == DOT


def _is_read_by_product(value: SSAValue) -> bool:
    return any(use.operation.name == DOT for use in value.uses)


@dataclass
class _Orders:
    """New orders of sets of tensors, by their number."""

    sets: list[list[SSAValue]]
    of_value: dict[SSAValue, int]
    given: dict[int, Order] = field(default_factory=dict[int, Order])
    is_consistent: bool = True

    def give(self, value: SSAValue, order: Order) -> bool:
        """Says the order of a tensor and of those alike; is that new? What has few dimensions is transposed as it is read."""
        if value not in self.of_value or len(order) < LEAST_RANK:
            return False
        known = self.given.setdefault(self.of_value[value], order)
        self.is_consistent = self.is_consistent and known == order
        return known is order

    def order(self, value: SSAValue) -> Order | None:
        """The new order of a tensor, None if it keeps its own."""
        return self.given.get(self.of_value[value]) if value in self.of_value else None

    def spread(self, block: Block) -> bool:
        """Follows reductions to what they make, and broadcasts to what they are of. Has no tensor two orders then, and can products
        make theirs?"""
        is_changed = True
        while is_changed and self.is_consistent:
            is_changed = sum(self._follow(op) for op in block.ops) > 0
        dots = [(op, self.order(op.results[0])) for op in block.ops if op.name == DOT]
        return self.is_consistent and all(order is None or _makes(op, order) for op, order in dots)

    def _follow(self, op: Operation) -> int:
        """How many tensors have got an order by an op."""
        if op.name == "stablehlo.reduce" and (order := self.order(op.operands[0])):
            dims = [int(d) for d in attributes_of(op)["dimensions"]]
            left = [d for d in range(len(order)) if d not in dims]
            return sum(self.give(value, tuple(left.index(d) for d in order if d in left)) for value in op.results)
        if op.name == "stablehlo.broadcast_in_dim" and (order := self.order(op.results[0])):
            places = [order.index(int(d)) for d in attributes_of(op)["broadcast_dimensions"]]
            return self.give(op.operands[0], tuple(sorted(range(len(places)), key=places.__getitem__)))
        if op.name == "stablehlo.transpose":
            source, result, permutation = op.operands[0], op.results[0], _permutation(op)
            if (order := self.order(result)) and self._is_of_products(source):
                return self.give(source, tuple(permutation[d] for d in order))
            if (order := self.order(source)) and self._is_of_products(result):
                return self.give(result, tuple(permutation.index(d) for d in order))
        return 0

    def _is_of_products(self, value: SSAValue) -> bool:
        """Do products make or read some of the tensors that have the order of this one?"""
        of_set = self.sets[self.of_value[value]] if value in self.of_value else ()
        return any(_is_product(own) or _is_read_by_product(own) for own in of_set)

    def turned_bytes(self, transposes: Sequence[Operation]) -> float:
        """Bytes of what transposes make that are none now."""
        found = 0
        for op in transposes:
            source, result = self.order(op.operands[0]), self.order(op.results[0])
            if (source or result) and (permutation := _permutation(op)):
                new = [permutation[d] for d in result or range(len(permutation))]
                found += size_bytes(op.results[0]) * (new == list(source or range(len(permutation))))
        return found

    def moved_bytes(self, block: Block) -> float:
        """Bytes of the transposes of tensors that others make, or read, in the order that they have now."""
        values = (value for number in self.given for value in self.sets[number])
        moved = (value for value in values if is_moved(value, block, MADE_AROUND_PRODUCTS, READ_AROUND_PRODUCTS))
        return MOVED * sum(map(size_bytes, moved))

    def of_values(self) -> dict[SSAValue, Order]:
        """The new order of each tensor."""
        return {value: order for number, order in self.given.items() for value in self.sets[number]}


def _makes(dot: Operation, order: Order) -> bool:
    """Can a product make its result in an order: batches, then the dimensions of one side, then those of the other?"""
    left, batches = len(shape_of(dot.operands[0])), numbers_of(attributes_of(dot))[0]
    rows = left - len(batches) - len(numbers_of(attributes_of(dot))[2])
    ends = (0, len(batches), len(batches) + rows, len(order))
    return all(sorted(order[a:b]) == list(range(a, b)) for a, b in pairwise(ends))
