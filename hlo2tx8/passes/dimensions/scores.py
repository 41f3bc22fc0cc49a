"""Which order of dimensions the scores of attention get, where queries share keys and scores are transposed on their way.

    %0 = dot_general %q, %k        [batch, heads, tokens, group, tokens of keys]
    %1 = transpose %0              [group, batch, heads, tokens, tokens of keys], all that softmax computes
    %2 = dot_general %v, %1        batches: batch, heads

A product makes its batches first, then the other dimensions of each side in the order they have there; one that reads scores wants
its batches first, and what it adds up last. An order that suits both has no transpose between them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.nested import ops_of
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
    alike = _SetsAlike.of(block)
    wanted_of: dict[int, list[Order]] = {}
    found: dict[SSAValue, Order] = {}
    for value in (op.results[0] for op in (*alike.turned, *dots)):
        number = alike.of_value.get(value)
        if number is None or value in found:
            continue
        if number not in wanted_of:
            wanted_of[number] = list(dict.fromkeys(_wanted(alike.sets[number], block)))
        shape = shape_of(value)
        for wanted in sorted(wanted_of[number], key=lambda order, shape=shape: -shape[order[-2]]):
            orders = _Orders(alike)
            orders.give(value, wanted)
            gathered = size_bytes(value) if shape[-2] < FEW_ROWS <= shape[wanted[-2]] else 0
            if orders.spread() and orders.moved_bytes() < orders.turned_bytes() + gathered:
                found |= orders.of_values()
                break
    return found


def _wanted(values: Sequence[SSAValue], block: Block) -> Iterator[Order]:
    """Orders of tensors in which products read them best: batches, rows, and what is added up; rows as they are, and of several
    dimensions also so that most of them follow each other. Or in which products make what these are transposed from. Reduced
    ones are last."""
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
                if batch or len(rows) > 1:
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
class _SetsAlike:
    """What a block's tensors are like, whatever orders they get: sets of them, and which ops an order goes through.

    `dots` come with where their sides end; `said` are the dimensions that ops name; `followed`, by the number of a set, the places
    in the block of the ops that take its order to others; `is_of_products` and `moved_bytes` are of the sets asked for so far.
    """

    block: Block
    sets: list[list[SSAValue]]
    of_value: dict[SSAValue, int]
    ops: list[Operation]
    dots: list[tuple[Operation, tuple[int, ...]]]
    turned: list[Operation]
    said: dict[Operation, tuple[int, ...]]
    followed: dict[int, list[int]]
    is_of_products: dict[int, bool] = field(default_factory=dict[int, bool])
    moved_bytes: dict[int, int] = field(default_factory=dict[int, int])

    @staticmethod
    def of(block: Block) -> "_SetsAlike":
        """Those of a block."""
        ops = ops_of(block)
        sets = sets_alike(block)
        of_value = {value: number for number, values in enumerate(sets) for value in values}
        followed: dict[int, list[int]] = {}
        for place, op in enumerate(ops):
            for value in _leads(op):
                if (number := of_value.get(value)) is not None:
                    followed.setdefault(number, []).append(place)
        dots = [(op, _ends(op)) for op in ops if op.name == DOT]
        turned = [op for op in ops if op.name == "stablehlo.transpose"]
        said = {op: _said(op) for op in ops if op.name in _SAID}
        return _SetsAlike(block, sets, of_value, ops, dots, turned, said, followed)

    def bytes_moved(self, number: int) -> int:
        """Bytes of the tensors of a set that others make, or read, in the order that they have now."""
        if number not in self.moved_bytes:
            values = self.sets[number]
            moved = (value for value in values if is_moved(value, self.block, MADE_AROUND_PRODUCTS, READ_AROUND_PRODUCTS))
            self.moved_bytes[number] = sum(map(size_bytes, moved))
        return self.moved_bytes[number]

    def has_products(self, value: SSAValue) -> bool:
        """Do products make or read some of the tensors that have the order of this one?"""
        number = self.of_value.get(value)
        if number is None:
            return False
        if number not in self.is_of_products:
            self.is_of_products[number] = any(_is_product(own) or _is_read_by_product(own) for own in self.sets[number])
        return self.is_of_products[number]


_SAID = {
    "stablehlo.reduce": "dimensions",
    "stablehlo.broadcast_in_dim": "broadcast_dimensions",
    "stablehlo.transpose": "permutation",
}


def _said(op: Operation) -> tuple[int, ...]:
    """The dimensions that an op names."""
    return tuple(int(d) for d in attributes_of(op)[_SAID[op.name]])


def _leads(op: Operation) -> Sequence[SSAValue]:
    """The tensors whose order an op takes to others."""
    match op.name:
        case "stablehlo.reduce":
            return (op.operands[0],)
        case "stablehlo.broadcast_in_dim":
            return (op.results[0],)
        case "stablehlo.transpose":
            return (op.operands[0], op.results[0])
        case _:
            return ()


@dataclass
class _Orders:
    """New orders of sets of tensors, by their number."""

    alike: _SetsAlike
    given: dict[int, Order] = field(default_factory=dict[int, Order])
    is_consistent: bool = True

    def give(self, value: SSAValue, order: Order) -> bool:
        """Says the order of a tensor and of those alike; is that new? What has few dimensions is transposed as it is read."""
        number = self.alike.of_value.get(value)
        if number is None or len(order) < LEAST_RANK:
            return False
        known = self.given.setdefault(number, order)
        self.is_consistent = self.is_consistent and known == order
        return known is order

    def order(self, value: SSAValue) -> Order | None:
        """The new order of a tensor, None if it keeps its own."""
        number = self.alike.of_value.get(value)
        return None if number is None else self.given.get(number)

    def spread(self) -> bool:
        """Follows reductions to what they make, and broadcasts to what they are of. Has no tensor two orders then, and can products
        make theirs?

        In turns over the block, in its order, of the ops that touch what has got an order alone.
        """
        told, later = 0, self._reached(0)
        while later and self.is_consistent:
            turn, later = sorted(later), set[int]()
            while turn:
                told, place = len(self.given), heappop(turn)
                self._follow(self.alike.ops[place])
                for own in self._reached(told):
                    if own > place:
                        heappush(turn, own)
                    else:
                        later.add(own)
        found = ((ends, order) for op, ends in self.alike.dots if (order := self.order(op.results[0])))
        return self.is_consistent and all(_makes(ends, order) for ends, order in found)

    def _reached(self, told: int) -> set[int]:
        """The places of the ops that touch what has got an order, but for the first sets that have."""
        return {place for number in list(self.given)[told:] for place in self.alike.followed.get(number, ())}

    def _follow(self, op: Operation) -> None:
        """Gives tensors an order by an op."""
        if op.name == "stablehlo.reduce" and (order := self.order(op.operands[0])):
            dims = self.alike.said[op]
            left = [d for d in range(len(order)) if d not in dims]
            for value in op.results:
                self.give(value, tuple(left.index(d) for d in order if d in left))
        if op.name == "stablehlo.broadcast_in_dim" and (order := self.order(op.results[0])):
            places = [order.index(d) for d in self.alike.said[op]]
            self.give(op.operands[0], tuple(sorted(range(len(places)), key=places.__getitem__)))
        if op.name == "stablehlo.transpose":
            source, result, permutation = op.operands[0], op.results[0], self.alike.said[op]
            if (order := self.order(result)) and self.alike.has_products(source):
                self.give(source, tuple(permutation[d] for d in order))
            elif (order := self.order(source)) and self.alike.has_products(result):
                self.give(result, tuple(permutation.index(d) for d in order))

    def turned_bytes(self) -> float:
        """Bytes of what transposes make that are none now."""
        found = 0
        for op in self.alike.turned:
            source, result = self.order(op.operands[0]), self.order(op.results[0])
            if (source or result) and (permutation := self.alike.said[op]):
                new = [permutation[d] for d in result or range(len(permutation))]
                found += size_bytes(op.results[0]) * (new == list(source or range(len(permutation))))
        return found

    def moved_bytes(self) -> float:
        """Bytes of the transposes of tensors that others make, or read, in the order that they have now."""
        return MOVED * sum(map(self.alike.bytes_moved, self.given))

    def of_values(self) -> dict[SSAValue, Order]:
        """The new order of each tensor."""
        return {value: order for number, order in self.given.items() for value in self.alike.sets[number]}


def _ends(dot: Operation) -> tuple[int, ...]:
    """Where the batches of a product's result end, the dimensions of one side, and those of the other; behind where they begin."""
    batches, _, added, _ = numbers_of(attributes_of(dot))
    return 0, len(batches), len(shape_of(dot.operands[0])) - len(added), len(shape_of(dot.results[0]))


def _makes(ends: tuple[int, ...], order: Order) -> bool:
    """Can a product make its result in an order: batches, then the dimensions of one side, then those of the other?"""
    return all(sorted(order[a:b]) == list(range(a, b)) for a, b in pairwise(ends))
