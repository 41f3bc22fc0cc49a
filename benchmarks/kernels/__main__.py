"""Kernels on the emulator against XLA:CPU that writes into donated memory: whole programs, DMA included, both sides in turns.

    python -m benchmarks.kernels [--rounds 20] [--cores 2] [--cpu-time] [NAME ...]

A NAME picks the kernels whose names contain it. On a busy machine --cpu-time compares what the cores did instead of what the clock
says.
"""

import argparse
import gc
import math
import os
import sys
import time

PARSER = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
PARSER.add_argument("names", nargs="*", metavar="NAME")
PARSER.add_argument("--rounds", type=int, default=20)
PARSER.add_argument("--cores", type=int, default=2)
PARSER.add_argument("--cpu-time", action="store_true")
ARGUMENTS = PARSER.parse_args()
CORES = sorted(os.sched_getaffinity(0))[-ARGUMENTS.cores :]
os.sched_setaffinity(0, set(CORES))  # before jax counts them

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from benchmarks.kernels.cases import Case, conv_cases, gemm_cases, many_instructions, row_cases, transpose_cases  # noqa: E402
from benchmarks.measure import interleave, table  # noqa: E402
from hlo2tx8.device.chip import load_chip  # noqa: E402
from hlo2tx8.device.emulator import Emulator  # noqa: E402
from hlo2tx8.device.timing import model  # noqa: E402

CHIP = load_chip()
CLOCK = time.process_time if ARGUMENTS.cpu_time else time.perf_counter
EMULATOR = Emulator(CHIP, threads=len(CORES))


def compare(case: Case) -> tuple[float, tuple[object, ...]]:
    """Ours over XLA's time; the row of the table."""
    arguments = [jax.device_put(a) for a in case.inputs]
    inputs = [np.asarray(a) for a in arguments]  # the same memory
    shape = jax.eval_shape(case.reference, *arguments)
    buffer = [jnp.zeros(shape.shape, shape.dtype)]
    donated = jax.jit(lambda _, *a: case.reference(*a), donate_argnums=0, keep_unused=True)

    def warm() -> None:
        buffer[0] = donated(buffer[0], *arguments)
        buffer[0].block_until_ready()

    times = interleave({"ours": lambda: EMULATOR.run(case.program, inputs), "xla": warm}, ARGUMENTS.rounds, settle=2, clock=CLOCK)
    gc.disable()  # as timeit does: what XLA and jax keep would be walked here
    started = time.perf_counter()
    report = model(case.program, CHIP)
    modelled = time.perf_counter() - started
    gc.enable()
    got, want = (np.asarray(a, np.float64) for a in (EMULATOR.run(case.program, case.inputs)[0], buffer[0]))
    off = np.abs(got - want).max() / max(1.0, np.abs(want).max())
    ratio = times["ours"] / times["xla"]
    mark = "" if ratio <= case.limit else f"> {case.limit}"
    figures = (f"{1e3 * times['ours']:.2f}", f"{1e3 * times['xla']:.2f}", f"{ratio:.2f}", mark, f"{off:.1e}")
    chip = (f"{report.cycles:,.0f}", report.bound, f"{report.roofline_ratio:.2f}", f"{1e3 * modelled:.1f}")
    return ratio, (case.name, *figures, *chip)


def main() -> int:
    """Print the table."""
    cases = [*row_cases(), *transpose_cases(), *gemm_cases(), *conv_cases()]
    results = [compare(c) for c in cases if not ARGUMENTS.names or any(name in c.name for name in ARGUMENTS.names)]
    clock = "CPU time" if ARGUMENTS.cpu_time else "elapsed time"
    print(f"{clock}, {len(CORES)} cores, medians of {ARGUMENTS.rounds}; difference relative to the largest element\n")
    header = ("kernel", "tx8, ms", "XLA, ms", "ratio", "", "diff", "cycles", "bound", "of roofline", "timing, ms")
    print(table(header, [row for _, row in results]))
    if results:
        print(f"\ngeometric mean of the ratios: {math.exp(sum(math.log(r) for r, _ in results) / len(results)):.3f}")
    program = many_instructions()
    seconds = interleave({"ours": lambda: EMULATOR.run(program, [])}, ARGUMENTS.rounds, clock=CLOCK)["ours"]
    print(f"100,000 instructions of 64 elements on one tile: {1e3 * seconds:.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
