"""Pass group-fusions: fusions of the same rows become a group, whose intermediates stay in the scratchpad.

Before:
    %0 = hlo.fusion "dot_general_fusion"(%q, %k)        scores [12, 512, 512]
    %1 = hlo.fusion "softmax_fusion"(%0)
    %2 = hlo.fusion "dot_general_fusion.1"(%1, %v)

After:
    %2 = hlo.group rows [512, 128] (%q, %k, %v) { the three fusions }        chunks of 512 rows in steps of 128

A chain of fusions is a group if the only reader of each is the next, all have the same rows, and the next reads those that a step
has just computed. It is one if that saves modelled cycles: intermediates are neither written nor read, but what all rows of a batch
read, keys and values, is read for each chunk.

Chains of convolutions become groups by bands of rows of their images, see `band_chains`; fusions that read a tensor and again with
statistics of it, groups of phases, see `phases`; chains of products whose results stay with tiles, see `product_chains`; products
and the attention that reads them, see `head_phases`.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation
from xdsl.passes import ModulePass

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.fusion.band_chains import group_bands
from hlo2tx8.fusion.build_group import SEARCHED_SLACK, build_group, name_of_fusion
from hlo2tx8.fusion.head_phases import group_heads
from hlo2tx8.fusion.norm_phases import group_norms
from hlo2tx8.fusion.phases import group_phases
from hlo2tx8.fusion.product_chains import LONG_CHAIN, group_products
from hlo2tx8.fusion.remake_outputs import remake_outputs
from hlo2tx8.fusion.row_results import join_reductions_of_rows
from hlo2tx8.hlo.placement import placed_calls
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.indexing import Dim, Expr
from hlo2tx8.ir import i64_array
from hlo2tx8.notes import Decision, Name, What, add_notes
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.schedule.costs import Costs
from hlo2tx8.schedule.plan_row_group import RowGroupPlan, plan_row_group
from hlo2tx8.schedule.row_group_member import RowGroupMember, row_group_member, without_ones
from hlo2tx8.schedule.work_split import Target


@dataclass(frozen=True)
class GroupFusionsPass(ModulePass):
    """Puts chains of fusions of the same rows into groups; see the module docstring. `is_searched`: groups are compared with their
    parts later, by the timing model, so one that is estimated to be slower is worth a trial."""

    name = "group-fusions"

    chip: str = ""
    explain: bool = False
    is_searched: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chip = load_chip(self.chip)
        target = Target(Rates.of(chip), is_searched=self.is_searched)
        notes: list[str] = []
        placed = {c.callee.string_value() for c, tiles in placed_calls(op, chip.mesh) if not tiles.is_all(chip.mesh)}
        for block in [block for block in _blocks(op, placed) if any(isinstance(inner, FusionOp) for inner in block.ops)]:
            notes += remake_outputs(block, Costs(target.rates))
            notes += join_reductions_of_rows(block)
            chains, ends = _chains(block, target)
            notes += ends if self.explain else []
            for chain in chains:
                notes.append(_group(chain, target))
            notes += group_heads(block, target)
            notes += group_products(block, target, LONG_CHAIN)
            notes += group_bands(block, target)
            notes += group_phases(block, target)
            notes += group_products(block, target)
            notes += group_norms(block, target)
        if self.explain:
            add_notes(op, notes)


@dataclass(frozen=True)
class _Link:
    """A fusion of a chain, what it is as a member, and the parameters that are results of the fusion before."""

    fusion: FusionOp
    member: RowGroupMember
    chained: tuple[int, ...] = ()

    @property
    def parameters(self) -> list[BlockArgument]:
        """Those read from DDR."""
        return [arg for number, arg in enumerate(self.fusion.body.block.args) if number not in self.chained]


@dataclass(frozen=True)
class _Members:
    """What fusions are as members of groups, each looked at once."""

    target: Target
    known: dict[FusionOp, RowGroupMember | str] = field(default_factory=dict[FusionOp, "RowGroupMember | str"])

    def of(self, fusion: FusionOp) -> RowGroupMember | str:
        """The member that a fusion is, or why it is none."""
        if fusion not in self.known:
            self.known[fusion] = row_group_member(fusion.body.block, self.target)
        return self.known[fusion]


def _blocks(module: ModuleOp, placed: Container[str]) -> Iterator[Block]:
    """The blocks of functions and of the control flow in them; not of `placed` ones, whose tiles cannot meet by themselves."""
    for function in module.body.block.ops:
        for op in nested_ops(function) if not isinstance(function, FuncOp) or function.sym_name.data not in placed else ():
            if isinstance(op, FuncOp) or op.name in CONTROL:
                yield from (block for region in op.regions for block in region.blocks)


def _chains(block: Block, target: Target) -> tuple[list[list[_Link]], list[str]]:
    """Chains of fusions that may be groups, each as long as it gets; and why each ends, or why a fusion begins none."""
    chains: list[list[_Link]] = []
    ends: list[str] = []
    taken: set[Operation] = set()
    members = _Members(target)
    for op in block.ops:
        if not isinstance(op, FusionOp) or op in taken:
            continue
        first = members.of(op)
        if isinstance(first, str):
            ends.append(_end(op, first))
            continue
        chain = [_Link(op, first)]
        while isinstance(link := _next(chain[-1], members), _Link) and link.fusion not in taken:
            chain += _with_products_beside(link, chain[-1].fusion, taken, members)
        ends.append(_end(chain[-1].fusion, "its reader is in another group" if isinstance(link, _Link) else link))
        if not any(link.member.reductions and link.member.dot is None for link in chain):  # rows are what arithmetic is kept for
            chain = chain[next((n for n, link in enumerate(chain) if link.member.reductions), len(chain)) :]
        if len(chain) > 1 and any(link.member.dot is not None for link in chain):
            taken.update(link.fusion for link in chain)
            chains.append(chain)
        elif len(chain) > 1:
            ends.append(_end(chain[0].fusion, "groups by rows have a product and a reduction of rows, and this chain has not"))
    return chains, ends


def _with_products_beside(link: _Link, before: FusionOp, taken: Container[Operation], members: _Members) -> list[_Link]:
    """A link, behind other products of the same rows that it alone reads at its own rows, if it has a reduction of rows itself."""
    beside: list[_Link] = []
    for number, value in enumerate(link.fusion.operands):
        maker = value.owner
        if link.member.dot is not None or not isinstance(maker, FusionOp) or maker is before or maker in taken:
            continue
        member = members.of(maker)
        if isinstance(member, str) or member.dot is None or isinstance(found := _next(_Link(maker, member), members), str):
            continue
        if found.fusion is link.fusion and maker.parent is link.fusion.parent:
            beside.append(_Link(maker, member))
            link = replace(link, chained=tuple(sorted((*link.chained, number))))
    return [*beside, link]


def _end(fusion: FusionOp, why: str) -> str:
    """Why no group by rows goes on behind a fusion."""
    return Decision(What.NO_LINK, (Name(name_of_fusion(fusion)),), why=f"by rows: {why}").line()


def _next(link: _Link, members: _Members) -> "_Link | str":
    """The only reader of a fusion's results, if it is a fusion of the same rows that reads each of them for itself, and not only
    arithmetic: that is for groups by bands. What has an element per row may be a result of the group. Else which of that is not
    so."""
    of_rows = [result for result in link.fusion.results if tensor_type(result).get_shape() == link.member.shape[:-1]]
    uses = [use for result in link.fusion.results for use in result.uses if result not in of_rows]
    readers = list(dict.fromkeys(use.operation for use in uses))
    if len(readers) != 1:
        return "it has no single reader"
    reader = readers[0]
    others = {use.operation for result in of_rows for use in result.uses if use.operation is not reader}
    if others and any(use.operation is reader for result in of_rows for use in result.uses):
        return "its reader and others read what it has of rows"
    if not isinstance(reader, FusionOp) or reader.parent is not link.fusion.parent:
        return "its reader is no fusion of the same block"
    member = members.of(reader)
    if isinstance(member, str):
        return f"its reader cannot be in one: {member}"
    if not member.reductions:
        return "its reader is arithmetic only, which is for groups by bands"
    if member.shape[:-1] != link.member.shape[:-1]:
        return f"its reader has rows of another shape, {list(member.shape[:-1])}, not {list(link.member.shape[:-1])}"
    numbers = tuple(sorted(use.index for result in link.fusion.results for use in result.uses if use.operation is reader))
    if not all(_reads_own_rows(member, reader.body.block.args[n]) for n in numbers):
        return "its reader needs other rows than those that a step has just made"
    return _Link(reader, member, numbers)


def _reads_own_rows(member: RowGroupMember, parameter: BlockArgument) -> bool:
    """Is each element of a parameter read for elements of the same row only?

    A dot reads all columns of it, its counter is the dimension behind those of the result; others read their own column. What has
    an element per row is read at the row.
    """
    rank = len(member.shape)
    rows = tuple(Dim(i) for i in range(rank - 1))
    is_of_row = tensor_type(parameter).get_shape() == member.shape[:-1]

    def own(reader: Operation) -> tuple[Expr, ...]:
        index = rows if is_of_row else (*rows, Dim(rank if reader is member.dot else rank - 1))
        return without_ones(index, member.shape)

    return all(member.index_of(use.operation, use.index) == own(use.operation) for use in parameter.uses)


def _group(chain: Sequence[_Link], target: Target) -> str:
    """Puts a chain into a group if that saves cycles, without arithmetic at its start if that saves more; a line about the
    decision."""
    arithmetic = next(n for n, link in enumerate(chain) if link.member.reductions)
    parts = [chain[first:] for first in range(arithmetic + 1)]
    plans = [plan_row_group([link.member for link in part], [link.parameters for link in part], target.rates) for part in parts]
    saving, (chain, plan) = max(
        ((_saving(plan, target), (part, plan)) for part, plan in zip(parts, plans, strict=True)), key=lambda found: found[0]
    )
    names = tuple(Name(name_of_fusion(link.fusion)) for link in chain)
    if isinstance(plan, str):
        return Decision(What.NO_GROUP, names, why=plan).line()
    figures = f"{plan.cycles:.0f} cycles, {plan.cycles_apart:.0f} apart, {plan.spm_bytes} bytes of SPM"
    costs = plan.cycles_apart - plan.cycles, plan.cycles, plan.cycles_apart
    if saving <= 0:
        return Decision(What.NO_GROUP, names, Name(""), figures, *costs).line()
    build_group([link.fusion for link in chain], {"rows": i64_array(plan.split.rows_of_chunk_and_step)})
    why = f"a group by rows, {plan.split.step_rows} a step, {plan.split.chunk_rows} a chunk: {figures}"
    return Decision(What.GROUP, names, Name(""), why, *costs).line()


def _saving(plan: RowGroupPlan | str, target: Target) -> float:
    """Cycles that a plan saves, less than nothing where there is none."""
    if isinstance(plan, str):
        return -inf
    return plan.cycles_apart * (SEARCHED_SLACK if target.is_searched else 1.0) - plan.cycles
