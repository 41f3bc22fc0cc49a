"""Group emitter: fusions as one kernel, one after the other; all tiles meet in between.

    %0 = reduce_fusion(%x), %1 = divide_fusion(%0), %2 = subtract_fusion(%x, %1)

    func.func @group(%p0, %r0) attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %s0 = xla.allocate_scratch : tensor<16x64xf32>
      %0 = xla.loop (%tile)[...] ... iter_args(%s0) { sums of parts of %p0 }
      %1 = xla.sync_tiles %0
      ...
      %4 = xla.loop (%tile)[...] ... iter_args(%r0) { %p0 - the mean }
    }

Each member is what its own emitter makes of it. A tile has the same part of %p0 in several of them, which stays in the scratchpad
(`keep-loads`).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hlo2tx8.device.rates import STEPS_PART
from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.dialects.xla import (
    BRINGS_EARLY,
    ENTRY,
    MESH,
    PHASE_STEPS,
    RING_SUMS,
    RINGS_AT_ONCE,
    AllocateScratchOp,
    SyncTilesOp,
    TileIdOp,
)
from hlo2tx8.emitters import emit_fusion
from hlo2tx8.emitters.choose_plan import Chooser, FirstThatFits
from hlo2tx8.errors import CapacityError
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.schedule.costs import Costs, size_bytes
from hlo2tx8.schedule.plan import Candidate, Estimate
from hlo2tx8.schedule.work_split import DEFAULT_STEP_ELEMENTS, Target

NUM_SIZES = 4
"""Sizes of steps that are tried, each half of the one before."""
LARGER_STEPS = 4
"""A phase that neither loads nor stores much has nothing to overlap, and steps so many times as large, if it has as many."""
OF_PHASES = (MESH, PHASE_STEPS, RING_SUMS, RINGS_AT_ONCE, BRINGS_EARLY)
"""What the kernel of phases says of them, which a kernel that it is a part of says, too."""


def emit_phase_group(
    group: GroupOp, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of a group of phases.

    `notes` gets a line per plan; `chooser` says which of them is taken. CapacityError if none fits the scratchpad.
    """
    notes = said = [] if notes is None else notes
    fusions = [op for op in group.body.block.ops if isinstance(op, FusionOp)]
    most = target.step_elements or DEFAULT_STEP_ELEMENTS
    sizes = [max(1, most >> shift) for shift in range(NUM_SIZES)]
    candidates = [Candidate(f"steps of {size} elements", _estimate(group, size, target), size) for size in sizes]
    schedule, kernel = (chooser or FirstThatFits()).choose(
        [candidates],
        target.rates.spm_bytes,
        lambda size: _emit(group, name, fusions, replace(target, step_elements=0 if size == most else size), said),
    )
    notes += schedule.explain(name)
    if kernel is None:
        raise CapacityError("E3101", f"no steps of group {name} fit the scratchpad", hint="take its fusions apart")
    notes.append(f"{name}: group emitter, {len(fusions)} fusions as phases")
    return kernel


def _estimate(group: GroupOp, step_elements: int, target: Target) -> Estimate:
    """What is read, once, and written, and a meeting per phase; the largest input stays, beside the buffers of steps."""
    rates, moved = target.rates, (*group.operands, *group.outputs)
    kept = max(map(size_bytes, group.operands), default=0)
    widest = max(map(Costs(rates).width, moved), default=1)
    fusions = len(ops_of(group.body.block)) - 1
    cycles = sum(map(size_bytes, moved)) / rates.ddr + fusions * rates.kernel
    return Estimate(cycles, kept // rates.tiles + step_elements * widest * 2 * len(moved))


def _emit(group: GroupOp, name: str, fusions: list[FusionOp], target: Target, notes: list[str]) -> ModuleOp:
    kernels: list[ModuleOp] = []
    kept: set[SSAValue] = set()
    for number, fusion in enumerate(fusions):
        moved = {value for value in (*fusion.operands, *fusion.results) if size_bytes(value) > target.rates.spm_bytes // STEPS_PART}
        size, larger = target.step_elements, LARGER_STEPS * (target.step_elements or DEFAULT_STEP_ELEMENTS)
        share = min((prod(shape_of(value)) // target.rates.tiles for value in moved), default=0)
        if moved <= kept and share >= LARGER_STEPS * larger:
            size = larger
        kept |= moved
        kernels.append(emit_fusion(fusion, f"{name}_{number}", replace(target, step_elements=size), notes))
    return join_phases(group, name, kernels)


def join_phases(group: GroupOp, name: str, kernels: Sequence[ModuleOp]) -> ModuleOp:
    """The LOOPS module of a group whose fusions, and groups, are these kernels, one after the other."""
    fusions = [op for op in group.body.block.ops if isinstance(op, FusionOp | GroupOp)]
    terminator = group.body.block.last_op
    assert terminator is not None
    parameters, results = tuple(group.body.block.args), tuple(terminator.operands)
    types = [value.type for value in (*parameters, *results)]
    block = Block(arg_types=types)
    for position, arg in enumerate(block.args):
        arg.name_hint = f"p{position}" if position < len(parameters) else f"r{position - len(parameters)}"
    tensors: dict[SSAValue, SSAValue] = dict(zip((*parameters, *results), block.args, strict=True))
    functions: list[Operation] = []
    facts: dict[str, Attribute] = {ENTRY: UnitAttr()}
    for fusion, kernel in zip(fusions, kernels, strict=True):
        entry = next(op for op in kernel.body.block.ops if isinstance(op, FuncOp) and ENTRY in op.attributes)
        others = [op for op in kernel.body.block.ops if op is not entry]
        facts |= {key: value for key, value in entry.attributes.items() if key in OF_PHASES}
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
        functions += others
    block.add_op(ReturnOp(*(tensors[value] for value in results)))
    joined = FuncOp(name, FunctionType.from_lists(types, types[len(parameters) :]), Region(block))
    joined.attributes |= facts
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
    for op in ops_of(entry.body.block):
        op.detach()
        if isinstance(op, TileIdOp) and tile is not None:
            op.tile.replace_all_uses_with(tile.tile)
        elif op is not terminator:
            block.add_op(op)
    return made
