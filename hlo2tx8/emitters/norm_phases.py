"""Group emitter: a normalization of rows and the products that read it as one kernel, whose tiles send each other the rows.

    %0 = hlo.fusion "layer_norm_fusion"(%x, %g, %b)      8 sequences of 197 rows
    %1 = hlo.group phases (%0, %w, %v) { up, down }

Of the rows that a mesh row multiplies each of its tiles normalizes a fourth, whole rows as in a kernel by itself, and sends them to
the others (`lower.dma.gather_rows`). So they are not written to DDR and read again, and what the products load is weights. The
group of products is emitted as it would be by itself, for rows that are there.
"""

from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, UnitAttr, i64

from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.xla import ENTRY, GATHERS_ROWS
from hlo2tx8.emitters import emit_fusion
from hlo2tx8.emitters.choose_plan import Chooser, Fastest, FirstThatFits, Judge, Named
from hlo2tx8.emitters.head_phases import emit_head_phases, is_of_heads
from hlo2tx8.emitters.phase_group import join_phases
from hlo2tx8.emitters.product_phases import emit_product_phases
from hlo2tx8.emitters.row_group import emit_row_group, emit_rows
from hlo2tx8.errors import CapacityError
from hlo2tx8.fusion.build_group import group_of_one
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.norm_rows import norm_member, plan_norm
from hlo2tx8.schedule.plan import Feasibility
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
    own = _Joined(group, name, norm, plan.split, target, chooser or FirstThatFits())
    there = replace(target, rows_bytes=size_bytes(norm.results[0]) // target.rates.mesh_rows)
    kernel = own.of(_emit(products, f"{name}_1", there, notes, own.chooser()))
    time = chooser.time if isinstance(chooser, FirstThatFits) else None
    if time is not None and plan.cycles > CLEARLY * plan.cycles_apart:
        cycles, apart = time(kernel).cycles, _cycles_apart(norm, products, name, target, time)
        if cycles >= apart:
            figures = f"modelled to take {apart:,.0f} cycles apart, as phases {cycles:,.0f}"
            raise CapacityError("E3101", f"{name}: a normalization and its products are {figures}")
    steps = f"in steps of {plan.split.step_rows}"
    notes.append(f"{name}: group emitter, a normalization whose rows are sent {steps}, and products as phases")
    return kernel


def _emit(products: GroupOp, name: str, target: Target, notes: list[str], chooser: Chooser) -> ModuleOp:
    emit = emit_head_phases if is_of_heads(products) else emit_product_phases
    return emit(products, name, target, notes, chooser)


@dataclass
class _Joined:
    """Puts the rows of a normalization in front of kernels of its products: what `judged` hears of is both."""

    group: GroupOp
    name: str
    norm: FusionOp
    split: RowGroupSplit
    target: Target
    given: Chooser
    judged: list[ModuleOp] = field(default_factory=list[ModuleOp])
    rows: ModuleOp = field(init=False)
    searched: Fastest | None = None

    def __post_init__(self) -> None:
        group = group_of_one(self.norm, {"rows": DenseArrayBase.from_list(i64, self.split.rows_of_chunk_and_step)})
        fusions = [op for op in group.body.block.ops if isinstance(op, FusionOp)]
        members = [member for op in fusions if isinstance(member := norm_member(op, self.target), RowGroupMember)]
        self.rows = emit_rows(group, f"{self.name}_0", fusions, members, self.target, self.split)

    def joined(self, kernel: ModuleOp) -> ModuleOp:
        """Both as one kernel; that of the products stays as it is."""
        module = join_phases(self.group, self.name, [self.rows.clone(), kernel.clone()])
        entry = next(op for op in module.body.block.ops if ENTRY in op.attributes)
        entry.attributes[GATHERS_ROWS] = UnitAttr()
        return module

    def chooser(self) -> Chooser:
        """Chooses among kernels of the products as the given one would among both."""

        def judge(of: Judge) -> Judge:
            def judged(kernel: ModuleOp) -> Feasibility:
                self.judged[:] = [self.joined(kernel)]
                return of(self.judged[0])

            return judged

        def time(of: Judge) -> Judge:
            return lambda kernel: of(self.joined(kernel))

        match self.given:
            case FirstThatFits(own, asks_all, timer):
                return FirstThatFits(judge(own), asks_all, None if timer is None else time(timer))
            case Named(name, own):
                return Named(name, judge(own))
            case Fastest(timer, name, cycles, asks_all):
                self.searched = Fastest(time(timer), name, cycles, asks_all)
                return self.searched
            case _:
                raise CapacityError("E3101", f"{self.name}: nobody chooses among phases of a normalization so")

    def of(self, kernel: ModuleOp) -> ModuleOp:
        """Both as one kernel, of which the chooser has taken that of the products."""
        if isinstance(self.given, Fastest) and self.searched is not None:
            self.given.name, self.given.cycles = self.searched.name, self.searched.cycles
        return self.joined(kernel) if isinstance(self.given, Fastest) else self.judged[0]


def _cycles_apart(norm: FusionOp, products: GroupOp, name: str, target: Target, time: Judge) -> float:
    """Modelled cycles of a normalization and of the group that reads it as kernels of their own."""
    seen: list[float] = []

    def judge(kernel: ModuleOp) -> Feasibility:
        found = time(kernel)
        seen.append(found.cycles)
        return found

    emit_fusion(norm, name, target, [], FirstThatFits(judge))
    cycles = seen[-1]
    try:
        _emit(products, name, target, [], FirstThatFits(judge, time=time))
        return cycles + seen[-1]
    except CapacityError:
        for op in products.body.block.ops:
            if isinstance(op, FusionOp):
                emit_fusion(op, name, target, [], FirstThatFits(judge))
            elif isinstance(op, GroupOp):
                emit_row_group(op, name, target, [], FirstThatFits(judge))
            cycles += seen[-1] if op is not products.body.block.last_op else 0.0
        return cycles
