"""Costs of a training step's pieces: each is compiled as any module is, for one chip or those that share tensors, and timed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import ChipMesh
from hlo2tx8.options import Options
from hlo2tx8.spmd.link_plan import LinkPlan
from hlo2tx8.spmd.scale_model import ParallelPlan, PieceCost, StepPieces
from hlo2tx8.tools.scale.llama import DP, TP, Llama, Piece, ends_step, gradients, is_shape, local_shapes, stage_step, sums, update

MOST_PARTS = 8
"""Parts of a gradient whose sum is compiled; that of more takes as long: they are as many bytes, in smaller parts."""

ONE = ChipMesh(1, 1)


def lowered(piece: Piece, axes: dict[str, int]) -> str:
    """StableHLO of a piece for a mesh with these axes, for one chip if there are none."""
    jax: Any = import_module("jax")
    function, arguments, given, made = piece
    if axes:
        mesh = jax.sharding.AbstractMesh(tuple(axes.values()), tuple(axes))
        function = jax.shard_map(function, mesh=mesh, in_specs=given, out_specs=made)
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cpu",)).as_text()


@dataclass(frozen=True)
class CompiledPiece:
    """Cycles of a piece's programs on each chip; bytes that it keeps in DDR; `plans` of what chips exchange, with bytes of an item
    of each operand, and how often."""

    cycles: float
    memory_bytes: float
    plans: tuple[tuple[LinkPlan, tuple[int, ...], int], ...] = ()

    def cost(self, mesh: ChipMesh, chip: Chip) -> PieceCost:
        """Its cost on the first chips of a mesh."""
        exchanges = ((each, times) for plan, items, times in self.plans for each in plan.exchanges(items, mesh, chip))
        links = sum(times * each.cycles for each, times in exchanges)
        return PieceCost(self.cycles + links, links, self.memory_bytes)


def compiled(text: str, count: int, options: Options) -> CompiledPiece:
    """A module, compiled for so many chips."""
    from hlo2tx8.runtime.compile import compile_source
    from hlo2tx8.spmd.chips import compile_chips_module
    from hlo2tx8.spmd.chips_module import module_for_chips

    module = module_for_chips(text, options, 0, count) if count > 1 else None
    if module is None:
        executable = compile_source(text, options)
        return CompiledPiece(executable.report.cycles, executable.memory_analysis()["temp_size_in_bytes"])
    local = compile_chips_module(module, options).local
    cycles = sum(times * program.report.cycles for program, times in local.programs)
    plans = tuple((s.plan, tuple(dtype.itemsize for _, dtype in s.results), times) for s, times in local.links)
    return CompiledPiece(cycles, local.memory_analysis()["temp_size_in_bytes"], plans)


@dataclass
class PieceCosts:
    """Compiles pieces of a model's step, each once; `watch` is told the name of each before."""

    model: Llama
    options: Options
    chip: Chip
    watch: Callable[[str], None] = lambda name: None
    known: dict[tuple[object, ...], CompiledPiece] = field(default_factory=dict[tuple[object, ...], CompiledPiece])

    def cost(self, name: str, piece: Callable[[], Piece], axes: dict[str, int], mesh: ChipMesh, *key: object) -> PieceCost:
        """The cost of a piece on the first chips of a mesh, which `key` and its name tell from others."""
        count = next(iter(axes.values()), 1)
        at = (name, tuple(axes.items()), *key)
        if at not in self.known:
            self.watch(f"{name} {' '.join(map(str, key))}")
            self.known[at] = compiled(lowered(piece(), axes if count > 1 else {}), count, self.options)
        return self.known[at].cost(mesh, self.chip)

    def of_layers(self, name: str, piece: Callable[[int], Piece], layers: int, axes: dict[str, int], mesh: ChipMesh) -> PieceCost:
        """The cost of a piece with so many layers, from those with one and with two."""
        one, two = (self.cost(name, partial(piece, n), axes, mesh, n) for n in (1, 2))
        return one if layers == 1 else one.of_layers(two, layers)

    def pieces(self, plan: ParallelPlan, batch: int) -> StepPieces:
        """All that a step by a plan needs, for microbatches of so many sequences."""
        model, tp, none = self.model, plan.tp, PieceCost(0.0)
        axes, mesh = {TP: tp}, ChipMesh.of(self.chip, plan.num_chips)
        layers, has_ends = -(-model.layers // plan.pp), plan.pp == 1

        def layered(name: str, piece: Callable[[int], Piece]) -> PieceCost:
            return self.of_layers(f"{name} of {batch}", piece, layers, axes, mesh)

        if has_ends:
            adds = plan.microbatches > 1
            both = layered(f"gradients{', added,' if adds else ''}", lambda n: gradients(model, tp, n, batch, adds=adds))
            forward, backward, first, last = none, both, none, none
        else:
            forward = layered("forward", lambda n: stage_step(model, tp, n, batch, is_forward=True))
            both = layered("stage", lambda n: stage_step(model, tp, n, batch, is_forward=False))
            backward = both + forward.times(-1) + PieceCost(self.chip.cycles.launch)
            first, last = (
                self.cost(name, lambda own=own: ends_step(model, tp, batch, is_first=own), axes, mesh, batch)
                for name, own in (("first", True), ("last", False))
            )
        parts = min(plan.dp, MOST_PARTS)
        after = self._update(layers, tp, has_ends=has_ends)
        adding = self._adding(layers, tp, parts, has_ends=has_ends) if parts > 1 else none
        summed = self.num_local(plan) * self.item_bytes
        moved = batch * model.sequence * model.hidden * self.item_bytes
        return StepPieces(forward, backward, first, last, after, adding, summed, moved)

    @property
    def item_bytes(self) -> int:
        """Of a parameter, and of an activation."""
        return int(import_module("jax").numpy.dtype(self.model.dtype).itemsize)

    def num_local(self, plan: ParallelPlan) -> int:
        """Parameters on a chip of the largest stage: the one with the head if there are several."""
        tree: Any = import_module("jax").tree
        shapes = local_shapes(self.model.shapes(-(-self.model.layers // plan.pp)), plan.tp)
        if plan.pp > 1:
            shapes.pop("table")
        return sum(map(prod, tree.leaves(shapes, is_leaf=is_shape)))

    def memory_bytes(self, plan: ParallelPlan, pieces: StepPieces, schedule: str) -> float:
        """What a chip keeps in DDR: parameters, gradients, two moments in f32, and what microbatches on their way keep."""
        on_their_way = 1 if plan.pp == 1 else plan.microbatches if schedule == "gpipe" else min(plan.pp, plan.microbatches)
        kept = max(pieces.backward.memory_bytes + pieces.forward.memory_bytes, 0.0)
        return self.num_local(plan) * (2 * self.item_bytes + 8) + on_their_way * kept

    def _update(self, layers: int, tp: int, *, has_ends: bool) -> PieceCost:
        """Of a stage's layers; the ends are half of what they are for both."""
        whole = self.of_layers(f"update, tp {tp},", partial(update, self.model, tp, has_ends=True), layers, {}, ONE)
        if has_ends:
            return whole
        inner = partial(update, self.model, tp, has_ends=False)
        return (whole + self.of_layers(f"update inside, tp {tp},", inner, layers, {}, ONE)).times(0.5)

    def _adding(self, layers: int, tp: int, parts: int, *, has_ends: bool) -> PieceCost:
        """The programs that add up parts of gradients, without links."""
        piece = partial(sums, self.model, tp, parts, has_ends=has_ends)
        both = self.of_layers(f"sums, tp {tp}{'' if has_ends else ', inside'},", piece, layers, {DP: parts}, ChipMesh(parts, 1))
        return PieceCost(both.cycles - both.link_cycles, 0.0, 0.0)
