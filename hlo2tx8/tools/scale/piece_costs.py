"""Costs of a training step's pieces: each is compiled as any module is, for one chip or those that share tensors, and timed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import ChipMesh
from hlo2tx8.hlo.signature import Port, port_of, signature_of
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.spmd.chips import chip_for, compile_chips_module
from hlo2tx8.spmd.chips_module import module_for_chips
from hlo2tx8.spmd.host_functions import HostFunctions
from hlo2tx8.spmd.link_plan import LinkPlan
from hlo2tx8.spmd.scale_model import NOTHING, BothWays, ParallelPlan, PieceCost, StepPieces
from hlo2tx8.spmd.segmented_executable import SegmentedExecutable, compile_segments
from hlo2tx8.spmd.segments import HostOp, HostStep, Segment, SegmentedRegion, cut_at_host_ops
from hlo2tx8.tools.scale.llama import DP, PP, TP, Llama, is_shape, local_shapes
from hlo2tx8.tools.scale.step_pieces import STAGES, Piece, ends_step, gradients, stage_step, sums, update

SEND = "stablehlo.collective_permute"
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
    """Cycles of a piece's programs on each chip; bytes that these have in DDR, and `kept_bytes` that later parts of the piece read;
    `plans` of what chips exchange, with bytes of an item of each operand, and how often."""

    cycles: float
    memory_bytes: float
    kept_bytes: float = 0.0
    plans: tuple[tuple[LinkPlan, tuple[int, ...], int], ...] = ()

    def cost(self, mesh: ChipMesh, chip: Chip) -> PieceCost:
        """Its cost on the first chips of a mesh."""
        exchanges = ((each, times) for plan, items, times in self.plans for each in plan.exchanges(items, mesh, chip))
        links = sum(times * each.cycles for each, times in exchanges)
        return PieceCost(self.cycles + links, links, self.memory_bytes, self.kept_bytes)


def compiled(text: str, count: int, options: Options) -> CompiledPiece:
    """A module, compiled for so many chips."""
    module = module_for_chips(text, options, 0, count) if count > 1 else None
    if module is None:
        executable = compile_source(text, options)
        return CompiledPiece(executable.report.cycles, executable.memory_analysis()["temp_size_in_bytes"])
    return _costs_of(compile_chips_module(module, options).local)


def compiled_both_ways(text: str, count: int, options: Options) -> tuple[CompiledPiece, CompiledPiece]:
    """A module for so many chips as the parts before and behind what each sends to another, without that."""
    module = module_for_chips(text, options, 0, count)
    assert module is not None, "what sends is for several chips"
    local = module.load()
    steps = cut_at_host_ops(local).steps
    at = next(n for n, step in enumerate(steps) if isinstance(step, HostOp) and step.op.name == SEND)
    before, behind = steps[:at], steps[at + 1 :]

    def cost(part: tuple[HostStep, ...]) -> CompiledPiece:
        region, chip = SegmentedRegion(part, ()), chip_for(module, options)
        return _costs_of(compile_segments(local, region, options, HostFunctions(), module.counts, lambda part, what: None, chip))

    return replace(cost(before), kept_bytes=_bytes_between(before, behind)), cost(behind)


def _bytes_between(before: Sequence[HostStep], after: Sequence[HostStep]) -> int:
    """Of the values that the steps behind read of those before."""
    read = {number for step in after for number in step.inputs}
    made = (pair for step in before for pair in zip(step.outputs, _ports(step), strict=True))
    return sum(port.size_bytes for number, port in made if number in read)


def _ports(step: HostStep) -> Sequence[Port]:
    """What a step makes."""
    if isinstance(step, Segment):
        return signature_of(step.module).outputs
    return [port_of(value.type) for value in step.op.results] if isinstance(step, HostOp) else []


def _costs_of(local: SegmentedExecutable) -> CompiledPiece:
    cycles = sum(times * program.report.cycles for program, times in local.programs)
    plans = tuple((s.plan, tuple(dtype.itemsize for _, dtype in s.results), times) for s, times in local.links)
    return CompiledPiece(cycles, local.memory_analysis()["temp_size_in_bytes"], plans=plans)


@dataclass
class PieceCosts:
    """Compiles pieces of a model's step, each once; `watch` is told the name of each before."""

    model: Llama
    options: Options
    chip: Chip
    watch: Callable[[str], None] = lambda name: None
    known: dict[tuple[object, ...], Sequence[CompiledPiece]] = field(
        default_factory=dict[tuple[object, ...], Sequence[CompiledPiece]]
    )

    def costs(self, name: str, piece: Callable[[], Piece], axes: dict[str, int], mesh: ChipMesh, *key: object) -> list[PieceCost]:
        """The cost of a piece on the first chips of a mesh, which `key` and its name tell from others; of both ways if it sends."""
        count = prod(axes.values())
        at = (name, tuple(axes.items()), *key)
        if at not in self.known:
            self.watch(f"{name} {' '.join(map(str, key))}")
            text = lowered(piece(), axes if count > 1 else {})
            sends = compiled_both_ways(text, count, self.options) if PP in axes else (compiled(text, count, self.options),)
            self.known[at] = sends
        return [part.cost(mesh, self.chip) for part in self.known[at]]

    def of_layers(
        self, name: str, piece: Callable[[int], Piece], layers: int, axes: dict[str, int], mesh: ChipMesh
    ) -> list[PieceCost]:
        """As `costs`, of a piece with so many layers, from those with one and with two."""
        one = self.costs(name, partial(piece, 1), axes, mesh, 1)
        if layers == 1:
            return one
        two = self.costs(name, partial(piece, 2), axes, mesh, 2)
        return [first.of_layers(second, layers) for first, second in zip(one, two, strict=True)]

    def pieces(self, plan: ParallelPlan, batch: int, *, has_ends: bool = True) -> StepPieces:
        """All that a step by a plan needs, for microbatches of so many sequences; of stages without the ends of the model too."""
        mesh, parts, tp = ChipMesh.of(self.chip, plan.num_chips), min(plan.dp, MOST_PARTS), plan.tp
        ends = num_ends(plan) if has_ends else 0
        layers = self._layers(plan, batch, mesh)
        first, last = self._ends(plan, batch, mesh) if ends == 1 else ((NOTHING, NOTHING), (NOTHING, NOTHING))
        after = self._of_ends(f"update, tp {tp}", partial(update, self.model, tp), plan, ends, {}, ONE)
        adding = NOTHING
        if parts > 1:
            piece = partial(sums, self.model, tp, parts)
            both = self._of_ends(f"sums, tp {tp}", piece, plan, ends, {DP: parts}, ChipMesh(parts, 1))
            adding = PieceCost(both.cycles - both.link_cycles)
        summed = self.num_local(plan, ends) * self.item_bytes
        return StepPieces(layers, first, last, after, adding, summed, self.activation_bytes(batch))

    @property
    def item_bytes(self) -> int:
        """Of a parameter, and of an activation."""
        return int(import_module("jax").numpy.dtype(self.model.dtype).itemsize)

    def activation_bytes(self, batch: int) -> int:
        """Of what a stage sends."""
        return batch * self.model.sequence * self.model.hidden * self.item_bytes

    def num_local(self, plan: ParallelPlan, ends: int) -> int:
        """Parameters on a chip of the largest stage: the one with the head if it has one of the ends."""
        tree: Any = import_module("jax").tree
        shapes = local_shapes(self.model.shapes(-(-self.model.layers // plan.pp), has_ends=ends > 0), plan.tp)
        if ends == 1:
            shapes.pop("table")
        return sum(map(prod, tree.leaves(shapes, is_leaf=is_shape)))

    def memory_bytes(self, plan: ParallelPlan, pieces: StepPieces, schedule: str) -> float:
        """What a chip has in DDR: parameters, gradients, two moments in f32, what programs need while they run, and of each
        microbatch on its way what came in and what goes from the forward program to the backward one."""
        own = self.num_local(plan, num_ends(plan)) * (2 * self.item_bytes + 8)
        forward, backward = pieces.layers
        if plan.pp == 1:
            return own + backward.memory_bytes
        on_their_way = plan.microbatches if schedule == "gpipe" else min(plan.pp, plan.microbatches)
        running = max(forward.memory_bytes - forward.kept_bytes, backward.memory_bytes)
        return own + running + on_their_way * (forward.kept_bytes + pieces.activation_bytes)

    def _layers(self, plan: ParallelPlan, batch: int, mesh: ChipMesh) -> BothWays:
        """A microbatch in all layers of a stage."""
        model, tp, count = self.model, plan.tp, -(-self.model.layers // plan.pp)
        if plan.pp > 1:
            forward, backward = self.of_layers(
                f"stage of {batch}", lambda n: stage_step(model, tp, n, batch), count, {PP: STAGES, TP: tp}, mesh
            )
            return forward, backward
        adds = plan.microbatches > 1
        name = f"gradients{', added,' if adds else ''} of {batch}"
        return NOTHING, self.of_layers(name, lambda n: gradients(model, tp, n, batch, adds=adds), count, {TP: tp}, mesh)[0]

    def _ends(self, plan: ParallelPlan, batch: int, mesh: ChipMesh) -> tuple[BothWays, BothWays]:
        """What the first and the last stage do besides; the last one does its part both ways when it goes backwards."""
        piece = partial(ends_step, self.model, plan.tp, batch)
        entry, back = self.costs("first", partial(piece, is_first=True), {PP: STAGES, TP: plan.tp}, mesh, batch)
        (last,) = self.costs("last", partial(piece, is_first=False), {TP: plan.tp}, mesh, batch)
        return (entry, back), (NOTHING, last)

    def _of_ends(
        self, name: str, piece: Callable[..., Piece], plan: ParallelPlan, ends: int, axes: dict[str, int], mesh: ChipMesh
    ) -> PieceCost:
        """A piece of a stage with so many ends; one is half of what both are."""
        layers = -(-self.model.layers // plan.pp)

        def found(inside: str, *, has_ends: bool) -> PieceCost:
            return self.of_layers(f"{name}{inside},", partial(piece, has_ends=has_ends), layers, axes, mesh)[0]

        kinds = [found("" if each else ", inside", has_ends=each) for each in (True, False) if ends != (0 if each else 2)]
        return sum(kinds, NOTHING).times(1 / len(kinds))


def num_ends(plan: ParallelPlan) -> int:
    """How many ends of the model the largest stage has."""
    return 2 if plan.pp == 1 else 1
