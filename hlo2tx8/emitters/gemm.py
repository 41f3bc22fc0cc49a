"""Gemm emitter: loops over outputs as the loop emitter's, in which the matrix engine computes dots.

    func.func @gemm(%p0: tensor<1024x1024xbf16>, %p1: tensor<1024x1024xbf16>, %r0: ...) -> ... attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %0 = xla.loop (%tile)[%step, %lane0, %lane1, %lane2] -> (%i, %j) in #map lanes 3 iter_args(%t = %r0) -> (...) {
        %1 = scf.for ... { xla.dot lanes 256 init(%acc : f32) { the row's element } by { the column's element } }
        %2 = arith.truncf ...
        %3 = tensor.insert %2 into %t[%i, %j]
        ...

What the fusion computes of a dot's operands is part of the dot's regions, on the block that was loaded; what it makes of the
result is computed on the block of the result, before it is stored. Several dots of one fusion share rows, columns and batches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import chain, islice, product
from math import ceil, gcd, inf, prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.xla import MESH, STAYS
from hlo2tx8.dialects.xla_dot import PASSES, WindowLine
from hlo2tx8.emitters.choose_plan import NEAR
from hlo2tx8.emitters.dot_loop import DotLoop, block_counter, dot_loop, plain_loop
from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import LoopEmitter, Nest, emit_loops
from hlo2tx8.emitters.plan_kernel import Groups
from hlo2tx8.emitters.stays import parameter_of
from hlo2tx8.hlo import Kind, numpy_dtype
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.ir import i64_array
from hlo2tx8.partitioner.computation import PartitionedComputation, SubgraphFunction, partition
from hlo2tx8.partitioner.contraction import (
    EXACT_DEPTH,
    EXACT_PARTS,
    Contraction,
    added_dimensions,
    is_contraction,
    is_dot,
    why_not_on_engine,
)
from hlo2tx8.partitioner.instruction import kind_of, shape_of, tensor_type
from hlo2tx8.partitioner.made_from import MadeFrom, have_same_source, made_from
from hlo2tx8.partitioner.reduction_paths import loop_counters
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.contraction_estimate import sides_that_stay
from hlo2tx8.schedule.contraction_split import ABOUT, blockings, num_tiles, parts_of, split_part
from hlo2tx8.schedule.contraction_work import Blocking, ContractionPart, ContractionStep, ContractionWork, is_even
from hlo2tx8.schedule.costs import cycles_per_summed_element, is_at_once, is_by_vectors
from hlo2tx8.schedule.mesh_estimate import has_idle_tiles
from hlo2tx8.schedule.mesh_split import shared_blockings, split_on_mesh
from hlo2tx8.schedule.plan import Candidate, Estimate
from hlo2tx8.schedule.resident_split import resident_blockings, row_blockings
from hlo2tx8.schedule.transpose_tiles import split_tiles
from hlo2tx8.schedule.work_split import Target

NEITHER = (False, False)
"""Of rows and columns."""
SPM_SHARE = 0.95
"""What operands, sums and results of a step may take of the SPM; the rest is for what alignment and constants need."""
SEARCHED_SHARE = 1.5
"""The same where plans are searched for, which are measured: estimates are too high for some that tiles do not share."""
OPERAND_COPIES = 3
"""Copies of an operand in SPM: one that is loaded, one that is multiplied, and one on the way between them."""
PARTED_COPIES = 8
"""The same of f32 that is multiplied in parts."""
LEAST_PARTS = 8
"""In which an epilogue goes over a result, as far as it is estimated; two of what is read or written are kept at once."""
MOST_SHARED = 4
"""Products of different rows, whose columns are made of the same bytes, that tiles share what they read for."""
MOST_AT_ONCE = 3
"""Ways to make two parts at the same time that are worth lowering."""
SHARED_NEAR = 1.25
"""What a convolution is estimated to take if tiles do not share, times what it takes if they do, below which both are timed: of 150
convolutions one was faster otherwise."""
MOST_ALIVE = 4
"""Vectors of an epilogue that are alive at once, as far as it is estimated."""


@dataclass(frozen=True)
class GemmMatch(Match):
    """A fusion with dots: `loops` has the functions that compute them, and `chosen` how each of their
    parts is cut into steps; `works`: what steps cost, of functions as they are, or as plain loops."""

    partitioned: PartitionedComputation
    accesses: AccessAnalysis
    loops: dict[SubgraphFunction, DotLoop]
    chosen: "tuple[tuple[_PartOfLoop, Blocking], ...]" = ()
    works: "dict[tuple[SubgraphFunction, bool], _WorkAlone]" = field(
        default_factory=dict[tuple[SubgraphFunction, bool], "_WorkAlone"], compare=False
    )


@dataclass(frozen=True)
class _PartOfLoop:
    """A part of a function's loop, what its steps cost, and the ways to cut it into steps, the best first. `tail`: a part that is
    computed in the same steps, from the same rows."""

    function: SubgraphFunction
    loop: DotLoop
    part: ContractionPart
    work: ContractionWork
    blockings: Sequence[Blocking]
    tail: ContractionPart | None = None

    def nests(self, blocking: Blocking, rates: Rates) -> list[Nest]:
        """The loop over the part in such steps, and that over its tail."""
        to_output = self.loop.space.to_output
        split = split_on_mesh if blocking.is_shared else split_part
        part = replace(self.part, inner=blocking.box[-1])
        steps = [split(part, blocking, to_output, self.work, rates)]
        if self.tail is not None:
            steps.append(split_on_mesh(part, blocking, to_output, self.work, rates, self.tail))
        ops = self.loop.rows.items()
        return [(step.split, {op: _contraction(op, rows, step, self.loop) for op, rows in ops}) for step in steps]


@dataclass(frozen=True)
class GemmEmitter:
    """Takes fusions all of whose dots the matrix engine can compute, at one place each."""

    name = "gemm"

    def match(self, fusion: Fusion) -> Match | Declined:
        dots = [op for op in fusion.body.ops if op is not fusion.body.last_op and is_contraction(op)]
        if not dots:
            return Declined("there is no dot")
        reasons = [why for op in dots if (why := why_not_on_engine(op))]
        if reasons:
            return Declined(", ".join(dict.fromkeys(reasons)))
        taken = LoopEmitter().match(fusion)
        if isinstance(taken, Declined):
            return taken
        partitioned = partition(fusion.body)
        accesses = AccessAnalysis(partitioned, fusion.target)
        loops: dict[SubgraphFunction, DotLoop] = {}
        for function in partitioned.functions:
            own = [op for op in function.instructions if is_contraction(op)]
            found = dot_loop(function, own, accesses) if own else ""
            if isinstance(found, DotLoop):
                loops[function] = found
            elif found:
                return Declined(found)
        return GemmMatch(fusion, partitioned, accesses, loops)

    def candidates(self, match: Match) -> Groups:
        """By their blocks; those of a convolution's windows come before those that read an element once per window."""
        assert isinstance(match, GemmMatch)
        parts = _parts(match, match.loops)
        if all(own.blockings for own in parts):
            others = _parts(match, match.loops, is_other=True)
            others = others if all(own.blockings for own in others) else []
            ways = [own for own in (parts, others, _with_tail(match, parts), _with_tail(match, others)) if own]
            best = min(ways, key=lambda way: sum(own.blockings[0].cycles for own in way))
            found = {id(way): _candidates(match, way, is_rough=bool(others)) for way in ways}
            at_once = chain(_at_once(match, parts), _at_once(match, others))
            ordered = sorted(ways, key=lambda way: way[0].tail is None)
            yield chain(islice(found[id(best)], 1), at_once, *(found[id(way)] for way in ordered))
        plain = {f: plain_loop(f, next(iter(loop.rows)), match.accesses) if loop.lines else loop for f, loop in match.loops.items()}
        if any(loop.lines for loop in match.loops.values()) and match.fusion.target.residence is None:
            yield _candidates(match, _parts(match, plain))

    def emit(self, match: Match) -> ModuleOp:
        assert isinstance(match, GemmMatch)

        def nests(function: SubgraphFunction) -> Sequence[Nest]:
            chosen = [(part, blocking) for part, blocking in match.chosen if part.function is function]
            own = [nest for part, blocking in chosen for nest in part.nests(blocking, match.fusion.target.rates)]
            return own or [(split_tiles(function, match.accesses), {})]

        module = emit_loops(match.fusion, match.partitioned, match.accesses, nests)
        if any(blocking.stays for _, blocking in match.chosen):
            stays = match.fusion.target.stays
            module.attributes[STAYS] = i64_array([stays.turns, *sorted(stays.operands)])
        if any(blocking.is_shared for _, blocking in match.chosen):
            rates = match.fusion.target.rates
            entry = next(op for op in module.body.block.ops if "xla.entry" in op.attributes)
            entry.attributes[MESH] = i64_array([rates.mesh_rows, rates.mesh_columns])
        return module


def _parts(match: GemmMatch, loops: Mapping[SubgraphFunction, DotLoop], *, is_other: bool = False) -> list[_PartOfLoop]:
    """The parts of all loops with dots; `is_other`: cut the other way, none if that is no good."""
    target, found = match.fusion.target, list[_PartOfLoop]()
    spm_bytes = int(target.rates.spm_bytes * SPM_SHARE)
    for function, loop in loops.items():
        work = _work(match, function, loop)
        may_cut = function.is_entry_root and len(match.partitioned.functions) == 1 and not (is_other and loop.is_per_channel)
        parts = parts_of(loop.space, loop.roles, work.operand_bytes, may_cut=may_cut, is_other=is_other)
        is_shareable = _is_shareable(loop, match.partitioned, target)
        for part in parts:
            if target.residence is not None:
                blocked, room = resident_blockings, spm_bytes
                if target.residence.is_by_rows:
                    blocked, room = row_blockings, target.rates.spm_bytes
                ways = blocked(part, work, target.rates, room, target.residence) if is_shareable else []
                found.append(_PartOfLoop(function, loop, part, work, ways))
                continue
            ways = blockings(part, replace(work, may_stay=NEITHER), target.rates, spm_bytes, target.step_elements)
            if any(work.may_stay):
                ways = [*_staying(part, work, target.rates), *ways]
            if is_shareable:
                shared = shared_blockings(part, work, target.rates, spm_bytes)
                ways = [*(way for way in shared if not ways or way.cycles < ABOUT * ways[0].cycles), *ways]
            if target.is_searched:
                room = int(target.rates.spm_bytes * SEARCHED_SHARE)
                ways += blockings(part, work, target.rates, room, target.step_elements)
                if is_shareable:
                    ways += shared_blockings(part, work, target.rates, target.rates.spm_bytes, is_searched=True)
            found.append(_PartOfLoop(function, loop, part, work, ways))
    return found


def _staying(part: ContractionPart, work: ContractionWork, rates: Rates) -> list[Blocking]:
    """The ways in which a part leaves in the scratchpads what may stay there from one turn of a loop around to the next."""
    found = blockings(part, work, rates, int(rates.spm_bytes * SPM_SHARE), 0)
    return [replace(way, stays=True) for way in found if any(sides_that_stay(part, way.box, way.depth, work, rates))]


def _with_tail(match: GemmMatch, parts: Sequence[_PartOfLoop]) -> list[_PartOfLoop]:
    """Whole blocks of columns and those that are left as one part; none if tiles cannot share what both read, or lose by more than
    estimates are good for: those of parts by themselves are up to 1.5 times too low where rows are no whole lines of memory. Tiles
    of a mesh row have as many filters of a convolution anyway."""
    target = match.fusion.target
    if len({part.function for part in parts}) > 1 or any(own.loop.lines for own in parts):
        return []
    if len(parts) != 2 or len(parts[0].loop.rows) > 1 or not _is_shareable(parts[0].loop, match.partitioned, target):
        return []
    (main, tail), spm_bytes = parts, int(target.rates.spm_bytes * SPM_SHARE)
    apart = main.blockings[0].cycles + tail.blockings[0].cycles
    ways = [way for way in shared_blockings(main.part, main.work, target.rates, spm_bytes, tail.part) if way.cycles < NEAR * apart]
    if target.is_searched:
        ways += shared_blockings(main.part, main.work, target.rates, target.rates.spm_bytes, tail.part, is_searched=True)
    return [replace(main, blockings=ways, tail=tail.part)] if ways else []


def _at_once(match: GemmMatch, parts: Sequence[_PartOfLoop]) -> Iterator[Candidate[Match]]:
    """The best ways in which some tiles make whole blocks of columns, and others what is left at the same time."""
    if len(parts) != 2 or match.fusion.target.residence is not None:
        return
    rates = match.fusion.target.rates
    ways = [[way for way in own.blockings if not (way.is_shared or way.stays)] for own in parts]
    tiles = [[num_tiles(own.part, way, own.work, rates) for way in each] for own, each in zip(parts, ways, strict=True)]
    numbers = product(*(range(len(each)) for each in ways))
    found = [(ways[0][i], ways[1][k]) for i, k in numbers if tiles[0][i] + tiles[1][k] <= rates.tiles]
    best = {(main.box, tail.box): (main, tail) for main, tail in sorted(found, key=_cycles_at_once, reverse=True)}
    for main, tail in nsmallest(MOST_AT_ONCE, best.values(), key=_cycles_at_once):
        yield _candidate(match, parts, [main, replace(tail, is_from_last=True)], is_rough=True)


def _cycles_at_once(ways: Sequence[Blocking]) -> float:
    """Cycles of parts that are made at the same time."""
    return max(*(way.cycles for way in ways), sum(way.streamed for way in ways))


def _is_shareable(loop: DotLoop, partitioned: PartitionedComputation, target: Target) -> bool:
    """May tiles share what the loop's dots read, which have the same rows?"""
    is_parted = max(map(num_parts, loop.rows)) > 1
    share = _have_same_rows(loop, partitioned) or (_are_of_same_bytes(loop) and len(loop.rows) <= MOST_SHARED)
    return not target.step_elements and share and (not is_parted or len(loop.rows) == 1)


def _candidates(match: GemmMatch, parts: Sequence[_PartOfLoop], *, is_rough: bool = False) -> Iterator[Candidate[Match]]:
    """All parts at their best; then, of the part whose buffers take most, the next best, and so on. Where the fastest is searched
    for, then each way of a part with the best of the others. `is_rough`: there are other ways to cut parts."""
    position = [0] * len(parts)
    while parts:
        chosen = [own.blockings[at] for own, at in zip(parts, position, strict=True)]
        yield _candidate(match, parts, chosen, is_rough=is_rough)
        left = [i for i, own in enumerate(parts) if position[i] + 1 < len(own.blockings)]
        if not left:
            break
        position[max(left, key=lambda i: (chosen[i].is_shared, chosen[i].spm_bytes))] += 1  # what tiles share may not be alike
    if match.fusion.target.is_searched and len(parts) > 1:
        best = [own.blockings[0] for own in parts]
        for number, own in enumerate(parts):
            for way in own.blockings[1:]:
                yield _candidate(match, parts, [*best[:number], way, *best[number + 1 :]], is_rough=is_rough)


def _candidate(match: GemmMatch, parts: Sequence[_PartOfLoop], chosen: Sequence[Blocking], *, is_rough: bool) -> Candidate[Match]:
    is_plain = any(match.loops[own.function].lines and not own.loop.lines for own in parts)
    more = " with the tail" * any(own.tail for own in parts) + ", element by element" * is_plain
    name = " and ".join(map(str, chosen)) + more
    together = any(way.is_from_last for way in chosen)
    cycles = _cycles_at_once(chosen) if together else sum(way.cycles for way in chosen)
    estimate = Estimate(cycles, max(way.spm_bytes for way in chosen))
    is_rough |= any(way.stays for way in chosen)
    is_rough |= any(way.is_shared for way in chosen) and (len(parts) > 1 or any(own.tail for own in parts))
    is_rough |= any(_is_estimated_roughly(own, way, match.fusion.target) for own, way in zip(parts, chosen, strict=True))
    family = more or (" at once" if together else " and".join([""] * len(parts)))
    return Candidate(name, estimate, replace(match, chosen=tuple(zip(parts, chosen, strict=True))), family, is_rough)


def _is_estimated_roughly(own: _PartOfLoop, way: Blocking, target: Target) -> bool:
    """Have some tiles less to do than others, or steps fewer rows with windows, or does what a convolution takes depend on whether
    tiles share? Then an estimate is not worth as much."""
    if own.loop.lines and not own.loop.is_backward and not is_even(own.part, way.box):
        return True
    apart = [other.cycles for other in own.blockings if not other.is_shared]
    if own.loop.lines and way.is_shared and min(apart, default=inf) < SHARED_NEAR * way.cycles:
        return True
    return way.is_shared and has_idle_tiles(own.part, target.rates, way.box)


def _contraction(op: Operation, rows: int, step: ContractionStep, loop: DotLoop) -> Contraction:
    """The counter with most turns goes by blocks, those of windows all at once."""
    counters = loop_counters(op)
    taps = tuple(line.counter for line in loop.lines)
    block = block_counter(op, loop)
    loops = tuple(i for i in range(len(counters)) if i != block and i not in taps)
    extent = counters[block].hi + 1
    windows = tuple(WindowLine(step.lane_of[line.row], i, line.stride, line.dilation) for i, line in enumerate(loop.lines))
    parts = num_parts(op)
    lanes = min(step.depth, extent, EXACT_DEPTH if parts == EXACT_PARTS else extent)
    if loop.is_backward:
        lanes = 1
    return Contraction(rows, loops, block, extent, lanes, taps, windows, loop.is_per_channel, loop.is_backward, parts)


def _have_same_rows(loop: DotLoop, partitioned: PartitionedComputation) -> bool:
    """Are all dots of a loop products of the same elements?"""
    read = [(op.operands[rows], partitioned.operand_places[op, rows][0]) for op, rows in loop.rows.items()]
    return all(own == read[0] for own in read)


def _are_of_same_bytes(loop: DotLoop) -> bool:
    """Are the columns of all dots of a loop made of the same bytes?"""
    first, *others = loop.rows
    return all(have_same_source(first, other, 1 - loop.rows[first]) for other in others)


@dataclass(frozen=True)
class _WorkAlone:
    """What a step costs if nothing stays, and the bytes of an element of results and of what is `read` around products."""

    work: ContractionWork
    results: int
    read: Mapping[SSAValue, int]


def _work(match: GemmMatch, function: SubgraphFunction, loop: DotLoop) -> ContractionWork:
    """What a step of the function's loop costs beside what stays; all but that is worked out once."""
    target, key = match.fusion.target, (function, loop is match.loops.get(function))
    if key not in match.works:
        match.works[key] = _work_alone(function, loop, match.partitioned, target)
    known = match.works[key]
    if target.residence is None:
        return known.work
    stays = [v for v in known.read if isinstance(v, BlockArgument) and v.index in target.residence.operands]
    dot, rows = next(iter(loop.rows.items()))
    kept = known.results * target.residence.keeps_result + sum(known.read[value] for value in stays)
    rows_stay = parameter_of(dot.operands[rows]) in target.residence.operands
    has_rows = target.residence.rows_bytes > 0
    return replace(known.work, moved_bytes=known.work.moved_bytes - kept, rows_stay=rows_stay, has_rows=has_rows)


def _work_alone(function: SubgraphFunction, loop: DotLoop, partitioned: PartitionedComputation, target: Target) -> _WorkAlone:
    dots, rates = list(loop.rows), target.rates
    operand = _width_bytes(tensor_type(dots[0].operands[0]).element_type)
    results = sum(_width_bytes(tensor_type(root).element_type) for root in function.roots)
    size = prod(shape_of(function.roots[0]))
    made = [[made_from(value) for value in dot.operands] for dot in dots]
    of_operands = {op for own in made for each in own for op in (*each.steps, *each.others)}
    arithmetic = [op for op in function.instructions if kind_of(op) is Kind.ELEMENTWISE and op not in of_operands]
    around = [op for op in arithmetic if prod(shape_of(op.results[0])) == size]
    read = {value: _width_bytes(tensor_type(value).element_type) for op in around for value in op.operands}
    beside = sum(width for value, width in read.items() if isinstance(value, BlockArgument))
    widest = max([4, *read.values()])
    alive = widest * min(len(around), MOST_ALIVE)
    kept = 4 * len(dots) + 2 * results + 2 * beside + alive
    passes = len(PASSES[max(map(num_parts, dots))])
    products = max(1, (rates.int8_products if operand == 1 else rates.products) // (passes * len(dots)))
    depth = max(loop_counters(op)[block_counter(op, loop)].hi + 1 for op in dots)
    loops = prod(counter.hi + 1 for counter in loop_counters(dots[0])) // (depth * prod(line.taps for line in loop.lines))
    rows = loop.rows[dots[0]]
    have_same_rows, are_of_same_bytes = _have_same_rows(loop, partitioned), len(dots) > 1 and _are_of_same_bytes(loop)
    sharing = len(dots) if have_same_rows or are_of_same_bytes else 1
    copies = (OPERAND_COPIES if passes == 1 else PARTED_COPIES) * len(dots) // sharing
    passed = sum(cycles_per_summed_element(op, rates) for op in around)
    forms = loop.is_per_channel, loop.is_backward
    is_cut = all(is_by_vectors(op) or is_at_once(op) for op in around)
    kept_once = kept - results
    if is_cut:
        of_parts = 2 * (results + beside) + alive if around else 0
        of_result = sum(_width_bytes(tensor_type(op.results[0]).element_type) for op in dots)
        kept_once = 4 * len(dots) + of_result + ceil(of_parts / LEAST_PARTS)
    parts = max(map(num_parts, dots))
    more = loop.keeps_weights, sharing, parts, parts == EXACT_PARTS
    epilogue = len(around), passed, target.meeting, kept_once, is_cut and parts == 1
    sides = made[0][rows], made[0][1 - rows]
    in_memory = [_width_bytes(tensor_type(own.source).element_type) for own in sides]
    read_bytes, made_passes = (in_memory[0], in_memory[1]) if of_operands else None, (sides[0].passes, sides[1].passes)
    given = depth, operand, kept, results + beside, products, copies, loop.lines
    work = ContractionWork(*given, *forms, *epilogue, *more, loops=loops, read_bytes=read_bytes)
    work = replace(work, row_operands=1 if have_same_rows else sharing, are_of_same_bytes=are_of_same_bytes)
    if target.stays.operands and is_dot(dots[0]) and loops == 1 and parts != EXACT_PARTS:
        places = rows, 1 - rows
        may_stay = [all(parameter_of(dot.operands[place]) in target.stays.operands for dot in dots) for place in places]
        kept_bytes, turns_around = target.stays.kept_bytes, target.stays.turns
        work = replace(work, may_stay=(may_stay[0], may_stay[1]), stay_bytes=kept_bytes, turns_around=turns_around)
    return _WorkAlone(replace(work, made_passes=made_passes, run=_run(dots[0], made[0])), results, read)


def _run(dot: Operation, made: Sequence[MadeFrom]) -> int:
    """So many products that follow each other are of what groups have the same factors for, 0 if there are no groups."""
    if not is_dot(dot):
        return 0
    return gcd(*(own.run(dim) or 0 for own, dims in zip(made, added_dimensions(dot), strict=True) for dim in dims))


def _width_bytes(element: Attribute) -> int:
    return numpy_dtype(element).itemsize
