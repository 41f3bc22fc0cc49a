"""Two fusions with a product each, the second of rows that the first makes, which may be a group of products.

    %h = hlo.fusion "gelu_fusion"(%x, %a)               gelu of the product
    %y = hlo.fusion "dot_general_fusion"(%h, %b)

If the tiles of a mesh row have the same rows of both, %h stays in their scratchpads. Whether that saves cycles is known once both
are cut into blocks: see `emitters.product_pair`.
"""

from collections.abc import Iterator

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.fusion.build_group import build_group, name_of_fusion
from hlo2tx8.partitioner.contraction import is_dot, num_batch_and_free
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.work_split import Target


def group_products(block: Block, target: Target) -> list[str]:
    """Puts pairs of products of a block into groups; a line about each."""
    notes: list[str] = []
    for first, second in list(_pairs(block)):
        if first.parent is not block or second.parent is not block:
            continue
        share, most = size_bytes(first.results[0]) / target.rates.tiles, target.rates.kept_bytes
        names = f"{name_of_fusion(first)}, {name_of_fusion(second)}: products that share {share:.0f} bytes a tile"
        if share > most:
            notes.append(f"{names}: no group, that is more than the {most} bytes that may stay in SPM")
            continue
        notes.append(f"{names}: a group, if that is faster")
        build_group([first, second], {"products": UnitAttr()})
    return notes


def _pairs(block: Block) -> Iterator[tuple[FusionOp, FusionOp]]:
    """Fusions of which the second multiplies what only it reads of the first."""
    for first in block.ops:
        if not isinstance(first, FusionOp) or len(first.results) != 1 or _product(first) is None:
            continue
        uses = list(first.results[0].uses)
        if len(uses) != 1 or not isinstance(second := uses[0].operation, FusionOp) or second.parent is not block:
            continue
        dot, parameter = _product(second), second.body.block.args[uses[0].index]
        if dot is not None and dot.operands[0] is parameter and len(list(parameter.uses)) == 1:
            yield first, second


def _product(fusion: FusionOp) -> Operation | None:
    """The one dot of a fusion, if it has no batches."""
    dots = [op for op in fusion.body.block.ops if is_dot(op)]
    return dots[0] if len(dots) == 1 and not num_batch_and_free(dots[0])[0] else None
