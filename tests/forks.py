"""Children that have imported jax and the package when they begin: forks of a process that has done nothing else.

Imports take seconds, and dozens of children need the same. In all else a fork is a process as another: it has its own environment,
standard streams, signals, and its end, in whatever way, is the end of a Python process.
"""

import contextlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
IMPORTED = (
    "numpy.typing", "pytest", "jax.experimental.serialize_executable", "jaxlib.mlir.dialects.mhlo", "hlo2tx8.pjrt.plugin",
    "hlo2tx8.pjrt.jax_side", "hlo2tx8.pjrt.jax_lowerings", "hlo2tx8.runtime.compile", "hlo2tx8.spmd.segmented_executable",
)  # fmt: skip
"""By the process that is forked. None of them starts a thread, or asks jax for a device."""
READ_ON_IMPORT = ("JAX_PLATFORMS", "JAX_PJRT_CLIENT_CREATE_OPTIONS")
"""Variables that jax has read when a child gets its own."""


class Child:
    """As `subprocess.Popen` with text from pipes, as far as tests use it."""

    def __init__(self, report: socket.socket, stdout: IO[str], stderr: IO[str]) -> None:
        self.stdout, self.stderr, self.report = stdout, stderr, report
        self.returncode: int | None = None
        self.pid = int(report.recv(100))

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it writes until it ends; TimeoutExpired, and it is killed, if that takes longer."""
        texts = ["", ""]

        def read(number: int, file: IO[str]) -> None:
            texts[number] = file.read()

        readers = [threading.Thread(target=read, args=pair, daemon=True) for pair in enumerate((self.stdout, self.stderr))]
        for reader in readers:
            reader.start()
        self.report.settimeout(timeout)
        try:
            self.returncode = os.waitstatus_to_exitcode(int(self.report.recv(100)))
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(str(self.pid), timeout) from None
        finally:
            for reader in readers:
                reader.join(10)
            self.report.close()
        return texts[0], texts[1]


class Forks:
    """The process that is forked, and what is asked of it."""

    def __init__(self) -> None:
        self.asked, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if name not in READ_ON_IMPORT}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *sys.path])
        command = [sys.executable, "-X", "faulthandler", __file__, str(other.fileno())]
        self.process = subprocess.Popen(command, env=environment, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL)
        other.close()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Child:
        """A child with the arguments of `python`: -c SCRIPT, -m MODULE or a file, and what it is given."""
        report, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes = [os.pipe(), os.pipe()]
        request = json.dumps({"arguments": list(arguments), "environment": dict(environment)}).encode()
        socket.send_fds(self.asked, [request], [end.fileno(), pipes[0][1], pipes[1][1]])
        end.close()
        for _, written in pipes:
            os.close(written)
        return Child(report, *(os.fdopen(read, encoding="utf-8", errors="replace") for read, _ in pipes))

    def close(self) -> None:
        """No further children."""
        self.asked.close()
        self.process.wait(60)


def next_child(asked: socket.socket) -> list[str]:
    """The arguments of a child, in the child; SystemExit in the process that is forked when nobody asks any more."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, 1 << 20, 3)
        if not request:
            sys.exit()
        if not fork():
            asked.close()
            if child := fork():
                tell_the_end(child, descriptors)
            return begin(json.loads(request), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def fork() -> int:
    """`os.fork`; jax warns of it, for it may have threads, which it has not yet."""
    with warnings.catch_warnings(action="ignore"):
        return os.fork()


def tell_the_end(child: int, descriptors: Sequence[int]) -> None:
    """The parent of a child: says its number and how it ended, and is no more."""
    report, stdout, stderr = descriptors
    os.close(stdout)
    os.close(stderr)
    os.write(report, str(child).encode())
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(BrokenPipeError):
        os.write(report, str(status).encode())
    os._exit(0)


def begin(request: dict[str, Any], descriptors: Sequence[int]) -> list[str]:
    """Gives the child its standard streams and its environment."""
    report, stdout, stderr = descriptors
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for descriptor in (report, stdout, stderr):
        os.close(descriptor)
    environment: dict[str, str] = request["environment"]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    config = import_module("jax").config
    for name in READ_ON_IMPORT:
        if name in environment:
            config.update(name.lower(), environment[name])
    return request["arguments"]


if __name__ == "__main__":
    for module in IMPORTED:
        import_module(module)
    what, *sys.argv = next_child(socket.socket(fileno=int(sys.argv[1])))
    if what == "-c":  # in this module, which lives until the process ends
        script, sys.argv[0] = sys.argv[0], "-c"
        exec(compile(script, "<string>", "exec"))
    elif what == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv.insert(0, what)
        runpy.run_path(what, run_name="__main__")
