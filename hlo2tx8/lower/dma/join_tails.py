"""The loop over a product's tail becomes part of the loop over its whole blocks, so that both multiply the same rows.

scf.for %step {                             scf.for %step {
  scf.for %k { load(%a); load(%b)             scf.for %k { load(%a); load(%b)
    gemm(%a, %b) }                              gemm(%a, %b)
  load(%a'); load(%b'); gemm(%a', %b')          scf.if %last { load(%t); gemm(%a, %t) } }
  store                                       load(%a'); load(%b')
}                                             scf.if %last { load(%t'); gemm(%a', %t'); store }
scf.for %step { scf.if %last {          ⟶     gemm(%a', %b')
  scf.for %k { load(%a); load(%t)             store
    gemm(%a, %t) }                          }
  load(%a'); load(%t'); gemm(%a', %t')
  store
} }
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.forms import CtInstruction
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.made import if_op, yield_op
from hlo2tx8.dialects.nested import cloned, ops_of
from hlo2tx8.lower.dma.mesh import ROW, TileIndex
from hlo2tx8.lower.dma.slices import roots_of, turns_of

SHARED = (Rdma, TdmaGatherScatter, CtInstruction)
"""What brings rows for both products, and makes of them what is multiplied."""
TAIL = "is_tail"
"""Of a branch: what it has belongs to the tail of a product."""


def join_tails(loops: Sequence[scf.ForOp], index: TileIndex) -> list[scf.ForOp]:
    """The loops of which each that goes over the same rows as the one before it, for some tiles, is part of that one now."""
    found: list[scf.ForOp] = []
    for loop in loops:
        branch = only_branch(loop)
        if found and branch is not None and _match(found[-1], loop, branch, index) and _is_ready(found[-1], loop):
            _Joining(found[-1], {loop.body.block.args[0]: found[-1].body.block.args[0]}).run(loop, branch)
        else:
            found.append(loop)
    return found


def _is_ready(main: scf.ForOp, tail: scf.ForOp) -> bool:
    """Moves what the tail needs from before its loop to before the main one; False if that is not known to be the same."""
    between: list[Operation] = []
    op = main.next_op
    while op is not None and op is not tail:
        between.append(op)
        op = op.next_op
    brought = Rdma | TdmaGatherScatter | TdmaMemset | CtInstruction | spm.AllocOp
    block = main.parent_block()
    if block is None or any(not isinstance(op, brought) and not is_side_effect_free(op) for op in between):
        return False
    for op in between:
        op.detach()
        block.insert_op_before(op, main)
    return True


def only_branch(loop: scf.ForOp) -> scf.IfOp | None:
    """What all of a loop's instructions are inside of, if only some tiles have it to do."""
    ops = ops_of(loop.body.block)
    branches = [op for op in ops if isinstance(op, scf.IfOp)]
    rest = [op for op in ops if op not in branches and not isinstance(op, scf.YieldOp)]
    return branches[0] if len(branches) == 1 and all(is_side_effect_free(op) for op in rest) else None


def _match(main: scf.ForOp, tail: scf.ForOp, branch: scf.IfOp, index: TileIndex) -> bool:
    """Have both loops the same products of panels one after the other, the tail's on all tiles of a mesh column or on none?"""
    compare = branch.cond.owner
    places = [index.dependence(value) for value in compare.operands] if isinstance(compare, arith.CmpiOp) else [None]
    if any(place is None or ROW in place for place in places):  # the tile that loads for a column may have none of the tail
        return False
    pairs = [list(_products(block)) for block in (main.body.block, branch.true_region.block)]
    kinds = [[turns_of(op) if isinstance(op, scf.ForOp) else 1 for op in products] for products in pairs]
    return turns_of(main) is not None and turns_of(main) == turns_of(tail) and kinds[0] == kinds[1] and None not in kinds[0]


def _products(block: Block) -> Iterator[scf.ForOp | NeGemm]:
    """The products of a block, and the loops in it that have one."""
    for op in block.ops:
        if isinstance(op, NeGemm) or (isinstance(op, scf.ForOp) and any(isinstance(inner, NeGemm) for inner in op.body.block.ops)):
            yield op


@dataclass(frozen=True)
class _Joining:
    """The joining of a loop to the main one. `mapping`: values of the loop that is taken apart to those of the main one."""

    main: scf.ForOp
    mapping: dict[SSAValue, SSAValue]

    def run(self, loop: scf.ForOp, branch: scf.IfOp) -> None:
        """Puts what the branch has into the main loop, product by product, and erases the loop."""
        block = branch.true_region.block
        segment = [op for op in loop.body.block.ops if op is not branch]
        places = list(_products(self.main.body.block))
        place_of: dict[Operation, scf.ForOp | NeGemm] = dict(zip(_products(block), places, strict=True))
        for op in block.ops:
            place = place_of.get(op)
            if place is None:
                segment.append(op)
                continue
            if isinstance(op, scf.ForOp) and isinstance(place, scf.ForOp):
                self.put(segment, InsertPoint.before(place), branch.cond)
                self.mapping[op.body.block.args[0]] = place.body.block.args[0]
                self.put(ops_of(op.body.block), _among(place), branch.cond)
                segment = []
            else:
                segment.append(op)
                if place is not places[-1]:
                    self.put(segment, InsertPoint.before(place), branch.cond)
                    segment = []
        last = places[-1]
        self.put(segment, InsertPoint.before(last) if isinstance(last, NeGemm) else _end_of(self.main), branch.cond)
        loop.detach()
        loop.erase()

    def put(self, ops: Sequence[Operation], point: InsertPoint, condition: SSAValue) -> None:
        """Clones operations: instructions into a branch, what they depend on in front of it, and nothing that is there already."""
        builder, inside, known = Builder(point), Block(), self.known(point, {})
        groups, waiting = _moved_together(ops), dict[SSAValue, list[Operation]]()
        for op in ops:
            if isinstance(op, scf.YieldOp):
                continue
            if isinstance(op, TdmaGatherScatter) and (alloc := _root_written(op)) in groups:
                waiting.setdefault(alloc, []).append(op)
                if op is not groups[alloc][-1]:
                    continue
                first = known.get(self.key_of_moves(groups[alloc], self.mapping))
                if first is None:
                    for move in waiting[alloc]:
                        inside.add_op(cloned(move, self.mapping))
                    continue
                copy, own = self.mapping[alloc], _root_written(first)
                assert isinstance(copy.owner, spm.AllocOp)
                copy.replace_all_uses_with(own)
                Rewriter.erase_op(copy.owner)
                self.mapping[alloc] = own
                continue
            twin = known.get(self.key(op, self.mapping))
            if twin is not None and isinstance(op, SHARED):
                old, new = _own_buffer(op), _own_buffer(twin)
                assert old is not None and new is not None
                copy = self.mapping[old.result].owner
                assert isinstance(copy, Operation)
                copy.detach()
                copy.erase()
                self.mapping[old.result] = new.result
            elif twin is not None:
                self.mapping.update(zip(op.results, twin.results, strict=True))
            elif is_side_effect_free(op) or isinstance(op, spm.AllocOp):
                builder.insert(cloned(op, self.mapping))
            else:
                inside.add_op(cloned(op, self.mapping))
        if not inside.is_empty:
            inside.add_op(yield_op())
            branch = builder.insert(if_op(self.mapping[condition], [], Region(inside)))
            branch.attributes[TAIL] = UnitAttr()

    def known(self, point: InsertPoint, first: dict[SSAValue, SSAValue]) -> dict[object, Operation]:
        """What the main loop has before a place, by what that is; `first` learns for each value the first that is the same."""
        found: dict[object, Operation] = {}
        block, end = point.block, point.insert_before
        if block is not self.main.body.block:
            loop = block.parent_op()
            assert loop is not None
            found = self.known(InsertPoint.before(loop), first)
        for op in block.ops:
            if op is end:
                break
            if (key := self.key(op, first)) is not None:
                first.update(zip(op.results, found.setdefault(key, op).results, strict=True))
        before = list(itertools.takewhile(lambda op: op is not end, block.ops))
        for moves in _moved_together(before).values():
            found[self.key_of_moves(moves, first)] = moves[0]
        return found

    def key_of_moves(self, moves: Sequence[TdmaGatherScatter], mapping: dict[SSAValue, SSAValue]) -> object:
        """What moves make of a buffer of their own."""
        return tuple((_offset_written(op, mapping), *self.values_of(op, mapping)) for op in moves)

    def values_of(self, op: Instruction, mapping: dict[SSAValue, SSAValue]) -> list[object]:
        """All that an instruction does, but where to."""
        values = {name: mapping.get(v, v) if isinstance(v, SSAValue) else v for name, v in op.values().items() if name != "dst"}
        return [op.name, op.code, *values.items()]

    def key(self, op: Operation, mapping: dict[SSAValue, SSAValue]) -> object:
        """What an operation computes, or a transfer writes to a buffer of its own; None if two such may not be one."""
        if isinstance(op, SHARED) and _own_buffer(op) is not None:
            return tuple(self.values_of(op, mapping))
        if op.regions or not op.results or not is_side_effect_free(op):
            return None
        return op.name, *sorted(op.properties.items()), *(mapping.get(value, value) for value in op.operands)


def _own_buffer(op: Operation) -> spm.AllocOp | None:
    """The buffer that nothing but this transfer writes, from its beginning on."""
    assert isinstance(op, SHARED)
    dst = op.field("dst")
    if not isinstance(dst, SSAValue) or not isinstance(dst.owner, spm.AllocOp):
        return None
    return dst.owner if all(user is op or dst not in roots_of(user, is_write=True) for user in _users(dst)) else None


def _moved_together(ops: Sequence[Operation]) -> dict[SSAValue, list[TdmaGatherScatter]]:
    """The moves, among operations, of buffers that several of them write, and nothing else does."""
    found: dict[SSAValue, list[TdmaGatherScatter]] = {}
    for op in ops:
        if isinstance(op, TdmaGatherScatter) and isinstance(_root_written(op).owner, spm.AllocOp):
            found.setdefault(_root_written(op), []).append(op)
    writers = {alloc: [op for op in _users(alloc) if alloc in roots_of(op, is_write=True)] for alloc in found}
    return {alloc: moves for alloc, moves in found.items() if len(writers[alloc]) == len(moves) > 1}


def _root_written(op: Operation) -> SSAValue:
    """The buffer that an instruction writes."""
    assert isinstance(op, Instruction)
    return roots_of(op, is_write=True)[0]


def _offset_written(op: TdmaGatherScatter, mapping: dict[SSAValue, SSAValue]) -> object:
    """Where in its buffer a move writes."""
    dst = op.field("dst")
    owner = dst.owner if isinstance(dst, SSAValue) else None
    return mapping.get(owner.bytes, owner.bytes) if isinstance(owner, spm.OffsetOp) else 0


def _users(buffer: SSAValue) -> Iterator[Instruction]:
    """The instructions that access a buffer."""
    for use in buffer.uses:
        if isinstance(use.operation, Instruction):
            yield use.operation
        elif isinstance(use.operation, spm.OffsetOp | spm.TurnOp):
            yield from _users(use.operation.result)


def _among(loop: scf.ForOp) -> InsertPoint:
    """Where the tail's products come among those of a loop's turn: last; of parts that the vector engine makes first, as there are
    so many that the short ones of the tail would be all that is left in the queue when tiles meet."""
    ops = ops_of(loop.body.block)
    is_split = any(isinstance(op, CtInstruction) for op in ops)
    first = next((op for op in ops if isinstance(op, NeGemm)), None) if is_split else None
    return _end_of(loop) if first is None else InsertPoint.before(first)


def _end_of(loop: scf.ForOp) -> InsertPoint:
    """Before the last operation of a loop's body, which may be left out."""
    last = loop.body.block.last_op
    return InsertPoint.before(last) if isinstance(last, scf.YieldOp) else InsertPoint.at_end(loop.body.block)
