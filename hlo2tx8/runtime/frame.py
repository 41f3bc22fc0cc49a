"""What runs of a request have: arrays in memory of the device, what is moved to and from there, and the jobs of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.device.program import SlotKind
from hlo2tx8.errors import InputError
from hlo2tx8.hlo.signature import Port
from hlo2tx8.runtime.arguments import Argument, Array, Callee
from hlo2tx8.runtime.tasks import Job, Marker, Submission, Task, TaskKind


@dataclass(frozen=True)
class StagedArray:
    """An array of the host and the memory of the device that holds its elements, in the order of a port's layout."""

    argument: Argument
    port: Port
    host: Array
    device: Array

    def load(self) -> None:
        """To the device, with zeros around it."""
        whole, part = self._views()
        if part.shape != whole.shape:
            whole[...] = np.zeros((), whole.dtype)
        part[...] = self.host

    def store(self) -> None:
        """From the device."""
        self.host[...] = self._views()[1]

    def _views(self) -> tuple[Array, Array]:
        """The device's elements in logical order, and those that are the host's."""
        order = self.port.layout[::-1] or tuple(range(len(self.port.shape)))
        whole = self.device.reshape([self.port.shape[d] for d in order]).transpose(np.argsort(order))
        return whole, whole[..., *(slice(size) for size in self.host.shape)]


@dataclass(frozen=True)
class BoundArguments:
    """All that a run needs, and that stays alive as long as one is under way, whatever becomes of its context."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    results: tuple[Array, ...]
    loads: tuple[StagedArray, ...]
    stores: tuple[StagedArray, ...]
    taken_over: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _JobList:
    """The jobs of a run, which grow in order; `streams` are the queue's."""

    streams: Mapping[str, str]
    request: int
    run: int
    submission: Submission
    jobs: list[Job]

    def add(self, kind: TaskKind, stream: str, name: str, work: Callable[[], object] | None = None, **facts: Any) -> None:
        """A job with the facts that its task has besides."""
        task = Task(kind, self.streams[stream], name, self.request, self.run, **facts)
        self.jobs.append(Job(task, self.submission, work))

    def mark(self, kind: TaskKind, stream: str, marker: Marker) -> None:
        """Record a marker, or wait for it."""
        self.add(kind, stream, f"{kind.value} {marker.name}", marker=marker)

    def move(self, kind: TaskKind, each: StagedArray, rate: int, work: Callable[[], object]) -> None:
        """Move an array at so many bytes per second."""
        size = each.argument.size_bytes
        self.add(kind, kind.value, each.argument.name, work, size_bytes=size, modelled_seconds=lambda: size / rate)

    def marker(self, name: str) -> Marker:
        """A new one of this run."""
        return Marker(f"{name} {self.request}.{self.run}")


def jobs_of(
    callee: Callee,
    streams: Mapping[str, str],
    request: int,
    run: int,
    last: Sequence[Marker],
    frame: BoundArguments,
    submission: Submission,
) -> tuple[list[Job], tuple[Marker, ...]]:
    """The jobs of a run in order, and the markers behind its launch and its last transfer, which the next run waits for.

    `last` are those of the run before, `streams` the queue's; see work_queues.
    """
    chip, todo = callee.executable.chip, _JobList(streams, request, run, submission, [])
    computed = todo.marker("computed")
    if frame.loads:
        loaded = todo.marker("loaded")
        for marker in last[:1]:
            todo.mark(TaskKind.WAIT_EVENT, "h2d", marker)
        for each in frame.loads:
            todo.move(TaskKind.H2D, each, chip.pcie_bytes_per_second, each.load)
        todo.mark(TaskKind.RECORD_EVENT, "h2d", loaded)
        todo.mark(TaskKind.WAIT_EVENT, "compute", loaded)
    for marker in last[1:]:
        todo.mark(TaskKind.WAIT_EVENT, "compute", marker)
    for output, donor in frame.taken_over:
        to, source = _bytes(frame.outputs[output]), _bytes(frame.inputs[donor])
        seconds = 2 * to.nbytes / chip.ddr_bytes_per_second  # read and written
        name = callee.arguments[callee.num_inputs + output].name
        facts: dict[str, Any] = {"size_bytes": to.nbytes, "modelled_seconds": lambda seconds=seconds: seconds}
        todo.add(TaskKind.D2D, "compute", name, lambda to=to, source=source: np.copyto(to, source), **facts)
    work = partial(_launch, callee, frame)
    todo.add(TaskKind.COMPUTE, "compute", callee.name, work, modelled_seconds=callee.modelled_seconds)
    todo.mark(TaskKind.RECORD_EVENT, "compute", computed)
    marks: tuple[Marker, ...] = (computed,)
    if frame.stores:
        stored = todo.marker("stored")
        todo.mark(TaskKind.WAIT_EVENT, "d2h", computed)
        for each in frame.stores:
            todo.move(TaskKind.D2H, each, chip.pcie_bytes_per_second, each.store)
        todo.mark(TaskKind.RECORD_EVENT, "d2h", stored)
        marks = computed, stored
    todo.jobs[-1].is_last = True
    return todo.jobs, marks


def _launch(callee: Callee, frame: BoundArguments) -> None:
    executable = callee.executable
    for number, (port, array) in enumerate(zip(executable.signature.inputs, frame.inputs, strict=True)):
        if port.value is not None and tuple(array.ravel()) != port.value:
            raise InputError("E1004", f"input {number} should be {list(port.value)}, which shapes depend on, got {array}")
    if not executable.program.trusted:
        for slot in executable.program.slots_of(SlotKind.OUTPUT):
            if slot.takes_over is None:  # a program that does not store everything finds zeros
                _bytes(frame.outputs[slot.index])[...] = 0
    executable.launch_on(frame.inputs, frame.outputs)


def _bytes(array: Array) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def address_of(array: Array) -> int:
    """Of an array's first element."""
    return array.ctypes.data
