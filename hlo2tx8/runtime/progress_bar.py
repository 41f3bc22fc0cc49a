"""A progress bar for long compilations, on the last line of a terminal."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO

QUIET_SECONDS = 2.0
"""What takes less shows nothing."""
REDRAWN_SECONDS = 0.1
WIDTH = 30
CLEAR = "\r\x1b[K"


@contextmanager
def shown(stream: TextIO | None = None) -> Generator[Callable[[float, str], None]]:
    """A context that gives a function (share done, what comes next) to call, which draws the bar; on no terminal it draws nothing.
    The bar goes when the context ends.
    """
    out = sys.stderr if stream is None else stream
    redrawn = time.perf_counter() + QUIET_SECONDS - REDRAWN_SECONDS
    started, most, is_drawn = time.perf_counter(), 0.0, False
    is_terminal = out.isatty()

    def watch(part: float, what: str) -> None:
        nonlocal redrawn, most, is_drawn
        now = time.perf_counter()
        if not is_terminal or now < redrawn + REDRAWN_SECONDS:
            return
        redrawn, most, is_drawn = now, max(most, part), True
        full = int(WIDTH * most)
        out.write(f"{CLEAR}compiling {'█' * full}{'░' * (WIDTH - full)} {100 * most:3.0f} %  {now - started:.0f} s  {what}")
        out.flush()

    try:
        yield watch
    finally:
        if is_drawn:
            out.write(CLEAR)
            out.flush()
