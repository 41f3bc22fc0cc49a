"""Random graphs at every level against the evaluator and XLA:CPU: `python -m hlo2tx8.tools.fuzz --seed=0 --count=100`.

Each failure is made smaller and written to the folder of `--write` as an HLO module whose comment says what was wrong.
Exit code 1 if there was one.
"""

import argparse
import sys
import time
from pathlib import Path

from hlo2tx8.tools.fuzz.check import RUNS, Failure, check
from hlo2tx8.tools.fuzz.draw import Case, draw
from hlo2tx8.tools.fuzz.draw_control import draw_control
from hlo2tx8.tools.fuzz.shrink import shrink
from hlo2tx8.tools.xla_cpu import CpuServer


def main() -> int:
    """Draw, run and compare; report on stderr."""
    parser = argparse.ArgumentParser(prog="python -m hlo2tx8.tools.fuzz", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0, help="first seed; every seed is one graph")
    parser.add_argument("--count", type=int, default=100, help="number of graphs")
    parser.add_argument("--cpu", action=argparse.BooleanOptionalAction, default=True, help="compare with XLA:CPU too")
    parser.add_argument("--control", action=argparse.BooleanOptionalAction, default=True, help="every third has control flow")
    parser.add_argument("--write", type=Path, default=Path("build/fuzz"), help="folder for failing modules")
    args = parser.parse_args()
    cpu = CpuServer() if args.cpu else None
    failures = 0
    started = time.perf_counter()
    for seed in range(args.seed, args.seed + args.count):
        case = draw_control(seed) if args.control and seed % 3 == 2 else draw(seed)
        failure = check(case, RUNS, cpu)
        if failure is not None:
            failures += 1
            print(f"seed {seed}: {failure}", file=sys.stderr, flush=True)
            path = write_smallest(case, failure, cpu, args.write / f"seed_{seed}.hlo")
            print(f"seed {seed}: {path}", file=sys.stderr, flush=True)
    if cpu is not None:
        cpu.close()
    print(f"{failures}/{args.count} graphs failed, {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return 1 if failures else 0


def write_smallest(case: Case, failure: Failure, cpu: CpuServer | None, path: Path) -> Path:
    """Shrink the case and write its module."""
    runs = tuple(run for run in RUNS if failure.run.startswith(run.name)) if not failure.run.endswith("level") else RUNS
    server = cpu if failure.run == "XLA:CPU" else None

    def still_fails(smaller: Case) -> bool:
        found = check(smaller, runs, server)
        return found is not None and (found.run, found.kind) == (failure.run, failure.kind)

    smallest = shrink(case, still_fails)
    found = check(smallest, runs, server) or failure
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(smallest.graph.to_hlo(f"{found}\nstep_elements={smallest.step_elements}"))
    return path


if __name__ == "__main__":
    sys.exit(main())
