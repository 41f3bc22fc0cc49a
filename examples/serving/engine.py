"""Continuous batching: requests share the steps of one batch, join it when a row is free, and leave it when they are done.

A request waits, has a row of the batch until its tokens are made or nobody wants them any more, and then the row is the next one's.
While a row has more than one token of its prompt left, all rows run the step that takes a chunk of them; else that for one token.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

import hlo2tx8
from examples.serving.model import LAYERS, LENGTH, LETTERS, WIDTH, lowered, weights
from hlo2tx8.runtime.request_context import RequestContext


class Full(Exception):
    """As many requests wait as the engine takes."""


@dataclass(eq=False)
class Request:
    """A prompt, and what follows it: `made` gives its tokens as they come, then None, or the error that ended it."""

    prompt: bytes
    num_tokens: int
    temperature: float = 0.0
    seed: int = 0
    fed: int = 0
    """How many tokens are in the cache."""
    tokens: list[int] = field(default_factory=list[int])
    made: "asyncio.Queue[int | Exception | None]" = field(default_factory=lambda: asyncio.Queue())
    is_wanted: bool = True

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def pending(self) -> list[int]:
        """The tokens that are not in the cache yet."""
        return [*self.prompt, *self.tokens][self.fed :]

    def draw(self, logits: np.ndarray[Any, Any]) -> int:
        """The next token: the likeliest at temperature 0, else one that is drawn."""
        if self.temperature == 0:
            return int(logits.argmax())
        return int((logits / self.temperature + self.random.gumbel(size=LETTERS)).argmax())


class Engine:
    """Programs, cache and weights on the device, and the loop that runs steps while there are requests."""

    def __init__(self, rows: int = 8, chunk: int = 16, most_waiting: int = 64) -> None:
        self.most_waiting = most_waiting
        self.waiting: deque[Request] = deque()
        self.rows: list[Request | None] = [None] * rows
        self.counters = {"requests": 0, "finished": 0, "abandoned": 0, "tokens": 0, "steps": 0, "rows_in_steps": 0}
        self.session = hlo2tx8.Session()
        self.cache = np.zeros((2, LAYERS, rows, LENGTH, WIDTH), np.float32)
        self.logits = np.zeros((rows, LETTERS), np.float32)
        self.starts, self.counts = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        self.tokens = {size: np.zeros((rows, size), np.int32) for size in (1, chunk)}
        leaves = jax.tree.leaves(weights())
        self.steps = {size: self._context(size, leaves) for size in self.tokens}
        self.work = asyncio.Event()

    def _context(self, size: int, leaves: list[np.ndarray[Any, Any]]) -> RequestContext:
        model = self.session.load(lowered(len(self.rows), size), f"step of {size}")
        for number, leaf in enumerate(leaves):
            self.session.bind_weight(4 + number, leaf, model)
        context = self.session.new_request_context(model=model)
        given = (self.tokens[size], self.starts, self.counts, self.cache)
        for offset, array in enumerate(given):
            context.bind_arg(offset, array)
        first = len(self.session.inputs(model))
        context.bind_arg(first, self.logits)
        context.bind_arg(first + 1, self.cache)
        context.finish_io_binding()
        return context

    async def generate(self, request: Request) -> AsyncIterator[int]:
        """The tokens that follow the request's prompt; who stops iterating gives its row back. Full where too many wait."""
        if len(self.waiting) >= self.most_waiting:
            raise Full
        self.counters["requests"] += 1
        self.waiting.append(request)
        self.work.set()
        try:
            while (token := await request.made.get()) is not None:
                if isinstance(token, Exception):
                    raise token
                yield token
        finally:
            request.is_wanted = False

    async def run(self) -> None:
        """Run steps for ever; cancel it to stop."""
        while True:
            self._seat()
            if not any(self.rows):
                self.work.clear()
                await self.work.wait()
                continue
            try:
                await self._step()
            except Exception as error:  # the device's: all that were in the step learn of it
                for row, request in enumerate(self.rows):
                    if request is not None:
                        request.made.put_nowait(error)
                        self.rows[row] = None

    def _seat(self) -> None:
        """Free the rows of requests that nobody wants any more, and give free rows to those that wait."""
        for row, request in enumerate(self.rows):
            if request is not None and not request.is_wanted:
                self.counters["abandoned"] += 1
                self.rows[row] = None
            while self.rows[row] is None and self.waiting:
                found = self.waiting.popleft()
                if found.is_wanted:
                    self.rows[row] = found
                else:
                    self.counters["abandoned"] += 1

    async def _step(self) -> None:
        """One step of all rows."""
        pending = [request.pending() if request is not None else [] for request in self.rows]
        size = max(self.tokens) if any(len(tokens) > 1 for tokens in pending) else 1
        for row, (request, tokens) in enumerate(zip(self.rows, pending, strict=True)):
            taken = tokens[:size]
            self.tokens[size][row, : len(taken)] = taken
            self.starts[row], self.counts[row] = request.fed if request is not None else 0, len(taken)
        await self.steps[size].run_async()
        self.counters["steps"] += 1
        for row, request in enumerate(self.rows):
            if request is None:
                continue
            self.counters["rows_in_steps"] += 1
            request.fed += int(self.counts[row])
            if request.fed < len(request.prompt):
                continue
            token = request.draw(self.logits[row])
            request.tokens.append(token)
            request.made.put_nowait(token)
            self.counters["tokens"] += 1
            if len(request.tokens) == request.num_tokens:
                request.made.put_nowait(None)
                self.counters["finished"] += 1
                self.rows[row] = None

    async def stop(self, task: "asyncio.Task[None]") -> None:
        """End the loop and the session."""
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        self.session.close()
