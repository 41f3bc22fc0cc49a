"""The model of steps on many chips: exchanges of groups are those of their packets, schedules take what they take by hand."""

import itertools

import pytest

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.chip_links import ChipMesh, Packet, exchange
from hlo2tx8.device.group_exchange import group_exchange
from hlo2tx8.spmd.scale_model import (
    NOTHING,
    ParallelPlan,
    PieceCost,
    StepPieces,
    pipeline_cycles,
    stage_cycles,
    step_time,
    sum_cycles,
    task_order,
)

CHIP = load_chip("")
ENDS = (NOTHING, NOTHING)
PLAIN = [ChipMesh(1, 1), ChipMesh(2, 1), ChipMesh(4, 2), ChipMesh(4, 4), ChipMesh(6, 3)]
MESHES = [*PLAIN, ChipMesh(4, 4, (True, True), (2, 2)), ChipMesh(5, 2, (True, False))]


@pytest.mark.parametrize(
    "mesh",
    [
        ChipMesh(1, 1),
        ChipMesh(2, 1),
        ChipMesh(4, 2),
        ChipMesh(4, 4),
        ChipMesh(6, 3),
        ChipMesh(4, 4, (True, True), (2, 2)),
        ChipMesh(5, 2, (True, False)),
    ],
)
@pytest.mark.parametrize("is_multicast", [False, True])
@pytest.mark.parametrize("num_bytes", [1, 1000, 1234567])
def test_groups_take_as_long_as_their_packets(mesh: ChipMesh, is_multicast: bool, num_bytes: int) -> None:
    count = mesh.columns * mesh.rows
    for stride in (n for n in range(1, count + 1) if count % n == 0):
        groups = [list(range(first, count, stride)) for first in range(stride)]
        packets = [
            Packet(source, targets, num_bytes)
            for group in groups
            for source in group
            for targets in ([tuple(group)] if is_multicast else [(target,) for target in group])
        ]
        followed = exchange(packets, mesh, CHIP)
        counted = group_exchange(groups, num_bytes, mesh, CHIP, is_multicast=is_multicast)
        assert counted.cycles == pytest.approx(followed.cycles)
        assert (counted.hops, counted.busiest_bytes) == (followed.hops, max(followed.loads.values(), default=0))


def test_chips_of_a_plan_are_each_in_one_group() -> None:
    plan = ParallelPlan(3, 2, 4, 8)
    chips = [plan.chip_number(s, r, t) for s, r, t in itertools.product(range(4), range(3), range(2))]
    assert chips == list(range(plan.num_chips)) == sorted(itertools.chain(*plan.replica_groups))
    assert plan.replica_groups[1] == [1, 3, 5]


def test_parts_of_tensors_are_a_rectangle() -> None:
    assert ParallelPlan(2, 8, 1, 1).is_in_rectangles(ChipMesh(4, 4))
    assert ParallelPlan(8, 4, 1, 1).is_in_rectangles(ChipMesh(8, 4))
    assert ParallelPlan(4, 4, 1, 1).is_in_rectangles(ChipMesh(4, 4, block=(2, 2)))
    assert not ParallelPlan(1, 6, 2, 1).is_in_rectangles(ChipMesh(4, 3))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "count"), [(1, 1), (2, 1), (4, 8), (8, 3)])
def test_equal_stages_wait_as_the_formula_says(schedule: str, stages: int, count: int) -> None:
    found = pipeline_cycles([10.0] * stages, [20.0] * stages, 0.0, count, schedule)  # pyright: ignore[reportArgumentType]
    assert found == (count + stages - 1) * 30.0
    for stage in range(stages):
        order = task_order(stage, stages, count, schedule)  # pyright: ignore[reportArgumentType]
        assert sorted(order) == sorted(itertools.product((False, True), range(count)))


def test_turns_keep_fewer_microbatches() -> None:
    assert task_order(1, 3, 4, "1f1b") == [
        *((True, 0), (True, 1), (False, 0), (True, 2)),
        *((False, 1), (True, 3), (False, 2), (False, 3)),
    ]


def test_sending_between_stages_takes_time_of_both() -> None:
    assert pipeline_cycles([10.0] * 2, [20.0] * 2, 5.0, 1, "gpipe") == 10 + 5 + 10 + 20 + 5 + 20


def test_a_step_is_the_sum_of_its_parts() -> None:
    whole = PieceCost(1000.0, 100.0)
    pieces = StepPieces((NOTHING, whole), ENDS, ENDS, PieceCost(50.0), PieceCost(20.0), 1e6, 4096)
    plan = ParallelPlan(4, 2, 1, 3)
    mesh = ChipMesh.of(CHIP, plan.num_chips)
    found = step_time(pieces, plan, mesh, CHIP, "gpipe")
    assert found.replica_links == sum_cycles(1e6, plan, mesh, CHIP) > 0
    assert found.cycles == 3 * 1000 + found.replica_links + 20 + 50
    parts = (found.programs, found.tensor_links, found.stage_links, found.replica_links, found.bubble, found.update)
    assert sum(parts) == pytest.approx(found.cycles)
    assert found.bubble == 0


def test_stages_that_wait_are_a_bubble() -> None:
    one = PieceCost(1000.0)
    pieces = StepPieces((one, one.times(2)), ENDS, ENDS, NOTHING, NOTHING, 0.0, 4096)
    plan = ParallelPlan(1, 1, 4, 8)
    mesh = ChipMesh.of(CHIP, 4)
    found = step_time(pieces, plan, mesh, CHIP, "1f1b")
    assert found.cycles >= (8 + 3) * 3000
    assert found.bubble >= 3 * 3000
    assert stage_cycles(4096, plan, mesh, CHIP) > 0
    parts = (found.programs, found.tensor_links, found.stage_links, found.bubble)
    assert sum(parts) == pytest.approx(found.cycles)


def test_layers_are_added_one_by_one() -> None:
    assert PieceCost(10.0, 1.0, 3.0, 2.0).of_layers(PieceCost(14.0, 2.0, 4.0, 5.0), 5) == PieceCost(26.0, 5.0, 7.0, 14.0)
