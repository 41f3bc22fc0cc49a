"""Pass join-updates: a scatter whose updates meet in lines that fit the scratchpad joins them there, not one by one in memory.

write_at %x, %u, %i by +                   ⟶    %p = hlo.join_at (neutral elements, a line per part of the updates), %i, %u
    x [512, 64], u [8192, 64]                    add %x, (reduce %p over its lines)

write_at %x, %u, %i                        ⟶    hlo.join_at %x, %i, %u                  each line has updates of its own
    x [2048, 1024], u [2048, 16]

write_at (constant 0), %u, %i by +         ⟶    select (iota = broadcast %i), (broadcast (0 + %u)), 0
    x [2048, 1024], u [2048]                    a line has few updates: whoever reads the result makes it itself

Dimensions of x along which an update has all elements, or is at its own index, are lines in front of those that indices move
along, and columns behind them. Parts join the updates in another grouping, by a combiner that allows it; else they stay
in order. Whether updates go one by one is decided by an estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneAttr, TensorType, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import FusionOp, LiteralAttr
from hlo2tx8.dialects.hlo_lines import JoinAtOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.combiner import neutral_element
from hlo2tx8.hlo.constants import Array, scalar_of
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.ir import i64_attr
from hlo2tx8.passes.updates.build import Updates
from hlo2tx8.passes.updates.select import Choices, choice_cycles
from hlo2tx8.passes.updates.walk import UpdateWalk
from hlo2tx8.schedule.join_lines import INDEX_BYTES, UpdatedLines

DTYPES = (
    *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "bfloat16", "float32", "float64", "bool"),
)
"""Of elements that the kernel core joins with one instruction."""


@dataclass(frozen=True)
class JoinUpdatesPass(ModulePass):
    """Rewrites such scatters; see the module docstring."""

    name = "join-updates"

    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rates = Rates.of(load_chip(self.chip))
        rewrite_named(op, {"hlo.write_at": lambda update: _join(update, rates)})


def _join(op: Operation, rates: Rates) -> None:
    types = [as_tensor(value.type) for value in op.operands]
    is_plain = all(isinstance(type_.encoding, NoneAttr) and 0 not in type_.get_shape() for type_ in types)
    if len(op.results) != 1 or not is_plain or isinstance(op.parent_op(), FusionOp):
        return
    dtype = tensor_like(op.results[0].type).dtype
    neutral = neutral_element(op.regions[0].block, dtype) if op.regions else None
    if dtype.name not in DTYPES or (op.regions and neutral is None) or (walk := UpdateWalk.of(op)) is None:
        return
    lines = UpdatedLines.of(walk.shape, walk.num_updates, dtype.itemsize, is_loaded=scalar_of(op.operands[0]) is None)
    one_by_one = _in_memory(op, lines, rates)
    if walk.is_turned:
        one_by_one -= 2 * lines.lines * lines.updates * lines.columns * lines.width / rates.ddr + rates.kernel
    whole, (parts, in_parts) = lines.cycles(rates), lines.in_parts(rates)
    e, start = _Join(op, walk), scalar_of(op.operands[0])
    filled, choices = prod(walk.shape) * dtype.itemsize / rates.ddr, choice_cycles(walk.shape, walk.num_updates, rates)
    if start is not None and dtype.itemsize <= INDEX_BYTES and choices < min(filled + one_by_one, whole) + filled:
        chosen = Choices(op, walk)
        chosen.replace(chosen.among(start))
    elif whole < one_by_one and (neutral is None or whole <= in_parts):
        e.replace(e.at_once())
    elif neutral is not None and in_parts < one_by_one:
        e.replace(e.in_parts(parts, neutral))


def _in_memory(op: Operation, lines: UpdatedLines, rates: Rates) -> float:
    """The estimate of windows that are read, joined and written one after the other: for each at least a transfer has to start."""
    in_order: Sequence[int] = attributes_of(op)["in_order"]
    turns = prod(tensor_like(op.operands[1].type).shape[d] for d in in_order)
    num_lines = lines.lines * lines.updates // turns
    window_bytes = num_lines * max(rates.line_bytes, lines.columns * lines.width)
    return turns * max(rates.transfer_start, 2 * window_bytes / rates.ddr)


@dataclass
class _Join(Updates):
    """Builds what a scatter becomes, in front of it."""

    def at_once(self) -> SSAValue:
        """All updates of a line in order."""
        x, (first, places, _) = self.op.operands[0], self.walk.sizes
        start = scalar_of(x)
        return self._joined(x if start is None else start, tensor_like(x.type).shape, len(first), len(places), self.places())

    def in_parts(self, parts: UpdatedLines, neutral: Array) -> SSAValue:
        """Parts of the updates of a line, each joined with neutral elements, and then with each other and the line."""
        x, (lines, places, columns) = self.op.operands[0], self.walk.shape
        count = parts.lines // lines
        missing, none = count * parts.updates - self.walk.num_updates, self.splat(-1, TensorType(i32, ()))
        index = self.places()
        if missing:
            index = self.reshaped(index, (lines, self.walk.num_updates))
            index = self.pad(index, none, (0, 0), (0, missing), (0, 0))
        found = self._joined(neutral, (lines, count, places, columns), 2, 1, index)
        start = scalar_of(x)
        type_, over = self.like(x, self.walk.shape), {"dimensions": int_array((1,))}
        operands = [found, self.constant(neutral if start is None else start, ())]
        reduced = self.insert(stablehlo.OPS["reduce"](operands, [type_], over, [self.op.regions[0].clone()])).results[0]
        reduced = self.reshaped(reduced, tensor_like(x.type).shape)
        first = self.op.regions[0].block.first_op
        assert first is not None
        return reduced if start is not None else self.emit(first.name.rpartition(".")[2], [x, reduced], x.type)

    def _joined(self, x: SSAValue | Array, shape: Sequence[int], num_lines: int, num_places: int, index: SSAValue) -> SSAValue:
        """Lines of that shape with the updates: a fusion of its own, with what is constant."""
        count = prod(tensor_like(index.type).shape) // self.walk.shape[0]
        updates, mark = self.updates(count), self.op.prev_op
        if isinstance(x, np.ndarray):
            x = self.constant(x, shape)
        if isinstance(updates, np.ndarray):
            updates = self.constant(updates, (*tensor_like(index.type).shape, self.walk.shape[2]))
        properties = {"places": i64_attr(num_lines), "columns": i64_attr(num_lines + num_places)}
        regions = [self.op.regions[0].clone()] if self.op.regions else []
        new = self.insert(JoinAtOp([x, index, updates], [self.like(self.op.results[0], shape)], properties, regions))
        return self.fuse_since(mark, new.results)[0]

    def _constant(self, element: Array, shape: Sequence[int]) -> SSAValue:
        return self.emit("constant", [], self.like(self.op.results[0], shape), value=LiteralAttr.from_array(element))
