"""The rewriting of a step loop whose tiles send each other what they load: see share_loads."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod

from xdsl.builder import Builder
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.dte import DteMulticast
from hlo2tx8.device.isa.forms import CtInstruction
from hlo2tx8.device.isa.kc_control import KcBarrier, KcWait
from hlo2tx8.device.isa.lsu import TdmaGatherScatter, TdmaMemset
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.nested import cloned, nested_ops
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.branches import below, branch, enter, leave
from hlo2tx8.lower.dma.idle_rows import skip_products
from hlo2tx8.lower.dma.insert_waits import ORDERED, QUEUES
from hlo2tx8.lower.dma.mesh import Along, Mesh, Sender, quotient, remainder
from hlo2tx8.lower.dma.panels import LEVELS, Load, PanelSide, Site
from hlo2tx8.lower.dma.pipeline_dma import PIPELINED
from hlo2tx8.lower.dma.sharing_plan import (
    LOADED_SLOTS,
    LoopPlan,
    PartKey,
    groups_of,
    halves_of,
    key_of,
    loaded_bytes,
    moved_sizes,
    temporaries_of,
    temporary_sizes,
)
from hlo2tx8.lower.dma.slices import buffers_of, collect_slice, drop_unused, instructions_in, is_inside, roots_of
from hlo2tx8.lower.dma.split_halves import split_halves
from hlo2tx8.lower.select.step_builder import StepBuilder

TOKEN_BYTES = 16


class SharedLoop:
    """The rewriting of one step loop."""

    def __init__(self, plan: LoopPlan, before: LoopPlan | None, mesh: Mesh, tile: SSAValue, rates: Rates) -> None:
        self.plan, self.panels, self.owner, self.rates = plan, plan.panels, plan.owner, rates
        self.is_early = plan.is_early and before is not None
        self.follows_at_once = before is not None and bool(before.hands_over)
        panels, num_slots = plan.panels, plan.slots
        stay = [group for group in groups_of(panels) if all(num_slots[side] == panels.num_panels for side in group)]
        self.resident = stay[0] if stay else []
        self.loop = panels.loop
        self.total = panels.num_steps * panels.num_panels
        is_in_step = panels.num_steps == 1 or not any(columns.epilogue.has_arithmetic for columns in plan.sets)
        self.skips_idle = is_in_step and not plan.hands_over
        """Is nothing made of a step's products during the next one's, on tiles that have columns in only one of them?"""
        start = self.at(Builder(InsertPoint.before(self.loop)))
        self.halves = halves_of(plan, self.resident, rates)
        self.split_halves = split_halves(panels, rates)
        halved, is_split = {load.side.along for load in self.halves}, bool(self.split_halves)
        first = self.at(Builder(InsertPoint.before(before.panels.loop))) if before is not None and self.is_early else start
        self.senders = {
            along: Sender.emit(first, mesh, tile, along, in_halves=along in halved, is_split=is_split) for along in Along
        }
        self.tail_sender = self.senders[Along.COLUMN]
        if PanelSide.TAIL in panels.sides and self.tail_sender.half is None:  # one tile would send it behind the columns
            self.tail_sender = Sender.emit(start, mesh, tile, Along.COLUMN, number=1)
        self.behind_loads: Operation | None = None
        """Where nothing is loaded any more, if all panels are sent at once."""
        self.split_sides = [side for side in panels.sides if panels.is_split(side)]
        self.slots: dict[PanelSide, SSAValue] = {}
        self.moved: dict[PartKey, SSAValue] = {}
        for side in panels.sides:
            size = loaded_bytes(panels, side, self.split_halves)
            copies = LOADED_SLOTS if panels.is_split(side) else num_slots[side]
            self.slots[side] = (first if side.along is Along.COLUMN else start).insert(spm.AllocOp(size, copies)).result
        for key, num_bytes in moved_sizes(panels).items():  # as many as slots: nobody waits for the engine to have read one
            self.moved[key] = start.insert(spm.AllocOp(num_bytes, min(num_slots.values()))).result
        self.temporaries = [start.insert(spm.AllocOp(size)).result for size in temporary_sizes(panels, self.split_halves)]
        if self.split_sides:
            self.probed = start.insert(spm.AllocOp(TOKEN_BYTES)).result
        self.start = start

    def at(self, builder: Builder) -> StepBuilder:
        return StepBuilder(builder, builder, (), {})

    def run(self, following: "SharedLoop | None") -> None:
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
                first = InsertPoint.before(site.gemms[0])
                behind = self.at(Builder(first if self.is_split_first(site) else InsertPoint.after(site.gemms[-1])))
                with below(behind, behind.value(behind.add(panel, 2)), self.total) as later:
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
                    alloc.result.replace_all_uses_with(step.insert(spm.TurnOp(self.moved[key_of(load, alloc)], panel)).result)
            for load in site.loads.values():
                for alloc in (load.alloc, *load.moved, *temporaries_of(load)):
                    _erase(alloc)
        for loop in (self.loop, *(site.loop for site in self.panels.sites if site.loop is not None)):
            loop.attributes[PIPELINED] = UnitAttr()
        drop_unused(self.loop)

    def is_split_first(self, site: Site) -> bool:
        """Is what the vector engine makes of a panel issued before the products, those of the tail apart? The queue of the matrix
        engine has no room for both, so the kernel core would wait. Not if the products take longer than that."""
        loads = [site.loads[side] for side in (PanelSide.ROWS, PanelSide.COLUMNS) if side in site.loads]
        depth, sizes = site.gemms[-1].field("depth"), [load.size_bytes // load.op.fmt.bytes for load in loads]
        if PanelSide.TAIL not in site.loads or not isinstance(depth, int) or len(loads) < 2:
            return False
        products = len(site.gemms) * prod(sizes) / depth / self.rates.products
        made = max(len(load.split) * loaded_bytes(self.panels, load.side, self.split_halves) for load in loads) / self.rates.vector
        return made > products

    def sender(self, side: PanelSide) -> Sender:
        """Who loads a side for its line."""
        return self.tail_sender if side is PanelSide.TAIL else self.senders[side.along]

    def skip_idle(self) -> None:
        """Leaves out the products of columns on tiles that have the tail instead."""
        condition = self.panels.sites[0].loads[PanelSide.COLUMNS].condition
        if condition is not None and self.skips_idle:
            ops = self.made_of_columns()
            skip_products(self.loop, condition, ops, is_in_step=self.panels.num_steps == 1 or not self.plan.sets)

    def made_of_columns(self) -> list[Instruction]:
        """The products of columns, and what each tile moves or widens for them; not what makes parts before they are sent."""
        read, kinds = {part for key, part in self.moved.items() if key[0] is PanelSide.COLUMNS}, (NeGemm, TdmaGatherScatter)
        if not self.panels.is_split(PanelSide.COLUMNS):
            read, kinds = {*read, self.slots[PanelSide.COLUMNS]}, (*kinds, CtInstruction)
        found = [
            op for op in instructions_in(self.loop) if isinstance(op, kinds) and not read.isdisjoint(roots_of(op, is_write=False))
        ]
        return [op for op in found if not self.split_sides or self.probed not in roots_of(op, is_write=True)]

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
        start.insert(KcWait.make(engines=_mask(Engine.RDMA, Engine.TDMA) if self.follows_at_once else _mask(*QUEUES)))
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
        self.behind_loads = start.insert(KcBarrier.make())
        for number in range(self.total):
            self.send(start, start.value(number), sides if number == 0 else None)
        start.insert(KcWait.make(engines=_mask(Engine.DTE)))
        start.insert(KcBarrier.make())

    def send_early(self) -> None:
        """Sends the first panel of columns when the loop before ends. Nobody has read its slot: it has had a place of its own since
        then, or there was a token in the turn before the last."""
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
            with below(step, step.value(step.add(panel, LOADED_SLOTS + 1)), self.total) as later:
                self.fetch(step, later, self.split_sides)
        with below(step, step.value(step.add(panel, 2)), self.total) as later:
            self.load(step, later)
        self.load_following(step, panel)
        step.insert(KcWait.make(engines=_mask(Engine.DTE)))
        step.insert(KcBarrier.make())
        with below(step, step.value(step.add(panel, 1)), self.total) as later:
            self.send(step, later)

    def load_following(self, step: StepBuilder, panel: SSAValue) -> None:
        """The first panels of columns of the following loop, in the last turns."""
        if self.following is not None:
            outer, number = step.builder, step.value(step.subtract(step.add(panel, LOADED_SLOTS), self.total))
            branch(step, number, "sgt", -1)
            if self.plan.hands_over:
                self.following.load(step, number, self.following.columns)
            else:
                self.following.fetch(step, number, self.following.columns)
            leave(step, outer)

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
        several elements of a window read a part of it each, or the loop before had other slots there; 0 where one product reads it
        all."""
        several = self.follows_at_once or any(len(site.gemms) > len(self.columns) for site in self.panels.sites)
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
            if load not in self.halves and load not in self.split_halves:
                self.clone(step, [load.op], mapping)
                continue
            self.clone(step, [value.owner for value in load.op.operands if isinstance(value.owner, Operation)], mapping)
            half = self.sender(side).half
            assert half is not None
            if load in self.split_halves:
                with self.if_something(step, load, half, mapping):
                    step.insert(self.split_halves[load].loaded(step, half, slot, mapping))
                continue
            halves = self.halves[load]
            with step.if_positive([] if halves.is_certain else [halves.count(step, half, mapping)]):
                for own in halves.loads(step, load.op, half, mapping):
                    step.insert(own)

    def split(self, step: StepBuilder, panel: SSAValue) -> None:
        """What is multiplied of a panel, made of what was loaded, on the tiles that send it."""
        for side in self.split_sides:
            slot, parts = self.places(step, panel, side)
            with self.if_sender(step, side, panel):
                for load, mapping in self.loads_of(step, panel, side):
                    mapping |= {load.alloc.result: slot} | {own.result: parts[key_of(load, own)] for own in load.moved}
                    mapping |= {own.result: room for own, room in zip(temporaries_of(load), self.temporaries, strict=False)}
                    element = load.split[-1].fmt.bytes
                    if load not in self.split_halves:
                        self.clone(step, list(load.split), mapping)
                        step.insert(probe(self.probed, mapping[buffers_of(load.split[-1], is_write=True)[0]], element))
                        continue
                    half, own = self.sender(side).half, self.split_halves[load]
                    assert half is not None
                    self.clone_sizes(step, load, mapping)
                    with self.if_something(step, load, half, mapping):
                        made = own.made(step, half, mapping, [alloc.result for alloc in load.moved])
                        step.insert(probe(self.probed, made, element))

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
        if self.split_sides:  # what is short first: there are so many transfers that the kernel core waits for the queue
            sides = sorted(sides, key=lambda side: side is not PanelSide.TAIL)
        rows = self.panels.kinds[0].loads[PanelSide.ROWS].op if PanelSide.ROWS in sides else None
        columns = [side for side in sides if side is not PanelSide.ROWS]
        if self.owner is None or rows is None or not columns or (parts := self.owner.num_parts(rows)) == 1:
            self.send_sides(step, panel, sides)
            return
        size = self.owner.part_elements(step, rows)
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
                    op, sender = load.op, self.sender(side)
                    sizes = self.clone_sizes(step, load, mapping)
                    count: Size = 1
                    ahead: Size = 0
                    for size in sizes:
                        count = step(count, mapping.get(size, size) if isinstance(size, SSAValue) else size)
                    start = slot
                    if sender.half is not None and load in self.halves:
                        count, start = self.halves[load].sent(step, slot, sender.half, mapping)
                    if sender.half is not None and load in self.split_halves:
                        count, ahead = self.split_halves[load].run(step, sender.half, mapping)
                    fmt, tiles = load.split[-1].fmt if load.split else op.fmt, sender.tiles
                    if self.owner is not None and side is PanelSide.ROWS:
                        count, start = self.owner.part_elements(step, op), self.owner.part_of(step, op, slot)
                    for place in [parts[key_of(load, own)] for own in load.moved if parts] or [start]:
                        begin = 0 if first == 0 else step.minimum(first, count)
                        n = step.subtract(count if end is None else step.minimum(end, count), begin)
                        cuts = [own[load] for own in (self.halves, self.split_halves) if load in own and sender.half is not None]
                        is_certain = all(own.is_certain for own in cuts)
                        with step.if_positive([n] if end is not None or first != 0 or not is_certain else []):
                            at = step.at(place, step(step.add(ahead, begin), fmt.bytes))
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
                branch(step, place, "sgt", site.first - 1)
            if site.first + site.count < panels.num_panels:
                branch(step, place, "slt", site.first + site.count)
            if site.loop is not None:
                mapping[site.loop.body.block.args[0]] = step.value(step.subtract(place, site.first))
            load = site.loads[side]
            condition = load.branch.cond if load.branch is not None else load.condition if self.skips_idle else None
            if condition is not None:
                self.clone(step, [condition.owner], mapping)
                enter(step, mapping.get(condition, condition))
            yield load, mapping
            leave(step, outer)

    def clone_sizes(self, step: StepBuilder, load: Load, mapping: dict[SSAValue, SSAValue]) -> list[Size]:
        """The counts of a load, what they are made of for the turn of `mapping`."""
        sizes = [load.op.field(name) for name in LEVELS]
        self.clone(step, [size.owner for size in sizes if isinstance(size, SSAValue)], mapping)
        return sizes

    @contextmanager
    def if_something(self, step: StepBuilder, load: Load, half: SSAValue, mapping: dict[SSAValue, SSAValue]) -> Generator[None]:
        """Emits what follows if there is something of a half in a step."""
        own = self.split_halves[load]
        with step.if_positive([] if own.is_certain else [own.run(step, half, mapping)[0]]):
            yield

    def clone(self, step: StepBuilder, wanted: list[Operation | Block], mapping: dict[SSAValue, SSAValue]) -> None:
        """Operations of a turn, with what they depend on, for the turn of `mapping`."""
        found: set[Operation] = set()
        for op in wanted:
            assert isinstance(op, Operation)
            if is_inside(op, self.loop) and op is not self.loop:
                collect_slice(op, self.loop, found)
        found = {op for op in found if not op.regions and not isinstance(op, spm.AllocOp)}
        for op in [op for op in nested_ops(self.loop) if op in found]:
            step.insert(cloned(op, mapping))

    @contextmanager
    def if_sender(self, step: StepBuilder, side: PanelSide, panel: SSAValue) -> Generator[None]:
        """Emits what follows for the tiles that load for their line, or have what it needs, only."""
        outer = step.builder
        if self.owner is not None and side is PanelSide.ROWS:
            distance = self.owner.distance(step, panel, self.panels.sites[0].loads[side].op)
        else:
            distance = self.sender(side).distance
        branch(step, distance, "slt", 1)
        yield
        leave(step, outer)

    @contextmanager
    def if_new(self, step: StepBuilder, side: PanelSide, panel: SSAValue) -> Generator[None]:
        """Emits what follows for panels that are not there from the step before only."""
        outer, num_panels, alike = step.builder, self.panels.num_panels, self.panels.steps_alike[side]
        if side in self.resident:
            place = panel if alike == self.panels.num_steps else remainder(step, panel, num_panels * alike)
            branch(step, place, "slt", num_panels)
        yield
        leave(step, outer)


def probe(dst: SSAValue, src: SSAValue, num_bytes: int) -> TdmaGatherScatter:
    """A read of a few bytes, which begins when they have been written: no more than there are."""
    once = dict.fromkeys(("rn1", "rn2", "rn3", "wn1", "wn2", "wn3"), 1)
    at = dict.fromkeys(("rs1", "rs2", "rs3", "ws1", "ws2", "ws3"), 0)
    return TdmaGatherScatter.make(fmt=Format.INT8, dst=dst, src=src, run_bytes=num_bytes, **once, **at)


def _mask(*engines: Engine) -> int:
    return sum(1 << e.value for e in engines)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
