"""`join`: the processes of a pod find each other in a key-value store, compare what must be equal, and connect each to each."""

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from hlo2tx8.errors import PodError
from hlo2tx8.runtime.pods.peer import Begun, Peer
from hlo2tx8.runtime.pods.wire import WireError, greet, introduce, prepare

LOOPBACK = "127.0.0.1"
GREETING_SECONDS = 5.0
"""A connection that has not proved itself by then is closed."""


class KeyValues(Protocol):
    """A store that all processes of a pod see; texts are written once."""

    def put(self, key: str, value: str) -> None:
        """Writes a value."""
        ...

    def get(self, key: str, seconds: float) -> str | None:
        """The value, after waiting for it so long at most; None if it is not there."""
        ...


@dataclass(frozen=True)
class Membership:
    """What a process of a pod brings: its number and of how many, its chips, the interface that others reach it at, and what must
    be the same everywhere, by name. `most_bytes`: of a message. `arrival`: seconds that others are waited for in the beginning,
    `patience` those that an idle one is waited for in a program.
    """

    number: int
    count: int
    num_chips: int
    address: str = LOOPBACK
    equal: Mapping[str, str] = field(default_factory=dict[str, str])
    most_bytes: int = 1 << 36
    arrival: float = 30.0
    patience: float = 600.0


@dataclass(frozen=True)
class Member:
    """What a process of a pod says of itself."""

    number: int
    num_chips: int
    host: str
    pid: int
    address: str
    port: int
    equal: Mapping[str, str]

    def __str__(self) -> str:
        return f"process {self.number} (pid {self.pid} on {self.host})"


@dataclass
class Pod:
    """The processes of a pod, this one's number, and its connections to the others by their numbers."""

    number: int
    members: tuple[Member, ...]
    peers: dict[int, Peer] = field(default_factory=dict[int, Peer])
    does: Callable[[], str] = lambda: ""

    @property
    def first_chips(self) -> tuple[int, ...]:
        """The number of each process's first chip, and behind them the number of chips."""
        sums = [0]
        for member in self.members:
            sums.append(sums[-1] + member.num_chips)
        return tuple(sums)

    @property
    def activity(self) -> str:
        """What this process is busy with, "" if with nothing or with waiting for another one."""
        return "" if any(peer.is_waiting for peer in self.peers.values()) else self.does()

    @property
    def has_died(self) -> bool:
        """Has another process gone without a good-bye?"""
        return any(peer.has_died for peer in self.peers.values())

    def begin(self, others: tuple[int, ...], begun: Begun, tick: Callable[[], None]) -> dict[int, int]:
        """A launch that others take part in: its number for each of them."""
        return {number: self.peers[number].begin(begun, tick) for number in others}

    def leave(self, why: str = "") -> None:
        """Leaves the pod at the end of the process; `why` if it is for an error."""
        for peer in self.peers.values():
            peer.leave(why)

    def close(self, why: str = "") -> None:
        """Leaves the pod and ends the connections."""
        self.leave(why)
        for peer in self.peers.values():
            peer.close()

    def wait_for_ends(self, seconds: float) -> None:
        """Until the other processes have ended, but so long at most."""
        deadline = time.monotonic() + seconds
        for peer in self.peers.values():
            peer.thread.join(max(deadline - time.monotonic(), 0.0))


def join(values: KeyValues, own: Membership, prefix: str) -> Pod:
    """The pod, connected; PodError names who has not come, or differs. Keys in the store begin with `prefix`."""
    deadline = time.monotonic() + own.arrival
    with socket.create_server((own.address, 0), backlog=own.count) as server:
        member = Member(
            own.number, own.num_chips, socket.gethostname(), os.getpid(), own.address, server.getsockname()[1], own.equal
        )
        if own.number == 0:
            values.put(f"{prefix}/token", secrets.token_hex(32))
        values.put(f"{prefix}/process/{own.number}", json.dumps(asdict(member)))
        members = _members(values, own, prefix, deadline)
        _compare(members[own.number], members)
        token = bytes.fromhex(_required(values, f"{prefix}/token", deadline))
        pod = Pod(own.number, members)
        for number, connection in sorted(_connections(server, members, own, token, deadline).items()):
            prepare(connection)
            names = str(members[number]), f"process {own.number}"
            pod.peers[number] = Peer(connection, *names, own.most_bytes, own.patience, lambda: pod.activity)
    return pod


def _required(values: KeyValues, key: str, deadline: float) -> str:
    found = values.get(key, max(deadline - time.monotonic(), 0.1))
    if found is None:
        raise PodError(f"{key} is not in the pod's key-value store")
    return found


def _members(values: KeyValues, own: Membership, prefix: str, deadline: float) -> tuple[Member, ...]:
    found = {n: values.get(f"{prefix}/process/{n}", max(deadline - time.monotonic(), 0.01)) for n in range(own.count)}
    missing = [number for number, text in found.items() if text is None]
    if missing:
        raise PodError(_absent(missing, own), hint="option arrival_timeout, in seconds")
    return tuple(_member(text) for text in found.values() if text is not None)


def _absent(missing: list[int], own: Membership) -> str:
    which = f"process{'es' * (len(missing) > 1)} {', '.join(map(str, missing))}"
    return f"{which} of {own.count} did not come in {own.arrival:g} seconds; process {own.number} waited"


def _member(text: str) -> Member:
    try:
        values: dict[str, Any] = json.loads(text)
        return Member(**values)
    except (ValueError, TypeError) as error:
        raise PodError(f"a process says of itself what cannot be read, perhaps of another version: {error}") from None


def _compare(own: Member, members: tuple[Member, ...]) -> None:
    """PodError if a member differs from the first in what must be equal, or cannot be reached where it listens."""
    first = members[0]
    for member in members:
        for name in sorted({*first.equal, *member.equal}):
            theirs, ours = member.equal.get(name, "nothing"), first.equal.get(name, "nothing")
            if theirs != ours:
                raise PodError(f"{member} has {name} {theirs}, and {first} has {ours}")
        if member.address == LOOPBACK and member.host != own.host:
            raise PodError(f"{member} listens to its own host only", hint="option pod_address, of a network that the hosts share")


def _connections(
    server: socket.socket, members: tuple[Member, ...], own: Membership, token: bytes, deadline: float
) -> dict[int, socket.socket]:
    """A connection to each other process: to those of lower numbers from here, from those of higher numbers to here."""
    found: dict[int, socket.socket] = {}
    for member in members[: own.number]:
        try:
            seconds = max(deadline - time.monotonic(), 1.0)
            connection = socket.create_connection((member.address, member.port), seconds)
            introduce(connection, token, own.number, member.number)
        except (OSError, WireError) as error:
            raise PodError(f"{member} cannot be reached at {member.address}:{member.port}: {error}") from None
        found[member.number] = connection
    expected = range(own.number + 1, own.count)
    server.settimeout(0.1)
    while missing := [number for number in expected if number not in found]:
        if time.monotonic() > deadline:
            raise PodError(_absent(missing, own), hint="option arrival_timeout, in seconds")
        with suppress(TimeoutError):
            connection, _ = server.accept()
            threading.Thread(target=_greeted, args=(connection, token, own.number, expected, found), daemon=True).start()
    return found


def _greeted(connection: socket.socket, token: bytes, number: int, expected: range, found: dict[int, socket.socket]) -> None:
    """Puts a connection that proves itself among those that are found; a stranger's is closed."""
    connection.settimeout(GREETING_SECONDS)
    try:
        other = greet(connection, token, number)
    except (OSError, WireError):
        connection.close()
        return
    if other not in expected or found.setdefault(other, connection) is not connection:
        connection.close()
