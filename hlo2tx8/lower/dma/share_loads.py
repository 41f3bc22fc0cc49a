"""SCHEDULED → SCHEDULED: operands that several tiles multiply are read from DDR by one of them, which sends them to the others.

Before:                                     After:
    scf.for %step = 0 to 4 {                    load(0); wait; load(1); barrier; send(0)
      scf.for %k = 0 to 31 {                    scf.for %step = 0 to 4 {
        load(%a); load(%b)                        scf.for %k = 0 to 31 {        // panel s = %step * 32 + %k
        gemm(%a, %b)                                wait(RDMA, TDMA)            // panel s + 1 is here, its slot free on this tile
      }                                             token(s + 2); load(s + 2)
      load(%a'); load(%b')                          wait(DTE)                   // this tile has sent panel s
      gemm(%a', %b')                                barrier                     // so have all; the slot of s + 1 is free
      store                                         send(s + 1)
    }                                               gemm(s)
                                                  ... the same for %k = 31 ...
                                                  store

Panel s lies in slot `s mod copies` of a buffer for rows and one for columns. A load goes straight to its slot on the tile that
makes it, and from there to the same slot of the tiles in its mesh row or column. A token is a memset of a few bytes of a slot: the
range check holds it back until whoever read the slot has finished, so that a wait for TDMA says that the slot is free.

Where several steps in a row go over the same panels of one side, and those fit, they stay: each has a slot of its own, and is
loaded in the first of these steps only.

What the vector engine makes of a load before it is multiplied, the parts of f32 say, is made where it is loaded, and sent instead:
a load goes to one of two buffers of its own three panels ahead, and `split` takes the place of the load above. Nobody waits for the
vector engine: a read of a few bytes of the last part, which the range check holds back, says that all parts are there.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from math import prod

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import BufferType, Engine
from hlo2tx8.device.isa.dte import DteMulticast
from hlo2tx8.device.isa.kc_control import KcBarrier, KcWait
from hlo2tx8.device.isa.lsu import TdmaGatherScatter, TdmaMemset
from hlo2tx8.device.mesh_sends import is_sent_in_halves
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import spm, xla
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.allocate_spm import SpmSpace, live_ranges, place
from hlo2tx8.lower.dma.column_sets import Columns, columns_of, num_kept
from hlo2tx8.lower.dma.defer_epilogue import defer_epilogue
from hlo2tx8.lower.dma.finish_columns import finish
from hlo2tx8.lower.dma.halves import Halves
from hlo2tx8.lower.dma.insert_waits import ORDERED, QUEUES
from hlo2tx8.lower.dma.join_tails import join_tails
from hlo2tx8.lower.dma.keep_results import ResultBuffer, find_kept_results, interleave_kept
from hlo2tx8.lower.dma.mesh import Along, Mesh, Sender, TileIndex, quotient, remainder
from hlo2tx8.lower.dma.panels import LEVELS, Load, Panels, PanelSide, Site, find_panels, take_certain_branches
from hlo2tx8.lower.dma.pipeline_dma import PIPELINED
from hlo2tx8.lower.dma.slices import buffers_of, collect_slice, constant_of, drop_unused, instructions_in, turns_of
from hlo2tx8.lower.select.channel_blocks import EngineOrderError
from hlo2tx8.lower.select.step_builder import StepBuilder

LEAST_SLOTS = 3
MOST_SLOTS = 32
LOADED_SLOTS = 2
SPLIT_SLOTS = 4
"""Of loads that are split, and of what is made of them: the engines have other things to wait for than free slots."""
TOKEN_BYTES = 16
PartKey = tuple[PanelSide, int, int]
"""What is the same for buffers that panels use in turns."""


@dataclass(frozen=True)
class ShareLoadsPass(ModulePass):
    """Multicasts of panels that tiles of a mesh row or column have in common; see the module docstring.

    chip: file of the description, "" for the built-in one.
    """

    name = "share-loads"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if not isinstance(function, func.FuncOp) or function.is_declaration:
                continue
            shape = function.attributes.get(xla.MESH)
            if not isinstance(shape, DenseArrayBase):
                continue
            rows, columns = (int(size) for size in shape.get_values())
            chip = load_chip(self.chip)
            tile = next(op.tile for op in function.body.block.ops if isinstance(op, xla.TileIdOp))
            index = TileIndex.of(Mesh(rows, columns), tile)
            loops = [op for op in function.body.block.ops if isinstance(op, scf.ForOp)]
            for loop in loops:
                take_certain_branches(loop, index)
                defer_epilogue(loop)
            joined = list(join_tails(loops, index))
            panels = [find_panels(loop, index) for loop in joined]
            if interleave_kept(function, [own for own in panels if own is not None], index):
                index = TileIndex.of(index.mesh, tile)
                for loop in joined:
                    index.add_counter(loop.body.block.args[0], turns_of(loop) or 1)
                panels = [find_panels(loop, index) for loop in joined]
            kept = find_kept_results(function, [own for own in panels if own is not None], tile, index)
            plans = [plan for plan in _plans([own for own in panels if own is not None], kept, chip) if plan.is_shared]
            if kept:
                _constants_first(function)
            shared = [_Sharing(plan, before, index.mesh, tile, Rates.of(chip)) for before, plan in pairwise((None, *plans)) if plan]
            for sharing, following in zip_longest(shared, shared[1:]):
                sharing.run(following if following is not None and following.is_early else None)
                if sharing.plan.sets:
                    panels_kept = num_kept(sharing.panels, sharing.plan.sets[0], min(sharing.plan.slots.values()), chip)
                    finish(sharing.panels, sharing.plan.sets, panels_kept)
            if not shared or (kept and len(shared) < len(panels)):
                raise EngineOrderError("E3208", "no three panels of what tiles load alike fit the scratchpad")
            for own in kept:
                own.take_over(function)


@dataclass(frozen=True)
class _LoopPlan:
    """How a step loop is rewritten: the `sets` of columns at its end, slots per side, who has the rows, if tiles do. `is_early`:
    its first panels of columns are loaded during the loop before it. `is_at_once`: all panels are sent in front of the loop."""

    panels: Panels
    sets: tuple[Columns, ...]
    slots: dict[PanelSide, int]
    owner: ResultBuffer | None
    is_early: bool = False
    is_at_once: bool = False

    @property
    def is_shared(self) -> bool:
        """Can tiles share what they load?"""
        is_long = self.panels.num_steps * self.panels.num_panels > 1
        return is_long and min(self.slots.values()) >= min(LEAST_SLOTS, self.panels.num_panels)


def _plans(panels: Sequence[Panels], kept: Sequence[ResultBuffer], chip: Chip) -> list[_LoopPlan]:
    """The plans of step loops, in order. Some of what is loaded is `kept` by tiles; what comes early takes room before."""
    space = SpmSpace(chip.spm_allocation_start, chip.spm_limit, chip.spm_alignment_bytes)
    plans: list[_LoopPlan] = []
    early_bytes = 0
    for own in reversed(panels):
        sets = columns_of(own)
        saved = sum(columns.saved_bytes(space) for columns in sets)
        saved -= sum(space.aligned(result.kept.size_bytes) for result in kept if result.lives_in(own.loop))
        slots, roomy = _num_slots(own, space, saved), _num_slots(own, space, saved - early_bytes)
        if early_bytes and min(roomy.values()) > min(LEAST_SLOTS, own.num_panels):
            slots, plans[-1] = roomy, replace(plans[-1], is_early=True)
        if kept:
            slots = {side: min(number, SPLIT_SLOTS) for side, number in slots.items()}
        rows = own.sites[0].loads[PanelSide.ROWS].op.field("slot")
        owner = next((result for result in kept if result.kept.slot is rows), None)
        is_at_once = owner is not None and min(slots.values()) >= own.num_panels and _is_sent_at_once(own, owner, chip)
        plans.append(_LoopPlan(own, sets, slots, owner, is_at_once=is_at_once))
        columns = [side for side in own.sides if side.along is Along.COLUMN]
        sizes = [space.aligned(max(site.loads[side].size_bytes for site in own.kinds)) * slots[side] for side in columns]
        early_bytes = sum(sizes) if plans[-1].owner is not None else 0
    return plans[::-1]


def _is_sent_at_once(panels: Panels, owner: ResultBuffer, chip: Chip) -> bool:
    """Do panels that one tile each has take longer to be sent, and their tiles to meet, than to be multiplied? Then links have more
    to do at once if all tiles send all that they have."""
    site, c = panels.sites[0], chip.cycles
    op = site.loads[PanelSide.ROWS].op
    products = c.ne_arrays * c.ne_tile_rows * c.ne_tile_columns * c.ne_tile_depth
    sizes = ([gemm.field(name) for name in ("rows", "columns", "depth")] for gemm in site.gemms)
    multiplied = sum(prod([size for size in own if isinstance(size, int)]) for own in sizes) / products
    return owner.num_parts(op) == 1 and multiplied < owner.part_bytes(op) / Rates.of(chip).link + c.barrier


def _constants_first(function: func.FuncOp) -> None:
    """Moves constants to the function's beginning, so that what is computed of them may be computed early."""
    block = function.body.block
    for op in [op for op in block.ops if isinstance(op, arith.ConstantOp)]:
        op.detach()
        first = block.first_op
        assert first is not None
        block.insert_op_before(op, first)


def _num_slots(panels: Panels, space: SpmSpace, saved_bytes: int) -> dict[PanelSide, int]:
    """How many panels of each side fit beside the other buffers of the loop, which will take so much less: as many of all, or all
    that some steps have in common and at least as many of the other sides as are under way at once."""
    loads = [load for site in panels.sites for load in site.loads.values()]
    own = {alloc for load in loads for alloc in (load.alloc, *load.moved)}
    roots = [spm.root_buffer(o) for op in instructions_in(panels.loop) for o in op.operands if isinstance(o.type, BufferType)]
    others = [root.owner for root in dict.fromkeys(roots)]
    allocs = [o for o in others if isinstance(o, spm.AllocOp) and o not in own]
    if any(map(panels.is_split, panels.sides)):  # their buffers do not live all the time
        gone = {alloc for load in loads for alloc in _temporaries(load)}
        taken = _room(panels.loop, [o for o in allocs if o not in gone], space)
        taken += sum(map(space.aligned, _temporary_sizes(panels)))
    else:
        taken = sum(space.aligned(o.size_bytes) * o.num_copies for o in allocs)
    left = space.limit - space.start - taken + saved_bytes
    sizes = {side: space.aligned(max(site.loads[side].size_bytes for site in panels.kinds)) for side in panels.sides}
    moved = {_key(load, alloc): space.aligned(alloc.size_bytes) for load in loads for alloc in load.moved}
    apart = sum(size for side, size in sizes.items() if panels.is_split(side))
    left -= LOADED_SLOTS * apart
    panel = sum(sizes.values()) - apart + sum(moved.values())
    for group in _groups(panels):
        size = sum(sizes[side] for side in group)
        slots = min(MOST_SLOTS, (left - size * panels.num_panels) // (panel - size))
        if panels.num_panels >= LEAST_SLOTS and slots >= LEAST_SLOTS:
            return {own: panels.num_panels if own in group else slots for own in panels.sides}
    return dict.fromkeys(panels.sides, min(SPLIT_SLOTS if apart else MOST_SLOTS, left // panel))


def _room(loop: scf.ForOp, allocs: list[spm.AllocOp], space: SpmSpace) -> int:
    """Bytes that some buffers of a loop take if those that do not live at the same time share their places."""
    function = loop.parent_op()
    assert isinstance(function, func.FuncOp)
    addresses = place(allocs, live_ranges(function), space)
    return max(addresses[o.result] + space.aligned(o.size_bytes) * o.num_copies for o in allocs) - space.start


def _key(load: Load, alloc: spm.AllocOp) -> PartKey:
    """The side, the buffer's number of those made of the load, and its size."""
    return load.side, load.moved.index(alloc), alloc.size_bytes


def _groups(panels: Panels) -> list[list[PanelSide]]:
    """The rows, and the columns of all products, if several steps in a row have them in common; not if they are split."""
    sides = [side for side in panels.sides if side is not PanelSide.TAIL]
    if any(map(panels.is_split, sides)):
        return []
    groups = [[side for side in sides if side.along is along] for along in Along]
    return [group for group in groups if all(panels.steps_alike[side] > 1 for side in group)]


class _Sharing:
    """The rewriting of one step loop."""

    def __init__(self, plan: _LoopPlan, before: _LoopPlan | None, mesh: Mesh, tile: SSAValue, rates: Rates) -> None:
        self.plan, self.panels, self.owner = plan, plan.panels, plan.owner
        self.is_early = plan.is_early and before is not None
        panels, num_slots, owner = plan.panels, plan.slots, plan.owner
        stay = [group for group in _groups(panels) if all(num_slots[side] == panels.num_panels for side in group)]
        self.resident = stay[0] if stay else []
        self.loop = panels.loop
        self.total = panels.num_steps * panels.num_panels
        start = self.at(Builder(InsertPoint.before(self.loop)))
        self.halves = _halves(panels, self.resident, rates, owner)
        halved = {load.side.along for load in self.halves}
        first = self.at(Builder(InsertPoint.before(before.panels.loop))) if before is not None and self.is_early else start
        self.senders = {along: Sender.emit(first, mesh, tile, along, in_halves=along in halved) for along in Along}
        self.split_sides = [side for side in panels.sides if panels.is_split(side)]
        self.slots: dict[PanelSide, SSAValue] = {}
        self.moved: dict[PartKey, SSAValue] = {}
        for side in panels.sides:
            size = max(site.loads[side].size_bytes for site in panels.kinds)
            copies = LOADED_SLOTS if panels.is_split(side) else num_slots[side]
            self.slots[side] = (first if side.along is Along.COLUMN else start).insert(spm.AllocOp(size, copies)).result
        for load in (load for site in panels.sites for load in site.loads.values()):
            for alloc in load.moved:  # as many as slots: nobody waits for the matrix engine to have read one
                if (key := _key(load, alloc)) not in self.moved:
                    self.moved[key] = start.insert(spm.AllocOp(alloc.size_bytes, min(num_slots.values()))).result
        self.temporaries = [start.insert(spm.AllocOp(size)).result for size in _temporary_sizes(panels)]
        if self.split_sides:
            self.probed = start.insert(spm.AllocOp(TOKEN_BYTES)).result
        self.start = start

    def at(self, builder: Builder) -> StepBuilder:
        return StepBuilder(builder, builder, (), {})

    def run(self, following: "_Sharing | None") -> None:
        """Puts the first panels before the loop, a turn's protocol before each site's, and the loads away. The last turns load the
        first panels of columns of the `following` loop."""
        self.following = following
        sides = self.panels.sides
        if self.is_early:
            sides = [side for side in sides if side.along is Along.ROW]
            self.send_early()
        if self.plan.is_at_once:
            self.send_all(sides)
        else:
            self.send_first(sides)
        turns: list[tuple[Site, StepBuilder, SSAValue]] = []
        for site in self.panels.sites:
            step = self.at(Builder(InsertPoint.before(site.begin)))
            number: Size = step.add(step(self.loop.body.block.args[0], self.panels.num_panels), site.first)
            if site.loop is not None:
                number = step.add(number, site.loop.body.block.args[0])
            panel = step.value(number)
            self.meet(step, panel)
            if self.split_sides:
                behind = self.at(Builder(InsertPoint.after(site.gemms[-1])))
                with self.below(behind, behind.value(behind.add(panel, 2)), self.total) as later:
                    self.split(behind, later)
            turns.append((site, step, panel))
        for site, step, panel in turns:
            for load in site.loads.values():
                for op in reversed((load.op, *load.split)):
                    _erase(op)
            for side, load in site.loads.items():
                if not load.split:
                    load.alloc.result.replace_all_uses_with(step.insert(spm.TurnOp(self.slots[side], panel)).result)
                for alloc in load.moved:
                    alloc.result.replace_all_uses_with(step.insert(spm.TurnOp(self.moved[_key(load, alloc)], panel)).result)
            for load in site.loads.values():
                for alloc in (load.alloc, *load.moved, *_temporaries(load)):
                    _erase(alloc)
        for loop in (self.loop, *(site.loop for site in self.panels.sites if site.loop is not None)):
            loop.attributes[PIPELINED] = UnitAttr()
        drop_unused(self.loop)

    @property
    def columns(self) -> list[PanelSide]:
        """What tiles of a mesh column have in common."""
        return [side for side in self.panels.sides if side.along is Along.COLUMN]

    def send_first(self, sides: Sequence[PanelSide]) -> None:
        """Loads the first panels, all sides but those that came early, and sends the first one."""
        start = self.start
        self.load(start, start.value(0), sides)
        if self.split_sides:
            self.load(start, start.value(1))
            self.fetch(start, start.value(0), self.split_sides)
            self.split(start, start.value(0))
        start.insert(KcWait.make(engines=_mask(*QUEUES)))
        if self.split_sides:
            self.fetch(start, start.value(1), self.split_sides)
            self.split(start, start.value(1))
            if self.total > LOADED_SLOTS:
                self.fetch(start, start.value(LOADED_SLOTS), self.split_sides)
        else:
            self.load(start, start.value(1), sides)
        start.insert(KcBarrier.make())
        self.send(start, start.value(0), sides)

    def send_all(self, sides: Sequence[PanelSide]) -> None:
        """Loads and sends all panels, each to a slot of its own, all sides but what came early."""
        start = self.start
        for number in range(self.total):
            self.load(start, start.value(number), sides if number < LOADED_SLOTS else None)
        start.insert(KcWait.make(engines=_mask(*QUEUES)))
        start.insert(KcBarrier.make())
        for number in range(self.total):
            self.send(start, start.value(number), sides if number == 0 else None)
        start.insert(KcWait.make(engines=_mask(Engine.DTE)))
        start.insert(KcBarrier.make())

    def send_early(self) -> None:
        """Sends the first panel of columns when the loop before ends. Nobody has read its slot: it has had a place of its own since
        then."""
        meeting = self.start.builder.insertion_point.insert_before
        while meeting is not None and not isinstance(meeting, xla.SyncTilesOp):
            meeting = meeting.prev_op
        assert meeting is not None
        before = self.at(Builder(InsertPoint.before(meeting)))
        before.insert(KcWait.make(engines=_mask(Engine.RDMA)))
        self.send(before, before.value(0), self.columns)

    def meet(self, step: StepBuilder, panel: SSAValue) -> None:
        """The turn of a panel, before it is multiplied."""
        if self.plan.is_at_once:
            self.load_following(step, panel)
            return
        step.insert(KcWait.make(engines=_mask(Engine.RDMA, Engine.TDMA)))
        if self.split_sides:
            with self.below(step, step.value(step.add(panel, LOADED_SLOTS + 1)), self.total) as later:
                self.fetch(step, later, self.split_sides)
        with self.below(step, step.value(step.add(panel, 2)), self.total) as later:
            self.load(step, later)
        self.load_following(step, panel)
        step.insert(KcWait.make(engines=_mask(Engine.DTE)))
        step.insert(KcBarrier.make())
        with self.below(step, step.value(step.add(panel, 1)), self.total) as later:
            self.send(step, later)

    def load_following(self, step: StepBuilder, panel: SSAValue) -> None:
        """The first panels of columns of the following loop, in the last turns."""
        if self.following is not None:
            outer, number = step.builder, step.value(step.subtract(step.add(panel, LOADED_SLOTS), self.total))
            self.branch(step, number, "sgt", -1)
            self.following.fetch(step, number, self.following.columns)
            self.leave(step, outer)

    def load(self, step: StepBuilder, panel: SSAValue, sides: Sequence[PanelSide] | None = None) -> None:
        """A panel, all sides or some, to its slot on the tiles that send it, unless it is split later; a token on all."""
        for side in self.panels.sides if sides is None else sides:
            slot, parts = self.places(step, panel, side)
            with self.if_new(step, side, panel):
                for place in parts.values() or [slot]:
                    s1, n1 = (last, 2) if (last := self.last_of(side)) else (0, 1)
                    step.insert(TdmaMemset.make(fmt=Format.INT8, dst=place, value=0, n=TOKEN_BYTES, s1=s1, n1=n1, s2=0, n2=1))
            if not parts:
                with self.if_sender(step, side, panel), self.if_new(step, side, panel):
                    self.receive(step, panel, side, slot)

    def last_of(self, side: PanelSide) -> int:
        """Where a token is once more behind the first, so that it waits for all that read a slot: at its end, where products of
        several elements of a window read a part of it each; 0 where one product reads it all."""
        several = any(len(site.gemms) > len(self.columns) for site in self.panels.sites)
        return (
            max(site.loads[side].size_bytes for site in self.panels.kinds) - TOKEN_BYTES if several and not self.split_sides else 0
        )

    def fetch(self, step: StepBuilder, panel: SSAValue, sides: Sequence[PanelSide]) -> None:
        """What is loaded of a panel to the tiles that send it."""
        for side in sides:
            slot, _ = self.places(step, panel, side)
            with self.if_sender(step, side, panel):
                self.receive(step, panel, side, slot)

    def receive(self, step: StepBuilder, panel: SSAValue, side: PanelSide, slot: SSAValue) -> None:
        """The load of a panel, to a slot."""
        for load, mapping in self.loads_of(step, panel, side):
            mapping |= {load.alloc.result: slot}
            if self.owner is not None and side is PanelSide.ROWS:
                offset = load.op.field("offset")
                assert isinstance(offset, SSAValue)
                self.clone(step, [offset.owner], mapping)
                step.insert(self.owner.panel(step, load.op, mapping.get(offset, offset), slot))
                continue
            if load not in self.halves:
                self.clone(step, [load.op], mapping)
                continue
            self.clone(step, [value.owner for value in load.op.operands if isinstance(value.owner, Operation)], mapping)
            half = self.senders[side.along].half
            assert half is not None
            for own in self.halves[load].loads(step, load.op, half, mapping):
                step.insert(own)

    def split(self, step: StepBuilder, panel: SSAValue) -> None:
        """What is multiplied of a panel, made of what was loaded, on the tiles that send it."""
        for side in self.split_sides:
            slot, parts = self.places(step, panel, side)
            with self.if_sender(step, side, panel):
                for load, mapping in self.loads_of(step, panel, side):
                    mapping |= {load.alloc.result: slot} | {own.result: parts[_key(load, own)] for own in load.moved}
                    mapping |= {own.result: room for own, room in zip(_temporaries(load), self.temporaries, strict=False)}
                    self.clone(step, list(load.split), mapping)
                    step.insert(_probe(self.probed, mapping[buffers_of(load.split[-1], is_write=True)[0]]))

    def places(self, step: StepBuilder, panel: SSAValue, side: PanelSide) -> tuple[SSAValue, dict[PartKey, SSAValue]]:
        """Where a panel is loaded, and where its parts lie if it is split."""
        slot = step.insert(spm.TurnOp(self.slots[side], panel)).result
        own = self.moved if self.panels.is_split(side) else {}
        return slot, {key: step.insert(spm.TurnOp(part, panel)).result for key, part in own.items() if key[0] is side}

    def send(self, step: StepBuilder, panel: SSAValue, sides: Sequence[PanelSide] | None = None) -> None:
        """A panel, all sides or some, from the tiles that have loaded it to those that share it.

        Tiles of a mesh row that have a part of its rows each send these one after the other, those at both ends of the row at once,
        and columns before and after that: then links of a row carry few parts at a time, and no tile waits for another.
        """
        sides = self.panels.sides if sides is None else sides
        rows = self.panels.kinds[0].loads[PanelSide.ROWS].op if PanelSide.ROWS in sides else None
        columns = [side for side in sides if side is not PanelSide.ROWS]
        if self.owner is None or rows is None or not columns or (parts := self.owner.num_parts(rows)) == 1:
            self.send_sides(step, panel, sides)
            return
        size = self.owner.part_bytes(rows) // rows.fmt.bytes
        ahead = step.emit(remainder(step, self.owner.column, max(1, parts - 1)), size)
        self.send_sides(step, panel, columns, end=ahead)
        self.send_sides(step, panel, [PanelSide.ROWS])
        self.send_sides(step, panel, columns, first=ahead)

    def send_sides(
        self, step: StepBuilder, panel: SSAValue, sides: Sequence[PanelSide], first: Size = 0, end: Size | None = None
    ) -> None:
        """Of each side what its senders have, the elements from the first one on or up to an end."""
        for side in sides:
            slot, parts = self.places(step, panel, side)
            with self.if_sender(step, side, panel), self.if_new(step, side, panel):
                for load, mapping in self.loads_of(step, panel, side):
                    op, sender = load.op, self.senders[side.along]
                    sizes = [op.field(name) for name in LEVELS]
                    self.clone(step, [size.owner for size in sizes if isinstance(size, SSAValue)], mapping)
                    count: Size = 1
                    for size in sizes:
                        count = step(count, mapping.get(size, size) if isinstance(size, SSAValue) else size)
                    start = slot
                    if sender.half is not None and load in self.halves:
                        count, start = self.halves[load].sent(step, slot, sender.half)
                    fmt, tiles = load.split[-1].fmt if load.split else op.fmt, sender.tiles
                    if self.owner is not None and side is PanelSide.ROWS:
                        count, start = self.owner.part_bytes(op) // op.fmt.bytes, self.owner.part_of(step, op, slot)
                    for place in [parts[_key(load, own)] for own in load.moved if parts] or [start]:
                        begin = 0 if first == 0 else step.minimum(first, count)
                        n = step.subtract(count if end is None else step.minimum(end, count), begin)
                        with step.if_positive([n] if end is not None or first != 0 else []):
                            at = step.at(place, step(begin, fmt.bytes))
                            multicast = DteMulticast.make(fmt=fmt, dst=at, src=at, n=n, tiles=tiles, origin=op.origin)
                            multicast.attributes[ORDERED] = UnitAttr()
                            step.insert(multicast)

    def loads_of(self, step: StepBuilder, panel: SSAValue, side: PanelSide) -> Generator[tuple[Load, dict[SSAValue, SSAValue]]]:
        """The loads that may be a panel's, each with the builder inside of its condition, and the counters' values there."""
        panels = self.panels
        turn, place = (
            (step.value(0), panel)
            if panels.num_steps == 1
            else (
                quotient(step, panel, panels.num_panels),
                remainder(step, panel, panels.num_panels),
            )
        )
        for site in panels.kinds:
            mapping: dict[SSAValue, SSAValue] = {self.loop.body.block.args[0]: turn}
            outer = step.builder
            if site.first:
                self.branch(step, place, "sgt", site.first - 1)
            if site.first + site.count < panels.num_panels:
                self.branch(step, place, "slt", site.first + site.count)
            if site.loop is not None:
                mapping[site.loop.body.block.args[0]] = step.value(step.subtract(place, site.first))
            load = site.loads[side]
            if load.branch is not None:
                self.clone(step, [load.branch.cond.owner], mapping)
                self.enter(step, mapping.get(load.branch.cond, load.branch.cond))
            yield load, mapping
            self.leave(step, outer)

    def clone(self, step: StepBuilder, wanted: list[Operation | Block], mapping: dict[SSAValue, SSAValue]) -> None:
        """Operations of a turn, with what they depend on, for the turn of `mapping`."""
        found: set[Operation] = set()
        for op in wanted:
            assert isinstance(op, Operation)
            if _is_below(op, self.loop):
                collect_slice(op, self.loop, found)
        found = {op for op in found if not op.regions and not isinstance(op, spm.AllocOp)}
        for op in [op for op in self.loop.walk() if op in found]:
            step.insert(op.clone(value_mapper=mapping))

    # ----------------------------------------------------------------------------------------------- branches

    @contextmanager
    def below(self, step: StepBuilder, value: SSAValue, limit: int) -> Generator[SSAValue]:
        """Emits what follows for values below the limit only."""
        outer = step.builder
        self.branch(step, value, "slt", limit)
        yield value
        self.leave(step, outer)

    @contextmanager
    def if_sender(self, step: StepBuilder, side: PanelSide, panel: SSAValue) -> Generator[None]:
        """Emits what follows for the tiles that load for their line, or have what it needs, only."""
        outer = step.builder
        if self.owner is not None and side is PanelSide.ROWS:
            distance = self.owner.distance(step, panel, self.panels.sites[0].loads[side].op)
        else:
            distance = self.senders[side.along].distance
        self.branch(step, distance, "slt", 1)
        yield
        self.leave(step, outer)

    @contextmanager
    def if_new(self, step: StepBuilder, side: PanelSide, panel: SSAValue) -> Generator[None]:
        """Emits what follows for panels that are not there from the step before only."""
        outer, num_panels, alike = step.builder, self.panels.num_panels, self.panels.steps_alike[side]
        if side in self.resident:
            place = panel if alike == self.panels.num_steps else remainder(step, panel, num_panels * alike)
            self.branch(step, place, "slt", num_panels)
        yield
        self.leave(step, outer)

    def branch(self, step: StepBuilder, value: SSAValue, predicate: str, limit: int) -> None:
        """Emits what follows where a value is below or above a limit: without a branch if it always is."""
        known = constant_of(value)
        if known is not None and (known < limit if predicate == "slt" else known > limit):
            return
        self.enter(step, step.insert(arith.CmpiOp(value, step.value(limit), predicate)).result)

    def enter(self, step: StepBuilder, condition: SSAValue) -> None:
        """Emits what follows under a condition."""
        block = Block()
        step.insert(scf.IfOp(condition, [], Region(block)))
        step.builder = Builder(InsertPoint.at_end(block))

    def leave(self, step: StepBuilder, outer: Builder) -> None:
        """Ends the branches that were begun since the builder was `outer`."""
        block: Block | None = step.builder.insertion_point.block
        while block is not None and block is not outer.insertion_point.block:
            block.add_op(scf.YieldOp())
            parent = block.parent_op()
            block = parent.parent_block() if parent is not None else None
        step.builder = outer


def _halves(panels: Panels, resident: Sequence[PanelSide], rates: Rates, owner: ResultBuffer | None) -> dict[Load, Halves]:
    """The halves of all loads, if it is sooner that two tiles of a line send one each; {} if not. An `owner` sends all it has."""
    loads = [load for site in panels.sites for load in site.loads.values() if owner is None or load.side is not PanelSide.ROWS]
    found = {load: halves for load in loads if not load.split and (halves := Halves.of(load.op))}
    sizes = [0, 0]
    for side in panels.sides:
        if side not in resident and (owner is None or side is not PanelSide.ROWS):
            sizes[side.along is Along.COLUMN] += max(site.loads[side].size_bytes for site in panels.kinds)
    return found if len(found) == len(set(loads)) and is_sent_in_halves([size for size in sizes if size], rates) else {}


def _temporaries(load: Load) -> list[spm.AllocOp]:
    """What is neither loaded nor multiplied of the buffers in which a load is split."""
    written = (spm.root_buffer(buffer).owner for op in load.split for buffer in buffers_of(op, is_write=True))
    return [owner for owner in dict.fromkeys(written) if isinstance(owner, spm.AllocOp) and owner not in load.moved]


def _temporary_sizes(panels: Panels) -> list[int]:
    """Bytes of the buffers that all loads need to be split, one after the other. They live all the time: the places of sums, which
    the matrix engine uses meanwhile, are not for them."""
    own = ([alloc.size_bytes for alloc in _temporaries(load)] for site in panels.kinds for load in site.loads.values())
    return [max(sizes) for sizes in zip_longest(*own, fillvalue=0)]


def _probe(dst: SSAValue, src: SSAValue) -> TdmaGatherScatter:
    """A read of a few bytes, which begins when they have been written."""
    once = dict.fromkeys(("rn1", "rn2", "rn3", "wn1", "wn2", "wn3"), 1)
    at = dict.fromkeys(("rs1", "rs2", "rs3", "ws1", "ws2", "ws3"), 0)
    return TdmaGatherScatter.make(fmt=Format.INT8, dst=dst, src=src, run_bytes=TOKEN_BYTES, **once, **at)


def _is_below(op: Operation, ancestor: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and parent is not ancestor:
        parent = parent.parent_op()
    return parent is ancestor


def _mask(*engines: Engine) -> int:
    return sum(1 << e.value for e in engines)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
