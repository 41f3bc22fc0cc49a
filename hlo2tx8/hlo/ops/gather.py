"""gather and torch_index_select: slices of an operand that begin at indices held by another tensor."""

from dataclasses import dataclass
from typing import Any

from hlo2tx8.hlo.ops.indexed import IndexedAccess, read
from hlo2tx8.hlo.spec import Array, Attributes, Kind, Maps, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import dtype
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap

Dims = tuple[int, ...]


@dataclass(frozen=True)
class GatherNumbers:
    """The fields of #stablehlo.gather, as samples give them."""

    offset_dims: Dims = ()
    collapsed_slice_dims: Dims = ()
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()
    start_index_map: Dims = ()
    index_vector_dim: int = 0


def gather_place(attributes: Attributes, result: Dims, operand: Dims, indices: Dims) -> IndexedAccess:
    """Where a gather reads: one index per entry of start_index_map, all of them in the tensor of start indices.

    The result's offset dimensions walk over the slice, the others over the start indices.
    """
    numbers: Any = attributes["dimension_numbers"]
    sizes: Dims = tuple(attributes["slice_sizes"])
    batch = [d for d in range(len(result)) if d not in numbers.offset_dims]
    index_dims = [d for d in range(len(indices)) if d != numbers.index_vector_dim]
    of_index_dim: dict[int, Expr] = dict(zip(index_dims, map(Dim, batch), strict=True))
    place: list[Expr] = [Const(0)] * len(operand)
    kept = [d for d in range(len(operand)) if d not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
    for dim, offset in zip(kept, numbers.offset_dims, strict=True):
        place[dim] = Dim(offset)
    for dim, index_dim in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        place[dim] = of_index_dim[index_dim]
    index_maps: list[IndexingMap] = []
    for component in range(len(numbers.start_index_map)):
        at = [of_index_dim[d] if d in of_index_dim else Const(component) for d in range(len(indices))]
        index_maps.append(IndexingMap.from_shape(at, result))
    moved: Dims = tuple(numbers.start_index_map)
    rooms = tuple(operand[d] - sizes[d] for d in moved)
    return IndexedAccess(IndexingMap.from_shape(place, result), tuple(index_maps), moved, rooms)


def gather(attributes: Attributes, results: tuple[TensorLike, ...], x: Array, indices: Array, *_: Array) -> Array:
    """Slices of x of the given sizes; each start is moved so that its slice stays inside."""
    place = gather_place(attributes, results[0].shape, x.shape, indices.shape)
    return read(place, results[0].shape, x, *([indices] * len(place.dims)))


def gather_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """Operand: (d0, d1){rt0} -> (rt0, d1); the start indices: a map per component."""
    place = gather_place(attributes, result.shape, operands[0].shape, operands[1].shape)
    return ((place.moved(),), place.index_maps)


def torch_index_select_place(attributes: Attributes, result: Dims, operand: Dims, indices: Dims) -> IndexedAccess:
    """Where torch_index_select reads: dimension `dim` at an index, the other dimensions as they are; the first `batch_dims` are
    common to both operands.
    """
    dim, batch = int(attributes["dim"]), int(attributes["batch_dims"])
    chosen = len(indices) - batch
    place: list[Expr] = [Dim(d if d < dim else d + chosen - 1) for d in range(len(operand))]
    place[dim] = Const(0)
    at = [Dim(d) for d in (*range(batch), *range(dim, dim + chosen))]
    return IndexedAccess(IndexingMap.from_shape(place, result), (IndexingMap.from_shape(at, result),), (dim,), (operand[dim] - 1,))


def torch_index_select(attributes: Attributes, results: tuple[TensorLike, ...], x: Array, indices: Array) -> Array:
    """The slices of x along one dimension at the given indices; an index out of range is clamped."""
    place = torch_index_select_place(attributes, results[0].shape, x.shape, indices.shape)
    return read(place, results[0].shape, x, indices)


def torch_index_select_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """Operand: (d0, d1){rt0} -> (d0, rt0); the indices: (d0, d1) -> (d1)."""
    place = torch_index_select_place(attributes, result.shape, operands[0].shape, operands[1].shape)
    return ((place.moved(),), place.index_maps)


def _samples() -> tuple[Sample, ...]:
    """Rows and columns of a matrix; a window of a batch each."""
    found: list[Sample] = []
    for name in ("float32", "bfloat16", "int8", "bool", "int64", "float64", "complex64"):
        x, index = TensorLike((5, 7), dtype(name)), TensorLike((2, 3, 1), dtype("int32"))
        rows: dict[str, Any] = {"dimension_numbers": GatherNumbers((2,), (0,), (), (), (0,), 2), "slice_sizes": (1, 7)}
        found.append(Sample((x, index), (TensorLike((2, 3, 7), x.dtype),), rows, (1,)))
    x, index = TensorLike((3, 5, 7), dtype("float32")), TensorLike((2, 3), dtype("uint32"))
    windows = {"dimension_numbers": GatherNumbers((1, 2), (), (0,), (1,), (2, 1), 0), "slice_sizes": (1, 2, 4)}
    found.append(Sample((x, index), (TensorLike((3, 2, 4), x.dtype),), windows, (1,)))
    return tuple(found)


def _torch_index_select_samples() -> tuple[Sample, ...]:
    """Columns of a matrix; rows of a batch each."""
    f32, index = dtype("float32"), dtype("int32")
    columns = ((5, 7), (2, 3), (5, 2, 3), {"dim": 1, "batch_dims": 0})
    rows = ((3, 5, 7), (3, 2), (3, 2, 7), {"dim": 1, "batch_dims": 1})
    return tuple(
        Sample((TensorLike(x, f32), TensorLike(i, index)), (TensorLike(result, f32),), attributes, (1,))
        for x, i, result, attributes in (columns, rows)
    )


SPECS = (
    OpSpec(
        "stablehlo.gather",
        Kind.HERO,
        gather,
        gather_maps,
        samples=_samples,
        linear=(0,),
        size_attributes=("slice_sizes",),
    ),
    OpSpec(
        "stablehlo.torch_index_select",
        Kind.HERO,
        torch_index_select,
        torch_index_select_maps,
        samples=_torch_index_select_samples,
        linear=(0,),
    ),
)
