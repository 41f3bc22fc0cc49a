"""Host memory for DDR slots: buffers are recycled, because fresh pages cost more than most programs.

A buffer comes back when the last array that views it is gone; nothing else is ever handed out twice. What is kept for the
next run is dropped as soon as a run needs a large one of another size, so it does not add to a run's peak.
"""

import mmap
import threading
import weakref

import numpy as np

RECYCLED_BYTES = 1 << 17
"""From here on memory comes in pages of its own."""
LARGE_BYTES = 1 << 22
"""From here on the pages are huge ones where the host has them."""
KEPT_BYTES = 1 << 26
"""Most memory that waits for the next run."""


class _Kept:
    """Regions nobody views, oldest first."""

    def __init__(self) -> None:
        self.regions: list[mmap.mmap] = []
        self.lock = threading.RLock()  # a garbage collection inside of `take` may call `give`

    def take(self, size_bytes: int) -> mmap.mmap | None:
        """A region of exactly that size; None if there is none, and then all others are freed for a large one."""
        with self.lock:
            for i, region in enumerate(self.regions):
                if len(region) == size_bytes:
                    return self.regions.pop(i)
            if size_bytes >= LARGE_BYTES:
                self.regions.clear()
            return None

    def give(self, region: mmap.mmap) -> None:
        """Keeps a region, in place of older ones if it must; too large ones are freed."""
        with self.lock:
            if len(region) > KEPT_BYTES:
                return
            self.regions.append(region)
            while sum(map(len, self.regions)) > KEPT_BYTES:
                self.regions.pop(0)


_KEPT = _Kept()


def allocate(size_bytes: int) -> np.ndarray:
    """uint8 [size_bytes], 4 KiB aligned if recycled; contents undefined there, zero in small ones."""
    if size_bytes < RECYCLED_BYTES:
        return np.zeros(size_bytes, np.uint8)
    region = _KEPT.take(size_bytes)
    if region is None:
        region = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size_bytes >= LARGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
            region.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(region, np.uint8, size_bytes)
    # Views keep this array alive, so its end is the end of all of them.
    weakref.finalize(array, _KEPT.give, region).atexit = False
    return array
