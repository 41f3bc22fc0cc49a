"""What an epilogue adds to the estimate of steps on the mesh."""

import pytest

from hlo2tx8.schedule.mesh_estimate import end_cycles, idle_cycles, num_parts_of


@pytest.mark.parametrize(
    ("turns", "parts", "expected"),
    [
        (12, 11, 0.0),  # a part in each turn but the last
        (24, 8, 8 * (2 * 1687.0 + 500.0 - 3000.0)),  # two turns behind each part
        (12, 8, 0.0),  # one behind some
        (6, 1, 5 * 1687.0 + 500.0 - 3000.0),
    ],
)
def test_vector_engine_waits_for_parts_while_tiles_meet(turns: int, parts: int, expected: float) -> None:
    assert idle_cycles(turns, parts, turn=1687.0, meeting=500.0, queued=3000.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "blocks", "turns", "expected"),
    [
        (512, 4, 11, 16),  # four pieces of each block
        (394, 2, 11, 4),  # 394 = 2 * 197
        (197, 3, 11, 3),  # a prime number of rows
        (64, 3, 11, 3),  # a piece would be too small
        (512, 4, 3, 4),
    ],
)
def test_parts_are_blocks_or_equal_pieces_of_them(rows: int, blocks: int, turns: int, expected: int) -> None:
    assert num_parts_of(rows, blocks, turns) == expected


@pytest.mark.parametrize(
    ("is_paced", "expected"),
    [
        (False, 6000.0 - 4 * 750.0),  # four panels are early, their turns are shorter by what other sets take
        (True, 6000.0),
    ],
)
def test_panels_that_come_slowly_do_not_make_turns_shorter(is_paced: bool, expected: float) -> None:
    assert end_cycles(6000.0, 1000.0, 3000.0, 4, 6, 6, products=3, is_paced=is_paced) == pytest.approx(expected)
