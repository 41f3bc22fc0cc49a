"""Python's garbage collector and IR, which is one big cyclic structure."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Generator[None]:
    """A context in which Python's garbage collector does not run: IR that is being built holds no garbage, and walking it takes
    time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            UNCOLLECTED.put_off()
            gc.enable()


class Uncollected:
    """Counts the objects that compilations have left to the garbage collector.

    Its next young collection would walk all of them and free none, a tenth of the time to compile. They are moved to the oldest
    generation instead, which is collected when there are many.
    """

    MOST = 1_500_000  # of 150 bytes each, with what they hold: 225 MB
    PART = 0.25  # of all objects, which a collection walks: where that is more, it may be as many

    def __init__(self) -> None:
        self.count = 0
        self.most = self.MOST

    def put_off(self) -> None:
        """Move all young objects to the oldest generation; to be called while the collector is off. Where one compilation leaves
        many by itself, they are collected without a walk through all that was there before."""
        young = gc.get_count()[0]
        if young > self.most:
            gc.collect(0)
            young = gc.get_count()[0]
        self.count += young
        is_frozen = gc.get_freeze_count() > 0  # what others have frozen must stay so
        if self.count > self.most and not is_frozen:
            gc.freeze()
            self.most = max(self.MOST, int(gc.get_freeze_count() * self.PART))
            gc.unfreeze()
        if self.count > self.most:
            gc.collect()
            self.count = 0
        elif not is_frozen:
            gc.freeze()
            gc.unfreeze()


UNCOLLECTED = Uncollected()
