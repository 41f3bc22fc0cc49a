"""The server: `python -m examples.serving.server [--port=8000]`, then

    curl -d '{"prompt": "the chip", "num_tokens": 32}' http://127.0.0.1:8000/generate
    curl -N -d '{"prompt": "the chip", "num_tokens": 32, "stream": true}' http://127.0.0.1:8000/generate

`/generate` answers {"text", "tokens"}, or a line of JSON per token with `stream`; `temperature` and `seed` draw tokens. `/metrics`
tells what the engine has done. Bad requests get 4xx, and 503 where too many wait. Needs the extra `hlo2tx8[serving]`.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from examples.serving.engine import Engine, Full, Request
from examples.serving.model import LENGTH

MOST_BYTES = 1 << 16
"""Of a request's body."""
FIELDS = {"prompt": str, "num_tokens": int, "temperature": (int, float), "seed": int, "stream": bool}


class BadRequest(Exception):
    """What is wrong with a request, and the status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def parsed(body: bytes) -> tuple[Request, bool]:
    """The request in a body, and whether it is to be streamed; BadRequest."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:  # and text that is not UTF-8
        raise BadRequest(400, f"the body is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRequest(422, "the body is no object")
    for name, value in fields.items():
        if name not in FIELDS:
            raise BadRequest(422, f"there is no field {name}; there are {', '.join(FIELDS)}")
        if not isinstance(value, FIELDS[name]) or (isinstance(value, bool) and FIELDS[name] is not bool):
            raise BadRequest(422, f"{name} cannot be {json.dumps(value)[:40]}")
    try:
        prompt = str(fields.get("prompt", "")).encode()
    except UnicodeEncodeError as error:
        raise BadRequest(422, "the prompt is no text") from error
    number, temperature, seed = fields.get("num_tokens", 16), float(fields.get("temperature", 0)), fields.get("seed", 0)
    if not prompt:
        raise BadRequest(422, "the prompt is missing or empty")
    if number < 1 or len(prompt) + number > LENGTH:
        raise BadRequest(422, f"num_tokens must be 1 or more, and {LENGTH} at most with the {len(prompt)} bytes of the prompt")
    if not 0 <= temperature <= 100 or not 0 <= seed < 2**63:
        raise BadRequest(422, "temperature must be from 0 to 100, and seed from 0 to 2^63 - 1")
    return Request(prompt, number, temperature, seed), bool(fields.get("stream", False))


async def body_of(http: HttpRequest) -> bytes:
    """The body; BadRequest as soon as it is too large."""
    found = b""
    async for part in http.stream():
        found += part
        if len(found) > MOST_BYTES:
            raise BadRequest(413, f"the body has more than {MOST_BYTES} bytes")
    return found


async def generate(http: HttpRequest) -> Response:
    """POST /generate."""
    engine: Engine = http.app.state.engine
    try:
        request, is_streamed = parsed(await body_of(http))
    except BadRequest as error:
        return JSONResponse({"error": str(error)}, error.status)
    except ClientDisconnect:
        return Response(status_code=499)
    tokens = engine.generate(request)
    try:
        found = await unless_gone(http, collected(tokens, 1 if is_streamed else request.num_tokens))
    except Full:
        return JSONResponse({"error": "too many requests wait"}, 503, {"Retry-After": "1"})
    if found is None:
        return Response(status_code=499)
    if is_streamed:
        return StreamingResponse(lines(found, tokens), media_type="application/x-ndjson")
    return JSONResponse({"text": bytes(found).decode(errors="replace"), "tokens": found})


async def unless_gone(http: HttpRequest, work: Coroutine[Any, Any, list[int]]) -> list[int] | None:
    """What the work returns; None where the client goes before, and the work is cancelled."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(http.receive())  # no message comes but that the client has gone
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        gone.cancel()


async def collected(tokens: AsyncIterator[int], number: int) -> list[int]:
    """So many of the tokens."""
    return [await anext(tokens) for _ in range(number)]


async def lines(first: list[int], tokens: AsyncIterator[int]) -> AsyncIterator[str]:
    """A line of JSON per token."""
    for token in first:
        yield json.dumps({"token": token}) + "\n"
    async for token in tokens:
        yield json.dumps({"token": token}) + "\n"


async def metrics(http: HttpRequest) -> Response:
    """GET /metrics."""
    engine: Engine = http.app.state.engine
    busy = sum(request is not None for request in engine.rows)
    return JSONResponse({**engine.counters, "waiting": len(engine.waiting), "busy_rows": busy})


def application(engine: Engine | None = None) -> Any:
    """The server's ASGI application."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.engine = engine or Engine()
        task = asyncio.create_task(app.state.engine.run())
        yield
        await app.state.engine.stop(task)

    routes = [Route("/generate", generate, methods=["POST"]), Route("/metrics", metrics)]
    return Starlette(routes=routes, lifespan=lifespan)


def main() -> None:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--rows", type=int, default=8, help="requests in a step")
    arguments = parser.parse_args()
    uvicorn.run(application(Engine(arguments.rows)), host="127.0.0.1", port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
