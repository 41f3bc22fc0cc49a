"""Concatenate emitter: a loop for each operand of a concatenation, so that no vector has elements of two.

    %0 = xla.loop (%tile)[%step, %lane] -> (%i, %j) in #first iter_args(%t = %r0) {          x : [64, 32]
      %1 = xla.pure_call @f_concatenate(%p0, %p1, %i, %j)
      %2 = tensor.insert %1 into %t[%i, %j] ...
    %3 = xla.loop (%tile)[%step, %lane] -> (%i, %j + 32) in #second iter_args(%t = %0) {     y : [64, 16]
      %4 = xla.pure_call @f_concatenate_part_1(%p0, %p1, %i, %j) ...

Operands of equal sizes that are made of the same elements share a loop, which inserts an element of each in a step:

    %0 = xla.loop (%tile)[%step, %lane] -> (%i, %j) in #first iter_args(%t = %r0) {          x : [64, 32], y : [64, 32]
      %1 = xla.pure_call @f_concatenate(%p0, %p1, %i, %j)
      %2 = tensor.insert %1 into %t[%i, %j]
      %3, %4 = xla.apply_indexing (%i, %j) -> (%i, %j + 32)
      %5 = xla.pure_call @f_concatenate_part_1(%p0, %p1, %3, %4)
      %6 = tensor.insert %5 into %2[%3, %4] ...

What is computed of the operands, and what is made of the result, is part of the same functions as in the loop emitter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import LoopEmitter, Nest, emit_loops
from hlo2tx8.partitioner.computation import SubgraphFunction
from hlo2tx8.schedule.concatenate_parts import has_parts, split_concatenation


@dataclass(frozen=True)
class ConcatenateEmitter:
    """Takes fusions with a concatenation at the index of a root, each of whose operands has work for all tiles."""

    name = "concatenate"

    def match(self, fusion: Fusion) -> Match | Declined:
        taken = LoopEmitter().match(fusion)
        if isinstance(taken, Declined):
            return taken
        accesses = fusion.accesses
        if not any(has_parts(function, accesses) for function in accesses.partitioned.functions):
            return Declined("no concatenation at the index of a root has operands with work for all tiles")
        return taken

    def emit(self, match: Match) -> ModuleOp:
        accesses = match.fusion.accesses

        def nests(function: SubgraphFunction) -> Sequence[Nest]:
            return [(split, {}) for split in split_concatenation(function, accesses)]

        return emit_loops(match.fusion, accesses.partitioned, accesses, nests)
