"""Cases run in children that may crash or hang; outcomes as they come, and a table of them.

A child's task is a request, and its answer `outcome` (passed, failed or skipped), `cause`, and what else a runner wants to keep.
"""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hlo2tx8.errors import writing
from hlo2tx8.sweep import child
from hlo2tx8.sweep.farm import TaskFarm

Outcome = dict[str, Any]


def run_cases(
    program: Sequence[str], requests: Sequence[dict[str, Any]], timeout: float, jobs: int = 1, scheduler: str = ""
) -> Iterator[Outcome]:
    """The outcome of each request, with the request's keys; a case without an answer within `timeout` seconds failed. `program` is
    Python's arguments for a child; the rest as of `TaskFarm`."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's own threads and several children wait for one another
    with TaskFarm(program, jobs=jobs, scheduler=scheduler, limit=timeout) as farm:
        for number, answered in farm.run(requests):
            lost = answered.lost if answered.lost.startswith("no answer") else f"crashed, {answered.lost.partition(':')[0]}"
            outcome = answered.answers[0] if answered.answers else {"outcome": "failed", "cause": lost}
            yield requests[number] | outcome | {"seconds": answered.seconds}


def run_and_tell(
    program: Sequence[str],
    requests: Sequence[dict[str, Any]],
    timeout: float,
    farm: tuple[int, str] = (1, ""),
    log: Path | None = None,
) -> list[Outcome]:
    """All outcomes; each goes to the log, a line of JSON, and what failed to stderr, as it comes. `farm` is jobs and scheduler."""
    outcomes: list[Outcome] = []
    with writing(log or Path()):
        file = log.open("w") if log else None
    for outcome in run_cases(program, requests, timeout, *farm):
        outcomes.append(outcome)
        if file is not None:
            print(json.dumps({key: value for key, value in outcome.items() if key != "text"}), file=file, flush=True)
        if outcome["outcome"] == "failed":
            print(f"{outcome['case']}: {outcome['cause']}", file=sys.stderr, flush=True)
    return outcomes


def serve(answer: Callable[[dict[str, Any]], Outcome]) -> None:
    """The child's loop; what `answer` prints goes to stderr, and an error that it raises is the outcome's cause."""

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
    total = sum(groups.values(), Counter[str]())
    wide = max(30, *map(len, groups)) if groups else 30
    lines = [f"{'group':{wide}} passed  failed  skipped"]
    for name, count in [*sorted(groups.items()), ("all", total)]:
        lines.append(f"{name:{wide}} {count['passed']:6}  {count['failed']:6}  {count['skipped']:7}")
    judged = total["passed"] + total["failed"]
    lines.append(f"\n{100 * total['passed'] / max(judged, 1):.2f} % of {judged} cases pass")
    for word in ("failed", "skipped"):
        causes = Counter(o["cause"] for o in outcomes if o["outcome"] == word)
        lines += [f"\n{word}", *(f"{count:6}  {cause}" for cause, count in causes.most_common())] if causes else []
    return "\n".join(lines)
