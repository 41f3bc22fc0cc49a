"""Builds what a scatter becomes, in front of it: its updates and their places as tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType, i1, i32
from xdsl.ir import SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import Array, scalar_of
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.hlo.types import is_unsigned
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap
from hlo2tx8.passes.updates.walk import UpdateWalk, component


@dataclass
class Updates(Expansion):
    """The updates of a scatter that walks so."""

    walk: UpdateWalk

    def constant(self, element: Array, shape: Sequence[int]) -> SSAValue:
        """A tensor of the scatter's elements that are all the same."""
        return self.emit("constant", [], self.like(self.op.results[0], shape), value=LiteralAttr.from_array(element))

    def updates(self, count: int) -> SSAValue | Array:
        """Of all lines, with `count` updates each; if all are the same, the element."""
        updates = self.op.operands[1]
        if (scalar := scalar_of(updates)) is not None:
            return scalar
        lines, _, columns = self.walk.shape
        turned = self.transpose(updates, [d for dims in self.walk.order for d in dims]) if self.walk.is_turned else updates
        if not (missing := count - self.walk.num_updates):
            return turned
        turned = self.reshaped(turned, (lines, self.walk.num_updates, columns))
        return self.pad(turned, self.splat(0, self.like(updates, ())), (0, 0, 0), (0, missing, 0), (0, 0, 0))

    def places(self) -> SSAValue:
        """s32 [lines, updates], in some shape; those that are none are outside."""
        found = [self._index(number) for number in self.walk.moved]
        if len(found) == 1:
            return found[0]
        total, outside = None, None
        for index, size in zip(found, self.walk.sizes[1], strict=True):
            total = index if total is None else self.emit("add", [self._times(total, size), index], index.type)
            for direction, limit in (("LT", 0), ("GE", size)):
                type_ = TensorType(i1, as_tensor(index.type).get_shape())
                is_outside = self.compared(direction, index, self.splat(limit, as_tensor(index.type)), type_)
                outside = is_outside if outside is None else self.emit("or", [outside, is_outside], type_)
        assert total is not None and outside is not None
        return self.emit("select", [outside, self.splat(-1, as_tensor(total.type)), total], total.type)

    def _times(self, index: SSAValue, size: int) -> SSAValue:
        return self.emit("multiply", [index, self.splat(size, as_tensor(index.type))], index.type)

    def compared(self, direction: str, a: SSAValue, b: SSAValue, type_: TensorType[IntegerType]) -> SSAValue:
        """Is each element of one tensor so to that of another, EQ or LT say?"""
        return self.emit("compare", [a, b], type_, comparison_direction=StringAttr(direction))

    def _index(self, number: int) -> SSAValue:
        """An index of all updates, s32, in some shape; the same for all indices if there are several."""
        place = IndexedAccess.of(attributes_of(self.op))
        value, at = component(self.op.operands[2 + number], place.index_maps[number].results)
        lines, walked, _ = self.walk.order
        dims = [*lines, *walked]
        sizes = [tensor_like(self.op.operands[1].type).shape[d] for d in dims]
        own: list[Expr] = [Const(0)] * (max(dims, default=0) + 1)
        for position, dim in enumerate(dims):
            own[dim] = Dim(position)
        exprs = [expr.substitute(own, ()) for expr in at]
        wanted = [Dim(position) for position, size in enumerate(sizes) if size > 1]
        read = [expr for expr, size in zip(exprs, tensor_like(value.type).shape, strict=True) if size > 1]
        if read != wanted:
            value = self.view(value, IndexingMap.from_shape(exprs, sizes))
        limited = self._limited(value, place.rooms[number] + 1)
        return limited if len(self.walk.moved) == 1 else self.reshaped(limited, (self.walk.shape[0], self.walk.num_updates))

    def _limited(self, value: SSAValue, size: int) -> SSAValue:
        """As s32; an index that may be none of it is limited to -1, `size` before."""
        type_ = as_tensor(value.type)
        dtype = tensor_like(value.type).dtype
        if dtype.itemsize >= 4 and is_unsigned(dtype):
            value = self.emit("minimum", [value, self.splat(size, type_)], type_)
        elif dtype.itemsize > 4:
            value = self.emit("clamp", [self.splat(-1, self.like(value, ())), value, self.splat(size, self.like(value, ()))], type_)
        return self.converted(value, i32)
