"""convolution: any dimension numbers, strides, dilations, groups and reversal, at full precision."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hlo2tx8.hlo.ops.window import Window, padded
from hlo2tx8.hlo.rounding import narrow, widen_to_double
from hlo2tx8.hlo.spec import Array, Attributes, Kind, Maps, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import DType, dtype, is_complex, is_float
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Sym

Dims = tuple[int, ...]


@dataclass(frozen=True)
class ConvNumbers:
    """The fields of #stablehlo.conv, as samples give them: NHWC, HWIO unless said otherwise."""

    input_batch_dimension: int = 0
    input_feature_dimension: int = 3
    input_spatial_dimensions: Dims = (1, 2)
    kernel_input_feature_dimension: int = 2
    kernel_output_feature_dimension: int = 3
    kernel_spatial_dimensions: Dims = (0, 1)
    output_batch_dimension: int = 0
    output_feature_dimension: int = 3
    output_spatial_dimensions: Dims = (1, 2)


def numbers_of(attributes: Attributes) -> ConvNumbers:
    """The dimension numbers of operands and result."""
    given: Any = attributes["dimension_numbers"]
    return ConvNumbers(**{f.name: getattr(given, f.name) for f in fields(ConvNumbers)})


def window_of(attributes: Attributes, kernel: Dims) -> Window:
    """The window over the spatial dimensions; what is not given is 1, or 0 for padding."""
    numbers = numbers_of(attributes)
    given: dict[str, Any] = {"window_dimensions": tuple(kernel[d] for d in numbers.kernel_spatial_dimensions)}
    names = {"window_strides": "window_strides", "lhs_dilation": "base_dilations", "rhs_dilation": "window_dilations"}
    given |= {new: attributes[old] for old, new in names.items() if attributes.get(old) is not None}
    if attributes.get("padding") is not None:
        given["padding"] = attributes["padding"]
    return Window.of(given)


def reversal(attributes: Attributes) -> tuple[bool, ...]:
    """For each spatial dimension True if the kernel is read backwards."""
    given: tuple[bool, ...] | None = attributes.get("window_reversal")
    return tuple(given or (False,) * len(numbers_of(attributes).kernel_spatial_dimensions))


def convolution(attributes: Attributes, results: tuple[TensorLike, ...], x: Array, kernel: Array) -> Array:
    """Window by window a product of [batch, features] with [features, output features], floats summed in float64."""
    n = numbers_of(attributes)
    kind, window = results[0].dtype, window_of(attributes, kernel.shape)
    of_x: Dims = (n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension)
    of_kernel: Dims = (*n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension)
    of_result: Dims = (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension)
    shape: Dims = tuple(results[0].shape[d] for d in n.output_spatial_dimensions)
    x = padded(window.between_dimensions(), np.transpose(x, of_x), np.zeros((), x.dtype))
    turned = tuple(i for i, is_turned in enumerate(reversal(attributes)) if is_turned)
    weights: Array = np.flip(np.transpose(kernel, of_kernel), turned)
    groups, batches = int(attributes["feature_group_count"]), int(attributes["batch_group_count"])
    inputs = np.split(x, batches) if batches > 1 else np.split(x, groups, axis=-1)
    parts: list[Array] = []
    for part, own in zip(inputs, np.split(weights, groups * batches, axis=-1), strict=True):
        rows, columns = _wide(part, kind), _wide(own, kind)
        total: Array = np.zeros((part.shape[0], *shape, own.shape[-1]), rows.dtype)
        for offset in np.ndindex(*window.size):
            with np.errstate(all="ignore"):
                total = total + np.matmul(rows[(slice(None), *window.slice(offset, shape))], columns[offset])
        parts.append(total)
    found: Array = np.concatenate(parts, axis=-1)
    return narrow(np.transpose(found != 0 if kind.kind == "b" else found, np.argsort(of_result)), kind)


def convolution_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """NHWC, HWIO, 3x3: (n, y, x, o)[ky, kx, c] -> (n, y * stride + ky - low, ..., c) where that is inside, and (ky, kx, c, o)."""
    n, (image, kernel) = numbers_of(attributes), (operands[0].shape, operands[1].shape)
    window, turned = window_of(attributes, kernel), reversal(attributes)
    rank = len(n.kernel_spatial_dimensions)
    batch, output = Dim(n.output_batch_dimension), Dim(n.output_feature_dimension)
    left: list[Expr] = [Const(0)] * len(image)
    right: list[Expr] = [Const(0)] * len(kernel)
    constraints: list[tuple[Expr, Interval]] = []
    for i, (at, of_kernel) in enumerate(zip(n.input_spatial_dimensions, n.kernel_spatial_dimensions, strict=True)):
        offset = kernel[of_kernel] - 1 - Sym(i) if turned[i] else Sym(i)
        where = Dim(n.output_spatial_dimensions[i]) * window.strides[i] + offset * window.window_dilations[i] - window.low[i]
        step = window.base_dilations[i]
        left[at], right[of_kernel] = where // step, Sym(i)
        constraints += [(where, Interval(0, (image[at] - 1) * step)), (where % step, Interval(0, 0))]
    width = kernel[n.kernel_input_feature_dimension]
    groups, batches = int(attributes["feature_group_count"]), int(attributes["batch_group_count"])
    outputs = kernel[n.kernel_output_feature_dimension]
    left[n.input_batch_dimension] = output // (outputs // batches) * result.shape[n.output_batch_dimension] + batch
    left[n.input_feature_dimension] = output // (outputs // groups) * width + Sym(rank)
    right[n.kernel_input_feature_dimension], right[n.kernel_output_feature_dimension] = Sym(rank), output
    sizes = (*(kernel[d] for d in n.kernel_spatial_dimensions), width)
    read = IndexingMap.from_shape(left, result.shape, sizes)
    for expr, interval in constraints:
        read = read.with_constraint(expr, interval)
    return (read.simplify(),), (IndexingMap.from_shape(right, result.shape, sizes),)


def _wide(array: Array, kind: DType) -> Array:
    return widen_to_double(array) if is_float(kind) or is_complex(kind) else array.astype(np.int64)


def _samples() -> tuple[Sample, ...]:
    """Strides, holes in both operands, two groups."""
    attributes: dict[str, Any] = {
        "dimension_numbers": ConvNumbers(),
        "window_strides": (2, 1),
        "padding": np.array([[1, 2], [0, -1]]),
        "lhs_dilation": (1, 2),
        "rhs_dilation": (2, 1),
        "window_reversal": (False, True),
        "feature_group_count": 2,
        "batch_group_count": 1,
    }
    found: list[Sample] = []
    for name in ("float32", "bfloat16", "float16", "float64", "int32", "complex64"):
        kind = dtype(name)
        operands = (TensorLike((2, 7, 5, 4), kind), TensorLike((3, 2, 2, 6), kind))
        found.append(Sample(operands, (TensorLike((2, 3, 7, 6), kind),), attributes))
    return tuple(found)


SPECS = (
    OpSpec(
        "stablehlo.convolution",
        Kind.HERO,
        convolution,
        convolution_maps,
        ulp=1,
        samples=_samples,
        linear=(0, 1),
        is_multilinear=True,
    ),
)
