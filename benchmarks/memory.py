"""Peak host memory of one run, in a process of its own: `python -m benchmarks.memory [--size=medium] [model ...]`.

Without models it is gelu, one fusion with nothing alive in between: inputs + outputs + 16 SPMs + 150 MB at most. A model, forward
and training step, may take 1.5 times what lies in DDR, and 300 MB.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "hlo_samples" / "elementwise" / "gelu_bf16.hlo"
ALLOWANCE = (16 * 3 + 150) << 20
MODEL_SHARE, MODEL_ALLOWANCE = 1.5, 300 << 20

RUN = """
import re, sys, numpy as np, hlo2tx8
from hlo2tx8.hlo.signature import dtype_of
executable = hlo2tx8.load(sys.argv[1])
inputs = [np.empty(port.shape, dtype_of(port.dtype)) for port in executable.signature.inputs]
for x in inputs:
    x.fill(0.25)
executable.run(*inputs)
sizes = executable.memory_analysis()
named = sum(sizes[f"{kind}_size_in_bytes"] for kind in ("argument", "output", "temp", "constant"))
# Not ru_maxrss: it starts at what the parent had when it forked.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
print(peak * 1024, named)
"""

COMPILE = """
import sys, jax, hlo2tx8
from benchmarks.models.zoo import MODELS
path, name, size, kind = sys.argv[1:]
model = next(m for m in MODELS if m.__name__ == name)(size == "medium")
if kind == "forward":
    function, arguments = model.forward, (model.parameters, *model.inputs)
else:
    function, arguments = model.training_step(), model.training_arguments()
text = jax.jit(function, keep_unused=True).trace(*arguments).lower(lowering_platforms=("cpu",)).as_text()
hlo2tx8.compile(text).save(path)
"""


def _in_child(code: str, *arguments: str) -> str:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True).stdout


def _verdict(label: str, path: str, share: float, allowance: int) -> str:
    """One line: the peak of running a stored executable, the bound, whether it holds."""
    peak, named = map(int, _in_child(RUN, path).split())
    bound = share * named + allowance
    word = "within" if peak <= bound else "ABOVE"
    return f"{label}: peak host memory {peak / 2**20:.0f} MB, {word} the bound of {bound / 2**20:.0f} MB"


def peak_of_run() -> str:
    """Of gelu."""
    import hlo2tx8

    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "gelu.tx8x")
        hlo2tx8.compile(str(SAMPLE)).save(path)
        return _verdict("gelu", path, 1, ALLOWANCE)


def peak_of_model(name: str, size: str, kind: str) -> str:
    """Of a model's forward or training step."""
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "model.tx8x")
        _in_child(COMPILE, path, name, size, kind)
        return _verdict(f"{name} {kind}", path, MODEL_SHARE, MODEL_ALLOWANCE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line per run; 1 if one is above its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="of benchmarks.models")
    parser.add_argument("--size", default="medium", choices=("small", "medium"))
    given = parser.parse_args(arguments)
    cases = [
        (name, kind) for name in given.models for kind in ("forward", "training") if (name, kind) != ("llama_decode", "training")
    ]
    lines = [peak_of_run()] if not cases else []
    print(*lines, sep="\n", end="\n" * len(lines))
    for name, kind in cases:
        lines.append(peak_of_model(name, given.size, kind))
        print(lines[-1], flush=True)
    return int(any("ABOVE" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
