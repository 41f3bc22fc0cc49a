"""What is decided about a step loop whose tiles share loads, before it is rewritten: see share_loads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from math import prod

from xdsl.dialects import func, scf
from xdsl.ir import SSAValue

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa import BufferType
from hlo2tx8.device.mesh_sends import is_sent_in_halves
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import spm
from hlo2tx8.lower.dma.allocate_spm import SpmSpace, live_ranges, place
from hlo2tx8.lower.dma.column_sets import Columns, columns_of, stored_sums
from hlo2tx8.lower.dma.done_beside import Beside, done_beside
from hlo2tx8.lower.dma.halves import Halves
from hlo2tx8.lower.dma.keep_results import ResultBuffer
from hlo2tx8.lower.dma.mesh import Along
from hlo2tx8.lower.dma.panels import Load, Panels, PanelSide
from hlo2tx8.lower.dma.slices import buffers_of, instructions_in
from hlo2tx8.lower.dma.split_halves import SplitHalves, split_halves

LEAST_SLOTS = 3
MOST_SLOTS = 32
LOADED_SLOTS = 2
SPLIT_SLOTS = 4
"""Of loads that are split, and of what is made of them: the engines have other things to wait for than free slots."""
GAPS = 32
"""The part of a scratchpad that lies between buffers of many loops."""
PartKey = tuple[PanelSide, int, int]
"""What is the same for buffers that panels use in turns."""


@dataclass(frozen=True)
class LoopPlan:
    """How a step loop is rewritten: the `sets` of columns at its end, slots per side, who has the rows, if tiles do. `is_early`:
    its first panels of columns are loaded during the loop before it. `is_at_once`: all panels are sent in front of the loop.
    `hands_over`: what follows the last products is done during turns of these loops, which come next, without a meeting.
    `in_place`: there is room for the result only where it is added up."""

    panels: Panels
    sets: tuple[Columns, ...]
    slots: dict[PanelSide, int]
    owner: ResultBuffer | None
    is_early: bool = False
    is_at_once: bool = False
    hands_over: tuple[Beside, ...] = ()
    in_place: bool = False

    @property
    def is_shared(self) -> bool:
        """Can tiles share what they load?"""
        steps, num_panels = self.panels.num_steps, self.panels.num_panels
        least = LEAST_SLOTS if steps > 1 else min(LEAST_SLOTS, num_panels)
        return steps * num_panels > 1 and min(self.slots.values()) >= least


def loop_plans(
    panels: Sequence[Panels],
    kept: Sequence[ResultBuffer],
    chip: Chip,
    *,
    in_turns: bool = False,
    early_weights: Mapping[scf.ForOp, int] | None = None,
    taken_in: Callable[[Panels], int] = lambda panels: 0,
) -> list[LoopPlan]:
    """The plans of step loops, in order. Some of what is loaded is `kept` by tiles; what comes early takes room before. Loops that
    go over parts of phases `in_turns` do not read what those just before them make, or what those before these do. So many bytes
    are `taken_in` a loop by what its instructions don't name, and by `early_weights` of the loop behind it."""
    space = SpmSpace(chip.spm_allocation_start, chip.spm_limit, chip.spm_alignment_bytes)
    plans: list[LoopPlan] = []
    early_bytes = 0
    reads = [_reads(own, kept) for own in panels]
    behind = [(panels[number:], reads[number:]) for number in range(len(panels))]
    found = [done_beside(*own, kept) if in_turns else (columns_of(own[0][0]), ()) for own in behind]
    all_sets, after = [sets for sets, _ in found], [others for _, others in found]
    for own, sets, others in zip(panels[::-1], all_sets[::-1], after[::-1], strict=True):
        is_later = bool(others) and own.num_steps == 1  # then the loop itself has no parts
        saved = sum(columns.saved_bytes(space, is_later=is_later) for columns in sets)
        handed = [columns for columns, there in zip(all_sets, after, strict=True) if any(own is its.panels for its in there)]
        saved -= sum(columns.epilogue.kept_bytes(columns.num_parts, space) for its in handed for columns in its)
        saved -= sum(space.aligned(result.kept.size_bytes) for result in kept if result.takes_room_in(own.loop))
        saved -= taken_in(own) + (early_weights or {}).get(own.loop, 0)
        gaps = (space.limit - space.start) // GAPS if in_turns else 0
        num_slots = partial(_num_slots, own, space, split_halves(own, Rates.of(chip)))
        slots, roomy = num_slots(saved), num_slots(saved - early_bytes - gaps)
        if in_turns and min(slots.values()) > LEAST_SLOTS:
            with_gaps = num_slots(saved - gaps)
            slots = with_gaps if min(with_gaps.values()) >= LEAST_SLOTS else dict.fromkeys(slots, LEAST_SLOTS)
        in_place = {} if kept or min(slots.values()) >= LEAST_SLOTS else stored_sums(own, sets)
        if in_place:
            more = num_slots(saved + sum(space.aligned(result.size_bytes) for result in in_place.values()))
            if groups_of(own):  # what stays has no tokens, and those of the other side do not wait for all sets
                more = {side: min(number, own.num_panels - 1) for side, number in more.items()}
            slots, in_place = (more, in_place) if min(more.values()) >= LEAST_SLOTS else (slots, {})
        resident = _resident(own, slots)
        if early_bytes and min(roomy.values()) > min(LEAST_SLOTS, own.num_panels) and _resident(own, roomy) == resident:
            slots, plans[-1] = roomy, replace(plans[-1], is_early=True)
        if kept and (own.num_steps == 1 or own.rows_slot is None):
            slots = {side: min(number, SPLIT_SLOTS) for side, number in slots.items()}
        owner = next((result for result in kept if result.kept.slot is own.rows_slot), None)
        is_at_once = (
            not in_turns
            and owner is not None
            and min(slots.values()) >= own.num_panels * own.num_steps  # each panel has a slot of its own
            and _is_sent_at_once(own, owner, chip)
        )
        plans.append(
            LoopPlan(own, sets, slots, owner, is_at_once=is_at_once, hands_over=others if sets else (), in_place=bool(in_place))
        )
        columns = [side for side in own.sides if side.along is Along.COLUMN]
        sizes = [space.aligned(max(site.loads[side].size_bytes for site in own.kinds)) * slots[side] for side in columns]
        early_bytes = sum(sizes) if plans[-1].owner is not None else 0
    return plans[::-1]


def _reads(panels: Panels, kept: Sequence[ResultBuffer]) -> set[SSAValue]:
    """What a loop reads the rows of its products of: what is loaded, or what tiles have made."""
    own = {result.kept.slot for result in kept if panels.loop in result.readers and not result.takes_room_in(panels.loop)}
    return own | ({panels.rows_slot} if isinstance(panels.rows_slot, SSAValue) else set())


def _is_sent_at_once(panels: Panels, owner: ResultBuffer, chip: Chip) -> bool:
    """Do panels that one tile each has take longer to be sent, and their tiles to meet, than to be multiplied? Then links have more
    to do at once if all tiles send all that they have."""
    site, c = panels.sites[0], chip.cycles
    op = site.loads[PanelSide.ROWS].op
    products = c.ne_arrays * c.ne_tile_rows * c.ne_tile_columns * c.ne_tile_depth
    sizes = ([gemm.field(name) for name in ("rows", "columns", "depth")] for gemm in site.gemms)
    multiplied = sum(prod([size for size in own if isinstance(size, int)]) for own in sizes) / products
    return owner.num_parts(op) == 1 and multiplied < owner.part_bytes(op) / Rates.of(chip).link + c.barrier


def _num_slots(panels: Panels, space: SpmSpace, halves: Mapping[Load, SplitHalves], saved_bytes: int) -> dict[PanelSide, int]:
    """How many panels of each side fit beside the other buffers of the loop, which will take so much less: as many of all, or all
    that some steps have in common and at least as many of the other sides as are under way at once. Of some loads tiles split
    `halves`."""
    loads = [load for site in panels.sites for load in site.loads.values()]
    own = {alloc for load in loads for alloc in (load.alloc, *load.moved)}
    roots = [spm.root_buffer(o) for op in instructions_in(panels.loop) for o in op.operands if isinstance(o.type, BufferType)]
    others = [root.owner for root in dict.fromkeys(roots)]
    allocs = [o for o in others if isinstance(o, spm.AllocOp) and o not in own]
    if any(map(panels.is_split, panels.sides)):  # their buffers do not live all the time
        gone = {alloc for load in loads for alloc in temporaries_of(load)}
        taken = _room(panels.loop, [o for o in allocs if o not in gone], space)
        taken += sum(map(space.aligned, temporary_sizes(panels, halves)))
    else:
        taken = sum(space.aligned(o.size_bytes) * o.num_copies for o in allocs)
    left = space.limit - space.start - taken + saved_bytes
    sizes = {side: space.aligned(max(site.loads[side].size_bytes for site in panels.kinds)) for side in panels.sides}
    moved = {key: space.aligned(size) for key, size in moved_sizes(panels).items()}
    apart = sum(size for side, size in sizes.items() if panels.is_split(side))
    left -= LOADED_SLOTS * sum(space.aligned(loaded_bytes(panels, side, halves)) for side in sizes if panels.is_split(side))
    panel = sum(sizes.values()) - apart + sum(moved.values())
    for group in groups_of(panels):
        size = sum(sizes[side] for side in group)
        beside = left - size * panels.num_panels
        if panel > size:
            slots = min(MOST_SLOTS, beside // (panel - size))
        else:  # all other panels are split, and have room
            slots = SPLIT_SLOTS if beside >= 0 else 0
        if panels.num_panels >= LEAST_SLOTS and slots >= LEAST_SLOTS:
            return {own: panels.num_panels if own in group else slots for own in panels.sides}
    return dict.fromkeys(panels.sides, min(SPLIT_SLOTS if apart else MOST_SLOTS, left // panel))


def _resident(panels: Panels, slots: dict[PanelSide, int]) -> list[PanelSide]:
    """What several steps have in common and stays for them if there are so many slots."""
    return [side for group in groups_of(panels) for side in group if slots[side] == panels.num_panels]


def _room(loop: scf.ForOp, allocs: list[spm.AllocOp], space: SpmSpace) -> int:
    """Bytes that some buffers of a loop take if those that do not live at the same time share their places."""
    function = loop.parent_op()
    assert isinstance(function, func.FuncOp)
    addresses = place(allocs, live_ranges(function), space)
    return max(addresses[o.result] + space.aligned(o.size_bytes) * o.num_copies for o in allocs) - space.start


def key_of(load: Load, alloc: spm.AllocOp) -> PartKey:
    """The side, the buffer's number of those made of the load, and its size, 0 of a part: those of all panels are in the same
    places."""
    return load.side, load.moved.index(alloc), 0 if load.split else alloc.size_bytes


def moved_sizes(panels: Panels) -> dict[PartKey, int]:
    """Bytes of the buffers of what is made of loads, of which each slot has one."""
    found: dict[PartKey, int] = {}
    for load in (load for site in panels.sites for load in site.loads.values()):
        for alloc in load.moved:
            key = key_of(load, alloc)
            found[key] = max(found.get(key, 0), alloc.size_bytes)
    return found


def groups_of(panels: Panels) -> list[list[PanelSide]]:
    """The rows, and the columns of all products, if several steps in a row have them in common; not if they are split."""
    sides = [side for side in panels.sides if side is not PanelSide.TAIL]
    if any(map(panels.is_split, sides)):
        return []
    groups = [[side for side in sides if side.along is along] for along in Along]
    return [group for group in groups if group and all(panels.steps_alike[side] > 1 for side in group)]


def halves_of(plan: LoopPlan, resident: Sequence[PanelSide], rates: Rates) -> dict[Load, Halves]:
    """The halves of all loads, if it is sooner that two tiles of a line send one each; {} if not. An `owner` sends all it has."""
    panels, owner = plan.panels, plan.owner
    loads = [load for site in panels.sites for load in site.loads.values() if owner is None or load.side is not PanelSide.ROWS]
    found = {load: halves for load in loads if not load.split and (halves := Halves.of(load.op))}
    sizes = [0, 0]
    for side in panels.sides:
        if side not in resident and (owner is None or side is not PanelSide.ROWS):
            sizes[side.along is Along.COLUMN] += max(site.loads[side].size_bytes for site in panels.kinds)
    sent = [size for size in sizes if size]
    return found if sent and len(found) == len(set(loads)) and is_sent_in_halves(sent, rates, few_slots=plan.in_place) else {}


def temporaries_of(load: Load) -> list[spm.AllocOp]:
    """What is neither loaded nor multiplied of the buffers in which a load is split."""
    written = (spm.root_buffer(buffer).owner for op in load.split for buffer in buffers_of(op, is_write=True))
    return [owner for owner in dict.fromkeys(written) if isinstance(owner, spm.AllocOp) and owner not in load.moved]


def loaded_bytes(panels: Panels, side: PanelSide, halves: Mapping[Load, SplitHalves]) -> int:
    """Bytes of what a tile loads of a side at once."""
    return max(_own_bytes(site.loads[side], site.loads[side].alloc, halves) for site in panels.kinds)


def _own_bytes(load: Load, alloc: spm.AllocOp, halves: Mapping[Load, SplitHalves]) -> int:
    """What a tile needs of a buffer of a load of which it may split a half."""
    return halves[load].share(alloc.size_bytes) if load in halves else alloc.size_bytes


def temporary_sizes(panels: Panels, halves: Mapping[Load, SplitHalves]) -> list[int]:
    """Bytes of the buffers that all loads need to be split, one after the other. They live all the time: the places of sums, which
    the matrix engine uses meanwhile, are not for them."""
    loads = [load for site in panels.kinds for load in site.loads.values()]
    own = ([_own_bytes(load, alloc, halves) for alloc in temporaries_of(load)] for load in loads)
    return [max(sizes) for sizes in zip_longest(*own, fillvalue=0)]
