"""Python's garbage collector and IR, which is one big cyclic structure."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Generator[None]:
    """The collector stays off in the block: collecting IR while it grows only costs time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            UNCOLLECTED.put_off()
            gc.enable()


class Uncollected:
    """Objects that compilations have left to the collector. Its next young collection would walk all of them to free none, a tenth
    of the time to compile: they become old at once, and are collected when there are many."""

    MOST = 500_000  # 200 MB at most

    def __init__(self) -> None:
        self.count = 0

    def put_off(self) -> None:
        """Whatever is young becomes old; while the collector is off."""
        self.count += gc.get_count()[0]
        if self.count > self.MOST:
            gc.collect()
            self.count = 0
        elif not gc.get_freeze_count():  # what others have frozen must stay so
            gc.freeze()
            gc.unfreeze()


UNCOLLECTED = Uncollected()
