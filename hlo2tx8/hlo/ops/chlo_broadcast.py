"""chlo.broadcast_*: an elementwise op on operands that are broadcast to one shape first; top_k, constant_like."""

from typing import Any

import numpy as np

from hlo2tx8.hlo.ops import chlo, elementwise_arithmetic, elementwise_integer, elementwise_math, elementwise_select
from hlo2tx8.hlo.ops.forms import DTYPES, dense
from hlo2tx8.hlo.ops.shaping import broadcast_map
from hlo2tx8.hlo.spec import Array, Attributes, Kind, Maps, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import dtype
from hlo2tx8.indexing import IndexingMap

BASES: tuple[tuple[str, str], ...] = (
    ("add", "stablehlo.add"),
    ("and", "stablehlo.and"),
    ("atan2", "stablehlo.atan2"),
    ("compare", "stablehlo.compare"),
    ("complex", "stablehlo.complex"),
    ("divide", "stablehlo.divide"),
    ("maximum", "stablehlo.maximum"),
    ("minimum", "stablehlo.minimum"),
    ("multiply", "stablehlo.multiply"),
    ("next_after", "chlo.next_after"),
    ("or", "stablehlo.or"),
    ("polygamma", "chlo.polygamma"),
    ("power", "stablehlo.power"),
    ("remainder", "stablehlo.remainder"),
    ("select", "stablehlo.select"),
    ("shift_left", "stablehlo.shift_left"),
    ("shift_right_arithmetic", "stablehlo.shift_right_arithmetic"),
    ("shift_right_logical", "stablehlo.shift_right_logical"),
    ("subtract", "stablehlo.subtract"),
    ("xor", "stablehlo.xor"),
    ("zeta", "chlo.zeta"),
)
"""chlo.broadcast_<first> is the second on broadcast operands."""


def dimensions_of(attributes: Attributes, rank: int, result_rank: int) -> tuple[int, ...]:
    """Result dimension of each operand dimension: broadcast_dimensions for the lower rank, else the trailing ones."""
    given = attributes.get("broadcast_dimensions")
    if given is not None and rank < result_rank and len(given) == rank:
        return tuple(given)
    return tuple(range(result_rank - rank, result_rank))


def broadcast_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """Per operand: the result dimensions it has, 0 where its size 1 repeats."""
    maps: list[tuple[IndexingMap, ...]] = []
    for operand in operands:
        dims = dimensions_of(attributes, len(operand.shape), len(result.shape))
        maps.append((broadcast_map({"broadcast_dimensions": dims}, result, operand),))
    return tuple(maps)


def _broadcasting(name: str, base: OpSpec) -> OpSpec:
    def reference(attributes: Attributes, results: tuple[TensorLike, ...], *arrays: Array) -> Any:
        rank = len(results[0].shape)
        placed: list[Array] = []
        for array in arrays:
            shape = [1] * max(rank, array.ndim)
            for size, dim in zip(array.shape, dimensions_of(attributes, array.ndim, rank), strict=True):
                shape[dim] = size
            placed.append(array.reshape(shape))
        (found,) = base.evaluate(attributes, results, *placed)
        return dense(np.broadcast_to(found, results[0].shape))

    def samples() -> tuple[Sample, ...]:
        found: list[Sample] = []
        for sample in base.samples():
            shapes = ((2, 1, 3), (4, 1), (2, 4, 3))[-len(sample.operands) :]
            operands = tuple(TensorLike(s, o.dtype) for s, o in zip(shapes, sample.operands, strict=True))
            shape = np.broadcast_shapes(*shapes)
            found.append(Sample(operands, (TensorLike(shape, sample.results[0].dtype),), sample.attributes))
        return tuple(found)

    return OpSpec(
        name,
        Kind.ELEMENTWISE,
        reference,
        broadcast_maps,
        ulp=base.ulp,
        complex_ulp=base.complex_ulp,
        ulp_floor=base.ulp_floor,
        accepts=base.accepts,
        samples=samples,
    )


def constant_like(attributes: Attributes, results: tuple[TensorLike, ...], x: Array) -> Array:
    """attribute `value` in every element of a tensor shaped like x."""
    return np.full(x.shape, np.asarray(attributes["value"]), results[0].dtype)


def _constant_like_maps(_: Attributes, result: TensorLike, __: tuple[TensorLike, ...]) -> Maps:
    """No element of the operand matters; its map keeps the shape."""
    return ((IndexingMap.identity(result.shape),),)


def _top_k_samples() -> tuple[Sample, ...]:
    return tuple(
        Sample(
            (TensorLike((3, 7), dtype(name)),),
            (TensorLike((3, 2), dtype(name)), TensorLike((3, 2), dtype("int32"))),
            {"k": 2},
        )
        for name in DTYPES
        if "complex" not in name and name != "bool"
    )


def _specs() -> tuple[OpSpec, ...]:
    families = (chlo, elementwise_arithmetic, elementwise_integer, elementwise_math, elementwise_select)
    by_name = {spec.name: spec for family in families for spec in family.SPECS}
    return tuple(_broadcasting(f"chlo.broadcast_{name}", by_name[base]) for name, base in BASES)


SPECS = (
    *_specs(),
    OpSpec("chlo.constant_like", Kind.ELEMENTWISE, constant_like, _constant_like_maps),
    OpSpec(
        "chlo.top_k",
        Kind.HERO,
        chlo.top_k,
        samples=_top_k_samples,
        batch_dimensions=lambda _, rank: tuple(range(rank - 1)),
    ),
)
