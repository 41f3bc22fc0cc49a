"""A pod whose processes are threads of this one, each with its own connections."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from hlo2tx8.runtime.pods.peer import Begun
from hlo2tx8.runtime.pods.pod import Membership, Pod, join
from hlo2tx8.spmd.pod_launch import PodProgram
from hlo2tx8.spmd.segmented_executable import SegmentedExecutable

T = TypeVar("T")


class Values:
    """A key-value store."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.changed = threading.Condition()

    def put(self, key: str, value: str) -> None:
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key: str, seconds: float) -> str | None:
        with self.changed:
            self.changed.wait_for(lambda: key in self.values, seconds)
            return self.values.get(key)


def all_do(count: int, work: Callable[[int], T]) -> list[Future[T]]:
    """What each process comes to."""
    with ThreadPoolExecutor(count) as pool:
        return [pool.submit(work, number) for number in range(count)]


def pods(num_chips: Sequence[int], **membership: Any) -> list[Pod]:
    """The pods that processes with so many chips see."""
    values, count = Values(), len(num_chips)
    own = Membership(0, count, 0, arrival=5.0, **membership)
    made = all_do(count, lambda n: join(values, replace(own, number=n, num_chips=num_chips[n]), "pod"))
    return [future.result() for future in made]


def launched(
    members: Sequence[Pod], executables: Sequence[SegmentedExecutable], inputs: Sequence[list[Any]], programs: Sequence[str] = ()
) -> list[Future[dict[int, list[Any]]]]:
    """What each process's launch comes to, for inputs of all chips."""
    first = members[0].first_chips
    owners = tuple(n for n, member in enumerate(members[0].members) for _ in range(member.num_chips))

    def launch(n: int) -> dict[int, list[Any]]:
        own = {chip: inputs[chip] for chip in range(first[n], first[n + 1])}
        pod = PodProgram(members[n], owners, Begun(programs[n] if programs else "one", executables[n].name))
        return executables[n].launch_here(own, None, pod)

    return all_do(len(members), launch)
