"""Ops on tensors whose dimensions are in another order than before."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, conv_numbers, dot_numbers, int_array
from hlo2tx8.dialects.literal import ElementsAttr, LiteralAttr
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.convolution import numbers_of
from hlo2tx8.hlo.ops.dot import numbers_of as numbers_of_dot
from hlo2tx8.ir import i64_attr
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.passes.dimensions.alike import BY_DIMENSION, MADE_IN_ANY_ORDER, OF_DIMENSIONS, READ_IN_ANY_ORDER, alike, reads_in_order
from hlo2tx8.passes.dimensions.channels_last import Order
from hlo2tx8.passes.dimensions.scores import DOT, MADE_AROUND_PRODUCTS, READ_AROUND_PRODUCTS
from hlo2tx8.schedule.costs import size_bytes


def reorder(block: Block, orders: Mapping[SSAValue, Order], *, with_products: bool = False) -> None:
    """Gives the dimensions of these tensors their new order, and transposes what others make or read in the old one; products are
    such others, or make and read new orders too, and broadcasts read them."""
    makers, readers = (MADE_AROUND_PRODUCTS, READ_AROUND_PRODUCTS) if with_products else (MADE_IN_ANY_ORDER, READ_IN_ANY_ORDER)
    reordering, ops = _Reordering(orders, makers, readers), ops_of(block)
    reordering.take(block.args, Expansion(ops[0]))
    for op in ops:
        reordering.visit(op, block)
    for op in reversed(reordering.replaced):
        Rewriter.erase_op(op)


@dataclass
class _Reordering:
    """The new `orders` of tensors, by which a new dimension is an old one; ops that make and read tensors in any order; the tensors
    that took the place of others (`moved`), and the ops that have been `replaced`."""

    orders: Mapping[SSAValue, Order]
    makers: tuple[str, ...]
    readers: tuple[str, ...]
    moved: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    replaced: list[Operation] = field(default_factory=list[Operation])

    def take(self, values: Sequence[SSAValue], e: Expansion) -> None:
        """Transposes tensors that are made in the old order."""
        self.moved |= {value: e.transpose(value, self.orders[value]) for value in values if value in self.orders}

    def visit(self, op: Operation, block: Block) -> None:
        """Puts an op on reordered tensors in the place of one that reads or makes what has another order now."""
        own = [value for value in op.results if value in self.orders]
        reads = any(value in self.orders for value in op.operands)
        if own and not alike(op) and op.name not in self.makers:
            assert op.next_op is not None
            self.take(own, Expansion(op.next_op))
        elif own or (reads and op.name in self.readers):
            e = Expansion(op)
            for value, new in zip(tuple(op.results), _FORMS.get(op.name, _Reordering.rebuilt)(self, e, op), strict=True):
                if value not in self.orders:
                    value.replace_all_uses_with(new)
                    continue
                self.moved[value] = new
                if any(reads_in_order(use.operation, block, self.readers) for use in value.uses):
                    order = self.orders[value]
                    back = e.transpose(new, [order.index(d) for d in range(len(order))])
                    value.replace_uses_with_if(back, lambda use: reads_in_order(use.operation, block, self.readers))
            self.replaced.append(op)

    def now(self, value: SSAValue) -> SSAValue:
        """The tensor that took the place of another one."""
        return self.moved.get(value, value)

    def place(self, value: SSAValue, dimension: int) -> int:
        """Where an old dimension of a tensor is now."""
        return self.orders[value].index(dimension) if value in self.orders else dimension

    def type(self, value: SSAValue) -> TensorType[Attribute]:
        """The type of a tensor in its new order."""
        old = tensor_type(value)
        return TensorType(old.element_type, [old.get_shape()[d] for d in self.order(value)])

    def order(self, value: SSAValue) -> Sequence[int]:
        """The old dimensions of a tensor in their new order."""
        return self.orders.get(value, range(len(shape_of(value))))

    def rebuilt(self, e: Expansion, op: Operation) -> Sequence[SSAValue]:
        """An op all of whose tensors have the same order; it takes the regions of the old one."""
        properties, order = dict(op.properties), next(self.orders[value] for value in op.results if value in self.orders)
        for name in BY_DIMENSION.get(op.name, ()):
            if name in properties:
                properties[name] = _by_dimension(properties[name], order)
        if name := OF_DIMENSIONS.get(op.name):
            properties[name] = _dimensions(properties[name], order)
        return self._like(e, op, properties, [self.type(value) for value in op.results])

    def constant(self, e: Expansion, op: Operation) -> Sequence[SSAValue]:
        """A constant, whose elements lie in the new order."""
        literal = op.properties["value"]
        assert isinstance(literal, LiteralAttr)
        if literal.array.ndim:
            literal = LiteralAttr.from_array(literal.array.transpose(self.order(op.results[0])))
        return [e.emit("constant", [], self.type(op.results[0]), value=literal)]

    def iota(self, e: Expansion, op: Operation) -> Sequence[SSAValue]:
        """An iota along where its dimension is now."""
        along = self.place(op.results[0], int(attributes_of(op)["iota_dimension"]))
        return [e.emit("iota", [], self.type(op.results[0]), iota_dimension=i64_attr(along))]

    def broadcast(self, e: Expansion, op: Operation) -> Sequence[SSAValue]:
        """A broadcast of what has its dimensions in the order of the result's."""
        source, dims = op.operands[0], [int(d) for d in attributes_of(op)["broadcast_dimensions"]]
        places = [self.place(op.results[0], dims[d]) for d in self.order(source)]
        source = e.transpose(self.now(source), sorted(range(len(places)), key=places.__getitem__))
        return [e.emit("broadcast_in_dim", [source], self.type(op.results[0]), broadcast_dimensions=int_array(sorted(places)))]

    def transpose(self, e: Expansion, op: Operation) -> Sequence[SSAValue]:
        """A transpose from the order that is, to that which is wanted; what it reads itself if that is the same."""
        source, old = op.operands[0], [int(d) for d in attributes_of(op)["permutation"]]
        return [e.transpose(self.now(source), [self.place(source, old[d]) for d in self.order(op.results[0])])]

    def reduce(self, e: Expansion, op: Operation) -> Sequence[SSAValue]:
        """A reduction, and transposes of its results where dimensions that are left lie in another order than theirs."""
        source, dims = op.operands[0], [int(d) for d in attributes_of(op)["dimensions"]]
        left = [d for d in self.order(source) if d not in dims]
        old = [d for d in range(len(left) + len(dims)) if d not in dims]
        properties = {**op.properties, "dimensions": int_array(sorted(self.place(source, d) for d in dims))}
        types = [e.like(value, [shape_of(source)[d] for d in left]) for value in op.results]
        made = self._like(e, op, properties, types)
        pairs = zip(made, op.results, strict=True)
        return [e.transpose(new, [left.index(old[d]) for d in self.order(value)]) for new, value in pairs]

    def convolution(self, e: Expansion, op: Operation) -> Sequence[SSAValue]:
        """A convolution that says where the dimensions of its tensors are now."""
        (image, kernel), result, n = op.operands[:2], op.results[0], numbers_of(attributes_of(op))
        numbers = replace(
            n,
            input_batch_dimension=self.place(image, n.input_batch_dimension),
            input_feature_dimension=self.place(image, n.input_feature_dimension),
            input_spatial_dimensions=tuple(self.place(image, d) for d in n.input_spatial_dimensions),
            kernel_input_feature_dimension=self.place(kernel, n.kernel_input_feature_dimension),
            kernel_output_feature_dimension=self.place(kernel, n.kernel_output_feature_dimension),
            kernel_spatial_dimensions=tuple(self.place(kernel, d) for d in n.kernel_spatial_dimensions),
            output_batch_dimension=self.place(result, n.output_batch_dimension),
            output_feature_dimension=self.place(result, n.output_feature_dimension),
            output_spatial_dimensions=tuple(self.place(result, d) for d in n.output_spatial_dimensions),
        )
        return self._like(e, op, {**op.properties, "dimension_numbers": conv_numbers(numbers)}, [self.type(result)])

    def product(self, e: Expansion, op: Operation) -> Sequence[SSAValue]:
        """A product of what there is now. Where a side's rows have another order than those of the result, the smaller of both is
        transposed; and the smaller side where several dimensions that are added up lie in another order in it than in the other."""
        numbers, order, result = numbers_of_dot(attributes_of(op)), self.order(op.results[0]), op.results[0]
        large = max((0, 1), key=lambda side: size_bytes(op.operands[side]))
        pairs = sorted(zip(*numbers[2:], strict=True), key=lambda pair: self.place(op.operands[large], pair[large]))
        made = list(order[: len(numbers[0])])
        sides: list[SSAValue] = []
        found: list[list[int]] = [[], [], [], []]
        for side, value in enumerate(op.operands):
            batch, added = [numbers[side][d] for d in order[: len(numbers[0])]], [pair[side] for pair in pairs]
            rows = [d for d in range(len(shape_of(value))) if d not in (*batch, *added)]
            first = len(made)
            wanted = [rows[d - first] for d in order if first <= d < first + len(rows)]
            as_they_are = sorted(wanted, key=lambda d, value=value: self.place(value, d))
            places = [self.place(value, d) for d in added]
            is_apart = places != list(range(min(places, default=0), max(places, default=-1) + 1))
            is_turned = wanted != as_they_are and size_bytes(value) < size_bytes(result)
            if not is_turned:
                wanted = as_they_are
            if is_turned or (is_apart and side != large):
                now = [*batch, *wanted, *added]
                sides.append(e.transpose(self.now(value), [self.place(value, d) for d in now]))
            else:
                now = list(self.order(value))
                sides.append(self.now(value))
            found[side], found[2 + side] = [now.index(d) for d in batch], [now.index(d) for d in added]
            made += [first + rows.index(d) for d in wanted]
        properties = {**op.properties, "dot_dimension_numbers": dot_numbers(*found)}
        new = type(op).create(
            operands=sides, result_types=[e.like(result, [shape_of(result)[d] for d in made])], properties=properties
        )
        new.attributes |= op.attributes
        return [e.transpose(e.insert(new).results[0], [made.index(d) for d in order])]

    def _like(
        self, e: Expansion, op: Operation, properties: Mapping[str, Attribute], types: Sequence[Attribute]
    ) -> Sequence[SSAValue]:
        """An op on the tensors that there are now, with these properties and result types; it takes the regions of the old one."""
        operands, regions = [self.now(value) for value in op.operands], [op.detach_region(own) for own in tuple(op.regions)]
        new = type(op).create(operands=operands, result_types=types, properties=dict(properties), regions=regions)
        new.attributes |= op.attributes
        return e.insert(new).results


_FORMS: dict[str, Callable[[_Reordering, Expansion, Operation], Sequence[SSAValue]]] = {
    "stablehlo.broadcast_in_dim": _Reordering.broadcast,
    "stablehlo.constant": _Reordering.constant,
    "stablehlo.convolution": _Reordering.convolution,
    DOT: _Reordering.product,
    "stablehlo.iota": _Reordering.iota,
    "stablehlo.reduce": _Reordering.reduce,
    "stablehlo.transpose": _Reordering.transpose,
}
"""Ops whose tensors may each have an order of their own."""


def _by_dimension(given: Attribute, order: Order) -> Attribute:
    """A number, or a pair, for each dimension."""
    if isinstance(given, ElementsAttr):
        return ElementsAttr(LiteralAttr.from_array(given.array[list(order)]), given.type)
    assert isinstance(given, DenseArrayBase)
    values = given.get_values()
    return int_array([int(values[d]) for d in order])


def _dimensions(given: Attribute, order: Order) -> Attribute:
    """A dimension, or several."""
    if isinstance(given, DenseArrayBase):
        return int_array([order.index(int(d)) for d in given.get_values()])
    assert isinstance(given, IntegerAttr)
    return i64_attr(order.index(given.value.data))
