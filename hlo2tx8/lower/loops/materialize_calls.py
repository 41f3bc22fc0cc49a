"""Pass materialize-calls: a function called several times fills a scratch tensor, once, and its callers read that.

Before:
    %0 = xla.loop ... { ... %a = xla.pure_call @f_log(%p0, %i, %j) ... %b = xla.pure_call @f_log(%p0, %j, %i) ... }
    func.func private @f_log(...) -> f32 attributes {xla.split = #map, xla.num_lanes = 1, xla.tensors = [tensor<4x4xf32>]}

After:
    %s = xla.allocate_scratch : tensor<4x4xf32>
    %1 = xla.loop (%tile)[%step, %lane] -> (%i, %j) in #map ... { ... the body of @f_log, inserted into the iter arg }
    %2 = xla.sync_tiles %1 : tensor<4x4xf32> -> tensor<4x4xf32>
    %0 = xla.loop ... { ... %a = tensor.extract %2[%i, %j] ... %b = tensor.extract %2[%j, %i] ... }

So a chain of n diamonds takes n loops, not 2^n element computations. A function with several results fills a tensor for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.dialects.made import extract_op, insert_op
from hlo2tx8.dialects.xla import (
    AllocateScratchOp,
    IndexingMapAttr,
    LoopOp,
    PureCallOp,
    SyncTilesOp,
    TileIdOp,
    YieldOp,
)
from hlo2tx8.errors import LevelError
from hlo2tx8.lower.loops.inline import callee_of, callers_first, calls_in, move_body


@dataclass(frozen=True)
class MaterializeCallsPass(ModulePass):
    """Leaves the entry function alone in its module; see the module docstring."""

    name = "materialize-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.body.block.ops if isinstance(f, func.FuncOp)}
        if len(functions) == 1:
            return
        entry = next(f for f in functions.values() if "xla.entry" in f.attributes)
        tile = next(inner for inner in entry.body.block.ops if isinstance(inner, TileIdOp))
        phases: list[Operation] = [tile, *(inner for inner in entry.body.block.ops if isinstance(inner, SyncTilesOp))]
        callees = [name for name in callers_first(functions) if functions[name] is not entry]
        calls: dict[str, list[PureCallOp]] = {name: [] for name in callees}
        for function in functions.values():
            for call in calls_in(function):
                calls[callee_of(call)].append(call)
        for name in callees:  # what calls one is in the entry function by then
            if calls[name]:
                _materialize(functions[name], calls[name], entry, tile.tile, phases)
            functions[name].detach()
            functions[name].erase(safe_erase=False)


def _materialize(
    function: func.FuncOp, calls: list[PureCallOp], entry: func.FuncOp, tile: SSAValue, phases: list[Operation]
) -> None:
    """Insert the loop that fills the tensors, behind the last of `phases` that is in front of all calls."""
    map, num_lanes, types = _split_of(function)
    block = entry.body.block
    after = _last_in_front(phases, calls, block)
    scratch = [AllocateScratchOp(type_) for type_ in types]
    loop = LoopOp(map, [tile], [op.res for op in scratch], num_lanes)
    for arg, variable in zip(loop.range_args, map.data.ranges, strict=True):
        arg.name_hint = variable.name
    num_params = len(function.body.block.args) - len(map.data.results)
    params = calls[0].arguments[:num_params]
    call = PureCallOp(function.sym_name.data, [*params, *loop.index_args], [type_.element_type for type_ in types])
    pairs = zip(call.res, loop.iter_block_args, strict=True)
    inserts = [insert_op(value, target, loop.index_args) for value, target in pairs]
    loop.body.block.add_ops([call, *inserts, YieldOp([insert.result for insert in inserts])])
    synced = SyncTilesOp(loop.res)
    block.insert_ops_after([*scratch, loop, synced], after)
    move_body(function, call)
    for old in calls:
        _read(old, synced, old.arguments[num_params:], types)


def _last_in_front(phases: list[Operation], calls: list[PureCallOp], block: Block) -> Operation:
    """The last of these operations of a block in front of the first operation with a call in it."""
    holders = {_holder(call, block) for call in calls}
    found = phases[0]
    for op in block.ops:
        if op in holders:
            return found
        found = op if op in phases else found
    return found


def _holder(op: Operation, block: Block) -> Operation:
    """The operation of a block that holds this one."""
    while op.parent_block() is not block:
        parent = op.parent_op()
        assert parent is not None, "what calls a function is in the entry function"
        op = parent
    return op


def _read(call: PureCallOp, synced: SyncTilesOp, indices: Sequence[SSAValue], types: Sequence[TensorType[Attribute]]) -> None:
    """Replace a call by reads of the tensors."""
    parent = call.parent_block()
    assert parent is not None
    for result, whole, type_ in zip(call.res, synced.res, types, strict=True):
        read = extract_op(whole, indices, type_.element_type)
        read.result.name_hint = result.name_hint
        parent.insert_op_before(read, call)
        result.replace_all_uses_with(read.result)
    call.detach()
    call.erase()


def _split_of(function: func.FuncOp) -> tuple[IndexingMapAttr, int, list[TensorType[Attribute]]]:
    map = function.attributes.get("xla.split")
    num_lanes = function.attributes.get("xla.num_lanes")
    tensors = function.attributes.get("xla.tensors")
    if not (isinstance(map, IndexingMapAttr) and isinstance(num_lanes, IntegerAttr) and isinstance(tensors, ArrayAttr)):
        raise LevelError("E1006", f"@{function.sym_name.data} is called several times but has no work split")
    return map, num_lanes.value.data, [cast("TensorType[Attribute]", type_) for type_ in cast(ArrayAttr[Attribute], tensors)]
