"""One case at every level, in every mode, against the evaluator, against XLA:CPU, and the levels against each other."""

import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.dev.fuzz.bounds import bounds_of
from hlo2tx8.dev.fuzz.draw import Case
from hlo2tx8.dev.fuzz.graph import Array
from hlo2tx8.errors import Hlo2tx8Error, OracleError
from hlo2tx8.frontend import to_mlir_text
from hlo2tx8.hlo import evaluate
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import RUNS, LevelRun, each_run
from hlo2tx8.tools.compare import compare
from hlo2tx8.tools.xla_cpu import CpuServer

TIME_LIMIT_SECONDS = 120.0
"""What all runs of one case may take."""


@dataclass(frozen=True)
class Failure:
    """What went wrong where; equal `kind`s are taken for the same defect while a graph is shrunk."""

    run: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.run}: {self.kind}: {self.message}"


class OutOfTimeError(BaseException):
    """A case took too long. No `except Exception` of the code that took it stops this."""


@dataclass(frozen=True)
class Watch:
    """When a case has to be done, on the monotonic clock."""

    deadline: float
    limit: float

    @contextmanager
    def limited(self) -> Generator[None]:
        """OutOfTimeError in the block when the time is up; only the main thread can do this."""

        def stop(_: int, __: FrameType | None) -> None:
            raise OutOfTimeError

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, max(1e-3, self.deadline - time.monotonic()))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)


def check(
    case: Case, runs: Sequence[LevelRun] = RUNS, cpu: CpuServer | None = None, limit: float = TIME_LIMIT_SECONDS
) -> Failure | None:
    """The first failure of the case, None if all is well. Not to be done within `limit` seconds is one, "hang"."""
    text = case.graph.to_hlo()
    watch = Watch(time.monotonic() + limit, limit)

    def load() -> ModuleOp:
        return load_source(text, format="hlo")

    values = case.graph.values(case.arrays)
    expected = [values[r] for r in case.graph.roots]
    found = _attempt("evaluator", watch, lambda: list(evaluate(load(), *case.arrays)))
    if isinstance(found, Failure):
        return found
    exact = [np.zeros(e.shape) for e in expected]
    if failure := _compare("evaluator", found, expected, exact):
        return failure
    bounds = _of_roots(case, bounds_of(case.graph, values, is_xla=False))
    first: dict[bool, list[Array]] = {}
    options = Options(step_elements=case.step_elements, hlo_passes=case.hlo_passes, verify=True)
    results = each_run(load, options, case.arrays, runs)
    for run in runs:
        found = _attempt(run.name, watch, lambda: next(results))
        if isinstance(found, Failure):
            return found
        if failure := _compare(run.name, found, expected, bounds):
            return failure
        is_interpreted = run.level < Level.SCHEDULED  # the others have the chip's arithmetic
        if failure := _compare(f"{run.name} against another level", found, first.setdefault(is_interpreted, found), exact):
            return failure
    return None if cpu is None else _check_on_cpu(case, load, cpu, watch, expected, values)


def _check_on_cpu(
    case: Case, load: Callable[[], ModuleOp], cpu: CpuServer, watch: Watch, expected: Sequence[Array], values: Sequence[Array]
) -> Failure | None:
    try:
        with watch.limited():
            found = cpu.run(to_mlir_text(load()), case.arrays)
    except OracleError:
        return None
    except OutOfTimeError:
        cpu.close()  # XLA's own time is no finding; what it would still say must not answer the next question
        return None
    return _compare("XLA:CPU", found, expected, _of_roots(case, bounds_of(case.graph, values, is_xla=True)))


def _of_roots(case: Case, bounds: Sequence[Array]) -> list[Array]:
    return [bounds[r] for r in case.graph.roots]


def _compare(run: str, found: Sequence[Array], expected: Sequence[Array], bounds: Sequence[Array]) -> Failure | None:
    wrong = compare([np.asarray(actual) for actual in found], expected, bounds)
    return Failure(run, "wrong answer", wrong[0].line) if wrong else None


def _attempt(run: str, watch: Watch, work: Callable[[], list[Array]]) -> list[Array] | Failure:
    try:
        with watch.limited():
            return work()
    except OutOfTimeError:
        return Failure(run, "hang", f"the case was not done after {watch.limit:g} s")
    except Hlo2tx8Error as error:
        return Failure(run, f"error {error.code}", str(error))
    except Exception as error:
        return Failure(run, f"crash {type(error).__name__}", str(error))
