"""A dimension whose elements are those of several parts in turn, and such a part of a value, made of the parts of what makes it.

%w = reshape (concatenate %a, %b along 1 : [2048, 2, 4096])     [4096, 4096], cut along 0 into 2: part 1 of %w is %b
%c = convert %w                                                 part 1 of %c is convert %b
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.ir import i64_attr
from hlo2tx8.partitioner.instruction import kind_of, shape_of
from hlo2tx8.passes.rules.fold_constants import fold_constants

CONSTANT, IOTA, RESHAPE, TRANSPOSE, BROADCAST, CONCATENATE = (
    f"stablehlo.{name}" for name in ("constant", "iota", "reshape", "transpose", "broadcast_in_dim", "concatenate")
)


@dataclass(frozen=True)
class Cut:
    """Element (a * count + j) * inner + b of dimension `dim` is one of part j."""

    dim: int
    count: int
    inner: int

    def outer(self, shape: Sequence[int]) -> int:
        """How often the parts take turns in a tensor of that shape."""
        return shape[self.dim] // (self.count * self.inner)

    def of_part(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a part."""
        return (*shape[: self.dim], shape[self.dim] // self.count, *shape[self.dim + 1 :])

    def reshaped(self, shape: Sequence[int], other: Sequence[int]) -> "Cut | None":
        """The same parts of the elements in another shape, if they are parts along one of its dimensions."""
        stride = self.inner * prod(shape[self.dim + 1 :])
        for dim, size in enumerate(other):
            own = prod(other[dim + 1 :])
            if stride % own == 0 and size % (stride // own * self.count) == 0:
                return Cut(dim, self.count, stride // own)
        return None

    def behind(self, op: Operation) -> "Cut | None":
        """The same parts of what an op gives of a value that is cut so, its operand with as many elements."""
        if op.name == TRANSPOSE:
            order = tuple(attributes_of(op)["permutation"])
            return Cut(order.index(self.dim), self.count, self.inner)
        if keeps_elements(op):
            return self.reshaped(shape_of(op.operands[0]), shape_of(op.results[0]))
        return self if kind_of(op) is Kind.ELEMENTWISE else None


@dataclass
class CutParts:
    """Makes parts of values in front of an op."""

    e: Expansion
    known: dict[tuple[SSAValue, Cut, int], SSAValue] = field(default_factory=dict[tuple[SSAValue, Cut, int], SSAValue])

    def of(self, value: SSAValue, cut: Cut, number: int) -> SSAValue:
        """One part of a value."""
        key = (value, cut, number)
        if key not in self.known:
            self.known[key] = self._made(value, cut, number)
        return self.known[key]

    def _made(self, value: SSAValue, cut: Cut, number: int) -> SSAValue:
        e, op = self.e, value.owner
        type_ = e.like(value, cut.of_part(shape_of(value)))
        if not isinstance(op, Operation) or not has_spec(op.name) or len(op.results) != 1:
            return self._taken(value, cut, number)
        if (scalar := scalar_of(value)) is not None:
            return e.emit("constant", [], type_, value=LiteralAttr.from_array(scalar))
        is_apart = cut.inner == cut.outer(shape_of(value)) == 1
        if op.name == IOTA and is_apart and int(attributes_of(op)["iota_dimension"]) == cut.dim:
            return e.splat(number, type_)
        if op.name == CONCATENATE and (found := _operand_of(op, cut, number)) is not None:
            return self._reshaped(found, type_.get_shape())
        if op.name == BROADCAST and not adds_dimensions(op):
            return self._repeated(op, type_, cut, number)
        if op.name == TRANSPOSE:
            order = tuple(attributes_of(op)["permutation"])
            return e.same(op, [self.of(op.operands[0], Cut(order[cut.dim], cut.count, cut.inner), number)], type_)
        if keeps_elements(op) and (own := cut.reshaped(shape_of(value), shape_of(op.operands[0]))) is not None:
            return self._reshaped(self.of(op.operands[0], own, number), type_.get_shape())
        if op.operands and kind_of(op) is Kind.ELEMENTWISE:
            shapes = {shape_of(operand) for operand in op.operands}
            if shapes == {shape_of(value)}:
                found = e.same(op, [self.of(operand, cut, number) for operand in op.operands], type_)
                folded = fold_constants(found.owner) if isinstance(found.owner, Operation) else None
                return found if folded is None else folded
        return self._taken(value, cut, number)

    def _reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The elements in another shape, by one op."""
        while isinstance(op := value.owner, Operation) and keeps_elements(op):
            value = op.operands[0]
        return self.e.reshaped(value, shape)

    def _repeated(self, op: Operation, type_: TensorType, cut: Cut, number: int) -> SSAValue:
        """A part of a broadcast."""
        value, dims = op.operands[0], tuple(attributes_of(op)["broadcast_dimensions"])
        if cut.dim in dims and shape_of(value)[dims.index(cut.dim)] > 1:
            value = self.of(value, Cut(dims.index(cut.dim), cut.count, cut.inner), number)
        if prod(shape_of(value)) == prod(type_.get_shape()) and list(dims) == sorted(dims):
            return self._reshaped(value, type_.get_shape())
        return self.e.same(op, [value], type_)

    def _taken(self, value: SSAValue, cut: Cut, number: int) -> SSAValue:
        """A part of what is there: parts that take turns are put behind each other first."""
        e, shape, outer = self.e, shape_of(value), cut.outer(shape_of(value))
        before, behind = shape[: cut.dim], shape[cut.dim + 1 :]
        if outer > 1:
            apart = e.reshaped(value, (*before, outer, cut.count, cut.inner, *behind))
            places = range(len(before) + 3 + len(behind))
            first = len(before) + 1
            key = (value, cut, -1)
            if key not in self.known:
                self.known[key] = e.transpose(apart, [first, *(place for place in places if place != first)])
            one = e.sliced(self.known[key], 0, number, number + 1)
        else:
            one = e.sliced(value, cut.dim, number * cut.inner, (number + 1) * cut.inner)
        return e.reshaped(one, cut.of_part(shape))


def adds_dimensions(op: Operation) -> bool:
    """Is it a broadcast that repeats nothing, and keeps the order?"""
    if op.name != BROADCAST or prod(shape_of(op.operands[0])) != prod(shape_of(op.results[0])):
        return False
    dims = list(attributes_of(op)["broadcast_dimensions"])
    return dims == sorted(dims)


def keeps_elements(op: Operation) -> bool:
    """Does it give the same elements in the same order?"""
    return op.name == RESHAPE or adds_dimensions(op)


def _operand_of(op: Operation, cut: Cut, number: int) -> SSAValue | None:
    """The operand of a concatenation that is a part."""
    dim, sizes = int(attributes_of(op)["dimension"]), [shape_of(value)[cut.dim] for value in op.operands]
    if dim != cut.dim or cut.outer(shape_of(op.results[0])) != 1 or set(sizes) != {cut.inner}:
        return None
    return op.operands[number]


def joined(e: Expansion, parts: Sequence[SSAValue], cut: Cut, shape: Sequence[int]) -> SSAValue:
    """The value that has these parts."""
    outer = cut.outer(shape)
    split = (*shape[: cut.dim], outer, 1, cut.inner, *shape[cut.dim + 1 :])
    wide = (*shape[: cut.dim], outer, cut.count, cut.inner, *shape[cut.dim + 1 :])
    apart = [e.reshaped(part, split) for part in parts]
    return e.reshaped(e.emit("concatenate", apart, e.like(parts[0], wide), dimension=i64_attr(cut.dim + 1)), shape)
