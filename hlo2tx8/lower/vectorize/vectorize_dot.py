"""A block of a contraction inside of a box: rows and columns become vectors of their own, without each other's lanes.

Before:                                                          After, in a box of 256 columns by 256 rows, [4, 256, 64]:
    %s = xla.dot lanes 128 init(%a : f32) {                          %s = vec.dot(%a) depth [2, 64] {
    ^bb0(%l: index):
      %o = xla.apply_indexing #map(%tile)[%s, %l0, %l1, %l2, %l]       %o = xla.apply_indexing #map0(%tile, %s)
      %x = tensor.extract %p0[%o]                                      %x = vec.load %p0[%o] {strides = [64, 1024, 1]}
      xla.yield %x : bf16                                              xla.yield %x : vector<2x256x64xbf16>
    } by { ... }                                                     } by { ... xla.yield %y : vector<4x128x64xbf16> }

The line of a window takes the place of the rows along it: an image is read once for all elements of its windows. The lanes of a
side are in the order in which the matrix engine reads it: blocks of channels outermost, channels innermost. Where
the depth is contiguous in memory it is the channels, else the innermost rows or columns are, unless their number varies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import func, scf, tensor
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.device.rates import is_multiplied_in_blocks
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import put
from hlo2tx8.dialects.xla_dot import WindowLine
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Sym, Variable
from hlo2tx8.lower.element_format import format_of
from hlo2tx8.lower.select.channel_blocks import EngineOrderError
from hlo2tx8.lower.vectorize.box_builder import BoxBuilder
from hlo2tx8.lower.vectorize.lane_access import Constraint, LaneClip, LaneRegion, LaneSpace


def vectorize_dot(box: BoxBuilder, op: xla.DotOp, region: LaneRegion) -> None:
    """Emits `op`, met under `region`, through the builder of its box."""
    if not region.is_whole:
        raise EngineOrderError("E3007", "a contraction serves a part of the lanes only")
    init = box.vector(op.init)
    width = block_width(format_of(op.element_type))
    *taps, size = op.lane_shape
    depth = (*taps, size // width, width) if size > width and size % width == 0 else op.lane_shape
    rows, columns = (_Side(box, side.block, op.lane_shape) for side in (op.row, op.column))
    windows = op.window_list
    _take_lanes(rows, columns, box.space.shape, is_per_channel=op.is_per_channel is not None)
    shared = sorted(rows.used & columns.used)
    if windows:
        rows.check_windows(windows)
        orders = _window_orders(rows, columns, shared, depth, op)
    else:
        orders = rows.order(shared, depth, width), columns.order(shared, depth, width)
    is_per_channel, is_backward = op.is_per_channel is not None, op.is_backward is not None
    is_tap_by_tap = op.is_by_element(orders[1])
    row = rows.emit(orders[0], depth, windows, whole=[w.lane for w in windows if is_tap_by_tap])
    column = columns.emit(orders[1], depth, (), whole=orders[1][-1:] if is_tap_by_tap else ())
    new = vec.VecDotOp(
        init, depth, *orders, row, column, windows, is_per_channel=is_per_channel, is_backward=is_backward, parts=op.num_parts
    )
    new.attributes.update(op.attributes)
    box.values[op.res] = put(box.builder, new).res


def _take_lanes(rows: "_Side", columns: "_Side", shape: Sequence[int], *, is_per_channel: bool) -> None:
    """Every lane belongs to a side, also one that no element depends on: where an operand is the same everywhere.

    The last lanes are columns, those in front of them rows.
    """
    last = len(shape) - 1
    if is_per_channel and last in rows.used:
        columns.used |= {last}
    missing = {lane for lane, size in enumerate(shape) if size > 1} - rows.used - columns.used
    own, across = rows.used - columns.used, columns.used - rows.used
    behind = {lane for lane in missing if (lane > max(own) if own else lane == last) and lane > max(across, default=-1)}
    if is_per_channel and missing:
        raise EngineOrderError("E3007", "a convolution per channel does not depend on all lanes")
    columns.used |= behind
    rows.used |= missing - behind


def block_width(fmt: Format) -> int:
    """Channels of a block of the engine's operands in a format."""
    return Blocked(fmt, 1, 1, 1).block_width


def _window_orders(
    rows: "_Side", columns: "_Side", shared: Sequence[int], depth: Sequence[int], op: xla.DotOp
) -> tuple[list[int], list[int]]:
    """The lane dimensions of an image and of its weights: blocks of features, the plane or elements and filters, features; or of
    an image and of the gradient under its windows: the plane or elements, channels.

    Where weights have filters next to each other in memory they keep them so: then they are a matrix of features and filters for
    each element.
    """
    windows = op.window_list
    taps = [-1 - number for number in range(len(windows))]
    plane = [lane for lane in sorted(rows.used | {w.lane for w in windows}) if lane not in shared]
    filters = [lane for lane in sorted(columns.used) if lane not in shared]
    if op.is_backward is not None:
        return [*shared, *plane], [*shared, *taps, *filters]
    if op.is_per_channel is not None:
        return [*shared[:-1], *plane, *shared[-1:]], [*shared[:-1], *taps, *shared[-1:]]
    *blocks, features = (-1 - number for number in range(len(windows), len(depth)))
    fmt = format_of(op.element_type)
    is_whole = is_multiplied_in_blocks([other.lane_shape[-1] for other in _added_up_with(op)], fmt.bytes)
    inner, cut = columns.inner_lanes(filters, fmt, len(windows)), {*(w.lane for w in windows), *filters[-1:]}
    if not shared and is_whole and inner and not rows.is_ragged([lane for lane in (*plane, *filters) if lane not in cut]):
        return [*blocks, *plane, features], [*taps, *blocks, *filters[:-inner], features, *filters[-inner:]]
    return [*shared, *blocks, *plane, features], [*shared, *blocks, *taps, *filters, features]


def _added_up_with(op: xla.DotOp) -> Iterator[xla.DotOp]:
    """The convolutions of a step that are added up to one result with this one: they lie alike, so all of them are products per
    element, or none is."""
    step: Operation = op
    while (parent := step.parent_op()) is not None and not isinstance(parent, func.FuncOp):
        step = parent
    others = (other for other in step.walk() if isinstance(other, xla.DotOp) and other.window_list)
    return (other for other in others if _sum_of(other) is _sum_of(op))


def _sum_of(op: xla.DotOp) -> SSAValue:
    """The value that has all that is added up with an op: through loops, and ops that begin with what it makes."""
    found, following = op.res, op.res
    while following is not None:
        found, following = following, None
        for use in found.uses:
            user = use.operation
            if isinstance(user, xla.DotOp) and user.init is found:
                following = user.res
            elif isinstance(user, scf.YieldOp | xla.YieldOp) and isinstance(loop := user.parent_op(), scf.ForOp):
                following = loop.results[use.index]
    return found


def _with_lanes(box: BoxBuilder) -> tuple[Variable, ...]:
    """The variables of a step, in the ranges in which it has any lanes: tiles without work compute none."""
    uppers = [upper for clip in box.guard.clips for upper in clip.upper]
    constraints = tuple((upper, Interval(1, max(1, box.space.bounds(upper).hi))) for upper in uppers)
    fixed = IndexingMap(box.space.fixed, (), (), (), constraints).simplify().dims
    for number in range(len(fixed)):
        for upper in uppers:
            fixed = _without_end(fixed, number, upper)
    return fixed


def _without_end(fixed: tuple[Variable, ...], number: int, upper: Expr) -> tuple[Variable, ...]:
    """The variables, one without those of its last values with which `upper` is never positive."""
    own = fixed[number]

    def between(low: int, high: int) -> tuple[Variable, ...]:
        return (*fixed[:number], replace(own, lo=low, hi=high), *fixed[number + 1 :])

    low, high = own.lo, own.hi + 1  # all values from `high` on can be left out; the first one stays
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if LaneSpace(between(middle, own.hi), ()).bounds(upper).hi < 1 else (middle, high)
    return between(own.lo, high - 1)


class _Side:
    """One of the two regions of a dot, in the space of its box with the depth as one more lane dimension behind the others."""

    def __init__(self, box: BoxBuilder, block: Block, sizes: Sequence[int]) -> None:
        self.box, self.block = box, block
        self.rank = len(box.space.lanes)
        self.space = LaneSpace(_with_lanes(box), (*box.space.lanes, *(Variable(0, size - 1, "lane") for size in sizes)))
        indices, loads = self._reads()
        leaves = {leaf.index for expr in indices for leaf in self.space.simplify(expr).leaves() if isinstance(leaf, Sym)}
        self.used = frozenset(leaf for leaf in leaves if leaf < self.rank)
        self.indices, self.loads = indices, loads

    def _reads(self) -> tuple[list[Expr], list[Expr]]:
        """All index expressions on which elements depend, and those of them that are offsets in tensors."""
        known = dict(self.box.indices)
        known.update((arg, Sym(self.rank + number)) for number, arg in enumerate(self.block.args))
        found: list[Expr] = []
        loads: list[Expr] = []
        for op in self.block.walk():
            match op:
                case xla.ApplyIndexingOp():
                    dims, syms = _operands(op, known)
                    for result, expr in zip(op.results, op.map.data.results, strict=True):
                        known[result] = expr.substitute(dims, syms)
                case xla.InDomainOp():
                    dims, syms = _operands(op, known)
                    for expr, interval in op.map.data.constraints:
                        placed = expr.substitute(dims, syms)
                        if not interval.encloses(self.space.bounds(self.space.simplify(placed))):
                            found.append(placed)
                case tensor.ExtractOp():
                    found.append(known[op.indices[0]])
                    loads.append(known[op.indices[0]])
                case _:
                    found.extend(known[operand] for operand in op.operands if operand in known)
                    self._check(op)
        return found, loads

    def _check(self, op: Operation) -> None:
        """Vectors from outside have lanes that this side has not."""
        for operand in op.operands:
            if isinstance(self.box.values.get(operand, operand).type, VectorType):
                raise EngineOrderError("E3007", f"{op.name} inside of a contraction reads a vector from outside of it")

    def check_windows(self, windows: Sequence[WindowLine]) -> None:
        """What is read goes along the lines of the windows; where a line has one row only, its elements are its places."""
        for expr in self.indices:
            access = self.space.access(expr)
            for w in windows:
                if access is not None and self.box.space.shape[w.lane] == w.dilation == 1:
                    continue
                strides = (0, 0) if access is None else (access.strides[w.lane], access.strides[self.rank + w.depth])
                if access is None or strides[0] * w.dilation != strides[1] * w.stride:
                    raise EngineOrderError("E3007", f"an index of a convolution does not go along the line of its windows: {expr}")

    def order(self, shared: Sequence[int], depth: Sequence[int], width: int) -> list[int]:
        """The lane dimensions of the side as the engine reads them; those of the depth as -1 and -2."""
        own = [lane for lane in sorted(self.used) if lane not in shared]
        batch = list(shared)
        last = own[-1] if own else None
        if last is not None and self._stride(self.rank) != 1 and self._stride(last) == 1:
            depth_lanes, ragged = [-1 - j for j in range(len(depth))], {clip.lane for clip in self.box.guard.clips}
            block = next((n for n in range(1, len(own)) if prod(self.box.space.shape[lane] for lane in own[-n:]) == width), 0)
            if block and not ragged & set(own[-block:]):
                return [*batch, *own[:-block], *depth_lanes, *own[-block:]]
            if not ragged & set(own):
                return [*batch, *depth_lanes, *own]
        outer, inner = ([-1], [-2]) if len(depth) > 1 else ([], [-1])
        return [*batch, *outer, *own, *inner]

    def inner_lanes(self, lanes: Sequence[int], fmt: Format, taps: int) -> int:
        """How many of these lane dimensions, the last ones, are next to each other in memory and together a block of channels, or
        all of them; 0 if none are. The depth behind so many taps is not."""
        if not lanes or self._stride(self.rank + taps) == 1:
            return 0
        size, width = 1, block_width(fmt)
        for number, lane in enumerate(reversed(lanes), start=1):
            if self._stride(lane) != size:
                return 0
            size *= self.box.space.shape[lane]
            if size == width or (number == len(lanes) and size < width) or len(lanes) == 1:
                return number
        return 0

    def is_ragged(self, lanes: Sequence[int]) -> bool:
        """Has some step fewer lanes along one of these dimensions?"""
        return any(clip.lane in lanes for clip in self.box.guard.clips)

    def _stride(self, lane: int) -> int:
        """Elements of the first tensor that is read between neighbours along a lane dimension; 0 if that is not known."""
        access = self.space.access(self.loads[0]) if self.loads else None
        return access.strides[lane] if access is not None else 0

    def emit(
        self, order: Sequence[int], depth: Sequence[int], windows: Sequence[WindowLine], *, whole: Sequence[int] = ()
    ) -> Block:
        """The block of the side on vectors with these lane dimensions, of which those that are `whole` are as long in all steps."""
        box, block = self.box, Block()
        of_lane = {w.lane: w for w in windows}
        lanes = [self._variable(lane, depth, of_lane.get(lane)) for lane in order]
        outer = box.builder, box.space, box.guard, dict(box.indices), dict(box.conditions)
        known = dict(box.loads), dict(box.bounds), dict(box.splats)
        dims = [Dim(i) for i in range(len(box.space.fixed))]
        syms: list[Expr] = [Sym(order.index(lane)) if lane in order else Const(0) for lane in range(self.rank)]
        elements: list[Expr] = [Sym(order.index(-1 - j)) if -1 - j in order else Const(0) for j in range(len(depth))]
        for w in windows:
            place, (u, v) = syms[w.lane], w.factors()
            syms[w.lane], elements[w.depth] = place * u, place * v

        def moved(constraint: Constraint) -> Constraint:
            return constraint[0].substitute(dims, syms), constraint[1]

        taps = self.block.args[:-1]
        on_lines = {value for value, expr in box.indices.items() if any(expr == Sym(w.lane) for w in windows)}
        box.on_lines = frozenset(on_lines.union(taps if windows else ()))
        box.indices = {value: expr.substitute(dims, syms) for value, expr in box.indices.items()}
        box.conditions = {value: tuple(map(moved, pairs)) for value, pairs in box.conditions.items()}
        last = self.block.args[-1]
        box.indices.update(zip(taps, elements, strict=False))
        position: Expr = Const(0)
        for size, element in list(zip(depth, elements, strict=True))[len(taps) :]:
            position = position * size + element
        box.indices[last] = position
        clips = [(c.lane in whole, self._clip(c, order, depth, of_lane)) for c in box.guard.clips if c.lane in order]
        box.guard, region = (LaneRegion(tuple(clip for is_whole, clip in clips if is_whole is own)) for own in (False, True))
        box.space, box.builder = LaneSpace(box.space.fixed, tuple(lanes)), Builder(InsertPoint.at_end(block))
        for table in (box.loads, box.bounds, box.splats):
            table.clear()
        (element,) = (box.vector(value) for value in box.block(self.block, region))
        put(box.builder, xla.YieldOp([element]))
        box.builder, box.space, box.guard, box.indices, box.conditions = outer
        box.loads, box.bounds, box.splats = known
        box.on_lines = frozenset()
        return block

    def _variable(self, lane: int, depth: Sequence[int], window: WindowLine | None) -> Variable:
        if lane < 0:
            return Variable(0, depth[-1 - lane] - 1, "depth")
        own = self.box.space.lanes[lane]
        return own if window is None else Variable(0, window.extent(own.hi + 1, depth[window.depth]) - 1, own.name)

    def _clip(self, clip: LaneClip, order: Sequence[int], depth: Sequence[int], windows: Mapping[int, WindowLine]) -> LaneClip:
        """The valid lanes of the box as those of the side; of a line, those under the windows of valid rows."""
        upper = clip.upper
        if clip.lane in windows:
            window = windows[clip.lane]
            upper = tuple((bound - 1) * window.stride + window.extent(1, depth[window.depth]) for bound in upper)
        return LaneClip(order.index(clip.lane), clip.lower, upper)


def _operands(op: xla.ApplyIndexingOp | xla.InDomainOp, known: dict[SSAValue, Expr]) -> tuple[list[Expr], list[Expr]]:
    """What the map's dimensions and symbols are."""
    exprs = [known[operand] for operand in op.operands]
    count = len(op.map.data.dims)
    return exprs[:count], exprs[count:]
