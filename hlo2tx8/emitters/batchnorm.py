"""Batch norm emitter: normalizes points by what each channel has once, in channel blocks.

    %0 = xla.loop (%tile)[%step, %point, %channel] -> (%n, %h, %w, %c) in #map lanes 2 iter_args(%t = %r0) -> (...) {
      %x = tensor.extract %p0[%n, %h, %w, %c]        1  the points of a step into channel blocks (TDMA)
      %a = arith.extf %x                             2  to f32
      %m = tensor.extract %p3[%c]
      %b = arith.subf %a, %m                         3  x - mean                         VuV_loop, VuV
      %v = arith.addf %variance, %epsilon            4  variance + epsilon               a channel once, in the first step
      %r = math.rsqrt %v                             5  1 / sqrt                         a channel once, in the first step
      %d = arith.mulf %b, %r                         6  (x - mean) / deviation           VuV_loop, VuV
      %e = arith.mulf %d, %scale                     7  * scale                          VuV_loop, VuV
      %f = arith.addf %e, %offset                    8  + offset                         VuV_loop, VuV
      %y = arith.truncf %f                           9  to the type of x
      %1 = tensor.insert %y into %t[%n, %h, %w, %c]  10 back into the order of DDR (TDMA)
    } {xla.channel_blocks}

C <= 32 channels are one tail of 4, 8, 16 or 32; more are blocks of 64 and a tail. What the fusion computes before and after is
computed on the same blocks.
"""

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.hero import is_batch_norm
from hlo2tx8.emitters.loop import LoopEmitter, emit_loops
from hlo2tx8.hlo import Kind
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.indexing import Dim
from hlo2tx8.partitioner.instruction import is_elementwise, is_inlined_constant, kind_of, tensor_type
from hlo2tx8.partitioner.iteration_space import TensorAccess
from hlo2tx8.passes.expand_batch_norm import OF_VECTORS, expand_inference
from hlo2tx8.schedule.channel_split import split_channels
from hlo2tx8.schedule.work_split import WorkSplit


@dataclass(frozen=True)
class BatchNormMatch(Match):
    """A batch norm that is emitted in channel blocks: `expanded` has its arithmetic, `split` the work of its one loop."""

    expanded: Fusion
    split: WorkSplit


@dataclass(frozen=True)
class BatchNormEmitter:
    """Takes a batch norm of floats over the innermost dimension, with elementwise arithmetic before and after."""

    name = "batchnorm"

    def match(self, fusion: Fusion) -> Match | Declined:
        norms = [op for op in fusion.body.ops if is_batch_norm(op)]
        if reason := _why_not(fusion, norms):
            return Declined(reason)
        expanded = replace(fusion, op=expand_batch_norms(fusion.op))
        taken = LoopEmitter().match(expanded)
        if isinstance(taken, Declined):
            return taken
        accesses = expanded.accesses
        (function, *others) = accesses.partitioned.functions
        if others:
            return Declined("an element is read at several places")
        shape = tensor_type(norms[0].results[0]).get_shape()
        if not all(_is_of_points(access, shape) for access in accesses.of(function)):
            return Declined("a tensor is read otherwise than point by point or channel by channel")
        split = split_channels(shape, function, accesses)
        return Declined(split) if isinstance(split, str) else BatchNormMatch(fusion, expanded, split)

    def emit(self, match: Match) -> ModuleOp:
        assert isinstance(match, BatchNormMatch)
        accesses = match.expanded.accesses
        return emit_loops(match.expanded, accesses.partitioned, accesses, lambda _: [(match.split, {})])


def expand_batch_norms(fusion: Operation) -> Operation:
    """A copy of the fusion with the arithmetic of its batch norms."""
    copy = fusion.clone()
    for op in tuple(copy.regions[0].block.ops):
        if is_batch_norm(op):
            expand_inference(op)
    return copy


def _why_not(fusion: Fusion, norms: list[Operation]) -> str:
    """Why the instructions beside the batch norms cannot be computed on channel blocks, or ""."""
    shape = tensor_type(norms[0].results[0]).get_shape()
    terminator = fusion.body.last_op
    assert terminator is not None
    for op in norms:
        if tensor_type(op.results[0]).get_shape() != shape or attributes_of(op)["feature_index"] != len(shape) - 1:
            return "its channels are not the innermost dimension"
    for op in fusion.body.ops:
        if op is terminator or op in norms or is_inlined_constant(op):
            continue
        if not is_elementwise(op) and kind_of(op) is not Kind.SHAPING:
            return f"{op.name} is computed beside it"
    values = [value for op in fusion.body.ops for value in (*op.operands, *op.results)]
    if not all(isinstance(tensor_type(value).element_type, OF_VECTORS) for value in values):
        return "not all of its values are floats that the vector engine computes with"
    if not all(is_row_major(tensor_type(value)) for value in values):
        return "a tensor is not row-major"
    if any(tensor_type(root).get_shape() != shape for root in terminator.operands):
        return "a result has another shape"
    return ""


def _is_of_points(access: TensorAccess, shape: tuple[int, ...]) -> bool:
    """Is the tensor read at the index, or at the channel of the index alone?"""
    map = access.map
    if map.constraints or map.ranges or any(d.lo > 0 or d.hi < size - 1 for d, size in zip(map.dims, shape, strict=True)):
        return False
    at_index = tuple(Dim(d) for d in range(len(shape)))
    own = access.type.get_shape()
    return (own == shape and map.results == at_index) or (own == shape[-1:] and map.results == at_index[-1:])
