"""Loads of a step that overlap become one: of a row and of those in front of it, which windows written as slices read. So does a
small load that goes on where another ends, as of a row that ends in the middle of its last block.

    RDMA_load dst(%a) slot(%p) offset(%o) count(8192)              RDMA_load dst(%d) slot(%p) offset(%o) count(8704)
    mul dst(%b) a(%a) ...                                          mul dst(%b) a(%d) ...
    RDMA_load dst(%c) slot(%p) offset(%o + 512) count(8192)   ⟶    %c = spm.offset %d, 512 elements
    mul dst(%e) a(%c) ...                                          mul dst(%e) a(%c) ...

What lies between two loads is in the tensor, as they are. Only loads of one run each are joined, whose buffers nothing else writes,
and of a tensor that is not stored in the same loops.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.made import constant_index, of_two
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.dialects.xla import ApplyIndexingOp
from hlo2tx8.ir import copy_of, insert_before
from hlo2tx8.lower.dma.slices import constant_of
from hlo2tx8.lower.select.equal_loads import MOST_DEPTH, is_written_once, key_of

MOST_BETWEEN = 0.5
"""Of the elements that all loads but one have: how many one load of all may have more than each has now, as a share."""
MOST_BEHIND = 0.25
"""Of the elements of a load: how many one that goes on where it ends may have, as a share. Larger ones are loaded beside work."""
RUNS = ("n1", "n2", "n3")


@dataclass(frozen=True)
class _OverlappingLoad:
    """A load of one run of `count` elements from `start` elements behind what all loads of the same `place` have; `offset` computes
    where. `key` is of those that have as many elements, too."""

    op: Rdma
    alloc: spm.AllocOp
    offset: tuple[Operation, ...]
    start: int
    count: int | SSAValue
    place: Hashable
    key: Hashable


def join_overlapping_loads(root: Operation) -> None:
    """In all blocks inside of an op, of which the outermost are a function's loops."""
    for phase in [op for region in root.regions for block in region.blocks for op in block.ops if op.regions]:
        found = nested_ops(phase)
        stored = {op.field("slot") for op in found if isinstance(op, Wdma)}
        blocks: dict[Block, list[_OverlappingLoad]] = {}
        for op in found:
            if isinstance(op, Rdma) and op.field("slot") not in stored and (load := _load_of(op)) is not None and op.parent:
                blocks.setdefault(op.parent, []).append(load)
        for loads in blocks.values():
            alike, near, joined = (
                dict[Hashable, list[_OverlappingLoad]](),
                dict[Hashable, list[_OverlappingLoad]](),
                set[Operation](),
            )
            for load in loads:
                alike.setdefault(load.key, []).append(load)
            for equal in alike.values():
                if len(equal) > 1 and _join_overlapping(equal):
                    joined.update(load.op for load in equal)
            for load in loads:
                if load.op not in joined:
                    near.setdefault(load.place, []).append(load)
            for each in near.values():
                _join_small(each)


def _load_of(op: Rdma) -> _OverlappingLoad | None:
    """A load of a run at a place that a map and a factor say, into a buffer of its own; None for any other."""
    buffer, offset = op.field("dst"), op.field("offset")
    if not isinstance(offset, SSAValue) or not isinstance(buffer, SSAValue) or any(op.field(n) != 1 for n in RUNS):
        return None
    if not isinstance(buffer.owner, spm.AllocOp) or not is_written_once(buffer) or buffer.owner.num_copies != 1:
        return None
    made, factor = [offset.owner], 1
    if isinstance(offset.owner, arith.MuliOp):
        made = [offset.owner.lhs.owner, offset.owner.rhs.owner, offset.owner]
        factor = constant_of(offset.owner.rhs)
    apply = made[0]
    if not isinstance(apply, ApplyIndexingOp) or len(apply.res) != 1 or factor != op.fmt.bytes or op.parent is not apply.parent:
        return None
    constant, terms = apply.map.data.results[0].affine_terms()
    count = op.field("count")
    place = (tuple(apply.operands), frozenset(terms.items()), op.field("slot"), op.fmt)
    assert isinstance(count, int | SSAValue)
    key = (*place, count if isinstance(count, int) else key_of(count, MOST_DEPTH))
    return _OverlappingLoad(op, buffer.owner, tuple(o for o in made if isinstance(o, Operation)), constant, count, place, key)


def _join_overlapping(loads: Sequence[_OverlappingLoad]) -> bool:
    """One load of what all of these, of one size, load, if they overlap enough; whether they did."""
    starts = sorted({load.start for load in loads})
    more, width, count = starts[-1] - starts[0], loads[0].op.fmt.bytes, loads[0].count
    size = min(load.alloc.size_bytes for load in loads) // width
    if len(starts) < len(loads) or more > MOST_BETWEEN * (len(loads) - 1) * size:
        return False
    if isinstance(count, int) and any(b - a > count for a, b in pairwise(starts)):
        return False
    _join(loads, more)
    return True


def _join_small(loads: Sequence[_OverlappingLoad]) -> None:
    """One load of each that is followed by a small one, and of that one."""
    counts = {load: load.count for load in loads if isinstance(load.count, int)}
    ends, joined = {load.start + count: load for load, count in counts.items()}, list[_OverlappingLoad]()
    for small, count in counts.items():
        large = ends.get(small.start)
        if large is None or large in joined or small in joined or count > MOST_BEHIND * counts[large]:
            continue
        both = [load for load in loads if load in (large, small)]
        _join(both, count)
        joined += both


def _join(loads: Sequence[_OverlappingLoad], more: int) -> None:
    """One load in front of the first of these, of `more` elements than that which begins first has."""
    base, first, width = min(loads, key=lambda load: load.start), loads[0].op, loads[0].op.fmt.bytes
    whole = spm.AllocOp(max((load.start - base.start) * width + load.alloc.size_bytes for load in loads))
    insert_before(whole, first)
    values: dict[SSAValue, SSAValue] = {}
    for op in base.offset:
        insert_before(copy_of(op, values), first)
    count = base.count if isinstance(base.count, int) else loads[0].count  # all have as many, but this number is there
    if isinstance(count, SSAValue):
        number = constant_index(more)
        insert_before(number, first)
        total = of_two(arith.AddiOp, count, number.result)
        insert_before(total, first)
        count = total.result
    else:
        count += more
    fields = first.values() | {"dst": whole.result, "offset": values[base.offset[-1].results[0]], "count": count}
    joined = Rdma.make(fmt=first.fmt, fmt2=first.fmt2, rnd=first.rounding, origin=first.origin, **fields)
    insert_before(joined, first)
    for load in loads:
        behind = constant_index((load.start - base.start) * width)
        part = spm.OffsetOp(whole.result, behind.result)
        insert_before(behind, load.op)
        insert_before(part, load.op)
        load.op.detach()
        load.op.erase()
        load.alloc.result.replace_all_uses_with(part.result)
        load.alloc.detach()
        load.alloc.erase()
