"""SCHEDULED → SCHEDULED: loads of steps of a group, or of updates in order, that continue each other are one in front of the loop.

Before:                                              After:
    scf.for %step = 0 to 4 {                             %b = spm.alloc {size = 16384}
      %b = spm.alloc {size = 4096}                       RDMA_load dst(%b) offset(at step 0) count(8192)
      %o = apply (tile, step) -> (... + step * 2048)     scf.for %step = 0 to 4 {
      RDMA_load dst(%b) offset(%o) count(2048)             %c = spm.offset %b, %step * 4096
      NE_gemm left(%b) ...                                 NE_gemm left(%c) ...
    }                                                    }

The rows of a chunk then come with what all of them need, a chunk ahead, and no step waits behind a large load.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Rounding
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import constant_index, of_two
from hlo2tx8.dialects.nested import nested_of
from hlo2tx8.indexing import Const, Dim, Expr, Sym, simplify_expr
from hlo2tx8.lower.dma.slices import constant_of, instructions_in, turns_of, writers_in

LEVELS = (("s1", "n1"), ("s2", "n2"), ("s3", "n3"))
WIDENED = frozenset((xla.ROW_STEPS, xla.IN_ORDER))
"""Attributes of the loops whose loads are joined."""
SPM_PART = 8
"""A widened buffer takes at most this part of the scratchpad."""


@dataclass(frozen=True)
class WidenLoadsPass(ModulePass):
    """Joins the loads of a group's steps; see the module docstring. chip: file of the description, "" for the built-in one."""

    name = "widen-loads"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            for loop in [o for o in nested_of(function, scf.ForOp) if not WIDENED.isdisjoint(o.attributes)]:
                if xla.GATHERS_ROWS not in function.attributes or not _is_first(loop):
                    _widen(loop, load_chip(self.chip).spm_bytes // SPM_PART)


def _is_first(loop: scf.ForOp) -> bool:
    """Are they the steps of all rows that a tile has, first of all in a kernel? There is nothing to load them beside, and the first
    step need not wait for the others' rows."""
    turns = loop.parent_op()
    if not isinstance(turns, scf.ForOp) or turns_of(turns) != 1:
        return False
    op = turns.prev_op
    while op is not None and not isinstance(op, scf.ForOp):
        op = op.prev_op
    return op is None


def _widen(loop: scf.ForOp, most_bytes: int) -> None:
    turns = turns_of(loop)
    if turns is None or turns < 2:
        return
    stored = {op.field("slot") for op in instructions_in(loop) if isinstance(op, Wdma)}
    written = writers_in(loop)
    for alloc in [op for op in loop.body.block.ops if isinstance(op, spm.AllocOp)]:
        writers = written.get(alloc.result, [])
        if len(writers) != 1 or not isinstance(load := writers[0], Rdma) or load.parent is not loop.body.block:
            continue
        if load.field("slot") in stored or load.field("dst") is not alloc.result:
            continue
        widen_load(alloc, load, loop, turns, most_bytes)


def widen_load(alloc: spm.AllocOp, load: Rdma, loop: scf.ForOp, turns: int, most_bytes: int) -> None:
    """Puts one load of all turns in front of a loop for the load of each, if it is one of at most so many bytes."""
    place = _place(load)
    if alloc.size_bytes * turns <= most_bytes and place is not None and (wide := _widened(load, place, loop, turns)) is not None:
        _replace(alloc, load, wide, place, loop, turns)


@dataclass(frozen=True)
class _Place:
    """A load's offset: `value`, which is result `number` of `apply`, times `size`."""

    apply: xla.ApplyIndexingOp
    value: SSAValue
    size: int


def _place(load: Rdma) -> _Place | None:
    value, size = load.field("offset"), 1
    if isinstance(value, SSAValue) and isinstance(scale := value.owner, arith.MuliOp):
        value, size = scale.lhs, constant_of(scale.rhs)
    if not isinstance(value, SSAValue) or not isinstance(value.owner, xla.ApplyIndexingOp) or size is None:
        return None
    return _Place(value.owner, value, size)


def _widened(load: Rdma, place: _Place, loop: scf.ForOp, turns: int) -> dict[str, int] | None:
    """The fields of a load of all turns, None if their elements do not continue each other."""
    fields: dict[str, int] = {}
    for name in ("count", *(name for level in LEVELS for name in level)):
        value = load.field(name)
        number = constant_of(value) if isinstance(value, SSAValue) else value
        if not isinstance(number, int):
            return None
        fields[name] = number
    moved = _moved_per_turn(place, loop)
    if moved is None:
        return None
    used = [(stride, number) for stride, number in LEVELS if fields[number] > 1]
    if not used:
        if moved == fields["count"]:
            return fields | {"count": fields["count"] * turns}
        return fields | {"s1": moved, "n1": turns}
    stride, number = used[-1]
    if moved == fields[stride] * fields[number]:
        return fields | {number: fields[number] * turns}
    free = [level for level in LEVELS if fields[level[1]] == 1 and LEVELS.index(level) > LEVELS.index((stride, number))]
    return fields | {free[0][0]: moved, free[0][1]: turns} if free else None


def _moved_per_turn(place: _Place, loop: scf.ForOp) -> int | None:
    """Elements between the places of two turns that follow each other, None if that is no one number or not positive."""
    map, rank = place.apply.map.data, len(place.apply.map.data.dims)
    leaves: list[Expr] = [
        leaf
        for leaf, value in zip(
            [*(Dim(i) for i in range(rank)), *(Sym(i) for i in range(len(map.ranges)))], place.apply.operands, strict=True
        )
        if value is loop.body.block.args[0]
    ]
    if len(leaves) != 1 or map.runtime:
        return None
    (leaf,) = leaves

    def at(offset: int) -> Expr:
        dims = [Dim(i) + offset if Dim(i) == leaf else Dim(i) for i in range(rank)]
        syms = [Sym(i) + offset if Sym(i) == leaf else Sym(i) for i in range(len(map.ranges))]
        return map.results[0].substitute(dims, syms)

    bounds = [v.interval for v in map.dims], [v.interval for v in map.ranges]
    difference = simplify_expr(at(1) - at(0), *bounds)
    return difference.value if isinstance(difference, Const) and difference.value > 0 else None


def _replace(alloc: spm.AllocOp, load: Rdma, wide: dict[str, int], place: _Place, loop: scf.ForOp, turns: int) -> None:
    parent = loop.parent_block()
    assert parent is not None
    size = alloc.size_bytes
    mapping: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: loop.lb}
    buffer = spm.AllocOp(size * turns)
    apply = place.apply.clone(value_mapper=mapping)
    factor = constant_index(place.size)
    scaled = of_two(arith.MuliOp, apply.res[place.apply.res.index(place.value)], factor.result)
    places = {"dst": buffer.result, "slot": load.field("slot"), "offset": scaled.result}
    whole = Rdma.make(fmt=load.fmt, fmt2=None, rnd=Rounding.NEAREST_EVEN, origin=load.origin, **places, **wide)
    parent.insert_ops_before([buffer, apply, factor, scaled, whole], loop)
    stride = constant_index(size)
    moved = of_two(arith.MuliOp, loop.body.block.args[0], stride.result)
    part = spm.OffsetOp(buffer.result, moved.result)
    loop.body.block.insert_ops_before([stride, moved, part], alloc)
    load.detach()
    load.erase()
    alloc.result.replace_all_uses_with(part.result)
    alloc.detach()
    alloc.erase()
