"""Tasks on processes of this machine, or of a Dask scheduler's workers: answers as they come.

    TaskFarm(["-m", "hlo2tx8.sweep.measure"], jobs=2)                              two processes
    TaskFarm([...], jobs=2, scheduler="local")                                     two Dask workers on this machine
    TaskFarm([...], scheduler="tcp://host:8786")                                   those of other machines, with hlo2tx8 installed

On every side a task is answered by a `TaskProcess`, so a crash or a hang is the task's and not the worker's. A worker that is
lost loses nothing: the scheduler gives what it had to another one. Dask is sent one function of this module, by name, and text.
"""

import itertools
import json
import os
import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any, Self, cast

from hlo2tx8.device.native.machines import processors
from hlo2tx8.errors import HostError, InputError
from hlo2tx8.sweep.child import Answered, TaskProcess

AnswerQueue = queue.SimpleQueue[tuple[int, Answered] | Exception | None]
LOCAL = "local"
CONNECT_SECONDS = 10
AT_ONCE = 3
"""Tasks per worker that a scheduler has at a time: one is worked on, the others are there when it ends."""


def extra(module: str, name: str = "sweep") -> Any:
    """A module of an extra; InputError with the command that installs it where it is missing."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise InputError("E1004", f"this needs the package {package}", hint=f"pip install 'hlo2tx8[{name}]'") from None


class TaskFarm:
    """A context that answers tasks by processes of Python with those arguments; `jobs` at a time, 0 for one per processor, where no
    scheduler says how many. `limit`: seconds that an answer may take, 0 for any. InputError if a scheduler does not answer.
    """

    def __init__(self, arguments: Sequence[str], *, jobs: int = 1, scheduler: str = "", limit: float = 0.0) -> None:
        self.arguments, self.jobs, self.scheduler, self.limit = tuple(arguments), jobs or processors(), scheduler, limit
        self.children: list[TaskProcess] = []
        self.client: Any = None
        self.held = ExitStack()

    def __enter__(self) -> Self:
        if not self.scheduler:
            self.children = [TaskProcess(self.arguments, _processor(slot, self.jobs)) for slot in range(self.jobs)]
            return self
        distributed = extra("distributed")
        with ExitStack() as held:
            address = self.scheduler
            if address == LOCAL:
                options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 0, "silence_logs": 60}
                address = held.enter_context(distributed.LocalCluster(n_workers=self.jobs, processes=True, **options))
            try:
                self.client = held.enter_context(distributed.Client(address, timeout=CONNECT_SECONDS))
                self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            except (OSError, TimeoutError, ValueError) as error:
                raise InputError("E1004", f"the scheduler {self.scheduler} does not answer: {error}") from None
            self.held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.end()
        self.held.close()

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[int, Answered]]:
        """The number of each task, which JSON can say, and how it was answered, in the order of answers.

        Answers that are not a task's last are told apart only by processes of this machine.
        """
        numbered = ((number, json.dumps(task)) for number, task in enumerate(tasks))
        return self._run_here(numbered) if self.client is None else self._run_there(numbered)

    def _run_here(self, numbered: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Answered]]:
        answered: AnswerQueue = queue.SimpleQueue()
        lock = threading.Lock()

        def take() -> tuple[int, str] | None:
            with lock:
                return next(numbered, None)

        def work(child: TaskProcess) -> None:
            try:
                following = None
                while not child.has_ended and (taken := following or take()) is not None:
                    number, task = taken
                    following = take() if child.is_quick else None  # where tasks are long, another process may be free before
                    hear = partial(_put, answered, number)
                    hear(child.ask(task, self.limit, hear, following[1] if following else None))
                answered.put(None)
            except Exception as error:
                answered.put(error)

        for child in self.children:
            threading.Thread(target=work, args=(child,), daemon=True).start()
        left = len(self.children)
        while left:
            if (found := answered.get()) is None:
                left -= 1
            elif isinstance(found, Exception):
                raise found
            else:
                yield found

    def _run_there(self, numbered: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Answered]]:
        distributed = extra("distributed")
        threads = max(sum(self.client.nthreads().values()), 1)
        number_of: dict[Any, int] = {}

        def submit() -> Iterator[Any]:
            for number, task in numbered:
                future = self.client.submit(answer_on_worker, self.arguments, task, self.limit, pure=False)
                number_of[future.key] = number
                yield future

        submitted = submit()
        coming = distributed.as_completed(itertools.islice(submitted, AT_ONCE * threads))
        for future in coming:
            for following in itertools.islice(submitted, 1):
                coming.add(following)
            if future.status not in ("finished", "error"):
                raise HostError("E1010", f"the scheduler {self.scheduler} is gone", hint="the same command goes on from here")
            found = _told(future)
            yield number_of.pop(future.key), found
            future.release()


def _put(answered: AnswerQueue, number: int, found: Answered) -> None:
    answered.put((number, found))


def _told(future: Any) -> Answered:
    """What a worker answered; `lost` if all that were given the task are gone."""
    error = future.exception()
    if error is not None:
        return Answered((), f"{type(error).__name__}: {error}")
    answers, lost, seconds = future.result()
    return Answered(tuple(json.loads(answer) for answer in answers), lost, seconds)


def answer_on_worker(arguments: tuple[str, ...], task: str, limit: float) -> tuple[list[str], str, float]:
    """On a worker of Dask: the answers to a task as text, by the process that its thread keeps for such tasks."""
    kept = cast(dict[str, dict[Any, TaskProcess]], vars(extra("distributed").get_worker()))
    children = kept.setdefault("hlo2tx8_children", {})
    key = threading.get_ident(), arguments
    if key not in children:
        children[key] = TaskProcess(arguments)
    found = children[key].ask(task, limit)
    return [json.dumps(answer) for answer in found.answers], found.lost, found.seconds


def _processor(slot: int, jobs: int) -> int | None:
    """A processor for each process where there are enough: the libraries then start one thread, not one per processor."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    own = sorted(os.sched_getaffinity(0))
    return own[slot] if jobs <= len(own) else None
