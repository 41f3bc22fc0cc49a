"""Stages that are spread over turns: each once, in order, and as many in each turn as may be."""

from itertools import pairwise

import pytest

from hlo2tx8.lower.dma.done_beside import Spread


@pytest.mark.parametrize(("each", "of", "more"), [(12, 20, 0), (11, 19, 18), (24, 20, 0), (5, 5, 0), (1, 7, 6)])
def test_stages_are_spread_evenly(each: int, of: int, more: int) -> None:
    spread = Spread(each, of, more)
    before = [spread.before(turn) for turn in range(of + 2)]
    steps = [b - a for a, b in pairwise(before)]
    assert before[0] == 0 or more
    assert min(steps) >= each // of
    assert max(steps) <= -(-each // of)
