"""Chains of convolutions, pools and what is element by element between them, which may be groups by bands.

    %0 = hlo.fusion "convolution_fusion"(%x, %w0)        [8, 56, 56, 64]
    %1 = hlo.fusion "convolution_fusion.1"(%0, %w1)      3x3
    %2 = hlo.fusion "convolution_fusion.2"(%1, %w2, %x)  + %x

Each but the last is read inside of the chain only, by those that need some rows of it for a row of their own. What comes from
outside and is read by several of them, %x, is a member of the group too, a copy: so it is loaded once. So is what a pool reads,
whose windows overlap: a pool may be a group by itself.
"""

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Region, SSAValue

from hlo2tx8.dialects.hlo import CopyOp, FusionOp, GroupOp
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.fusion.build_group import SEARCHED_SLACK, build_group, name_of_fusion
from hlo2tx8.schedule.band_group_member import BandGroupMember, band_group_member
from hlo2tx8.schedule.plan_band_group import BandChain, BandGroupPlan
from hlo2tx8.schedule.work_split import Target


def group_bands(block: Block, target: Target) -> list[str]:
    """Puts chains of a block into groups where that saves cycles; a line about each."""
    slack = SEARCHED_SLACK if target.is_searched else 1.0
    return [note for chain in _chains(block, target) for note in _group(chain, slack)]


def _chains(block: Block, target: Target) -> list[BandChain]:
    """Chains that may be groups: a member and, in order of execution, all that is made of its result by bands."""
    members: dict[FusionOp, BandGroupMember] = {}
    for op in block.ops:
        if isinstance(op, FusionOp) and isinstance(member := band_group_member(op.body.block, target), BandGroupMember):
            members[op] = member
    chains: list[BandChain] = []
    taken: set[FusionOp] = set()
    for first in members:
        if first in taken:
            continue
        made = {first.results[0]}
        fusions = [first]
        for op, member in members.items():
            if op is not first and op not in taken and any(op.operands[number] in made for number in member.reads):
                made.add(op.results[0])
                fusions.append(op)
        taken.update(fusions)
        chain = BandChain(tuple(fusions), tuple(members[fusion] for fusion in fusions), target.rates)
        if chain.may_gain:
            chains.append(chain)
    return chains


def _group(chain: BandChain, slack: float) -> list[str]:
    """Puts parts of a chain into groups, so that all of it takes the fewest cycles if groups take so many times less."""
    count = len(chain.fusions)
    best: list[tuple[float, int, BandGroupPlan | None]] = [(0.0, 0, None)]
    for end in range(1, count + 1):
        ways = [(best[end - 1][0] + _part(chain, end - 1, end).cycles_apart(), end - 1, None)]
        for start in reversed(range(end)):
            part = _part(chain, start, end)
            if not part.fits:
                break
            if part.is_closed and part.may_gain:
                ways += [(best[start][0] + plan.cycles / slack, start, plan) for plan in part.plans()[:1]]
        best.append(min(ways, key=lambda way: way[0]))
    notes: list[str] = []
    apart, end = chain.cycles_apart(), count
    while end:
        _, start, plan = best[end]
        part = _part(chain, start, end)
        if plan is not None:
            figures = f"{plan.cycles:.0f} cycles, {part.cycles_apart():.0f} apart, {plan.spm_bytes} bytes of SPM"
            notes.insert(0, f"{_names(part)}: a group by bands of {plan.bands[-1].rows} rows: {figures}")
            make_band_group(part, plan.bands[-1].rows)
        end = start
    if not notes:
        plan = next(iter(chain.plans()), None) if chain.is_closed else None
        why = f"{plan.cycles:.0f} cycles, {apart:.0f} apart" if plan else "no band of all members fits the scratchpad"
        return [f"{_names(chain)}: no group, {why}"]
    return notes


def _part(chain: BandChain, start: int, end: int) -> BandChain:
    return BandChain(chain.fusions[start:end], chain.members[start:end], chain.rates)


def make_band_group(chain: BandChain, rows: int) -> GroupOp:
    """The group op for bands of so many rows, with a copy of what several members read in front of them."""
    group = build_group(chain.fusions, {"band": IntegerAttr(rows, i64)})
    for value in chain.read_twice():
        copy = _copy(value)
        for fusion, member in zip(chain.fusions, chain.members, strict=True):
            fusion.operands = [copy.results[0] if v is value and n in member.reads else v for n, v in enumerate(fusion.operands)]
        group.body.block.insert_op_before(copy, chain.fusions[0])
    return group


def _copy(value: SSAValue) -> FusionOp:
    """A fusion whose result is what it reads."""
    body = Block(arg_types=[value.type])
    copy = CopyOp.create(operands=[body.args[0]], result_types=[value.type])
    body.add_ops([copy, ReturnOp(list(copy.results))])
    return FusionOp([value], [value.type], "kLoop", Region(body), "copy_fusion")


def _names(chain: BandChain) -> str:
    return ", ".join(map(name_of_fusion, chain.fusions))
