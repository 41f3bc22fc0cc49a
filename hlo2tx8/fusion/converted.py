"""What a product reads of memory as it loads it: parts of weights, and weights of another type there, as of quantized models.

    %w = convert %q              [2048, 8192] i8 -> bf16
    %y = dot_general %x, %w      one fusion: each panel of %q is converted in the scratchpad

By itself the conversion would write %w, and the product would read that: five bytes for each that is needed. What is narrowed is
written if rows of the product and its result are more than that: those may stay with the tiles of a group, whose weights are in
memory as they are sent.
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from hlo2tx8.device.rates import block_width
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.fusion.candidate import CandidateUse
from hlo2tx8.fusion.views import READ_AT, SLICE, is_view, keeps_order, shows_elements
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.hlo.types import numpy_dtype
from hlo2tx8.partitioner.contraction import added_dimensions, is_dot, why_not_on_engine
from hlo2tx8.partitioner.instruction import CONSTANTS, is_splat_constant, shape_of, tensor_type
from hlo2tx8.partitioner.made_from import MadeFrom, have_same_source, made_from
from hlo2tx8.schedule.costs import Costs, is_in_vectors, size_bytes

LEAST_RUN = 16
"""Products that an instruction adds up at least."""
MOVED = 2
"""Times that what is converted would be written and read."""


def is_made_as_loaded(op: Operation, found: Sequence[CandidateUse], costs: Costs) -> bool:
    """Does an instruction make what one product reads, or repeat a factor of that, which the product does as it loads it?"""
    if not found or any(use.candidate is not found[0].candidate for use in found):
        return False
    candidate = found[0].candidate
    for dot in (user for user in candidate.members if is_dot(user)):
        for value in converted_operands(dot):
            made = made_from(value)
            if op in (*made.steps, *made.others) and (made.is_conversion or _is_sooner(dot, value, made, costs)):
                return True
    return False


def _is_sooner(dot: Operation, value: SSAValue, made: MadeFrom, costs: Costs) -> bool:
    """Do tiles make what they multiply sooner than all of it would be written and read? Those that have the same columns, or rows,
    all make them."""
    number = tuple(dot.operands).index(value)
    added = added_dimensions(dot)[number]
    lines = prod(size for dim, size in enumerate(shape_of(value)) if dim not in added)
    tiles = min(costs.rates.tiles, -(-lines // block_width(numpy_dtype(tensor_type(value).element_type).itemsize)))
    return (1 + made.passes) * size_bytes(value) / costs.rates.vector / tiles < MOVED * costs.transfer(value)


def is_read_by_product(op: Operation, found: Sequence[CandidateUse]) -> bool:
    """Is an instruction a part of what is in memory that one product reads, maybe in another shape, or what gives it that?
    The product can load it from there."""
    part = op.operands[0].owner if keeps_order(op) else op
    if not isinstance(part, Operation) or part.name not in (SLICE, READ_AT):
        return False
    if len(found) != 1 or not all(made.results[0].has_one_use() for made in {op, part}):
        return False
    (use,) = op.results[0].uses
    reader = use.operation
    if reader in found[0].candidate.members and keeps_order(reader):
        if not reader.results[0].has_one_use():
            return False
        (use,) = reader.results[0].uses
    return use.operation in found[0].candidate.members and is_dot(use.operation) and is_in_memory(part.operands[0], part.parent)


def are_of_same_bytes(dot: Operation, other: Operation) -> bool:
    """Do two products make their columns of different parts of the same bytes, which one loop loads once?"""
    if any(a.type != b.type for a, b in zip(dot.operands, other.operands, strict=True)) or dot.properties != other.properties:
        return False
    both = [(converted_operands(own), own) for own in (dot, other)]
    return any(
        all(own.operands[number] in found for found, own in both) and have_same_source(dot, other, number) for number in (0, 1)
    )


def are_converted_alike(dot: Operation, other: Operation) -> bool:
    """May two products read the same rows in one loop, as far as they convert what they load? What is narrowed is so before tiles
    send it to each other, for one product; what is widened is so by each tile."""
    if are_of_same_bytes(dot, other):
        return True
    types: list[list[Attribute]] = []
    for op in (dot, other):
        converted = converted_operands(op)
        if any(_narrows(value) or made_from(value).passes for value in converted):
            return False
        types.append([tensor_type(made_from(value).source if value in converted else value).element_type for value in op.operands])
    return types[0] == types[1]


def _narrows(value: SSAValue) -> bool:
    """Is a conversion one to fewer bytes?"""
    return size_bytes(made_from(value).source) > size_bytes(value)


def converted_operands(dot: Operation) -> list[SSAValue]:
    """What of its operands a product converts as it loads them, and what else it makes of that: what is in memory in another type,
    and what nobody else reads."""
    made_here = [(number, value) for number, value in enumerate(dot.operands) if type(value) is OpResult and value.has_one_use()]
    if not made_here or not is_dot(dot) or why_not_on_engine(dot) or num_parts(dot) > 1:
        return []
    moved = sum(map(size_bytes, (*dot.operands, *dot.results)))
    return [
        value
        for number, value in made_here
        if (made := made_from(value)).source is not value
        and (not _narrows(value) or (MOVED + 1) * size_bytes(value) > moved)
        and (
            made.is_conversion
            or (size_bytes(made.source) / len(list(made.source.uses)) < size_bytes(value) and _has_whole_runs(dot, number, made))
        )
        and is_in_vectors(value)
        and is_in_memory(made.source, dot.parent)
    ]


def _has_whole_runs(dot: Operation, number: int, made: MadeFrom) -> bool:
    """Has all of a panel the same factors, if groups have factors of their own?"""
    added = added_dimensions(dot)[number]
    runs = [made.run(dim) for dim in added]
    return runs == [0] * len(runs) or (len(runs) == 1 and runs[0] is not None and runs[0] % LEAST_RUN == 0)


def is_in_memory(value: SSAValue, block: Block | None) -> bool:
    """Is a tensor there when a block begins, as a parameter, a constant or what is made outside of it, maybe in another shape? Or
    does it show a part of such a tensor?"""
    while isinstance(owner := value.owner, Operation) and (keeps_order(owner) or shows_elements(owner)):
        value = owner.operands[0]
    if isinstance(owner, Block) or owner.parent is not block or (isinstance(owner, FusionOp) and is_view(owner)):
        return True
    return owner.name in CONSTANTS and not is_splat_constant(owner)
