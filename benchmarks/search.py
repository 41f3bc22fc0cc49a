"""Modelled cycles over the lower bound with the first plan that fits and with the fastest of a full search, per workload.

    python -m benchmarks.search [REGEX ...] [--search_cache DIR]

Prints both ratios, how many times as long the first takes, and the seconds of both compilations. Workloads are those of
`benchmarks.roofline`. Nothing runs. Exit code 1 if a search finds something slower.
"""

import argparse
import re
import sys
import time
from pathlib import Path

import hlo2tx8
from benchmarks.roofline import GROUPS, Workload, geometric_mean
from hlo2tx8 import Options


def measured(workload: Workload, options: Options) -> tuple[float, float, float]:
    """Cycles, their ratio to the bound, and the seconds of the compilation."""
    text, started = workload.text(), time.process_time()
    executable = hlo2tx8.compile(text, options)
    seconds = time.process_time() - started
    assert executable.lower_bound is not None
    return executable.report.cycles, executable.report.cycles / executable.lower_bound.cycles, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="regular expressions")
    parser.add_argument("--search_cache", type=Path, metavar="DIR", help="where what is found is kept")
    arguments = parser.parse_args()
    full = Options(search="full", search_cache=arguments.search_cache)
    print(f"{'workload':42}{'fast':>15}{'/ bound':>9}{'full':>15}{'/ bound':>9}{'gain':>8}{'fast s':>9}{'full s':>9}")
    ratios: list[tuple[float, float]] = []
    for workload in (workload for group in GROUPS for workload in group()):
        if arguments.names and not any(re.search(name, workload.name) for name in arguments.names):
            continue
        (cycles, first, took), (fewest, best, searched) = measured(workload, Options()), measured(workload, full)
        ratios.append((first, best))
        gain = cycles / fewest
        print(
            f"{workload.name:42}{cycles:15,.0f}{first:9.2f}{fewest:15,.0f}{best:9.2f}{gain:8.3f}{took:9.2f}{searched:9.2f}",
            flush=True,
        )
    means = [geometric_mean([pair[number] for pair in ratios]) for number in (0, 1)]
    print(f"geometric mean {means[0]:.3f}, {means[1]:.3f} of {len(ratios)}")
    return int(any(best > first for first, best in ratios))


if __name__ == "__main__":
    sys.exit(main())
