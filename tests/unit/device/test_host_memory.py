"""Buffers come back when nothing views them, in the order of their age, and no more than are allowed to wait."""

import mmap

import numpy as np

from hlo2tx8.device.host_memory import KEPT_BYTES, LARGE_BYTES, RECYCLED_BYTES, _Kept, allocate


def _region(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def test_a_buffer_comes_back_when_its_last_view_is_gone():
    size = 3 * RECYCLED_BYTES + 4096
    first = allocate(size)
    address, view = first.ctypes.data, first[8:16].view(np.int64)
    del first
    assert allocate(size).ctypes.data != address
    del view
    assert address in [buffer.ctypes.data for buffer in [allocate(size) for _ in range(2)]]


def test_the_last_of_a_size_is_taken_first():
    kept, regions = _Kept(), [_region(size) for size in (4096, 8192, 4096)]
    for region in regions:
        kept.give(region)
    assert kept.take(4096) is regions[2]
    assert kept.take(4096) is regions[0]
    assert kept.take(4096) is None
    assert kept.size_bytes == 8192


def test_a_large_one_of_another_size_takes_the_place_of_the_oldest():
    kept, sizes = _Kept(), (LARGE_BYTES, 2 * LARGE_BYTES, LARGE_BYTES)
    for size in sizes:
        kept.give(_region(size))
    assert kept.take(LARGE_BYTES // 2) is None
    assert kept.size_bytes == sum(sizes)
    assert kept.take(3 * LARGE_BYTES) is None
    assert kept.size_bytes == LARGE_BYTES
    assert kept.take(2 * LARGE_BYTES) is None
    assert kept.size_bytes == 0


def test_what_waits_has_a_limit():
    kept = _Kept()
    kept.give(_region(KEPT_BYTES + 4096))
    assert kept.size_bytes == 0
    newest = _region(KEPT_BYTES)
    kept.give(_region(KEPT_BYTES // 2))
    kept.give(newest)
    assert kept.size_bytes == KEPT_BYTES
    assert kept.take(KEPT_BYTES) is newest
