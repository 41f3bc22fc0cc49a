"""MLIR bytecode that may come from anywhere. MLIR's reader takes some that is damaged for granted, and ends the process.

A child process reads it first, goes through all that this process would do with it, and writes it again; only what the child's
own writer has made is read here. `python -m hlo2tx8.frontend.bytecode` is the child.
"""

import os
import threading
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.hlo_text import Child, HloTextParser

STACK_BYTES = 4 << 20
"""Of the child, half of what a thread has here: what is too deep for it never comes here."""
LEAST_SECONDS, BYTES_PER_SECOND = 15.0, 1 << 15
"""A module may take this long by its size: MLIR's reader never ends on some damaged ones. 10^5 operations need a twentieth."""
PACKAGE = Path(__file__).parents[2]


def read_apart(data: bytes, name: str) -> bytes:
    """The same module as bytecode that is sound; ParseError where it is malformed, or reading it ends the child."""
    seconds = min(shim.MOST_SECONDS, LEAST_SECONDS + len(data) / BYTES_PER_SECOND)
    return _reader_of(os.getpid()).parse(data, name, seconds)


@cache
def _reader_of(pid: int) -> HloTextParser:
    """The reader of a process; a fork gets its own."""
    return HloTextParser(start=partial(Child.start, ("-m", __name__), folder=PACKAGE), what="MLIR bytecode")


def rehearse(_: bool, data: bytes) -> bytes:
    """What `read_apart` gives, in the child; whatever the bindings raise for malformed bytecode."""
    from hlo2tx8.frontend.sources import load

    found = shim.bytecode(shim.parse_module(data, shim.make_context()))
    with suppress(Hlo2tx8Error):  # which who asked meets again
        load(found, is_sound=True)
    return found


if __name__ == "__main__":
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=shim.serve, args=(rehearse,))
    thread.start()
    thread.join()
