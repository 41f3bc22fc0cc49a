"""Pass expand-fft: fft as products with small Fourier matrices, dimension after dimension, in complex arithmetic.

    n = p q:  x[b, n] as [b, p, q]   ⟶   F_p along p   ⟶   times w^(k r), w = e^(-2 pi i / n)   ⟶   transform of length q along q

A length with a large prime factor is a convolution of a power of two (Bluestein): jk = (j² + k² - (k - j)²) / 2.
Inverse transforms have conjugate matrices. A real input gets a zero imaginary part, and the first half of the result is kept;
for a real result the second half of the input is the conjugate of the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo import LiteralAttr, StructAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.struct_text import parse_struct
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.types import element_type, numpy_dtype
from hlo2tx8.ir import i64_attr

Shape = Sequence[int]

MAX_MATRIX = 32
"""Largest Fourier matrix of a factor."""
MAX_PRIME = 128
"""Longest transform that is one product although it has no factors; longer ones are convolutions."""


@dataclass(frozen=True)
class ExpandFftPass(ModulePass):
    """Rewrites Fourier transforms; see the module docstring."""

    name = "expand-fft"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.fft": _fft})


class _Transform(Expansion):
    """Builds the transforms of one op; `sign` is -1 forwards, 1 backwards."""

    sign = -1

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        operand = numpy_dtype(as_tensor(op.operands[0].type).element_type)
        self.element = element_type(np.result_type(operand, np.complex64))
        self.shape = list(as_tensor(op.operands[0].type).get_shape())

    def type(self, shape: Shape) -> TensorType[Attribute]:
        return TensorType(self.element, shape)

    def constant(self, values: npt.NDArray[Any]) -> SSAValue:
        literal = LiteralAttr.from_array(values.astype(numpy_dtype(self.element)))
        return self.emit("constant", [], self.type(values.shape), value=literal)

    def reshape(self, x: SSAValue, shape: Shape) -> SSAValue:
        return self.emit("reshape", [x], self.type(shape))

    def slice(self, x: SSAValue, start: int, limit: int) -> SSAValue:
        """A part of the last dimension."""
        *outer, _ = as_tensor(x.type).get_shape()
        bounds = {"start_indices": [0] * len(outer) + [start], "limit_indices": [*outer, limit], "strides": [1] * (len(outer) + 1)}
        type_ = TensorType(as_tensor(x.type).element_type, [*outer, limit - start])
        return self.emit("slice", [x], type_, **{k: int_array(v) for k, v in bounds.items()})

    def times(self, x: SSAValue, values: npt.NDArray[Any]) -> SSAValue:
        """x times constants of its last dimensions."""
        shape = as_tensor(x.type).get_shape()
        along = int_array(range(len(shape) - values.ndim, len(shape)))
        factors = self.emit("broadcast_in_dim", [self.constant(values)], self.type(shape), broadcast_dimensions=along)
        return self.emit("multiply", [x, factors], self.type(shape))

    def product(self, x: SSAValue, dim: int, matrix: npt.NDArray[Any]) -> SSAValue:
        """x with dimension `dim` contracted with the rows of a matrix; its columns are the last dimension."""
        shape = list(as_tensor(x.type).get_shape())
        fields = f"lhs_contracting_dimensions = [{dim}], rhs_contracting_dimensions = [0]"
        numbers = StructAttr(parse_struct(f"#stablehlo.dot<{fields}>"))
        type_ = self.type([*shape[:dim], *shape[dim + 1 :], matrix.shape[1]])
        precision = ArrayAttr([StringAttr("HIGHEST")] * 2)
        operands = [x, self.constant(matrix)]
        return self.emit("dot_general", operands, type_, dot_dimension_numbers=numbers, precision_config=precision)

    def roots(self, exponents: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
        """e^(sign 2 pi i k / n) for these integers k."""
        return np.exp(self.sign * 2j * np.pi * (exponents % n) / n)

    def rows(self, x: SSAValue) -> SSAValue:
        """The transforms of the rows of x[b, n]."""
        count, n = as_tensor(x.type).get_shape()
        p = factor_of(n)
        if p == n:
            k = np.arange(n)
            return self.product(x, 1, self.roots(np.outer(k, k), n))
        if p == 1:
            return self.convolved(x)
        q, k, r = n // p, np.arange(p), np.arange(n // p)
        first = self.product(self.reshape(x, (count, p, q)), 1, self.roots(np.outer(k, k), p))
        turned = self.times(first, self.roots(np.outer(r, k), n))
        rest = self.rows(self.reshape(self.transpose(turned, (0, 2, 1)), (count * p, q)))
        return self.reshape(self.transpose(self.reshape(rest, (count, p, q)), (0, 2, 1)), (count, n))

    def convolved(self, x: SSAValue) -> SSAValue:
        """Bluestein's: chirp times (x times chirp, convolved with the conjugate chirp)."""
        n = as_tensor(x.type).get_shape()[1]
        size, sign = 1 << (2 * n - 2).bit_length(), self.sign
        k = np.arange(n, dtype=np.int64)
        chirp = self.roots(k * k, 2 * n)
        kernel = np.zeros(size, complex)
        kernel[:n], kernel[size - n + 1 :] = chirp.conj(), chirp[:0:-1].conj()
        zero = self.emit("constant", [], self.type(()), value=LiteralAttr.from_array(np.zeros((), numpy_dtype(self.element))))
        padded = self.pad(self.times(x, chirp), zero, (0, 0), (0, size - n), (0, 0))
        self.sign = -1
        spectrum = self.times(self.rows(padded), np.fft.fft(kernel) / size)
        self.sign = 1
        found = self.slice(self.rows(spectrum), 0, n)
        self.sign = sign
        return self.times(found, chirp)

    def along(self, x: SSAValue, dim: int) -> SSAValue:
        """The transform along one dimension."""
        shape = list(as_tensor(x.type).get_shape())
        if shape[dim] == 1:
            return x
        order = [*(d for d in range(len(shape)) if d != dim), dim]
        moved = self.transpose(x, order)
        n = shape[dim]
        rows = self.rows(self.reshape(moved, (prod(shape) // n, n)))
        back = self.reshape(rows, [shape[d] for d in order])
        return self.transpose(back, [order.index(d) for d in range(len(shape))])


def factor_of(n: int) -> int:
    """n itself where one product does; the first factor of a longer transform; 1 where there is none."""
    if n <= MAX_MATRIX:
        return n
    factors = [p for p in range(2, MAX_MATRIX + 1) if n % p == 0]
    if not factors:
        return n if n <= MAX_PRIME else 1
    root = isqrt(n)
    return next((p for p in factors if p >= root), factors[-1])


def _fft(op: Operation) -> None:
    e, attributes = _Transform(op), attributes_of(op)
    kind, lengths = str(attributes["fft_type"]), tuple(int(n) for n in attributes["fft_length"])
    (x,), result = op.operands, as_tensor(op.results[0].type)
    if 0 in (*e.shape, *result.get_shape()):
        zero = LiteralAttr.from_array(np.zeros((), numpy_dtype(result.element_type)))
        e.replace(e.emit("constant", [], result, value=zero))
        return
    e.sign = -1 if kind in ("FFT", "RFFT") else 1
    dims = list(range(len(e.shape) - len(lengths), len(e.shape)))
    if kind == "RFFT":
        x = e.along(e.emit("convert", [x], e.type(e.shape)), dims.pop())
        x = e.slice(x, 0, lengths[-1] // 2 + 1)
    for dim in dims if kind != "IRFFT" else dims[:-1]:
        x = e.along(x, dim)
    if kind == "IRFFT":
        x = e.emit("real", [e.along(_whole_spectrum(e, x, lengths[-1]), dims[-1])], result)
    if e.sign == 1:
        scale = LiteralAttr.from_array(np.array(1 / prod(lengths), numpy_dtype(result.element_type)))
        x = e.emit("multiply", [x, e.emit("constant", [], result, value=scale)], result)
    e.replace(x)


def _whole_spectrum(e: _Transform, half: SSAValue, n: int) -> SSAValue:
    """n values along the last dimension of which the first n / 2 + 1 are given: x[n - k] is the conjugate of x[k]."""
    *outer, _ = as_tensor(half.type).get_shape()
    if n <= 2:
        return e.slice(half, 0, n)
    mirrored = e.slice(half, 1, (n + 1) // 2)
    part = element_type(np.dtype(f"float{4 * numpy_dtype(e.element).itemsize}"))
    parts = [e.emit(name, [mirrored], TensorType(part, as_tensor(mirrored.type).get_shape())) for name in ("real", "imag")]
    parts[1] = e.emit("negate", [parts[1]], parts[1].type)
    conjugate = e.emit("complex", parts, mirrored.type)
    back = e.emit("reverse", [conjugate], mirrored.type, dimensions=int_array([len(outer)]))
    return e.emit("concatenate", [half, back], e.type([*outer, n]), dimension=i64_attr(len(outer)))
