"""Reduction emitter: loops over outputs as the loop emitter's, in which reductions go by blocks of lanes.

    func.func @sum(%p0: tensor<4096x4096xf32>, %p1: tensor<f32>, %r0: tensor<4096xf32>) -> ... attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %0 = xla.loop (%tile)[%step, %lane] -> (%i) in #map lanes 1 iter_args(%t = %r0) -> (tensor<4096xf32>) {
        %init = tensor.extract %p1[]
        %1 = xla.reduce lanes 4096 init(%init : f32) {
        ^bb0(%k: index):
          %x = tensor.extract %p0[%i, %k]
          xla.yield %x
        } by { ... arith.addf ... }
        %2 = tensor.insert %1 into %t[%i]
        ...

A step computes some outputs of as many elements each as make its loads large; an output of more elements takes several blocks.
Epilogues, producers, further reductions and roots without one are part of the same functions as in the loop emitter.
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import LoopEmitter, emit_loops
from hlo2tx8.partitioner.reduction_order import why_in_order
from hlo2tx8.schedule.reduction_blocks import ReductionAnalysis


@dataclass(frozen=True)
class ReductionEmitter:
    """Takes fusions with a reduce, wherever in them, whose combiner gives the same in any order."""

    name = "reduction"

    def match(self, fusion: Fusion) -> Match | Declined:
        reasons = {op: why_in_order(op) for op in fusion.body.ops if op.name == "stablehlo.reduce"}
        if "" not in reasons.values():
            return Declined(", ".join(dict.fromkeys(reasons.values())))
        return LoopEmitter().match(fusion)

    def emit(self, match: Match) -> ModuleOp:
        accesses = match.fusion.accesses
        return emit_loops(match.fusion, accesses.partitioned, accesses, ReductionAnalysis(accesses).split)
