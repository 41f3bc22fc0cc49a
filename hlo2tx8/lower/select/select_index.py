"""Masks and index expressions of lanes as instructions of the kernel core."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.kc_vector import KcVAdd, KcVDiv, KcVMul, KcVRem
from hlo2tx8.dialects import vec, xla
from hlo2tx8.errors import CompileError
from hlo2tx8.indexing import Add, Const, Expr, FloorDiv, IndexingMap, Mod, Mul
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.element_format import Splat, Vector, format_of
from hlo2tx8.lower.select.select_memory import Clip, clipped_box, iota_sum, lane_terms, place
from hlo2tx8.lower.select.selector import Selector

NUMBERS = "numbers"
"""First in the keys of what is hoisted that no step writes to."""


def mask(s: Selector, op: vec.MaskOp) -> SSAValue:
    """PRED ones in the lanes of a mask's bounds, else zeros."""
    step = s.step
    clips = [Clip(lane, s.slots[lo], s.slots[hi]) for lane, lo, hi in zip(vec.ints(op.clipped), op.lower, op.upper, strict=True)]
    box = clipped_box(step, clips)
    dst = s.filled(Splat(0, Format.PRED), step.count())
    ones = s.buffer(Splat(1, Format.PRED))
    with step.if_positive([box.extents[c.lane] for c in clips]):
        place(step, dst, ones, box, Format.PRED)
    return dst


def index_vector(s: Selector, op: vec.IndexOp) -> Vector:
    """The value of an index expression in each lane."""
    fmt = format_of(op.result.type)
    (expr,) = op.map.data.results
    return _index_expr(s, expr, op.map.data, [s.slots[v] for v in op.ivs], fmt)


def _index_expr(s: Selector, expr: Expr, m: IndexingMap, ivs: Sequence[SSAValue], fmt: Format) -> SSAValue:
    affine = lane_terms(s.step, expr)
    if affine is not None:
        base, terms = affine
        if isinstance(base, Const) and not any(isinstance(size, SSAValue) for term in terms for size in term):
            return _same_in_all_steps(s, base.value, terms, fmt)
        return iota_sum(s.step, s.step.count(), _scalar(s, base, m, ivs), terms, fmt)
    match expr:
        case Add():
            kind = KcVAdd
        case Mul():
            kind = KcVMul
        case FloorDiv():
            kind = KcVDiv
        case Mod():
            kind = KcVRem
        case _:
            raise CompileError("E3203", f"no vector form of index expression {expr}")
    if isinstance(expr, (FloorDiv, Mod)) and (lowest := m.bounds(expr.lhs).lo) < 0:
        return _index_expr(s, _of_non_negative(expr, lowest), m, ivs, fmt)
    lhs = _index_expr(s, expr.lhs, m, ivs, fmt)
    rhs = _index_expr(s, expr.rhs, m, ivs, fmt)
    dst = s.step.alloc(fmt)
    s.step.insert(kind.make(fmt=fmt, dst=dst, a=lhs, b=rhs, n=s.step.count(), origin=s.step.origin))
    return dst


def _same_in_all_steps(s: Selector, start: int, terms: Sequence[tuple[Size, Size, Size]], fmt: Format) -> SSAValue:
    """Numbers of lanes that no step changes, written once, before the steps."""
    count = s.step.num_lanes
    key = (NUMBERS, count, start, *terms, fmt)
    if key not in s.hoisted:
        s.hoisted[key] = s.in_prologue(lambda: iota_sum(s.step, count, start, terms, fmt))
    return s.hoisted[key]


def _scalar(s: Selector, base: Expr, m: IndexingMap, ivs: Sequence[SSAValue]) -> Size:
    if isinstance(base, Const):
        return base.value
    scalar = IndexingMap(m.dims, (), (), (base,), ())
    return s.step.insert(xla.ApplyIndexingOp(xla.IndexingMapAttr(scalar), ivs)).results[0]


def _of_non_negative(expr: FloorDiv | Mod, lowest: int) -> Expr:
    """The same quotient or remainder of a dividend moved up by a multiple of the divisor: KC division rounds toward zero."""
    assert isinstance(expr.rhs, Const)
    times = -(lowest // expr.rhs.value)
    moved = expr.lhs + times * expr.rhs.value
    return moved // expr.rhs - times if isinstance(expr, FloorDiv) else moved % expr.rhs
