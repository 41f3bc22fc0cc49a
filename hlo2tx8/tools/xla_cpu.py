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
    return run_on_cpus(mlir_text, [arrays], (1, 1))[0]


def run_on_cpus(mlir_text: str, inputs: Sequence[Sequence[Array]], counts: tuple[int, int]) -> list[list[Array]]:
    """The same of each of several devices; `counts` are the numbers of replicas and of partitions."""
    with tempfile.TemporaryDirectory(prefix="hlo2tx8-") as name:
        directory = Path(name)
        (directory / "module.mlir").write_text(mlir_text)
        (directory / "counts.json").write_text(json.dumps(counts))
        write_arrays(directory, "input", [array for own in inputs for array in own])
        child = subprocess.run(
            [sys.executable, "-m", "hlo2tx8.tools.xla_cpu", name],
            env=_environment(len(inputs)),
            capture_output=True,
            text=True,
            check=False,
        )
        if child.returncode:
            last = (child.stderr.strip() or "no message").splitlines()[-1]
            raise OracleError("E1009", f"XLA:CPU could not run the module: {last}")
        return in_parts(read_arrays(directory, "output"), len(inputs))


def in_parts(arrays: Sequence[Array], count: int) -> list[list[Array]]:
    """The arrays of one device after the other, by device."""
    size = len(arrays) // count
    return [list(arrays[i * size : (i + 1) * size]) for i in range(count)]


class CpuServer:
    """A child process that runs one module after another on XLA:CPU; if it dies, a new one is started. `flags` are XLA's."""

    def __init__(self, flags: str = "") -> None:
        self.flags = flags
        self.process: subprocess.Popen[str] | None = None

    def run(self, mlir_text: str, arrays: Sequence[Array]) -> list[Array]:
        """As `run_on_cpu`."""
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "hlo2tx8.tools.xla_cpu"]
            pipe, no = subprocess.PIPE, subprocess.DEVNULL
            environment = _environment()
            environment["XLA_FLAGS"] += f" {self.flags}"
            self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=no, text=True)
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


def _environment(num_devices: int = 1) -> dict[str, str]:
    flags = f"{FLAGS} --xla_force_host_platform_device_count={num_devices}" if num_devices > 1 else FLAGS
    return os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}


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


def execute(mlir_text: str, inputs: Sequence[Sequence[Array]], counts: tuple[int, int] = (1, 1)) -> list[list[Array]]:
    """Compile and run in this process, on each device with its inputs."""
    jax: Any = import_module("jax")
    extended: Any = import_module("jax.extend.backend")
    api: Any = import_module("jaxlib.xla_client")
    backend = extended.get_backend("cpu")
    devices = backend.local_devices()[: len(inputs)]
    options = api.CompileOptions()
    options.num_replicas, options.num_partitions = counts
    options.executable_build_options.num_replicas, options.executable_build_options.num_partitions = counts
    assignment = np.arange(len(inputs)).reshape(counts)
    options.device_assignment = api.DeviceAssignment.create(assignment)
    options.executable_build_options.use_spmd_partitioning = counts[1] > 1
    loaded = backend.compile_and_load(mlir_text, api.DeviceList(tuple(devices)), options)
    # Each device has its own elements of an array that is said to be the same everywhere: nobody looks.
    sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(devices), ("devices",)), jax.sharding.PartitionSpec())
    placed: list[Any] = []
    for column in zip(*inputs, strict=True):
        shards = [jax.device_put(array, device) for array, device in zip(column, devices, strict=True)]
        placed.append(jax.make_array_from_single_device_arrays(column[0].shape, sharding, shards))
    results = loaded.execute_sharded(placed).disassemble_into_single_device_arrays()
    return [[np.asarray(shards[i]) for shards in results] for i in range(len(inputs))]


def run_directory(directory: Path) -> None:
    """Run the module of the directory."""
    path = directory / "counts.json"
    replicas, partitions = json.loads(path.read_text()) if path.exists() else (1, 1)
    inputs = in_parts(read_arrays(directory, "input"), replicas * partitions)
    found = execute((directory / "module.mlir").read_text(), inputs, (replicas, partitions))
    write_arrays(directory, "output", [array for own in found for array in own])


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
