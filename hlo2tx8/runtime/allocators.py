"""Memory of request contexts: an arena that keeps blocks for the next request, or the caller's own functions.

An allocation is a uint8 array; it comes back when the last array that views it is gone, so nobody ever holds memory of another
request. An array's end only notes it, without Python code of the arena, which may hold its lock in that moment.
"""

import ctypes
import mmap
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hlo2tx8.errors import CapacityError, InputError

ALIGNMENT_BYTES = 64
MAPPED_BYTES = 1 << 17
"""From here on blocks are pages of their own, which go back to the host at once when they are freed."""
CLASSES_PER_DOUBLING = 8
"""Sizes of blocks between a power of two and the next: at most an eighth of a block is not used."""
Bytes = npt.NDArray[np.uint8]


class Allocator(Protocol):
    """Where a session takes memory from."""

    def allocate(self, size_bytes: int) -> Bytes:
        """uint8 [size_bytes] with any contents, aligned to 16 bytes or more; CapacityError if there is none."""
        ...


@dataclass(frozen=True)
class ArenaStatistics:
    """Bytes `in_use` by arrays that are alive, the most of them there ever were, bytes `kept` for later, and the `limit_bytes`, 0
    if there is none; how many arrays were asked for, and how many of those got a kept block.
    """

    in_use_bytes: int
    peak_bytes: int
    kept_bytes: int
    limit_bytes: int
    num_allocated: int
    num_reused: int


class _BlockInUse(weakref.ref[Any]):
    """An array that is somewhere in use, and its block."""

    __slots__ = ("block",)
    block: mmap.mmap | bytearray


class Arena:
    """A caching allocator: freed blocks stay for arrays of about their size, until there are more than `kept_bytes` of them.

    `limit_bytes` is the most that arrays and kept blocks may have together; 0 is no limit.
    """

    def __init__(self, limit_bytes: int = 0, kept_bytes: int = 1 << 29) -> None:
        if limit_bytes < 0 or kept_bytes < 0:
            raise InputError("E1004", f"an arena of {limit_bytes} bytes that keeps {kept_bytes}", hint="0 or more")
        self.limit_bytes, self.most_kept_bytes = limit_bytes, kept_bytes
        self._lock = threading.Lock()
        self._free: dict[int, list[mmap.mmap | bytearray]] = {}
        self._loans: dict[int, _BlockInUse] = {}  # by their own id, or nobody would keep them
        self._ended: deque[_BlockInUse] = deque()
        self._in_use = self._peak = self._kept = self._num_allocated = self._num_reused = 0

    def allocate(self, size_bytes: int) -> Bytes:
        """uint8 [size_bytes] with any contents, 64-byte aligned; CapacityError if the limit leaves no room."""
        room = block_bytes(size_bytes)
        with self._lock:
            self._settle()
            free = self._free.get(room)
            if free:
                block, self._kept = free.pop(), self._kept - room
                self._num_reused += 1
            else:
                if self.limit_bytes and self._in_use + self._kept + room > self.limit_bytes:
                    self._drop(0)
                if self.limit_bytes and self._in_use + room > self.limit_bytes:
                    raise CapacityError(
                        "E1005", f"{size_bytes:,} bytes do not fit an arena of {self.limit_bytes:,} with {self._in_use:,} in use"
                    )
                block = mmap.mmap(-1, room) if room >= MAPPED_BYTES else bytearray(room)
            self._in_use += room
            self._peak = max(self._peak, self._in_use)
            self._num_allocated += 1
            start = -ctypes.addressof(ctypes.c_char.from_buffer(block)) % ALIGNMENT_BYTES
            array = np.frombuffer(block, np.uint8, size_bytes, start)  # which its views refer to, so its end is the end of all
            loan = _BlockInUse(array, self._ended.append)
            loan.block = block
            self._loans[id(loan)] = loan
        return array

    def trim(self) -> None:
        """Gives all kept blocks back to the host."""
        with self._lock:
            self._settle()
            self._drop(0)

    @property
    def statistics(self) -> ArenaStatistics:
        """What is in use and kept now."""
        with self._lock:
            self._settle()
            counts = self._num_allocated, self._num_reused
            return ArenaStatistics(self._in_use, self._peak, self._kept, self.limit_bytes, *counts)

    def _settle(self) -> None:
        """Keeps the blocks of the arrays that are gone."""
        while self._ended:
            loan = self._ended.popleft()
            del self._loans[id(loan)]
            room = len(loan.block)
            self._in_use -= room
            self._kept += room
            self._free.setdefault(room, []).append(loan.block)
        self._drop(self.most_kept_bytes)

    def _drop(self, most_bytes: int) -> None:
        """Frees kept blocks, the largest first, until at most so many bytes are kept."""
        while self._kept > most_bytes:
            room = max(size for size, blocks in self._free.items() if blocks)
            self._free[room].pop()
            self._kept -= room


class CallerAllocator:
    """Memory of the caller's own: `allocate(size_bytes)` gives an address, a multiple of 16; `free(address, size_bytes)` takes it
    back once, in whichever thread the last array that views it ends.
    """

    def __init__(self, allocate: Callable[[int], int], free: Callable[[int, int], object]) -> None:
        self._allocate, self._free = allocate, free

    def allocate(self, size_bytes: int) -> Bytes:
        """uint8 [size_bytes]; CapacityError where the caller's function gives 0."""
        size = max(size_bytes, 1)
        address = self._allocate(size)
        if not address:
            raise CapacityError("E1005", f"the session's own allocator has no {size:,} bytes")
        if address % 16:
            self._free(address, size)
            raise InputError("E1004", f"the session's own allocator gave the address {address:#x}", hint="a multiple of 16")
        memory: Any = (ctypes.c_uint8 * size).from_address(address)
        array: Bytes = np.frombuffer(memory, np.uint8, size_bytes)
        weakref.finalize(array, self._free, address, size)
        return array


def block_bytes(size_bytes: int) -> int:
    """The size of the block for so many bytes, alignment included."""
    need = max(size_bytes, 1) + ALIGNMENT_BYTES
    grain = max(1 << (need - 1).bit_length(), 1024) // (2 * CLASSES_PER_DOUBLING)
    return -(-need // grain) * grain
