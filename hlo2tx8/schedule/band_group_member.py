"""What a fusion must be to compute a band of its result at a time, as a member of a group by bands.

convolution   of images [images, height, width, channels]: one dot whose windows lie along lines of the image, and what is
              element by element around it
pool          a reduction of small windows, and that
elementwise   nothing but that
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.ir import Block, BlockArgument, Operation

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.rates import Rates, block_width, is_multiplied_in_blocks
from hlo2tx8.dialects.hlo import CopyOp
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.dialects.xla_dot import WindowLine
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.indexing import Const, Dim, IndexingMap, Interval, Sym, simplify_expr, split_terms
from hlo2tx8.partitioner.computation import PartitionedComputation, partition
from hlo2tx8.partitioner.contraction import Contraction, is_contraction, roles_of, why_not_on_engine
from hlo2tx8.partitioner.instruction import is_elemental, tensor_type
from hlo2tx8.partitioner.iteration_space import IterationSpace, TensorAccess
from hlo2tx8.partitioner.reduction_order import is_small_window
from hlo2tx8.partitioner.reduction_paths import is_reduction, loop_counters
from hlo2tx8.partitioner.windows import Line, keeps_weights, lines_of
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.bands import Bands, BandSplit, RowReads
from hlo2tx8.schedule.reduction_blocks import Blocks
from hlo2tx8.schedule.row_split import JoinedLanes
from hlo2tx8.schedule.work_split import Target, WorkSplit

RANK = 4
HEIGHT, WIDTH, CHANNELS = 1, 2, 3
"""Dimensions of images."""
FLOAT_BYTES = 2
"""Of the elements for which blocks of channels are counted; those of all floats are as wide."""
BLOCK = block_width(FLOAT_BYTES)
"""Channels of a block of the matrix engine's result."""


@dataclass(frozen=True)
class BandGroupMember:
    """A fusion whose result [images, height, width, channels] is computed by bands. `reads`: the parameters of which a band needs
    some rows of the same image only; the others are read as a whole. `dot`: its convolution, with the operand that has the `rows`
    and the `lines` of its windows; `turns_weights`: TDMA has to turn what it multiplies for the engine. `pool`: its reduction of
    small windows. `parts`: what engines do for so many rows, as far as it was asked for."""

    partitioned: PartitionedComputation
    accesses: AccessAnalysis
    shape: tuple[int, ...]
    reads: Mapping[int, RowReads]
    dot: Operation | None = None
    rows: int = 0
    lines: tuple[Line, ...] = ()
    is_per_channel: bool = False
    turns_weights: bool = False
    pool: Operation | None = None
    parts: dict[tuple[int, Rates], list[tuple[Engine, float]]] = field(
        default_factory=dict[tuple[int, Rates], list[tuple[Engine, float]]], compare=False
    )

    @property
    def is_copy(self) -> bool:
        """Is its result what it reads? Then the group has it where it was loaded."""
        return all(isinstance(op, CopyOp) for op in self.partitioned.functions[0].instructions)

    @property
    def block(self) -> int:
        """Channels of a block, if lanes go by blocks of the matrix engine; else 0."""
        return BLOCK if self.shape[CHANNELS] % BLOCK == 0 and self.shape[CHANNELS] > BLOCK else 0

    def nest(self, split: BandSplit, bands: Bands) -> tuple[WorkSplit, Mapping[Operation, Blocks | JoinedLanes | Contraction]]:
        """The member's one loop, and how its dot goes to the matrix engine."""
        contractions = {self.dot: self._contraction(self.dot, split)} if self.dot is not None else {}
        return split.split(self.shape, bands, self.block), contractions

    def _contraction(self, dot: Operation, split: BandSplit) -> Contraction:
        counters, taps = loop_counters(dot), tuple(line.counter for line in self.lines)
        others = [i for i in range(len(counters)) if i not in taps]
        block = max(others, key=lambda i: counters[i].hi)
        extent = counters[block].hi + 1
        first_row = (self.block > 0) + (not split.is_even)
        windows = tuple(
            WindowLine(first_row + line.row - HEIGHT, i, line.stride, line.dilation) for i, line in enumerate(self.lines)
        )
        loops = tuple(i for i in others if i != block)
        return Contraction(self.rows, loops, block, extent, extent, taps, windows, self.is_per_channel)


def band_group_member(body: Block, target: Target) -> BandGroupMember | str:
    """The member that a fusion with this body is, or why it is none."""
    terminator = body.last_op
    assert terminator is not None
    if len(terminator.operands) != 1:
        return "it has several results"
    type_ = tensor_type(terminator.operands[0])
    shape = type_.get_shape()
    if len(shape) != RANK or 0 in shape or not is_row_major(type_):
        return "its result is no batch of images"
    dots = [op for op in body.ops if is_contraction(op)]
    pools = [op for op in body.ops if is_reduction(op) and op not in dots]
    if any(not is_elemental(op) and op not in (*dots, *pools) for op in body.ops if op is not terminator):
        return "it does more than arithmetic, convolutions and pools"
    if len(dots) + len(pools) > 1:
        return "it has two convolutions or pools"
    if not all(is_small_window(op) and len(op.results) == 1 for op in pools):
        return "it has a reduction that is no pool of small windows"
    partitioned = partition(body)
    if len(partitioned.functions) != 1:
        return "it computes tensors of its own first"
    accesses = AccessAnalysis(partitioned, target)
    if not all(map(_is_affine, accesses.of(partitioned.functions[0]))):
        return "its reads are not affine in images, rows, columns and channels"
    reads = {arg.index: found for arg in body.args if (found := _row_reads(partitioned, arg, shape)) is not None}
    if not dots:
        return BandGroupMember(partitioned, accesses, shape, reads, pool=next(iter(pools), None))
    return _convolution(partitioned, accesses, shape, reads, dots[0])


def _convolution(
    partitioned: PartitionedComputation,
    accesses: AccessAnalysis,
    shape: tuple[int, ...],
    reads: Mapping[int, RowReads],
    dot: Operation,
) -> BandGroupMember | str:
    (function,) = partitioned.functions
    if why := why_not_on_engine(dot):
        return why
    if shape[CHANNELS] == 1:
        return "its result has one channel"
    if num_parts(dot) > 1:
        return "its factors are multiplied in parts"
    place = partitioned.places[dot]
    if place.scope is not function.top or place.map.constraints:
        return "the convolution serves only a part of the result"
    space = IterationSpace(shape, tuple(Dim(i) for i in range(RANK)))
    turns = [counter.hi + 1 for counter in loop_counters(dot)]
    _, default = roles_of(dot, place.map.results, space)
    for columns in (1 - default, default):
        roles, rows = roles_of(dot, place.map.results, space, columns)
        is_per_channel = roles[CHANNELS] == "batch"
        wanted = (*(("row",) * CHANNELS), "batch" if is_per_channel else "column")
        if any(size > 1 and role != own for size, role, own in zip(shape, roles, wanted, strict=True)):
            continue
        lines = lines_of(dot, accesses.of(function), space, roles)
        features = [count for counter, count in enumerate(turns) if counter not in {line.counter for line in lines}]
        if not features or sum(count > 1 for count in features) > (0 if is_per_channel else 1):
            return "its windows do not lie along lines of the image"
        if is_per_channel or roles[CHANNELS] == "column":
            is_block = is_multiplied_in_blocks([max(features)], FLOAT_BYTES)
            keeps = is_block and not is_per_channel and keeps_weights(dot, accesses.of(function), space)
            turns_weights = bool(lines) and not keeps
            return BandGroupMember(partitioned, accesses, shape, reads, dot, rows, lines, is_per_channel, turns_weights)
    return "images, height, width and channels are not its rows and columns"


def _is_affine(access: TensorAccess) -> bool:
    """Is what is read, and the condition for it, linear in the dimensions of the result?"""
    map = access.map
    leaves = (*(Dim(i) for i in range(len(map.dims))), *(Sym(i) for i in range(len(map.syms))))
    bounds = [v.interval for v in map.dims], [v.interval for v in map.syms]
    exprs = (*map.results, *(expr for expr, _ in map.constraints))
    return all(split_terms(simplify_expr(expr, *bounds), leaves) is not None for expr in exprs)


def _row_reads(partitioned: PartitionedComputation, parameter: BlockArgument, shape: tuple[int, ...]) -> RowReads | None:
    """The rows that a row of the result needs of a parameter; None if it is not read image by image."""
    of_parameter = tensor_type(parameter)
    if len(of_parameter.get_shape()) != RANK or of_parameter.get_shape()[0] != shape[0] or not is_row_major(of_parameter):
        return None
    found: list[RowReads] = []
    for use in parameter.uses:
        paths = partitioned.operand_places.get((use.operation, use.index))
        reads = _rows_of(paths[0], of_parameter.get_shape()) if paths is not None else None
        if reads is None:
            return None
        found.append(reads)
    if not found or any(reads.stride != found[0].stride for reads in found):
        return None
    first, last = min(reads.first for reads in found), max(reads.last for reads in found)
    return RowReads(found[0].stride, first, last, found[0].height)


def _rows_of(map: IndexingMap, shape: tuple[int, ...]) -> RowReads | None:
    """The same of one way to read it: the image is the result's, rows depend on rows only."""
    bounds = [v.interval for v in map.dims], [v.interval for v in map.syms]
    image, row = (simplify_expr(expr, *bounds) for expr in map.results[:2])
    if image != (Dim(0) if shape[0] > 1 else Const(0)):
        return None
    split = split_terms(row, (Dim(HEIGHT),))
    if split is None:
        return None
    base, factors = split
    reach: Interval = map.bounds(base)
    stride = factors.get(Dim(HEIGHT), 0)
    if stride < 0 or any(isinstance(leaf, Dim) and leaf.index in (0, WIDTH, CHANNELS) for leaf in row.leaves()):
        return None
    return RowReads(stride, reach.lo, reach.hi, shape[HEIGHT])
