"""A search takes the candidate with the fewest modelled cycles that fits; estimates decide which are lowered at all."""

from collections.abc import Callable
from math import inf

import pytest

from hlo2tx8.schedule.plan import Candidate, Estimate, Feasibility, Schedule
from hlo2tx8.schedule.search import PATIENCE, search

ROOM = 64


def candidates(*cycles: float, spm_bytes: int = 1, prefix: str = "plan") -> list[Candidate[int]]:
    """Candidates with such estimates; the choice is the position."""
    return [Candidate(f"{prefix} {i}", Estimate(own, spm_bytes), i) for i, own in enumerate(cycles)]


def of(*modelled: float) -> Callable[[Candidate[int]], Feasibility]:
    """Modelled cycles by position; 0 of one that cannot be lowered, infinite of one that does not fit."""

    def measure(candidate: Candidate[int]) -> Feasibility:
        own = modelled[candidate.choice]
        return Feasibility(0, "no order") if not own else Feasibility(2 * ROOM if own == inf else 1, "", own)

    return measure


def taken(schedule: Schedule[int]) -> int:
    assert schedule.taken is not None
    return schedule.taken.choice


@pytest.mark.parametrize(("modelled", "best"), [((9, 8, 7), 2), ((8, 8, 8), 0), ((0, 8, 9), 1), ((inf, 0, 9), 2), ((9, inf, 0), 0)])
def test_the_fastest_that_fits_is_taken_and_of_equals_the_first(modelled: tuple[float, ...], best: int):
    schedule = search([candidates(10, 10, 10)], ROOM, of(*modelled))
    assert (taken(schedule), schedule.cycles) == (best, modelled[best])
    assert len(schedule.rejected) == 2


def test_nothing_is_taken_if_nothing_fits():
    schedule = search([candidates(1, 2)], ROOM, of(0, inf))
    assert schedule.taken is None
    assert [other.why for other in schedule.rejected] == ["no order", "its buffers take 128 of 64 bytes"]


def test_what_is_expected_to_be_slower_is_not_lowered():
    """The second is as fast as half of its estimate: the last is not asked, as 0.5 of it and some more is slower."""
    lowered: list[int] = []

    def measure(candidate: Candidate[int]) -> Feasibility:
        lowered.append(candidate.choice)
        return of(10, 6, 20, 1)(candidate)

    schedule = search([candidates(10, 12, 19, 40)], ROOM, measure)
    assert taken(schedule) == 1 and lowered == [0, 1, 2]
    assert schedule.rejected[-1].name == "1 others"


def test_what_is_known_to_be_faster_ends_a_search():
    lowered: list[int] = []

    def measure(candidate: Candidate[int]) -> Feasibility:
        lowered.append(candidate.choice)
        return Feasibility(1, "", candidate.estimate.cycles)

    search([candidates(100, 110, 120)], ROOM, measure, known_cycles=10)
    assert lowered == [0]


def test_patience_ends():
    count = 3 * PATIENCE
    modelled = [20.0] * count
    schedule = search([candidates(*[10.0] * count)], ROOM, of(*modelled))
    assert taken(schedule) == 0
    assert schedule.rejected[-1].name == f"{count - PATIENCE - 1} others"


def test_groups_have_estimates_of_their_own():
    """That of the second group's is worth nothing beside the first group's."""
    groups = [candidates(100, 101, prefix="a"), candidates(1, 2, 3, prefix="b")]
    cycles = {"a 0": 50.0, "a 1": 49.0, "b 0": 48.0, "b 1": 60.0, "b 2": 47.0}
    schedule = search(groups, ROOM, lambda c: Feasibility(1, "", cycles[c.name]))
    assert schedule.taken is not None and (schedule.taken.name, schedule.cycles) == ("b 0", 48.0)
    assert {other.name for other in schedule.rejected} == {"a 0", "a 1", "2 others"}


def test_a_name_is_one_candidate():
    lowered: list[int] = []

    def measure(candidate: Candidate[int]) -> Feasibility:
        lowered.append(candidate.choice)
        return Feasibility(1, "", 10.0)

    twice = [
        Candidate("same", Estimate(5.0, 1), 0),
        Candidate("other", Estimate(4.0, 1), 1),
        Candidate("same", Estimate(3.0, 1), 2),
    ]
    assert taken(search([twice], ROOM, measure)) == 0
    assert lowered == [0, 1]
