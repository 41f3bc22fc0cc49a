"""What members of a group by bands cost: cycles of engines and bytes, for rows of their results."""

from math import prod

from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.rates import Rates
from hlo2tx8.hlo import Kind, numpy_dtype
from hlo2tx8.partitioner.contraction import num_products
from hlo2tx8.partitioner.instruction import kind_of, tensor_type
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.schedule.band_group_member import CHANNELS, HEIGHT, WIDTH, BandGroupMember
from hlo2tx8.schedule.bands import Bands
from hlo2tx8.schedule.costs import cycles_per_element, size_bytes

SHARED = 0.5
"""Of what a convolution moves whose tiles share what they read: 12 by themselves take 1.2 to 1.7 of what that takes."""


def reread(fusion: Operation, member: BandGroupMember, rates: Rates) -> int:
    """Bytes that a kernel of its own reads more than once: a pool elements of several windows, tiles of a convolution rows and
    filters if they do not share them. If they do they need longer than memory does, as if part of all were moved once more."""
    if member.pool is not None:
        taken = num_products(member.pool) * prod(member.shape) * width_of(member.pool.operands[0])
        return taken - sum(size_bytes(fusion.operands[number]) for number in member.reads)
    if member.dot is None or not member.lines or member.is_per_channel:
        return 0
    image = sum(size_bytes(fusion.operands[number]) for number, reads in member.reads.items() if reads.last > reads.first)
    weights = size_bytes(member.dot.operands[1 - member.rows])
    tiles = rates.tiles
    least = min(rows * weights + tiles // rows * image for rows in range(1, tiles + 1) if tiles % rows == 0) - image - weights
    if member.turns_weights:
        return least
    return min(least, int(SHARED * sum(map(size_bytes, (*dict.fromkeys(fusion.operands), *fusion.results)))))


def turning(member: BandGroupMember, rates: Rates) -> float:
    """Cycles that TDMA takes to turn weights of windows, element by element, as each tile does."""
    if member.dot is None or not member.turns_weights:
        return 0.0
    weights = prod(tensor_type(member.dot.operands[1 - member.rows]).get_shape())
    return weights * rates.move_run_bytes / rates.move


def compute(member: BandGroupMember, rows: int, rates: Rates) -> float:
    """Cycles of one tile that computes so many rows of a member's result: its engines one after the other."""
    return sum(cycles for _, cycles in parts_of(member, rows, rates))


def parts_of(member: BandGroupMember, rows: int, rates: Rates) -> list[tuple[Engine, float]]:
    """What engines do for so many rows of a member's result, in order, and how many cycles each takes."""
    if (rows, rates) not in member.parts:
        member.parts[rows, rates] = _parts(member, rows, rates)
    return member.parts[rows, rates]


def _parts(member: BandGroupMember, rows: int, rates: Rates) -> list[tuple[Engine, float]]:
    _, _, width, channels = member.shape
    points = rows * width
    parts: list[tuple[Engine, float]] = []
    for op in member.partitioned.functions[0].instructions:
        if op is member.dot:
            if member.lines:  # zeros on four sides, and what is between them
                parts.append((Engine.TDMA, window_bytes(member, op, rows) / rates.move + 5 * rates.move_start))
            product = points * channels * num_products(op) / rates.products + rates.product_start
            parts.append((Engine.NE, product))
            if member.lines and not member.turns_weights and not member.is_per_channel:  # what lies between two lines goes
                parts.append((Engine.TDMA, points * channels * width_of(op.results[0]) / rates.move + rates.move_start))
        elif is_reduction(op):
            parts.append((Engine.TDMA, 2 * points * channels * num_products(op) * width_of(op.operands[0]) / rates.move))
            parts.append((Engine.CT, points * channels * cycles_per_element(op, rates)))
        elif is_computed(op):
            each = cycles_per_element(op, rates)
            own = tensor_type(op.results[0]).get_shape()
            cycles = each * (points * channels if own == member.shape else prod(own)) + rates.vector_pass
            parts.append((Engine.CT, cycles))
    return parts


def is_computed(op: Operation) -> bool:
    """Is it an instruction of the vector engine or the kernel core?"""
    return kind_of(op) in (Kind.ELEMENTWISE, Kind.PER_CHANNEL)


def width_of(value: SSAValue) -> int:
    """Bytes of an element."""
    return numpy_dtype(tensor_type(value).element_type).itemsize


def band_bytes(value: SSAValue, bands: Bands) -> int:
    """Bytes of a band of a tensor."""
    shape = tensor_type(value).get_shape()
    return bands.rows * shape[WIDTH] * shape[CHANNELS] * width_of(value)


def window_bytes(member: BandGroupMember, dot: Operation, rows: int) -> int:
    """Bytes of the part of an image that the windows of so many rows cover, with its padding."""
    sizes = {HEIGHT: rows, WIDTH: member.shape[WIDTH]}
    sizes |= {line.row: line.extent(sizes[line.row]) for line in member.lines}
    features = member.shape[CHANNELS] if member.is_per_channel else num_products(dot) // prod(line.taps for line in member.lines)
    return prod(sizes.values()) * features * width_of(dot.operands[member.rows])
