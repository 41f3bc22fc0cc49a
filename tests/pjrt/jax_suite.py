"""Reruns JAX's own tests on the device tx8: `python tests/pjrt/jax_suite.py --jax=DIR [--out=DIR] [file ...]`.

DIR is the root of jax's sources of the installed version (it has tests/); absl-py must be installed. Every file runs in a child
process, which is started again after a test that crashes or takes too long. Written to --out: `<file>.jsonl` with a line per
test (name, outcome, message) and `summary.md` with passed, failed, skipped and the causes of failures by count.
With --baseline=DIR, results of `--platforms=cpu`, only tests that pass there count.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
FILES = (
    *("lax_test", "lax_numpy_test", "lax_numpy_operators_test", "lax_numpy_reducers_test", "lax_numpy_indexing_test"),
    *("lax_numpy_einsum_test", "lax_numpy_ufuncs_test", "lax_control_flow_test", "lax_autodiff_test", "lax_vmap_test", "nn_test"),
    *("random_test", "api_test", "pjit_test", "shard_map_test", "linalg_test", "export_test", "compilation_cache_test"),
)
MULTI_DEVICE = ("pjit_test", "shard_map_test")
ENVIRONMENT = {"JAX_NUM_GENERATED_CASES": "10", "JAX_DEFAULT_MATMUL_PRECISION": "highest", "JAX_TRACEBACK_FILTERING": "off"}
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


def cause_of(message: str) -> str:
    """One short line for a failure's text: what the compiler refused, else the first exception."""
    for pattern, form in CAUSES:
        found = pattern.search(message)
        if found:
            return form.format(found[1]).strip()
    return next((line for line in message.splitlines() if line.strip()), "no message")[:80]


def run_file(name: str, arguments: argparse.Namespace) -> dict[str, dict[str, str]]:
    """Outcomes by test name; goes on after crashes."""
    log = arguments.out / f"{name}.jsonl"
    log.unlink(missing_ok=True)
    options = "chips:8" if name in MULTI_DEVICE else "chips:1"
    environment = os.environ | ENVIRONMENT | {"JAX_PLATFORMS": arguments.platforms, "JAX_PJRT_CLIENT_CREATE_OPTIONS": options}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    while True:
        before = len(outcomes(log))
        command = [sys.executable, str(HERE / "jax_suite_child.py"), str(arguments.jax / "tests" / f"{name}.py"), str(log)]
        run = subprocess.run(
            [*command, str(arguments.timeout), arguments.k],
            env=environment,
            cwd=arguments.jax,
            capture_output=True,
            text=True,
            check=False,
        )
        finished = outcomes(log)
        if run.returncode == 0:
            return finished
        started = [test for test, outcome in finished.items() if outcome["outcome"] == "started"]
        if not started and len(finished) == before:
            raise SystemExit(f"{name} cannot be run:\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}")
        word = "timed out" if "Timeout" in run.stderr else "crashed"
        for test in started:
            append(log, {"test": test, "outcome": "failed", "message": f"{word}: {run.stderr[-1500:]}"})


def outcomes(log: Path) -> dict[str, dict[str, str]]:
    """The last line of each test in a log."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {line["test"]: line for line in map(json.loads, lines)}


def append(log: Path, line: dict[str, str]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")


def summary(results: dict[str, dict[str, dict[str, str]]], baseline: Path | None) -> str:
    """Tables as Markdown: a row per file, then causes."""
    rows = ["| file | passed | failed | skipped | of cpu's |", "|---|---|---|---|---|"]
    causes: Counter[str] = Counter()
    for name, tests in results.items():
        counts = Counter(t["outcome"] for t in tests.values())
        share = ""
        if baseline is not None:
            on_cpu = {t for t, line in outcomes(baseline / f"{name}.jsonl").items() if line["outcome"] == "passed"}
            passed = sum(tests.get(t, {}).get("outcome") == "passed" for t in on_cpu)
            share = f"{100 * passed / max(1, len(on_cpu)):.1f} %"
            causes.update(cause_of(line["message"]) for t, line in tests.items() if line["outcome"] == "failed" and t in on_cpu)
        else:
            causes.update(cause_of(line["message"]) for line in tests.values() if line["outcome"] == "failed")
        rows.append(f"| {name} | {counts['passed']} | {counts['failed']} | {counts['skipped']} | {share} |")
    rows += [
        "",
        "| failures | cause |",
        "|---|---|",
        *(f"| {count} | {cause.replace('|', '/')} |" for cause, count in causes.most_common()),
    ]
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=FILES, help="test files without .py; the standard list if none is given")
    parser.add_argument("--jax", type=Path, required=True, help="root of jax's sources")
    parser.add_argument("--out", type=Path, default=Path("build/jax_suite"), help="where results go")
    parser.add_argument("--baseline", type=Path, help="results of another run, whose passed tests are the measure")
    parser.add_argument("--platforms", default="tx8,cpu", help="JAX_PLATFORMS")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one test")
    parser.add_argument("-k", default="", help="pytest's -k")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    results = {name: run_file(name, given) for name in given.files}
    text = summary(results, given.baseline)
    (given.out / "summary.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
