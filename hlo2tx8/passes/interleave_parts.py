"""Pass interleave-parts: a concatenation of parts whose runs are shorter than a line becomes a transpose of a concatenation.

    concatenate %a, %b along 2 : two 2048x1024x1    ⟶    reshape %a, %b : 1x2097152x1
                                                         transpose (concatenate along 0 : 2x2097152x1), dims = [1, 0, 2]
                                                         reshape : 2048x1024x2

A transpose stores long runs of all parts, where each part by itself would be stored in runs of a few bytes. Parts of single
elements that are made of the same tensors stay: one step makes all of them, and puts them together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.hlo.types import numpy_dtype
from hlo2tx8.ir import i64_attr
from hlo2tx8.partitioner.instruction import is_elementwise, shape_of, tensor_type
from hlo2tx8.schedule.concatenate_parts import MAX_CONCATENATE_OPERANDS

MOST_LOOKED_AT = 64
"""Values that parts are made of, for each."""
MOVES = ("stablehlo.slice", "stablehlo.reshape", "stablehlo.transpose", "stablehlo.broadcast_in_dim")


@dataclass(frozen=True)
class InterleavePartsPass(ModulePass):
    """Rewrites concatenations; see the module docstring. chip: file of its description, "" for the built-in."""

    name = "interleave-parts"

    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from hlo2tx8.device.chip import load_chip

        line_bytes = Rates.of(load_chip(self.chip)).line_bytes
        rewrite_named(op, {"stablehlo.concatenate": lambda own: _interleave(own, line_bytes)})


def _interleave(op: Operation, line_bytes: int) -> None:
    """Puts the transpose in the place of a concatenation of several equal parts in several runs."""
    (shape, *others), result = [shape_of(value) for value in op.operands], op.results[0]
    dim = int(attributes_of(op)["dimension"])
    outer, run = prod(shape[:dim]), prod(shape[dim:])
    if not others or any(other != shape for other in others) or outer <= 1 or run == 0:
        return
    if run * numpy_dtype(tensor_type(result).element_type).itemsize >= line_bytes:
        return
    if not all(is_row_major(tensor_type(value)) for value in (*op.operands, result)):
        return
    if run == 1 and len(op.operands) <= MAX_CONCATENATE_OPERANDS and _made_of_the_same(op.operands):
        return
    e, count = Expansion(op), len(op.operands)
    parts = [e.emit("reshape", [value], e.like(value, (1, outer, run))) for value in op.operands]
    found = e.emit("concatenate", parts, e.like(result, (count, outer, run)), dimension=i64_attr(0))
    e.replace(e.emit("reshape", [e.transpose(found, [1, 0, 2])], result.type))


def _made_of_the_same(parts: Sequence[SSAValue]) -> bool:
    """Are two parts arithmetic on the same tensor, be it on other elements of it? Their emitter makes both in one step."""
    seen: set[SSAValue] = set()
    for part in parts:
        own = _made_of(part)
        if own & seen:
            return True
        seen |= own
    return False


def _made_of(value: SSAValue) -> set[SSAValue]:
    """The tensors of no fewer elements that a value is arithmetic on, or slices of which it is."""
    found, stack, seen = set[SSAValue](), [value], set[SSAValue]()
    while stack and len(seen) < MOST_LOOKED_AT:
        here = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        owner = here.owner
        if isinstance(owner, Operation) and has_spec(owner.name) and (is_elementwise(owner) or owner.name in MOVES):
            stack += owner.operands
        elif prod(shape_of(here)) >= prod(shape_of(value)):
            found.add(here)
    return found
