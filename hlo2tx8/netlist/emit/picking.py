"""Elements at places that are known or depend on data: products with a matrix that has a 1 where an element is taken; and sorts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation

from hlo2tx8.hlo.evaluator import Evaluator
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.netlist.emit.build import Value
from hlo2tx8.netlist.emit.contractions import dot, picked, reduced
from hlo2tx8.netlist.emit.layout import Axis, whole_tiles
from hlo2tx8.netlist.emit.moves import gathered
from hlo2tx8.netlist.emit.operands import Known, Operand, const, placed, repeated, together
from hlo2tx8.netlist.emit.shaping import as_value, sliced
from hlo2tx8.netlist.emit.truth import chosen, equals
from hlo2tx8.netlist.emit.use import Occurrence, minimum
from hlo2tx8.netlist.formats import FORMATS
from hlo2tx8.passes.sorting.sort_key import sort_key

MOST_NUMBERS = 1 << 16
"""Of the elements of a row, in the format that the op has for them."""
SAMPLES = np.array([3, -7, 0.5, -0.5, np.inf, -np.inf], np.float32)


def at(use: Occurrence, starts: Operand, count: int, size: int) -> Operand:
    """[shape of starts, count, size]: 1 where an element of `size` is one of the `count` from a start on, which is moved inside."""
    shape, rank = (*starts.layout.shape, count, size), len(starts.layout.shape)
    offsets = np.arange(size) - np.arange(count)[:, None]
    if isinstance(starts, Known):
        first = np.clip(starts.array.astype(np.int64), 0, size - count)
        return const((first[..., None, None] == offsets).astype(np.float32), use.df)
    df = starts.df if FORMATS[starts.df].is_integer else use.df
    starts = use.builder.as_float(starts, "Float32" if FORMATS[df].is_integer else df)
    inner = use.of(starts.layout.shape, starts.df)
    first = inner.apply("maximum", starts, inner.splat(0))
    first = minimum(inner, first, inner.number(const(np.full(inner.shape, size - count), "Int32")))
    wide = use.of(shape, starts.df)
    line = repeated(wide.number(const(offsets, "Int32")), (rank, rank + 1), shape)
    return use.number(equals(wide, repeated(first, range(rank), shape), line))


def gather(use: Occurrence) -> Operand:
    """One product for each dimension in which places are given; the dimensions of the result are followed by their names."""
    given, (x, starts) = use.attributes, [*use.operands[:2]]
    numbers: Any = given["dimension_numbers"]
    sizes: Sequence[int] = given["slice_sizes"]
    indexed: Sequence[int] = numbers.start_index_map
    vector, shape = numbers.index_vector_dim, starts.layout.shape
    of_starts = [dim for dim in range(len(shape)) if dim != vector]
    use = use.of(use.shape, "Float32") if FORMATS[use.df].is_integer else use
    value = use.number(x)
    names: list[tuple[str, int]] = [("of", dim) for dim in range(len(sizes))]
    for dim, size in enumerate(sizes):
        if dim not in indexed and dim not in numbers.operand_batching_dims and size < value.layout.shape[dim]:
            value = sliced(use.builder, as_value(use.builder, value), dim, 0, 1, size)
    for number, dim in enumerate(indexed):
        part = starts
        if vector < len(shape):
            part = _component(use, starts, vector, number)
        matrix = at(use, part, sizes[dim], x.layout.shape[dim])
        batches = dict(zip(numbers.start_indices_batching_dims, numbers.operand_batching_dims, strict=True))
        pairs = {
            k: names.index(one)
            for k, dim_of in enumerate(of_starts)
            for one in (("batch", k), ("of", batches.get(dim_of, -1)))
            if one in names
        }
        rank, place = len(of_starts), names.index(("of", dim))
        value = dot(use.builder, matrix, value, list(pairs.items()), [(rank + 1, place)], use.df)
        free = [k for k in range(rank) if k not in pairs]
        left = [name for n, name in enumerate(names) if n not in (*pairs.values(), place)]
        names = [*(("batch", k) for k in (*pairs, *free)), ("of", dim), *left]
    if not indexed:
        raise use.builder.refuse("a gather without places")
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = iter([("of", dim) for dim in range(len(sizes)) if dim not in gone])
    batch = iter([("batch", k) for k in range(len(of_starts))])
    order = [next(kept) if dim in numbers.offset_dims else next(batch) for dim in range(len(use.shape))]
    return picked(as_value(use.builder, value), [names.index(name) for name in order])


def _component(use: Occurrence, starts: Operand, dim: int, number: int) -> Operand:
    """One of the numbers of each place, without the dimension that they are along."""
    if isinstance(starts, Known):
        return const(np.take(starts.array, number, dim), starts.df)
    part = sliced(use.builder, starts, dim, number, 1, 1)
    return picked(part, [d for d in range(len(part.layout.sizes)) if d != dim])


def dynamic_slice(use: Occurrence) -> Operand:
    value: Operand = use.number(use.operands[0])
    if FORMATS[use.df].is_integer and any(isinstance(o, Value) for o in use.operands[1:]):
        use = use.of(use.shape, "Float32")
        value = use.number(value)
    for dim, (size, start) in enumerate(zip(use.shape, use.operands[1:], strict=True)):
        whole = value.layout.shape[dim]
        if isinstance(start, Known):
            first = int(min(max(int(start.array), 0), whole - size))
            value = sliced(use.builder, as_value(use.builder, value), dim, first, 1, size)
        elif size < whole:
            value = _along(use, at(use, start, size, whole), value, dim, 1)
    return value


def _along(use: Occurrence, matrix: Operand, value: Operand, dim: int, side: int) -> Value:
    """A product along a dimension with a matrix whose dimension `side` is summed up."""
    made = dot(use.builder, matrix, value, [], [(side, dim)], use.df)
    order = [d + 1 if d < dim else 0 if d == dim else d for d in range(len(value.layout.shape))]
    return picked(made, order)


def dynamic_update_slice(use: Occurrence) -> Operand:
    """The part is spread to where it belongs, and taken where a spread of ones has them."""
    x, part, *starts = use.operands
    if FORMATS[use.df].is_integer:
        use = use.of(use.shape, "Float32")
    x, moved = use.number(x), use.number(part)
    mask: Operand = Known(np.broadcast_to(np.float32(1), use.shape), use.df)
    for dim, (size, start) in enumerate(zip(part.layout.shape, starts, strict=True)):
        whole = use.shape[dim]
        if size == whole:
            continue
        matrix = at(use, start, size, whole)
        moved = _along(use, matrix, moved, dim, 0)
        line = const(matrix.array.sum(0), use.df) if isinstance(matrix, Known) else reduced(use.builder, matrix, [0], "add")
        line = repeated(line, (dim,), use.shape)
        if isinstance(mask, Known) and isinstance(line, Known):
            mask = const(np.asarray(mask.array) * np.asarray(line.array), use.df)
        else:
            mask = use.apply("multiply", mask, line)
    return chosen(use, mask, moved, x)


def sort(use: Occurrence) -> list[Operand]:
    """By the op that finds the largest of each row, all of them or as many as anybody reads; equal elements keep their order."""
    builder, dim = use.builder, int(use.attributes["dimension"])
    key = sort_key(use.op.regions[0].block)
    sign = _sign(key.function, key.number) if key else 0
    if key is None or not sign:
        raise builder.refuse("a netlist sorts by the elements of one array, up or down")
    given = use.operands[key.number]
    if isinstance(given, Known):
        raise builder.refuse("a netlist sorts no constants along with data")
    given = builder.as_float(given, "Float32") if FORMATS[given.df].is_integer else given
    use = use.of(use.shape, given.df)
    is_descending = key.is_descending == (sign > 0)
    value = given if is_descending else _negated(use, given)
    value = replace(value, layout=value.layout.merged())
    value = gathered(builder, value, [(dim, part) for part in range(len(value.layout.sizes[dim]))])
    value = replace(value, layout=value.layout.merged())
    if len(value.layout.sizes[dim]) > 1 or any(k[0] != dim for k in value.layout.c.strides):
        raise builder.refuse("a netlist sorts what lies along columns")
    value = builder.straight(builder.lowered(value, "c"))
    count = max(_kept(result, dim, use.shape[dim]) for result in use.op.results)
    sizes = tuple((count,) if d == dim and count > 1 else () if d == dim else s for d, s in enumerate(value.layout.sizes))
    made = replace(value.layout, sizes=sizes).on(c=Axis(whole_tiles(count), {(dim, 0): 1} if count > 1 else {}))
    results: list[Operand] = []
    for operand, source in zip(use.operands, use.op.operands, strict=True):
        if source == use.op.operands[key.number]:
            found = builder.op("topk", [value, value], made, None, value.df, k=count, sort="max")
            results.append(found if is_descending else _negated(use, found))
            continue
        is_small = isinstance(operand, Known) and bool(((operand.array >= 0) & (operand.array < MOST_NUMBERS)).all())
        if not isinstance(operand, Known) or operand.array.dtype.kind not in "iu" or not is_small:
            raise builder.refuse("a netlist sorts numbers of elements along with elements, and no other data")
        numbers = placed(builder, Known(operand.array, "UInt16"), value.layout)
        results.append(builder.op("topk", [value, numbers], made, None, "UInt16", k=count, sort="argmax"))
    return results


def _negated(use: Occurrence, value: Value) -> Value:
    minus = Known(np.broadcast_to(np.float32(-1), value.layout.shape), value.df)
    return use.builder.elementwise("multiply", together(use.builder, [value, minus]))


def _kept(result: Any, dim: int, size: int) -> int:
    """How many elements of each row anybody reads."""
    limits: list[int] = []
    for use in result.uses:
        reader: Operation = use.operation
        given = attributes_of(reader) if reader.name == "stablehlo.slice" else None
        if given is None or given["start_indices"][dim] or given["strides"][dim] != 1:
            return size
        limits.append(int(given["limit_indices"][dim]))
    return max(limits, default=1)


def _sign(function: Block, number: int) -> int:
    """1 if the function of a key gives the element itself, -1 if its negative, else 0."""
    arguments = [np.zeros((), tensor_like(argument.type).dtype) for argument in function.args]
    signs: set[int] = set()
    dtype = arguments[2 * number].dtype
    for sample in SAMPLES[: 2 if dtype.kind in "iu" else None]:
        arguments[2 * number] = sample.astype(dtype)
        found = float(Evaluator({}).run(function, arguments, {})[0])
        signs.add(1 if found == sample else -1 if found == -sample else 0)
    return signs.pop() if len(signs) == 1 else 0
