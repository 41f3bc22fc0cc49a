"""Rough estimates: which candidates are timed beside the first, and which cannot be the fastest any more."""

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from hlo2tx8.emitters.choose_plan import FirstThatFits
from hlo2tx8.schedule.plan import Candidate, Estimate, Feasibility


@pytest.mark.parametrize(
    ("others", "timed", "taken"),
    [
        ([(100.0, 90.0), (104.0, 75.0)], ["0", "1", "2"], "2"),
        ([(101.0, 70.0), (140.0, 60.0)], ["0", "1"], "1"),  # 140 * 0.69 * 0.9 is more than 70
        ([(140.0, 60.0), (140.0, 50.0)], ["0"], "0"),  # 140 * 0.8 * 0.9 is more than 80
    ],
)
def test_what_is_hopeless_beside_its_family_is_not_timed(others: list[tuple[float, float]], timed: list[str], taken: str):
    cycles = [80.0, *(cycles for _, cycles in others)]
    estimates = [100.0, *(estimate for estimate, _ in others)]
    asked: list[str] = []

    def emit(number: int) -> ModuleOp:
        return ModuleOp([], sym_name=StringAttr(str(number)))

    def time(kernel: ModuleOp) -> Feasibility:
        name = kernel.sym_name.data if kernel.sym_name is not None else ""
        asked.append(name)
        return Feasibility(1, "", cycles[int(name)])

    candidates = [Candidate(str(n), Estimate(estimate, 1), n, is_rough=True) for n, estimate in enumerate(estimates)]
    schedule, _ = FirstThatFits(time=time).choose([candidates], 10, emit)
    assert list(dict.fromkeys(asked)) == timed
    assert schedule.taken is not None and schedule.taken.name == taken
