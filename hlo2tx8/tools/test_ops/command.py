"""`hlo2tx8 test-ops`: the flags, the run, what is printed and the page."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError, writing
from hlo2tx8.tools.before_run import check_writable
from hlo2tx8.tools.flags import bound, pattern, whole
from hlo2tx8.tools.test_ops.cases import Outcome, report, run_and_tell
from hlo2tx8.tools.test_ops.suites import MODULES, suite_named


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `test-ops`."""
    parser.set_defaults(function=test_ops)
    add = parser.add_argument
    add("--suite", choices=tuple(MODULES), default="hlo", help="whose ops: StableHLO's and chlo's, torch's or ONNX's (hlo)")
    text = "a regular expression over stablehlo, chlo; op, nn; node, simple, pytorch-operator, pytorch-converted, real (ops)"
    add("--kind", type=pattern, default="", metavar="RE", help=text)
    add("--only", type=pattern, default="", metavar="RE", help="a regular expression over cases, as --log names them")
    text = "a regular expression over cases that are known to fail: the exit code is not about them"
    add("--known", type=pattern, default=None, metavar="RE", help=text)
    add("--every", type=whole(1), default=1, metavar="N", help="each N-th case only")
    add("--samples", type=whole(1), default=3, metavar="N", help="uses of an op in an element type; ONNX has one (3)")
    add("--timeout", type=bound, default=120.0, metavar="S", help="seconds that a case may take, 0 for any (120)")
    add("--jobs", type=whole(0), default=0, help="processes on this machine; 0: one per processor (0)")
    add("--scheduler", default="", help="tcp://HOST:PORT of a Dask scheduler whose workers have hlo2tx8 and the framework")
    add("--log", type=Path, metavar="FILE", help="a JSON line per case goes there")
    add("--report", type=Path, metavar="FILE", help="write a page for browsers there: ops by element types, and what differs")


def test_ops(args: Any) -> int:
    """Run the cases, print the table; 1 if one failed that is not known to."""
    if args.report is not None:
        from hlo2tx8.reports.page import require

        require()
        check_writable(args.report)
    suite = suite_named(args.suite)
    requests = [r for r in suite.requests(args.kind or suite.kinds, args.samples) if re.search(args.only, r["case"])][:: args.every]
    if not requests:
        raise InputError("E1004", f"the suite {args.suite} has no such cases", hint="--kind and --only are regular expressions")
    outcomes = [{**r, "outcome": "skipped", "cause": r["skip"]} for r in requests if r.get("skip")]
    wanted = [{"suite": args.suite, **r} for r in requests if not r.get("skip")]
    program = ("-m", "hlo2tx8.tools.test_ops.child", args.suite)
    outcomes += run_and_tell(program, wanted, args.timeout, (args.jobs, args.scheduler), args.log)
    print(report(outcomes, lambda outcome: outcome["op"]))
    if args.report is not None:
        with writing(args.report):
            args.report.write_text(page(args.suite, outcomes))
        print(f"{args.report}: {len(outcomes)} cases", file=sys.stderr)
    failed = [outcome["case"] for outcome in outcomes if outcome["outcome"] == "failed"]
    unknown = [case for case in failed if args.known is None or not re.search(args.known, case)]
    if args.known is not None:
        names = f": {', '.join(unknown)}" if unknown else ""
        print(f"\n{len(failed) - len(unknown)} failed that are known to, {len(unknown)} others{names}")
    return int(bool(unknown))


def page(suite: str, outcomes: Sequence[Outcome]) -> str:
    """The page: how many cases of an op pass in each element type, and why the others do not."""
    from hlo2tx8.reports.page import render

    dtypes = sorted({outcome["dtype"] for outcome in outcomes})
    cells: dict[str, dict[str, Counter[str]]] = {}
    for outcome in outcomes:
        cells.setdefault(outcome["op"], {}).setdefault(outcome["dtype"], Counter())[outcome["outcome"]] += 1
    total = Counter(outcome["outcome"] for outcome in outcomes)
    others = {word: [o for o in outcomes if o["outcome"] == word] for word in ("failed", "skipped")}
    rows = dict(sorted(cells.items()))
    return render("ops.html.j2", title=f"Ops of {suite}", dtypes=dtypes, cells=rows, total=total, others=others)
