"""Members of a group as one kernel: what each member's own emitter makes of it, one after the other; all tiles meet in between.

%s0 = xla.allocate_scratch : tensor<16x64xf32>
%0 = xla.loop (%tile)[...] ... iter_args(%s0) { the first member }
%1 = xla.sync_tiles %0
%2 = xla.loop (%tile)[...] ... iter_args(%r0) { the second one reads %1 }
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.xla import ENTRY, MESH, AllocateScratchOp, SyncTilesOp, TileIdOp


def join_phases(group: GroupOp, name: str, fusions: Sequence[FusionOp], kernels: Sequence[ModuleOp]) -> ModuleOp:
    """The LOOPS module `name` of a group, of the LOOPS modules of its fusions in order of execution."""
    terminator = group.body.block.last_op
    assert terminator is not None
    parameters, results = tuple(group.body.block.args), tuple(terminator.operands)
    types = [value.type for value in (*parameters, *results)]
    block = Block(arg_types=types)
    for position, arg in enumerate(block.args):
        arg.name_hint = f"p{position}" if position < len(parameters) else f"r{position - len(parameters)}"
    tensors: dict[SSAValue, SSAValue] = dict(zip((*parameters, *results), block.args, strict=True))
    joined = FuncOp(name, FunctionType.from_lists(types, types[len(parameters) :]), Region(block))
    joined.attributes[ENTRY] = UnitAttr()
    functions: list[Operation] = []
    for fusion, kernel in zip(fusions, kernels, strict=True):
        entry = next(op for op in kernel.body.block.ops if isinstance(op, FuncOp) and ENTRY in op.attributes)
        functions += [op for op in kernel.body.block.ops if op is not entry]
        joined.attributes |= {MESH: entry.attributes[MESH]} if MESH in entry.attributes else {}
        for value in fusion.results:
            if value not in tensors:
                scratch = AllocateScratchOp(value.type)
                block.add_op(scratch)
                tensors[value] = scratch.res
        given = [tensors[value] for value in (*fusion.operands, *fusion.results)]
        made = _append(entry, given, block)
        if fusion is not fusions[-1]:
            synced = SyncTilesOp(made)
            block.add_op(synced)
            made = list(synced.res)
        tensors |= dict(zip(fusion.results, made, strict=True))
    block.add_op(ReturnOp(*(tensors[value] for value in results)))
    for function in functions:
        function.detach()
    return ModuleOp([joined, *functions], sym_name=StringAttr(name))


def _append(entry: FuncOp, given: list[SSAValue], block: Block) -> list[SSAValue]:
    """Moves the operations of a member's entry function to the end of a block, which has one tile id; what it returns."""
    for arg, value in zip(entry.body.block.args, given, strict=True):
        arg.replace_all_uses_with(value)
    terminator = entry.body.block.last_op
    assert terminator is not None
    made = list(terminator.operands)
    tile = next((op for op in block.ops if isinstance(op, TileIdOp)), None)
    for op in list(entry.body.block.ops):
        op.detach()
        if isinstance(op, TileIdOp) and tile is not None:
            op.tile.replace_all_uses_with(tile.tile)
        elif op is not terminator:
            block.add_op(op)
    return made
