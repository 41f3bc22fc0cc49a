"""A key-value store at an address, for processes that have no other one: process 0 keeps it, the others ask."""

import socket
import threading
import time
from contextlib import suppress
from typing import Any

from hlo2tx8.errors import InputError, PodError
from hlo2tx8.runtime.pods.wire import WireError, greet, introduce, receive, send

MOST_BYTES = 1 << 20
GREETING_SECONDS, RETRY_SECONDS = 5.0, 0.1


class StoreAt:
    """The store of process 0 at `host:port`; who wants to use it must know the secret. PodError if nobody answers in `seconds`."""

    def __init__(self, address: str, secret: str, number: int, seconds: float) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise InputError("E1004", f"{address!r} is no address: host:port")
        self.place, self.secret = (host, int(port)), secret.encode()
        self.values: dict[str, str] = {}
        self.changed, self.asking = threading.Condition(), threading.Lock()
        self.server = self.connection = None
        if number == 0:
            self.server = socket.create_server(self.place)
            threading.Thread(target=self._accept, args=(self.server,), name="tx8 pod's store", daemon=True).start()
        else:
            self.connection = self._connected(number, time.monotonic() + seconds)

    def put(self, key: str, value: str) -> None:
        """Writes a value."""
        if self.connection is not None:
            self._ask({"put": key, "value": value})
            return
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key: str, seconds: float) -> str | None:
        """The value, after waiting for it so long at most; None if it is not there."""
        if self.connection is not None:
            return self._ask({"get": key, "seconds": seconds})["value"]
        with self.changed:
            self.changed.wait_for(lambda: key in self.values, seconds)
            return self.values.get(key)

    def close(self) -> None:
        """Nobody can ask any more."""
        for thing in (self.server, self.connection):
            if thing is not None:
                with suppress(OSError):
                    thing.shutdown(socket.SHUT_RDWR)
                thing.close()

    def _ask(self, question: dict[str, object]) -> dict[str, Any]:
        assert self.connection is not None
        try:
            with self.asking:
                send(self.connection, question)
                return receive(self.connection, 0)[0]
        except (OSError, WireError) as error:
            raise PodError(f"process 0 does not answer at {self.place[0]}:{self.place[1]}: {error}") from None

    def _connected(self, number: int, deadline: float) -> socket.socket:
        while True:
            try:
                connection = socket.create_connection(self.place, GREETING_SECONDS)
                introduce(connection, self.secret, number, 0)
                connection.settimeout(None)
                return connection
            except (OSError, WireError) as error:
                if time.monotonic() > deadline or isinstance(error, WireError):
                    where = f"{self.place[0]}:{self.place[1]}"
                    raise PodError(f"process 0 is not at {where}, or has another secret: {error}") from None
            time.sleep(RETRY_SECONDS)

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, WireError, KeyError, TypeError), connection:
            connection.settimeout(GREETING_SECONDS)
            greet(connection, self.secret, 0)
            connection.settimeout(None)
            while True:
                question, _ = receive(connection, MOST_BYTES)
                if "put" in question:
                    self.put(str(question["put"]), str(question["value"]))
                    send(connection, {})
                else:
                    send(connection, {"value": self.get(str(question["get"]), float(question["seconds"]))})
