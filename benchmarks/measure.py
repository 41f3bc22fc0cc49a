"""Pinning, interleaved timing and tables."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def pin() -> int:
    """Keep this process and all threads it starts on one core, the last allowed one; its number."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def interleave(
    works: Mapping[str, Callable[[], object]],
    rounds: int,
    warmup: int = 2,
    settle: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each work; the works take turns so that drift hits all alike.

    `settle` runs of the same work, not timed, come before each timed one, so that it meets its own caches and not the other's
    threads, which still look for work when they have done theirs.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + warmup):
        for name, work in works.items():
            for _ in range(settle):
                work()
            started = clock()
            work()
            if turn >= warmup:
                times[name].append(clock() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns aligned, numbers to the right."""
    cells = [list(header), *([f"{c:.3g}" if isinstance(c, float) else str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))) for r in cells]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)
