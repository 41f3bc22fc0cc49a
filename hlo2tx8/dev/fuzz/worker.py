"""One of the fuzzer's processes: its tasks are seeds.

A failure is told at once, and again with its module when it has been made smaller. After a hang the process ends, because what was
interrupted may be in any state.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from hlo2tx8.dev.fuzz.check import Failure, check
from hlo2tx8.dev.fuzz.draw import Case, draw
from hlo2tx8.dev.fuzz.draw_control import draw_control
from hlo2tx8.dev.fuzz.shrink import shrink
from hlo2tx8.runtime.levels import RUNS
from hlo2tx8.sweep.child import ENDS, MORE, serve
from hlo2tx8.tools.xla_cpu import CpuServer

SMALLER_TRIES = 400
SHRINK_SECONDS = 900.0


def case_of(seed: int, *, control: bool) -> Case:
    """The case of a seed; with `control` every third has loops and branches."""
    return draw_control(seed) if control and seed % 3 == 2 else draw(seed)


def write_module(case: Case, comment: str, path: Path) -> Path:
    """The case as an HLO module whose comment says what is wrong with it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(case.graph.to_hlo(f"{comment}\nstep_elements={case.step_elements} hlo_passes={case.hlo_passes}"))
    return path


def smallest(case: Case, failure: Failure, cpu: CpuServer | None, limit: float) -> tuple[Case, Failure]:
    """A smaller case that fails in the same way, and how it fails."""
    runs = tuple(run for run in RUNS if failure.run.startswith(run.name)) if not failure.run.endswith("level") else RUNS
    server = cpu if failure.run == "XLA:CPU" else None

    def still_fails(smaller: Case) -> bool:
        found = check(smaller, runs, server, limit)
        return found is not None and (found.run, found.kind) == (failure.run, failure.kind)

    small = shrink(case, still_fails, SMALLER_TRIES)
    return small, check(small, runs, server, limit) or failure


def main() -> None:
    """Answer each seed, a task, until the input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--control", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--write", type=Path, required=True)
    args = parser.parse_args()
    cpu = CpuServer() if args.cpu else None

    def answers(seed: int) -> Iterator[dict[str, object]]:
        started = time.perf_counter()
        case = case_of(seed, control=args.control)
        failure = check(case, RUNS, cpu, args.limit)
        seconds = round(time.perf_counter() - started, 3)
        if failure is None:
            yield {"seconds": seconds}
            return
        path = write_module(case, str(failure), args.write / f"seed_{seed}.hlo")
        found: dict[str, object] = {
            "seconds": seconds,
            "run": failure.run,
            "kind": failure.kind,
            "message": failure.message,
            "module": str(path),
        }
        found |= {ENDS: True} if failure.kind == "hang" else {MORE: SHRINK_SECONDS}
        yield found
        if failure.kind != "hang":
            small, again = smallest(case, failure, cpu, args.limit)
            yield {"module": str(write_module(small, str(again), path))}

    serve(answers)
    if cpu is not None:
        cpu.close()


if __name__ == "__main__":
    main()
