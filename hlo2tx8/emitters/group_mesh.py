"""The mesh that a group of phases is computed on: the chip's own, or its tiles as one of another shape.

    12 heads, 4 rows of 4 tiles              6 heads, 8 rows of 2 tiles
      (0, 0) (0, 1) (0, 2) (0, 3)              (0, 0) (0, 1) (1, 0) (1, 1)
      (1, 0) ...                               (2, 0) ...

Tile (r, c) has rows r and columns c of what products make, heads say, and what it makes stays with it if those are whole blocks,
as many for each. A mesh row is then a half of one of the chip, a mesh column two of them. All phases of a kernel have the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.nested import nested_of, ops_of
from hlo2tx8.emitters.choose_plan import Chooser, Fastest, FirstThatFits, Judge, Named
from hlo2tx8.emitters.head_phases import is_of_heads
from hlo2tx8.emitters.joined_kernels import timed_kernels
from hlo2tx8.emitters.product_phases import is_of_products
from hlo2tx8.errors import CapacityError
from hlo2tx8.fusion.head_phases import meshes_of_heads
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.schedule.resident_split import has_even_columns
from hlo2tx8.schedule.work_split import Target

Emit: TypeAlias = Callable[[Target, list[str], Chooser], ModuleOp]
"""Emits a group for a target, with notes, as a chooser says."""


def meshes_of(group: GroupOp, rates: Rates) -> Sequence[Rates]:
    """The meshes that a group may be computed on, at least one. Of products it is the chip's own, unless tiles of that do not have
    as many columns of a result."""
    groups = [op for op in (group, *nested_of(group, GroupOp)) if op.phases is not None]
    for own in groups:
        if is_of_heads(own):
            product, attention, *_ = own.body.block.ops
            assert isinstance(product, FusionOp) and isinstance(attention, GroupOp)
            return meshes_of_heads(product, attention, rates)[:1] or (rates,)
    shapes = [shape_of(op.results[0]) for own in groups if is_of_products(own) for op in ops_of(own.body.block)[:-1]]
    return (rates,) if all(has_even_columns(shape, rates) for shape in shapes) else rates.meshes


def emit_on_mesh(name: str, targets: Sequence[Target], notes: list[str], chooser: Chooser, emit: Emit) -> ModuleOp:
    """What `emit` makes of a group of that name for the target for which it is fastest, or for the first where nobody knows; the
    error for the first if there is an error for each."""
    if len(targets) == 1:
        return emit(targets[0], notes, chooser)
    match chooser:
        case Fastest():
            return _searched(targets, notes, chooser, emit)
        case Named(plan):
            target = next((own for own in targets if plan.startswith(_prefix(own))), targets[0])
            return emit(target, notes, replace(chooser, name=plan.removeprefix(_prefix(target))))
        case FirstThatFits() if chooser.time is not None:
            return _timed(name, targets, notes, chooser, chooser.time, emit)
        case _:
            return emit(targets[0], notes, chooser)


def _prefix(target: Target) -> str:
    """What the names of plans for a mesh begin with."""
    return f"on {target.rates.mesh_rows} rows of {target.rates.mesh_columns} tiles: "


def _timed(name: str, targets: Sequence[Target], notes: list[str], chooser: FirstThatFits, time: Judge, emit: Emit) -> ModuleOp:
    """The kernel for the target for which the one that is chosen is modelled to be the fastest."""
    found: list[tuple[float, int, ModuleOp]] = []
    errors, said = list[CapacityError](), [list[str]() for _ in targets]
    for number, target in enumerate(targets):
        timed, seen = timed_kernels(time)
        try:
            kernel = emit(target, said[number], timed)
            found.append((seen[-1], number, kernel))
        except CapacityError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    cycles, best, kernel = min(found, key=lambda own: own[:2])
    known = chooser.judge(kernel)
    if known.why or known.spm_bytes > targets[best].rates.spm_bytes:
        raise CapacityError("E3101", known.why or f"{known.spm_bytes} bytes do not fit the scratchpad")
    notes += said[best]
    slower = [f", {own:,.0f} {_prefix(targets[number])[:-2]}" for own, number, _ in found if number != best]
    notes.append(f"{name}: {_prefix(targets[best])}{cycles:,.0f} cycles modelled{''.join(slower)}")
    return kernel


def _searched(targets: Sequence[Target], notes: list[str], chooser: Fastest, emit: Emit) -> ModuleOp:
    """The fastest kernel for all targets."""
    found: list[tuple[float, int, ModuleOp]] = []
    errors: list[CapacityError] = []
    for number, target in enumerate(targets):
        own, said = Fastest(chooser.time, asks_all=chooser.asks_all), list[str]()
        try:
            kernel = emit(target, said, own)
            found.append((own.cycles, number, kernel))
        except CapacityError as error:
            errors.append(error)
        else:
            if own.cycles < chooser.cycles:
                chooser.name, chooser.cycles = _prefix(target) + own.name, own.cycles
        parts = (line.partition(": ") for line in said)
        notes += [f"{its}{between}{_prefix(target)}{rest}" for its, between, rest in parts]
    if not found:
        raise errors[0]
    return min(found, key=lambda own: own[:2])[2]
