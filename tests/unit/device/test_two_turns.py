"""What two turns at once take at least is no more than what they take."""

import random

import pytest

from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.two_turns import Turn, Unit

ENGINES = (Engine.TDMA, Engine.NE, Engine.CT)


@pytest.mark.parametrize("seed", range(20))
def test_no_cut_takes_less_than_its_bound(seed: int):
    draw = random.Random(seed)
    units = [
        Unit(
            tuple((draw.choice(ENGINES), draw.uniform(1, 100)) for _ in range(draw.randint(1, 2))),
            tuple(sorted({draw.randrange(number) for _ in range(draw.randint(0, 2))})) if number else (),
        )
        for number in range(draw.randint(2, 12))
    ]
    turn = Turn(units)
    for cut in range(1, len(units)):
        assert turn.least_at_once <= turn.least(cut) <= turn.merged(cut).cycles
