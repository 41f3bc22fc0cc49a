"""Messages between two processes on a TCP connection, and how each proves to the other that it knows the pod's token.

A message is the sizes of its head and body, the head as JSON, and the body's bytes. Nothing that is received is ever code.

    accepting                              connecting
    challenge, 32 bytes           →
                                  ←       its number, a challenge, HMAC(token, "connect", numbers, challenges)
    HMAC(token, "accept", ...)    →
"""

import hmac
import json
import secrets
import socket
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

SIZES, NUMBER = struct.Struct("<IQ"), struct.Struct("<I")
MOST_HEAD_BYTES = 1 << 16
CHALLENGE_BYTES = 32
PIECE_ALIGNMENT = 64
"""Where pieces of a body begin, so that arrays can lie there."""
PROOF_BYTES = 32
SILENT_SECONDS = 5
"""A connection without traffic is probed so often; after three probes without an answer the other machine is gone."""
STUCK_MILLISECONDS = 60000
"""What was sent and is not even received in this time never will be."""


class WireError(Exception):
    """The other side does not keep to the protocol."""


def send(connection: socket.socket, head: dict[str, object], pieces: Sequence[npt.NDArray[Any]] = ()) -> None:
    """Sends a message; the pieces, contiguous, are its body. OSError if the connection is gone."""
    text = json.dumps(head).encode()
    size = sum(padded(piece.nbytes) for piece in pieces)
    connection.sendall(SIZES.pack(len(text), size) + text)
    for piece in pieces:
        connection.sendall(piece.reshape(-1).view(np.uint8).data)
        connection.sendall(bytes(padded(piece.nbytes) - piece.nbytes))


def padded(num_bytes: int) -> int:
    """The bytes that a piece takes in a body."""
    return -(-num_bytes // PIECE_ALIGNMENT) * PIECE_ALIGNMENT


def receive(connection: socket.socket, most_bytes: int) -> tuple[dict[str, Any], npt.NDArray[np.uint8]]:
    """The next message. OSError if the connection is gone, WireError if the message is none or larger than allowed."""
    head_size, size = SIZES.unpack(_exactly(connection, SIZES.size))
    if head_size > MOST_HEAD_BYTES or size > most_bytes:
        raise WireError(f"a message of {head_size} + {size} bytes; at most {MOST_HEAD_BYTES} + {most_bytes} are allowed")
    try:
        head = json.loads(_exactly(connection, head_size))
    except ValueError as error:
        raise WireError(f"a message whose head is no JSON: {error}") from None
    if not isinstance(head, dict):
        raise WireError("a message whose head is no object")
    body = np.empty(size, np.uint8)
    _fill(connection, body.data)
    return head, body  # pyright: ignore[reportUnknownVariableType]


def greet(connection: socket.socket, token: bytes, number: int) -> int:
    """The number of the process that has connected to process `number` and knows the token; else WireError or OSError."""
    own = secrets.token_bytes(CHALLENGE_BYTES)
    connection.sendall(own)
    (other,) = NUMBER.unpack(_exactly(connection, NUMBER.size))
    said = NUMBER.pack(other) + NUMBER.pack(number) + own + _exactly(connection, CHALLENGE_BYTES)
    if not hmac.compare_digest(_exactly(connection, PROOF_BYTES), _proof(token, b"connect" + said)):
        raise WireError("a stranger has connected")
    connection.sendall(_proof(token, b"accept" + said))
    return other


def introduce(connection: socket.socket, token: bytes, number: int, other: int) -> None:
    """The other side of `greet`: process `number` has connected to `other`."""
    theirs, own = _exactly(connection, CHALLENGE_BYTES), secrets.token_bytes(CHALLENGE_BYTES)
    said = NUMBER.pack(number) + NUMBER.pack(other) + theirs + own
    connection.sendall(NUMBER.pack(number) + own + _proof(token, b"connect" + said))
    if not hmac.compare_digest(_exactly(connection, PROOF_BYTES), _proof(token, b"accept" + said)):
        raise WireError("a stranger has answered")


def prepare(connection: socket.socket) -> None:
    """From here on calls wait, small messages go at once, and a machine that is gone is noticed."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    tcp = socket.IPPROTO_TCP
    connection.setsockopt(tcp, socket.TCP_NODELAY, 1)
    connection.setsockopt(tcp, socket.TCP_KEEPIDLE, SILENT_SECONDS)
    connection.setsockopt(tcp, socket.TCP_KEEPINTVL, SILENT_SECONDS)
    connection.setsockopt(tcp, socket.TCP_KEEPCNT, 3)
    connection.setsockopt(tcp, socket.TCP_USER_TIMEOUT, STUCK_MILLISECONDS)


def _proof(token: bytes, said: bytes) -> bytes:
    return hmac.digest(token, said, "sha256")


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray(size)
    _fill(connection, memoryview(found))
    return bytes(found)


def _fill(connection: socket.socket, into: memoryview) -> None:
    at = 0
    while at < len(into):
        count = connection.recv_into(into[at:])
        if not count:
            raise ConnectionResetError("its connection was closed")
        at += count
