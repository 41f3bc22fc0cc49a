"""A normalization of rows and the group of products that reads it, which may be a group of phases.

    %0 = hlo.fusion "layer_norm_fusion"(%x, %g, %b)
    %1 = hlo.group phases (%0, %w, %v) { up, down }

Tiles of a mesh row multiply the same rows. Where nobody else wants what is normalized, each of them can normalize some of the rows
and send them to the others. Whether that is faster than the two apart is for their emitter to say.
"""

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, BlockArgument, Operation

from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.fusion.build_group import build_group, name_of_fusion
from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.partitioner.contraction import is_contraction
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.schedule.norm_rows import plan_norm
from hlo2tx8.schedule.work_split import Target


def group_norms(block: Block, target: Target) -> list[str]:
    """Puts groups of products as phases, and of products and attention, into groups with the normalizations that make their rows; a
    line about each."""
    notes: list[str] = []
    for products in [op for op in block.ops if isinstance(op, GroupOp) and op.phases is not None]:
        first: Operation = products
        while isinstance(first, GroupOp) and first.phases is not None:
            first = next(iter(first.body.block.ops))
        norm = _made_for(products, first) if isinstance(first, FusionOp) else None
        if not isinstance(first, FusionOp) or norm is None:
            continue
        names, plan = tuple(Name(name_of_fusion(op)) for op in (norm, first)), plan_norm(norm, target)
        if isinstance(plan, str):
            notes.append(Decision(What.NO_GROUP, names, why=f"no phases that send normalized rows, {plan}").line())
        else:
            notes.append(Decision(What.GROUP, names, why="phases, whose tiles send each other normalized rows").line())
            build_group((norm, products), {"phases": UnitAttr()})
    return notes


def _made_for(products: GroupOp, first: FusionOp) -> FusionOp | None:
    """The fusion of row reductions that makes the rows of the first fusion's products, and makes them for these alone."""
    dots = [op for op in first.body.block.ops if is_contraction(op)]
    rows = {op.operands[0] for op in dots}
    value = rows.pop() if len(rows) == 1 else None
    if not isinstance(value, BlockArgument) or any(use.operation not in dots or use.index for use in value.uses):
        return None
    made, around = first.operands[value.index], first.parent_op()
    while isinstance(made, BlockArgument) and made.get_unique_use() is not None and isinstance(around, GroupOp):
        made, around = around.operands[made.index], around.parent_op()
    norm = made.owner
    if not isinstance(norm, FusionOp) or made.get_unique_use() is None or norm.parent is not products.parent:
        return None
    is_only_norm = len(norm.results) == 1 and not any(map(is_contraction, norm.body.block.ops))
    return norm if is_only_norm and any(map(is_reduction, norm.body.block.ops)) else None
