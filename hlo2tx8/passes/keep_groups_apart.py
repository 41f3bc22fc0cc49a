"""Pass keep-groups-apart: scores whose heads are counted in one dimension have those of a group in a dimension of their own.

Before:                                                      After:
    %0 = dot_general %q, %k     [4, 2, 1024, 1024]               %0 = dot_general %q, %k     [4, 2, 1024, 1024]
    %1 = reshape %0             [8, 1024, 1024]
    %2 = reduce max %1          [8, 1024]                        %2 = reduce max %0          [4, 2, 1024]
    ... all of softmax                                           ... all of softmax
    %8 = reshape %7             [4, 2, 1024, 1024]
    %9 = dot_general %8, %v                                      %9 = dot_general %7, %v

Queries that share keys have two dimensions of heads in both products. Between a reshape that makes one of them and one that takes
it apart again nothing needs them together; rows of scores go from one product to the next then. Ops that are computed so are
arithmetic, broadcasts, transposes and reductions over other dimensions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.partitioner.equal_ops import erase_unread
from hlo2tx8.partitioner.instruction import has_plain_tensors, is_elementwise, shape_of

DOT, RESHAPE, TRANSPOSE, BROADCAST, REDUCE = (
    f"stablehlo.{name}" for name in ("dot_general", "reshape", "transpose", "broadcast_in_dim", "reduce")
)
MOST_STEPS = 24
"""Instructions between a product and such a reshape, or behind one of the other kind."""


@dataclass(frozen=True)
class KeepGroupsApartPass(ModulePass):
    """Rewrites what is between two such reshapes; see the module docstring."""

    name = "keep-groups-apart"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for reshape in ops_named(op, (RESHAPE,)):
            if (block := reshape.parent) is None or (dim := _joined(reshape)) is None or not _is_product(reshape.operands[0]):
                continue
            scores = _Scores.of(reshape, dim)
            if scores is not None:
                scores.rewrite()
                erase_unread(block)


def _joined(reshape: Operation) -> int | None:
    """The dimension of a result that two of the operand are; None if a reshape does anything else."""
    before, after = shape_of(reshape.operands[0]), shape_of(reshape.results[0])
    if len(before) != len(after) + 1 or not has_plain_tensors(reshape):
        return None
    places = range(len(after))
    return next((d for d in places if (*before[:d], before[d] * before[d + 1], *before[d + 2 :]) == after), None)


def _is_product(value: SSAValue) -> bool:
    """Is it a product with batches, or what is made of one by arithmetic and in another order?"""
    for _ in range(MOST_STEPS):
        op = value.owner
        if not isinstance(op, Operation) or not has_spec(op.name):
            return False
        if op.name == DOT:
            return True
        if op.name != TRANSPOSE and not is_elementwise(op):
            return False
        value = op.operands[0]
    return False


def _is_arithmetic(op: Operation) -> bool:
    """Is an element of the result made of those of the operands at the same index, or of one number?"""
    is_alike = all(shape_of(value) in ((), shape_of(op.results[0])) for value in op.operands)
    return is_alike and is_elementwise(op) and not op.regions


def _order_of_units(before: Sequence[int], after: Sequence[int]) -> list[int] | None:
    """The order of dimensions that makes one shape of another by moving only those of size 1; None if that does not."""
    ones, others = ([dim for dim, size in enumerate(before) if (size == 1) is is_one] for is_one in (True, False))
    if len(before) != len(after) or [before[dim] for dim in others] != [size for size in after if size != 1]:
        return None
    left = {True: iter(ones), False: iter(others)}
    return [next(left[size == 1]) for size in after]


def _read(dot: Operation, side: int, value: SSAValue, order: Sequence[int]) -> None:
    """Makes a product read a value instead of that with its dimensions in another order, if its result is the same."""
    numbers = list(numbers_of(attributes_of(dot)))
    own = (side, 2 + side)
    free = [order[d] for d in range(len(order)) if all(d not in numbers[of] for of in own)]
    if free != sorted(free):
        return
    for of in own:
        numbers[of] = tuple(order[d] for d in numbers[of])
    dot.operands[side] = value
    dot.properties["dot_dimension_numbers"] = dot_numbers(numbers[0], numbers[1], numbers[2], numbers[3])


@dataclass
class _Scores:
    """What is made of the result of a reshape that joins dimensions of these two sizes: of each value where they are (`dims`); the
    `ops` that make it, and those at the end (`ends`), which take the dimension apart again."""

    reshape: Operation
    sizes: tuple[int, int]
    dims: dict[SSAValue, int]
    ops: list[Operation] = field(default_factory=list[Operation])
    ends: list[Operation] = field(default_factory=list[Operation])

    @staticmethod
    def of(reshape: Operation, dim: int) -> "_Scores | None":
        """Found from the first reshape on; None if somebody reads heads that are counted in one dimension."""
        shape, block = shape_of(reshape.operands[0]), reshape.parent_block()
        found = _Scores(reshape, (shape[dim], shape[dim + 1]), {reshape.results[0]: dim})
        op = reshape.next_op
        while op is not None:
            if any(value in found.dims for value in op.operands) and not found._take(op):
                return None
            op = op.next_op
        readers = [use.operation for value in found.dims for use in value.uses]
        is_here = all(op.parent is block for op in readers)
        return found if found.ends and is_here and any(op.name == REDUCE for op in found.ops) else None

    def _take(self, op: Operation) -> bool:
        """Adds an op that reads some of the values; False if it cannot be computed with the dimensions apart."""
        if not has_spec(op.name) or len(op.results) != 1 or not has_plain_tensors(op):
            return False
        (result,), source = op.results, next(value for value in op.operands if value in self.dims)
        dim = self.dims[source]
        if op.name == RESHAPE and _order_of_units(self.apart(shape_of(source), dim), shape_of(result)) is not None:
            self.ends.append(op)
            return True
        place = self._place(op, source, dim)
        if place is None:
            return False
        self.dims[result] = place
        self.ops.append(op)
        return True

    def _place(self, op: Operation, source: SSAValue, dim: int) -> int | None:
        """Where an op's result has the dimension, None if it has not."""
        if _is_arithmetic(op):
            return dim if all(self.dims.get(value, dim) == dim for value in op.operands) else None
        if op.name == TRANSPOSE:
            return [int(d) for d in attributes_of(op)["permutation"]].index(dim)
        if op.name == BROADCAST:
            place = int(attributes_of(op)["broadcast_dimensions"][dim])
            return place if shape_of(op.results[0])[place] == shape_of(source)[dim] else None
        if op.name == REDUCE and len(op.operands) == 2 and source is op.operands[0]:
            reduced = [int(d) for d in attributes_of(op)["dimensions"]]
            return dim - sum(d < dim for d in reduced) if dim not in reduced else None
        return None

    def apart(self, shape: Sequence[int], dim: int) -> tuple[int, ...]:
        """A shape with two dimensions for one."""
        return (*shape[:dim], *self.sizes, *shape[dim + 1 :])

    def rewrite(self) -> None:
        """Computes all with the dimensions apart."""
        made: dict[SSAValue, SSAValue] = {self.reshape.results[0]: self.reshape.operands[0]}
        for op in self.ops:
            made[op.results[0]] = self._computed(op, made)
        for end in self.ends:
            e, value = Expansion(end), made[end.operands[0]]
            order = _order_of_units(shape_of(value), shape_of(end.results[0]))
            assert order is not None
            for use in tuple(end.results[0].uses):
                if use.operation.name == DOT:
                    _read(use.operation, use.index, value, order)
            if end.results[0].first_use is None:
                Rewriter.erase_op(end)
            else:
                e.replace(e.transpose(value, order))
        for op in (*reversed(self.ops), self.reshape):
            Rewriter.erase_op(op)

    def _computed(self, op: Operation, made: dict[SSAValue, SSAValue]) -> SSAValue:
        e, (result,) = Expansion(op), op.results
        dim = self.dims[result]
        type_ = e.like(result, self.apart(shape_of(result), dim))
        first = op.operands[0]
        if op.name == TRANSPOSE:
            order = [int(d) for d in attributes_of(op)["permutation"]]
            old = self.dims[first]
            moved = [(d + (d > old),) if d != old else (d, d + 1) for d in order]
            return e.transpose(made[first], [d for own in moved for d in own])
        if op.name == BROADCAST:
            return self._broadcast(e, op, made[first], dim, self.dims[first])
        if op.name == REDUCE:
            old = self.dims[first]
            dims = [int(d) + (int(d) > old) for d in attributes_of(op)["dimensions"]]
            properties, region = {"dimensions": int_array(dims)}, op.regions[0].clone()
            return e.insert(stablehlo.OPS["reduce"]([made[first], op.operands[1]], [type_], properties, [region])).results[0]
        operands = [made[value] if value in made else self._split(e, value, dim) for value in op.operands]
        return e.same(op, operands, type_)

    def _split(self, e: Expansion, value: SSAValue, dim: int) -> SSAValue:
        """A value that is none of these with the dimensions apart: what is repeated along them is repeated so."""
        shape, owner = shape_of(value), value.owner
        if not shape:
            return value
        if (scalar := scalar_of(value)) is not None:
            return e.splat(scalar.item(), e.like(value, self.apart(shape, dim)))
        if isinstance(owner, Operation) and owner.name == BROADCAST and has_plain_tensors(owner):
            dims, source = [int(d) for d in attributes_of(owner)["broadcast_dimensions"]], owner.operands[0]
            if dim not in dims:
                return self._broadcast(e, owner, source, dim, None)
            if shape_of(source)[dims.index(dim)] == shape[dim]:
                return self._broadcast(e, owner, self._split(e, source, dims.index(dim)), dim, dims.index(dim))
        if isinstance(owner, Operation) and has_spec(owner.name) and _is_arithmetic(owner):
            operands = [self._split(e, own, dim) for own in owner.operands]
            return e.same(owner, operands, e.like(value, self.apart(shape, dim)))
        return e.reshaped(value, self.apart(shape, dim))

    def _broadcast(self, e: Expansion, op: Operation, source: SSAValue, dim: int, old: int | None) -> SSAValue:
        """A broadcast of a source, which has the dimensions apart if it had them as `old`; the result has them at `dim`."""
        dims = [int(d) for d in attributes_of(op)["broadcast_dimensions"]]
        moved = [(d + (d > dim),) if number != old else (dim, dim + 1) for number, d in enumerate(dims)]
        type_ = e.like(op.results[0], self.apart(shape_of(op.results[0]), dim))
        wanted = int_array([d for own in moved for d in own])
        return e.emit("broadcast_in_dim", [source], type_, broadcast_dimensions=wanted)
