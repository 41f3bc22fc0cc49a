"""Pass expand-linear-algebra: cholesky and triangular_solve become loops over columns and rows.

All matrices of a batch go at once.

cholesky            L = 0;  for j:  v = A[:, j] - L L[j, :]*;  L[:, j] = v / sqrt(v[j]) from row j on;  all NaN if L[n-1, n-1] is
triangular_solve    X = 0;  for i:  X[i, :] = (B[i, :] - M[i, :] X) / D[i], M the triangle without its diagonal D

The upper factor is that of the adjoint; x op(a) = b is solved as op(a)ᵀ xᵀ = bᵀ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.precision import HIGHEST
from hlo2tx8.hlo.types import element_type, is_complex
from hlo2tx8.ir import i64_attr

INDEX: TensorType[Attribute] = TensorType(i32, [])


@dataclass(frozen=True)
class ExpandLinearAlgebraPass(ModulePass):
    """Rewrites factorisations and solves; see the module docstring."""

    name = "expand-linear-algebra"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.cholesky": _cholesky, "stablehlo.triangular_solve": _triangular_solve})


class _Matrices(Expansion):
    """Arithmetic on batches of matrices, in front of an op or of the end of a loop's body."""

    def __call__(self, name: str, *operands: SSAValue) -> SSAValue:
        return self.emit(name, operands, operands[0].type)

    def transposed(self, value: SSAValue) -> SSAValue:
        """The last two dimensions swapped."""
        batch = len(shape_of(value)) - 2
        return self.transpose(value, (*range(batch), batch + 1, batch))

    def conjugate(self, value: SSAValue) -> SSAValue:
        """Complex elements with the opposite imaginary part."""
        if not is_complex(tensor_like(value.type).dtype):
            return value
        real, imag = self._parts(value)
        return self.emit("complex", [real, self("negate", imag)], value.type)

    def root(self, value: SSAValue) -> SSAValue:
        """The square root of real elements; NaN of negative ones, also where the type is complex."""
        if not is_complex(tensor_like(value.type).dtype):
            return self("sqrt", value)
        root = self("sqrt", self._parts(value)[0])
        return self.emit("complex", [root, self.splat(0, as_tensor(root.type))], value.type)

    def _parts(self, value: SSAValue) -> tuple[SSAValue, SSAValue]:
        tensor = tensor_like(value.type)
        type_ = TensorType(element_type(np.dtype(f"float{4 * tensor.dtype.itemsize}")), tensor.shape)
        return self.emit("real", [value], type_), self.emit("imag", [value], type_)

    def part(self, value: SSAValue, dim: int, at: SSAValue) -> SSAValue:
        """Row (dim -2) or column (dim -1) number `at`, as a matrix."""
        sizes = list(shape_of(value))
        sizes[dim] = 1
        starts = self._starts(value, dim, at)
        return self.emit("dynamic_slice", [value, *starts], self.like(value, sizes), slice_sizes=int_array(sizes))

    def updated(self, value: SSAValue, part: SSAValue, dim: int, at: SSAValue) -> SSAValue:
        """The matrices with row or column number `at` replaced."""
        return self.emit("dynamic_update_slice", [value, part, *self._starts(value, dim, at)], value.type)

    def _starts(self, value: SSAValue, dim: int, at: SSAValue) -> list[SSAValue]:
        zero, rank = self.splat(0, INDEX), len(shape_of(value))
        return [at if d == rank + dim else zero for d in range(rank)]

    def product(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The matrix product, at full precision."""
        *batch, rows, _ = shape_of(a)
        dims, rank = list(range(len(batch))), len(batch)
        numbers = dot_numbers(dims, dims, [rank + 1], [rank])
        type_ = self.like(a, (*batch, rows, shape_of(b)[-1]))
        return self.emit("dot_general", [a, b], type_, dot_dimension_numbers=numbers, precision_config=HIGHEST)

    def spread(self, value: SSAValue, like: SSAValue) -> SSAValue:
        """Rows, columns or single elements repeated in the shape of another value."""
        shape = shape_of(like)
        return self.emit("broadcast_in_dim", [value], self.like(value, shape), broadcast_dimensions=int_array(range(len(shape))))

    def numbers(self, like: SSAValue, dim: int) -> SSAValue:
        """For every element its row index (dim -2) or column index (dim -1)."""
        shape = shape_of(like)
        return self.emit("iota", [], TensorType(i32, shape), iota_dimension=i64_attr(len(shape) + dim))

    def where(self, direction: str, a: SSAValue, b: SSAValue, value: SSAValue) -> SSAValue:
        """`value` where `a` compares to `b` in that direction (GE, LT, ...), else 0."""
        return self("select", self.compared(direction, a, b), value, self.splat(0, as_tensor(value.type)))

    def compared(self, direction: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """a GE, LT, ... b."""
        type_: TensorType[Attribute] = TensorType(i1, shape_of(a))
        new = stablehlo.OPS["compare"]([a, b], [type_], {"comparison_direction": StringAttr(direction)})
        return self.insert(new).results[0]

    def emit(self, name: str, operands: Sequence[SSAValue], type_: Attribute, **properties: Attribute) -> SSAValue:
        if name == "select":
            type_ = operands[1].type
        return super().emit(name, operands, type_, **properties)

    def loop(self, count: int, state: SSAValue, turn: "Callable[[_Matrices, SSAValue, SSAValue], SSAValue]") -> SSAValue:
        """The loop variables after turns 0 .. count - 1; `turn` builds one turn from its number and the loop variables before
        it.
        """
        types = [INDEX, state.type]
        blocks = [Block(arg_types=types) for _ in range(2)]
        ends = [stablehlo.ReturnOp([]) for _ in blocks]
        for block, end in zip(blocks, ends, strict=True):
            block.add_op(end)
        condition, body = (_Matrices(end) for end in ends)
        less = {"comparison_direction": StringAttr("LT")}
        compare = stablehlo.OPS["compare"]([blocks[0].args[0], condition.splat(count, INDEX)], [TensorType(i1, [])], less)
        ends[0].operands = [condition.insert(compare).results[0]]
        number, before = blocks[1].args
        after = turn(body, number, before)
        ends[1].operands = [body("add", number, body.splat(1, INDEX)), after]
        start = [self.splat(0, INDEX), state]
        new = stablehlo.OPS["while"](start, types, {}, [Region(block) for block in blocks])
        return self.insert(new).results[1]


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return tensor_like(value.type).shape


def _cholesky(op: Operation) -> None:
    if 0 in shape_of(op.results[0]):
        return
    m, lower = _Matrices(op), bool(attributes_of(op).get("lower", False))
    a = op.operands[0] if lower else m.conjugate(m.transposed(op.operands[0]))

    def column(m: _Matrices, j: SSAValue, factor: SSAValue) -> SSAValue:
        row = m.part(factor, -2, j)
        v = m("subtract", m.part(a, -1, j), m.product(factor, m.conjugate(m.transposed(row))))
        pivot = m.root(m.part(v, -2, j))
        own = m("divide", v, m.spread(pivot, v))
        first = m.emit("broadcast_in_dim", [j], TensorType(i32, shape_of(v)), broadcast_dimensions=int_array(()))
        return m.updated(factor, m.where("GE", m.numbers(v, -2), first, own), -1, j)

    n = shape_of(a)[-1]
    factor = m.loop(n, m.splat(0, as_tensor(a.type)), column)
    # One that is not positive definite has no factor. NaN of the column where that shows reach the last element, not those before.
    end = m.splat(n - 1, INDEX)
    last = m.spread(m.part(m.part(factor, -2, end), -1, end), factor)
    factor = m("select", m.compared("EQ", last, last), factor, last)
    m.replace(factor if lower else m.conjugate(m.transposed(factor)))


def _triangular_solve(op: Operation) -> None:
    if 0 in shape_of(op.results[0]):
        return
    m, attributes = _Matrices(op), attributes_of(op)
    a, b = op.operands
    lower, left = bool(attributes["lower"]), bool(attributes["left_side"])
    transpose = str(attributes["transpose_a"])
    if transpose.endswith("ADJOINT"):
        a = m.conjugate(a)
    if ("NO_TRANSPOSE" not in transpose) == left:
        a, lower = m.transposed(a), not lower
    b = b if left else m.transposed(b)
    n = shape_of(a)[-1]
    triangle = m.where("GT" if lower else "LT", m.numbers(a, -2), m.numbers(a, -1), a)

    def row(m: _Matrices, turn: SSAValue, solved: SSAValue) -> SSAValue:
        i = turn if lower else m("subtract", m.splat(n - 1, INDEX), turn)
        new = m("subtract", m.part(b, -2, i), m.product(m.part(triangle, -2, i), solved))
        if not attributes["unit_diagonal"]:
            new = m("divide", new, m.spread(m.part(m.part(a, -2, i), -1, i), new))
        return m.updated(solved, new, -2, i)

    solved = m.loop(n, m.splat(0, as_tensor(b.type)), row)
    m.replace(solved if left else m.transposed(solved))
