"""Forms of elementwise ops: how a numpy function becomes an OpSpec."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.ir import Operation

from hlo2tx8.hlo.rounding import narrow, widen, widen_to_double
from hlo2tx8.hlo.spec import Accepts, Array, Attributes, Kind, Maps, OpSpec, Reference, Sample, TensorLike
from hlo2tx8.hlo.types import DType, dtype
from hlo2tx8.indexing import IndexingMap

FLOAT = (Accepts.FLOAT,)
INTEGER = (Accepts.SIGNED, Accepts.UNSIGNED)
REAL = (*FLOAT, *INTEGER)
COMPLEX = (Accepts.COMPLEX,)
NUMBER = (*REAL, *COMPLEX)
PRED = (Accepts.PRED,)
ANY = (*NUMBER, *PRED)

DTYPES = (
    *("float32", "bfloat16", "float16", "float64", "int32", "uint32", "bool", "int8", "uint8", "int16", "uint16"),
    *("int64", "uint64", "complex64", "complex128", "int4", "uint4", "int2", "uint2"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"),
)
"""Dtypes that samples are made of."""
SHAPES = ((3, 5), (), (7,), (2, 1, 3), (0, 4), (1,), (33,), (2, 3, 1, 5), (1, 2, 3, 2, 1), (2, 1, 3, 1, 2, 3))
"""Shapes that samples are made of, one after another."""

ResultDType = Callable[[tuple[DType, ...]], DType]
NumpyFunction = Callable[..., Any]


def same(operands: tuple[DType, ...]) -> DType:
    """The result dtype of an op whose result has the dtype of its last operand."""
    return operands[-1]


def pred(_: tuple[DType, ...]) -> DType:
    """The result dtype bool."""
    return np.dtype(bool)


def real_part(operands: tuple[DType, ...]) -> DType:
    """The result dtype of an op that gives the real part: for a complex operand the float of half its size, else the operand's
    dtype.
    """
    last = operands[-1]
    return np.dtype(f"float{4 * last.itemsize}") if last.kind == "c" else last


def identity_maps(_: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """The identity map per operand; a map to () for a rank-0 operand of a result of higher rank."""
    identity = IndexingMap.identity(result.shape)
    scalar = identity.with_results(())
    return tuple((scalar,) if not o.shape and result.shape else (identity,) for o in operands)


def wide(function: NumpyFunction) -> Reference:
    """A reference that computes `function` in float32 or wider, and rounds its result once to the result's dtype."""
    return _computed(function, widen)


def double(function: NumpyFunction) -> Reference:
    """A reference that computes `function` in float64 or complex128, and rounds its result once to the result's dtype."""
    return _computed(function, widen_to_double)


def raw(function: NumpyFunction) -> Reference:
    """A reference that calls function(attributes, result, *operands) on the operands as they are."""

    def reference(attributes: Attributes, results: tuple[TensorLike, ...], *arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(attributes, results[0], *arrays))

    return reference


def _computed(function: NumpyFunction, prepare: Callable[[Array], Array]) -> Reference:
    def reference(_: Attributes, results: tuple[TensorLike, ...], *arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            return narrow(function(*(prepare(np.asarray(a)) for a in arrays)), results[0].dtype)

    return reference


def elementwise(
    name: str,
    reference: Reference,
    *,
    accepts: tuple[Accepts, ...],
    arity: int = 1,
    result: ResultDType = same,
    ulp: float = 0,
    complex_ulp: float = 4,
    ulp_floor: float = 0,
    scalar: Mapping[str, type[Operation]] | None = None,
    attributes: tuple[Mapping[str, Any], ...] = ({},),
    linear: tuple[int, ...] = (),
    is_multilinear: bool = False,
    neutral: Callable[[DType], Any] | None = None,
) -> OpSpec:
    """An elementwise spec whose operands have one dtype; a sample per accepted dtype and attribute set."""

    def shape(_: Attributes, operands: tuple[TensorLike, ...]) -> tuple[TensorLike, ...]:
        return (TensorLike(operands[-1].shape, result(tuple(o.dtype for o in operands))),)

    def samples() -> tuple[Sample, ...]:
        found: list[Sample] = []
        for kind in dtypes_of(accepts):
            for attrs in attributes:
                tensors = (TensorLike(SHAPES[len(found) % len(SHAPES)], kind),) * arity
                found.append(Sample(tensors, shape(attrs, tensors), attrs))
        return tuple(found)

    return OpSpec(
        name,
        Kind.ELEMENTWISE,
        reference,
        identity_maps,
        shape,
        scalar,
        ulp=ulp,
        complex_ulp=complex_ulp,
        ulp_floor=ulp_floor,
        accepts=accepts,
        samples=samples,
        linear=linear,
        is_multilinear=is_multilinear,
        neutral=neutral,
    )


def dtypes_of(accepts: tuple[Accepts, ...]) -> tuple[DType, ...]:
    """The sample dtypes of the families."""
    return tuple(d for d in map(dtype, DTYPES) if any(family.has(d) for family in accepts))


def dense(array: Array) -> Array:
    """The array in C order; unlike np.ascontiguousarray it leaves rank 0 alone."""
    return np.asarray(array, order="C")
