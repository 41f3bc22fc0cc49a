"""The example server: continuous batching gives each request what it would get alone; clients that go and bad input harm nobody."""

# pyright: basic

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra hlo2tx8[serving] is not installed")

import httpx
import uvicorn

from examples.serving.engine import Engine, Full, Request
from examples.serving.model import LAYERS, LENGTH, WIDTH, step, weights
from examples.serving.server import application


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Engine]]:
    """A running server of 3 rows: its address and engine."""
    engine = Engine(rows=3, chunk=8, most_waiting=20)
    config = uvicorn.Config(application(engine), host="127.0.0.1", port=0, log_level="error")
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run)
    thread.start()
    while not serving.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{serving.servers[0].sockets[0].getsockname()[1]}", engine
    serving.should_exit = True
    thread.join()


def alone(prompt: bytes, num_tokens: int) -> list[int]:
    """What follows the prompt, by jax, token by token."""
    run, given = jax.jit(step), weights()
    cache, tokens = np.zeros((2, LAYERS, 1, LENGTH, WIDTH), np.float32), list(prompt)
    for place in range(len(prompt) + num_tokens - 1):
        logits, cache = run(
            np.array([[tokens[place]]], np.int32), np.array([place], np.int32), np.array([1], np.int32), cache, given
        )
        if place >= len(prompt) - 1:
            tokens.append(int(np.argmax(logits)))
    return tokens[len(prompt) :]


def test_each_request_gets_what_it_gets_alone(server: tuple[str, Engine]):
    """More requests than rows, prompts shorter and longer than a chunk."""
    address, _ = server
    cases = [("the chip", 12), ("a", 3), ("x" * 30, 5), ("grüße", 7), ("hello", 1), ("the chip", 12), ("y" * 100, LENGTH - 100)]

    async def all_at_once() -> list[Any]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            return await asyncio.gather(*[client.post("/generate", json={"prompt": p, "num_tokens": n}) for p, n in cases])

    for (prompt, number), answer in zip(cases, asyncio.run(all_at_once()), strict=True):
        assert answer.json()["tokens"] == alone(prompt.encode(), number)


def test_a_stream_gives_the_same_tokens(server: tuple[str, Engine]):
    body = {"prompt": "stream", "num_tokens": 6, "temperature": 0.8, "seed": 3}
    whole = httpx.post(f"{server[0]}/generate", json=body).json()["tokens"]
    with httpx.stream("POST", f"{server[0]}/generate", json={**body, "stream": True}) as answer:
        assert [json.loads(line)["token"] for line in answer.iter_lines()] == whole
    assert httpx.post(f"{server[0]}/generate", json={**body, "seed": 4}).json()["tokens"] != whole


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"prompt": ""}', 422),
        (b'{"prompt": "\\ud800"}', 422),
        (b'{"prompt": "a", "colour": 1}', 422),
        (b'{"prompt": "a", "num_tokens": true}', 422),
        (b'{"prompt": "a", "num_tokens": 0}', 422),
        (b'{"prompt": "a", "num_tokens": 1e3}', 422),
        (b'{"prompt": "a", "temperature": NaN}', 422),
        (b'{"prompt": "a", "seed": -1}', 422),
        (b'{"prompt": "' + b"a" * LENGTH + b'"}', 422),
        (b'{"prompt": "' + b"a" * 70_000 + b'"}', 413),
        (b"[" * 60_000, 400),
    ],
)
def test_bad_input_is_refused(server: tuple[str, Engine], body: bytes, status: int):
    answer = httpx.post(f"{server[0]}/generate", content=body)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_other_paths_and_methods_are_refused(server: tuple[str, Engine]):
    assert httpx.get(f"{server[0]}/generate").status_code == 405
    assert httpx.get(f"{server[0]}/nothing").status_code == 404


def test_rows_of_clients_that_go_are_free_again(server: tuple[str, Engine]):
    """Sockets are closed while requests wait and while they run; the next requests are served, and nothing is left."""
    address, _ = server
    host, port = address.removeprefix("http://").split(":")
    for is_streamed in (True, False) * 6:
        body = json.dumps({"prompt": "going", "num_tokens": 120, "stream": is_streamed}).encode()
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            if is_streamed:
                client.recv(10)
    assert httpx.post(f"{address}/generate", json={"prompt": "hello", "num_tokens": 2}).json()["tokens"] == alone(b"hello", 2)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        found = httpx.get(f"{address}/metrics").json()
        if found["waiting"] == found["busy_rows"] == 0:
            break
    assert found["waiting"] == found["busy_rows"] == 0
    assert found["finished"] + found["abandoned"] == found["requests"]


def test_no_more_wait_than_may():
    async def fill() -> None:
        engine = Engine.__new__(Engine)
        engine.most_waiting, engine.waiting = 0, []
        with pytest.raises(Full):
            await anext(engine.generate(Request(b"a", 1)))

    asyncio.run(fill())
