"""Gemm emitter: loops over outputs as the loop emitter's, in which the matrix engine computes dots.

    func.func @gemm(%p0: tensor<1024x1024xbf16>, %p1: tensor<1024x1024xbf16>, %r0: ...) -> ... attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %0 = xla.loop (%tile)[%step, %lane0, %lane1, %lane2] -> (%i, %j) in #map lanes 3 iter_args(%t = %r0) -> (...) {
        %1 = scf.for ... { xla.dot lanes 256 init(%acc : f32) { the row's element } by { the column's element } }
        %2 = arith.truncf ...
        %3 = tensor.insert %2 into %t[%i, %j]
        ...

What the fusion computes of a dot's operands is part of the dot's regions, on the block that was loaded; what it makes of the
result is computed on the block of the result, before it is stored. Several dots of one fusion share rows, columns and batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation

from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import LoopEmitter, Nest, emit_loops, is_empty
from hlo2tx8.hlo import Kind, numpy_dtype
from hlo2tx8.partitioner.accesses import AccessAnalysis
from hlo2tx8.partitioner.computation import PartitionedComputation, SubgraphFunction, partition
from hlo2tx8.partitioner.contraction import Contraction, Role, is_contraction, roles_of, why_not_on_engine
from hlo2tx8.partitioner.contraction_split import Work, parts_of, split_part
from hlo2tx8.partitioner.instruction import kind_of, tensor_type
from hlo2tx8.partitioner.iteration_space import IterationSpace, iteration_space
from hlo2tx8.partitioner.reduction_paths import loop_counters

SPM_SHARE = 0.95
"""What operands, sums and results of a step may take of the SPM; the rest is for what alignment and constants need."""
MACS_PER_CYCLE = 4096
"""Products of 16-bit and TF32 elements in a cycle of a tile's engine; of INT8 ones twice as many."""
OPERAND_COPIES = 3
"""Copies of an operand in SPM: one that is loaded, one that is multiplied, and one on the way between them."""
MOST_ALIVE = 4
"""Vectors of an epilogue that are alive at once, as far as it is estimated."""


@dataclass(frozen=True)
class _Loop:
    """A function with dots: its iteration space, what its dimensions are, and the operand of each dot that has the rows."""

    space: IterationSpace
    roles: tuple[Role, ...]
    rows: dict[Operation, int]


@dataclass(frozen=True)
class GemmMatch(Match):
    """A fusion with dots: `loops` has the functions that compute them."""

    partitioned: PartitionedComputation
    accesses: AccessAnalysis
    loops: dict[SubgraphFunction, _Loop]


@dataclass(frozen=True)
class GemmEmitter:
    """Takes fusions all of whose dots the matrix engine can compute, at one place each."""

    name = "gemm"

    def match(self, fusion: Fusion) -> Match | Declined:
        dots = [op for op in fusion.body.ops if op is not fusion.body.last_op and is_contraction(op)]
        if not dots:
            return Declined("there is no dot")
        reasons = [why for op in dots if (why := why_not_on_engine(op))]
        if reasons:
            return Declined(", ".join(dict.fromkeys(reasons)))
        taken = LoopEmitter().match(fusion)
        if isinstance(taken, Declined):
            return taken
        partitioned = partition(fusion.body)
        accesses = AccessAnalysis(partitioned, fusion.target)
        loops: dict[SubgraphFunction, _Loop] = {}
        for function in partitioned.functions:
            own = [op for op in function.instructions if is_contraction(op)]
            found = _loop(function, own, accesses) if own else ""
            if isinstance(found, _Loop):
                loops[function] = found
            elif found:
                return Declined(found)
        return GemmMatch(fusion, partitioned, accesses, loops)

    def emit(self, match: Match) -> ModuleOp:
        assert isinstance(match, GemmMatch)
        return emit_loops(match.fusion, match.partitioned, match.accesses, lambda function: _nests(match, function))


def _loop(function: SubgraphFunction, dots: Sequence[Operation], accesses: AccessAnalysis) -> _Loop | str:
    """How a function with dots is computed, or why it cannot be."""
    if is_empty(function):
        return ""
    if not function.is_entry_root and accesses.is_inlined(function):
        return "a dot is computed inside of another loop"
    space = iteration_space(tensor_type(function.roots[0]), accesses.of(function))
    if not space.is_affine:
        return "a dot is read through maps that are not affine"
    roles: tuple[Role, ...] | None = None
    rows: dict[Operation, int] = {}
    for op in dots:
        place = accesses.partitioned.places[op]
        if place.scope is not function.top or place.map.constraints:
            return "a dot serves only a part of the result"
        own, rows[op] = roles_of(op, place.map.results, space)
        if roles is not None and own != roles:
            return "two dots have different rows and columns"
        roles = own
    return _Loop(space, roles or (), rows)


def _nests(match: GemmMatch, function: SubgraphFunction) -> Sequence[Nest]:
    accesses, target = match.accesses, match.fusion.target
    if function not in match.loops:
        return [(accesses.split(function), {})]
    loop = match.loops[function]
    work = _work(function, list(loop.rows))
    may_cut = function.is_entry_root and len(match.partitioned.functions) == 1
    nests: list[Nest] = []
    for part in parts_of(loop.space, loop.roles, may_cut=may_cut):
        spm_bytes = int(target.spm_bytes * SPM_SHARE)
        split, depth = split_part(part, loop.space.to_output, work, target.tiles, spm_bytes, target.step_elements)
        nests.append((split, {op: _contraction(op, rows, depth) for op, rows in loop.rows.items()}))
    return nests


def _contraction(op: Operation, rows: int, depth: int) -> Contraction:
    """The counter with most turns goes by blocks."""
    counters = loop_counters(op)
    block = max(range(len(counters)), key=lambda i: counters[i].hi)
    loops = tuple(i for i in range(len(counters)) if i != block)
    extent = counters[block].hi + 1
    return Contraction(rows, loops, block, extent, min(depth, extent))


def _work(function: SubgraphFunction, dots: Sequence[Operation]) -> Work:
    """What a step of the function's loop costs."""
    operand = _width_bytes(tensor_type(dots[0].operands[0]).element_type)
    results = sum(_width_bytes(tensor_type(root).element_type) for root in function.roots)
    around = [op for op in function.instructions if kind_of(op) is Kind.ELEMENTWISE]
    read = {value: _width_bytes(tensor_type(value).element_type) for op in around for value in op.operands}
    beside = sum(width for value, width in read.items() if isinstance(value, BlockArgument))
    widest = max([4, *read.values()])
    alive = widest * min(len(around), MOST_ALIVE)
    kept = 4 * len(dots) + 2 * results + 2 * beside + alive
    macs = MACS_PER_CYCLE * (2 if operand == 1 else 1)
    return Work(max(map(_block_extent, dots)), operand, kept, results + beside, macs, OPERAND_COPIES * len(dots))


def _block_extent(op: Operation) -> int:
    return max(counter.hi + 1 for counter in loop_counters(op))


def _width_bytes(element: Attribute) -> int:
    return numpy_dtype(element).itemsize
