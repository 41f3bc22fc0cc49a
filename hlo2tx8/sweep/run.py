"""Points are measured on a farm, and what is known of them already is not."""

from collections.abc import Callable, Sequence
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.sweep.child import Answered
from hlo2tx8.sweep.farm import TaskFarm
from hlo2tx8.sweep.points import Point
from hlo2tx8.sweep.results import Results

MEASURE = ("-m", "hlo2tx8.sweep.measure")


def measure_all(points: Sequence[Point], results: Results, farm: TaskFarm, tell: Callable[[dict[str, Any]], None]) -> None:
    """Add the rows of all points that `results` does not have, each when it comes; `tell` is given it. InputError if a worker has
    another version of the code."""
    todo = list({point.key: point for point in points if point.key not in results.rows}.values())
    if not todo:
        return
    for number, answered in farm.run(point.task() for point in todo):
        row = todo[number].known | _columns(answered)
        if row["version"] not in ("", results.version):
            raise InputError("E1004", "a worker has another version of hlo2tx8", hint="install this one there")
        results.add(row)
        tell(row)


def _columns(answered: Answered) -> dict[str, Any]:
    """What `measure` said; a row that is `lost`, and will be tried again, if its process died or took too long."""
    found: dict[str, Any] = answered.answers[0] if answered.answers else {"lost": answered.lost}
    return {"version": "", "status": "lost", "why": found["lost"].partition("\n")[0]} if "lost" in found else found
