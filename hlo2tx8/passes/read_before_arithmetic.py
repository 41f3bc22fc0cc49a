"""Pass read-before-arithmetic: a few elements of what is computed of a tensor are computed of as few elements of it.

Before:
    %0 = subtract %x, (broadcast %m, dims = [0])                 [2048, 8192]
    %1 = hlo.read_at %0, %i                                      [2048]

After:
    %a = hlo.read_at %x, %i                                      [2048]
    %1 = subtract %a, %m

So the whole of %0 is not needed in memory: a loss reads the logarithm of one probability of thousands. Arithmetic, constants and
broadcasts are read early; what they are of must be in memory anyway, or is there for the second time.
"""

from dataclasses import dataclass, field
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.hlo import FusionOp, LiteralAttr
from hlo2tx8.dialects.hlo_indexed import ReadAtOp, place_properties
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.indexing import Const, Dim
from hlo2tx8.partitioner.equal_ops import erase_unread
from hlo2tx8.partitioner.instruction import has_plain_tensors, is_elementwise, shape_of

READ_AT = "hlo.read_at"
FEWER = 8
"""Elements of a tensor for each that is read, at least."""
MOST_READ = 2
"""Tensors of the whole size that are read in the place of one."""
MOST_OPS = 32


@dataclass(frozen=True)
class ReadBeforeArithmeticPass(ModulePass):
    """Rewrites such reads; see the module docstring."""

    name = "read-before-arithmetic"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        blocks: dict[Block, None] = {}
        for read in ops_named(op, (READ_AT,)):
            if isinstance(read.parent_op(), FusionOp) or not has_plain_tensors(read) or read.parent is None:
                continue
            early = _EarlyRead(read)
            if early.is_worth_it():
                blocks[read.parent] = None
                early.replace(early.read(read.operands[0]))
        for block in blocks:
            erase_unread(block)


@dataclass
class _EarlyRead(Expansion):
    """Builds what a read of arithmetic becomes, in front of it."""

    done: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def is_worth_it(self) -> bool:
        """Is it arithmetic of few tensors that is read, a small part of it, and are these tensors in memory, or need it not be?"""
        source, shape = self.op.operands[0], shape_of(self.op.results[0])
        if not self._is_arithmetic(source) or FEWER * prod(shape) > prod(shape_of(source)):
            return False
        seen: dict[SSAValue, None] = {}
        stack = [source]
        while stack and len(seen) <= MOST_OPS:
            value = stack.pop()
            if value not in seen and self._is_arithmetic(value):
                stack += self._owner(value).operands
            seen[value] = None
        whole = [v for v in seen if scalar_of(v) is None and not self._is_arithmetic(v) and not self._is_broadcast(v)]
        is_only_read = all(use.operation.name == READ_AT for use in source.uses)
        in_memory = all(isinstance(value, BlockArgument) or len(list(value.uses)) > 1 for value in whole)
        return len(seen) <= MOST_OPS and len(whole) <= MOST_READ and (is_only_read or in_memory)

    def _is_arithmetic(self, value: SSAValue) -> bool:
        """Is a value computed element by element of tensors of its own shape, in the same block?"""
        owner, shape = value.owner, shape_of(value)
        if not isinstance(owner, Operation) or owner.parent is not self.op.parent or not has_plain_tensors(owner):
            return False
        is_one = len(owner.results) == 1 and has_spec(owner.name) and is_elementwise(owner)
        return is_one and all(shape_of(operand) == shape for operand in owner.operands)

    def _is_broadcast(self, value: SSAValue) -> bool:
        owner = value.owner
        return isinstance(owner, Operation) and owner.name == "stablehlo.broadcast_in_dim" and has_plain_tensors(owner)

    def _owner(self, value: SSAValue) -> Operation:
        assert isinstance(value.owner, Operation)
        return value.owner

    def read(self, value: SSAValue) -> SSAValue:
        """The elements of a value that the read is of."""
        if value not in self.done:
            type_ = self.like(value, shape_of(self.op.results[0]))
            if (element := scalar_of(value)) is not None:
                scalar = self.emit("constant", [], self.like(value, ()), value=LiteralAttr.from_array(element))
                self.done[value] = self.emit("broadcast_in_dim", [scalar], type_, broadcast_dimensions=int_array(()))
            elif self._is_arithmetic(value):
                owner = self._owner(value)
                operands = [self.read(operand) for operand in owner.operands]
                new = type(owner).create(operands=operands, result_types=[type_], properties=dict(owner.properties))
                self.done[value] = self.insert(new).results[0]
            elif self._is_broadcast(value):
                self.done[value] = self._of_broadcast(self._owner(value), type_)
            else:
                new = ReadAtOp([value, *self.op.operands[1:]], [type_], dict(self.op.properties))
                self.done[value] = self.insert(new).results[0]
        return self.done[value]

    def _of_broadcast(self, broadcast: Operation, type_: TensorType[Attribute]) -> SSAValue:
        """The elements of a broadcast: those of its source, at the run-time indices that are along its dimensions."""
        (source,), dims = broadcast.operands, [int(d) for d in attributes_of(broadcast)["broadcast_dimensions"]]
        place, shape = IndexedAccess.of(attributes_of(self.op)), shape_of(source)
        along = {dim: own for own, dim in enumerate(dims) if shape[own] > 1}
        map = place.map.with_results(tuple(place.map.results[d] if d in along else Const(0) for d in dims))
        moved = [k for k, dim in enumerate(place.dims) if dim in along]
        if moved:
            maps, rooms = [place.index_maps[k] for k in moved], [place.rooms[k] for k in moved]
            properties = place_properties(map, maps, [along[place.dims[k]] for k in moved], rooms)
            indices = [self.op.operands[1 + k] for k in moved]
            return self.insert(ReadAtOp([source, *indices], [type_], properties)).results[0]
        kept = [expr.index for expr, size in zip(map.results, shape, strict=True) if isinstance(expr, Dim) and size > 1]
        sizes = [size for size in shape if size > 1]
        if kept != sorted(set(kept)) or [type_.get_shape()[d] for d in kept] != sizes:
            return self.view(source, map)
        return self.emit("broadcast_in_dim", [self.reshaped(source, sizes)], type_, broadcast_dimensions=int_array(kept))
