"""XLA:CPU as a reference, alone in a process because it may abort: `python -m hlo2tx8.tools.xla_cpu DIR`.

Without DIR it stays, runs each folder named on a line of its input and answers "done" or "refused".

DIR holds `module.mlir`, `inputs.json` (dtype, shape) and `input<i>.bin`; `output<i>.bin` and `outputs.json`
are written. Arrays are raw bytes in C order, because .npy does not know bf16.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.errors import OracleError
from hlo2tx8.hlo.signature import dtype_of

Array = npt.NDArray[Any]

FLAGS = "--xla_cpu_experimental_ynn_fusion_type= --xla_allow_excess_precision=false"
"""Each op rounds to its own dtype, as the reference wants it."""


def run_on_cpu(mlir_text: str, arrays: Sequence[Array]) -> list[Array]:
    """The module's results on XLA:CPU in a child process; OracleError if it aborts or refuses."""
    with tempfile.TemporaryDirectory(prefix="hlo2tx8-") as name:
        directory = Path(name)
        (directory / "module.mlir").write_text(mlir_text)
        write_arrays(directory, "input", arrays)
        child = subprocess.run(
            [sys.executable, "-m", "hlo2tx8.tools.xla_cpu", name],
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if child.returncode:
            last = (child.stderr.strip() or "no message").splitlines()[-1]
            raise OracleError("E1009", f"XLA:CPU could not run the module: {last}")
        return read_arrays(directory, "output")


class CpuServer:
    """A child process that runs one module after another on XLA:CPU; if it dies, a new one is started."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def run(self, mlir_text: str, arrays: Sequence[Array]) -> list[Array]:
        """As `run_on_cpu`."""
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "hlo2tx8.tools.xla_cpu"]
            pipe, no = subprocess.PIPE, subprocess.DEVNULL
            self.process = subprocess.Popen(command, env=_environment(), stdin=pipe, stdout=pipe, stderr=no, text=True)
        assert self.process.stdin is not None and self.process.stdout is not None
        with tempfile.TemporaryDirectory(prefix="hlo2tx8-") as name:
            directory = Path(name)
            (directory / "module.mlir").write_text(mlir_text)
            write_arrays(directory, "input", arrays)
            self.process.stdin.write(f"{name}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
            if answer != "done":
                raise OracleError("E1009", f"XLA:CPU could not run the module: {answer or 'it aborted'}")
            return read_arrays(directory, "output")

    def close(self) -> None:
        """End the child."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _environment() -> dict[str, str]:
    return os.environ | {"XLA_FLAGS": FLAGS, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}


def write_arrays(directory: Path, stem: str, arrays: Sequence[Array]) -> None:
    """Write `<stem>s.json` and `<stem><i>.bin`."""
    for i, array in enumerate(arrays):
        (directory / f"{stem}{i}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
    table = [{"dtype": a.dtype.name, "shape": list(a.shape)} for a in arrays]
    (directory / f"{stem}s.json").write_text(json.dumps(table))


def read_arrays(directory: Path, stem: str) -> list[Array]:
    """The arrays that `write_arrays` wrote."""
    table = json.loads((directory / f"{stem}s.json").read_text())
    return [
        np.frombuffer((directory / f"{stem}{i}.bin").read_bytes(), dtype_of(entry["dtype"])).reshape(entry["shape"])
        for i, entry in enumerate(table)
    ]


def execute(mlir_text: str, arrays: Sequence[Array]) -> list[Array]:
    """Compile and run in this process."""
    jax: Any = import_module("jax")
    extended: Any = import_module("jax.extend.backend")
    api: Any = import_module("jaxlib.xla_client")
    backend = extended.get_backend("cpu")
    devices = api.DeviceList(tuple(backend.local_devices()[:1]))
    loaded = backend.compile_and_load(mlir_text, devices, api.CompileOptions())
    results = loaded.execute_sharded([jax.device_put(array) for array in arrays])
    return [np.asarray(shards[0]) for shards in results.disassemble_into_single_device_arrays()]


def run_directory(directory: Path) -> None:
    """Run the module of the directory."""
    arrays = read_arrays(directory, "input")
    write_arrays(directory, "output", execute((directory / "module.mlir").read_text(), arrays))


def main() -> None:
    """Run the module in the directory given as the only argument, or in those given on stdin."""
    if len(sys.argv) > 1:
        run_directory(Path(sys.argv[1]))
        return
    for line in sys.stdin:
        try:
            run_directory(Path(line.strip()))
            print("done", flush=True)
        except Exception as error:
            print("refused", *str(error).splitlines()[:1], flush=True)


if __name__ == "__main__":
    main()
