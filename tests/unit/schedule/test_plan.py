"""A plan is the first candidate that fits, as measured; estimates decide the order and what is measured."""

from collections.abc import Iterator

import hlo2tx8
from hlo2tx8 import Options
from hlo2tx8.schedule.plan import MOST_TRIALS, Candidate, Estimate, Feasibility, plan


def candidates(*estimates: tuple[float, int]) -> Iterator[Candidate[int]]:
    """Candidates with such estimates of cycles and bytes; the choice is the position."""
    return (Candidate(f"plan {i}", Estimate(*estimate), i) for i, estimate in enumerate(estimates))


def test_the_first_that_fits_is_taken():
    schedule = plan(candidates((1, 50), (2, 40)), 64, lambda c: Feasibility(c.estimate.spm_bytes))
    assert schedule.taken is not None and schedule.taken.choice == 0 and not schedule.rejected


def test_what_would_take_as_much_more_is_not_measured():
    measured: list[int] = []

    def measure(candidate: Candidate[int]) -> Feasibility:
        measured.append(candidate.choice)
        return Feasibility(2 * candidate.estimate.spm_bytes)

    schedule = plan(candidates((1, 50), (2, 40), (3, 30), (4, 20)), 64, measure)
    assert measured == [0, 2]
    assert schedule.taken is not None and schedule.taken.choice == 2
    assert [other.why for other in schedule.rejected] == [
        "its buffers take 100 of 64 bytes",
        "its buffers would take about 80 of 64 bytes",
    ]


def test_another_family_is_held_to_its_own_sizes():
    of_two = [Candidate(f"plan {i}", Estimate(i, 40), i, "joined" if i == 1 else "") for i in range(3)]
    schedule = plan(of_two, 64, lambda c: Feasibility(c.estimate.spm_bytes * (1 if c.family else 2)))
    assert schedule.taken is not None and schedule.taken.choice == 1
    assert [other.why for other in schedule.rejected] == ["its buffers take 80 of 64 bytes"]


def test_what_cannot_be_lowered_says_nothing_about_sizes():
    schedule = plan(candidates((1, 60), (2, 60)), 64, lambda c: Feasibility(60, "" if c.choice else "no order"))
    assert schedule.taken is not None and schedule.taken.choice == 1
    assert [other.why for other in schedule.rejected] == ["no order"]


def test_few_are_measured():
    measured: list[int] = []

    def measure(candidate: Candidate[int]) -> Feasibility:
        measured.append(candidate.choice)
        return Feasibility(0, "no order")

    schedule = plan(candidates(*[(1, 1)] * (2 * MOST_TRIALS)), 64, measure)
    assert schedule.taken is None and len(measured) == MOST_TRIALS + 1


def test_after_a_few_the_smallest_is_measured():
    """Plans that are refused for what they are may hide one that is not."""
    wanted = MOST_TRIALS + 3
    estimates = [(1.0 + i, 9 if i == wanted else 10) for i in range(2 * MOST_TRIALS)]
    schedule = plan(candidates(*estimates), 64, lambda c: Feasibility(0, "" if c.choice >= wanted else "no order"))
    assert schedule.taken is not None and schedule.taken.choice == wanted


def test_another_family_has_trials_of_its_own():
    """What all of the best family are refused for leaves those of others, also where that is not room."""
    found = [Candidate(f"plan {i}", Estimate(i, 10), i, "joined" if i < MOST_TRIALS else "") for i in range(2 * MOST_TRIALS)]
    found[-1:] = [Candidate("the smallest", Estimate(1e6, 1), -1)]
    schedule = plan(found, 64, lambda c: Feasibility(0, "no order" if c.family else ""))
    assert schedule.taken is not None and schedule.taken.choice == MOST_TRIALS


def test_a_much_slower_plan_says_so():
    slow = plan(candidates((10, 100), (25, 10)), 64, lambda c: Feasibility(c.estimate.spm_bytes))
    assert slow.warning("k") == (
        "warning: k: plan 1 is estimated to take 2.5 times as long as plan 0: its buffers take 100 of 64 bytes"
    )
    about_as_good = plan(candidates((10, 100), (15, 10)), 64, lambda c: Feasibility(c.estimate.spm_bytes))
    assert about_as_good.warning("k") == ""


GEMM = "func.func @main(%a: tensor<{m}x{k}x{t}>, %b: tensor<{k}x{n}x{t}>) -> tensor<{m}x{n}x{t}> {{\n"
GEMM += "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<{m}x{k}x{t}>, tensor<{k}x{n}x{t}>) "
GEMM += "-> tensor<{m}x{n}x{t}>\nreturn %0 : tensor<{m}x{n}x{t}> }}"


def test_f32_gemms_of_any_size_grow_evenly():
    """Blocks once fell to 64 x 64 where the first plan missed the scratchpad by little: 10 times as long as 4097^3."""
    cycles = [hlo2tx8.compile(GEMM.format(m=n, k=n, n=n, t="f32")).cost_analysis()["cycles"] for n in (4032, 4096, 4160)]
    assert max(cycles) < 1.6 * min(cycles)


def test_candidates_are_explained():
    executable = hlo2tx8.compile(GEMM.format(m=4096, k=4096, n=4096, t="f32"), Options(explain=True))
    plans = [line for line in executable.explanation if "blocks of" in line]
    assert " is taken" in plans[-1] and all("cycles" in line for line in plans)


CONVOLUTION = """func.func @main(%x: tensor<1x28x28x128xbf16>, %w: tensor<3x3x128x128xbf16>) -> tensor<1x28x28x128xbf16> {
%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]}
  {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
  : (tensor<1x28x28x128xbf16>, tensor<3x3x128x128xbf16>) -> tensor<1x28x28x128xbf16>
return %0 : tensor<1x28x28x128xbf16> }"""


def test_a_convolution_stays_on_its_engine():
    executable = hlo2tx8.compile(CONVOLUTION, Options(explain=True))
    assert not any("loop emitter, hero" in line for line in executable.explanation)
    assert executable.report.busy["NE"] > 0.1 * executable.report.cycles
