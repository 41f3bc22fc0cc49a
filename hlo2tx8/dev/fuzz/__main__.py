"""Random graphs at every level against the evaluator and XLA:CPU: `python -m hlo2tx8.dev.fuzz --seed=0 --count=100`.

Each failure is made smaller and written to the folder of `--write` as an HLO module whose comment says what was wrong; a graph
that kills its process or takes longer than `--limit` is a failure too. `result.json` there has all of them and `--record` lists the
seeds, also after an interruption. Exit code 1 if there was one.
"""

import argparse
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hlo2tx8.dev.fuzz.farm import Farm, Finding, Plan
from hlo2tx8.device.native.machines import processors

ROOT = Path(__file__).parents[3]
SECONDS_BETWEEN_NOTES = 30.0


def main() -> int:
    """Draw, run and compare; report on stderr."""
    parser = argparse.ArgumentParser(prog="python -m hlo2tx8.dev.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="first seed; every seed is one graph")
    parser.add_argument("--count", type=int, default=100, help="number of graphs")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0: one per processor (1)")
    parser.add_argument(
        "--scheduler", default="", help="tcp://HOST:PORT of a Dask scheduler, whose workers see the folder of --write"
    )
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that one graph may take (120)")
    parser.add_argument("--cpu", action=argparse.BooleanOptionalAction, default=True, help="compare with XLA:CPU too")
    parser.add_argument("--control", action=argparse.BooleanOptionalAction, default=True, help="every third has control flow")
    parser.add_argument("--write", type=Path, default=Path("build/fuzz"), help="folder for failing modules and result.json")
    parser.add_argument("--record", type=Path, help="add the seeds to this list of what was fuzzed (.json)")
    args = parser.parse_args()
    jobs = args.jobs if args.jobs > 0 else processors()
    seeds, where = range(args.seed, args.seed + args.count), {"write": args.write.absolute(), "scheduler": args.scheduler}
    plan = Plan(seeds, jobs, args.limit, cpu=args.cpu, control=args.control, **where)
    args.write.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    noted = started

    def tell(finding: Finding) -> None:
        print(f"seed {finding.seed}: {finding.run}: {finding.kind}: {finding.message}", file=sys.stderr)
        print(f"seed {finding.seed}: {finding.module}", file=sys.stderr, flush=True)

    def tick(farm: Farm) -> None:
        nonlocal noted
        if time.perf_counter() - noted > SECONDS_BETWEEN_NOTES:
            noted = time.perf_counter()
            write_json(args.write / "result.json", farm.result())
            rate = len(farm.done) / (noted - started)
            print(f"{len(farm.done)}/{args.count} graphs, {len(farm.findings)} failed, {rate:.1f}/s", file=sys.stderr, flush=True)

    farm = Farm(plan, tell)
    try:
        farm.run(tick)
    finally:
        write_json(args.write / "result.json", farm.result())
        print(
            f"{len(farm.findings)}/{len(farm.done)} graphs failed, {time.perf_counter() - started:.0f} s",
            file=sys.stderr,
        )
        if args.record is not None:
            add_record(args.record, farm)
    return 1 if farm.findings else 0


def write_json(path: Path, what: object) -> None:
    """Write the file whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(what, indent=1) + "\n")
    part.replace(path)


def add_record(path: Path, farm: Farm) -> None:
    """Add an entry {revision, seed, count, failed}, of all seeds before the first that was not done; one of the same revision and
    seeds is replaced."""
    head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    result = farm.result()
    entry = {
        "revision": head.stdout.strip() or "unknown",
        "seed": result["first_seed"],
        "count": next(i for i in itertools.count() if result["first_seed"] + i not in farm.done),
        "failed": result["failed_seeds"],
    }
    old: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []
    kept = [e for e in old if any(e[key] != entry[key] for key in ("revision", "seed", "count"))]
    path.write_text("[\n" + ",\n".join(f" {json.dumps(e)}" for e in [*kept, entry]) + "\n]\n")


if __name__ == "__main__":
    sys.exit(main())
