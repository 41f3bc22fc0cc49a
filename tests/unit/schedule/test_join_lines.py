"""Boxes of lines that are updated in the scratchpad, and parts of their updates."""

from dataclasses import replace

import numpy as np
import pytest

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.schedule.join_lines import SPM_SHARE, UpdatedLines

RATES = Rates.of(load_chip(""))


def lines_of(shape: tuple[int, int, int], updates: int, *, is_loaded: bool = True) -> UpdatedLines:
    return UpdatedLines.of(shape, updates, 4, is_loaded=is_loaded)


@pytest.mark.parametrize("case", range(60))
def test_what_fits_is_less_than_its_share_of_the_scratchpad(case: int) -> None:
    rng = np.random.default_rng(case)
    *shape, updates = (int(n) for n in np.exp(rng.uniform(0, 9, 4)))
    lines = lines_of((shape[0], shape[1] + 1, shape[2]), updates, is_loaded=bool(case % 2))
    count, places, columns = lines.box(RATES)
    assert places == shape[1] + 1 and 1 <= count <= shape[0] and shape[2] % columns == 0
    if lines.fits(RATES):
        assert 4 * count * columns * (places * (1 + case % 2) + updates) <= SPM_SHARE * RATES.spm_bytes
        assert lines.cycles(RATES) < float("inf")
    else:
        assert count == 1 and lines.cycles(RATES) == float("inf")


def test_columns_are_shared_by_runs_that_are_worth_a_transfer() -> None:
    assert lines_of((4, 512, 64), 2048, is_loaded=False).box(RATES) == (1, 512, 16)
    assert lines_of((16, 512, 64), 512, is_loaded=False).box(RATES) == (1, 512, 64)
    assert lines_of((1, 512, 12), 512).box(RATES) == (1, 512, 12)


def test_a_tile_has_several_steps_of_many_lines() -> None:
    count, _, columns = lines_of((4096, 1000, 1), 1).box(RATES)
    assert columns == 1 and 4096 // 16 // count >= 4


def test_a_step_has_the_wanted_elements() -> None:
    assert lines_of((4096, 1000, 1), 1).box(RATES, 5000) == (5, 1000, 1)
    assert lines_of((4096, 1000, 1), 1).box(RATES, 10) == (1, 1000, 1)


def test_parts_have_all_updates_and_are_not_loaded() -> None:
    lines = lines_of((1, 256, 1), 65535)
    parts, cycles = lines.in_parts(RATES)
    assert parts.lines * parts.updates >= 65535 and parts.lines >= RATES.tiles
    assert parts == replace(lines, lines=parts.lines, updates=parts.updates, is_loaded=False)
    assert cycles < lines.cycles(RATES) / 4


def test_one_update_has_no_parts() -> None:
    assert lines_of((1, 256, 1), 1).in_parts(RATES)[1] == float("inf")
