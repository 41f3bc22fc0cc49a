"""Pass place-fusions: what a call gives tiles becomes fusions on these tiles, and fusions of different tiles stand side by side.

    %1 = func.call @total(%x) {tiles = "0,1,1,2"}     ⟶    %1 = hlo.fusion "dot_fusion"(%x) {..} {tiles = array<i64: 0, 1, 1, 2>}
    %2 = func.call @half(%1) {tiles = "0,0,1,1"}            %3 = hlo.fusion "dot_fusion"(%y) {..} {tiles = array<i64: 0, 1, 1, 2>}
    %3 = func.call @total(%y) {tiles = "0,1,1,2"}           %2 = hlo.fusion "half_fusion"(%1) {..} {tiles = array<i64: 0, 0, 1, 1>}

Fusions of a block that has nothing else are put in steps: each is in the first one behind those of what it reads, and of what its
tiles did before. So several inputs of one chain of functions go through it one behind the other, each function on another of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.device.chip import load_chip
from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.fusion.views import is_view
from hlo2tx8.hlo.placement import Rectangle, placed_calls
from hlo2tx8.hlo.regions import terminator_of
from hlo2tx8.partitioner.instruction import CONSTANTS


@dataclass(frozen=True)
class PlaceFusionsPass(ModulePass):
    """Puts the bodies of functions that run on some tiles in the place of their calls; see the module docstring."""

    name = "place-fusions"

    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        mesh = load_chip(self.chip).mesh
        functions = {f.sym_name.data: f for f in op.body.block.ops if isinstance(f, FuncOp)}
        calls = list(placed_calls(op, mesh))
        blocks = dict.fromkeys(block for call, _ in calls if (block := call.parent_block()) is not None)
        names = dict.fromkeys(call.callee.string_value() for call, _ in calls)
        for call, rectangle in calls:
            _inline(call, functions[call.callee.string_value()], None if rectangle.is_all(mesh) else rectangle)
        still = {call.callee.string_value() for call in nested_ops(op) if isinstance(call, CallOp)}
        for name in names:
            if name not in still:
                functions[name].detach()
                functions[name].erase()
        for block in blocks:
            if op.is_ancestor(block):
                _put_in_steps(block, mesh)


def _inline(call: CallOp, function: FuncOp, rectangle: Rectangle | None) -> None:
    """The ops of the function, with these tiles on each fusion of it, where the call is; constants are copied with them."""
    block, body = call.parent_block(), function.body.block
    assert block is not None
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, call.operands, strict=True))
    for op in body.ops:
        if op is body.last_op:
            Rewriter.replace_op(call, [], [values.get(value, value) for value in op.operands])
            return
        copy = op.clone(values)
        for inner in copy.walk():
            if isinstance(inner, FusionOp) and rectangle is not None:
                inner.tiles = rectangle.attribute
                inner.attributes = {key: call.attributes[key] for key in ("loc",) if key in call.attributes} | inner.attributes
        block.insert_op_before(copy, call)


def _put_in_steps(block: Block, mesh: Sequence[int]) -> None:
    """Orders fusions by the step that each can be in; a block with control flow stays as it is."""
    ops = [op for op in block.ops if op is not block.last_op]
    if not all(isinstance(op, FusionOp | GroupOp) or op.name in CONSTANTS for op in ops):
        return
    every = range(mesh[0] * mesh[1])
    made: dict[SSAValue, int] = {}
    free = dict.fromkeys(every, 0)
    steps: dict[Operation, int] = {}
    for op in ops:
        ready = max((made.get(value, 0) for value in op.operands), default=0)
        if op.name in CONSTANTS or is_view(op):
            steps[op] = end = ready
        else:
            rectangle = Rectangle.of(op)
            tiles = every if rectangle is None else rectangle.tiles(mesh)
            steps[op] = max(ready, *(free[tile] for tile in tiles))
            end = steps[op] + 1
            free |= dict.fromkeys(tiles, end)
        made |= dict.fromkeys(op.results, end)
    last = terminator_of(block)
    for op in sorted(ops, key=steps.__getitem__):
        op.detach()
        block.insert_op_before(op, last)
