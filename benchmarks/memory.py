"""Peak host memory of one run, in a process of its own: `python -m benchmarks.memory`.

The bound is inputs + outputs + live intermediates + 16 SPMs + 150 MB; gelu is one fusion: nothing is live in between.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "hlo_samples" / "elementwise" / "gelu_bf16.hlo"
ALLOWANCE = 150 << 20

CHILD = """
import re, sys, numpy as np, hlo2tx8
from hlo2tx8.runtime.signature import dtype_of
executable = hlo2tx8.load(sys.argv[1])
(port,) = executable.signature.inputs
x = np.empty(port.shape, dtype_of(port.dtype))
x.fill(0.25)
executable.run(x)
sizes = executable.memory_analysis()
named = sum(sizes[k] for k in ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes"))
# Not ru_maxrss: it starts at what the parent had when it forked.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
print(peak * 1024, named + 16 * (3 << 20))
"""


def peak_of_run() -> str:
    """One line: the peak, the bound, whether it holds."""
    import hlo2tx8

    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "gelu.tx8x")
        hlo2tx8.compile(str(SAMPLE)).save(path)
        child = subprocess.run([sys.executable, "-c", CHILD, path], capture_output=True, text=True, check=True)
    peak, named = map(int, child.stdout.split())
    bound = named + ALLOWANCE
    word = "within" if peak <= bound else "ABOVE"
    return f"peak host memory {peak / 2**20:.0f} MB, {word} the bound of {bound / 2**20:.0f} MB"


if __name__ == "__main__":
    print(peak_of_run())
