"""What a sweep says: which chips nothing beats, and what one step of each parameter does."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import Any

from hlo2tx8.sweep.parameters import ChipAxis

ALL = "geometric mean"
"""Stands for all workloads together, where there are several."""
COSTS = ("area", "power")
Row = Mapping[str, Any]


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


@dataclass(frozen=True)
class ParameterStep:
    """What it does to go from one value of a parameter to the next, with all others equal: mean ratios over `count` chips."""

    workload: str
    parameter: str
    before: str
    after: str
    time: float
    area: float
    power: float
    count: int


def with_mean(rows: Sequence[Row]) -> list[Row]:
    """The rows that are ok, and for chips on which all workloads are the geometric mean of their times as one more."""
    good = [row for row in rows if row["status"] == "ok"]
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    by_chip: dict[str, list[Row]] = {}
    for row in good:
        by_chip.setdefault(row["chip"], []).append(row)
    if len(workloads) == 1:
        return good
    whole = [same for same in by_chip.values() if len(same) == len(workloads)]
    return good + [{**same[0], "workload": ALL, "microseconds": mean([row["microseconds"] for row in same])} for same in whole]


def by_workload(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each workload, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["workload"], []).append(row)
    return found


def front(rows: Sequence[Row], cost: str) -> list[Row]:
    """Of one workload's rows those that no other beats in time without more of `cost`: cheapest first, each faster than the one
    before. Of equal ones the first."""
    found: list[Row] = []
    for row in sorted((row for row in rows if row[cost] is not None), key=lambda row: (row[cost], row["microseconds"])):
        if not found or row["microseconds"] < found[-1]["microseconds"]:
            found.append(row)
    return found


def steps(rows: Sequence[Row], axes: Sequence[ChipAxis]) -> Iterator[ParameterStep]:
    """The steps of all parameters, for each workload; those for which no two chips can be compared are left out."""
    for workload, own in by_workload(rows).items():
        by_chip = {row["chip"]: row for row in own}
        for axis in axes:
            for before, after in pairwise(axis.labels):
                pairs: list[tuple[Row, Row]] = []
                for chip, row in by_chip.items():
                    labels = chip.split(" ")
                    if f"{axis.name}={before}" in labels:
                        other = " ".join(f"{axis.name}={after}" if part == f"{axis.name}={before}" else part for part in labels)
                        pairs += [(row, by_chip[other])] if other in by_chip else []
                if pairs:
                    time, area, power = (_ratio(pairs, name) for name in ("microseconds", *COSTS))
                    yield ParameterStep(workload, axis.name, before, after, time, area, power, len(pairs))


def _ratio(pairs: Sequence[tuple[Row, Row]], name: str) -> float:
    """The mean of how a column changes; NaN where it is not known."""
    known = [(old[name], new[name]) for old, new in pairs]
    return mean([new / old for old, new in known]) if all(old and new for old, new in known) else float("nan")
