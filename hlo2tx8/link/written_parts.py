"""Kernels that write their results where `launch.update` would put them: a scan's output of each turn, a row of a cache.

    %1 = launch.kernel @f(%0)                                    the kernel's records: WDMA slot 4 offset = 32768*r56 + ...
    %3 = launch.update %2 with %1 at(%i, %z, %z)        ⟶        with r56 = %i, clamped

Nothing else may read the result, or what the tensor was before, and what is written must be one run of bytes.
"""

from math import prod

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from hlo2tx8.dialects.launch import KernelOp, UpdateOp
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.signature import port_of
from hlo2tx8.link.boxes import box_of, distances
from hlo2tx8.link.views import Begin, SlotViews


def written_parts(op: KernelOp, views: SlotViews) -> dict[int, tuple[UpdateOp, Begin]]:
    """By number of a kernel's result, the update that it may write itself, and where its part begins."""
    found: dict[int, tuple[UpdateOp, Begin]] = {}
    for number, result in enumerate(op.results):
        update = next(iter(result.uses)).operation if result.has_one_use() else None
        if not isinstance(update, UpdateOp) or update.update is not result or update.parent is not op.parent:
            continue
        is_alone = update.tensor.has_one_use() and update.tensor not in op.results
        numbers = [start for start in update.starts if scalar_of(start) is None]
        if is_alone and all(_is_before(value, op) for value in (update.tensor, *numbers)):
            begin = _begin(update, views)
            found |= {number: (update, begin)} if begin is not None else {}
    return found


def _begin(op: UpdateOp, views: SlotViews) -> Begin | None:
    """Where the one run of an update begins; None if it has several, or none."""
    outer, inner = port_of(op.tensor.type), port_of(op.update.type)
    if 0 in inner.shape or outer.layout != inner.layout:
        return None
    order = outer.layout[::-1] or tuple(range(len(outer.shape)))
    item_bytes = outer.size_bytes // prod(outer.shape)
    if box_of(inner.shape, outer.shape, order, item_bytes).levels:
        return None
    offset, terms = 0, list[tuple[SSAValue, int, int]]()
    for start, distance, *sizes in zip(op.starts, distances(outer.shape, order, item_bytes), outer.shape, inner.shape, strict=True):
        room, known = sizes[0] - sizes[1], scalar_of(start)
        if known is not None:
            offset += min(max(int(known), 0), room) * distance
        elif room:
            terms.append((*views.clamped((start, room)), distance))
    return Begin(offset, tuple(terms))


def _is_before(value: SSAValue, op: Operation) -> bool:
    """Is a value there when an op is reached?"""
    owner = value.owner
    if isinstance(owner, Block):
        return isinstance(value, BlockArgument)
    return owner.parent is not op.parent or owner.is_before_in_block(op)
