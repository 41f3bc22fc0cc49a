"""How lines are scanned: how many elements of a line are scanned at once, and the boxes of lines that a step has.

A line that is not scanned at once is cut into pieces, each of which begins with what those before it are joined to.
"""

from collections.abc import Sequence

from hlo2tx8.device.rates import Rates
from hlo2tx8.schedule.accesses import SPM_SHARE
from hlo2tx8.schedule.work_split import OVERLAPPING_STEPS, overlapping_elements

BUFFERS = 9
"""Vectors that a step has of each value: two that are loaded, two that are stored, and those between turns."""
LEAST_PIECE = 1024
"""A shorter piece would not be worth a kernel that joins pieces, nor a step."""
WORTH_PIECES = 8
"""Times as many elements are worth the work of all tiles."""


def piece_of_line(num_lines: int, n: int, width_bytes: int, rates: Rates) -> int:
    """Elements of a line that are scanned at once, `width_bytes` each: all of it, or what divides it if that is possible."""
    most = _most_elements(width_bytes, rates)
    if n <= most and (num_lines >= rates.tiles or num_lines * n <= WORTH_PIECES * LEAST_PIECE):
        return n
    share = num_lines * n // (rates.tiles * OVERLAPPING_STEPS)
    wanted = min(most, max(LEAST_PIECE, share), n)
    return next((size for size in range(wanted, wanted // 2, -1) if n % size == 0), wanted)


def box_of_scan(shape: Sequence[int], wanted: int, width_bytes: int, rates: Rates) -> tuple[int, int, int]:
    """The part of [before, n, after] that a step has: whole lines, about `wanted` elements (0: such that steps overlap)."""
    before, n, after = shape
    most = min(wanted or _most_elements(width_bytes, rates), _most_elements(width_bytes, rates)) // n
    lines = max(1, min(most, -(-(before * after) // rates.tiles), max(overlapping_elements(shape, rates.tiles), LEAST_PIECE) // n))
    if after == 1:
        return min(before, lines), n, 1
    neighbours = max(1, rates.line_bytes // width_bytes)
    inner = min(after, max(lines, min(most, neighbours), 1))
    return max(1, min(before, lines // inner)), n, inner


def _most_elements(width_bytes: int, rates: Rates) -> int:
    return int(SPM_SHARE * rates.spm_bytes) // (BUFFERS * width_bytes)
