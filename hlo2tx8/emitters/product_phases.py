"""Group emitter: products as one kernel, one after the other, whose results stay with the tiles that make them.

    %0 = convolution 1x1 (%x, %w0), %1 = convolution 3x3 (%0, %w1), %2 = convolution 1x1 (%1, %w2) + %x

Each is one step on the mesh (`schedule.mesh_split`): tile (r, c) makes rows r and columns c of the result. That is what tiles of
its mesh row need of the next product, and what the tile itself adds as a residual. So nothing between the products goes through
DDR (`lower.dma.keep_results`); weights do, once.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.xla import BRINGS_EARLY, ENTRY, PHASE_STEPS, RING_SUMS, RINGS_AT_ONCE
from hlo2tx8.emitters.choose_plan import Chooser, FirstThatFits
from hlo2tx8.emitters.emitter import Fusion, Match
from hlo2tx8.emitters.gemm import GemmEmitter, GemmMatch
from hlo2tx8.emitters.hero import heroes
from hlo2tx8.emitters.phase_group import join_phases
from hlo2tx8.errors import CapacityError
from hlo2tx8.hlo.fingerprint import HashedOnce, fingerprint
from hlo2tx8.ir import i64_array, i64_attr
from hlo2tx8.partitioner.contraction import is_contraction
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.schedule.contraction_split import ABOUT
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.mesh_estimate import alternating_cycles, least_alternating_cycles
from hlo2tx8.schedule.plan import Candidate, Estimate
from hlo2tx8.schedule.resident_split import has_even_columns
from hlo2tx8.schedule.work_split import Residence, Target

DEPTHS = (512, 128, 64)
"""Products of a panel at most."""
MARGIN = 0.93
"""Of what panels are expected to take where others were timed, that they may take: those that were the fastest of 39 groups were
never below 0.97 of it."""
SMALL = 0.85
"""What plans may take of a scratchpad that are tried beside others: buffers of parts are not estimated."""
HANDED_BYTES = 8 * 32768
"""Of parts of what follows a step's products, which is done beside those of the next step."""
LEAST_ALIKE = 2
"""Steps of the first of two products whose rows are all made at once: during the second product the last step is finished."""
LOADED_AHEAD = 0.95
"""What fusions take apart of what they are estimated to, if tiles of a mesh row do not have as many columns of the last one: the
links have more to do for it than memory, and its weights would be loaded while others are computed."""
LEAST_OPERANDS = 2
"""Of a fusion with a product: its factors."""
PAIR = 2
"""Products that may be computed in turns."""
PARTS = (2, 3, 4, 6, 8, 12, 16)
"""Parts of a tile's rows that two products may make in turns."""


@dataclass(frozen=True)
class _Phases:
    """How each product is computed, all rows of a tile at once or in so many `parts`; do sums of the second one go around mesh rows
    (`in_ring`)? Parts, or one, may be `in_turns`. What is added to a product may be loaded while others are computed
    (`brings_early`). Sums of these phases go around `at_once`."""

    ways: list[Candidate[Match]]
    parts: int = 1
    in_ring: bool = False
    in_turns: bool = False
    brings_early: bool = False
    at_once: tuple[int, ...] = ()


def is_of_products(group: GroupOp) -> bool:
    """Is it a group of phases that are products?"""
    *phases, _ = group.body.block.ops
    fusions = [op for op in phases if isinstance(op, FusionOp)]
    return len(fusions) == len(phases) and any(is_contraction(op) for fusion in fusions for op in _inside(fusion))


def emit_product_phases(
    group: GroupOp, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of a group of products as phases.

    `notes` gets a line per plan; `chooser` says which of them is taken. CapacityError if none fits the scratchpad, or the fusions
    apart are estimated to be as fast.
    """
    notes = [] if notes is None else notes
    fusions = _fusions(group)
    adds, apart = any(map(reads_addend, fusions)), _cycles_apart(fusions, name, target)
    matches = [matched(fusion, f"{name}_{number}", target) for number, fusion in enumerate(fusions)]
    slower: list[str] = []
    rings = _rings(group, matches, target)

    def candidates() -> Iterator[Candidate[_Phases]]:
        for depth in DEPTHS:
            of_each = zip(matches, residences(group, fusions, target, depth), strict=True)
            phases = [resident_ways(match, own) for match, own in of_each]
            if not all(phases):
                continue
            of_one_step = [[way for way in ways if num_steps(way) == 1] for ways in phases]
            for ways_of_each, steps in ((phases, ""), (of_one_step, ", one step each")):
                if not all(ways_of_each) or (steps and all(num_steps(ways[0]) == 1 for ways in phases)):
                    continue
                best = [ways[0] for ways in ways_of_each]
                cycles = sum(way.estimate.cycles for way in best) + 2 * target.rates.barrier * len(best)
                if cycles < ABOUT * apart or target.is_searched:
                    estimate = Estimate(cycles, max(way.estimate.spm_bytes for way in best))
                    is_rough = cycles >= apart or any(num_steps(way) > 1 for way in best)
                    title = f"panels at most {depth} deep{steps}"
                    way = Candidate(title, estimate, _Phases(best), steps, is_rough, MARGIN)
                    yield from (way, *_with_rings(way, rings))
                else:
                    slower.append(f"phases with panels at most {depth} deep are estimated to take {cycles:,.0f} cycles")

    def sorted_candidates() -> list[Candidate[_Phases]]:
        cuts = [(1, True, False), *((parts, in_ring, True) for parts in (1, *PARTS) for in_ring in (False, True))]
        in_turns = [own for cut in cuts for own in _in_turns(group, matches, target, *cut)]
        found = [*candidates(), *(own for own in in_turns if own.estimate.cycles < ABOUT * apart or target.is_searched)]
        if target.is_searched and adds:
            found += [_brought(way) for way in found]  # of those that there are so far
        return sorted(found, key=lambda own: own.estimate.cycles)

    chooser, spm_bytes, emit = chooser or FirstThatFits(), target.rates.spm_bytes, partial(_emit, group, name)
    schedule, kernel = chooser.choose([sorted_candidates()], spm_bytes, emit)
    if adds and schedule.taken is not None and isinstance(chooser, FirstThatFits):
        schedule, kernel = chooser.replaced(schedule, _brought(schedule.taken), spm_bytes, emit) or (schedule, kernel)
    notes += schedule.explain(name)
    if kernel is None or (schedule.cycles > apart and not target.is_joined):  # cycles are of the rows, too
        why = ", ".join(slower) or "none of its phases fit the scratchpad"
        why = why if kernel is None else f"phases take {schedule.cycles:,.0f}"
        raise CapacityError("E3101", f"the fusions of {name} take {apart:,.0f} cycles apart: {why}")
    assert schedule.taken is not None
    notes += [f"{name}: {number}: {way.name} ({way.estimate})" for number, way in enumerate(schedule.taken.choice.ways)]
    notes.append(f"{name}: group emitter, {len(fusions)} products as phases, {apart:,.0f} cycles apart")
    return kernel


def _emit(group: GroupOp, name: str, phases: _Phases) -> ModuleOp:
    """The LOOPS module of phases that are computed so."""
    module = join_phases(group, name, [GemmEmitter().emit(way.choice) for way in phases.ways])
    entry = next(op for op in module.body.block.ops if ENTRY in op.attributes)
    if phases.in_turns:
        entry.attributes[PHASE_STEPS] = i64_attr(phases.parts)
    if phases.at_once:
        entry.attributes[RINGS_AT_ONCE] = i64_array(phases.at_once)
    if phases.in_ring:
        entry.attributes[RING_SUMS] = UnitAttr()
    if phases.brings_early:
        entry.attributes[BRINGS_EARLY] = UnitAttr()
    return module


def _cycles_apart(fusions: Sequence[FusionOp], name: str, target: Target) -> float:
    """Estimated cycles of fusions as kernels of their own."""
    alone: dict[Hashable, float] = {}
    keys = [HashedOnce(fingerprint(fusion)) for fusion in fusions]
    for key, fusion in zip(keys, fusions, strict=True):
        if key not in alone:
            alone[key] = ways[0].estimate.cycles if (ways := ways_of(fusion, name, target)) else 0.0
    cycles = sum(alone[key] for key in keys) + (len(fusions) - 1) * target.rates.kernel
    return cycles if has_even_columns(shape_of(fusions[-1].results[0]), target.rates) else LOADED_AHEAD * cycles


def reads_addend(fusion: FusionOp) -> bool:
    """Does a fusion with a product read something else as large as its result, which is not made in the group?"""
    sizes = [size_bytes(value) for value in fusion.operands if isinstance(value, BlockArgument)]
    return len(fusion.operands) > LEAST_OPERANDS and size_bytes(fusion.results[0]) in sizes


def _brought(way: Candidate[_Phases]) -> Candidate[_Phases]:
    """A way by which what is added to a product is loaded early."""
    return replace(way, name=f"{way.name}, what is added comes early", choice=replace(way.choice, brings_early=True))


def _rings(group: GroupOp, matches: Sequence[Match | None], target: Target) -> dict[int, Candidate[Match]]:
    """The ways to compute phases so that sums go around mesh rows at once, those that there are; none of two products, whose sums
    go around in turns."""
    if len(matches) == PAIR:
        return {}
    found: dict[int, Candidate[Match]] = {}
    for number, (match, stays) in enumerate(zip(matches, residences(group, _fusions(group), target, 0), strict=True)):
        if stays.operands and (ways := resident_ways(match, replace(stays, in_ring=True, is_at_once=True))):
            found[number] = ways[0]
    return found


def _with_rings(way: Candidate[_Phases], rings: dict[int, Candidate[Match]]) -> Iterator[Candidate[_Phases]]:
    """A way in which sums of those phases go around at once that are estimated to take less then; none if there are none."""
    ways = list(way.choice.ways)
    better = [number for number, own in rings.items() if own.estimate.cycles < ways[number].estimate.cycles]
    if not better:
        return
    saved = sum(ways[number].estimate.cycles - rings[number].estimate.cycles for number in better)
    for number in better:
        ways[number] = rings[number]
    estimate = Estimate(way.estimate.cycles - saved, max(own.estimate.spm_bytes for own in ways))
    of_phases = f"sums around mesh rows in {len(better)} of them"
    choice = replace(way.choice, ways=ways, at_once=tuple(better))
    yield replace(way, name=f"{way.name}, {of_phases}", estimate=estimate, choice=choice, family=f"{way.family}, {of_phases}")


def num_steps(way: Candidate[Match]) -> int:
    """In how many steps a tile makes what is its own."""
    chosen = way.choice.chosen if isinstance(way.choice, GemmMatch) else ()
    return max((blocking.pace.num_steps for _, blocking in chosen if blocking.pace is not None), default=1)


def _in_turns(
    group: GroupOp, matches: Sequence[Match | None], target: Target, parts: int, in_ring: bool, in_turns: bool
) -> Iterator[Candidate[_Phases]]:
    """The ways to compute two products in so many parts of rows, in turns or not; sums of the second one may go around mesh rows.
    Of each depth the one that is estimated to be the fastest, and of those that take less of the scratchpad."""
    if len(matches) != PAIR:
        return
    fusions = _fusions(group)
    for depth in DEPTHS:
        both = residences(group, fusions, target, depth)
        if not both[0].keeps_result or not both[1].operands:
            return
        made = size_bytes(fusions[0].results[0]) // target.rates.tiles
        kept = made * min(parts, 2) // parts
        stays = [replace(own, kept_bytes=kept, row_steps=parts, in_ring=in_ring) for own in both]
        ways = [resident_ways(match, own) for match, own in zip(matches, stays, strict=True)]
        made //= parts
        best = small = None
        for mine, its in product(*ways):
            first, second = (way.choice.chosen[0][1].pace if isinstance(way.choice, GemmMatch) else None for way in (mine, its))
            if first is None or second is None:
                continue
            if in_turns and parts == 1 and ((not in_ring and not second.in_order) or first.alike < LEAST_ALIKE):
                continue
            if any(in_turns and own.num_steps != parts * own.alike for own in (first, second)):
                continue
            of_parts, is_in_place = HANDED_BYTES if first.alike > 1 and in_turns else 0, in_ring and parts == 1
            handed = made // first.alike + of_parts if of_parts and not is_in_place else 0
            there = target.rows_bytes + of_parts * is_in_place, target.rows_bytes if parts > 1 else 0
            spm_bytes = max(mine.estimate.spm_bytes + there[0], there[1] + its.estimate.spm_bytes) + kept + handed
            bar = small if spm_bytes <= SMALL * target.rates.spm_bytes else best
            is_hopeless = bar is not None and in_turns and least_alternating_cycles(first, second, parts) >= bar.estimate.cycles
            if spm_bytes <= target.rates.spm_bytes and not is_hopeless:
                apart = mine.estimate.cycles + its.estimate.cycles
                estimate = Estimate(alternating_cycles(first, second, parts) if in_turns else apart, spm_bytes)
                rows = f"{parts} parts of rows in turns, " if parts > 1 else "in turns, " if in_turns else ""
                title = f"{rows}{'sums around mesh rows, ' if in_ring else ''}panels at most {depth} deep"
                own = Candidate(title, estimate, _Phases([mine, its], parts, in_ring, in_turns), "", True, MARGIN)
                best = own if best is None or estimate.cycles < best.estimate.cycles else best
                if spm_bytes <= SMALL * target.rates.spm_bytes:
                    small = own if small is None or estimate.cycles < small.estimate.cycles else small
        if best is not None:
            yield best
        if small is not None and small is not best:
            yield replace(small, name=f"{small.name}, smaller")


def runs_of_products(group: GroupOp, target: Target) -> list[list[FusionOp]]:
    """The fusions of a group in runs that may be groups of phases: those that cannot be one step on the mesh are alone."""
    fusions = _fusions(group)
    if len(fusions) == PAIR:
        return [fusions]
    runs: list[list[FusionOp]] = []
    known: dict[Hashable, bool] = {}
    is_open = False
    for fusion, own in zip(fusions, residences(group, fusions, target, DEPTHS[-1]), strict=True):
        key = fingerprint(fusion), own
        if key not in known:
            known[key] = bool(ways_of(fusion, "phase", replace(target, residence=own)))
        if known[key] and is_open:
            runs[-1].append(fusion)
        else:
            runs.append([fusion])
        is_open = known[key]
    return runs


def parts_of_products(group: GroupOp, target: Target) -> list[list[FusionOp]]:
    """The fusions of a group that is no faster than they are in two parts, of which one may be: those but the last one, if tiles do
    not have as many columns of that, or else halves; none if there are too few."""
    fusions = _fusions(group)
    is_even = has_even_columns(shape_of(fusions[-1].results[0]), target.rates)
    place = len(fusions) // 2 if is_even else len(fusions) - 1
    return [fusions[:place], fusions[place:]] if place >= PAIR else []


def residences(group: GroupOp, fusions: Sequence[FusionOp], target: Target, depth: int) -> list[Residence]:
    """What stays during each fusion: what one of them has made and it, or a later one, reads."""
    last = {value: number for number, fusion in enumerate(fusions) for value in fusion.operands}
    terminator = group.body.block.last_op
    given = set(terminator.operands if terminator is not None else ())
    found: list[Residence] = []
    made: dict[SSAValue, int] = {}
    for number, fusion in enumerate(fusions):
        made |= {value: last[value] for value in fusion.results if value in last}
        there = [value for value, until in made.items() if until >= number]
        operands = frozenset(i for i, value in enumerate(fusion.operands) if value in made and value not in fusion.results)
        keeps = all(value in last and value not in given for value in fusion.results)
        rows_bytes = target.rows_bytes if number == 0 else 0
        found.append(Residence(operands, keeps, sum(map(size_bytes, there)) // target.rates.tiles, depth, rows_bytes=rows_bytes))
    return found


def matched(fusion: FusionOp, name: str, target: Target) -> Match | None:
    """A fusion with a product as the matrix engine computes it; None if it is not one."""
    hero = next((hero for hero in heroes(fusion) if hero.kind == "gemm"), None)
    found = GemmEmitter().match(Fusion(fusion, name, hero, target)) if hero is not None else None
    return found if isinstance(found, Match) else None


def resident_ways(match: Match | None, residence: Residence | None) -> list[Candidate[Match]]:
    """The ways to compute a product beside what stays with the tiles, the best first; what it is was found without that."""
    if match is None:
        return []
    target = replace(match.fusion.target, residence=residence)
    return list(next(GemmEmitter().candidates(replace(match, fusion=replace(match.fusion, target=target))), ()))


def ways_of(fusion: FusionOp, name: str, target: Target) -> list[Candidate[Match]]:
    """The ways to compute a fusion with a product on the matrix engine, the best first; none if it is not one."""
    return resident_ways(matched(fusion, name, target), target.residence)


def _fusions(group: GroupOp) -> list[FusionOp]:
    return [op for op in group.body.block.ops if isinstance(op, FusionOp)]


def _inside(fusion: FusionOp) -> list[Operation]:
    """What a fusion computes."""
    return [op for op in fusion.body.block.ops if op is not fusion.body.block.last_op]
