"""Pass offset-behind-scale: what is added to a product before it is scaled is scaled itself, and added behind.

Before:                                             After:
    %y = convolution(%x, %w)   [8, 56, 56, 64]          %y = convolution(%x, %w)
    %d = subtract %y, spread %mean                      %t = subtract %offset, (multiply %mean, %scale)    [64]
    %p = multiply %d, spread %scale                     %p = multiply %y, spread %scale
    %r = add %p, spread %offset                         %r = add %p, spread %t

A batch norm of a trained network takes two passes over all elements instead of three. Of products only: these have been rounded to
their type, or made of rounded factors, so that a difference of them is not exact anyway. Not in FP16, whose range a scaled mean
may leave.

`Options(reassociate=False)` leaves the pass out.
"""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float32Type, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import ops_inside, ops_named
from hlo2tx8.notes import add_notes
from hlo2tx8.partitioner.contraction import is_contraction
from hlo2tx8.partitioner.instruction import shape_of, tensor_type


@dataclass(frozen=True)
class OffsetBehindScalePass(ModulePass):
    """Scales offsets instead of adding them first; see the module docstring."""

    name = "offset-behind-scale"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes = [note for add in ops_named(op, ("stablehlo.add",)) if (note := _offset_behind(add)) is not None]
        if self.explain:
            add_notes(op, notes)


def _offset_behind(add: Operation) -> str | None:
    """Rewrites an addition of a scaled difference; a line about it."""
    if type(tensor_type(add.results[0]).element_type) not in (BFloat16Type, Float32Type):
        return None
    for scaled, offset in _both_ways(add):
        if scaled is None or not _is_alone(scaled, ("stablehlo.multiply",)):
            continue
        for moved, scale in _both_ways(scaled):
            if moved is None or not _is_alone(moved, ("stablehlo.subtract", "stablehlo.add")):
                continue
            mean = spread_of(moved.operands[1])
            if offset is None or scale is None or mean is None or not _is_product(moved.operands[0].owner):
                continue
            if not _are_alike(offset, scale, mean):
                continue
            e, wide, vector = Expansion(add), add.results[0].type, mean.operands[0].type
            by_itself = e.emit("multiply", [mean.operands[0], scale.operands[0]], vector)
            total = e.emit(moved.name.split(".")[1], [offset.operands[0], by_itself], vector)
            product = e.emit("multiply", [moved.operands[0], scale.results[0]], wide)
            e.replace(e.emit("add", [product, e.emit("broadcast_in_dim", [total], wide, **mean.properties)], wide))
            Rewriter.erase_op(scaled)
            Rewriter.erase_op(moved)
            return f"add of {prod(shape_of(product))} elements has the offset before its scale: reassociated"
    return None


def _both_ways(op: Operation) -> list[tuple[Operation | None, Operation | None]]:
    """What makes one operand, and the broadcast that the other one is, for each of two operands."""
    made = [value.owner if isinstance(value.owner, Operation) else None for value in op.operands]
    return [(made[number], spread_of(op.operands[1 - number])) for number in (0, 1)]


def spread_of(value: SSAValue) -> Operation | None:
    """The broadcast that a value is, of something smaller."""
    op = value.owner
    if not isinstance(op, Operation) or op.name != "stablehlo.broadcast_in_dim":
        return None
    return op if prod(shape_of(op.operands[0])) < prod(shape_of(value)) else None


def _are_alike(*spreads: Operation) -> bool:
    """Have all the same dimensions?"""
    first = spreads[0]
    return all(op.properties == first.properties and op.operands[0].type == first.operands[0].type for op in spreads)


def _is_alone(op: Operation, names: tuple[str, ...]) -> bool:
    """Is it such an operation, with one reader?"""
    return op.name in names and len(list(op.results[0].uses)) == 1


def _is_product(op: object) -> bool:
    """Is it a contraction, or what a convolution was expanded to?"""
    return isinstance(op, Operation) and (is_contraction(op) or any(map(is_contraction, ops_inside(op))))
