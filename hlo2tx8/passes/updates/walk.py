"""How a scatter walks over its operand, and what says where its updates go."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.hlo.types import integer_limits
from hlo2tx8.indexing import Const, Dim, Expr

LARGEST_INDEX = (1 << 31) - 1


@dataclass(frozen=True)
class UpdateWalk:
    """How a scatter walks over its operand: `sizes` of the operand's dimensions in front of those that `moved` says indices move
    along, of these, and of those behind; the updates' dimensions in `order`, which are of lines, of updates and of columns.
    """

    sizes: tuple[tuple[int, ...], ...]
    moved: tuple[int, ...]
    order: tuple[tuple[int, ...], ...]
    num_updates: int
    is_turned: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        before, places, behind = map(prod, self.sizes)
        return before, places, behind

    @staticmethod
    def of(op: Operation) -> "UpdateWalk | None":
        """None if an update may have a part of what is along a dimension, or indices move it along dimensions that are not side by
        side."""
        place = IndexedAccess.of(attributes_of(op))
        shape, updates = (tensor_like(value.type).shape for value in op.operands[:2])
        own: dict[int, int] = {}
        moved: list[int] = []
        for dim, (size, expr) in enumerate(zip(shape, place.map.results, strict=True)):
            numbers = [k for k, d in enumerate(place.dims) if d == dim]
            if numbers:
                k = numbers[0]
                if expr != Const(0) or place.rooms[k] != size - 1 or len(numbers) > 1:
                    return None
                expr = counted(op.operands[2 + k], place.index_maps[k].results)
            if isinstance(expr, Dim) and updates[expr.index] == size and expr.index not in own.values():
                own[dim] = expr.index
            elif numbers:
                moved.append(dim)
            elif size != 1 or expr != Const(0):
                return None
        if not moved or moved != list(range(moved[0], moved[-1] + 1)) or not 1 < prod(shape[d] for d in moved) < LARGEST_INDEX:
            return None
        before, behind = ([own[d] for d in own if (d < moved[0]) == is_before] for is_before in (True, False))
        walked = [d for d in range(len(updates)) if d not in own.values()]
        if any(isinstance(e, Dim) and e.index in behind for m in place.index_maps for e in m.results):
            return None
        order = [d for d in (*before, *walked, *behind) if updates[d] > 1]
        sizes = shape[: moved[0]], shape[moved[0] : moved[-1] + 1], shape[moved[-1] + 1 :]
        numbers = tuple(place.dims.index(dim) for dim in moved)
        dims = tuple(before), tuple(walked), tuple(behind)
        return UpdateWalk(sizes, numbers, dims, prod(updates[d] for d in walked), order != sorted(order))


def counted(value: SSAValue, at: Sequence[Expr]) -> Expr | None:
    """What an index equals that is a count."""
    value, at = component(value, at)
    owner, (shape, dtype) = value.owner, (tensor_like(value.type).shape, tensor_like(value.type).dtype)
    if not isinstance(owner, Operation) or owner.name != "stablehlo.iota":
        return None
    dim = int(attributes_of(owner)["iota_dimension"])
    return at[dim] if shape[dim] - 1 <= integer_limits(dtype)[1] else None


def component(value: SSAValue, at: Sequence[Expr]) -> tuple[SSAValue, Sequence[Expr]]:
    """Where the element of a tensor at some index comes from, and its index there."""
    while isinstance(owner := value.owner, Operation):
        if owner.name == "stablehlo.concatenate":
            dim = int(attributes_of(owner)["dimension"])
            if not isinstance(start := at[dim], Const):
                break
            position, before = start.value, 0
            for part in owner.operands:
                value, size = part, tensor_like(part.type).shape[dim]
                if position < before + size:
                    break
                before += size
            at = [Const(position - before) if d == dim else expr for d, expr in enumerate(at)]
        elif owner.name == "stablehlo.broadcast_in_dim":
            source, dims = owner.operands[0], attributes_of(owner)["broadcast_dimensions"]
            sizes = tensor_like(source.type).shape
            at = [Const(0) if n == 1 else at[int(d)] for d, n in zip(dims, sizes, strict=True)]
            value = source
        elif owner.name == "stablehlo.reshape":
            before, source = tensor_like(value.type).shape, owner.operands[0]
            kept = [(expr, n) for expr, n in zip(at, before, strict=True) if n > 1]
            shape = tensor_like(source.type).shape
            if [n for _, n in kept] != [n for n in shape if n > 1]:
                break
            exprs = iter([expr for expr, _ in kept])
            at = [next(exprs) if n > 1 else Const(0) for n in shape]
            value = source
        else:
            break
    return value, at
