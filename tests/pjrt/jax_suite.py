"""Reruns JAX's own tests on the device tx8: `python tests/pjrt/jax_suite.py --jax=DIR [--jobs=N] [--baseline] [file ...]`.

DIR is the root of jax's sources of the installed version (it has tests/); absl-py and hypothesis must be installed. Each file is
cut into shards, child processes of which --jobs run at a time; a child that crashes, or whose test takes too long, is started
again after that test. Tests come in a fixed random order, so what a --limit or --sample leaves is a fair part of them.

Written to --out as the tests end: `tx8/<file>.<shard>.jsonl` with a line per test (name, outcome, message); at the end
`summary.json` and `summary.md`, passed, failed, skipped and the causes of failures by count. A second run goes on where the first
was ended; --summary runs nothing.
With --baseline, the tests that did not pass are run on cpu too (`cpu/`), and only those that pass there count; those that jax skips
because it knows nothing of tx8 are run once more, told that it is a cpu (`as_cpu/`). Some of them then ask for what only XLA has.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILES = (
    *("lax_test", "lax_numpy_test", "lax_numpy_operators_test", "lax_numpy_reducers_test", "lax_numpy_indexing_test"),
    *("lax_numpy_einsum_test", "lax_numpy_ufuncs_test", "lax_control_flow_test", "lax_autodiff_test", "lax_vmap_test", "nn_test"),
    *("random_test", "api_test", "pjit_test", "shard_map_test", "linalg_test", "export_test", "compilation_cache_test"),
)
MULTI_DEVICE = ("pjit_test", "shard_map_test")
ENVIRONMENT = {
    **{"JAX_NUM_GENERATED_CASES": "10", "JAX_DEFAULT_MATMUL_PRECISION": "highest", "JAX_TRACEBACK_FILTERING": "off"},
    **{"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
}
CAUSES = (
    (re.compile(r"\d+ x ([\w.]+): [^\n]*"), "unsupported {}"),
    (re.compile(r"\d+ x ([\w.]+)"), "unsupported {}"),
    (re.compile(r"(error E\d{4}: .{0,60})"), "{}"),
    (re.compile(r"(UNIMPLEMENTED: .{0,60})"), "{}"),
    (re.compile(r"MLIR translation rule for primitive '(\w+)' not found"), "no lowering of {}"),
    (re.compile(r"(crashed|timed out)"), "{}"),
    (re.compile(r"(Not equal to tolerance|Arrays are not equal|Mismatched elements)"), "wrong answer: {}"),
    (re.compile(r"^E? *(\w+(?:\.\w+)*(?:Error|Exception)\b.{0,60})", re.MULTILINE), "{}"),
)
RUNS = {"tx8": "tx8,cpu", "cpu": "cpu", "as_cpu": "tx8,cpu"}
"""JAX_PLATFORMS by the name of a run."""
Outcomes = dict[str, dict[str, str]]
"""The last line of each test, by its name."""


def cause_of(message: str) -> str:
    """One short line for a failure's text: what the compiler refused, else the first exception."""
    for pattern, form in CAUSES:
        found = pattern.search(message)
        if found:
            return form.format(found[1]).strip()
    return next((line for line in message.splitlines() if line.strip()), "no message")[:80]


@dataclass(frozen=True)
class Shard:
    """Part of a file's tests; `only` names a file with the tests to run, one a line, all if None."""

    run: str
    file: str
    number: int
    count: int
    only: Path | None = None

    def log(self, out: Path) -> Path:
        return out / self.run / f"{self.file}.{self.number}.jsonl"


def run_shard(shard: Shard, given: argparse.Namespace, end: float) -> None:
    """Runs the tests of a shard that no log has; goes on after crashes, until `end`."""
    log = shard.log(given.out)
    chips = 8 if shard.file in MULTI_DEVICE else 1
    environment = os.environ | ENVIRONMENT | {"JAX_PLATFORMS": RUNS[shard.run]}
    environment["JAX_PJRT_CLIENT_CREATE_OPTIONS"] = f"chips:{chips}" + (";threads:1" if given.jobs > 1 else "")
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    task: dict[str, Any] = {"file": str(given.jax / "tests" / f"{shard.file}.py"), "log": str(log), "k": given.k}
    task |= {"number": shard.number, "count": shard.count, "sample": given.sample, "timeout": given.timeout}
    task |= {"is_cpu": shard.run == "as_cpu", "only": None if shard.only is None else str(shard.only)}
    shard_end = min(end, time.time() + given.limit)
    while time.time() < shard_end:
        before = len(outcomes(log))
        command = [sys.executable, str(HERE / "jax_suite_child.py"), json.dumps(task | {"end": shard_end})]
        try:
            run = subprocess.run(
                command,
                env=environment,
                cwd=given.jax,
                capture_output=True,
                text=True,
                check=False,
                timeout=max(1, shard_end - time.time() + given.timeout),
            )
        except subprocess.TimeoutExpired:
            return
        if run.returncode == 0:
            return
        finished = outcomes(log)
        started = [test for test, line in finished.items() if line["outcome"] == "started"]
        if not started and len(finished) == before:
            print(f"{shard.file} cannot be run:\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}", file=sys.stderr)
            return
        word = "timed out" if "Timeout" in run.stderr else f"crashed with {run.returncode}"
        for test in started:
            append(log, {"test": test, "outcome": "failed", "message": f"{word}: {run.stderr[-1500:]}"})


def run_shards(shards: Sequence[Shard], given: argparse.Namespace, end: float) -> None:
    """All shards, --jobs at a time, with a line for each that ends."""

    def one(shard: Shard) -> None:
        started = time.time()
        run_shard(shard, given, end)
        tests = outcomes(shard.log(given.out))
        counts = Counter(line["outcome"] for line in tests.values())
        text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        print(f"{shard.run} {shard.file} {shard.number}/{shard.count}: {text} ({time.time() - started:.0f} s)", flush=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(one, shards))


def run_baseline(given: argparse.Namespace, end: float) -> None:
    """On cpu, every test that did not pass on tx8; then on tx8, those that were skipped there and pass on cpu."""
    run_listed(given, end, "cpu", lambda file: not_passed(given.out, file, ("failed", "skipped")))
    run_listed(
        given, end, "as_cpu", lambda file: sorted(not_passed(given.out, file, ("skipped",)) & passed(given.out, "cpu", file))
    )


def run_listed(given: argparse.Namespace, end: float, run: str, tests_of: Callable[[str], Iterable[str]]) -> None:
    """Some tests of each file."""
    shards: list[Shard] = []
    for file in given.files:
        names = tests_of(file)
        if names:
            listed = given.out / run / f"{file}.txt"
            listed.write_text("\n".join(names))
            shards += [Shard(run, file, i, given.shards, listed) for i in range(given.shards)]
    run_shards(shards, given, end)


def not_passed(out: Path, file: str, outcomes: Sequence[str]) -> set[str]:
    """The tests that had one of these outcomes on tx8."""
    return {name for name, line in results(out, "tx8", file).items() if line["outcome"] in outcomes}


def passed(out: Path, run: str, file: str) -> set[str]:
    """The tests that passed in a run."""
    return {name for name, line in results(out, run, file).items() if line["outcome"] == "passed"}


def outcomes(log: Path) -> Outcomes:
    """The last line of each test in a log."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {line["test"]: line for line in map(json.loads, lines)}


def forget_failures(out: Path, files: Sequence[str]) -> None:
    """Takes the tests that failed, or did not end, from the logs of tx8."""
    logs = [log for run in ("tx8", "as_cpu") for file in files for log in (out / run).glob(f"{file}.*.jsonl")]
    for log in logs:
        kept = [line for line in outcomes(log).values() if line["outcome"] in ("passed", "skipped")]
        log.write_text("".join(json.dumps(line) + "\n" for line in kept))


def results(out: Path, run: str, file: str) -> Outcomes:
    """The outcomes of all shards of a file."""
    return {test: line for log in sorted((out / run).glob(f"{file}.*.jsonl")) for test, line in outcomes(log).items()}


def append(log: Path, line: dict[str, str]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")


def summarize(out: Path, files: Sequence[str]) -> dict[str, Any]:
    """Counts by file and causes by count; of the failures, those that pass on cpu, or all where no baseline was run."""
    rows: dict[str, Any] = {}
    causes: Counter[str] = Counter()
    examples: dict[str, str] = {}
    has_baseline = any((out / "cpu").glob("*.jsonl"))
    for file in files:
        tests = results(out, "tx8", file)
        if not tests:
            continue
        counts = Counter(line["outcome"] for line in tests.values())
        row: dict[str, Any] = {outcome: counts[outcome] for outcome in ("passed", "failed", "skipped")}
        failures = [test for test, line in tests.items() if line["outcome"] == "failed"]
        if has_baseline:
            on_cpu, good = results(out, "cpu", file), passed(out, "cpu", file)
            failures = [test for test in failures if test in good or test not in on_cpu]
            row["failed, passes on cpu"] = len(failures)
            row["skipped, passes on cpu"] = sum(tests[test]["outcome"] == "skipped" for test in good if test in tests)
            row["of these pass as cpu"] = len(passed(out, "as_cpu", file))
        row["share"] = round(100 * row["passed"] / max(1, row["passed"] + len(failures)), 2)
        rows[file] = row
        told = [(test, line) for test, line in results(out, "as_cpu", file).items() if line["outcome"] == "failed"]
        lines = [("", test, tests[test]) for test in failures] + [("as cpu: ", *pair) for pair in told]
        for prefix, test, line in lines:
            cause = prefix + cause_of(line["message"])
            causes[cause] += 1
            examples.setdefault(cause, f"{file}::{test}")
    total: Counter[str] = Counter()
    for row in rows.values():
        total.update({key: value for key, value in row.items() if key != "share"})
    failed = total["failed, passes on cpu" if has_baseline else "failed"]
    rows["all"] = dict(total) | {"share": round(100 * total["passed"] / max(1, total["passed"] + failed), 2)}
    return {"files": rows, "causes": [{"count": n, "cause": c, "example": examples[c]} for c, n in causes.most_common()]}


def markdown(found: dict[str, Any]) -> str:
    """The summary as tables: a row per file, then causes."""
    columns = list(found["files"]["all"])
    lines = [f"| file | {' | '.join(columns[:-1])} | passed of those that pass on cpu |", "|---" * (len(columns) + 1) + "|"]
    for name, row in found["files"].items():
        lines.append(f"| {name} | {' | '.join(str(row[column]) for column in columns[:-1])} | {row['share']} % |")
    lines += ["", "| failures | cause | for example |", "|---|---|---|"]
    lines += [f"| {row['count']} | {row['cause'].replace('|', '/')} | {row['example']} |" for row in found["causes"]]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=FILES, help="test files without .py; the standard list if none is given")
    parser.add_argument("--jax", type=Path, help="root of jax's sources")
    parser.add_argument("--out", type=Path, default=Path("build/jax_suite"), help="where results go and are read again")
    parser.add_argument("--baseline", action="store_true", help="run on cpu what does not pass, too")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--shards", type=int, default=0, help="parts of each file; as many as jobs, at most 4")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one test")
    parser.add_argument("--limit", type=float, default=1e6, help="seconds for one shard; its other tests are not run")
    parser.add_argument("--total", type=float, default=1e6, help="seconds for all")
    parser.add_argument("--sample", type=float, default=1.0, help="part of the tests to run")
    parser.add_argument("--summary", action="store_true", help="only read what --out has")
    parser.add_argument("--again", action="store_true", help="run what failed in earlier runs once more")
    parser.add_argument("-k", default="", help="pytest's -k")
    given = parser.parse_args(arguments)
    given.shards = given.shards or min(given.jobs, 4)
    given.out = given.out.absolute()
    if not given.summary:
        if given.jax is None:
            parser.error("--jax is needed to run tests")
        end = time.time() + given.total
        for run in RUNS:
            (given.out / run).mkdir(parents=True, exist_ok=True)
        if given.again:
            forget_failures(given.out, given.files)
        run_shards([Shard("tx8", file, i, given.shards) for i in range(given.shards) for file in given.files], given, end)
        if given.baseline:
            run_baseline(given, end)
    found = summarize(given.out, given.files)
    (given.out / "summary.json").write_text(json.dumps(found, indent=1))
    (given.out / "summary.md").write_text(markdown(found))
    print(markdown(found))


if __name__ == "__main__":
    main(sys.argv[1:])
