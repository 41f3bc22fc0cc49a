"""Chains of convolutions, pools and what is element by element between them, which may be groups by bands.

    %0 = hlo.fusion "convolution_fusion"(%x, %w0)        [8, 56, 56, 64]
    %1 = hlo.fusion "convolution_fusion.1"(%0, %w1)      3x3
    %2 = hlo.fusion "convolution_fusion.2"(%1, %w2, %x)  + %x

Each but the last is read inside of the chain only, by those that need some rows of it for a row of their own. What comes from
outside and is read by several of them, %x, is a member of the group too, a copy: so it is loaded once. So is what a pool reads,
whose windows overlap: a pool may be a group by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import CopyOp, FusionOp, GroupOp
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.fusion.build_group import SEARCHED_SLACK, build_group, name_of_fusion
from hlo2tx8.ir import i64_attr
from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.schedule.band_group_member import BandGroupMember, band_group_member
from hlo2tx8.schedule.plan_band_group import PHASE_SHARES, SPM_SHARE, BandChain, BandGroupPlan, kept_beside
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


def regroup(fusions: Sequence[FusionOp], target: Target, attempt: int, most_phases: int) -> list[Operation]:
    """Puts members of a chain into groups, of which any number in a row are phases between which results stay, or at most so many;
    these, and the fusions that are in none. `attempt`: which of the shares of the scratchpad phases may take."""
    members = [member for op in fusions if isinstance(member := band_group_member(op.body.block, target), BandGroupMember)]
    _group(BandChain(tuple(fusions), tuple(members), target.rates), 1.0, attempt, most_phases)
    return list(dict.fromkeys(_outermost(fusion) for fusion in fusions))


def _outermost(fusion: FusionOp) -> Operation:
    """The group around a fusion that is in no other one, or the fusion."""
    found: Operation = fusion
    while isinstance(around := found.parent_op(), GroupOp):
        found = around
    return found


def _group(chain: BandChain, slack: float, attempt: int = 0, most_phases: int = 0) -> list[str]:
    """Puts parts of a chain into groups, and groups whose results stay between them into groups of phases, any number of them or at
    most so many, so that all of it takes the fewest cycles if groups take so many times less. `attempt`: of `PHASE_SHARES`."""
    chain = replace(chain, share=PHASE_SHARES[attempt])
    ways = [{0: _Way(0.0, 0, 0, None)}]
    for end in range(1, len(chain.fusions) + 1):
        found = [(0, _Way(ways[end - 1][0].cycles + _part(chain, end - 1, end).cycles_apart(), end - 1, 0, None))]
        for start in reversed(range(end)):
            part = _part(chain, start, end)
            if not part.is_closed or not part.fits:  # nor is one that begins earlier, or does
                break
            for begins, so_far in ways[start].items():
                run = _run_start(ways, start, begins)
                for stays in (0, begins + 1 if most_phases else 1) if begins + 1 != most_phases else (0,):
                    if part.may_gain or ((begins or stays) and part.members[0].dot is not None):
                        found += [(stays, way) for way in _ways(chain, part, (run, start), begins, stays, so_far.cycles, slack)]
        ways.append({stays: min((w for kind, w in found if kind == stays), key=lambda w: w.cycles) for stays, _ in found})
    notes: list[str] = []
    groups: list[GroupOp] = []
    apart, end, stays = chain.cycles_apart(), len(chain.fusions), 0
    while end:
        way = ways[end][stays]
        part, plan = _part(chain, way.start, end), way.plan
        if plan is not None:
            figures = f"{plan.cycles:.0f} cycles, {part.cycles_apart():.0f} apart, {plan.spm_bytes} bytes of SPM"
            why = f"a group by bands of {plan.bands[-1].rows} rows: {figures}"
            costs = part.cycles_apart() - plan.cycles, plan.cycles, part.cycles_apart()
            notes.insert(0, Decision(What.GROUP, _names(part), Name(""), why, *costs).line())
            before = chain.fusions[_run_start(ways, way.start, way.begins) : way.start]
            part = replace(part, resident=frozenset(value for fusion in before for value in fusion.results))
            groups.insert(0, make_band_group(part, plan.bands[-1].rows))
        if not way.begins:
            if len(groups) > 1:
                build_group(groups, {"phases": UnitAttr()} | ({"attempt": i64_attr(attempt)} if attempt else {}))
                notes.insert(0, f"the next {len(groups)} groups are phases, whose results stay with the tiles that make them")
            groups = []
        end, stays = way.start, way.begins
    if not notes:
        plan = chain.best_plan() if chain.is_closed else None
        why = f"{plan.cycles:.0f} cycles, {apart:.0f} apart" if plan else "no band of all members fits the scratchpad"
        return [Decision(What.NO_GROUP, _names(chain), why=why, cycles=plan.cycles if plan else 0.0, apart=apart).line()]
    return notes


@dataclass(frozen=True)
class _Way:
    """The fewest cycles of a chain up to some fusion, the last part of which is from `start` on. What earlier phases of its kernel
    have made is read where it was made; the one before it is number `begins` of those if phases are counted, 0 if it is none.
    `plan` of the part, None if it is no group."""

    cycles: float
    start: int
    begins: int
    plan: BandGroupPlan | None


def _run_start(ways: Sequence[dict[int, "_Way"]], start: int, begins: int) -> int:
    """The first fusion of the phases at the end of which something stays."""
    while begins:
        way = ways[start][begins]
        start, begins = way.start, way.begins
    return start


def _ways(
    chain: BandChain, part: BandChain, starts: tuple[int, int], begins: int, stays: int, before: float, slack: float
) -> Iterator[_Way]:
    """The fastest way to make a part a group, if what it reads, or makes, can stay as is said. `starts`: the numbers of the first
    fusions of the phases that it is one of, and of the part."""
    run, start = starts
    end = start + len(part.fusions)
    if stays and end == len(chain.fusions):
        return
    made: list[SSAValue] = [value for fusion in chain.fusions[run:start] for value in fusion.results]
    last = {value: chain.last_readers[value] for value in made}
    if any(number is None or (number >= end and not stays) for number in last.values()):
        return
    there = {value: number < end for value, number in last.items() if number is not None and number >= start}
    resident = frozenset(value for value in there if any(use.operation in part.fusions for use in value.uses))
    phase = replace(part, resident=resident, stays=stays > 0, share=part.share if resident or stays else SPM_SHARE)
    result = part.fusions[-1].results[0] if stays else None
    taken = kept_beside(there, result, chain.stays_whole, chain.rates)
    plan = replace(phase, taken_bytes=taken).best_plan()
    if plan is not None:
        yield _Way(before + plan.cycles / slack, start, begins, plan)


def _part(chain: BandChain, start: int, end: int) -> BandChain:
    return BandChain(chain.fusions[start:end], chain.members[start:end], chain.rates, share=chain.share)


def make_band_group(chain: BandChain, rows: int) -> GroupOp:
    """The group op for bands of so many rows, with a copy of what several members read in front of them."""
    shared = chain.read_twice()
    group = build_group(chain.fusions, {"band": i64_attr(rows)})
    inside = dict(zip(group.operands, group.body.block.args, strict=True))
    for value in (inside[own] for own in shared):
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


def _names(chain: BandChain) -> tuple[Name, ...]:
    return tuple(Name(name_of_fusion(fusion)) for fusion in chain.fusions)
