"""A sweep that is killed, against one that is left alone: `python -m benchmarks.sweep_ends [--points N]`.

1  undisturbed, on two workers: the table that all others must equal, but for processor time
2  killed twice, with all its processes, at random; then run to the end
3  a worker is killed in the middle
4  on one worker and on two, in turn, three times: elapsed time of measuring, and processor time of a point; `--only-pairs`
   leaves out the others, and `--workloads=FILE,...` takes other modules: short points show what is beside measuring

Exit code 1 if a table differs, or a point was measured twice.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hlo2tx8.sweep.results import read

SAMPLES = Path(__file__).parents[1] / "hlo_samples"
MODULES = (
    *("elementwise/gelu_bf16_small.hlo", "dot/batched_f32.hlo", "norm"),  # 0.1 s each: what is beside measuring shows
    *("sort/top_k_f32.mlir", "regressions/sort_by_not_greater.mlir"),  # 0.3 and 0.7 s: less than a layer of a model takes
)
POINT = re.compile(r"^\d+/\d+ ", re.MULTILINE)


def modules() -> list[str]:
    """A sample of each: the first of a folder."""
    return [str(min(path.glob("*.hlo")) if path.is_dir() else path) for path in (SAMPLES / name for name in MODULES)]


@dataclass(frozen=True)
class Sweep:
    """Those modules on so many chips that there are `points` in all, a multiple of 8 times the modules."""

    modules: Sequence[str]
    points: int

    def command(self, folder: Path, jobs: int) -> list[str]:
        """The command line of the sweep, with its table in a folder."""
        clocks = ",".join(str(800 + 50 * number) for number in range(self.points // (8 * len(self.modules))))
        axes = ["tiles=4x4,8x8", "spm=1.5M,3M", "ddr=200,400", f"clock={clocks}"]
        flags = [*(f"--chip={axis}" for axis in axes), f"--workloads={','.join(self.modules)}", f"--jobs={jobs}"]
        return [sys.executable, "-m", "hlo2tx8", "sweep", *flags, f"--output={folder / 'out.parquet'}"]

    def start(self, folder: Path, jobs: int) -> "subprocess.Popen[str]":
        """The sweep in a group of its own; what it says is in the file `said`."""
        with (folder / "said").open("a") as said:
            return subprocess.Popen(self.command(folder, jobs), stdout=said, stderr=said, text=True, start_new_session=True)

    def seconds(self, folder: Path, jobs: int) -> tuple[float, float]:
        """Elapsed time of the points behind the first tenth, in which processes start, and mean processor time of a point."""
        process = self.start(folder, jobs)
        wait_for(folder, self.points // 10, process)
        started = time.perf_counter()
        wait_for(folder, self.points, process)
        elapsed = time.perf_counter() - started
        process.wait()
        return elapsed, sum(row["cpu_seconds"] for row in read(folder / "out.parquet")) / self.points


def wait_for(folder: Path, count: int, process: "subprocess.Popen[str]") -> None:
    """Until so many points are told, or the process ends."""
    while process.poll() is None and len(POINT.findall((folder / "said").read_text())) < count:
        time.sleep(0.05)


def descendants(process: int) -> dict[int, str]:
    """Processes below one, with their command lines."""
    found: dict[int, str] = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            try:
                found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                found |= descendants(child)
            except OSError:
                continue
    return found


def table(folder: Path) -> list[dict[str, Any]]:
    """The rows, without what differs between equal sweeps."""
    return [{**row, "cpu_seconds": 0} for row in read(folder / "out.parquet")]


def killed_sweeps(sweep: Sweep, draw: random.Random) -> int:
    """How many sweeps that were killed, or lost a worker, have another table than one that was left alone."""
    points, wrong = sweep.points, 0
    with tempfile.TemporaryDirectory(prefix="hlo2tx8-sweep-ends-") as name:
        whole, killed, lost = (Path(name, each) for each in ("whole", "killed", "lost"))
        for folder in (whole, killed, lost):
            folder.mkdir()
        sweep.start(whole, 2).wait()
        expected = table(whole)

        for count in sorted(draw.sample(range(1, points - 1), 2)):
            process = sweep.start(killed, 2)
            below = descendants(process.pid)
            wait_for(killed, count, process)
            time.sleep(draw.random())
            below = descendants(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            for each in below:  # children of workers have groups of their own
                try:
                    os.kill(each, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()
            print(
                f"killed behind {len(POINT.findall((killed / 'said').read_text()))} points, {len(below)} processes below it",
                flush=True,
            )
        sweep.start(killed, 2).wait()
        told = len(POINT.findall((killed / "said").read_text()))
        wrong += table(killed) != expected
        print(
            f"killed twice: {'equal' if table(killed) == expected else 'DIFFERS'}, {told} points were told for {points}", flush=True
        )

        process = sweep.start(lost, 2)
        wait_for(lost, points // 4, process)
        worker = next(each for each, line in descendants(process.pid).items() if "spawn_main" in line)
        os.kill(worker, signal.SIGKILL)
        status = process.wait()
        wrong += table(lost) != expected or status != 0
        print(f"a worker killed: {'equal' if table(lost) == expected else 'DIFFERS'}, status {status}", flush=True)
    return wrong


def pairs_of(sweep: Sweep, count: int) -> None:
    """Print how much faster two workers are than one, that often."""
    pairs: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="hlo2tx8-sweep-ends-") as name:
        for number in range(count):
            measured: list[tuple[float, float]] = []
            for jobs in (1, 2):
                folder = Path(name, f"jobs{jobs}.{number}")
                folder.mkdir()
                measured.append(sweep.seconds(folder, jobs))
            pairs.append((measured[0][0] / measured[1][0], measured[1][1] / measured[0][1]))
            (one, cpu_one), (two, cpu_two) = measured
            print(
                f"one worker {one:.1f} s, two {two:.1f} s: {one / two:.2f}x; a point {cpu_one:.3f} and {cpu_two:.3f} s", flush=True
            )
        if pairs:
            print(f"medians: {median(p[0] for p in pairs):.2f}x, processor time of a point {median(p[1] for p in pairs):.2f}x")


def main() -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=modules(), help="files instead of samples")
    parser.add_argument("--only-pairs", action="store_true", help="4 alone")
    given = parser.parse_args()
    sweep = Sweep(given.workloads, given.points)
    wrong = 0 if given.only_pairs else killed_sweeps(sweep, random.Random(given.seed))
    pairs_of(sweep, given.pairs)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
