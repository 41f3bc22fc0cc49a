"""Simplifications of ops that only move elements, and of reductions over dimensions of size 1."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.hlo.types import numpy_dtype
from hlo2tx8.indexing import Const, Dim
from hlo2tx8.ir import i64_attr, maker_of, tensor_type_of
from hlo2tx8.partitioner.contraction import dot_dimensions
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.passes.rules.turned_products import turned_product

Rule = Callable[[Operation], SSAValue | None]
MOST_INDEX = 2**31
JOINS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")


def _ints(op: Operation, name: str) -> list[int]:
    return [int(n) for n in attributes_of(op)[name]]


def _shape(value: SSAValue) -> tuple[int, ...]:
    return shape_of(value)


def _made_by(value: SSAValue, name: str) -> Operation | None:
    owner = maker_of(value)
    return owner if owner is not None and owner.name == f"stablehlo.{name}" else None


def _transpose(op: Operation) -> SSAValue | None:
    (source,), order = op.operands, _ints(op, "permutation")
    if order == sorted(order):
        return source
    if inner := _made_by(source, "transpose"):
        before = _ints(inner, "permutation")
        order = [before[dim] for dim in order]
        return Expansion(op).emit("transpose", [inner.operands[0]], op.results[0].type, permutation=int_array(order))
    if turned := turned_product(op, order):
        return turned
    moving = [dim for dim in order if _shape(source)[dim] != 1]
    return Expansion(op).emit("reshape", [source], op.results[0].type) if moving == sorted(moving) else None


def _reshape(op: Operation) -> SSAValue | None:
    (source,), e = op.operands, Expansion(op)
    if source.type == op.results[0].type:
        return source
    if inner := _made_by(source, "reshape"):
        return e.emit("reshape", [inner.operands[0]], op.results[0].type)
    if inner := _made_by(source, "broadcast_in_dim"):
        dims, before = _ints(inner, "broadcast_dimensions"), inner.operands[0]
        if not dims:
            return e.emit("broadcast_in_dim", [before], op.results[0].type, broadcast_dimensions=int_array(()))
        if dims == sorted(dims) and [n for n in _shape(before) if n != 1] == [n for n in _shape(source) if n != 1]:
            return before if before.type == op.results[0].type else e.emit("reshape", [before], op.results[0].type)
    dims = _unit_dims_inserted(_shape(source), _shape(op.results[0]))
    return None if dims is None else e.emit("broadcast_in_dim", [source], op.results[0].type, broadcast_dimensions=int_array(dims))


def _unit_dims_inserted(before: Sequence[int], after: Sequence[int]) -> list[int] | None:
    """Where the dimensions went if the shape only got more of size 1: a broadcast, which every reader may have for nothing."""
    if 1 in before or not before or [n for n in after if n != 1] != list(before):
        return None
    return [dim for dim, n in enumerate(after) if n != 1]


def _broadcast(op: Operation) -> SSAValue | None:
    (source,), dims = op.operands, _ints(op, "broadcast_dimensions")
    type_ = op.results[0].type
    if source.type == type_ and dims == sorted(dims):
        return source
    if inner := _made_by(source, "broadcast_in_dim"):
        dims = [dims[dim] for dim in _ints(inner, "broadcast_dimensions")]
        return Expansion(op).emit("broadcast_in_dim", [inner.operands[0]], type_, broadcast_dimensions=int_array(dims))
    if inner := _made_by(source, "reshape"):
        before = _shape(inner.operands[0])
        if 1 not in before and [n for n in _shape(source) if n != 1] == list(before):
            dims = [dim for dim, n in zip(dims, _shape(source), strict=True) if n != 1]
            return Expansion(op).emit("broadcast_in_dim", [inner.operands[0]], type_, broadcast_dimensions=int_array(dims))
    return None


def _same(op: Operation) -> SSAValue | None:
    """A slice, pad or concatenation that is its operand."""
    source = op.operands[0]
    if source.type != op.results[0].type or (op.name == "stablehlo.concatenate" and len(op.operands) > 1):
        return None
    if op.name == "stablehlo.pad":
        has_holes = any(inner and n > 1 for inner, n in zip(_ints(op, "interior_padding"), _shape(source), strict=True))
        if has_holes or any(_ints(op, "edge_padding_low")):
            return None
    return source


def _slice_of_widened(op: Operation) -> SSAValue | None:
    """A part of what is converted to more bytes, of which only parts are read: converted is the part."""
    convert = _made_by(op.operands[0], "convert")
    if convert is None or any(use.operation.name != op.name for use in convert.results[0].uses):
        return None
    source, result = convert.operands[0], op.results[0]
    narrow, wide = (numpy_dtype(as_tensor(value.type).element_type).itemsize for value in (source, result))
    if narrow >= wide:
        return None
    e = Expansion(op)
    part = e.emit("slice", [source], e.like(source, _shape(result)), **op.properties)
    return e.emit("convert", [part], result.type)


def _reverse(op: Operation) -> SSAValue | None:
    """Of dimensions of size 1, or of what was reversed before."""
    (source,), dims = op.operands, _ints(op, "dimensions")
    if all(_shape(source)[dim] == 1 for dim in dims):
        return source
    inner = _made_by(source, "reverse")
    return inner.operands[0] if inner and sorted(_ints(inner, "dimensions")) == sorted(dims) else None


def _reduce(op: Operation) -> SSAValue | None:
    """Without its dimensions of size 1; where those are all, the combiner on whole tensors."""
    source, initial = op.operands
    shape, reduced, e = _shape(source), _ints(op, "dimensions"), Expansion(op)
    single = [dim for dim in reduced if shape[dim] == 1]
    if not single:
        return None
    body = op.regions[0].block
    names, first = [inner.name.partition(".")[2] for inner in body.ops], body.first_op
    if len(single) == len(reduced):
        joins = len(names) == 2 and names[0] in JOINS and first is not None and set(first.operands) == set(body.args)
        if not joins or as_tensor(source.type).element_type != as_tensor(op.results[0].type).element_type:
            return None
    kept = [dim for dim in range(len(shape)) if dim not in single]
    squeezed = e.emit("reshape", [source], e.like(source, [shape[dim] for dim in kept]))
    rest = [kept.index(dim) for dim in reduced if dim not in single]
    if rest:
        region = op.detach_region(0)
        new = stablehlo.OPS["reduce"]([squeezed, initial], [op.results[0].type], {"dimensions": int_array(rest)}, [region])
        return e.insert(new).results[0]
    whole = e.emit("broadcast_in_dim", [initial], op.results[0].type, broadcast_dimensions=int_array(()))
    return e.emit(names[0], [whole, squeezed], op.results[0].type)


def _dot(op: Operation) -> SSAValue | None:
    """A dot of what was transposed reads it as it was before, if that leaves the dimensions of the result in their order."""
    lhs_batch, rhs_batch, lhs_contract, rhs_contract = dot_dimensions(op)
    sides = [(list(lhs_batch), list(lhs_contract)), (list(rhs_batch), list(rhs_contract))]
    operands = list(op.operands)
    for side, operand in enumerate(operands):
        if not (inner := _made_by(operand, "transpose")):
            continue
        order, used = _ints(inner, "permutation"), [*sides[side][0], *sides[side][1]]
        free = [place for dim, place in enumerate(order) if dim not in used]
        if free == sorted(free):
            sides[side] = [order[d] for d in sides[side][0]], [order[d] for d in sides[side][1]]
            operands[side] = inner.operands[0]
    if operands == list(op.operands):
        return None
    (lhs_batch, lhs_contract), (rhs_batch, rhs_contract) = sides
    numbers = dot_numbers(lhs_batch, rhs_batch, lhs_contract, rhs_contract)
    return Expansion(op).emit("dot_general", operands, op.results[0].type, **{**op.properties, "dot_dimension_numbers": numbers})


def _one_sum(op: Operation) -> SSAValue | None:
    """A dot that adds up along dimensions that are neighbours in both operands, in the same order: along one of their size."""
    lhs_batch, rhs_batch, lhs_contract, rhs_contract = numbers_of(attributes_of(op))
    pairs = sorted(zip(map(int, lhs_contract), map(int, rhs_contract), strict=True))
    first = next((pair for pair, after in pairwise(pairs) if after == (pair[0] + 1, pair[1] + 1)), None)
    if first is None or "algorithm" in op.properties:
        return None
    e, sides = Expansion(op), list[tuple[SSAValue, list[int], list[int]]]()
    for value, at, batch, contract in zip(op.operands, first, (lhs_batch, rhs_batch), zip(*pairs, strict=True), strict=True):
        shape = list(_shape(value))
        joined = e.emit("reshape", [value], e.like(value, [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]))
        batch, contract = ([dim - (dim > at) for dim in dims if dim != at + 1] for dims in (batch, contract))
        sides.append((joined, batch, contract))
    (lhs, lhs_batch, lhs_contract), (rhs, rhs_batch, rhs_contract) = sides
    numbers = dot_numbers(lhs_batch, rhs_batch, lhs_contract, rhs_contract)
    return e.emit("dot_general", [lhs, rhs], op.results[0].type, **{**op.properties, "dot_dimension_numbers": numbers})


def sink_broadcast(op: Operation) -> SSAValue | None:
    """An elementwise op on operands that are broadcast in the same way: the op on the smaller tensors, broadcast afterwards."""
    shape = _shape(op.results[0])
    if (
        op.regions
        or not op.operands
        or any(_shape(value) != shape for value in op.operands)
        or op.name == "stablehlo.bitcast_convert"
    ):
        return None
    found = [
        (value, inner) for value in op.operands if (inner := _made_by(value, "broadcast_in_dim")) and _shape(inner.operands[0])
    ]
    if not found:
        return None
    first = found[0][1]
    dims, small = _ints(first, "broadcast_dimensions"), _shape(first.operands[0])
    sources: list[SSAValue | None] = []
    for value in op.operands:
        inner = _made_by(value, "broadcast_in_dim")
        if inner and _ints(inner, "broadcast_dimensions") == dims and _shape(inner.operands[0]) == small:
            sources.append(inner.operands[0])
        elif scalar_of(value) is not None:
            sources.append(None)
        else:
            return None
    e = Expansion(op)
    operands = [
        _splat_of(value, small, e) if source is None else source for value, source in zip(op.operands, sources, strict=True)
    ]
    type_ = tensor_type_of(as_tensor(op.results[0].type).element_type, small)
    value = e.insert(
        op.create(operands=operands, result_types=[type_], properties=op.properties, attributes=op.attributes)
    ).results[0]
    return e.emit("broadcast_in_dim", [value], op.results[0].type, broadcast_dimensions=int_array(dims))


def _read_of_iota(op: Operation) -> SSAValue | None:
    """Elements of an iota at indices known at run time: the sum of those indices, each within its room."""
    iota = _made_by(op.operands[0], "iota")
    if iota is None:
        return None
    fields, shape, (dim,) = attributes_of(op), _shape(op.results[0]), (int(attributes_of(iota)["iota_dimension"]),)
    base = fields["map"].results[dim]
    if fields["map"].constraints or not isinstance(base, Dim | Const) or _shape(iota.results[0])[dim] > MOST_INDEX:
        return None
    e, wide = Expansion(op), TensorType(i32, shape)
    if isinstance(base, Dim):
        total = e.emit("iota", [], wide, iota_dimension=i64_attr(base.index))
    else:
        total = _splat_of(e.splat(base.value, TensorType(i32, ())), shape, e)
    terms = zip(op.operands[1:], fields["index_maps"], fields["dims"], fields["rooms"], strict=True)
    for value, map, along, room in terms:
        if along != dim:
            continue
        type_, most = as_tensor(value.type), np.iinfo(numpy_dtype(as_tensor(value.type).element_type)).max
        inside = e.emit("maximum", [value, _splat_of(e.splat(0, e.like(value, ())), _shape(value), e)], type_)
        if room < most:
            inside = e.emit("minimum", [inside, _splat_of(e.splat(room, e.like(value, ())), _shape(value), e)], type_)
        inside = e.converted(inside, i32)
        if map.results:
            inside = e.view(inside, map)
        else:
            inside = e.emit("broadcast_in_dim", [inside], wide, broadcast_dimensions=int_array(())) if shape else inside
        total = e.emit("add", [total, inside], wide)
    return e.converted(total, as_tensor(op.results[0].type).element_type)


def _splat_of(value: SSAValue, shape: Sequence[int], e: Expansion) -> SSAValue:
    """A tensor of that shape with the element of which all of `value` are copies."""
    scalar = scalar_of(value)
    assert scalar is not None
    constant = e.emit("constant", [], e.like(value, ()), value=LiteralAttr.from_array(scalar))
    return e.emit("broadcast_in_dim", [constant], e.like(value, shape), broadcast_dimensions=int_array(()))


RULES: Mapping[str, tuple[Rule, ...]] = {
    "stablehlo.transpose": (_transpose,),
    "stablehlo.reshape": (_reshape,),
    "stablehlo.broadcast_in_dim": (_broadcast,),
    "stablehlo.slice": (_same, _slice_of_widened),
    "stablehlo.pad": (_same,),
    "stablehlo.concatenate": (_same,),
    "stablehlo.reverse": (_reverse,),
    "stablehlo.reduce": (_reduce,),
    "stablehlo.dot": (_dot,),
    "stablehlo.dot_general": (_dot, _one_sum),
    "hlo.read_at": (_read_of_iota,),
}
"""By op; the first rule that gives a value decides."""
