"""Cases run in children that may crash or hang; outcomes as they come, and a table of them.

A child's task is a request, and its answer `outcome` (passed, failed or skipped), `cause`, and what else
the corpus wants to keep.
"""

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hlo2tx8.sweep import child
from hlo2tx8.sweep.farm import TaskFarm

Outcome = dict[str, Any]


def run_cases(
    program: Path, requests: Sequence[dict[str, Any]], timeout: float, jobs: int = 1, scheduler: str = ""
) -> Iterator[Outcome]:
    """The outcome of each request, with the request's keys; a case without an answer within `timeout` seconds failed. As of
    `TaskFarm`, whose workers have the same folders."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's own threads and several children wait for one another
    with TaskFarm([str(program.absolute())], jobs=jobs, scheduler=scheduler, limit=timeout) as farm:
        for number, answered in farm.run(requests):
            lost = answered.lost if answered.lost.startswith("no answer") else f"crashed, {answered.lost.partition(':')[0]}"
            outcome = answered.answers[0] if answered.answers else {"outcome": "failed", "cause": lost}
            yield requests[number] | outcome | {"seconds": answered.seconds}


def _add_run_flags(parser: argparse.ArgumentParser, timeout: float) -> None:
    parser.add_argument("--log", type=Path, help="a JSON line per case goes there")
    parser.add_argument("--timeout", type=float, default=timeout, help="seconds per case")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0: one per processor (1)")
    parser.add_argument("--scheduler", default="", help="tcp://HOST:PORT of a Dask scheduler, whose workers have the same folders")


def parser_of(text: str, name: str, timeout: float) -> argparse.ArgumentParser:
    """The flags of every runner; `name` says what a case's name looks like."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help=f"a regular expression over {name}")
    _add_run_flags(parser, timeout)
    return parser


def network_parser(text: str | None) -> argparse.ArgumentParser:
    """The flags of runners whose cases are networks of a package, not files of a checkout."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--only", default="", help="a regular expression over KIND/NAME")
    _add_run_flags(parser, 600)
    return parser


def run_networks(program: Path, sizes: Mapping[str, int], given: argparse.Namespace) -> int:
    """Runs the networks, KIND/NAME and the height and width of an image, prints the table; 1 if one failed. A request has `case`
    and `size`."""
    requests = [{"case": case, "size": size} for case, size in sizes.items() if re.search(given.only, case)]
    if not requests:
        sys.exit(f"no network matches {given.only}")
    outcomes = run_and_tell(program, requests, given)
    print(report(outcomes, lambda outcome: outcome["case"].partition("/")[0]))
    return int(any(outcome["outcome"] == "failed" for outcome in outcomes))


def run_and_tell(program: Path, requests: Sequence[dict[str, Any]], given: argparse.Namespace) -> list[Outcome]:
    """All outcomes; each goes to the log, and what failed to stderr, as it comes."""
    outcomes: list[Outcome] = []
    log = given.log.open("w") if given.log else None
    for outcome in run_cases(program, requests, given.timeout, given.jobs, given.scheduler):
        outcomes.append(outcome)
        if log is not None:
            print(json.dumps({key: value for key, value in outcome.items() if key != "text"}), file=log, flush=True)
        if outcome["outcome"] == "failed":
            print(f"{outcome['case']}: {outcome['cause']}", file=sys.stderr, flush=True)
    return outcomes


def serve(answer: Callable[[dict[str, Any]], Outcome]) -> None:
    """The child's loop; what `answer` prints goes to stderr."""

    def outcome_of(request: dict[str, Any]) -> Outcome:
        try:
            return answer(request)
        except Exception as error:
            return {"outcome": "failed", "cause": cause_of(error)}

    child.serve(outcome_of)


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
