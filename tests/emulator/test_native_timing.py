"""The timing model's machine in C against the one in Python that defines it: the same cycles, sums and counters."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.dev.fuzz.draw import draw
from hlo2tx8.dev.fuzz.draw_control import draw_control
from hlo2tx8.device import native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.device.isa.kc_control import KcFunction
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import kinds
from hlo2tx8.device.timing import native as native_timing
from hlo2tx8.device.timing.model import follow
from hlo2tx8.device.timing.native import time_program
from hlo2tx8.runtime.compile import compile_source

CHIP = load_chip()
SAMPLES = Path(__file__).parents[2] / "hlo_samples"
FILES = [f for f in sorted(SAMPLES.rglob("*")) if f.suffix in (".hlo", ".mlir")]
pytestmark = pytest.mark.skipif(not native.available(), reason="no native core on this machine")


def check(program: Program) -> None:
    parts = time_program(program.code, CHIP)
    if any(record.kind is KcFunction for record in decode_records(program.code, program.origins)):
        assert parts is None, "functions are timed by the definition alone"
        return
    assert parts is not None, "of this the core tells nothing; is it built from these sources?"
    for (first, end, found), (*where, wanted) in zip(parts, follow(program, CHIP), strict=True):
        assert [first, end] == where
        assert found.cycles == pytest.approx(wanted.cycles, rel=1e-9)
        assert (found.unknown, found.loaded, found.is_end) == (wanted.unknown, wanted.loaded, wanted.is_end)
        np.testing.assert_allclose(found.records, wanted.records, rtol=1e-7, atol=1e-3)
        np.testing.assert_allclose(found.counters, wanted.counters, rtol=1e-7, atol=1e-3)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SAMPLES)))
def test_samples(file: Path) -> None:
    check(compile_source(str(file)).program)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    case = draw_control(seed) if seed % 3 == 2 else draw(seed)
    check(compile_source(case.graph.to_hlo(), format="hlo").program)


@pytest.mark.parametrize("name", ["regressions/concatenate_rank6_layouts.hlo", "linalg/solve_f32.mlir", "norm/layer_norm_f32.mlir"])
def test_it_takes_a_small_part_of_what_the_definition_takes(name: str) -> None:
    program = compile_source(str(SAMPLES / name)).program
    found = min(seconds(lambda: time_program(program.code, CHIP)) for _ in range(20))
    assert 4 * found < min(seconds(lambda: follow(program, CHIP)) for _ in range(5))


def seconds(run: Callable[[], object]) -> float:
    """Of the processor, which others do not count in."""
    started = time.process_time()
    run()
    return time.process_time() - started


def test_what_the_core_cannot_follow_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile_source(str(SAMPLES / "diamonds" / "chain_f32.hlo")).program
    wanted = follow(program, CHIP)

    def fails(*_: object) -> None:
        raise ValueError

    def is_asked(_: object) -> int:
        return kinds.BY_PYTHON

    monkeypatch.setattr(kinds, "_work", is_asked)
    kinds.kind_row.cache_clear()
    found = time_program(program.code, CHIP)
    assert found is not None and [timed.cycles for *_, timed in found] == pytest.approx([timed.cycles for *_, timed in wanted])
    monkeypatch.setattr(native_timing, "cost", fails)
    assert time_program(program.code, CHIP) is None
    monkeypatch.undo()
    kinds.kind_row.cache_clear()
    assert time_program(program.code, replace(CHIP, queue_depth=64)) is None
