"""Chains of products that may be a group of phases, whose tiles keep what they make.

    %0 = hlo.fusion "maximum_fusion"(%x, %w0)          1x1, 1024 to 256 channels
    %1 = hlo.fusion "maximum_fusion.1"(%0, %w1)        3x3
    %2 = hlo.fusion "maximum_fusion.2"(%1, %w2, %x)    1x1, 256 to 1024 channels

A chain goes on with the first fusion that reads the last result, if it has one product and as many rows. Whether the phases are
faster than the fusions apart is for their emitter to say. The last one's columns may be any number of whole blocks.
"""

from math import prod

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.fusion.build_group import build_group, name_of_fusion
from hlo2tx8.fusion.phases import needed_by
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.partitioner.contraction import is_contraction, why_not_on_engine
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.schedule.contraction_work import BLOCK
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.resident_split import has_even_columns
from hlo2tx8.schedule.work_split import Target

MOST_PRODUCTS = 24
IMAGE_RANK = 4
MOST_PARTS = 8
"""Of rows that two products may make in turns, if there is no room for all of them."""
LONG_CHAIN = 6
"""Products of a chain that comes before groups by bands: two blocks of three, whose activations would go through DDR."""


def group_products(block: Block, target: Target, least: int = 2) -> list[str]:
    """Puts chains of at least so many products of a block into groups of phases; a line about each."""
    notes: list[str] = []
    taken: set[Operation] = set()
    parts = MOST_PARTS if least < LONG_CHAIN else 1
    for op in ops_of(block):
        if op in taken or not isinstance(op, FusionOp) or not _is_product(op, target, parts) or not _may_stay(op, target):
            continue
        chain = [op]
        while len(chain) < MOST_PRODUCTS and _may_stay(chain[-1], target) and (following := _next(chain, target, parts)):
            chain.append(following)
        if len(chain) >= least and (least < LONG_CHAIN or all(_has_whole_images(op, target) for op in chain)):
            taken.update(chain)
            names = tuple(Name(name_of_fusion(op)) for op in chain)
            notes.append(Decision(What.GROUP, names, why="products as phases, whose results may stay with tiles").line())
            build_group(chain, {"phases": UnitAttr()})
    return notes


def _has_whole_images(fusion: FusionOp, target: Target) -> bool:
    """Has each mesh row whole images of a result? Windows need that; what they cannot take would be missing in groups by bands."""
    shape = shape_of(fusion.results[0])
    return len(shape) != IMAGE_RANK or shape[0] % target.rates.mesh_rows == 0


def _is_product(fusion: FusionOp, target: Target, parts: int) -> bool:
    """Has it one product, each tile of the mesh a part of its result in whole blocks, and is there room for one of `parts`?"""
    rates, body = target.rates, fusion.body.block
    products = [op for op in ops_of(body)[:-1] if is_contraction(op)]
    if len(products) != 1 or len(fusion.results) != 1 or why_not_on_engine(products[0]) or num_parts(products[0]) > 1:
        return False
    *rows, columns = shape_of(fusion.results[0]) or (1,)
    is_even = prod(rows) % rates.mesh_rows == 0
    has_rows = is_even or (len(rows) < IMAGE_RANK - 1 and prod(rows) >= rates.mesh_rows * rates.product_rows)
    is_cut = columns % BLOCK == 0 and has_rows
    return is_cut and size_bytes(fusion.results[0]) // (rates.tiles * parts) <= rates.kept_bytes


def _may_stay(fusion: FusionOp, target: Target) -> bool:
    """May a chain go on behind a product? Rows of images stay on the chip's own mesh only."""
    shape, rates = shape_of(fusion.results[0]), target.rates
    return any(has_even_columns(shape, own) for own in (rates.meshes if len(shape) < IMAGE_RANK else (rates,)))


def _next(chain: list[FusionOp], target: Target, parts: int) -> FusionOp | None:
    """The first reader of the last result, if it goes on with the chain, and reads nothing else that is made of it."""
    last = chain[-1]
    readers = {use.operation for use in last.results[0].uses}
    reader = last.next_op
    while reader is not None and reader not in readers:
        reader = reader.next_op
    if not isinstance(reader, FusionOp) or not _is_product(reader, target, parts):
        return None
    if prod(shape_of(reader.results[0])[:-1]) != prod(shape_of(last.results[0])[:-1]):
        return None
    others = {value.owner for value in reader.operands if isinstance(value.owner, Operation)} - set(chain)
    behind = others.union(*map(needed_by, others)) - set(chain)
    return None if any(value.owner in chain for op in behind for value in op.operands) else reader
