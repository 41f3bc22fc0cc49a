"""What the runners of corpora share: their flags, and the run itself, by `hlo2tx8.tools.test_ops.cases`."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hlo2tx8.tools.test_ops import cases
from hlo2tx8.tools.test_ops.cases import Outcome, cause_of, report, run_cases, serve

__all__ = ["Outcome", "cause_of", "network_parser", "parser_of", "report", "run_and_tell", "run_cases", "run_networks", "serve"]


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
    """All outcomes of a child's requests, as of `cases.run_and_tell`."""
    return cases.run_and_tell([str(program.absolute())], requests, given.timeout, (given.jobs, given.scheduler), given.log)
