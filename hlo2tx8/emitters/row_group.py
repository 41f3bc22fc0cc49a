"""Group emitter: fusions of the same rows as one kernel, a step of which computes some rows of each of them.

    attention, scores = q k^T, weights = softmax(scores), result = weights v

    func.func @attention(%q, %k, %v, %r0) attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %s = xla.allocate_scratch in_spm : tensor<12x512x512xbf16>          // of which a step has its rows, in the scratchpad
      %w = xla.allocate_scratch in_spm : tensor<12x512x512xbf16>
      scf.for %turn ... { scf.for %step ... {
        xla.loop (%tile, %turn, %step)[%lane0, %lane1] ... { the dot of q and k, inserted into %s }
        xla.loop (%tile, %turn, %step)[%lane0, %lane1] ... { softmax of rows of %s, inserted into %w }
        xla.loop (%tile, %turn, %step)[%lane0, %lane1] ... { the dot of %w and v, inserted into %r0 }
      } }

A member is a dot whose rows are the group's, or a fusion whose reductions go over whole rows. Intermediates are read at the rows
that the step has just computed, so they never leave the scratchpad.
"""

from collections.abc import Sequence

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import FusionOp, GroupOp, origin
from hlo2tx8.dialects.xla import ROW_STEPS, ROW_TURNS, AllocateScratchOp, IndexingMapAttr, LoopOp, TileIdOp, index
from hlo2tx8.emitters.emitter import Fusion
from hlo2tx8.emitters.hero import heroes
from hlo2tx8.emitters.loop import Nest, emit_loops
from hlo2tx8.emitters.plan_kernel import Judge, trust
from hlo2tx8.errors import CapacityError, UnsupportedError, UnsupportedOp
from hlo2tx8.indexing import Dim, IndexingMap, Sym
from hlo2tx8.schedule.plan import Candidate, Feasibility, plan
from hlo2tx8.schedule.plan_row_group import RowGroupPlan, row_group_plans
from hlo2tx8.schedule.row_group import RowGroupSplit
from hlo2tx8.schedule.row_group_member import RowGroupMember, row_group_member
from hlo2tx8.schedule.work_split import Target

NUM_STEP_LOOPS = 2
"""Range variables of a member's loop that are steps, turn and step; the others are lanes."""


def emit_row_group(
    group: Operation, name: str, target: Target, notes: list[str] | None = None, judge: Judge = trust
) -> ModuleOp:
    """The LOOPS module `name` of a group by rows whose members stand in order of execution.

    `notes` gets a line per plan; `judge` says which of them can be taken, the group's own is asked first. UnsupportedError if a
    fusion of it is no member, CapacityError if no plan fits the scratchpad.
    """
    notes = [] if notes is None else notes
    fusions = [op for op in group.regions[0].block.ops if isinstance(op, FusionOp)]
    members = [_member(op, number, target) for number, op in enumerate(fusions)]
    parameters = [
        [arg for arg, value in zip(op.body.block.args, op.operands, strict=True) if isinstance(value, BlockArgument)]
        for op in fusions
    ]
    plans = row_group_plans(members, parameters, target.rates)
    plans.sort(key=lambda plan: (plan.split.rows_of_chunk_and_step != _wanted(group), plan.cycles))
    kernel: list[ModuleOp] = []

    def measure(candidate: Candidate[RowGroupPlan]) -> Feasibility:
        kernel[:] = [_emit(group, name, fusions, members, target, candidate.choice.split)]
        return judge(kernel[0])

    schedule = plan([plan.candidate for plan in plans], target.rates.spm_bytes, measure)
    notes += schedule.explain(name)
    if schedule.taken is None:
        raise CapacityError("E3101", f"no rows of group {name} fit the scratchpad", hint="take its fusions apart")
    notes.append(f"{name}: group emitter, {len(fusions)} fusions by rows")
    return kernel[0]


def _wanted(group: Operation) -> tuple[int, ...]:
    """Rows of a chunk and of a step, as the group says."""
    assert isinstance(group, GroupOp) and group.row_split is not None
    return tuple(int(n) for n in group.row_split.get_values())


def _member(op: FusionOp, number: int, target: Target) -> RowGroupMember:
    member = row_group_member(op.body.block, target)
    if isinstance(member, str):
        raise UnsupportedError([UnsupportedOp("hlo.group", (origin(op),), f"member {number} of a group by rows: {member}")])
    return member


def _emit(
    group: Operation,
    name: str,
    fusions: Sequence[FusionOp],
    members: Sequence[RowGroupMember],
    target: Target,
    split: RowGroupSplit,
) -> ModuleOp:
    kernels: list[ModuleOp] = []
    for number, (op, member) in enumerate(zip(fusions, members, strict=True)):
        fusion = Fusion(op, f"{name}_{number}", heroes(op)[0], target)
        nests: Sequence[Nest] = member.nests(split)
        kernels.append(emit_loops(fusion, member.partitioned, member.accesses, lambda _, nests=nests: nests))
    return _join(group, name, kernels, split)


def _join(group: Operation, name: str, kernels: Sequence[ModuleOp], split: RowGroupSplit) -> ModuleOp:
    """The members' kernels as one: their loops side by side inside of one loop over turns and steps."""
    body = group.regions[0].block
    terminator = body.last_op
    assert terminator is not None
    fusions = [op for op in body.ops if op is not terminator]
    types = [value.type for value in (*body.args, *terminator.operands)]
    block = Block(arg_types=types)
    for position, arg in enumerate(block.args):
        arg.name_hint = f"p{position}" if position < len(body.args) else f"r{position - len(body.args)}"
    tile = TileIdOp(split.tiles)
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
    loops = _step_loops(written, split, block)
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
        loop.body.block.add_op(scf.YieldOp(*handed))
        handed = list(loop.results)
    final = dict(zip(written, handed, strict=True))
    block.add_op(func.ReturnOp(*(final[tensors[value]] for value in terminator.operands)))
    made = func.FuncOp(name, FunctionType.from_lists(types, types[len(body.args) :]), Region(block))
    made.attributes["xla.entry"] = UnitAttr()
    for function in functions:
        function.detach()
    return ModuleOp([made, *functions], sym_name=StringAttr(name))


def _step_loops(carried: Sequence[SSAValue], split: RowGroupSplit, block: Block) -> list[scf.ForOp]:
    """Loops over turns and steps that carry tensors, the inner one without a terminator yet."""
    loops: list[scf.ForOp] = []
    for count, hint in ((split.num_turns, "turn"), (split.num_steps, "step")):
        bounds = [arith.ConstantOp(IntegerAttr(n, index)) for n in (0, count, 1)]
        body = Block(arg_types=[index, *(value.type for value in carried)])
        body.args[0].name_hint = hint
        lower, upper, step = (bound.result for bound in bounds)
        loop = scf.ForOp(lower, upper, step, carried, Region(body))
        block.add_ops([*bounds, loop])
        loops.append(loop)
        carried, block = body.args[1:], body
    loops[0].attributes[ROW_TURNS] = UnitAttr()
    loops[1].attributes[ROW_STEPS] = UnitAttr()
    return loops


def _move_loop(entry: func.FuncOp, given: Sequence[SSAValue], steps: Sequence[SSAValue], block: Block) -> Sequence[SSAValue]:
    """Moves the one loop of a member's entry function to the end of a block, with its steps as dimensions; its results."""
    for arg, value in zip(entry.body.block.args, given, strict=True):
        arg.replace_all_uses_with(value)
    (loop,) = (op for op in entry.body.block.ops if isinstance(op, LoopOp))
    old = loop.map.data
    symbols = (*(Dim(1 + i) for i in range(NUM_STEP_LOOPS)), *(Sym(i) for i in range(len(old.ranges) - NUM_STEP_LOOPS)))
    dims = tuple(Dim(i) for i in range(len(old.dims)))
    map = IndexingMap(
        (*old.dims, *old.ranges[:NUM_STEP_LOOPS]),
        old.ranges[NUM_STEP_LOOPS:],
        (),
        tuple(result.substitute(dims, symbols) for result in old.results),
        tuple((expr.substitute(dims, symbols), interval) for expr, interval in old.constraints),
    )
    region = loop.detach_region(0)
    for arg, value in zip(tuple(region.block.args[:NUM_STEP_LOOPS]), steps[1:], strict=True):
        arg.replace_all_uses_with(value)
        region.block.erase_arg(arg)
    new = LoopOp(IndexingMapAttr(map), steps, loop.iter_args, loop.num_lanes.value.data, region)
    new.attributes |= loop.attributes
    block.add_op(new)
    return new.res
