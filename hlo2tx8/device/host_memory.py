"""Host memory for DDR slots: buffers are recycled, because fresh pages cost more than most programs.

A buffer comes back when the last array that views it is gone; nothing else is ever handed out twice. Of what is kept for the
next run as much is dropped as a large one of another size takes, so it does not add to a run's peak. An array's end only notes
it, without Python code, in which an interrupt would be lost; the next one that is asked for looks what has come back.
"""

import ctypes
import mmap
import threading
import weakref
from collections import deque

import numpy as np

RECYCLED_BYTES = 1 << 17
"""From here on memory comes in pages of its own."""
LARGE_BYTES = 1 << 22
"""From here on the pages are huge ones where the host has them."""
KEPT_BYTES = 1 << 29
"""Most memory that waits for the next run: the results of a training step of 40 million parameters."""


class _Kept:
    """Regions nobody views, by number in the order in which they came back, and the numbers of each size."""

    def __init__(self) -> None:
        self.regions: dict[int, mmap.mmap] = {}
        self.of_size: dict[int, deque[int]] = {}
        self.size_bytes = self.count = 0
        self.lock = threading.RLock()

    def take(self, size_bytes: int) -> mmap.mmap | None:
        """The last region of exactly that size; None if there is none, and then others are freed for a large one."""
        with self.lock:
            numbers = self.of_size.get(size_bytes)
            if numbers:
                self.size_bytes -= size_bytes
                return self.regions.pop(numbers.pop())
            if size_bytes >= LARGE_BYTES:
                self._keep(self.size_bytes - size_bytes)
            return None

    def give(self, region: mmap.mmap) -> None:
        """Keeps a region, in place of older ones if it must."""
        size_bytes = len(region)
        with self.lock:
            numbers = self.of_size.setdefault(size_bytes, deque())
            self.count += 1
            self.regions[self.count] = region
            numbers.append(self.count)
            self.size_bytes += size_bytes
            self._keep(KEPT_BYTES)

    def _keep(self, most_bytes: int) -> None:
        """Frees the oldest regions until those that stay have at most so many bytes."""
        while self.regions and self.size_bytes > most_bytes:
            size_bytes = len(self.regions.pop(next(iter(self.regions))))
            self.of_size[size_bytes].popleft()
            self.size_bytes -= size_bytes


_KEPT = _Kept()


class _Loan(weakref.ref[np.ndarray]):
    """An array that is somewhere in use, and its region; weakref.finalize does the same in four times the time."""

    __slots__ = ("region",)
    region: mmap.mmap


_LOANS: dict[int, _Loan] = {}  # by their own id, or nobody would keep them


_ENDED: deque[_Loan] = deque()


def settle() -> None:
    """Keeps the regions of the arrays that are gone."""
    with _KEPT.lock:
        while _ENDED:
            loan = _ENDED.popleft()
            del _LOANS[id(loan)]
            _KEPT.give(loan.region)


def allocate(size_bytes: int, *, cleared: bool = False) -> np.ndarray:
    """uint8 [size_bytes], 4 KiB aligned if recycled; zeros if `cleared` or small, else undefined: whatever an array before held."""
    if size_bytes < RECYCLED_BYTES:
        return np.zeros(size_bytes, np.uint8)
    settle()
    region = _KEPT.take(size_bytes)
    if region is not None and cleared:
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(region)), 0, size_bytes)
    if region is None:
        region = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size_bytes >= LARGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
            region.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(region, np.uint8, size_bytes)
    if size_bytes > KEPT_BYTES:
        return array
    # Views keep this array alive, so its end is the end of all of them.
    loan = _Loan(array, _ENDED.append)
    loan.region = region
    _LOANS[id(loan)] = loan
    return array
