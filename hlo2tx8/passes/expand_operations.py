"""Pass expand-operations: operations that no emitter takes become operations that one does.

bitcast_convert to other widths    ⟶    the bits as integers, shifted and cut, or put together
reduce as of argmax                ⟶    one whose order is free
real x, imag x of a real x         ⟶    x, 0
dynamic_broadcast_in_dim           ⟶    broadcast_in_dim, where the result's shape is known
dynamic_slice, gather              ⟶    hlo.read_at
scatter                            ⟶    hlo.write_at, or dynamic_update_slice of one window
products of two types              ⟶    products of one
reduce_window, convolution         ⟶    reduce, dot_general of views
pad with holes                     ⟶    pad of one more dimension, pad
select_and_scatter                 ⟶    two reduces of views
sort                               ⟶    a network of compare and exchange
custom_call @ApproxTopK            ⟶    sort, slice
batch_norm_*                       ⟶    arithmetic and sums
cholesky, triangular_solve         ⟶    loops over columns and rows
fft                                ⟶    products with Fourier matrices
rng_bit_generator, rng             ⟶    integer arithmetic on the numbers of the elements
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import LiteralAttr, UnknownOp
from hlo2tx8.hlo.expansion import Expansion
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.regions import captured
from hlo2tx8.hlo.types import is_complex
from hlo2tx8.passes import (
    arg_extreme,
    expand_approx_top_k,
    expand_batch_norm,
    expand_bitcast,
    expand_fft,
    expand_indexed,
    expand_linear_algebra,
    expand_mixed_factors,
    expand_one_window,
    expand_random,
    expand_select_and_scatter,
    expand_sort,
    expand_windows,
)


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
    **expand_mixed_factors.EXPANSIONS,
    **expand_one_window.EXPANSIONS,
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
    "stablehlo.real": _expand_part,
    "stablehlo.imag": _expand_part,
    "stablehlo.dynamic_broadcast_in_dim": _make_static,
    **arg_extreme.EXPANSIONS,
    **expand_bitcast.EXPANSIONS,
    **expand_indexed.EXPANSIONS,
    **expand_windows.EXPANSIONS,
    **expand_select_and_scatter.EXPANSIONS,
    **expand_sort.EXPANSIONS,
    **expand_batch_norm.EXPANSIONS,
    **expand_fft.EXPANSIONS,
}
"""What rewrites an op of that name, where it needs to be rewritten."""
