"""Rows whose columns are no whole number of blocks, in SPM as the matrix engine writes and reads them: in padded channel blocks.

    scores [32, 197]     NE writes three blocks [32][64] and a tail [32][8], of which three columns are padding
    scores - maximum     CT goes over all 32 * 200 elements; its reductions and NE leave the padding out
    weights x values     NE reads them as they lie

A tensor in SPM lies so if every box that stores or loads it does arithmetic, reductions of whole rows and products only, of whole
rows that the same step has stored, or multiplies them as rows. It may select by where a lane is, as masks do. Else rows are dense,
and TDMA moves them between the two orders.
"""

from collections.abc import Iterator
from math import prod

from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_reduce import MOST_POINTS, MOST_REDUCED
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.dialects.xla_dot import yielded
from hlo2tx8.lower.element_format import storage_format, tensor_type
from hlo2tx8.lower.select.index_conditions import IndexConditions, LanesMeant
from hlo2tx8.lower.select.instruction_tables import hlo_name
from hlo2tx8.lower.select.resident import is_resident, starts_alike
from hlo2tx8.lower.select.select_reduce import ct_reduction
from hlo2tx8.lower.select.select_region import fits_blocks

FREE = (vec.SplatOp, xla.ApplyIndexingOp, xla.ConstantOp, xla.YieldOp, xla.ElementwiseOp)

MOST_PADDING = 1.5
"""Elements with padding, as a multiple of those without. Of 33 columns 31 would be padding; there TDMA takes less than CT."""


def padded_boxes(function: func.FuncOp) -> set[vec.BoxOp]:
    """The boxes of a function whose vectors lie in padded channel blocks."""
    boxes = [op for op in nested_ops(function) if isinstance(op, vec.BoxOp)]
    tensors = {t for box in boxes for t in _tensors(box.body.block) if isinstance(t.owner, xla.AllocateScratchOp)}
    stores = {t: [op for op in _accesses(t) if isinstance(op, vec.StoreOp)] for t in tensors}
    tensors -= {t for t, own in stores.items() if all(stores_rows(op) for op in own)}  # no padding in those
    kept = {t for t in tensors if len(own := stores[t]) == 1 and all(_is_padded(op, own[0]) for op in _accesses(t))}
    while True:
        own = [(box, {t for t in _tensors(box.body.block) if t in tensors}) for box in boxes]
        found = {box for box, used in own if used and used <= kept}
        left = {t for box, used in own if box not in found for t in used} & kept
        if not left:
            return found
        kept -= left


def stores_rows(store: vec.StoreOp) -> bool:
    """Does it store an element per row, the same in all columns?"""
    return vec.ints(store.strides)[-1:] == (0,)


def _tensors(block: Block) -> list[SSAValue]:
    """The tensors in SPM that a box itself stores or loads."""
    return [t for op in block.ops if isinstance(op, vec.LoadOp | vec.StoreOp) and is_resident(t := _tensor(op))]


def _tensor(op: vec.LoadOp | vec.StoreOp) -> SSAValue:
    return op.source if isinstance(op, vec.LoadOp) else op.target


def _accesses(tensor: SSAValue) -> Iterator[Operation]:
    return (use.operation for use in tensor.uses)


def _is_padded(op: Operation, store: vec.StoreOp) -> bool:
    """Can what a store leaves in padded blocks be accessed so?"""
    if not isinstance(op, vec.StoreOp | vec.LoadOp) or vec.ints(op.strides) != vec.ints(store.strides):
        return False
    if isinstance(op, vec.LoadOp) and (vec.ints(op.clipped) or not starts_alike(op.offset, store.offset)):
        return False
    place, own = op.parent_op(), _box_of(store)
    if isinstance(place, vec.VecDotOp):
        return isinstance(op, vec.LoadOp) and _is_left(place, op, own)
    if not isinstance(place, vec.BoxOp) or place.lane_shape != own.lane_shape or tuple(place.valid_of) != tuple(own.valid_of):
        return False
    if len(own.lane_shape) < 2 or not _fits(place):
        return False
    of_indices = _of_indices(place)
    return all(inner in of_indices or _is_for_blocks(inner, place) for inner in place.body.block.ops)


def _of_indices(box: vec.BoxOp) -> frozenset[Operation]:
    """The operations of a box that only say in which lanes selects take which of their operands."""
    block = box.body.block

    def fits(op: Operation, lanes: LanesMeant) -> bool:
        return hlo_name(op) == "select" and fits_blocks(box.lane_shape, box.valid_of, lanes, storage_format(op.results[0].type))

    return IndexConditions.of(block, fits).unneeded if any(isinstance(op, vec.IndexOp) for op in block.ops) else frozenset()


def _box_of(op: Operation) -> vec.BoxOp:
    box = op.parent_op()
    assert isinstance(box, vec.BoxOp)
    return box


def _is_left(dot: vec.VecDotOp, load: vec.LoadOp, own: vec.BoxOp) -> bool:
    """Are the rows of a product such rows, as they are?"""
    box, lanes = dot.parent_op(), vec.ints(dot.row_lanes)
    if not isinstance(box, vec.BoxOp) or dot.row.block is not load.parent or yielded(dot.row.block) is not load.result:
        return False
    rows = tuple(box.lane_shape[lane] for lane in lanes[:-1] if lane >= 0)
    valid = tuple(i for i, lane in enumerate(lanes[:-1]) if lane in box.valid_of)
    is_same = (*rows, *vec.ints(dot.depth)) == own.lane_shape and len(rows) == len(lanes) - 1 and lanes[-1] == -1
    return is_same and valid == tuple(own.valid_of) and _is_plain(dot)


def _is_plain(dot: vec.VecDotOp) -> bool:
    return dot.num_parts == 1 and not dot.window_list and dot.is_per_channel is None and dot.is_backward is None


def _fits(box: vec.BoxOp) -> bool:
    """Has it rows of columns that lie otherwise in padded blocks than dense, and no more than instructions take?"""
    *rows, columns = box.lane_shape
    layout = Blocked(Format.FP32, 1, prod(rows), columns)
    is_wide = layout.aligned_channels > MOST_PADDING * columns
    is_dense = layout.aligned_channels == columns and len(list(layout.blocks())) == 1
    is_whole = len(rows) not in box.valid_of and columns % layout.block_width != 0 and not (is_dense or is_wide)
    return is_whole and columns <= MOST_REDUCED and prod(rows) <= MOST_POINTS


def _is_for_blocks(op: Operation, box: vec.BoxOp) -> bool:
    """Is it the same whether columns lie dense or in padded blocks?"""
    column = len(box.lane_shape) - 1
    match op:
        case vec.StoreOp() | vec.LoadOp():
            is_float = isinstance(tensor_type(_tensor(op)).element_type, BFloat16Type | Float16Type | Float32Type)
            return is_float and is_resident(_tensor(op))
        case vec.VecReduceLanesOp():
            kind = ct_reduction(op.combiner.block, storage_format(op.elements[0].type)) if len(op.elements) == 1 else None
            return op.lanes == (column,) and kind is not None
        case vec.VecDotOp():
            own = [lane for lane in vec.ints(op.column_lanes) if lane >= 0]
            rows = [lane for lane in vec.ints(op.row_lanes) if lane >= 0]
            return _is_plain(op) and own == [column] and rows == list(range(column))
        case _:
            is_arithmetic = isinstance(op, FREE) or op.name.partition(".")[0] in (arith.Arith.name, math.Math.name)
            return is_arithmetic and not op.regions
