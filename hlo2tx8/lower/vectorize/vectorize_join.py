"""Updates of the lanes of a step inside of a box: vectors of their own, with updates in the place of the lanes that are places.

Before:                                                          After, in a box of 4 lines of 512 places of 16 columns:
    %y = xla.join_at along 1 updates 2048 init(%x : f32) {           %y = vec.join_at(%x) along 1 updates 2048 {
    ^bb0(%k: index):
      %o = xla.apply_indexing #map(%tile)[%s, %l0, %l1, %l2, %k]       %o = xla.apply_indexing #map0(%tile, %s)
      %i = tensor.extract %p1[%o]                                      %i = vec.load %p1[%o] {strides = [2048, 1, 0]}
      xla.yield %i : i32                                               xla.yield %i : vector<4x2048x1xi32>
    } of { ... } by { ... }                                          } of { ... xla.yield %u : vector<4x2048x16xf32> } by { ... }
"""

from xdsl.builder import Builder
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import put
from hlo2tx8.indexing import Sym, Variable
from hlo2tx8.lower.vectorize.box_builder import BoxBuilder
from hlo2tx8.lower.vectorize.lane_access import LaneRegion, LaneSpace
from hlo2tx8.lower.vectorize.vectorize_reduce import combiner_of
from hlo2tx8.lower.vectorize.vectorize_sort import check_whole


def vectorize_join_at(box: BoxBuilder, op: xla.JoinAtOp, region: LaneRegion) -> None:
    """Emits `op`, met under `region`, through the builder of its box."""
    init, lane = box.vector(op.init), op.lane
    check_whole(box, lane)
    number, lanes = Variable(0, op.num_updates - 1, "update"), box.space.lanes
    behind = lanes[lane + 1 :]
    one = tuple(Variable(0, 0, other.name) for other in behind)
    places = _vectorized(box, op.places.block, region, (*lanes[:lane], number, *one), lane)
    elements = _vectorized(box, op.elements.block, region, (*lanes[:lane], number, *behind), lane)
    new = vec.VecJoinAtOp(lane, op.num_updates, init, places, elements, combiner_of(box, op.combiner.block))
    new.attributes.update(op.attributes)
    box.values[op.res] = put(box.builder, new).res


def _vectorized(box: BoxBuilder, old: Block, region: LaneRegion, lanes: tuple[Variable, ...], lane: int) -> Block:
    """The block on vectors of these lanes."""
    block, outer, known = Block(), (box.builder, box.space), (dict(box.loads), dict(box.bounds), dict(box.splats))
    for table in (box.loads, box.bounds, box.splats):
        table.clear()
    box.indices[old.args[0]] = Sym(lane)
    box.space, box.builder = LaneSpace(box.space.fixed, lanes), Builder(InsertPoint.at_end(block))
    yielded = [box.vector(value) for value in box.block(old, region)]
    put(box.builder, xla.YieldOp(yielded))
    (box.builder, box.space), (box.loads, box.bounds, box.splats) = outer, known
    return block
