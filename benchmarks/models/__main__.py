"""Every model, forward and training step, on the emulator and on XLA:CPU: `python -m benchmarks.models [--size=small] [name ...]`.

Each case runs in a child: compiled from the same StableHLO by both, run, and at precision HIGHEST compared within the rounding
that its operations declare. Times are at precision DEFAULT: processor time of compiling once, after both have compiled a tiny
module; of warm runs, the median of elapsed time, and beside its ratio that of processor time.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import exp, log
from statistics import median
from typing import Any

from hlo2tx8.tools.compare import Array, Mismatch, compare

RUN = ("run ms", "XLA ms", "ratio", "processor")
HEADER = ("model", "ops", "kernels", "compile s", "XLA s", "ratio", *RUN, "cycles", "bound", "result")


def measure(name: str, size: str, kind: str, runs: int) -> dict[str, Any]:
    """Compile, run and compare one case in this process."""
    import jax
    import jax.extend.backend
    import numpy as np
    from jaxlib import xla_client

    from benchmarks.models.bounds import rounding_of, share_of_largest
    from benchmarks.models.zoo import MODELS
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.options import Options
    from hlo2tx8.runtime.compile import compile_module
    from hlo2tx8.tools.engines import launched

    model = next(m for m in MODELS if m.__name__ == name)(size == "medium")
    if kind == "forward":
        function, arguments = model.forward, (model.parameters, *model.inputs)
    else:
        function, arguments = model.training_step(), model.training_arguments()

    def text_at(precision: str) -> str:
        with jax.default_matmul_precision(precision):
            return jax.jit(function, keep_unused=True).trace(*arguments).lower(lowering_platforms=("cpu",)).as_text()

    text, exact = text_at("default"), text_at("highest")
    arrays = [np.asarray(a) for a in jax.tree.leaves(arguments)]
    load, load_exact = (partial(load_source, t, format="stablehlo") for t in (text, exact))
    backend = jax.extend.backend.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))

    tiny = jax.jit(lambda x: x + x).lower(np.ones(4, np.float32)).as_text()  # what a process pays for once
    backend.compile_and_load(tiny, devices, xla_client.CompileOptions())
    compile_module(partial(load_source, tiny, format="stablehlo"), Options())
    started = time.process_time()
    loaded = backend.compile_and_load(text, devices, xla_client.CompileOptions())
    theirs = time.process_time() - started
    started = time.process_time()
    executable = compile_module(load, Options())
    ours = time.process_time() - started

    on_device = [jax.device_put(a) for a in arrays]

    def run_xla():
        results = loaded.execute_sharded(on_device).disassemble_into_single_device_arrays()
        return [np.asarray(shards[0]) for shards in results]

    expected = run_xla()
    module = load_exact()
    rounding = rounding_of(module)
    executable.execute(*arrays)
    found = compile_module(load_exact, Options()).execute(*arrays)
    if kind == "forward":
        wrong = compare(found, expected, share_of_largest(expected, rounding))
    else:
        wrong = compare_training(found, expected, rounding, arrays)
    report = executable.report.as_dict()
    return {
        "ops": sum(1 for _ in module.walk()),
        "launches": sum(times for times, _ in launched(executable.program).values()),
        "kernels": len({launch.name for launch in executable.program.launches}),
        "compile": ours,
        "xla_compile": theirs,
        "run": medians(lambda: executable.execute(*arrays), runs),
        "xla_run": medians(run_xla, runs),
        "cycles": executable.report.cycles,
        "bound": str(report.get("bound", "")),
        "result": f"wrong: {wrong[0].line}" if wrong else f"within {rounding:.2g}",
    }


def compare_training(
    found: Sequence[Array], expected: Sequence[Array], rounding: float, arguments: Sequence[Array]
) -> list[Mismatch]:
    """Loss and moments of a training step against XLA's; the moved parameters against adam in float64 from the moments found.

    Outputs are loss, parameters, first and second moments. A step of adam divides a gradient by its own size, so the rounding
    of one that is small beside its neighbours is as large as the step: moved parameters are no measure of how well gradients agree.
    """
    import jax
    import numpy as np

    from benchmarks.models.bounds import rounding_of, share_of_largest
    from benchmarks.models.zoo import adam
    from hlo2tx8.compiler.driver import load_source

    count = (len(found) - 1) // 3
    moved, moments = found[1 : count + 1], found[count + 1 :]
    wanted = [expected[0], *moved, *expected[count + 1 :]]
    wrong = compare(found, wanted, share_of_largest(wanted, rounding))
    lowered = jax.jit(adam).trace(*[np.float32(0)] * 3).lower(lowering_platforms=("cpu",))
    states = zip(arguments[:count], moments[:count], moments[count:], strict=True)
    exact = [adam(*(a.astype(np.float64) for a in state), xp=np).astype(np.float32) for state in states]
    wanted = [found[0], *exact]
    step = rounding_of(load_source(lowered.as_text(), format="stablehlo"))
    return wrong + compare([found[0], *moved], wanted, share_of_largest(wanted, step))


def medians(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Elapsed and processor seconds of a run: medians of `runs`, or of as many as 0.3 s hold."""
    times: list[tuple[float, float]] = []
    began = time.perf_counter()
    while len(times) < runs or time.perf_counter() - began < 0.3:
        started, used = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - started, time.process_time() - used))
    elapsed, processor = map(median, zip(*times, strict=True))
    return elapsed, processor


def in_child(name: str, size: str, kind: str, runs: int, limit: float) -> dict[str, Any]:
    """`measure` in a process of its own; `result` says what went wrong there."""
    command = [sys.executable, "-m", "benchmarks.models", "--child", name, "--size", size, "--kind", kind, "--runs", str(runs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"result": f"not done in {limit:g} s"}
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [i for i, line in enumerate(lines) if "rror" in line]
        return {"result": " ".join(lines[errors[-1] :] if errors else lines[-1:])[:200] or f"status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else 0.0


def main() -> int:
    """Print the table; 1 if a case did not agree."""
    from benchmarks.measure import table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--size", default="small", choices=("small", "medium"))
    parser.add_argument("--kind", choices=("forward", "training"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=600, help="seconds per case")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.names[0], arguments.size, arguments.kind, arguments.runs)))
        return 0
    from benchmarks.models.zoo import MODELS

    rows, ratios, failed = [], ([], [], []), 0
    for model in MODELS:
        name = model.__name__
        if arguments.names and name not in arguments.names:
            continue
        for kind in (arguments.kind,) if arguments.kind else ("forward", "training"):
            if kind == "training" and name == "llama_decode":
                continue
            r = in_child(name, arguments.size, kind, arguments.runs, arguments.limit)
            label = f"{name} {kind}"
            if "compile" not in r:
                rows.append((label, *[""] * (len(HEADER) - 2), r["result"]))
                failed += 1
            else:
                (run, used), (xla_run, xla_used) = r["run"], r["xla_run"]
                of_xla = (r["compile"] / r["xla_compile"], run / xla_run, used / xla_used)
                for collected, ratio in zip(ratios, of_xla, strict=True):
                    collected.append(ratio)
                failed += r["result"].startswith("wrong")
                times = (r["compile"], r["xla_compile"], of_xla[0], 1e3 * run, 1e3 * xla_run, *of_xla[1:])
                rows.append((label, r["ops"], r["kernels"], *times, r["cycles"], r["bound"], r["result"]))
            print(" ".join(f"{c:.3g}" if isinstance(c, float) else str(c) for c in rows[-1]), file=sys.stderr, flush=True)
    print(table(HEADER, rows))
    compiled, ran, used = map(mean, ratios)
    print(f"geometric mean of ratios: compile {compiled:.3g}, run {ran:.3g} (processor time {used:.3g})")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
