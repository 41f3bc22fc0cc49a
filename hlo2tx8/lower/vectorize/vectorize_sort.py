"""A sort of the lanes of a step: the lanes are those of the box, all of them in each box that has any.

Before:                                                      After:
    %q = xla.apply_indexing #odd(%tile)[%step]                 %q = xla.apply_indexing #odd(%tile, %step)
    %a, %b = xla.sort_lanes along 1 of (%x, %y) ... (%q)       %a, %b = vec.sort_lanes along 1 of (%x, %y) ... (%q)
"""

from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import put
from hlo2tx8.errors import CompileError
from hlo2tx8.indexing import Sym
from hlo2tx8.lower.vectorize.box_builder import BoxBuilder


def check_whole(box: BoxBuilder, first: int) -> None:
    """CompileError if a box may have some of its lanes only along dimensions from `first` on."""
    for clip in box.guard.clips:
        size = box.space.shape[clip.lane]
        numbers = [n for expr in clip.upper for constant, terms in [expr.affine_terms()] for n in (constant, *terms.values())]
        if clip.lane >= first and any(n % size for n in numbers):
            raise CompileError("E3004", f"a step has a part of the {size} lanes along dimension {clip.lane}, all of which it needs")


def vectorize_sort_lanes(box: BoxBuilder, op: xla.SortLanesOp) -> None:
    """Emits `op` through the builder of its box; CompileError if a box may have some of its lanes only."""
    check_whole(box, 0)
    descending = None
    if op.descending is not None:
        odd = box.space.simplify(box.indices[op.descending])
        if any(isinstance(leaf, Sym) for leaf in odd.leaves()):
            raise CompileError("E3004", "lanes of one step are sorted in different directions")
        descending = box.offset(odd)
    words = [box.vector(word) for word in op.words]
    new = put(box.builder, vec.VecSortLanesOp(op.lane, words, descending, is_bitonic=op.is_bitonic is not None))
    new.attributes.update(op.attributes)
    box.values.update(zip(op.res, new.res, strict=True))
