"""Runs of tiles that come again and again, each time further on, as loops: the second level of repetition in blobs.

[5 0 2] [7 0 2] [5 2 2] [7 2 2] [5 4 2] [7 4 2]    ⟶    3 times [5 0 2] [7 0 2], of both each time 2 further on
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.pipes.model import Run

LONGEST = 256
"""Runs of a loop."""
LEAST = 4
MOST_COMPARED = 1 << 22
"""Pairs of runs that are looked at for one list."""
MOST_RUNS = 1 << 21
"""That loops of a file may stand for."""


class RunLoop(NamedTuple):
    """These runs, `turns` times; in each turn every one begins its own of `shifts` further on."""

    runs: tuple[Run, ...]
    shifts: tuple[int, ...]
    turns: int


def looped(runs: Sequence[Run]) -> tuple[RunLoop, ...]:
    """The same runs; from the first on, always the loop that saves most."""
    if len(runs) < LEAST:
        return (RunLoop(tuple(runs), (0,) * len(runs), 1),) if runs else ()
    sizes, turns = _longest(np.array(runs, np.int64))
    found: list[RunLoop] = []
    alone, at = list[Run](), 0
    while at < len(runs):
        size, count = int(sizes[at]), int(turns[at])
        if count == 1:
            alone.append(runs[at])
        else:
            found += [RunLoop(tuple(alone), (0,) * len(alone), 1)] if alone else []
            alone = []
            first, second = runs[at : at + size], runs[at + size : at + 2 * size]
            found.append(RunLoop(tuple(first), tuple(b.first - a.first for a, b in zip(first, second, strict=True)), count))
        at += size * count
    return (*found, RunLoop(tuple(alone), (0,) * len(alone), 1)) if alone else tuple(found)


def _longest(rows: Array) -> tuple[Array, Array]:
    """From each run on, how many runs the loop has that saves most, and its turns."""
    count, first, alike = len(rows), rows[:, 1], rows[:, [0, 2, 3, 4]]
    sizes, turns, saved = np.ones(count, np.int64), np.ones(count, np.int64), np.zeros(count, np.int64)
    for size in range(1, min(LONGEST, count // 2, max(16, MOST_COMPARED // count)) + 1):
        is_like, goes_on = np.zeros(count, bool), np.zeros(count, bool)
        is_like[:-size] = (alike[:-size] == alike[size:]).all(axis=1)
        further = first[size:] - first[:-size]
        goes_on[: count - 2 * size] = is_like[size : count - size] & (further[size:] == further[:-size])
        goes_on &= is_like
        like, steady = _lengths(is_like), _lengths(goes_on)
        found = np.where(like >= size, 1 + np.minimum(like // size, 1 + steady // size), 1)
        better = size * (found - 1) > saved
        sizes[better], turns[better], saved[better] = size, found[better], (size * (found - 1))[better]
    return sizes, turns


def _lengths(held: Array) -> Array:
    """From each place on, how many hold in a row."""
    ends = np.where(held, len(held), np.arange(len(held)))
    return np.minimum.accumulate(ends[::-1])[::-1] - np.arange(len(held))


def unlooped(loops: Sequence[RunLoop]) -> tuple[Run, ...]:
    """The inverse of `looped`. ValueError for what is no loop, or stands for too many runs."""
    if any(loop.turns < 1 or not loop.runs or len(loop.shifts) != len(loop.runs) for loop in loops):
        raise ValueError("a loop without turns or runs")
    if sum(loop.turns * len(loop.runs) for loop in loops) > MOST_RUNS:
        raise ValueError(f"loops of more than {MOST_RUNS} runs")
    return tuple(
        run._replace(first=run.first + turn * shift)
        for loop in loops
        for turn in range(loop.turns)
        for run, shift in zip(loop.runs, loop.shifts, strict=True)
    )
