"""Group emitter: a normalization of rows and the products that read it as one kernel, whose tiles send each other the rows.

    %0 = hlo.fusion "layer_norm_fusion"(%x, %g, %b)      8 sequences of 197 rows
    %1 = hlo.group phases (%0, %w, %v) { up, down }

Of the rows that a mesh row multiplies each of its tiles normalizes a fourth, whole rows as in a kernel by itself, and sends them to
the others (`lower.dma.gather_rows`). So they are not written to DDR and read again, and what the products load is weights. The
group of products is emitted as it would be by itself, for rows that are there.
"""

from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp, UnitAttr

from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.dialects.xla import ENTRY, GATHERS_ROWS
from hlo2tx8.emitters import emit_fusion
from hlo2tx8.emitters.choose_plan import Chooser, FirstThatFits, Judge
from hlo2tx8.emitters.head_phases import emit_head_phases, is_of_heads
from hlo2tx8.emitters.joined_kernels import JoinedKernels, timed_kernels
from hlo2tx8.emitters.phase_group import join_phases
from hlo2tx8.emitters.product_phases import emit_product_phases
from hlo2tx8.emitters.projection_phases import ProjectionApartError, emit_projection_phases, is_of_projection
from hlo2tx8.emitters.row_group import emit_row_group, emit_rows
from hlo2tx8.errors import CapacityError
from hlo2tx8.fusion.build_group import group_of_one
from hlo2tx8.ir import i64_array
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.norm_rows import norm_member, plan_norm
from hlo2tx8.schedule.row_group import RowGroupSplit
from hlo2tx8.schedule.row_group_member import RowGroupMember
from hlo2tx8.schedule.work_split import Target

CLEARLY, ROUGHLY = 0.8, 1.25
"""Where the estimate of rows that are sent lies between so many times that of rows that are not, both are timed."""


def is_of_norm(group: GroupOp) -> bool:
    """Is it a group of phases, the first of which makes rows for a group of products?"""
    first, second, *_ = (*group.body.block.ops, None)
    return group.phases is not None and isinstance(first, FusionOp) and isinstance(second, GroupOp) and second.phases is not None


def emit_norm_phases(
    group: GroupOp, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of a group of a normalization and of products that read it.

    `notes` gets a line per plan; `chooser` says which of them is taken. CapacityError if none fits the scratchpad, or the two apart
    are as fast: by estimate, or timed.
    """
    notes = [] if notes is None else notes
    norm, products, *_ = group.body.block.ops
    assert isinstance(norm, FusionOp) and isinstance(products, GroupOp)
    plan = plan_norm(norm, target)
    if isinstance(plan, str):
        raise CapacityError("E3101", f"{name}: {plan}")
    if plan.cycles >= ROUGHLY * plan.cycles_apart and not target.is_searched:
        figures = f"estimated to take {plan.cycles:,.0f} cycles if they are sent, {plan.cycles_apart:,.0f} if not"
        raise CapacityError("E3101", f"{name}: normalized rows are {figures}")
    rows = _rows(norm, f"{name}_0", plan.split, target)

    def join(kernel: ModuleOp) -> ModuleOp:
        module = join_phases(group, name, [cloned(rows), cloned(kernel)])
        entry = next(op for op in module.body.block.ops if ENTRY in op.attributes)
        entry.attributes[GATHERS_ROWS] = UnitAttr()
        return module

    both = JoinedKernels(chooser or FirstThatFits(), join)
    if both.time is not None and is_of_projection(products):
        _check_projection(products, f"{name}_1", target, both.time)
    there = replace(target, rows_bytes=size_bytes(norm.results[0]) // target.rates.mesh_rows, is_joined=True)
    kernel = both.joined(_emit(products, f"{name}_1", there, notes, both.chooser()))
    if both.time is not None and plan.cycles > CLEARLY * plan.cycles_apart:
        cycles, apart = both.time(kernel).cycles, _cycles_apart(norm, products, name, target, both.time)
        if cycles >= apart:
            figures = f"modelled to take {apart:,.0f} cycles apart, as phases {cycles:,.0f}"
            raise CapacityError("E3101", f"{name}: a normalization and its products are {figures}")
    steps = f"in steps of {plan.split.step_rows}"
    notes.append(f"{name}: group emitter, a normalization whose rows are sent {steps}, and products as phases")
    return kernel


def _emit(products: GroupOp, name: str, target: Target, notes: list[str], chooser: Chooser) -> ModuleOp:
    if is_of_projection(products):
        return emit_projection_phases(products, name, target, notes, chooser)
    emit = emit_head_phases if is_of_heads(products) else emit_product_phases
    return emit(products, name, target, notes, chooser)


def _rows(norm: FusionOp, name: str, split: RowGroupSplit, target: Target) -> ModuleOp:
    """The kernel of a normalization alone, by rows."""
    group = group_of_one(norm, {"rows": i64_array(split.rows_of_chunk_and_step)})
    fusions = [op for op in group.body.block.ops if isinstance(op, FusionOp)]
    members = [member for op in fusions if isinstance(member := norm_member(op, target), RowGroupMember)]
    return emit_rows(group, name, fusions, members, target, split)


def _check_projection(products: GroupOp, name: str, target: Target, time: Judge) -> None:
    """ProjectionApartError if attention and its projection are sooner as kernels of their own."""
    try:
        emit_projection_phases(products, name, target, [], timed_kernels(time)[0])
    except CapacityError as error:
        raise ProjectionApartError(error.code, error.message) from error


def _cycles_apart(norm: FusionOp, products: GroupOp, name: str, target: Target, time: Judge) -> float:
    """Modelled cycles of a normalization and of the group that reads it as kernels of their own."""
    chooser, seen = timed_kernels(time)
    emit_fusion(norm, name, target, [], chooser)
    cycles = seen[-1]
    try:
        _emit(products, name, target, [], chooser)
        return cycles + seen[-1]
    except CapacityError:
        for op in products.body.block.ops:
            if isinstance(op, FusionOp):
                emit_fusion(op, name, target, [], chooser)
            elif isinstance(op, GroupOp):
                emit_row_group(op, name, target, [], chooser)
            cycles += seen[-1] if op is not products.body.block.last_op else 0.0
        return cycles
