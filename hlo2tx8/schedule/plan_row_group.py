"""Which rows a group computes per step, and what that costs: an estimate of each candidate, before anything is emitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import BlockArgument

from hlo2tx8.device.alike_loads import line_cycles, spread_cycles
from hlo2tx8.device.rates import Rates
from hlo2tx8.schedule.plan import Candidate, Estimate
from hlo2tx8.schedule.row_group import LEAST_STEP, STEP_ROWS, RowGroupSplit, chunk_sizes, step_sizes
from hlo2tx8.schedule.row_group_member import RowGroupMember
from hlo2tx8.schedule.row_member_costs import RowMemberCosts, moves_of_statistics

ABOUT = 0.1
"""By how much the bytes of buffers may differ from what is estimated: where they may just not fit, steps of an eighth less do."""


@dataclass(frozen=True)
class RowGroupPlan:
    """A split, the modelled cycles of the group with it, those of its members as kernels of their own, and the bytes of SPM that
    buffers take."""

    split: RowGroupSplit
    cycles: float
    cycles_apart: float
    spm_bytes: int

    @property
    def candidate(self) -> "Candidate[RowGroupPlan]":
        """The plan as one of those that a kernel is chosen from. Whether tiles send each other what they share is known when it is
        lowered: where the estimate says so the best plan by which they do not is timed, too."""
        chunk, step = self.split.rows_of_chunk_and_step
        alone = "" if self.split.copies > 1 else ", one at a time"
        shared = f", {self.split.line} tiles share a batch" if self.split.line > 1 else ""
        estimate = Estimate(self.cycles, self.spm_bytes)
        return Candidate(f"{step} rows a step, {chunk} a chunk{shared or alone}", estimate, self, shared, bool(shared))


def plan_row_group(
    members: Sequence[RowGroupMember], parameters: Sequence[Sequence[BlockArgument]], rates: Rates
) -> RowGroupPlan | str:
    """The cheapest plan that is estimated to fit, or why there is none; operands as those of `row_group_plans`."""
    plans = row_group_plans(members, parameters, rates)
    return min(plans, key=lambda plan: plan.cycles) if plans else "no rows of all members fit the scratchpad"


def plans_on_mesh(
    members: Sequence[RowGroupMember], parameters: Sequence[Sequence[BlockArgument]], rates: Rates, kept_bytes: int
) -> list[RowGroupPlan]:
    """Plans by which each tile has the batches of its mesh row and the heads of its mesh column, the cheapest first; as those of
    `row_group_plans`. What is in none of the parameters is there, in `kept_bytes` of each tile."""
    batches, rows = members[0].shape[:-2], members[0].shape[-2]
    mesh, plans = (rates.mesh_rows, rates.mesh_columns), list[RowGroupPlan]()
    costs = [RowMemberCosts.of(m, own, batches, rows, rates) for m, own in zip(members, parameters, strict=True)]
    chunk_rows = rows // max(1, rates.mesh_rows // prod(batches[:-1]))
    for step_rows in step_sizes(chunk_rows):
        split = RowGroupSplit(batches, rows, chunk_rows, step_rows, rates.tiles, mesh=mesh)
        spm_bytes = _spm_bytes(costs, split, rates) + kept_bytes
        if spm_bytes <= rates.spm_bytes:
            plans.append(RowGroupPlan(split, _cycles(costs, split, rates), 0.0, spm_bytes))
    return sorted(plans, key=lambda plan: plan.cycles)


def row_group_plans(
    members: Sequence[RowGroupMember], parameters: Sequence[Sequence[BlockArgument]], rates: Rates
) -> list[RowGroupPlan]:
    """Plans for members in order of execution that are estimated to fit; `parameters` are those of each that are read from DDR, the
    others are the result of the member before."""
    shape = members[0].shape
    batches, rows = shape[:-2], shape[-2]
    costs = [RowMemberCosts.of(m, own, batches, rows, rates) for m, own in zip(members, parameters, strict=True)]
    apart = _apart(costs, rates)
    plans: list[RowGroupPlan] = []
    for chunk_rows in chunk_sizes(rows):
        sizes = list(step_sizes(chunk_rows, rows))
        for step_rows in sizes:
            for copies, line in ((2, rates.mesh_columns), (2, 1), (1, 1)):
                split = RowGroupSplit(batches, rows, chunk_rows, step_rows, rates.tiles, copies, line)
                if line > 1 and not _may_share(split, rates):
                    continue
                spm_bytes = _spm_bytes(costs, split, rates)
                if copies > line and step_rows in STEP_ROWS and abs(spm_bytes / rates.spm_bytes - 1) < ABOUT:
                    sizes.append(step_rows - step_rows // LEAST_STEP)
                if spm_bytes <= rates.spm_bytes and (copies > 1 or split.num_turns > 1):
                    plans.append(RowGroupPlan(split, _cycles(costs, split, rates), apart, spm_bytes))
    return plans


def _may_share(split: RowGroupSplit, rates: Rates) -> bool:
    """Can the tiles of a mesh row have chunks of the same batch in each of several turns?"""
    is_mesh = rates.mesh_rows * rates.mesh_columns == rates.tiles
    return is_mesh and split.is_even and split.num_turns > 1 and split.chunks_per_batch % split.line == 0


def _spm_bytes(members: Sequence[RowMemberCosts], split: RowGroupSplit, rates: Rates) -> int:
    """What buffers of a step take: operands that all rows of a chunk read, rows of a chunk, results of dots, vectors that are
    alive at once in the widest of the other members."""
    copies = split.copies if split.num_turns > 1 else 1
    kept = widest = 0
    for number, costs in enumerate(members):
        alive = split.step_rows * costs.member.columns * costs.alive_bytes
        if costs.member.dot is None:
            widest = max(widest, alive)
            continue
        rows = split.chunk_rows * copies if number == 0 or costs.loads.reads_rows else 0
        once = 1 if costs.loads.is_spread(split, rates) else copies
        kept += costs.depth * (once * costs.member.columns + rows) * costs.operand_bytes if costs.parameter_bytes else 0
        kept += alive
    return kept + widest


def _cycles(members: Sequence[RowMemberCosts], split: RowGroupSplit, rates: Rates) -> float:
    """Of the whole chip: the slowest of DDR and of what engines compute, both at once but for a chunk's ends; the first and last
    step; what starts the products of each step, which nothing hides; several tiles that have chunks meet others. Engines wait for
    what the first step reads, but for what comes while it computes. Tiles of a line load that together, send each other parts, and
    meet twice a turn.

    What all tiles read alike they have before the first chunk. Then DDR counts as much as engines do: they wait for the first
    chunk, and what is computed of the last one comes behind its loads, beside its stores. Products of a chunk's only step are not
    computed a step ahead, and the next chunk's loads come late: they are taken to overlap nothing."""
    num_rows = prod(split.batches) * split.rows
    is_alone = split.num_turns * split.num_steps == 1
    loaded = waited = alike = shared = awaited = 0.0
    lines = split.tiles // split.line
    for loads in (costs.loads for costs in members):
        loaded += num_rows * loads.row_bytes
        if loads.is_spread(split, rates):
            alike += loads.batch_bytes
            continue
        times = min(split.num_chunks, loads.num_batches + lines) if split.is_even else split.num_chunks * split.num_steps
        shared += loads.batch_bytes
        awaited = awaited or loads.batch_bytes
        loaded += times * loads.batch_bytes
        waited += 0 if is_alone or split.copies > 1 else times * loads.batch_bytes
    moved = loaded + num_rows * members[-1].member.columns * members[-1].element_bytes
    waited = waited if is_alone or split.is_even else moved
    vectors, products = sum(c.vector_cycles for c in members), sum(c.product_cycles(split, rates) for c in members)
    steps = split.num_turns * split.num_steps
    computed = max(vectors, products) + min(vectors, products) / split.num_steps
    share = computed * split.num_turns / split.num_chunks * (split.num_steps * split.step_rows / split.chunk_rows)
    instructions = sum(costs.instructions for costs in members)
    busy = share + steps * instructions * rates.vector_pass + waited / rates.ddr
    starts = steps * rates.product_start * sum(costs.member.dot is not None for costs in members)
    ends = share / steps + starts + (rates.barrier if split.num_chunks > 1 else 0)
    if not alike:
        readers = min(split.num_chunks, lines) if split.copies > 1 else 0
        first = awaited * readers / rates.ddr + max(0.0, (shared - awaited) * readers / rates.ddr - share / steps)
        if split.line > 1:
            first += line_cycles(shared, rates)
            busy += 2 * split.num_turns * rates.barrier
        return max(moved / rates.ddr, first + busy) + ends
    busy += steps * sum(moves_of_statistics(costs.member, split, rates) for costs in members)
    first, stored = loaded / split.num_turns / rates.ddr, (moved - loaded) / rates.ddr
    last = busy if split.num_steps == 1 < split.num_turns else max(0.0, busy - stored) / split.num_turns
    return spread_cycles(alike, rates) + max(moved / rates.ddr + last, first + busy) + ends


def _apart(members: Sequence[RowMemberCosts], rates: Rates) -> float:
    """Of the members as kernels of their own, each of which reads each operand once."""
    total, before = 0.0, 0
    for costs in members:
        result = prod(costs.member.shape) * costs.element_bytes
        moved = before + result + costs.parameter_bytes
        computed = costs.vector_cycles + costs.product_cycles(None, rates)
        total += max(moved / rates.ddr, computed / rates.tiles) + rates.barrier
        before = result
    return total
