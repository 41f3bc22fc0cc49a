"""SCHEDULED → SCHEDULED: what a tile loads again after tiles have met stays in its scratchpad from the first time on.

Before:                                              After:
                                                         %kept = spm.alloc {size = 65536}
    scf.for %k = 0 to 8 {                                scf.for %k = 0 to 8 {
      %a = spm.alloc {size = 8192}                         %a = spm.offset %kept, %k * 8192
      RDMA_load dst(%a) offset(tile * 65536 + k * 8192)    RDMA_load dst(%a) offset(tile * 65536 + k * 8192)
      add %a ...                                           add %a ...
    }                                                    }
    xla.sync_tiles                                       xla.sync_tiles
    scf.for %step = 0 to 16 {                            scf.for %step = 0 to 16 {
      %b = spm.alloc {size = 4096}
      RDMA_load dst(%b) offset(tile * 65536 + step * 4096)
      mul %b ...                                           mul (spm.offset %kept, %step * 4096) ...
    }                                                    }

The first loop must load all of a tile's share of the tensor, each element once; a later one may load it in other steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import constant_index, of_two
from hlo2tx8.indexing import Const, Dim, Expr, Sym, simplify_expr, split_terms
from hlo2tx8.indexing.simplify import range_of
from hlo2tx8.lower.dma.slices import constant_of, instructions_in, turns_of, writers_in

LEVELS = (("s1", "n1"), ("s2", "n2"), ("s3", "n3"))


@dataclass(frozen=True)
class KeepLoadsPass(ModulePass):
    """Keeps what is loaded again; see the module docstring. chip: file of the description, "" for the built-in one."""

    name = "keep-loads"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            if any(isinstance(inner, xla.SyncTilesOp) for inner in function.body.block.ops):
                _keep(function, Rates.of(load_chip(self.chip)).kept_bytes)


def _keep(function: func.FuncOp, room: int) -> None:
    """Keeps the shares of as many tensors as there is room for, those first of which most is loaded again."""
    body = function.body.block
    stored, loaded = set[int | SSAValue](), dict[int | SSAValue, list[Rdma]]()
    for op in instructions_in(function):
        if isinstance(op, Wdma):
            stored.add(op.field("slot"))
        elif isinstance(op, Rdma):
            loaded.setdefault(op.field("slot"), []).append(op)
    shares: list[_TileShare] = []
    for slot in body.args:
        loads = loaded.get(slot, [])
        if slot not in stored and len(loads) > 1 and (share := _share_of(loads, function)) is not None:
            shares.append(share)
    for share in sorted(shares, key=lambda own: -len(own.again) * own.size_bytes):
        if share.size_bytes <= room:
            room -= share.size_bytes
            share.keep(function)


@dataclass(frozen=True)
class _ShareLoad:
    """A dense load of `count` elements from `tile * share + place` of a tensor on, `place` in terms of the operands of `apply`."""

    op: Rdma
    alloc: spm.AllocOp
    apply: xla.ApplyIndexingOp
    width: int
    share: int
    place: Expr
    count: int

    def offset_in(self, buffer: SSAValue) -> SSAValue:
        """Where the loaded elements are in a buffer with all of the tile's; made in front of the load."""
        map = self.apply.map.data
        places = xla.ApplyIndexingOp(xla.IndexingMapAttr(map.with_results((self.place,))), self.apply.operands)
        size = constant_index(self.width)
        scaled = of_two(arith.MuliOp, places.res[0], size.result)
        part = spm.OffsetOp(buffer, scaled.result)
        block = self.op.parent_block()
        assert block is not None
        block.insert_ops_before([places, size, scaled, part], self.op)
        return part.result

    def move_to(self, buffer: SSAValue) -> None:
        """Its elements are in a buffer with all of the tile's from now on."""
        self.alloc.result.replace_all_uses_with(self.offset_in(buffer))
        self.alloc.detach()
        self.alloc.erase()


@dataclass(frozen=True)
class _TileShare:
    """What a tile has of a tensor: the loads of the first loop, which load all of it, and those `again`."""

    first: Sequence[_ShareLoad]
    again: Sequence[_ShareLoad]

    @property
    def size_bytes(self) -> int:
        return self.first[0].share * self.first[0].width

    def keep(self, function: func.FuncOp) -> None:
        """One buffer for all loads, of which those again go."""
        kept = spm.AllocOp(self.size_bytes)
        kept.attributes[spm.KEPT] = UnitAttr()
        function.body.block.insert_op_before(kept, _outermost(self.first[0].op, function))
        for load in self.first:
            load.move_to(kept.result)
        for load in self.again:
            load.move_to(kept.result)
            load.op.detach()
            load.op.erase()


def _share_of(loads: Sequence[Rdma], function: func.FuncOp) -> _TileShare | None:
    """The share of which these are all loads of one tensor, in program order."""
    first = _outermost(loads[0], function)
    if _outermost(loads[-1], function) is first:
        return None
    found = [_dense_load(op, function) for op in loads]
    known = [load for load in found if load is not None and load.share == found[0].share] if found[0] else []
    begin = [load for load in known if _outermost(load.op, function) is first]
    again = [load for load in known if load not in begin]
    if not again or not _is_all(begin, function):
        return None
    return _TileShare(begin, [load for load in again if _is_within(load)])


def _outermost(op: Operation, function: func.FuncOp) -> Operation:
    """The operation of the function's body that holds this one."""
    while (parent := op.parent_op()) is not function:
        assert parent is not None
        op = parent
    return op


def _dense_load(op: Rdma, function: func.FuncOp) -> _ShareLoad | None:
    """A load of elements that lie next to each other, into a buffer of its own, in loops of known turns; None if it is another."""
    numbers = {name: _number(op.field(name)) for name in ("count", *(name for level in LEVELS for name in level))}
    count = numbers["count"]
    for stride, number in LEVELS:
        if count is None or (turns := numbers[number]) is None:
            return None
        if turns > 1 and numbers[stride] != count:
            return None
        count *= turns
    offset, buffer = op.field("offset"), op.field("dst")
    if count is None or not isinstance(offset, SSAValue) or not isinstance(scale := offset.owner, arith.MuliOp):
        return None
    apply, width, alloc = scale.lhs.owner, constant_of(scale.rhs), buffer.owner if isinstance(buffer, SSAValue) else None
    if not isinstance(apply, xla.ApplyIndexingOp) or width is None or len(apply.res) != 1:
        return None
    if not isinstance(alloc, spm.AllocOp) or alloc.parent is not op.parent or writers_in(function)[alloc.result] != [op]:
        return None
    map, rank = apply.map.data, len(apply.map.data.dims)
    tiles = [
        Dim(i) if i < rank else Sym(i - rank) for i, value in enumerate(apply.operands) if isinstance(value.owner, xla.TileIdOp)
    ]
    if len(tiles) != 1 or map.runtime or map.constraints:
        return None
    bounds = [v.interval for v in map.dims], [v.interval for v in map.ranges]
    split = split_terms(simplify_expr(map.results[0], *bounds), tiles)
    if split is None or tiles[0] not in split[1]:
        return None
    return _ShareLoad(op, alloc, apply, width, split[1][tiles[0]], split[0], count)


def _number(value: SSAValue | int | None) -> int | None:
    return constant_of(value) if isinstance(value, SSAValue) else value if isinstance(value, int) else None


def _terms(load: _ShareLoad) -> tuple[int, dict[SSAValue, int]] | None:
    """The first place and how far it moves with each value; None if that is not all there is to it."""
    map, rank = load.apply.map.data, len(load.apply.map.data.dims)
    leaves: list[Expr] = [*(Dim(i) for i in range(rank)), *(Sym(i) for i in range(len(map.ranges)))]
    split = split_terms(load.place, leaves)
    if split is None or not isinstance(split[0], Const):
        return None
    values = dict(zip(leaves, load.apply.operands, strict=True))
    return split[0].value, {values[leaf]: factor for leaf, factor in split[1].items() if factor}


def _is_all(loads: Sequence[_ShareLoad], function: func.FuncOp) -> bool:
    """Do these loads together load each element of the share once?"""
    runs: list[tuple[int, int]] = []
    for load in loads:
        terms = _terms(load)
        if terms is None:
            return False
        start, steps = terms
        length, parent = load.count, load.op.parent_op()
        turns: dict[SSAValue, int] = {}
        while parent is not None and parent is not function:
            if not isinstance(parent, scf.ForOp) or (count := turns_of(parent)) is None:
                return False
            turns[parent.body.block.args[0]] = count
            parent = parent.parent_op()
        for value in sorted(turns, key=lambda v: steps.get(v, 0)):
            if turns[value] > 1 and steps.get(value, 0) != length:
                return False
            length *= turns[value]
        if any(value not in turns for value in steps):
            return False
        runs.append((start, length))
    end = 0
    for start, length in sorted(runs):
        if start != end:
            return False
        end += length
    return end == loads[0].share


def _is_within(load: _ShareLoad) -> bool:
    """Is what it loads the tile's own share in every turn?"""
    map = load.apply.map.data
    bounds = range_of(load.place, [v.interval for v in map.dims], [v.interval for v in map.ranges])
    return bounds.lo >= 0 and bounds.hi + load.count <= load.share
