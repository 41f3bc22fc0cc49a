"""Group emitter: attention and the product that reads it as one kernel.

    %0 = hlo.group phases (%x, %wq, %wk, %wv) { q, k and v, attention }      8 sequences, 12 heads
    %1 = hlo.fusion "add_fusion"(%0, %w, %x)

On the mesh tile (r, c) has attended for rows r with the heads of columns c: what the product needs of it goes from there to the
tiles of its mesh row, as between other products (`lower.dma.keep_results`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import inf

from xdsl.dialects.builtin import ModuleOp, UnitAttr

from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.dialects.xla import BRINGS_EARLY, ENTRY
from hlo2tx8.emitters import emit_fusion
from hlo2tx8.emitters.choose_plan import Chooser, Fastest, FirstThatFits, Judge, Named
from hlo2tx8.emitters.emitter import Match
from hlo2tx8.emitters.gemm import GemmEmitter
from hlo2tx8.emitters.head_phases import cycles_of_parts, emit_head_phases
from hlo2tx8.emitters.joined_kernels import JoinedKernels, timed_kernels
from hlo2tx8.emitters.phase_group import join_phases
from hlo2tx8.emitters.product_phases import DEPTHS, num_steps, reads_addend, ways_of
from hlo2tx8.errors import CapacityError
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.plan import Candidate
from hlo2tx8.schedule.work_split import Residence, Target

MOST_STEPS = 2
"""Of a tile's rows in the projection that are tried."""
BEHIND = " | "
"""Between the names of a plan of the attention and of one of the projection."""


class ProjectionApartError(CapacityError):
    """Attention and its projection are not one kernel; what is in front of them may be with the attention."""


@dataclass(frozen=True)
class _Projection:
    """A way to compute the projection; what is added to it may be loaded early."""

    way: Candidate[Match]
    brings_early: bool

    @property
    def name(self) -> str:
        return self.way.name + ", what is added comes early" * self.brings_early


def is_of_projection(group: GroupOp) -> bool:
    """Is it a group of phases, the first of which are a group, and the last a product that reads it?"""
    first, second, *_ = (*group.body.block.ops, None)
    return group.phases is not None and isinstance(first, GroupOp) and first.phases is not None and isinstance(second, FusionOp)


def emit_projection_phases(
    group: GroupOp, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of a group of attention as phases and of the product that reads it.

    `notes` gets a line per plan; `chooser` says which of them is taken. CapacityError if none fits the scratchpad, or the two apart
    are modelled to be as fast.
    """
    notes, chooser = [] if notes is None else notes, chooser or FirstThatFits()
    attention, projection, *_ = group.body.block.ops
    assert isinstance(attention, GroupOp) and isinstance(projection, FusionOp)
    own = _ProjectedAttention(
        group, name, attention, replace(target, is_joined=True), list(_ways(attention, projection, f"{name}_1", target))
    )
    if not own.ways:
        raise CapacityError("E3101", f"{name}: the product behind its attention does not fit the scratchpad as a phase")
    if isinstance(chooser, FirstThatFits) and chooser.time is not None:
        kernel, way, cycles = own.fastest(timed_kernels(chooser.time)[0], chooser.time, notes)
        apart = inf if target.is_joined else _apart(attention, projection, name, target, chooser.time)
        if cycles >= apart:
            figures = f"modelled to take {apart:,.0f} cycles apart, as phases {cycles:,.0f}"
            raise CapacityError("E3101", f"{name}: attention and its projection are {figures}")
        if chooser.judge(kernel).why:
            raise CapacityError("E3101", f"{name}: attention and its projection do not fit the scratchpad")
    elif isinstance(chooser, Fastest):
        kernel, way = own.searched(chooser, notes)
    else:
        kernel, way = own.first(chooser, notes)
    notes.append(f"{name}: group emitter, attention and its projection as phases, {way.name} behind it")
    return kernel


@dataclass(frozen=True)
class _ProjectedAttention:
    """The phases of a group, and the `ways` to compute its last one."""

    group: GroupOp
    name: str
    attention: GroupOp
    target: Target
    ways: list[_Projection]

    def first(self, chooser: Chooser, notes: list[str]) -> tuple[ModuleOp, _Projection]:
        """The kernel that is chosen of those with the first way to compute the projection, or the one of a name."""
        way = self.ways[0]
        if isinstance(chooser, Named):
            name, _, last = chooser.name.partition(BEHIND)
            way = next((own for own in self.ways if own.name == last), way)
            chooser = replace(chooser, name=name)
        both = JoinedKernels(chooser, partial(self._joined, way))
        return both.joined(self._emit(both.chooser(), notes)), way

    def fastest(self, chooser: Chooser, time: Judge, notes: list[str]) -> tuple[ModuleOp, _Projection, float]:
        """The kernel of the attention that is chosen and of the projection that is fastest behind it, and its modelled cycles."""
        is_part = isinstance(self.group.parent_op(), GroupOp)  # then all of a group is timed, of which this is one kernel
        both, found = JoinedKernels(chooser, partial(self._joined, self.ways[0])), list[tuple[float, _Projection]]()
        attention = self._emit(both.chooser() if is_part else chooser, notes)
        for way in self.ways:
            its = time(self._joined(way, attention))
            cycles = its.cycles if 0 < its.spm_bytes <= self.target.rates.spm_bytes and not its.why else inf
            notes.append(f"{self.name}: {way.name} behind it: {f'{cycles:,.0f} modelled' if cycles < inf else 'does not fit'}")
            found.append((cycles, way))
        cycles, way = min(found, key=lambda own: own[0])
        return self._joined(way, attention), way, cycles

    def searched(self, chooser: Fastest, notes: list[str]) -> tuple[ModuleOp, _Projection]:
        """The fastest kernel of all ways to attend with all ways to compute the projection."""
        found: list[tuple[float, int, str, ModuleOp]] = []
        for number, way in enumerate(self.ways):
            own = Fastest(chooser.time, asks_all=chooser.asks_all)
            both = JoinedKernels(own, partial(self._joined, way))
            try:
                kernel = both.joined(self._emit(both.chooser(), notes))
                found.append((own.cycles, number, f"{own.name}{BEHIND}{way.name}", kernel))
            except CapacityError as error:
                notes.append(f"{self.name}: {way.name} behind it: {error.message}")
        if not found:
            raise CapacityError("E3101", f"{self.name}: attention and its projection do not fit the scratchpad")
        cycles, number, name, kernel = min(found)
        if cycles < chooser.cycles:
            chooser.name, chooser.cycles = name, cycles
        return kernel, self.ways[number]

    def _emit(self, chooser: Chooser, notes: list[str]) -> ModuleOp:
        return emit_head_phases(self.attention, f"{self.name}_0", self.target, notes, chooser)

    def _joined(self, way: _Projection, attention: ModuleOp) -> ModuleOp:
        """Both as one kernel; that of the attention stays as it is."""
        module = join_phases(self.group, self.name, [cloned(attention), GemmEmitter().emit(way.way.choice)])
        if way.brings_early:
            entry = next(op for op in module.body.block.ops if ENTRY in op.attributes)
            entry.attributes[BRINGS_EARLY] = UnitAttr()
        return module


def _ways(attention: GroupOp, projection: FusionOp, name: str, target: Target) -> Iterator[_Projection]:
    """The ways to compute the projection: the best of as few steps as there is one of, and of more where all are searched for, each
    with what is added early or not."""
    operand, share = list(projection.operands).index(attention.results[0]), size_bytes(attention.results[0]) // target.rates.tiles
    stays = Residence(frozenset({operand}), keeps_result=False, kept_bytes=share, most_depth=DEPTHS[0])
    found = ways_of(projection, name, replace(target, residence=stays, rows_bytes=0))
    first = {num_steps(way): way for way in reversed(found)}
    steps = [number for number in range(1, MOST_STEPS + 1) if number in first]
    for number, early in product(steps if target.is_searched else steps[:1], (False, True)):
        if not early or reads_addend(projection):
            yield _Projection(first[number], early)


def _apart(attention: GroupOp, projection: FusionOp, name: str, target: Target, time: Judge) -> float:
    """Modelled cycles of attention as phases, or not, and of its projection as kernels of their own."""
    chooser, seen = timed_kernels(time)
    emit_fusion(projection, name, target, [], chooser)
    cycles = seen[-1]
    try:
        emit_head_phases(attention, name, target, [], chooser)
        return cycles + seen[-1]
    except CapacityError:
        products, rows, *_ = attention.body.block.ops
        assert isinstance(products, FusionOp) and isinstance(rows, GroupOp)
        return cycles + cycles_of_parts(products, rows, name, target, time)
