"""dot_general and dot: contraction at full precision."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hlo2tx8.hlo.rounding import narrow, widen, widen_to_double
from hlo2tx8.hlo.spec import Array, Attributes, Kind, Maps, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import bit_width, dtype, is_complex, is_float
from hlo2tx8.indexing import Dim, Expr, IndexingMap, Sym

Dims = tuple[int, ...]


@dataclass(frozen=True)
class DotNumbers:
    """The fields of #stablehlo.dot, as samples give them."""

    lhs_batching_dimensions: Dims = ()
    rhs_batching_dimensions: Dims = ()
    lhs_contracting_dimensions: Dims = ()
    rhs_contracting_dimensions: Dims = ()


def numbers_of(attributes: Attributes) -> tuple[Dims, Dims, Dims, Dims]:
    """(lhs batch, rhs batch, lhs contracting, rhs contracting) dimensions."""
    numbers: Any = attributes["dot_dimension_numbers"]
    return (
        tuple(numbers.lhs_batching_dimensions),
        tuple(numbers.rhs_batching_dimensions),
        tuple(numbers.lhs_contracting_dimensions),
        tuple(numbers.rhs_contracting_dimensions),
    )


def places_in_result(attributes: Attributes, ranks: Sequence[int], side: int) -> dict[int, int]:
    """Of each dimension of operand `side` that is not added up where it is in the result; `ranks` are those of the operands."""
    numbers = numbers_of(attributes)
    batch, added = numbers[side], numbers[2 + side]
    free = [dim for dim in range(ranks[side]) if dim not in (*batch, *added)]
    first = len(batch) + (ranks[0] - len(numbers[0]) - len(numbers[2]) if side else 0)
    return {dim: at for at, dim in enumerate((*batch,))} | {dim: at for at, dim in enumerate(free, start=first)}


def dot_general(attributes: Attributes, results: tuple[TensorLike, ...], a: Array, b: Array) -> Array:
    """result[batch, free a, free b] = sum a * b: floats summed in float64, integers modulo the result's width."""
    lhs_batch, rhs_batch, lhs_contract, rhs_contract = numbers_of(attributes)
    return _contract(a, b, results[0], (lhs_batch, lhs_contract), (rhs_batch, rhs_contract))


def dot(_: Attributes, results: tuple[TensorLike, ...], a: Array, b: Array) -> Array:
    """Matrix or vector product: the last dimension of a with the first of b."""
    return _contract(a, b, results[0], ((), (a.ndim - 1,)), ((), (0,)))


def _contract(a: Array, b: Array, result: TensorLike, lhs: tuple[Dims, Dims], rhs: tuple[Dims, Dims]) -> Array:
    left_free = [i for i in range(a.ndim) if i not in (*lhs[0], *lhs[1])]
    right_free = [i for i in range(b.ndim) if i not in (*rhs[0], *rhs[1])]
    batch = prod(a.shape[i] for i in lhs[0])
    inner = prod(a.shape[i] for i in lhs[1])
    rows, columns = prod(a.shape[i] for i in left_free), prod(b.shape[i] for i in right_free)
    left = np.transpose(a, (*lhs[0], *left_free, *lhs[1])).reshape(batch, rows, inner)
    right = np.transpose(b, (*rhs[0], *rhs[1], *right_free)).reshape(batch, inner, columns)
    with np.errstate(all="ignore"):
        return narrow(_matmul(left, right, result), result.dtype).reshape(result.shape)


def _matmul(left: Array, right: Array, result: TensorLike) -> Array:
    kind = result.dtype
    if is_float(kind) or is_complex(kind):
        double = np.complex128 if is_complex(kind) else np.float64
        return np.matmul(widen_to_double(left).astype(double), widen_to_double(right).astype(double))
    if kind.kind == "b":
        return np.matmul(left, right)
    bits = bit_width(left.dtype) + bit_width(right.dtype)
    if bits + max(1, left.shape[-1]).bit_length() <= 53:
        return np.matmul(widen(left).astype(np.float64), widen(right).astype(np.float64)).astype(np.int64)
    return np.matmul(widen(left).astype(np.int64), widen(right).astype(np.int64))


def dot_general_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """(d0, d1)[s0] -> (d0, s0) and (s0, d1), with ranges over the contracting dimensions."""
    lhs_batch, rhs_batch, lhs_contract, rhs_contract = numbers_of(attributes)
    return _contract_maps(result, operands, (lhs_batch, lhs_contract), (rhs_batch, rhs_contract))


def dot_maps(_: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """As dot_general with the last dimension of the first and the first of the second operand."""
    return _contract_maps(result, operands, ((), (len(operands[0].shape) - 1,)), ((), (0,)))


def _contract_maps(result: TensorLike, operands: tuple[TensorLike, ...], lhs: tuple[Dims, Dims], rhs: tuple[Dims, Dims]) -> Maps:
    sizes = [operands[0].shape[i] for i in lhs[1]]
    maps: list[tuple[IndexingMap, ...]] = []
    next_free = len(lhs[0])
    for operand, (batch, contract) in zip(operands, (lhs, rhs), strict=True):
        exprs: list[Expr] = []
        for i in range(len(operand.shape)):
            if i in batch:
                exprs.append(Dim(batch.index(i)))
            elif i in contract:
                exprs.append(Sym(contract.index(i)))
            else:
                exprs.append(Dim(next_free))
                next_free += 1
        maps.append((IndexingMap.from_shape(exprs, result.shape, sizes),))
    return tuple(maps)


def _dot_samples() -> tuple[Sample, ...]:
    found: list[Sample] = []
    for name in ("float32", "bfloat16", "float16", "float64", "int32", "int8", "complex64"):
        kind = dtype(name)
        operands = (TensorLike((3, 5), kind), TensorLike((5, 2), kind))
        found.append(Sample(operands, (TensorLike((3, 2), kind),)))
    return tuple(found)


def _dot_general_samples() -> tuple[Sample, ...]:
    """Batched, operands transposed, two contracting dimensions."""
    numbers = DotNumbers((0,), (2,), (2, 3), (1, 0))
    return tuple(
        Sample(
            (TensorLike((2, 3, 5, 4), s.results[0].dtype), TensorLike((4, 5, 2, 7), s.results[0].dtype)),
            (TensorLike((2, 3, 7), s.results[0].dtype),),
            {"dot_dimension_numbers": numbers},
        )
        for s in _dot_samples()
    )


SPECS = (
    OpSpec(
        "stablehlo.dot_general",
        Kind.DOT,
        dot_general,
        dot_general_maps,
        ulp=1,
        samples=_dot_general_samples,
        linear=(0, 1),
        is_multilinear=True,
    ),
    OpSpec("stablehlo.dot", Kind.DOT, dot, dot_maps, ulp=1, samples=_dot_samples, linear=(0, 1), is_multilinear=True),
)
