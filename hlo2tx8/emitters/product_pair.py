"""Group emitter: two products as one kernel, the second of rows that the first makes, which stay in the scratchpads.

    %h = gelu(%x %a), %y = %h %b

    func.func @group(%p0, %p1, %p2, %r0) attributes {xla.entry, xla.mesh = [4, 4]} {
      %s0 = xla.allocate_scratch : tensor<2048x4096xf32>
      %0 = xla.loop (%tile)[%step, ...] ... iter_args(%s0) { gelu of the dot of %p0 and %p1 }
      %1 = xla.sync_tiles %0
      %2 = xla.loop (%tile)[%step, ...] ... iter_args(%r0) { the dot of %1 and %p2 }
    }

Both follow the mesh, see `schedule.mesh_split`, and tiles of a mesh row have the same rows in both: what one of them makes in the
first loop, only tiles of its mesh row read in the second. `share-loads` keeps it where it was made.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.emitters.choose_plan import Chooser, FirstThatFits
from hlo2tx8.emitters.emitter import Fusion
from hlo2tx8.emitters.gemm import SPM_SHARE, GemmEmitter, GemmMatch, PartOfLoop, parts_of_match
from hlo2tx8.emitters.hero import heroes
from hlo2tx8.emitters.join_phases import join_phases
from hlo2tx8.errors import CapacityError
from hlo2tx8.fusion.build_group import SEARCHED_SLACK
from hlo2tx8.schedule.contraction_split import BLOCK, Blocking, sides_of
from hlo2tx8.schedule.costs import Costs, size_bytes
from hlo2tx8.schedule.mesh_estimate import box_counts, is_even
from hlo2tx8.schedule.mesh_split import LEAST_SLOTS, shared_blockings
from hlo2tx8.schedule.plan import Candidate, Estimate
from hlo2tx8.schedule.work_split import Target

Pair = tuple[Blocking, Blocking]


def emit_product_pair(
    group: GroupOp, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of a pair of products.

    `notes` gets a line per plan; `chooser` says which of them is taken. CapacityError if the tiles of a mesh row cannot have the
    same rows in both, nothing fits the scratchpad, or two kernels are estimated to be faster.
    """
    notes = [] if notes is None else notes
    fusions = [op for op in group.body.block.ops if isinstance(op, FusionOp)]
    matches: list[GemmMatch] = []
    parts: list[PartOfLoop] = []
    for number, op in enumerate(fusions):
        match = GemmEmitter().match(Fusion(op, f"{name}_{number}", heroes(op)[0], target))
        if isinstance(match, GemmMatch):
            matches.append(match)
            parts += parts_of_match(match, match.loops)
    if len(parts) != len(fusions) or not all(part.blockings and part.is_shareable and part.work.parts == 1 for part in parts):
        raise CapacityError("E3101", f"the products of group {name} are no two loops of whole blocks that tiles can share")
    candidates = sorted(_candidates(fusions, parts, target), key=lambda own: own.estimate.cycles)
    apart = sum(part.blockings[0].cycles for part in parts) + target.rates.kernel
    faster = [own for own in candidates if own.estimate.cycles < apart * (SEARCHED_SLACK if target.is_searched else 1.0)]
    if not faster:
        best = f"{candidates[0].estimate}" if candidates else "no blocks of both have the same rows and fit the scratchpad"
        raise CapacityError("E3101", f"the products of group {name} are {apart:,.0f} cycles apart, together {best}")

    def emit(pair: Pair) -> ModuleOp:
        chosen = zip(matches, parts, pair, strict=True)
        kernels = [GemmEmitter().emit(replace(match, chosen=((part, blocking),))) for match, part, blocking in chosen]
        return join_phases(group, name, fusions, kernels)

    schedule, kernel = (chooser or FirstThatFits()).choose([faster], target.rates.spm_bytes, emit)
    notes += schedule.explain(name)
    if kernel is None:
        raise CapacityError("E3101", f"no blocks of group {name} fit the scratchpad", hint="take its fusions apart")
    notes.append(f"{name}: group emitter, {len(fusions)} products")
    return kernel


def _candidates(fusions: list[FusionOp], parts: list[PartOfLoop], target: Target) -> Iterator[Candidate[Pair]]:
    """Blockings of both products, whose panels of rows a tile of the mesh row has in one block of what it made."""
    (first, second), rates, (made,) = parts, target.rates, fusions[0].results
    kept = -(-size_bytes(made) // rates.tiles)
    room = int(rates.spm_bytes * SPM_SHARE) - kept
    width = Costs(rates).width(made)
    before = replace(first.work, moved_bytes=first.work.moved_bytes - width)
    makers = _with_all_rows(first, shared_blockings(first.part, before, rates, room, is_searched=True), target)
    for columns in dict.fromkeys(sides_of(first.part, maker.box)[1] for maker in makers):
        after = replace(second.work, kept_run=columns)
        readers = _with_all_rows(second, shared_blockings(second.part, after, rates, room, is_searched=True), target)
        for maker in (own for own in makers if sides_of(first.part, own.box)[1] == columns):
            for reader in readers:
                is_alike = sides_of(second.part, reader.box)[0] == sides_of(first.part, maker.box)[0]
                if is_alike and _is_cut_alike(columns, second.work.depth, reader, rates):
                    estimate = Estimate(maker.cycles + reader.cycles, kept + max(maker.spm_bytes, reader.spm_bytes))
                    yield Candidate(f"{maker}, then {reader}", estimate, (maker, reader))


def _is_cut_alike(columns: int, depth: int, reader: Blocking, rates: Rates) -> bool:
    """Is a panel a part of the columns that a tile makes in a step, or some such parts of tiles one behind the other? And are there
    panels for a loop, all of them as deep?"""
    if reader.depth % BLOCK or depth % reader.depth or depth // reader.depth < LEAST_SLOTS:
        return False
    parts = reader.depth // columns
    return columns % reader.depth == 0 if parts <= 1 else reader.depth % columns == rates.mesh_columns % parts == 0


def _with_all_rows(own: PartOfLoop, ways: list[Blocking], target: Target) -> list[Blocking]:
    """Those that go over all rows in each step, and whose steps are all as large."""
    rows = [dim for dim, role in enumerate(own.part.roles) if role == "row"]
    if "batch" in own.part.roles:
        return []
    counts = {way: box_counts(own.part, way.box) for way in ways if is_even(own.part, way.box)}
    return [way for way in counts if prod(counts[way][dim] for dim in rows) == target.rates.mesh_rows]
