"""A request to a program of a session: its arguments, bound to the caller's arrays or to memory of the session, and its runs."""

import asyncio
import itertools
import operator
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from hlo2tx8.device.program import SlotKind
from hlo2tx8.errors import InputError, SessionError
from hlo2tx8.hlo.signature import NUMBERS, Port, array_of, dtype_of
from hlo2tx8.runtime.allocators import Allocator
from hlo2tx8.runtime.arguments import Argument, Array, Callee, Space
from hlo2tx8.runtime.frame import BoundArguments, StagedArray, address_of, jobs_of
from hlo2tx8.runtime.tasks import Listener, Marker, Submission
from hlo2tx8.runtime.work_queues import WorkQueue

SPACES: Mapping[str, Space] = {"": "ddr", "ddr": "ddr", "host": "host"}
_NUMBERS = itertools.count(1)


class RequestContext:
    """A request: bind arrays to its arguments, `finish_io_binding`, then `run` as often as wanted.

    Made by Session.new_request_context. One thread at a time may use a context; contexts of one session are independent.
    """

    def __init__(self, callee: Callee, queue: WorkQueue, allocator: Allocator, listeners: Sequence[Listener]) -> None:
        self.callee, self.queue = callee, queue
        self.number = next(_NUMBERS)
        self._allocator, self._listeners = allocator, listeners
        for offset, weight in callee.weights.items():
            if weight.shape != callee.arguments[offset].shape:
                raise InputError("E1004", f"{callee.arguments[offset]} has a weight of {Port(weight.shape, weight.dtype.name)}")
        self._bound: dict[int, Array] = dict(callee.weights)
        self._spaces: dict[int, Space] = {}
        self._allocated: dict[int, Array] = {}
        self._staged: dict[int, Array] = {}
        self._frame: BoundArguments | None = None
        self._runs = 0
        self._last: tuple[Marker, ...] = ()
        self._pending: deque[Future[list[Array]]] = deque()
        self._error: BaseException | None = None
        self._lock = threading.RLock()  # a queue may do a run at once, after which its caller may queue another one

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Inputs, then outputs, by their offset."""
        return self.callee.arguments

    @property
    def specialization(self) -> str:
        """Which of a model's programs serves the request, and how much of it is padding; "" where a model has one program."""
        return self.callee.specialization

    def bind_arg(self, offset: int, array: object, *, space: Literal["", "ddr", "host"] = "") -> None:
        """Bind an array to an argument; what was bound or allocated before is let go, and `finish_io_binding` is due again.

        Nothing is copied: the program reads and writes the array itself, which must be C-contiguous for that. In space `host`, that
        of all arguments with a layout of their own or with padding, each run moves it instead, and any strides will do.
        InputError on an offset, shape or dtype that is not the argument's, or an output that cannot be written.
        """
        offset = self._offset(offset)
        argument = self.arguments[offset]
        if offset in self.callee.weights:
            raise SessionError(f"{argument} is a weight of the session", hint="Session.bind_weight before the context is made")
        if space not in SPACES:
            raise InputError("E1004", f"no space {space!r}", hint="ddr, host")
        kind = type(array)
        if issubclass(kind, (list, tuple, *NUMBERS)):
            raise InputError("E1004", f"{argument} is bound to a {kind.__name__}", hint="an array, whose memory is used")
        given = array_of(array)
        if given.shape != argument.shape or given.dtype != dtype_of(argument.dtype):
            found = Port(given.shape, given.dtype.name) if given.dtype.name != "object" else kind.__name__
            raise InputError("E1004", f"{argument} is bound to {found}")
        if argument.kind == "output" and not given.flags.writeable:
            raise InputError("E1004", f"{argument} is bound to an array that cannot be written")
        place = "host" if argument.space == "host" else SPACES[space]
        if place == "ddr" and not given.flags.c_contiguous:
            raise InputError("E1004", f"{argument} is bound to an array that is not contiguous", hint='space="host" moves it')
        self._bound[offset], self._spaces[offset] = given, place
        self._allocated.pop(offset, None)
        self._staged.pop(offset, None)
        self._frame = None

    def bind_args(self, arrays: Sequence[object]) -> None:
        """`bind_arg` for the first of the arguments, in order; None leaves one as it is."""
        if len(arrays) > len(self.arguments):
            raise InputError("E1004", f"{self.callee.name} has {len(self.arguments)} arguments, got {len(arrays)}")
        for offset, array in enumerate(arrays):
            if array is not None:
                self.bind_arg(offset, array)

    def get_arg(self, offset: int) -> Array:
        """The array of an argument: the caller's, or the one `finish_io_binding` allocated. SessionError if there is none yet."""
        offset = self._offset(offset)
        found = self._bound.get(offset, self._allocated.get(offset))
        if found is None:
            raise SessionError(f"{self.arguments[offset]} is bound to nothing yet", hint="bind_arg, or finish_io_binding")
        return found

    def finish_io_binding(self) -> None:
        """Make everything ready for runs: allocates what is unbound, zeros, and memory of the device for what runs move.

        Once: what was allocated before stays. InputError where outputs share memory with each other or with inputs, other than by
        their alias.
        """
        callee = self.callee
        for offset, argument in enumerate(self.arguments):
            if offset not in self._bound and offset not in self._allocated:
                self._allocated[offset] = self._allocate(argument.shape, argument.dtype, is_cleared=True)
        arrays = [self.get_arg(offset) for offset in range(len(self.arguments))]
        self._check_overlaps(arrays)
        moves: dict[int, StagedArray] = {}
        for offset, (argument, port) in enumerate(zip(self.arguments, callee.ports, strict=True)):
            if self._spaces.get(offset, argument.space) == "host":
                if offset not in self._staged:
                    self._staged[offset] = self._allocate(port.shape, port.dtype, is_cleared=False)
                moves[offset] = StagedArray(argument, port, arrays[offset], self._staged[offset])
        device = tuple(moves[i].device if i in moves else array for i, array in enumerate(arrays))
        count = callee.num_inputs
        inputs, outputs = device[:count], device[count:]
        taken = [(s.index, s.takes_over) for s in callee.executable.program.slots_of(SlotKind.OUTPUT) if s.takes_over is not None]
        self._frame = BoundArguments(
            inputs,
            outputs,
            tuple(arrays[count:]),
            tuple(move for offset, move in moves.items() if offset < count),
            tuple(move for offset, move in moves.items() if offset >= count),
            tuple((output, donor) for output, donor in taken if address_of(outputs[output]) != address_of(inputs[donor])),
        )

    def run(self) -> "Future[list[Array]]":
        """Queue a run; the future's result are the arrays of the outputs, its exception that of Executable.run. Runs of a context
        follow each other, and share its arrays. SessionError before `finish_io_binding` and after the end of the session.
        """
        frame = self._frame
        if frame is None:
            raise SessionError(f"a run of {self.callee.name} before finish_io_binding")
        submission = Submission(frame.results, self._listeners)
        with self._lock:
            jobs, marks = jobs_of(self.callee, self.queue.streams, self.number, self._runs, self._last, frame, submission)
            self._runs, self._last = self._runs + 1, marks
            self.queue.submit(jobs)
            while self._pending and self._pending[0].done():
                self._keep_error(self._pending.popleft())
            self._pending.append(submission.future)
        return submission.future

    async def run_async(self) -> list[Array]:
        """`run`, awaited."""
        return await asyncio.wrap_future(self.run())

    def sync(self, timeout: float | None = None) -> None:
        """Wait until all runs so far are done, and raise the first error of one since the last `sync`. TimeoutError after so many
        seconds; SessionError on a thread of the context's own queue, where the wait would be for ever.
        """
        if self.queue.is_own_thread and any(not future.done() for future in self._pending):
            raise SessionError("sync on a thread of the work queue, which would wait for itself")
        while self._pending:
            self._keep_error(self._pending[0], timeout)
            self._pending.popleft()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _keep_error(self, future: "Future[list[Array]]", timeout: float | None = None) -> None:
        with suppress(CancelledError):  # by the caller, who knows
            self._error = self._error or future.exception(timeout)

    def _offset(self, offset: int) -> int:
        try:
            number = operator.index(offset)
        except TypeError:
            raise InputError("E1004", f"{offset!r} is no number of an argument") from None
        if not 0 <= number < len(self.arguments):
            raise InputError("E1004", f"{self.callee.name} has no argument {number}", hint=f"0 to {len(self.arguments) - 1}")
        return number

    def _allocate(self, shape: tuple[int, ...], dtype: str, *, is_cleared: bool) -> Array:
        size = Port(shape, dtype).size_bytes
        memory = self._allocator.allocate(size)
        if is_cleared:
            memory[...] = 0
        return memory.view(dtype_of(dtype)).reshape(shape)

    def _check_overlaps(self, arrays: Sequence[Array]) -> None:
        """InputError where an output's memory is that of another argument."""
        ranges = sorted((*np.lib.array_utils.byte_bounds(array), offset) for offset, array in enumerate(arrays) if array.size)
        open_ranges: list[tuple[int, int]] = []
        for start, stop, offset in ranges:
            open_ranges = [(end, other) for end, other in open_ranges if end > start]
            for _, other in open_ranges:
                a, b = self.arguments[other], self.arguments[offset]
                if (
                    "output" in (a.kind, b.kind)
                    and not self._is_alias(arrays, other, offset)
                    and _share(arrays[other], arrays[offset])
                ):
                    raise InputError("E1004", f"{b} shares memory with {a}", hint="outputs need memory of their own")
            open_ranges.append((stop, offset))

    def _is_alias(self, arrays: Sequence[Array], *offsets: int) -> bool:
        """Is one the output that takes over the other, in exactly its memory?"""
        donor, output = sorted(offsets)
        is_same = address_of(arrays[donor]) == address_of(arrays[output]) and arrays[donor].flags.c_contiguous
        return is_same and self.arguments[output].alias_offset == donor and donor not in self.callee.weights


def _share(a: Array, b: Array) -> bool:
    """Have they an element in common? True also where that is too hard to say."""
    exact: Any = np.shares_memory
    try:
        return exact(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True
