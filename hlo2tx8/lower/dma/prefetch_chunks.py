"""SCHEDULED → SCHEDULED: what a chunk of a group reads is loaded a chunk ahead, unless the chunk before read the same.

Before:                                       After:
    scf.for %turn = 0 to 3 {                      load(%k[head(0)]); load(%q[0])
      load(%k at head(%turn))                     scf.for %turn = 0 to 3 {
      load(%q at %turn)                             scf.if %turn + 1 < 3 {
      ... the steps of a chunk                        load(%q[%turn + 1])
    }                                                 scf.if head(%turn) < head(%turn + 1) { load(%k[head(%turn + 1)]) }
                                                    }
                                                    ... the steps of a chunk, on %q[%turn] and %k[head(%turn)]
                                                  }

Each buffer has two copies, used in turns: by chunk, or by what the place of the load depends on, (tile * 3 + turn) floordiv 4 say,
which grows by one at most from a chunk to the next. Where they have but one copy, `row_turns = 1`, the next chunk's loads stand
behind the steps of this one: each begins when the last of them has read what was there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import compare, constant_index, if_op, of_two, yield_op
from hlo2tx8.dialects.nested import nested_of
from hlo2tx8.indexing import Const, Dim, Expr, FloorDiv, IndexingMap
from hlo2tx8.lower.dma.slices import buffers_of, clone_slice, collect_slice, constant_of, instructions_in, turns_of


@dataclass(frozen=True)
class PrefetchChunksPass(ModulePass):
    """Loads the next chunk of a group while this one is computed; see the module docstring."""

    name = "prefetch-chunks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            for loop in [o for o in nested_of(function, scf.ForOp) if xla.ROW_TURNS in o.attributes]:
                _prefetch(loop)


@dataclass(frozen=True)
class _Load:
    """What a turn loads to a buffer, whole blocks of channels and the rest say; `index` says which copy of it that fills, None for
    that of the turn."""

    ops: tuple[Rdma, ...]
    alloc: spm.AllocOp
    index: IndexingMap | None
    operands: tuple[SSAValue, ...]


def _prefetch(loop: scf.ForOp) -> None:
    turns = turns_of(loop)
    loads = _loads(loop) if turns is not None and turns > 1 else []
    if not loads:
        return
    block, turn = loop.body.block, loop.body.block.args[0]
    parent = loop.parent_block()
    assert parent is not None
    wanted = loop.attributes[xla.ROW_TURNS]
    is_in_turns = isinstance(wanted, IntegerAttr) and wanted.value.data > 1
    for load in loads:
        load.alloc.detach()
        parent.insert_op_before(load.alloc, loop)
        load.alloc.copies = IntegerAttr(2 if is_in_turns else 1, load.alloc.copies.type)
    for load in reversed(loads) if is_in_turns else ():
        first = block.first_op
        assert first is not None
        copy = _copy_of(load, turn, turn, Builder(InsertPoint.before(first)))
        load.alloc.result.replace_uses_with_if(copy, lambda use: not isinstance(use.operation, spm.TurnOp))
    before = Builder(InsertPoint.before(loop))
    start = before.insert(constant_index(0)).result
    for load in loads:
        _emit(load, loop, start, before)
    last = block.last_op
    head = Builder(InsertPoint.before(last) if not is_in_turns and isinstance(last, scf.YieldOp) else InsertPoint.at_start(block))
    following = head.insert(of_two(arith.AddiOp, turn, loop.step)).result
    condition = head.insert(compare(following, loop.ub, "slt")).result
    ahead = Block()
    head.insert(if_op(condition, [], Region(ahead)))
    for load in sorted(loads, key=lambda load: load.index is not None):
        builder = Builder(InsertPoint.at_end(ahead))
        if load.index is None:
            _emit(load, loop, following, builder)
            continue
        now, then = (_index_at(load, turn, at, builder) for at in (turn, following))
        inside = Block()
        builder.insert(if_op(builder.insert(compare(now, then, "slt")).result, [], Region(inside)))
        _emit(load, loop, following, Builder(InsertPoint.at_end(inside)))
        inside.add_op(yield_op())
    ahead.add_op(yield_op())
    for op in [op for load in loads for op in load.ops]:
        op.detach()
        op.erase()


def _loads(loop: scf.ForOp) -> list[_Load]:
    """The loads of a turn to buffers that nothing else writes, in the order in which the turn needs them."""
    inside = list(instructions_in(loop))
    stored = {op.field("slot") for op in inside if isinstance(op, Wdma)}
    writers: dict[SSAValue, list[Instruction]] = {}
    needed: dict[SSAValue, int] = {}
    for position, op in enumerate(inside):
        for value in buffers_of(op, is_write=True):
            writers.setdefault(spm.root_buffer(value), []).append(op)
        for value in buffers_of(op, is_write=False):
            needed.setdefault(spm.root_buffer(value), position)
    block, found = loop.body.block, list[_Load]()
    for buffer, ops in writers.items():
        alloc, own = buffer.owner, tuple(op for op in ops if isinstance(op, Rdma) and op.parent is block)
        if not isinstance(alloc, spm.AllocOp) or alloc.parent is not block or len(own) < len(ops):
            continue
        if any(op.field("slot") in stored for op in own):
            continue
        indices = [_index_of(op, block.args[0]) for op in own]
        if all(index == indices[0] for index in indices):
            found.append(_Load(own, alloc, *indices[0]))
    return sorted(found, key=lambda load: needed.get(load.alloc.result, 0))


def _index_of(load: Rdma, turn: SSAValue) -> tuple[IndexingMap | None, tuple[SSAValue, ...]]:
    """What the place of a load depends on, if it may be the same in the next turn, and grows by one at most."""
    offset = load.field("offset")
    scale = offset.owner if isinstance(offset, SSAValue) else None
    apply = scale.lhs.owner if isinstance(scale, arith.MuliOp) else None
    if isinstance(apply, arith.AddiOp) and constant_of(apply.rhs) is not None:  # the channels behind whole blocks
        apply = apply.lhs.owner
    if not isinstance(apply, xla.ApplyIndexingOp) or list(apply.operands).count(turn) != 1 or apply.map.data.ranges:
        return None, ()
    map, leaf = apply.map.data, Dim(list(apply.operands).index(turn))
    quotients = _quotients(map.results[0], leaf)
    if not quotients or any(quotient.lhs != quotients[0].lhs for quotient in quotients):
        return None, ()
    divisor = gcd(*(quotient.rhs.value for quotient in quotients if isinstance(quotient.rhs, Const)))
    moved = quotients[0].lhs.affine_terms()[1].get(leaf, 0)
    if not 0 < moved <= divisor:
        return None, ()
    index = FloorDiv(quotients[0].lhs, Const(divisor))
    used = [i for i in range(len(map.dims)) if Dim(i) in index.leaves()]
    renamed: list[Expr] = [Dim(used.index(i)) if i in used else Const(0) for i in range(len(map.dims))]
    whole = IndexingMap(tuple(map.dims[i] for i in used), (), (), (index.substitute(renamed, ()),))
    return whole, tuple(apply.operands[i] for i in used)


def _quotients(expr: Expr, leaf: Dim) -> list[FloorDiv] | None:
    """The quotients through which an expression depends on a variable, None if it depends on it otherwise too."""
    if leaf not in expr.leaves():
        return []
    if isinstance(expr, FloorDiv) and isinstance(expr.rhs, Const) and leaf in expr.lhs.affine_terms()[1]:
        return [expr]
    parts: Sequence[Expr] = [part for name in ("lhs", "rhs") if isinstance(part := getattr(expr, name, None), Expr)]
    found: list[FloorDiv] = []
    for part in parts:
        inner = _quotients(part, leaf)
        if inner is None:
            return None
        found += inner
    return found or None


def _index_at(load: _Load, turn: SSAValue, at: SSAValue, builder: Builder) -> SSAValue:
    """The index of a load in a turn."""
    assert load.index is not None
    operands = [at if value is turn else value for value in load.operands]
    return builder.insert(xla.ApplyIndexingOp(xla.IndexingMapAttr(load.index), operands)).res[0]


def _copy_of(load: _Load, turn: SSAValue, at: SSAValue, builder: Builder) -> SSAValue:
    """The copy of a load's buffer that it fills in a turn."""
    number = at if load.index is None else _index_at(load, turn, at, builder)
    return builder.insert(spm.TurnOp(load.alloc.result, number)).result


def _emit(load: _Load, loop: scf.ForOp, at: SSAValue, builder: Builder) -> None:
    """What a turn loads, into the copy of the buffer that it fills then."""
    turn = loop.body.block.args[0]
    wanted: set[Operation] = set()
    for op in load.ops:
        collect_slice(op, loop, wanted)
    clone_slice(loop.body.block, wanted, {turn: at}, builder)
