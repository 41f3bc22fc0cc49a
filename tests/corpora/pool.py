"""Cases run one by one in a child that may crash or hang; outcomes as they come, and a table of them.

The child reads a JSON request per line and answers with a JSON line: `outcome` (passed, failed or skipped), `cause`, and what else
the corpus wants to keep.
"""

import argparse
import json
import re
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Outcome = dict[str, Any]


def run_cases(child: Path, requests: Sequence[dict[str, Any]], timeout: float) -> Iterator[Outcome]:
    """The outcome of each request, with the request's keys; a case without an answer within `timeout` seconds failed."""
    process: subprocess.Popen[str] | None = None
    for request in requests:
        if process is None:
            process = subprocess.Popen(
                [sys.executable, str(child)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert process.stdin is not None and process.stdout is not None
        started = time.perf_counter()
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], timeout)
        line = process.stdout.readline() if ready else ""
        if line:
            outcome = json.loads(line)
        else:
            process.kill()
            code = process.wait()
            process = None
            outcome = {"outcome": "failed", "cause": f"crashed with status {code}" if ready else f"no answer in {timeout:g} s"}
        yield request | outcome | {"seconds": round(time.perf_counter() - started, 3)}
    if process is not None:
        process.kill()
        process.wait()


def parser_of(text: str, name: str, timeout: float) -> argparse.ArgumentParser:
    """The flags of every runner; `name` says what a case's name looks like."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help=f"a regular expression over {name}")
    parser.add_argument("--log", type=Path, help="a JSON line per case goes there")
    parser.add_argument("--timeout", type=float, default=timeout, help="seconds per case")
    return parser


def run_and_tell(child: Path, requests: Sequence[dict[str, Any]], given: argparse.Namespace) -> list[Outcome]:
    """All outcomes; each goes to the log, and what failed to stderr, as it comes."""
    outcomes: list[Outcome] = []
    log = given.log.open("w") if given.log else None
    for outcome in run_cases(child, requests, given.timeout):
        outcomes.append(outcome)
        if log is not None:
            print(json.dumps({key: value for key, value in outcome.items() if key != "text"}), file=log, flush=True)
        if outcome["outcome"] == "failed":
            print(f"{outcome['case']}: {outcome['cause']}", file=sys.stderr, flush=True)
    return outcomes


def serve(answer: Callable[[dict[str, Any]], Outcome]) -> None:
    """The child's loop; what `answer` prints goes to stderr."""
    replies, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            outcome = answer(json.loads(line))
        except Exception as error:
            outcome = {"outcome": "failed", "cause": cause_of(error)}
        print(json.dumps(outcome), file=replies, flush=True)


def cause_of(error: Exception) -> str:
    """One line for an error: its text without numbers of lines and files, so that equal causes count as one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and "unsupported operation" in lines[0]:
        lines = [re.sub(r"^\d+ x ", "unsupported ", line) for line in lines[1:]]
    text = re.sub(r" at (?:/|<).*", "", lines[0]) if lines else "no message"
    return text[:160] if type(error).__module__.startswith("hlo2tx8") else f"{type(error).__name__}: {text}"[:160]


def report(outcomes: Sequence[Outcome], group: Callable[[Outcome], str]) -> str:
    """Passed, failed and skipped by group, then the causes of what failed and what was skipped."""
    groups: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        groups.setdefault(group(outcome), Counter())[outcome["outcome"]] += 1
    total = sum(groups.values(), Counter())
    lines = ["group                          passed  failed  skipped"]
    for name, count in [*sorted(groups.items()), ("all", total)]:
        lines.append(f"{name:30} {count['passed']:6}  {count['failed']:6}  {count['skipped']:7}")
    judged = total["passed"] + total["failed"]
    lines.append(f"\n{100 * total['passed'] / max(judged, 1):.2f} % of {judged} cases pass")
    for word in ("failed", "skipped"):
        causes = Counter(o["cause"] for o in outcomes if o["outcome"] == word)
        lines += [f"\n{word}", *(f"{count:6}  {cause}" for cause, count in causes.most_common())] if causes else []
    return "\n".join(lines)
