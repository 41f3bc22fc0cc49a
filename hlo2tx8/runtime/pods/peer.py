"""`Peer`: another process of a pod, as seen from this one: what it has sent and not yet been asked for, and how it is."""

import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.errors import PodError
from hlo2tx8.runtime.pods.wire import WireError, receive, send

LOOKS_SECONDS, MOST_ASKS_SECONDS = 0.1, 2.0
"""Who waits looks around so often, and asks the other process so often what it does."""
MOST_AHEAD = 16
"""Launches that a process may be ahead of another one, which keeps what it was sent in its memory."""
Place = tuple[int, ...]


@dataclass(frozen=True)
class Parcel:
    """What a process has sent in a launch from a place of the program: which of its chips take part, and bytes of their arrays."""

    launch: int
    place: Place
    chips: tuple[int, ...]
    body: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Begun:
    """A launch: the program's fingerprint and name."""

    program: str
    name: str

    def __str__(self) -> str:
        return f"{self.name}, {self.program[:12]}"


class Peer:
    """A connection and the thread that reads from it. Launches are counted for each pair of processes, from 1.

    `does` says what this process is busy with, "" if nothing. `patience`: seconds that an idle process is waited for.
    """

    def __init__(
        self, connection: socket.socket, name: str, own_name: str, most_bytes: int, patience: float, does: Callable[[], str]
    ) -> None:
        self.connection, self.name, self.own_name = connection, name, own_name
        self.most_bytes, self.patience, self.does = most_bytes, patience, does
        self.changed = threading.Condition()
        self.sending = threading.Lock()
        self.parts: deque[Parcel] = deque()
        self.begun: tuple[OrderedDict[int, Begun], OrderedDict[int, Begun]] = OrderedDict(), OrderedDict()
        self.launches = self.ended = 0
        self.failed: dict[int, str] = {}
        self.lost = self.differs = ""
        self.has_died = self.has_left = False
        self.busy_at, self.is_waiting = 0.0, False
        self.thread = threading.Thread(target=self.read, name=f"tx8 reads from {name}", daemon=True)
        self.thread.start()

    def begin(self, begun: Begun, tick: Callable[[], None]) -> int:
        """The number of a new launch, once the other process is not too far behind."""
        with self.changed:
            self.launches += 1
            number = self.launches
            self.note(0, number, begun)
        self.send({"kind": "begin", "launch": number, "program": begun.program, "name": begun.name})
        self.wait(number, f"launch {number - MOST_AHEAD} of {begun.name}", lambda: number - self.ended <= MOST_AHEAD, tick)
        return number

    def note(self, side: int, number: int, begun: Begun) -> None:
        """This side (0) or the other (1) has begun a launch; the two must run the same program."""
        own, other = self.begun[side], self.begun[1 - side]
        if number not in other:
            own[number] = begun
            return
        pair = begun, other.pop(number)
        if pair[0].program != pair[1].program and not self.differs:
            here, there = pair[::-1] if side else pair
            self.differs = f"{self.name} runs another program than {self.own_name} in their launch {number}: {there}; here {here}"

    def send(self, head: dict[str, object], pieces: Sequence[npt.NDArray[Any]] = ()) -> None:
        """Sends a message. A connection that is gone is noticed where it is read from, behind what is still to be read."""
        with self.sending, suppress(OSError):
            send(self.connection, head, pieces)

    def give(self, number: int, place: Place, chips: Sequence[int], pieces: Sequence[npt.NDArray[Any]]) -> None:
        """Sends arrays of those of this process's chips that take part."""
        self.send({"kind": "part", "launch": number, "place": place, "chips": list(chips)}, pieces)

    def take(self, number: int, place: Place, what: str, tick: Callable[[], None]) -> Parcel | None:
        """What the other process has sent from that place, None if it went past it without; PodError if it cannot any more."""

        def is_decided() -> bool:
            while self.parts and (self.parts[0].launch, self.parts[0].place) < (number, place):
                self.parts.popleft()
            return bool(self.parts) or self.ended >= number

        self.wait(number, what, is_decided, tick)
        with self.changed:
            if self.parts and (self.parts[0].launch, self.parts[0].place) == (number, place):
                return self.parts.popleft()
        return None

    def end(self, number: int, error: str) -> None:
        """This process has ended a launch, with an error or ""."""
        self.send({"kind": "end", "launch": number, "error": error})

    def wait(self, number: int, what: str, is_there: Callable[[], bool], tick: Callable[[], None]) -> None:
        """Until it is there; `tick` is called now and then. PodError if the other process is gone, has failed, or stays idle."""
        self.busy_at, asked_at = time.monotonic(), 0.0
        try:
            while not self.is_decided(number, what, is_there):
                self.is_waiting = True
                tick()
                if time.monotonic() - asked_at > min(MOST_ASKS_SECONDS, self.patience / 4):
                    asked_at = time.monotonic()
                    self.send({"kind": "ask"})
        finally:
            self.is_waiting = False

    def is_decided(self, number: int, what: str, is_there: Callable[[], bool]) -> bool:
        """Is it there, now or after a moment? PodError as of `wait`."""
        with self.changed:
            for seconds in (LOOKS_SECONDS, 0.0):
                if self.differs:
                    raise PodError(self.differs, hint="all processes of a pod must launch the same programs in the same order")
                if number in self.failed:
                    raise PodError(f"{self.name} failed: {self.failed[number]}")
                if is_there():
                    return True
                if self.lost:
                    raise PodError(f"{self.lost}; {self.own_name} waited for it in {what}")
                if seconds:
                    self.changed.wait(seconds)
            if time.monotonic() - self.busy_at > self.patience:
                text = f"{self.name} did nothing for {self.patience:g} seconds while {self.own_name} waited for it in {what}"
                raise PodError(text, hint="option exchange_timeout, in seconds")
        return False

    def read(self) -> None:
        """The thread's loop, until the other side has said all."""
        try:
            while True:
                head, body = receive(self.connection, self.most_bytes)
                with self.changed:
                    self.heard(head, body)
                    self.changed.notify_all()
                if head["kind"] == "ask":
                    self.send({"kind": "does", "what": self.does()})
        except (OSError, WireError, KeyError, ValueError, TypeError, MemoryError) as error:
            self.lose(str(error) or type(error).__name__)
            if self.has_left:
                self.connection.close()

    def heard(self, head: dict[str, Any], body: npt.NDArray[np.uint8]) -> None:
        """Takes a message in."""
        match head["kind"]:
            case "begin":
                self.note(1, int(head["launch"]), Begun(str(head["program"]), str(head["name"])))
            case "part":
                self.parts.append(Parcel(int(head["launch"]), _numbers(head["place"]), _numbers(head["chips"]), body))
            case "end":
                self.ended = int(head["launch"])
                if head["error"]:
                    self.failed[self.ended] = str(head["error"])
            case "does":
                if head["what"]:
                    self.busy_at = time.monotonic()
            case "bye":
                self.lost = self.lost or f"{self.name} has ended{head['why'] and ': '}{head['why']}"
            case "ask":
                pass
            case kind:
                raise WireError(f"a message of kind {kind!r}")

    def lose(self, why: str) -> None:
        """The connection is gone; the first reason counts."""
        with self.changed:
            self.has_died = self.has_died or not (self.lost or self.has_left)
            self.lost = self.lost or f"{self.name} died or cannot be reached: {why}"
            self.changed.notify_all()

    def leave(self, why: str) -> None:
        """Says good-bye, and why. The connection stays as long as the process: its end is how others know that it is gone."""
        with self.changed:
            self.has_left = True
            self.lost = self.lost or f"{self.own_name} has left the pod"
            self.changed.notify_all()
        self.send({"kind": "bye", "why": why})

    def close(self) -> None:
        """Ends the connection."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)  # the thread still reads what is on its way
        if not self.thread.is_alive():
            self.connection.close()


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
