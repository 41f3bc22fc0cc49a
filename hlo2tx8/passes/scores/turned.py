"""Scores turned: what is made of scores [*batches, rows, columns] as [*batches, columns, rows], of products with their operands
exchanged. What there is of each row is read as it is."""

from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.ir import i64_attr
from hlo2tx8.partitioner.instruction import is_elementwise, is_splat_constant, shape_of
from hlo2tx8.passes.scores.find import DOT, LITTLE, Scores
from hlo2tx8.passes.scores.rows import ScoreRows


class NotTurnedError(Exception):
    """A value that only a copy in memory would bring into the other order."""


@dataclass
class Turned:
    """Builds turned values of scores in front of an op; what turns others `in_memory`."""

    e: Expansion
    scores: Scores
    known: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    in_memory: list[Operation] = field(default_factory=list[Operation])

    def of(self, value: SSAValue) -> SSAValue:
        """The value with its last two dimensions exchanged. NotTurnedError if it, or what it is made of, is in memory as it is."""
        if value not in self.known:
            op = value.owner
            if not isinstance(op, Operation) or not self.scores.is_made_anew(value):
                raise NotTurnedError
            self.known[value] = self._made(op)
        return self.known[value]

    def _made(self, op: Operation) -> SSAValue:
        (result,) = op.results
        shape = shape_of(result)
        type_ = self.e.like(result, [*shape[:-2], shape[-1], shape[-2]])
        if op.name == DOT:
            return self._product(op, type_)
        if is_splat_constant(op) and (scalar := scalar_of(result)) is not None:
            return self.e.splat(scalar.item(), type_)
        if op.name == "stablehlo.iota":
            return self._iota(op, type_)
        if op.name == "stablehlo.broadcast_in_dim":
            return self._broadcast(op, type_)
        if is_elementwise(op) and all(shape_of(value) == shape for value in op.operands):
            operands = [self.of(value) for value in op.operands]
            new = op.create(operands=operands, result_types=[type_], properties=op.properties, attributes=op.attributes)
            return self.e.insert(new).results[0]
        raise NotTurnedError

    def _product(self, op: Operation, type_: TensorType[Attribute]) -> SSAValue:
        lhs_batch, rhs_batch, lhs_contract, rhs_contract = numbers_of(attributes_of(op))
        numbers = dot_numbers(rhs_batch, lhs_batch, rhs_contract, lhs_contract)
        return self.e.emit("dot_general", op.operands[::-1], type_, **{**op.properties, "dot_dimension_numbers": numbers})

    def _iota(self, op: Operation, type_: TensorType[Attribute]) -> SSAValue:
        dim = _exchanged(int(attributes_of(op)["iota_dimension"]), len(type_.get_shape()))
        return self.e.emit("iota", [], type_, iota_dimension=i64_attr(dim))

    def _broadcast(self, op: Operation, type_: TensorType[Attribute]) -> SSAValue:
        (source,), rank = op.operands, len(type_.get_shape())
        rows = ScoreRows(self.e, shape_of(op.results[0])[:-1])
        if rows.are_spread(op):
            return rows.spread(source, op, is_turned=True)
        dims = [int(dim) for dim in attributes_of(op)["broadcast_dimensions"]]
        kept, wanted = list(range(len(dims))), [_exchanged(dim, rank) for dim in dims]
        if wanted != sorted(wanted):  # what repeats may be in any order
            kept = [number for number in kept if shape_of(source)[number] != 1]
            wanted = [wanted[number] for number in kept]
        if wanted == sorted(wanted):
            inner = source
            if len(kept) < len(dims):
                inner = self.e.emit("reshape", [source], self.e.like(source, [shape_of(source)[number] for number in kept]))
        elif len(kept) == len(dims) and dims == sorted(dims):
            inner, wanted = self._turned_source(source, prod(type_.get_shape())), sorted(wanted)
        else:
            raise NotTurnedError
        return self.e.emit("broadcast_in_dim", [inner], type_, broadcast_dimensions=int_array(wanted))

    def _turned_source(self, source: SSAValue, size: int) -> SSAValue:
        """What a broadcast of that size repeats, turned; in memory if that is little."""
        shape = shape_of(source)
        if self.scores.is_made_anew(source) or prod(shape) * LITTLE > size:
            return self.of(source)
        turned = self.e.transpose(source, [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
        assert isinstance(turned.owner, Operation)
        self.in_memory.append(turned.owner)
        return turned


def _exchanged(dim: int, rank: int) -> int:
    """The number of a dimension after the last two have been exchanged."""
    return {rank - 1: rank - 2, rank - 2: rank - 1}.get(dim, dim)
