"""How lines are sorted: how much of a line one tile sorts at once, and the boxes of lines that a step has.

A line of 2^bits elements that is not sorted at once is cut into runs, which are sorted, then merged two by two. A merge is done in
two kernels: the first has every 2^low-th element of the two runs, the second 2^low neighbours.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from hlo2tx8.device.rates import Rates
from hlo2tx8.schedule.accesses import SPM_SHARE

WORD_BYTES = 4
BUFFERS_OF_WORD = 8
"""Vectors that a step has of each word: two that are loaded, two that are stored, two between stages, and what is compared."""
LEAST_NEIGHBOUR_BITS = 2
"""A merge's second kernel has as many runs of 2^low elements, side by side in the scratchpad: less would be short runs for TDMA."""


@dataclass(frozen=True)
class LinePlan:
    """`run_bits`: a tile sorts runs of 2^run_bits elements; `cycles`: the estimate."""

    bits: int
    run_bits: int
    cycles: float

    def merges(self, least_low: int) -> Iterator[tuple[int, int]]:
        """(bits, low) of each merge, where a step of its first kernel has 2^least_low neighbours at least."""
        for bits in range(self.run_bits + 1, self.bits + 1):
            yield bits, max(min(self.run_bits - LEAST_NEIGHBOUR_BITS, bits - 1), bits + least_low - self.run_bits)


def plan_lines(num_lines: int, bits: int, inner: int, num_words: int, rates: Rates) -> LinePlan | None:
    """The fastest plan for lines of 2^bits elements, `inner` of them side by side; None if runs are too short to merge."""
    low, found = least_low(inner, rates), list[LinePlan]()
    for run_bits in range(1, bits + 1):
        if 1 << run_bits > most_elements(num_words, rates) or (run_bits < bits and bits + low > 2 * run_bits):
            continue
        found.append(LinePlan(bits, run_bits, _cycles(num_lines, bits, run_bits, num_words, rates)))
    return min(found, key=lambda plan: plan.cycles, default=None)


def least_low(inner: int, rates: Rates) -> int:
    """Bits of the neighbours that a transfer needs at least, where `inner` elements lie next to each other anyway."""
    return (max(1, rates.line_bytes // (WORD_BYTES * inner)) - 1).bit_length()


def most_elements(num_words: int, rates: Rates) -> int:
    """Elements that a tile can sort at once."""
    return int(SPM_SHARE * rates.spm_bytes) // (WORD_BYTES * BUFFERS_OF_WORD * num_words)


def _cycles(num_lines: int, bits: int, run_bits: int, num_words: int, rates: Rates) -> float:
    elements = num_lines << bits
    share = -(-elements // rates.tiles)
    run = 1 << run_bits
    box = min(max(run, share), most_elements(num_words, rates))
    steps = -(-(elements // run) * run // (box * rates.tiles))
    stages = run_bits * (run_bits + 1) // 2 + sum(range(run_bits + 1, bits + 1))
    stage = instructions_of_stage(num_words) * (rates.vector_pass + WORD_BYTES * box / 2 / rates.vector)
    stage += rates.move_start + WORD_BYTES * box / rates.move if num_words == 1 else 0
    num_kernels = 1 + 2 * (bits - run_bits)
    return steps * stages * stage + num_kernels * (rates.kernel + 2 * WORD_BYTES * num_words * elements / rates.ddr)


def instructions_of_stage(num_words: int) -> int:
    """Vector instructions on one half of the elements: the smaller and the larger, or with a second word what it follows."""
    return 2 if num_words == 1 else 8


def box_of_lines(shape: Sequence[int], dim: int, alternating: int, wanted: int, num_words: int, rates: Rates) -> tuple[int, ...]:
    """The part of each dimension that a step has: all of `dim`, one of `alternating`, of the others what divides them; `wanted`
    elements, if those are whole lines and what lies next to each other is worth a transfer."""
    box = [1] * len(shape)
    box[dim] = shape[dim]
    neighbours = max(1, rates.line_bytes // WORD_BYTES) if prod(shape[dim + 1 :]) > 1 else 1
    room = min(max(wanted, neighbours * shape[dim]), most_elements(num_words, rates)) // shape[dim]
    for other in reversed(range(len(shape))):
        if other in (dim, alternating):
            continue
        box[other] = next(size for size in range(max(1, min(room, shape[other])), 0, -1) if shape[other] % size == 0)
        if box[other] < shape[other]:
            break
        room //= box[other]
    return tuple(box)
