"""A block of a reduction inside of a box: its lanes become one more dimension of the vectors.

Before:                                                    After:
    %s = xla.reduce lanes 64 init(%a : f32) {                  %s = vec.reduce(%a) lanes 64 {
    ^bb0(%l: index):
      %o = xla.apply_indexing #map(%tile)[%step, %r, %l]         %o = xla.apply_indexing #map0(%tile, %step)
      %x = tensor.extract %p0[%o]                                %x = vec.load %p0[%o] {strides = [4096, 1]}
      xla.yield %x                                               xla.yield %x : vector<2x64xf32>
    } by {...}                                                 } by {...} : vector<2xf32>
"""

from xdsl.builder import Builder
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import put
from hlo2tx8.indexing import Dim, Expr, Sym, Variable
from hlo2tx8.lower.vectorize.box_builder import BoxBuilder
from hlo2tx8.lower.vectorize.lane_access import Constraint, LaneRegion, LaneSpace


def vectorize_reduce(box: BoxBuilder, op: xla.ReduceOp, region: LaneRegion) -> None:
    """Emits `op`, met under `region`, through the builder of its box."""
    is_outer = op.is_outer is not None
    init = [box.vector(value) for value in op.init]
    old, block = op.elements.block, Block()
    outer = box.builder, box.space, box.guard, dict(box.indices), dict(box.conditions)
    known = dict(box.loads), dict(box.bounds), dict(box.splats)
    lane = Variable(0, op.num_lanes - 1, old.args[0].name_hint)
    lanes = (lane, *box.space.lanes) if is_outer else (*box.space.lanes, lane)
    if is_outer:
        _shift(box)
        region, box.guard = region.behind(len(box.space.fixed), 1), box.guard.behind(len(box.space.fixed), 1)
    box.indices[old.args[0]] = Sym(0 if is_outer else len(lanes) - 1)
    box.space, box.builder = LaneSpace(box.space.fixed, lanes), Builder(InsertPoint.at_end(block))
    for table in (box.loads, box.bounds, box.splats):
        table.clear()
    elements = [box.vector(value) for value in box.block(old, region)]
    put(box.builder, xla.YieldOp(elements))
    box.builder, box.space, box.guard, box.indices, box.conditions = outer
    box.loads, box.bounds, box.splats = known
    new = vec.VecReduceOp(op.num_lanes, init, block, combiner_of(box, op.combiner.block), is_outer=is_outer)
    put(box.builder, new)
    box.values.update(zip(op.res, new.res, strict=True))


def vectorize_reduce_lanes(box: BoxBuilder, op: xla.ReduceLanesOp | xla.ScanLanesOp) -> None:
    """The lanes of the step are those of the box."""
    elements, init = ([box.vector(value) for value in values] for values in (op.elements, op.init))
    kind = vec.VecReduceLanesOp if isinstance(op, xla.ReduceLanesOp) else vec.VecScanLanesOp
    new = put(box.builder, kind(op.lanes, elements, init, combiner_of(box, op.combiner.block)))
    new.attributes.update(op.attributes)
    box.values.update(zip(op.res, new.res, strict=True))


def _shift(box: BoxBuilder) -> None:
    """Makes room for a lane dimension in front of the others."""
    dims, syms = [Dim(i) for i in range(len(box.space.fixed))], [Sym(k + 1) for k in range(len(box.space.lanes))]

    def moved(expr: Expr) -> Expr:
        return expr.substitute(dims, syms)

    def constraint(pair: Constraint) -> Constraint:
        return moved(pair[0]), pair[1]

    box.indices = {value: moved(expr) for value, expr in box.indices.items()}
    box.conditions = {value: tuple(map(constraint, pairs)) for value, pairs in box.conditions.items()}


def combiner_of(box: BoxBuilder, old: Block) -> Block:
    """The combiner as it is, on scalars."""
    new = Block(arg_types=old.arg_types)
    mapping = dict(box.values) | dict(zip(old.args, new.args, strict=True))
    new.add_ops([inner.clone(value_mapper=mapping) for inner in old.ops])
    return new
