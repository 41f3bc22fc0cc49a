"""The full search: what is the fastest way to compute a fusion or a group that the emitters and the groups know.

A fusion is a kernel by the fastest candidate of all emitters that take it. A group is one kernel, or two parts of it are searched
for apart, wherever it can be cut; so every way to make kernels of a chain is compared. Fusions are not: see decision 0035.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Protocol, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.emitters import emit_fusion
from hlo2tx8.emitters.band_group import emit_band_group
from hlo2tx8.emitters.band_phases import emit_band_phases, is_of_bands
from hlo2tx8.emitters.choose_plan import Chooser, Fastest
from hlo2tx8.emitters.group_mesh import emit_on_mesh, meshes_of
from hlo2tx8.emitters.head_phases import emit_head_phases, is_of_heads
from hlo2tx8.emitters.norm_phases import emit_norm_phases, is_of_norm
from hlo2tx8.emitters.phase_group import emit_phase_group
from hlo2tx8.emitters.product_phases import emit_product_phases, is_of_products
from hlo2tx8.emitters.projection_phases import emit_projection_phases, is_of_projection
from hlo2tx8.emitters.row_group import emit_row_group
from hlo2tx8.errors import CompileError
from hlo2tx8.fusion.take_apart import num_fusions, parts_of
from hlo2tx8.fusion.views import is_view
from hlo2tx8.hlo.fingerprint import content_key
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.plan import Feasibility
from hlo2tx8.schedule.work_split import Target

Timer: TypeAlias = Callable[[ModuleOp, int], Feasibility]
"""Lowers and times a kernel; of one for several tiles, with the cycles that it takes these to meet others."""
NAME = "kernel"
"""Of kernels that are lowered to be timed."""


@dataclass(frozen=True)
class Found:
    """The fastest way: the `plan` of one kernel, or `cut` fusions of a group and the others apart; modelled `cycles`, infinite if
    there is no way. `lines` explain it."""

    plan: str
    cut: int
    cycles: float
    lines: tuple[str, ...]

    def explain(self, name: str) -> list[str]:
        """The lines, of a kernel of that name."""
        return [f"{name}: {line}" for line in self.lines]


class FoundPlans(Protocol):
    """Where what was found is kept, by content."""

    def get(self, key: str) -> Found | None:
        """What was found before, None if nothing was."""
        ...

    def put(self, key: str, found: Found) -> None:
        """Keep it."""
        ...


@dataclass(frozen=True)
class KernelSearch:
    """Searches by lowering and timing kernels; `begin` hears of each fusion and group that is searched for."""

    time: Timer
    known: FoundPlans
    begin: Callable[[Operation], None]

    def find(self, op: Operation, target: Target) -> Found:
        """The fastest way to compute a fusion or a group."""
        if isinstance(op, FusionOp) and is_view(op):
            return Found("", 0, 0.0, ())
        key = content_key(op, target)
        found = self.known.get(key)
        if found is None:
            self.begin(op)
            found = self._find_group(op, target) if isinstance(op, GroupOp) else self._find_kernel(op, target)
            self.known.put(key, found)
        return found

    def _find_kernel(self, op: Operation, target: Target) -> Found:
        fastest, notes = Fastest(lambda kernel: self.time(kernel, target.meeting)), list[str]()
        try:
            emit(op, NAME, target, notes, fastest)
        except CompileError as error:
            return Found("", 0, inf, (error.message,))
        lines = [note.removeprefix(f"{NAME}: ") for note in notes]
        summary = f"{fastest.name} is the fastest, {fastest.cycles:,.0f} cycles modelled"
        return Found(fastest.name, 0, fastest.cycles, (*lines, summary))

    def _find_group(self, op: GroupOp, target: Target) -> Found:
        best = self._find_kernel(op, target)
        lines = list(best.lines)
        count = num_fusions(op)
        for at in range(1, count):
            parts = parts_of(op, at, target)
            cycles, is_least = least_apart(parts, target.rates), True
            if cycles < best.cycles:
                found = [self.find(part, _inside(target, feeds=target.feeds_batches and part is parts[-1])) for part in parts]
                cycles, is_least = sum(own.cycles for own in found), False
            verb = "take at least" if is_least else "take"
            lines.append(f"{at} and {count - at} of its fusions apart {verb} {cycles:,.0f} cycles")
            if cycles < best.cycles:
                best = Found("", at, cycles, ())
        return Found(best.plan, best.cut, best.cycles, tuple(lines))


def least_apart(parts: Sequence[Operation], rates: Rates) -> float:
    """Cycles that parts of a chain take at least: what is between them is written and read, and the last result is written."""
    moved = sum(2 * size_bytes(value) for part in parts[:-1] for value in part.results)
    return (moved + sum(map(size_bytes, parts[-1].results))) / rates.ddr


def _inside(target: Target, *, feeds: bool) -> Target:
    """For a part of a group, which others wait for."""
    return replace(target, meeting=target.rates.barrier, feeds_batches=feeds)


def emit(op: Operation, name: str, target: Target, notes: list[str], chooser: Chooser) -> ModuleOp:
    """The LOOPS module of a fusion, or of a group as one kernel, of phases on the mesh on which it is fastest."""
    if not isinstance(op, GroupOp):
        return emit_fusion(op, name, target, notes, chooser)
    targets = [replace(target, rates=rates) for rates in meshes_of(op, target.rates)]
    return emit_on_mesh(name, targets, notes, chooser, partial(_emit_group, op, name))


def _emit_group(op: GroupOp, name: str, target: Target, notes: list[str], chooser: Chooser) -> ModuleOp:
    if is_of_projection(op):
        return emit_projection_phases(op, name, target, notes, chooser)
    if is_of_norm(op):
        return emit_norm_phases(op, name, target, notes, chooser)
    if is_of_heads(op):
        return emit_head_phases(op, name, target, notes, chooser)
    if is_of_bands(op):
        return emit_band_phases(op, name, target, notes, chooser)
    if op.phases is not None and is_of_products(op):
        return emit_product_phases(op, name, target, notes, chooser)
    if op.phases is not None:
        return emit_phase_group(op, name, target, notes, chooser)
    return (emit_band_group if op.band_rows is not None else emit_row_group)(op, name, target, notes, chooser)
