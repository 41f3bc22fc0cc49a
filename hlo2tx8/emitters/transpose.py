"""Transpose emitter: a step moves a tile that reaches far along the dimensions of what is read and of what is written.

    func.func @transpose(%p0: tensor<4096x4096xf32>, %r0: tensor<4096x4096xf32>) -> ... attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %0 = xla.loop (%tile)[%step, %lane0, %lane1] -> (%i, %j) in #map lanes 2 iter_args(%t = %r0) -> (...) {
        %1 = xla.pure_call @transpose_transpose(%p0, %i, %j) : (..) -> f32              reads %p0[%j, %i]
        %2 = tensor.insert %1 into %t[%i, %j]
        ...

RDMA loads the tile in the order that the operand has in DDR, in long runs; TDMA turns it in SPM; what the fusion computes of
the operand, or makes of the result, is computed on the turned tile; WDMA stores it in long runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import LoopEmitter, Nest, emit_loops, has_loop
from hlo2tx8.partitioner.computation import SubgraphFunction
from hlo2tx8.schedule.transpose_tiles import split_tiles, turned_space


@dataclass(frozen=True)
class TransposeEmitter:
    """Takes fusions that read a tensor contiguously along a dimension that is not the innermost of what they write."""

    name = "transpose"

    def match(self, fusion: Fusion) -> Match | Declined:
        taken = LoopEmitter().match(fusion)
        if isinstance(taken, Declined):
            return taken
        accesses = fusion.accesses
        loops = [function for function in accesses.partitioned.functions if has_loop(function, accesses)]
        if not any(turned_space(function, accesses) for function in loops):
            return Declined("every tensor is read in the order in which the results are written")
        return taken

    def emit(self, match: Match) -> ModuleOp:
        accesses = match.fusion.accesses

        def nests(function: SubgraphFunction) -> Sequence[Nest]:
            return [(split_tiles(function, accesses), {})]

        return emit_loops(match.fusion, accesses.partitioned, accesses, nests)
