"""Group emitter: a product and the attention that reads it as one kernel, each of whose tiles attends with what it has computed.

    %q, %k, %v = hlo.fusion (%x, %wq, %wk, %wv)      8 sequences of 512 rows, 12 heads of 64 columns
    %0 = hlo.group rows (%q, %k, %v) { scores, softmax, products }

On the mesh tile (r, c) computes the rows of sequences 2r and 2r + 1, and of each of the products the columns of heads 3c to 3c + 2
(`schedule.mesh_split`). Then it attends with those (`schedule.row_group`), and needs nothing of another tile. So what is between
the two stays in scratchpads (`lower.dma.keep_results`); it would be written to DDR and read again.
"""

from dataclasses import replace
from itertools import islice
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.emitters import emit_fusion
from hlo2tx8.emitters.choose_plan import Chooser, FirstThatFits, Judge
from hlo2tx8.emitters.emitter import Match
from hlo2tx8.emitters.gemm import GemmEmitter, GemmMatch
from hlo2tx8.emitters.phase_group import join_phases
from hlo2tx8.emitters.product_phases import ways_of
from hlo2tx8.emitters.row_group import emit_row_group, emit_rows, member_of
from hlo2tx8.errors import CapacityError
from hlo2tx8.fusion.head_phases import kept_bytes
from hlo2tx8.schedule.plan import Candidate, Estimate, Feasibility
from hlo2tx8.schedule.plan_row_group import RowGroupPlan, plan_row_group, plans_on_mesh
from hlo2tx8.schedule.row_group import RowGroupSplit
from hlo2tx8.schedule.work_split import Residence, Target

CLEARLY = 0.85
"""Where the estimate of phases is not less than this share of that of the two apart, both are timed."""
MOST_WAYS = 4
"""Ways to compute the product, and to attend, that are tried with each other."""


def is_of_heads(group: GroupOp) -> bool:
    """Is it a group of phases, the last of which is a group by rows?"""
    return group.phases is not None and any(isinstance(op, GroupOp) and op.row_split is not None for op in group.body.block.ops)


def emit_head_phases(
    group: GroupOp, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of a group of a product and a group by rows that reads it.

    `notes` gets a line per plan; `chooser` says which of them is taken. CapacityError if none fits the scratchpad, or the two apart
    are as fast: by estimate, or timed where that says little.
    """
    notes = [] if notes is None else notes
    product, attention, *_ = group.body.block.ops
    assert isinstance(product, FusionOp) and isinstance(attention, GroupOp)
    fusions = [op for op in attention.body.block.ops if isinstance(op, FusionOp)]
    members = [member_of(op, number, target) for number, op in enumerate(fusions)]
    shared = max(1, target.rates.mesh_rows // prod(members[0].shape[:-3]))
    kept = kept_bytes(product, shared, target.rates)
    made = {arg for arg, value in zip(attention.body.block.args, attention.operands, strict=True) if value in product.results}

    def parameters(*, is_apart: bool) -> list[list[BlockArgument]]:
        """Of each member, what it loads."""
        read = [dict(zip(op.body.block.args, op.operands, strict=True)) for op in fusions]
        loaded = [{arg: value for arg, value in own.items() if isinstance(value, BlockArgument)} for own in read]
        return [[arg for arg, value in own.items() if is_apart or value not in made] for own in loaded]

    alone, rows = ways_of(product, name, target), plan_row_group(members, parameters(is_apart=True), target.rates)
    if not alone or isinstance(rows, str):
        raise CapacityError("E3101", f"{name}: {rows if alone else 'its product is not one of the matrix engine'}")
    apart = alone[0].estimate.cycles + rows.cycles + target.rates.kernel
    residence = Residence(frozenset(), keeps_result=True, kept_bytes=kept, is_by_rows=True, rows_bytes=target.rows_bytes)
    ways = ways_of(product, f"{name}_0", replace(target, residence=residence))
    plans = plans_on_mesh(members, parameters(is_apart=False), target.rates, kept)
    candidates = [
        _candidate(way, plan, kept, shared, target) for way in islice(ways, MOST_WAYS) for plan in islice(plans, MOST_WAYS)
    ]
    candidates.sort(key=lambda own: own.estimate.cycles)
    faster = [own for own in candidates if own.estimate.cycles < apart or target.is_searched]
    chooser = chooser or FirstThatFits()

    def emit(own: tuple[Match, RowGroupSplit]) -> ModuleOp:
        rows_of_heads = emit_rows(attention, f"{name}_1", fusions, members, target, own[1])
        return join_phases(group, name, [GemmEmitter().emit(own[0]), rows_of_heads])

    schedule, kernel = chooser.choose([faster], target.rates.spm_bytes, emit)
    notes += schedule.explain(name)
    taken, time = schedule.taken, chooser.time if isinstance(chooser, FirstThatFits) else None
    if taken is not None and time is not None and not target.is_joined and taken.estimate.cycles > CLEARLY * apart:
        cycles = schedule.cycles or time(emit(taken.choice)).cycles
        if cycles > (alone_cycles := cycles_of_parts(product, attention, name, target, time)):
            figures = f"modelled to take {alone_cycles:,.0f} cycles, as phases {cycles:,.0f}"
            raise CapacityError("E3101", f"{name}: a product and its attention apart are {figures}")
    if kernel is None:
        best = f"as phases {candidates[0].estimate.cycles:,.0f}" if candidates and not faster else "no phases fit the scratchpad"
        raise CapacityError("E3101", f"{name}: a product and its attention take {apart:,.0f} cycles apart, {best}")
    notes.append(f"{name}: group emitter, a product and its attention as phases, {apart:,.0f} cycles apart")
    return kernel


def cycles_of_parts(product: FusionOp, attention: GroupOp, name: str, target: Target, time: Judge) -> float:
    """Modelled cycles of a product and of the group that reads it as kernels of their own."""
    seen: list[float] = []

    def judge(kernel: ModuleOp) -> Feasibility:
        found = time(kernel)
        seen.append(found.cycles)
        return found

    emit_fusion(product, name, target, [], FirstThatFits(judge))
    cycles = seen[-1]
    emit_row_group(attention, name, target, [], FirstThatFits(judge))
    return cycles + seen[-1]


def _candidate(
    way: Candidate[Match], plan: RowGroupPlan, kept: int, shared: int, target: Target
) -> Candidate[tuple[Match, RowGroupSplit]]:
    """A way to compute the product and then to attend. Where weights stay for several steps of rows, or come again for each, the
    estimate of which is sooner is a rough one."""
    rates = target.rates
    sent = kept * (shared - 1) / shared / rates.link + rates.barrier if shared > 1 else 0.0
    cycles = way.estimate.cycles + sent + plan.cycles + 2 * rates.barrier
    spm_bytes = max(kept + target.rows_bytes + way.estimate.spm_bytes, plan.spm_bytes)
    assert isinstance(way.choice, GemmMatch)
    ways = [blocking for _, blocking in way.choice.chosen]
    name = f"{way.name}, then {plan.split.step_rows} rows a step"
    family = "with weights that stay" * any(own.is_by_columns for own in ways)
    is_rough = any(own.is_in_runs for own in ways)
    return Candidate(name, Estimate(cycles, spm_bytes), (way.choice, plan.split), family, is_rough)
