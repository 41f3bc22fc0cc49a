"""The time of a step of training on many chips, from the cycles of its pieces on one chip and of what chips exchange.

Chips are (stage of the pipeline, replica, part of tensors), the last innermost, so parts of a tensor are on neighbours. A step is

    one stage        microbatches one after another, the sum of gradients over replicas, the update
    several stages   their microbatches in the order of a schedule, activations and gradients between neighbours, then the same

Nothing overlaps that does not on the machine: exchanges wait for programs, and programs for exchanges.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from math import prod
from typing import Literal, get_args

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import ChipMesh, Packet, exchange
from hlo2tx8.device.group_exchange import group_exchange

PipelineSchedule = Literal["gpipe", "1f1b"]
SCHEDULES: tuple[str, ...] = get_args(PipelineSchedule)


@dataclass(frozen=True)
class ParallelPlan:
    """How chips share a step: replicas of the batch, parts of tensors, stages of layers; microbatches of each replica."""

    dp: int
    tp: int
    pp: int
    microbatches: int

    @property
    def num_chips(self) -> int:
        """All."""
        return self.dp * self.tp * self.pp

    def chip_number(self, stage: int, replica: int, part: int) -> int:
        """That of a chip in the mesh."""
        return (stage * self.dp + replica) * self.tp + part

    @cached_property
    def replica_groups(self) -> list[list[int]]:
        """The chips that add up the same gradients."""
        replicas = range(self.dp)
        return [[self.chip_number(s, r, t) for r in replicas] for s in range(self.pp) for t in range(self.tp)]

    def is_in_rectangles(self, mesh: ChipMesh) -> bool:
        """Are the parts of each tensor on a rectangle of the mesh, so that their ways are alike, and none takes another's links?"""
        width = mesh.block[0] or mesh.columns
        columns = min(self.tp, width)
        return not self.tp % columns and not width % columns and (not mesh.block[0] or prod(mesh.block) % self.tp == 0)


@dataclass(frozen=True)
class PieceCost:
    """Cycles of a piece on each chip, `link_cycles` of them in exchanges of parts of tensors; bytes that its programs have in DDR,
    and `kept_bytes` of them that a later piece reads."""

    cycles: float
    link_cycles: float = 0.0
    memory_bytes: float = 0.0
    kept_bytes: float = 0.0

    def __add__(self, other: "PieceCost") -> "PieceCost":
        return PieceCost(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def times(self, factor: float) -> "PieceCost":
        """So many of it, one after another."""
        return PieceCost(*(factor * mine for mine in astuple(self)))

    def of_layers(self, two: "PieceCost", layers: int) -> "PieceCost":
        """The cost of so many layers, where this is the cost of one, and `two` of two of them."""
        return self + (two + self.times(-1)).times(layers - 1)


NOTHING = PieceCost(0.0)
BothWays = tuple[PieceCost, PieceCost]
"""Forwards and backwards."""


@dataclass(frozen=True)
class StepPieces:
    """The costs of one microbatch on each chip: of a stage's `layers`, and of the ends of the model, `first` and `last`; of one
    stage, backwards is all of that. The `update` of the largest stage, the programs that are `adding` parts of gradients, bytes
    of gradients that a chip has, and of activations between stages."""

    layers: BothWays
    first: BothWays
    last: BothWays
    update: PieceCost
    adding: PieceCost
    summed_bytes: float
    activation_bytes: int


@dataclass(frozen=True)
class StepTime:
    """Cycles of a step, and of what they are: programs of the busiest chip, exchanges of parts of tensors, of stages and of
    replicas, stages that wait (`bubble`), the update."""

    cycles: float
    programs: float
    tensor_links: float
    stage_links: float
    replica_links: float
    bubble: float
    update: float


def step_time(pieces: StepPieces, plan: ParallelPlan, mesh: ChipMesh, chip: Chip, schedule: PipelineSchedule) -> StepTime:
    """The time of a step by this plan on a mesh of chips."""
    summed, count = sum_cycles(pieces.summed_bytes, plan, mesh, chip), plan.microbatches
    if plan.pp == 1:
        whole = pieces.layers[1]
        busy, links, sent, total = whole.times(count), whole.link_cycles * count, 0.0, whole.cycles * count
    else:
        ends = [pieces.first, *[(NOTHING, NOTHING)] * (plan.pp - 2), pieces.last]
        forward, backward = ([layers + end[way] for end in ends] for way, layers in enumerate(pieces.layers))
        hop = stage_cycles(pieces.activation_bytes, plan, mesh, chip)
        total = pipeline_cycles([each.cycles for each in forward], [each.cycles for each in backward], hop, count, schedule)
        busiest = max((one + other for one, other in zip(forward, backward, strict=True)), key=lambda each: each.cycles)
        busy, links, sent = busiest.times(count), busiest.link_cycles * count, 2 * count * hop
    after = summed + pieces.adding.cycles + pieces.update.cycles
    bubble = max(0.0, total - busy.cycles - sent)
    programs = busy.cycles - links + pieces.adding.cycles
    return StepTime(total + after, programs, links, min(sent, total - busy.cycles), summed, bubble, pieces.update.cycles)


def sum_cycles(num_bytes: float, plan: ParallelPlan, mesh: ChipMesh, chip: Chip) -> float:
    """Cycles on the links of the sum of gradients: a part to each replica, which adds it up, and its result to
    all; or all to each, what is faster."""
    if plan.dp == 1:
        return 0.0
    part, groups = -(-int(num_bytes) // plan.dp), plan.replica_groups
    ways = (group_exchange(groups, part, mesh, chip, is_multicast=each) for each in (False, True))
    return min(sum(way.cycles for way in ways), group_exchange(groups, int(num_bytes), mesh, chip, is_multicast=True).cycles)


def stage_cycles(num_bytes: int, plan: ParallelPlan, mesh: ChipMesh, chip: Chip) -> float:
    """Cycles in which every stage sends its activations to the next one."""
    number = plan.chip_number
    chips = ((s, r, t) for s in range(plan.pp - 1) for r in range(plan.dp) for t in range(plan.tp))
    return exchange([Packet(number(s, r, t), (number(s + 1, r, t),), num_bytes) for s, r, t in chips], mesh, chip).cycles


def pipeline_cycles(
    forward: Sequence[float], backward: Sequence[float], hop: float, microbatches: int, schedule: PipelineSchedule
) -> float:
    """Cycles until every stage has done all microbatches, forwards and backwards; `hop` is what sending takes, in which a stage
    computes nothing.

    gpipe   all microbatches forwards, then all backwards
    1f1b    as few forwards as keep later stages busy, then one backwards and one forwards in turns
    """
    stages = len(forward)
    orders = [task_order(stage, stages, microbatches, schedule) for stage in range(stages)]
    ends: dict[tuple[bool, int, int], float] = {}
    free, done = [0.0] * stages, [0] * stages
    while any(done[s] < len(orders[s]) for s in range(stages)):
        for s in range(stages):
            while done[s] < len(orders[s]):
                is_forward, number = orders[s][done[s]]
                before = s - 1 if is_forward else s + 1
                is_fed = 0 <= before < stages
                arrived = ends.get((is_forward, number, before)) if is_fed else 0.0
                if arrived is None:
                    break
                length = forward[s] if is_forward else backward[s]
                sends = 0 <= (s + 1 if is_forward else s - 1) < stages
                free[s] = max(free[s], arrived) + length + (hop if sends else 0.0)
                ends[is_forward, number, s] = free[s]
                done[s] += 1
    return max(free)


def task_order(stage: int, stages: int, microbatches: int, schedule: PipelineSchedule) -> list[tuple[bool, int]]:
    """What a stage does: (forwards?, number of the microbatch)."""
    forwards, backwards = ([(kind, n) for n in range(microbatches)] for kind in (True, False))
    ahead = microbatches if schedule == "gpipe" else min(microbatches, stages - stage)
    turns = [task for pair in zip(backwards, forwards[ahead:], strict=False) for task in pair]
    return [*forwards[:ahead], *turns, *backwards[microbatches - ahead :]]
