"""The levels of a load: how many elements lie side by side, and how often and how far apart that is repeated."""

from xdsl.ir import SSAValue

from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.dialects import vec
from hlo2tx8.lower.dma.slices import constant_of

LEVELS = (("n3", "s3"), ("n2", "s2"), ("n1", "s1"), ("count", ""))
"""The fields with the counts of a load and the distances of what they count, the outermost first; elements lie side by side."""


def levels_of(op: Rdma | Wdma, *, at_most: bool = False) -> tuple[tuple[int, int], ...] | None:
    """Counts and distances of a load, or a store, in elements, in the order of `LEVELS`; None if a step decides one of them, or
    the most that it may be, if `at_most`."""
    found: list[tuple[int, int]] = []
    for count, stride in LEVELS:
        sizes = [op.field(name) if name else 1 for name in (count, stride)]
        numbers = [constant_of(size) if isinstance(size, SSAValue) else size for size in sizes]
        if at_most and isinstance(size := sizes[0], SSAValue) and isinstance(extent := size.owner, vec.ExtentOp):
            numbers[0] = extent.upper.value.data
        if numbers[0] is None or numbers[1] is None:
            return None
        found.append((numbers[0], numbers[1]))
    return tuple(found)
