"""Pass drop-unit-dimensions: where a product has dimensions of size 1 beside others, its block is computed without any.

Before:
    %0 = dot_general %q, %k, contracting_dims = [4] x [3]        [4, 512, 12, 1, 64], [4, 512, 12, 64] -> [4, 12, 512, 1, 512]
    %1 = reshape %0                                              [1, 4, 12, 512, 512]
    %2 = maximum %1, %low

After:
    %a = reshape %q                                              [4, 512, 12, 64]
    %0 = dot_general %a, %k, contracting_dims = [3] x [3]        [4, 12, 512, 512]
    %2 = maximum %0, %low', and a reshape of it for whoever reads it as before

What is one matrix by matrix product for each batch is not recognised as that otherwise, nor its rows from one op to the next.
Arithmetic, broadcasts, moves, reductions and products are computed so; others read what they read before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.ir import i64_attr
from hlo2tx8.partitioner.equal_ops import erase_unread
from hlo2tx8.partitioner.instruction import has_plain_tensors, is_elementwise, shape_of

DOT = "stablehlo.dot_general"


@dataclass(frozen=True)
class DropUnitDimensionsPass(ModulePass):
    """Rewrites the blocks of functions and of their control flow that have such products; see the module docstring."""

    name = "drop-unit-dimensions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            blocks = [region.block for inner in nested_ops(function) if inner.name in CONTROL for region in inner.regions]
            for block in (function.body.block, *blocks):
                if any(inner.name == DOT and _is_mixed(inner) for inner in block.ops):
                    for inner in ops_of(block):
                        _drop(inner)
                    erase_unread(block)


def _is_mixed(dot: Operation) -> bool:
    """Has an operand a dimension of size 1 beside others that are contracted, or beside others that are not?"""
    numbers = numbers_of(attributes_of(dot))
    for side, value in enumerate(dot.operands):
        shape, contracted = shape_of(value), numbers[2 + side]
        free = [dim for dim in range(len(shape)) if dim not in (*numbers[side], *contracted)]
        if any({shape[dim] == 1 for dim in dims} == {True, False} for dims in (contracted, free)):
            return True
    return False


def _drop(op: Operation) -> None:
    """Puts an op without dimensions of size 1, and a reshape of its result, in the place of an op that has some."""
    if len(op.results) != 1 or not has_plain_tensors(op) or not any(1 in shape_of(value) for value in (*op.operands, *op.results)):
        return
    e = Expansion(op)
    new = _without(op, e)
    if new is not None:
        e.replace(new if new.type == op.results[0].type else e.emit("reshape", [new], op.results[0].type))


def _squeezed(value: SSAValue, e: Expansion, kept: Sequence[int] = ()) -> SSAValue:
    """A value without its dimensions of size 1, but for those `kept`."""
    shape = shape_of(value)
    wanted = tuple(size for dim, size in enumerate(shape) if size != 1 or dim in kept)
    if wanted == shape:
        return value
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "stablehlo.reshape" and shape_of(owner.operands[0]) == wanted:
        return owner.operands[0]
    if (scalar := scalar_of(value)) is not None and isinstance(owner, Operation) and owner.name == "stablehlo.constant":
        return e.splat(scalar.item(), e.like(value, wanted))
    return e.emit("reshape", [value], e.like(value, wanted))


def _places(shape: Sequence[int], kept: Sequence[int] = ()) -> dict[int, int]:
    """The numbers that the dimensions have without those of size 1."""
    return {dim: number for number, dim in enumerate(dim for dim, size in enumerate(shape) if size != 1 or dim in kept)}


def _without(op: Operation, e: Expansion) -> SSAValue | None:
    """The result of an op without dimensions of size 1; None of what is computed as it is."""
    (result,) = op.results
    shape = shape_of(result)
    places, small = _places(shape), e.like(result, [size for size in shape if size != 1])
    if is_elementwise(op) and not op.regions and all(shape_of(value) == shape for value in op.operands):
        operands = [_squeezed(value, e) for value in op.operands]
        new = op.create(operands=operands, result_types=[small], properties=op.properties, attributes=op.attributes)
        return e.insert(new).results[0]
    match op.name:
        case "stablehlo.reshape":
            source = _squeezed(op.operands[0], e)
            return source if source.type == small else e.emit("reshape", [source], small)
        case "stablehlo.iota" if (dim := int(attributes_of(op)["iota_dimension"])) in places:
            return e.emit("iota", [], small, iota_dimension=i64_attr(places[dim]))
        case "stablehlo.broadcast_in_dim":
            return _broadcast(op, e, places, small)
        case "stablehlo.transpose":
            order, before = [int(dim) for dim in attributes_of(op)["permutation"]], _places(shape_of(op.operands[0]))
            return e.transpose(_squeezed(op.operands[0], e), [before[dim] for dim in order if dim in before])
        case "stablehlo.reduce" if len(op.operands) == 2:
            return _reduce(op, e, small)
        case "stablehlo.dot_general":
            return _dot(op, e)
        case _:
            return None


def _broadcast(op: Operation, e: Expansion, places: dict[int, int], type_: TensorType[Attribute]) -> SSAValue | None:
    (source,), dims = op.operands, [int(dim) for dim in attributes_of(op)["broadcast_dimensions"]]
    wanted = [places[dim] for dim, size in zip(dims, shape_of(source), strict=True) if size != 1]
    value = _squeezed(source, e)
    return value if value.type == type_ else e.emit("broadcast_in_dim", [value], type_, broadcast_dimensions=int_array(wanted))


def _reduce(op: Operation, e: Expansion, type_: TensorType[Attribute]) -> SSAValue | None:
    """A reduction of dimensions some of which are not of size 1."""
    source, initial = op.operands
    before = _places(shape_of(source))
    dims = [before[int(dim)] for dim in attributes_of(op)["dimensions"] if int(dim) in before]
    if not dims:
        return None
    region, operands = op.regions[0].clone(), [_squeezed(source, e), initial]
    return e.insert(stablehlo.OPS["reduce"](operands, [type_], {"dimensions": int_array(dims)}, [region])).results[0]


def _dot(op: Operation, e: Expansion) -> SSAValue:
    """A product whose operands have a dimension of size 1 that is contracted, or one that is not, only if they have no other."""
    (lhs_batch, rhs_batch, *contracted), (result,) = numbers_of(attributes_of(op)), op.results
    operands, numbers, sizes = list[SSAValue](), list[list[int]](), list[int]()
    pairs = list(zip(*contracted, strict=True))
    pairs = [pair for pair in pairs if shape_of(op.operands[0])[pair[0]] != 1] or pairs[:1]
    batches = [pair for pair in zip(lhs_batch, rhs_batch, strict=True) if shape_of(op.operands[0])[pair[0]] != 1]
    sizes += [shape_of(op.operands[0])[pair[0]] for pair in batches]
    for side, (value, batch) in enumerate(zip(op.operands, (lhs_batch, rhs_batch), strict=True)):
        shape = shape_of(value)
        free = [dim for dim in range(len(shape)) if dim not in (*batch, *contracted[side])]
        moving = [dim for dim in free if shape[dim] != 1] or free[:1]
        kept = [*moving, *(pair[side] for pair in pairs)]
        places = _places(shape, kept)
        operands.append(_squeezed(value, e, kept))
        numbers += [[places[pair[side]] for pair in batches], [places[pair[side]] for pair in pairs]]
        sizes += [shape[dim] for dim in moving]
    dims = dot_numbers(numbers[0], numbers[2], numbers[1], numbers[3])
    product = e.emit("dot_general", operands, e.like(result, sizes), **{**op.properties, "dot_dimension_numbers": dims})
    return _squeezed(product, e)
