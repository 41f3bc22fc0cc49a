"""Pass lower-xla-to-scf: a loop over an indexing map becomes a nest of counted loops with a check of its domain.

Before:
    %0 = xla.loop (%tile)[%step, %lane] -> (%i) in #map lanes 1 iter_args(%t = %r0) -> (tensor<1000xf32>) {
      ...
      xla.yield %n : tensor<1000xf32>
    }

After:
    %0 = scf.for %step = %c0 to %c1 step %c1 iter_args(%t = %r0) -> (tensor<1000xf32>) {
      %1 = scf.for %lane = %c0 to %c64 step %c1 iter_args(%u = %t) -> (tensor<1000xf32>) {
        %b = xla.in_domain #domain(%tile)[%step, %lane]
        %2 = scf.if %b -> (tensor<1000xf32>) {
          %i = xla.apply_indexing #map(%tile)[%step, %lane]
          ...
          scf.yield %n
        } else { scf.yield %u }
        scf.yield %2
      } {xla.lane}
      scf.yield %1
    }

There is no check where loop bounds alone imply the domain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, OpResult, Region, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import constant_index, for_op, if_op, yield_op
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.dialects.xla import (
    CHANNEL_BLOCKS,
    ApplyIndexingOp,
    IndexingMapAttr,
    InDomainOp,
    LoopOp,
    TileIdOp,
    YieldOp,
    index,
)
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.ir import append

LANE = "xla.lane"


@dataclass(frozen=True)
class LowerXlaToScfPass(ModulePass):
    """Lowers every xla.loop; see the module docstring."""

    name = "lower-xla-to-scf"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            loops = [inner for inner in nested_ops(function) if isinstance(inner, LoopOp)]
            constants = _Constants(function.body.block)
            for loop in loops:
                _lower(loop, constants)


@dataclass
class _Constants:
    """Index constants at the top of a function, one per value."""

    block: Block
    known: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])

    def get(self, value: int) -> SSAValue:
        if value not in self.known:
            op = constant_index(value)
            op.result.name_hint = f"c{value}"
            first = self.block.first_op
            assert first is not None
            self.block.insert_op_before(op, first)
            self.known[value] = op.result
        return self.known[value]


def _lower(loop: LoopOp, constants: _Constants) -> None:
    map, dims = loop.map.data, tuple(loop.dims)
    num_steps = len(map.ranges) - loop.num_lanes.value.data
    types = [value.type for value in loop.iter_args]
    carried: Sequence[SSAValue] = tuple(loop.iter_args)
    counters: list[SSAValue] = []
    results: Sequence[SSAValue] = ()
    outer: Block | None = None
    for position, variable in enumerate(map.ranges):
        block = Block(arg_types=[index, *types])
        block.args[0].name_hint = variable.name or f"s{position}"
        for arg in block.args[1:]:
            arg.name_hint = "iter"
        lb, ub, step = (constants.get(value) for value in (variable.lo, variable.hi + 1, 1))
        nest = for_op(lb, ub, step, carried, Region(block))
        if position >= num_steps:
            nest.attributes[LANE] = UnitAttr()
            nest.attributes |= {name: value for name, value in loop.attributes.items() if name == CHANNEL_BLOCKS}
        placed = _insert(nest, outer, loop)
        results = placed if outer is None else results
        counters.append(block.args[0])
        carried, outer = block.args[1:], block
    if outer is None:
        outer = Block()
    yielded = _fill(loop, map, dims, counters, carried, outer)
    if map.ranges:
        outer.add_op(yield_op(*yielded))
    else:
        parent = loop.parent_block()
        assert parent is not None
        for op in ops_of(outer):
            op.detach()
            parent.insert_op_before(op, loop)
        results = yielded
    for old, new in zip(loop.res, results, strict=True):
        old.replace_all_uses_with(new)
    loop.detach()
    loop.erase()


def _insert(nest: scf.ForOp, outer: Block | None, loop: LoopOp) -> Sequence[OpResult]:
    """Put a loop of the nest where it belongs; the outermost one's results, empty for the others."""
    if outer is not None:
        outer.add_op(nest)
        outer.add_op(yield_op(*nest.res))
        return ()
    parent = loop.parent_block()
    assert parent is not None
    parent.insert_op_before(nest, loop)
    return nest.res


def _fill(
    loop: LoopOp,
    map: IndexingMap,
    dims: Sequence[SSAValue],
    counters: Sequence[SSAValue],
    carried: Sequence[SSAValue],
    block: Block,
) -> Sequence[SSAValue]:
    """Move the body into `block`, under a check if it needs one; returns the new values of the iter args."""
    if not _needs_check(map, dims):
        return _move_body(loop, map, dims, counters, carried, block)
    check = InDomainOp(IndexingMapAttr(map.with_results(())), dims, counters)
    inside = Block()
    inside.add_op(yield_op(*_move_body(loop, map, dims, counters, carried, inside)))
    outside = Block([yield_op(*carried)])
    guarded = if_op(check.res, [value.type for value in carried], Region(inside), Region(outside))
    block.add_ops([check, guarded])
    return guarded.output


def _needs_check(map: IndexingMap, dims: Sequence[SSAValue]) -> bool:
    if map.constraints:
        return True
    for variable, value in zip(map.dims, dims, strict=True):
        if not isinstance(value.owner, TileIdOp):
            return True
        lo, hi = value.owner.range.get_values()
        if variable.lo > int(lo) or variable.hi < int(hi):
            return True
    return False


def _move_body(
    loop: LoopOp,
    map: IndexingMap,
    dims: Sequence[SSAValue],
    counters: Sequence[SSAValue],
    carried: Sequence[SSAValue],
    block: Block,
) -> Sequence[SSAValue]:
    plain = IndexingMap(map.dims, map.ranges, (), map.results)
    if map.results:
        apply = ApplyIndexingOp(IndexingMapAttr(plain), dims, counters)
        block.add_op(apply)
        _rename(loop.index_args, apply.res)
    _rename(loop.range_args, counters)
    _rename(loop.iter_block_args, carried)
    yielded: Sequence[SSAValue] = ()
    for op in ops_of(loop.body.block):
        if isinstance(op, YieldOp):
            yielded = tuple(op.arguments)
            break
        op.detach()
        append(block, op)
    return yielded


def _rename(old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
    for before, after in zip(old, new, strict=True):
        if after.name_hint is None:
            after.name_hint = before.name_hint
        before.replace_all_uses_with(after)
