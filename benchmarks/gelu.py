"""gelu (tanh form) in bf16 and f32, ours and XLA:CPU side by side: compile, run, program size, memory.

    python -m benchmarks.gelu [--rounds 20]

XLA default allocates its result; XLA warm writes into a donated buffer. Both sides are pinned to the same core.
Compile is from the same StableHLO text to something that can run.
"""

import argparse
import sys

from benchmarks.measure import interleave, pin, table

CORE = pin()

import jax  # noqa: E402
import jax.extend.backend  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jaxlib import xla_client  # noqa: E402

import hlo2tx8  # noqa: E402
from benchmarks.memory import peak_of_run  # noqa: E402

BIG, SMALL = (6, 512, 4096), (6, 64, 512)
OPTIONS = hlo2tx8.Options(threads=1)


def gelu(x):
    """0.5 x (1 + tanh(0.797884583 (x + 0.044715 x^3))): nine operations."""
    return x * ((jnp.tanh((x + x * x * x * 0.044715) * 0.797884583) + 1) * 0.5)


def stablehlo(shape, dtype) -> str:
    """The StableHLO text both compilers get."""
    return jax.jit(gelu).lower(jax.ShapeDtypeStruct(shape, dtype)).as_text()


def compile_xla(text):
    """XLA:CPU's executable."""
    backend = jax.extend.backend.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))
    return backend.compile_and_load(text, devices, xla_client.CompileOptions())


def run_times(dtype, rounds):
    """Median seconds per run: ours, XLA default, XLA with a donated output; and the largest difference."""
    x = np.asarray(np.random.default_rng(0).uniform(-3, 3, BIG), dtype)
    executable = hlo2tx8.compile(stablehlo(BIG, dtype), OPTIONS)
    on_device = jax.device_put(x)
    default = jax.jit(gelu)
    donated = jax.jit(lambda a, out: gelu(a), donate_argnums=1, keep_unused=True)
    buffer = [jnp.zeros_like(on_device)]

    def warm():
        buffer[0] = donated(on_device, buffer[0])
        buffer[0].block_until_ready()

    times = interleave(
        {
            "ours": lambda: executable.run(x),
            "default": lambda: default(on_device).block_until_ready(),
            "warm": warm,
        },
        rounds,
    )
    off = np.abs(np.asarray(executable.run(x), np.float32) - np.asarray(default(on_device), np.float32)).max()
    return times, float(off)


def compile_times(shape, dtype, rounds):
    """Median seconds to compile: ours, XLA."""
    text = stablehlo(shape, dtype)
    return interleave({"ours": lambda: hlo2tx8.compile(text, OPTIONS), "xla": lambda: compile_xla(text)}, rounds)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    print(f"pinned to core {CORE}, medians of {rounds}\n")
    rows = []
    for dtype in (jnp.bfloat16, jnp.float32):
        t, off = run_times(np.dtype(dtype), rounds)
        ours, default, warm = (1e3 * t[k] for k in ("ours", "default", "warm"))
        rows.append((f"{np.dtype(dtype)}{list(BIG)}", ours, default, ours / default, warm, ours / warm, off))
    print(table(("run, ms", "ours", "XLA", "ratio", "XLA warm", "ratio", "max diff"), rows), "\n")
    rows, ours = [], {}
    for shape in (BIG, SMALL):
        t = compile_times(shape, np.dtype(jnp.bfloat16), rounds)
        executable = hlo2tx8.compile(stablehlo(shape, np.dtype(jnp.bfloat16)), OPTIONS)
        size = executable.memory_analysis()["generated_code_size_in_bytes"]
        ours[shape] = (t["ours"], size)
        rows.append((f"bf16{list(shape)}", 1e3 * t["ours"], 1e3 * t["xla"], t["ours"] / t["xla"], size))
    print(table(("compile, ms", "ours", "XLA", "ratio", "program bytes"), rows))
    seconds, size = (big / small for big, small in zip(ours[BIG], ours[SMALL], strict=True))
    print(f"large over small: compile time {seconds:.3f}, program bytes {size:.3f}\n")
    print(peak_of_run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
