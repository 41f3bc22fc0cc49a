"""`hlo2tx8 sweep`: modules on each chip of a cross product of parameters, compiled and modelled, in one table."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hlo2tx8.errors import InputError
from hlo2tx8.options import Precision, Search
from hlo2tx8.tools.before_run import check_folder, check_writable
from hlo2tx8.tools.flags import add_switch, bound, whole

if TYPE_CHECKING:
    from hlo2tx8.sweep.points import ModuleSource

BEST = 10
"""Chips that a search prints."""
_COMMA = re.compile(r",(?![^\[]*\])")
"""Between workloads, not in their shapes."""


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `sweep`."""
    parser.set_defaults(function=sweep)
    add_sweep_flags(parser)
    parser.add_argument("--report", type=Path, metavar="DIR", help="write index.html, fronts.csv and steps.csv there")


def add_search_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `search-chip`."""
    parser.set_defaults(function=search_chip)
    add_sweep_flags(parser)
    text = "what is made small: numbers, columns of the table, + - * / **, min, max, sqrt, log, abs (microseconds * area)"
    parser.add_argument("--objective", default="microseconds * area", metavar="EXPRESSION", help=text)
    parser.add_argument("--trials", type=whole(1), default=40, help="chips that are tried (40)")
    parser.add_argument("--seed", type=whole(0), default=0, help="of what is tried (0)")


def add_sweep_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of sweeps and searches."""
    add = parser.add_argument
    text = "a parameter and its values: tiles=4x4,8x8, spm=1.5M,3M (bytes), ddr=200,400 (GB/s), clock=800,1000 (MHz), or a key of "
    add("--chip", action="append", default=[], metavar="NAME=V,V", help=text + "the chip file; also several times")
    add("--workloads", action="append", default=[], metavar="W,W", help="files of modules, or names of a checkout's benchmarks")
    add("-o", "--output", type=Path, default=Path("sweep.parquet"), metavar="FILE", help="the table (sweep.parquet)")
    add("--base", type=Path, metavar="FILE", help="the chip description whose parameters are changed (the built-in one)")
    add("--jobs", type=whole(0), default=0, help="workers on this machine; 0: one per processor (0)")
    add("--scheduler", default="local", help="tcp://HOST:PORT of a Dask scheduler (local: one is started, with --jobs workers)")
    add("--limit", type=bound, default=3600.0, metavar="S", help="seconds that a point may take, 0 for any (3600)")
    add("--matmul_precision", choices=get_args(Precision), default="default", help="as of compile (default)")
    add("--search", choices=get_args(Search), default="fast", help="as of compile (fast)")
    add_switch(parser, "reassociate", "as of compile", default=True)


def sources_of(listed: Sequence[str]) -> list["ModuleSource"]:
    """The modules of what --workloads lists; InputError for a name that is none, ParseError for a module that cannot be read."""
    names = dict.fromkeys(name.strip() for text in listed for name in _COMMA.split(text) if name.strip())
    if not names:
        raise InputError("E1004", "no workloads", hint="--workloads=FILE,...")
    return [_source(name) for name in names]


def _source(name: str) -> "ModuleSource":
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.frontend.content import SUFFIXES
    from hlo2tx8.sweep.points import ModuleSource

    path = Path(name)
    if path.is_file():
        suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        found = ModuleSource(name, path.read_bytes(), SUFFIXES.get(suffix, ""))
        load_source(found.data, format=found.format)
        return found
    root = Path(__file__).parents[2]
    if not (root / "benchmarks" / "workloads.py").is_file():
        raise InputError("E1004", f"no file {name}", hint="names of benchmarks are known in a checkout of hlo2tx8")
    if str(root) not in sys.path[:1]:
        sys.path.insert(0, str(root))
    benchmarks = import_module("benchmarks.workloads")
    if name not in (known := benchmarks.names()):
        raise InputError("E1004", f"no file and no workload {name!r}", hint=", ".join(known))
    return ModuleSource(name, benchmarks.text_of(name).encode(), "stablehlo")


def base_of(args: Any) -> Mapping[str, Any]:
    """What the chip file says that is changed; ChipError, as InputError, if it is not sound."""
    from hlo2tx8.device.chip import DEFAULT_PATH, ChipError, described, read_chip

    path = args.base or DEFAULT_PATH
    try:
        found: Mapping[str, Any] = described(path)
        read_chip(found, str(path))
    except ChipError as error:
        raise InputError("E1004", str(error)) from None
    return found


def options_of_points(args: Any) -> dict[str, Any]:
    """The options of compilation, by name."""
    return {name: getattr(args, name) for name in ("matmul_precision", "search", "reassociate")}


def teller(total: int) -> Callable[[Mapping[str, Any]], None]:
    """A function that prints a line for each row to stderr."""
    done = 0

    def tell(row: Mapping[str, Any]) -> None:
        nonlocal done
        done += 1
        what = f"{row['cycles']:,.0f} cycles" if row["status"] == "ok" else f"{row['status']}: {row['why']}"
        print(f"{done}/{total} {row['workload']} {row['chip']}: {what}", file=sys.stderr, flush=True)

    return tell


def sweep(args: Any) -> int:
    """Measure all points that the table does not have; 1 if some were lost."""
    from hlo2tx8.compiler.found_plans import code_version
    from hlo2tx8.sweep.farm import TaskFarm
    from hlo2tx8.sweep.page import write_report
    from hlo2tx8.sweep.parameters import axes
    from hlo2tx8.sweep.points import cross_product
    from hlo2tx8.sweep.results import Results
    from hlo2tx8.sweep.run import MEASURE, measure_all

    check_writable(args.output)
    check_folder(args.report)
    base = base_of(args)
    parameters = axes(args.chip, base)
    points = list(cross_product(sources_of(args.workloads), parameters, base, options_of_points(args)))
    with Results(args.output, code_version()) as results:
        todo = len({point.key for point in points} - set(results.rows))
        print(f"{len(points)} points, {len(points) - todo} are known", file=sys.stderr, flush=True)
        if todo:
            with TaskFarm(MEASURE, jobs=args.jobs, scheduler=args.scheduler, limit=args.limit) as farm:
                measure_all(points, results, farm, teller(todo))
        results.join(point.key for point in points)
        # An equal point may have been measured under another name.
        rows = [results.rows[point.key] | {"workload": point.source.name} | {"chip": point.known["chip"]} for point in points]
    if args.report is not None:
        write_report(args.report, rows, parameters)
    counts = {status: sum(row["status"] == status for row in rows) for status in ("ok", "refused", "failed", "lost")}
    print(f"{args.output}: {', '.join(f'{count} {status}' for status, count in counts.items() if count)}")
    return int(counts["lost"] > 0)


def search_chip(args: Any) -> int:
    """Try chips, add their rows to the table, and print the best ones; 1 if none could be measured."""
    from hlo2tx8.compiler.found_plans import code_version
    from hlo2tx8.sweep.farm import TaskFarm, extra
    from hlo2tx8.sweep.objective import Objective
    from hlo2tx8.sweep.parameters import axes
    from hlo2tx8.sweep.results import Results
    from hlo2tx8.sweep.run import MEASURE
    from hlo2tx8.sweep.search import search

    check_writable(args.output)
    extra("optuna", "search")
    objective, base = Objective(args.objective), base_of(args)
    parameters = axes(args.chip, base)
    if not parameters:
        raise InputError("E1004", "no parameters to search over", hint="--chip=NAME=V,V")
    sources, most = sources_of(args.workloads), args.trials
    with Results(args.output, code_version()) as results:
        with TaskFarm(MEASURE, jobs=args.jobs, scheduler=args.scheduler, limit=args.limit) as farm:
            given = sources, parameters, base, options_of_points(args), objective, most, args.seed
            tried, points = search(*given, results, farm, teller(most * len(sources)))
        results.join(point.key for point in points)
    for one in tried[:BEST]:
        print(f"{'none' if one.objective is None else f'{one.objective:.6g}':>14}  {one.chip}")
    print(f"{args.output}: {len(tried)} chips of {prod(len(axis.labels) for axis in parameters)}")
    return int(tried[0].objective is None)
