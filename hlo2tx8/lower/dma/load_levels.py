"""The levels of a load: how many elements lie side by side, and how often and how far apart that is repeated."""

from xdsl.ir import SSAValue

from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.dialects import vec
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.slices import constant_of

LEVELS = (("n3", "s3"), ("n2", "s2"), ("n1", "s1"), ("count", ""))
"""The fields with the counts of a load and the distances of what they count, the outermost first; elements lie side by side."""


def levels_of(op: Rdma | Wdma, *, at_most: bool = False) -> tuple[tuple[int, int], ...] | None:
    """Counts and distances of a load, or a store, in elements, in the order of `LEVELS`; None if a step decides one of them, or
    the most that it may be, if `at_most`."""
    found: list[tuple[int, int]] = []
    for size, distance in sizes_of(op) or ():
        if at_most and isinstance(size, SSAValue) and isinstance(extent := size.owner, vec.ExtentOp):
            size = extent.upper.value.data
        if isinstance(size, SSAValue):
            return None
        found.append((size, distance))
    return tuple(found) or None


def sizes_of(op: Rdma | Wdma) -> tuple[tuple[Size, int], ...] | None:
    """The same with counts that a step decides; None if it decides a distance."""
    found: list[tuple[Size, int]] = []
    for count, stride in LEVELS:
        size, distance = (_known(op.field(name)) if name else 1 for name in (count, stride))
        if isinstance(distance, SSAValue):
            return None
        found.append((size, distance))
    return tuple(found)


def _known(size: Size) -> Size:
    """The number that a size is, if it is one."""
    number = constant_of(size) if isinstance(size, SSAValue) else size
    return size if number is None else number
