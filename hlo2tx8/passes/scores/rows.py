"""What is known of each row of scores, in one shape: [*batches, rows], whichever dimensions of size 1 the module has it with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.partitioner.instruction import is_elementwise, shape_of


@dataclass(frozen=True)
class ScoreRows:
    """Builds instructions on scores with such rows in front of an op."""

    e: Expansion
    shape: tuple[int, ...]

    def made(self, op: Operation, known: Mapping[SSAValue, SSAValue]) -> SSAValue:
        """The result of an instruction on values that are `known` anew, those of rows in that shape."""
        (result,) = op.results
        if op.name == "stablehlo.broadcast_in_dim" and op.operands[0] in known and self.are_spread(op):
            return self.spread(known[op.operands[0]], op)
        if prod(shape_of(result)) != prod(self.shape) or not any(value in known for value in op.operands):
            return self._copied(op, known)
        if op.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
            return self.of(known[op.operands[0]])
        if not is_elementwise(op):
            return self.of(self._copied(op, known))
        operands = [self.of(known.get(value, value)) for value in op.operands]
        types = [self.e.like(result, self.shape)]
        new = op.create(operands=operands, result_types=types, properties=op.properties, attributes=op.attributes)
        return self.e.insert(new).results[0]

    def of(self, value: SSAValue) -> SSAValue:
        """A value with an element per row in the shape of rows."""
        return in_shape(self.e, value, self.shape)

    def _copied(self, op: Operation, known: Mapping[SSAValue, SSAValue]) -> SSAValue:
        """The result of the same instruction on values anew, in the shapes that it reads them in."""
        given = {value: in_shape(self.e, known[value], shape_of(value)) for value in op.operands if value in known}
        return self.e.insert(op.clone(given)).results[0]

    def are_spread(self, op: Operation) -> bool:
        """Does a broadcast repeat each row's element along the columns, and nothing else?"""
        (source,), (result,) = op.operands, op.results
        dims = zip(attributes_of(op)["broadcast_dimensions"], shape_of(source), strict=True)
        moving = [int(dim) for dim, size in dims if size != 1]
        wanted = [dim for dim, size in enumerate(self.shape) if size != 1]
        return shape_of(result)[:-1] == self.shape and prod(shape_of(source)) == prod(self.shape) and moving == wanted

    def spread(self, value: SSAValue, op: Operation, *, is_turned: bool = False) -> SSAValue:
        """A value of each row along the columns of what a broadcast gives, or of that with rows and columns exchanged."""
        *batches, rows, columns = shape_of(op.results[0])
        shape = [*batches, *((columns, rows) if is_turned else (rows, columns))]
        dims = int_array([*range(len(batches)), len(batches) + is_turned])
        return self.e.emit("broadcast_in_dim", [self.of(value)], self.e.like(op.results[0], shape), broadcast_dimensions=dims)


def in_shape(e: Expansion, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """The same elements in another shape, if it is one."""
    return value if shape_of(value) == tuple(shape) else e.emit("reshape", [value], e.like(value, shape))
