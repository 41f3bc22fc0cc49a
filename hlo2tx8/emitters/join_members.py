"""Members of a group as one kernel: their loops side by side inside of one loop over turns.

scf.for %turn ... {
  xla.loop (%tile, %turn)[%lane0, %lane1] ... { inserts into an intermediate, xla.allocate_scratch in_spm }
  xla.loop (%tile, %turn)[%lane0, %lane1] ... { reads it, inserts into %r0 }
}
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hlo2tx8.dialects.made import constant_index, for_op, yield_op
from hlo2tx8.dialects.xla import AllocateScratchOp, IndexingMapAttr, LoopOp, TileIdOp, index
from hlo2tx8.indexing import Dim, IndexingMap, Sym

Turns: TypeAlias = tuple[int, str, Mapping[str, Attribute]]
"""How often a loop turns, its name and its attributes."""


def join_members(group: Operation, name: str, kernels: Sequence[ModuleOp], turns: Sequence[Turns]) -> ModuleOp:
    """The members' kernels as one: their loops side by side inside of loops of so many `turns`, with a name and attributes each,
    that are the first range variables of theirs."""
    body = group.regions[0].block
    terminator = body.last_op
    assert terminator is not None
    fusions = [op for op in body.ops if op is not terminator]
    types = [value.type for value in (*body.args, *terminator.operands)]
    block = Block(arg_types=types)
    for position, arg in enumerate(block.args):
        arg.name_hint = f"p{position}" if position < len(body.args) else f"r{position - len(body.args)}"
    tile = _tile_id(kernels[0])
    tile.tile.name_hint = "tile"
    block.add_op(tile)
    tensors: dict[SSAValue, SSAValue] = dict(zip(body.args, block.args, strict=False))
    for fusion in fusions:
        for value in fusion.results:
            if value in terminator.operands:
                tensors[value] = block.args[len(body.args) + terminator.operands.index(value)]
                continue
            scratch = AllocateScratchOp(value.type, in_spm=True)
            block.add_op(scratch)
            tensors[value] = scratch.res
    written = [tensors[value] for fusion in fusions for value in fusion.results]
    loops = _turn_loops(written, turns, block)
    inner = loops[-1].body.block
    current = dict(zip(written, inner.args[1:], strict=True))
    functions: list[Operation] = []
    steps = [tile.tile, *(loop.body.block.args[0] for loop in loops)]
    for fusion, kernel in zip(fusions, kernels, strict=True):
        entry = next(f for f in kernel.body.block.ops if isinstance(f, func.FuncOp) and "xla.entry" in f.attributes)
        targets = [tensors[value] for value in fusion.results]
        read = [tensors[value] for value in fusion.operands]
        given = [current.get(value, value) for value in (*read, *targets)]
        results = _move_loop(entry, given, steps, inner)
        current |= dict(zip(targets, results, strict=True))
        functions += [f for f in kernel.body.block.ops if f is not entry]
    handed: list[SSAValue] = [current[value] for value in written]
    for loop in reversed(loops):
        loop.body.block.add_op(yield_op(*handed))
        handed = list(loop.results)
    final = dict(zip(written, handed, strict=True))
    block.add_op(func.ReturnOp(*(final[tensors[value]] for value in terminator.operands)))
    made = func.FuncOp(name, FunctionType.from_lists(types, types[len(body.args) :]), Region(block))
    made.attributes["xla.entry"] = UnitAttr()
    for function in functions:
        function.detach()
    return ModuleOp([made, *functions], sym_name=StringAttr(name))


def _tile_id(kernel: ModuleOp) -> TileIdOp:
    """A tile id as that of a member's kernel."""
    return next(op for op in kernel.walk() if isinstance(op, TileIdOp)).clone()


def _turn_loops(carried: Sequence[SSAValue], turns: Sequence[Turns], block: Block) -> list[scf.ForOp]:
    """Loops that carry tensors, one inside of the other, the innermost without a terminator yet."""
    loops: list[scf.ForOp] = []
    for count, hint, attributes in turns:
        bounds = [constant_index(n) for n in (0, count, 1)]
        body = Block(arg_types=[index, *(value.type for value in carried)])
        body.args[0].name_hint = hint
        lower, upper, step = (bound.result for bound in bounds)
        loop = for_op(lower, upper, step, carried, Region(body))
        loop.attributes |= attributes
        block.add_ops([*bounds, loop])
        loops.append(loop)
        carried, block = body.args[1:], body
    return loops


def _move_loop(entry: func.FuncOp, given: Sequence[SSAValue], steps: Sequence[SSAValue], block: Block) -> Sequence[SSAValue]:
    """Moves the one loop of a member's entry function to the end of a block, with its first range variables, those of `steps`
    behind the tile, as dimensions; its results."""
    for arg, value in zip(entry.body.block.args, given, strict=True):
        arg.replace_all_uses_with(value)
    (loop,) = (op for op in entry.body.block.ops if isinstance(op, LoopOp))
    old, count = loop.map.data, len(steps) - 1
    symbols = (*(Dim(1 + i) for i in range(count)), *(Sym(i) for i in range(len(old.ranges) - count)))
    dims = tuple(Dim(i) for i in range(len(old.dims)))
    map = IndexingMap(
        (*old.dims, *old.ranges[:count]),
        old.ranges[count:],
        (),
        tuple(result.substitute(dims, symbols) for result in old.results),
        tuple((expr.substitute(dims, symbols), interval) for expr, interval in old.constraints),
    )
    region = loop.detach_region(0)
    for arg, value in zip(tuple(region.block.args[:count]), steps[1:], strict=True):
        arg.replace_all_uses_with(value)
        region.block.erase_arg(arg)
    new = LoopOp(IndexingMapAttr(map), steps, loop.iter_args, loop.num_lanes.value.data, region)
    new.attributes |= loop.attributes
    block.add_op(new)
    return new.res
