"""Which rows a group computes per step, and what that costs: an estimate of each candidate, before anything is emitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import BlockArgument, Operation, SSAValue

from hlo2tx8.device.alike_loads import is_spread, line_cycles, spread_cycles
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.vector_instructions import is_difference_of_exponents, is_exponential_as_factor, unconverted
from hlo2tx8.dialects.xla_dot import PASSES
from hlo2tx8.hlo import Kind, numpy_dtype
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.partitioner.contraction import num_products
from hlo2tx8.partitioner.instruction import kind_of, tensor_type
from hlo2tx8.partitioner.reduction_order import joins_apart
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.schedule.costs import cycles_per_element, size_bytes
from hlo2tx8.schedule.plan import Candidate, Estimate
from hlo2tx8.schedule.row_group import LEAST_STEP, STEP_ROWS, RowGroupSplit, chunk_sizes, step_sizes
from hlo2tx8.schedule.row_group_member import RowGroupMember

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
        """The plan as one of those that a kernel is chosen from."""
        chunk, step = self.split.rows_of_chunk_and_step
        alone = "" if self.split.copies > 1 else ", one at a time"
        alone = f", {self.split.line} tiles share a batch" if self.split.line > 1 else alone
        return Candidate(f"{step} rows a step, {chunk} a chunk{alone}", Estimate(self.cycles, self.spm_bytes), self)


@dataclass(frozen=True)
class _Loads:
    """What a member reads from DDR: `row_bytes` per row, `batch_bytes` of each batch that all of its rows read; of those there are
    `num_batches`: batches may share them."""

    row_bytes: int
    batch_bytes: int
    result_bytes: int
    num_batches: int

    def is_spread(self, split: RowGroupSplit, rates: Rates) -> bool:
        """Do all tiles read the same of all batches, so that each loads a part of it?"""
        return self.num_batches == 1 and is_spread(self.batch_bytes, min(split.num_chunks, rates.tiles), rates)


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
    chunk_rows = rows // max(1, rates.mesh_rows // prod(batches[:-1]))
    for step_rows in step_sizes(chunk_rows):
        split = RowGroupSplit(batches, rows, chunk_rows, step_rows, rates.tiles, mesh=mesh)
        spm_bytes = _spm_bytes(members, parameters, split, rates) + kept_bytes
        if spm_bytes <= rates.spm_bytes:
            plans.append(RowGroupPlan(split, _cycles(members, parameters, split, rates), 0.0, spm_bytes))
    return sorted(plans, key=lambda plan: plan.cycles)


def row_group_plans(
    members: Sequence[RowGroupMember], parameters: Sequence[Sequence[BlockArgument]], rates: Rates
) -> list[RowGroupPlan]:
    """Plans for members in order of execution that are estimated to fit; `parameters` are those of each that are read from DDR, the
    others are the result of the member before."""
    shape = members[0].shape
    batches, rows = shape[:-2], shape[-2]
    plans: list[RowGroupPlan] = []
    for chunk_rows in chunk_sizes(rows):
        sizes = list(step_sizes(chunk_rows, rows))
        for step_rows in sizes:
            for copies, line in ((2, rates.mesh_columns), (2, 1), (1, 1)):
                split = RowGroupSplit(batches, rows, chunk_rows, step_rows, rates.tiles, copies, line)
                if line > 1 and not _may_share(split, rates):
                    continue
                spm_bytes = _spm_bytes(members, parameters, split, rates)
                if copies > line and step_rows in STEP_ROWS and abs(spm_bytes / rates.spm_bytes - 1) < ABOUT:
                    sizes.append(step_rows - step_rows // LEAST_STEP)
                if spm_bytes <= rates.spm_bytes and (copies > 1 or split.num_turns > 1):
                    cycles = _cycles(members, parameters, split, rates)
                    plans.append(RowGroupPlan(split, cycles, _apart(members, parameters, rates), spm_bytes))
    return plans


def _may_share(split: RowGroupSplit, rates: Rates) -> bool:
    """Can the tiles of a mesh row have chunks of the same batch in each of several turns?"""
    is_mesh = rates.mesh_rows * rates.mesh_columns == rates.tiles
    return is_mesh and split.is_even and split.num_turns > 1 and split.chunks_per_batch % split.line == 0


def _width(value: SSAValue) -> int:
    return numpy_dtype(tensor_type(value).element_type).itemsize


def _root(member: RowGroupMember) -> SSAValue:
    return member.partitioned.functions[0].roots[0]


def _spm_bytes(
    members: Sequence[RowGroupMember], parameters: Sequence[Sequence[BlockArgument]], split: RowGroupSplit, rates: Rates
) -> int:
    """What buffers of a step take: operands that all rows of a chunk read, rows of a chunk, results of dots, vectors that are
    alive at once in the widest of the other members."""
    copies = split.copies if split.num_turns > 1 else 1
    kept = widest = 0
    for number, (member, own) in enumerate(zip(members, parameters, strict=True)):
        cells = split.step_rows * member.columns
        if member.dot is None:
            widest = max(widest, _alive_bytes(member) * cells)
            continue
        depth, parts = _depth(member), num_parts(member.dot)
        operand = _width(member.dot.operands[0]) * (1 + (parts > 1))
        rows = split.chunk_rows * copies if number == 0 or _reads_rows(member, own) else 0
        once = 1 if _loads(member, own, split).is_spread(split, rates) else copies
        kept += depth * (once * member.columns + rows) * operand if own else 0
        kept += cells * (2 * _width(member.dot.results[0]) + (4 if parts > 1 else 0))
    return kept + widest


def _alive_bytes(member: RowGroupMember) -> int:
    """Bytes per element of the vectors that are alive at once, with one that repeats a statistic of the rows."""
    function = member.partitioned.functions[0]
    whole = [op for op in function.instructions if tensor_type(op.results[0]).get_shape() == member.shape]
    last: dict[SSAValue, Operation] = {operand: op for op in function.instructions for operand in op.operands}
    alive: dict[SSAValue, int] = {}
    most = 0
    for op in function.instructions:
        if op in whole and kind_of(op) is Kind.ELEMENTWISE:
            alive[op.results[0]] = _width(op.results[0])
        most = max(most, sum(alive.values()))
        for operand in op.operands:
            if last[operand] is op:
                alive.pop(operand, None)
    return most + 2 * max(map(_width, (op.results[0] for op in whole)), default=0)


def _vectors(member: RowGroupMember) -> list[Operation]:
    """What a member computes by an instruction of an engine for all rows of a step."""
    kinds = (Kind.ELEMENTWISE, Kind.REDUCE, Kind.DOT)
    return [op for op in member.partitioned.functions[0].instructions if kind_of(op) in kinds]


def _depth(member: RowGroupMember) -> int:
    """Products that are added up for an element of a dot."""
    assert member.dot is not None
    return num_products(member.dot)


def _loads(member: RowGroupMember, parameters: Sequence[BlockArgument], split: RowGroupSplit) -> _Loads:
    """What a member reads from DDR and writes, if its result goes there."""
    per_row = per_batch = 0
    count = shared = prod(split.batches)
    rows = _behind(member.dot.operands[member.contraction.rows]) if member.dot and member.contraction else ()
    for parameter in parameters:
        size = size_bytes(parameter)
        if (member.dot is None and _is_of_rows(parameter, split)) or parameter in rows:
            per_row += size // (count * split.rows)
        elif member.dot is not None:
            part = min(_depth(member) * member.columns * _width(parameter), size)
            shared = min(shared, -(-size // part))
            per_batch += part
        else:
            per_batch += size
    result = member.shape[-1] * _width(_root(member))
    return _Loads(per_row, per_batch, result, shared)


def _reads_rows(member: RowGroupMember, parameters: Sequence[BlockArgument]) -> bool:
    """Are the rows of a product in DDR?"""
    return (
        member.dot is not None
        and member.contraction is not None
        and not _behind(member.dot.operands[member.contraction.rows]).isdisjoint(parameters)
    )


def _behind(value: SSAValue) -> set[SSAValue]:
    """The values that a value is computed of, and itself."""
    operands = value.owner.operands if isinstance(value.owner, Operation) else ()
    return {value}.union(*(_behind(operand) for operand in operands))


def _is_of_rows(parameter: BlockArgument, split: RowGroupSplit) -> bool:
    return tensor_type(parameter).get_shape()[:-1] == (*split.batches, split.rows)


def _cycles(
    members: Sequence[RowGroupMember], parameters: Sequence[Sequence[BlockArgument]], split: RowGroupSplit, rates: Rates
) -> float:
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
    for member, own in zip(members, parameters, strict=True):
        loads = _loads(member, own, split)
        loaded += num_rows * loads.row_bytes
        if loads.is_spread(split, rates):
            alike += loads.batch_bytes
            continue
        times = min(split.num_chunks, loads.num_batches + lines) if split.is_even else split.num_chunks * split.num_steps
        shared += loads.batch_bytes
        awaited = awaited or loads.batch_bytes
        loaded += times * loads.batch_bytes
        waited += 0 if is_alone or split.copies > 1 else times * loads.batch_bytes
    moved = loaded + num_rows * _loads(members[-1], (), split).result_bytes
    waited = waited if is_alone or split.is_even else moved
    vectors, products = (sum(cycles) for cycles in zip(*(_compute(member, split, rates) for member in members), strict=True))
    steps = split.num_turns * split.num_steps
    computed = max(vectors, products) + min(vectors, products) / split.num_steps
    share = computed * split.num_turns / split.num_chunks * (split.num_steps * split.step_rows / split.chunk_rows)
    instructions = sum(len(_vectors(member)) + 2 for member in members)
    busy = share + steps * instructions * rates.vector_pass + waited / rates.ddr
    starts = steps * rates.product_start * sum(member.dot is not None for member in members)
    ends = share / steps + starts + (rates.barrier if split.num_chunks > 1 else 0)
    if not alike:
        readers = min(split.num_chunks, lines) if split.copies > 1 else 0
        first = awaited * readers / rates.ddr + max(0.0, (shared - awaited) * readers / rates.ddr - share / steps)
        if split.line > 1:
            first += line_cycles(shared, rates)
            busy += 2 * split.num_turns * rates.barrier
        return max(moved / rates.ddr, first + busy) + ends
    busy += steps * sum(moves_of_statistics(member, split, rates) for member in members)
    first, stored = loaded / split.num_turns / rates.ddr, (moved - loaded) / rates.ddr
    last = busy if split.num_steps == 1 < split.num_turns else max(0.0, busy - stored) / split.num_turns
    return spread_cycles(alike, rates) + max(moved / rates.ddr + last, first + busy) + ends


def moves_of_statistics(member: RowGroupMember, split: RowGroupSplit, rates: Rates) -> float:
    """Cycles of moves that give each element of a step the statistics of its row: out of the reduction's blocks, to a block of each
    row, and that to all of a row's blocks."""
    cells = 0 if member.dot is not None else split.step_rows * member.columns * _width(_root(member))
    return len(member.reductions) * (3 * rates.move_start + cells / rates.move) if cells else 0.0


def _compute(member: RowGroupMember, split: RowGroupSplit | None, rates: Rates) -> tuple[float, float]:
    """Cycles of one tile that computes all of a member: of the vector engine, and of the matrix engine by steps of a split."""
    idle = 1.0 if split is None else -(-split.step_rows // rates.product_rows) * rates.product_rows / split.step_rows
    function = member.partitioned.functions[0]
    vectors = products = 0.0
    for op in function.instructions:
        if op is member.dot:
            macs = prod(member.shape) * _depth(member) * len(PASSES[num_parts(op)])
            products += idle * macs / rates.products
        elif not (member.block and _is_by_products(op)):
            vectors += cycles_per_element(op, rates) * prod(tensor_type(op.results[0]).get_shape())
    return vectors, products


def _is_by_products(op: Operation) -> bool:
    """Does the matrix engine compute it, in next to no time: a sum of exponentials or the difference that they are of?"""
    if is_reduction(op):
        return joins_apart(op, 0) == "add" and is_exponential_as_factor(unconverted(op.operands[0]))
    result = op.results[0]
    converted = unconverted(result)
    is_for_sum = converted is not result and is_exponential_as_factor(converted)
    return is_difference_of_exponents(op) or (is_for_sum and all(is_reduction(use.operation) for use in result.uses))


def vector_cycles(member: RowGroupMember, rates: Rates) -> float:
    """Cycles that the vector engine of one tile would take for all of a member."""
    return _compute(member, None, rates)[0]


def _apart(members: Sequence[RowGroupMember], parameters: Sequence[Sequence[BlockArgument]], rates: Rates) -> float:
    """Of the members as kernels of their own, each of which reads each operand once."""
    total, before = 0.0, 0
    for member, own in zip(members, parameters, strict=True):
        result = prod(member.shape) * _width(_root(member))
        moved = before + result + sum(map(size_bytes, own))
        total += max(moved / rates.ddr, sum(_compute(member, None, rates)) / rates.tiles) + rates.barrier
        before = result
    return total
