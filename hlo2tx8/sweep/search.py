"""A search over chips: Optuna says which to try next, and the same points and table are used as by a sweep.

Trials are asked for in batches of fixed size and told in order, so equal searches try equal chips on any number of workers, and one
that was ended finds its points in the table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hlo2tx8.sweep.farm import TaskFarm, extra
from hlo2tx8.sweep.fronts import mean
from hlo2tx8.sweep.objective import NAMES, Objective
from hlo2tx8.sweep.parameters import ChipAxis, Description
from hlo2tx8.sweep.points import ModuleSource, Point, point
from hlo2tx8.sweep.results import Results
from hlo2tx8.sweep.run import measure_all

BATCH = 4


@dataclass(frozen=True)
class Tried:
    """A chip and its objective, the less the better; None if a module cannot be computed there."""

    chip: str
    objective: float | None


def search(
    sources: Sequence[ModuleSource],
    axes: Sequence[ChipAxis],
    base: Description,
    options: Mapping[str, Any],
    objective: Objective,
    trials: int,
    seed: int,
    results: Results,
    farm: TaskFarm,
    tell: Callable[[dict[str, Any]], None],
) -> tuple[list[Tried], list[Point]]:
    """The chips that were tried, best first, and their points, in order. InputError without Optuna."""
    optuna = extra("optuna", "search")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    ranges = {axis.name: optuna.distributions.IntDistribution(0, len(axis.labels) - 1) for axis in axes}
    tried: dict[str, Tried] = {}
    points: list[Point] = []
    for first in range(0, trials, BATCH):
        asked = [study.ask(ranges) for _ in range(min(BATCH, trials - first))]
        chosen: list[list[Point]] = []
        for trial in asked:
            choice = [trial.params[axis.name] for axis in axes]
            chosen.append([point(source, axes, choice, base, options) for source in sources])
        points += (batch := [each for own in chosen for each in own])
        measure_all(batch, results, farm, tell)
        for trial, own in zip(asked, chosen, strict=True):
            value = _objective([results.rows[each.key] for each in own], objective)
            study.tell(trial, value, state=None if value is not None else optuna.trial.TrialState.FAIL)
            chip = own[0].known["chip"]
            tried[chip] = Tried(chip, value)
    return sorted(tried.values(), key=lambda t: (t.objective is None, t.objective or 0.0)), points


def _objective(rows: Sequence[Mapping[str, Any]], objective: Objective) -> float | None:
    """Of a chip's rows, one per module: the objective of their geometric means."""
    if any(row["status"] != "ok" for row in rows):
        return None
    means: dict[str, float | None] = {}
    for name in NAMES:
        found = [row[name] for row in rows]
        means[name] = None if None in found else mean(found) if all(found) else 0.0
    return objective.of(means)
