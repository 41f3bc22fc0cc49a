"""What an epilogue adds to the estimate of steps on the mesh."""

import pytest

from hlo2tx8.schedule.mesh_estimate import idle_cycles


@pytest.mark.parametrize(
    ("turns", "parts", "expected"),
    [
        (12, 12, 0.0),  # a part in each turn
        (24, 8, 8 * (2 * 1687.0 - 1632.0)),  # two turns behind each part
        (12, 8, 4 * (1687.0 - 1632.0)),  # one behind some
        (6, 1, 5 * 1687.0 - 1632.0),
    ],
)
def test_vector_engine_waits_for_parts_while_tiles_meet(turns: int, parts: int, expected: float) -> None:
    assert idle_cycles(turns, parts, turn=1687.0, queued=1632.0) == pytest.approx(expected)
