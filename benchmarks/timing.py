"""What timing costs: milliseconds of processor time per distinct group, over the samples and the kernels written by hand.

    python -m benchmarks.timing [--rounds 20] [NAME ...]

A group is what lies between two barriers; equal ones are timed once. A program's figure is the minimum of the rounds over all of
`model`, decoding and the report's line included, divided by its distinct groups.
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kernels.cases import conv_cases, gemm_cases, row_cases, transpose_cases
from benchmarks.measure import table
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import model
from hlo2tx8.device.timing.model import stretches
from hlo2tx8.runtime.compile import compile_source

SAMPLES = Path(__file__).parents[1] / "hlo_samples"
CHIP = load_chip()


def programs(names: list[str]) -> Iterator[tuple[str, Program]]:
    """Name and program of every sample and kernel whose name contains one of the names."""
    for file in sorted([*SAMPLES.rglob("*.hlo"), *SAMPLES.rglob("*.mlir")]):
        name = str(file.relative_to(SAMPLES))
        if not names or any(n in name for n in names):
            yield name, compile_source(str(file)).program
    for case in [*row_cases(), *transpose_cases(), *gemm_cases(), *conv_cases()]:
        if not names or any(n in case.name for n in names):
            yield case.name, case.program


def milliseconds(program: Program, rounds: int) -> float:
    """Least processor time of timing the program."""
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        str(model(program, CHIP))
        best = min(best, time.process_time() - started)
    return 1e3 * best


def main() -> int:
    """Print the table, then median and maximum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    found = list(programs(args.names))
    gc.freeze()  # what compiling left is not timing's to collect
    rows: list[tuple[float, str, int, int, float]] = []
    for name, program in found:
        groups = len({key for _, key, _ in stretches(program, CHIP)})
        spent = milliseconds(program, args.rounds)
        rows.append((spent / groups, name, groups, len(program.code), spent))
    rows.sort(reverse=True)
    header = ("program", "groups", "records", "ms", "ms per group")
    print(table(header, [(name, groups, size, f"{spent:.2f}", f"{each:.2f}") for each, name, groups, size, spent in rows]))
    each = [row[0] for row in rows]
    print(f"\nper distinct group: median {statistics.median(each):.2f} ms, at most {max(each):.2f} ms, {len(each)} programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
