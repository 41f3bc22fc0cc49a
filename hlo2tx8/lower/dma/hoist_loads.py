"""SCHEDULED → SCHEDULED: what every turn of a loop loads alike is loaded once, in front of the loop.

Before:                                            After:
    scf.for %step = 0 to 4 {                           %b = spm.alloc
      %b = spm.alloc                                   %o = apply (tile) -> (tile * 8192)
      %o = apply (tile, step) -> (tile * 8192)         RDMA_load dst(%b) offset(%o)
      RDMA_load dst(%b) offset(%o)                     scf.for %step = 0 to 4 {
      NE_gemm right(%b) ...                              NE_gemm right(%b) ...
    }                                                  }

A buffer is hoisted with all that writes it: loads of tensors that the loop does not write, memsets, moves from buffers that are
hoisted too, and loops of these that write nothing else. What is under a condition that no turn meets if the first one does not, as
where a tile has fewer steps than others, is loaded if the first turn meets it. Loads of a group's only step leave its loop too, so
that they can be those of a chunk, and run a chunk ahead.
"""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.dialects import spm, vec, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import if_op, put, yield_op
from hlo2tx8.dialects.nested import cloned, nested_of, nested_ops, ops_of
from hlo2tx8.indexing import Dim, Sym
from hlo2tx8.lower.dma.slices import buffers_of, constant_of, instructions_in, is_inside, turns_of, writers_in

MOVES = (Rdma, TdmaMemset, TdmaGatherScatter)
"""What may write a buffer that is hoisted."""


@dataclass(frozen=True)
class HoistLoadsPass(ModulePass):
    """Moves loads that do not depend on a loop in front of it; see the module docstring."""

    name = "hoist-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            for loop in reversed(nested_of(function, scf.ForOp)):
                if (turns_of(loop) or 0) > (xla.ROW_STEPS not in loop.attributes):
                    for guards in [(), *_guards(loop)]:
                        _Hoisting(loop, guards).run()


def _guards(loop: scf.ForOp) -> list[tuple[scf.IfOp, ...]]:
    """Branches of a loop's body, each with those around it, outermost first, that the first turn takes if any does."""
    found: list[tuple[scf.IfOp, ...]] = []
    waiting: list[tuple[tuple[scf.IfOp, ...], Block]] = [((), loop.body.block)]
    while waiting:
        around, block = waiting.pop()
        for op in ops_of(block):
            if isinstance(op, scf.IfOp) and _is_met_first(op, loop):
                found.append((*around, op))
                waiting.append((found[-1], op.true_region.block))
    return found


def _is_met_first(guard: scf.IfOp, loop: scf.ForOp) -> bool:
    """Is a condition of each turn, that something is left to do, met by the first one if by any?"""
    condition = guard.cond.owner
    if guard.results or guard.false_region.blocks or not isinstance(condition, arith.CmpiOp):
        return False
    left, predicate = condition.lhs.owner, arith.CMPI_COMPARISON_OPERATIONS[condition.predicate.value.data]
    if not isinstance(left, vec.ExtentOp) or left.kind.data != "min" or predicate != "sgt" or constant_of(condition.rhs) != 0:
        return False
    if any(isinstance(value.owner, Operation) and is_inside(value.owner, loop) for value in left.ivs):
        return False
    map = left.map.data
    leaves = [*(Dim(i) for i in range(len(map.dims))), *(Sym(i) for i in range(len(left.ivs) - len(map.dims)))]
    turn = {leaf for leaf, value in zip(leaves, left.ivs, strict=True) if value is loop.body.block.args[0]}
    terms = [term for result in map.results for term in result.affine_terms()[1].items()]
    return all(factor <= 0 if term in turn else turn.isdisjoint(term.leaves()) for term, factor in terms)


class _Hoisting:
    """What can leave one loop, of its body or of what is under conditions there."""

    def __init__(self, loop: scf.ForOp, guards: tuple[scf.IfOp, ...]) -> None:
        self.loop, self.guards = loop, guards
        self.around: list[Block] = [loop.body.block, *(guard.true_region.block for guard in guards)]
        self.body = self.around[-1]
        self.stored = {op.field("slot") for op in instructions_in(loop) if isinstance(op, Wdma)}
        self.writers = writers_in(loop)
        self.known: dict[SSAValue, bool] = {}

    def run(self) -> None:
        """Moves what is the same in all turns, in program order."""
        moved: list[Operation] = []
        for op in self.body.ops:
            if isinstance(op, spm.AllocOp) and op.result in self.writers and self._is_same(op.result):
                moved += [op, *dict.fromkeys(self._in_body(writer) for writer in self.writers[op.result])]
        if not moved:
            return
        needed: set[Operation] = set()
        for op in moved:
            self._collect(op, needed)
        for guard in self.guards:
            self._collect_value(guard.cond, needed)
        mapping: dict[SSAValue, SSAValue] = {self.loop.body.block.args[0]: self.loop.lb}
        place, gone = Builder(InsertPoint.before(self.loop)), {*moved}
        buffers = [op for op in needed if isinstance(op, spm.AllocOp)]
        self._clone([op for op in self.body.ops if op in buffers], place, mapping, gone)
        for block, guard in zip(self.around, (*self.guards, None), strict=True):
            self._clone([op for op in block.ops if op in needed and op not in buffers], place, mapping, gone)
            if guard is not None:
                inside = Block([yield_op()])
                put(place, if_op(mapping[guard.cond], [], Region(inside)))
                place = Builder(InsertPoint.at_start(inside))
        for op in reversed(ops_of(self.body)):
            if op in gone:
                op.detach()
                op.erase()

    def _clone(self, ops: list[Operation], place: Builder, mapping: dict[SSAValue, SSAValue], gone: set[Operation]) -> None:
        """Puts ops as they are in the first turn in a place; those that will be gone are replaced by them."""
        for op in ops:
            new = put(place, cloned(op, mapping))
            for old, value in zip(op.results, new.results, strict=True):
                value.name_hint = old.name_hint
                if op in gone:
                    old.replace_all_uses_with(value)

    def _is_same(self, buffer: SSAValue) -> bool:
        """Has a buffer of the loop the same elements in every turn?"""
        if buffer not in self.known:
            self.known[buffer] = False  # until the contrary is shown: a buffer that is made of itself changes
            writers = self.writers.get(buffer, [])
            is_around = isinstance(buffer.owner, Operation) and buffer.owner.parent in self.around[:-1]  # and does not move
            self.known[buffer] = bool(writers) and not is_around and all(self._may_move(op) for op in writers)
        return self.known[buffer]

    def _in_body(self, op: Operation) -> Operation:
        """The op of the body that an op is, or is inside of."""
        while op.parent is not self.body:
            parent = op.parent_op()
            assert parent is not None
            op = parent
        return op

    def _may_move(self, op: Instruction) -> bool:
        """May it be done once, with the loops that are around it in the body?"""
        around: Operation = op
        while around.parent is not self.body:
            parent = around.parent_op()
            if not isinstance(parent, scf.ForOp) or parent.results or not all(map(self._is_invariant, parent.operands)):
                return False
            around = parent
        buffers = {spm.root_buffer(value) for each in instructions_in(around) for value in buffers_of(each, is_write=True)}
        return len(buffers) == 1 and all(self._is_move(each) for each in instructions_in(around))

    def _is_move(self, op: Instruction) -> bool:
        if not isinstance(op, MOVES) or (isinstance(op.parent_op(), scf.IfOp) and op.parent is not self.body):
            return False
        if isinstance(op, Rdma) and op.field("slot") in self.stored:
            return False
        roots = [spm.root_buffer(value) for value in buffers_of(op, is_write=False)]
        return all(self._is_same(root) for root in roots) and all(self._is_invariant(value) for value in op.operands)

    def _is_invariant(self, value: SSAValue) -> bool:
        """Does a value of the loop's body not depend on the turn? Those of loops inside, which move as a whole, do not."""
        if value is self.loop.body.block.args[0]:
            return False
        owner = value.owner
        if not isinstance(owner, Operation) or not is_inside(owner, self.loop):
            return True
        match owner:
            case spm.AllocOp():
                return True
            case xla.ApplyIndexingOp():
                used = {leaf for result in owner.map.data.results for leaf in result.leaves()}
                rank = len(owner.map.data.dims)
                leaves = [Dim(i) if i < rank else Sym(i - rank) for i in range(len(owner.operands))]
                return all(leaf not in used or self._is_invariant(v) for leaf, v in zip(leaves, owner.operands, strict=True))
            case spm.OffsetOp() | arith.ConstantOp() | arith.MuliOp() | arith.AddiOp() | arith.SubiOp():
                return all(self._is_invariant(v) for v in owner.operands)
            case _:
                return False

    def _collect(self, op: Operation, needed: set[Operation]) -> None:
        """An op of the body and those that make operands of it and of what is inside."""
        if op in needed:
            return
        needed.add(op)
        for value in (operand for inner in nested_ops(op) for operand in inner.operands):
            self._collect_value(value, needed)

    def _collect_value(self, value: SSAValue, needed: set[Operation]) -> None:
        if isinstance(value.owner, Operation) and value.owner.parent in self.around:
            self._collect(value.owner, needed)
