"""Pass expand-operations: what no emitter takes as it is, in terms of what one does.

bitcast_convert f32 → 2 x i16      ⟶    the bits as i32, repeated along the new dimension, each shifted and cut
bitcast_convert 2 x i16 → f32      ⟶    each part widened, shifted, put together, the bits as f32
real x, imag x of a real x         ⟶    x, 0
dynamic_broadcast_in_dim           ⟶    broadcast_in_dim, where the result's shape is known
dynamic_slice, gather              ⟶    hlo.read_at
dynamic_update_slice, scatter      ⟶    hlo.write_at
reduce_window, convolution         ⟶    reduce, dot_general of views
select_and_scatter                 ⟶    two reduces of views
sort                               ⟶    a network of compare and exchange
custom_call @ApproxTopK            ⟶    sort, slice
batch_norm_*                       ⟶    arithmetic and sums
cholesky, triangular_solve         ⟶    loops over columns and rows
fft                                ⟶    products with Fourier matrices
rng_bit_generator, rng             ⟶    integer arithmetic on the numbers of the elements
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, Signedness, TensorType, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import LiteralAttr, UnknownOp
from hlo2tx8.hlo import (
    expand_approx_top_k,
    expand_batch_norm,
    expand_fft,
    expand_indexed,
    expand_linear_algebra,
    expand_random,
    expand_select_and_scatter,
    expand_sort,
    expand_windows,
)
from hlo2tx8.hlo.expansion import Expansion, int_array
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.regions import captured
from hlo2tx8.hlo.types import bit_width, is_complex


@dataclass(frozen=True)
class ExpandOperationsPass(ModulePass):
    """Rewrites single operations; see the module docstring."""

    name = "expand-operations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in tuple(op.walk()):
            if inner.name in FIRST:
                FIRST[inner.name](inner)
        for inner in tuple(op.walk()):
            if inner.name in COMBINING:
                _own_constants(inner)
            expand = EXPANSIONS.get(inner.name)
            if expand is not None:
                expand(inner)


FIRST: dict[str, Callable[[Operation], None]] = {
    **expand_linear_algebra.EXPANSIONS,
    **expand_random.EXPANSIONS,
    **expand_approx_top_k.EXPANSIONS,
}
"""What rewrites an op into ops that need to be rewritten, too."""

COMBINING = tuple(f"stablehlo.{name}" for name in ("reduce", "reduce_window", "scatter", "select_and_scatter", "sort"))
"""Ops whose regions say what to do with elements."""


def _own_constants(op: Operation) -> None:
    """Constants that a region reads from outside get a copy inside: canonicalization had moved them out."""
    for value in captured(op):
        owner = value.owner
        if not isinstance(owner, Operation) or owner.name != "stablehlo.constant":
            continue
        for region in op.regions:
            first = region.block.first_op
            assert first is not None
            copy = owner.clone()
            region.block.insert_op_before(copy, first)
            value.replace_uses_with_if(copy.results[0], lambda use, block=region.block: use.operation.parent is block)


def _unsigned(width: int, shape: Sequence[int]) -> TensorType[Attribute]:
    return TensorType(IntegerType(width, Signedness.UNSIGNED), shape)


def _expand_bitcast(op: Operation) -> None:
    source, result = tensor_like(op.operands[0].type), tensor_like(op.results[0].type)
    wide, narrow = bit_width(source.dtype), bit_width(result.dtype)
    if wide == narrow or is_complex(source.dtype) or is_complex(result.dtype):
        return
    e = Expansion(op)
    if 0 in result.shape:
        # Nothing to compute; an op without operands of the right type will do.
        e.replace(e.emit("iota", [], op.results[0].type, iota_dimension=IntegerAttr(result.shape.index(0), i64)))
    elif wide > narrow:
        _split(e, op, wide, narrow, result.shape)
    else:
        _join(e, op, wide, narrow, source.shape)


def _split(e: Expansion, op: Operation, wide: int, narrow: int, shape: tuple[int, ...]) -> None:
    """Part j along the last dimension holds bits j * narrow and up."""
    bits = e.emit("bitcast_convert", [op.operands[0]], _unsigned(wide, shape[:-1]))
    full = _unsigned(wide, shape)
    spread = e.emit("broadcast_in_dim", [bits], full, broadcast_dimensions=int_array(range(len(shape) - 1)))
    part = e.emit("iota", [], full, iota_dimension=IntegerAttr(len(shape) - 1, i64))
    shift = e.emit("multiply", [part, e.splat(narrow, full)], full)
    shifted = e.emit("shift_right_logical", [spread, shift], full)
    if narrow == 1:
        bit = e.emit("and", [shifted, e.splat(1, full)], full)
        e.replace(e.emit("convert", [bit], op.results[0].type))
        return
    cut = e.emit("convert", [shifted], _unsigned(narrow, shape))
    e.replace(e.emit("bitcast_convert", [cut], op.results[0].type))


def _join(e: Expansion, op: Operation, narrow: int, wide: int, shape: tuple[int, ...]) -> None:
    """Part j along the last dimension gives bits j * narrow and up."""
    outer = shape[:-1]
    part = IntegerType(narrow, Signedness.UNSIGNED) if narrow > 1 else i1
    bits = e.emit("bitcast_convert", [op.operands[0]], TensorType(part, shape)) if narrow > 1 else op.operands[0]
    whole: SSAValue | None = None
    for j in range(shape[-1]):
        start, limit = (*(0 for _ in outer), j), (*outer, j + 1)
        strides = int_array([1] * len(shape))
        one = e.emit(
            "slice",
            [bits],
            TensorType(part, (*outer, 1)),
            start_indices=int_array(start),
            limit_indices=int_array(limit),
            strides=strides,
        )
        flat = e.emit("reshape", [one], TensorType(part, outer))
        widened = e.emit("convert", [flat], _unsigned(wide, outer))
        moved = e.emit("shift_left", [widened, e.splat(j * narrow, _unsigned(wide, outer))], _unsigned(wide, outer))
        whole = moved if whole is None else e.emit("or", [whole, moved], _unsigned(wide, outer))
    assert whole is not None
    e.replace(e.emit("bitcast_convert", [whole], op.results[0].type))


def _make_static(op: Operation) -> None:
    """The shape operand says what the result type says already."""
    source, shape = op.operands[0], op.operands[1]
    if any(n < 0 for n in tensor_like(op.results[0].type).shape):
        return
    e = Expansion(op)
    dimensions = {k: v for k, v in op.properties.items() if k == "broadcast_dimensions"}
    e.replace(e.emit("broadcast_in_dim", [source], op.results[0].type, **dimensions))
    owner = shape.owner
    if isinstance(owner, UnknownOp) and shape.first_use is None:
        Rewriter.erase_op(owner)


def _expand_part(op: Operation) -> None:
    source = tensor_like(op.operands[0].type)
    if is_complex(source.dtype):
        return
    if op.name == "stablehlo.real":
        Rewriter.replace_op(op, [], [op.operands[0]])
        return
    e = Expansion(op)
    zero = LiteralAttr.from_array(np.zeros((), source.dtype))
    e.replace(e.emit("constant", [], op.results[0].type, value=zero))


EXPANSIONS: dict[str, Callable[[Operation], None]] = {
    "stablehlo.bitcast_convert": _expand_bitcast,
    "stablehlo.real": _expand_part,
    "stablehlo.imag": _expand_part,
    "stablehlo.dynamic_broadcast_in_dim": _make_static,
    **expand_indexed.EXPANSIONS,
    **expand_windows.EXPANSIONS,
    **expand_select_and_scatter.EXPANSIONS,
    **expand_sort.EXPANSIONS,
    **expand_batch_norm.EXPANSIONS,
    **expand_fft.EXPANSIONS,
}
"""What rewrites an op of that name, where it needs to be rewritten."""
