"""Loop emitter: every element of every root by itself; takes whatever is elemental.

    func.func @gelu(%p0: tensor<..>, %r0: tensor<..>) -> tensor<..> attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %0 = xla.loop (%tile)[%step, %lane] -> (%i, %j, %k) in #map lanes 1 iter_args(%t = %r0) -> (tensor<..>) {
        %1 = xla.pure_call @gelu_multiply(%p0, %i, %j, %k) : (..) -> bf16
        %2 = tensor.insert %1 into %t[%i, %j, %k] : tensor<..>
        xla.yield %2 : tensor<..>
      }
      func.return %0 : tensor<..>
    }

Roots of equal shape share a loop. A step computes a contiguous run of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.made import insert_op
from hlo2tx8.dialects.xla import CHANNEL_BLOCKS, ApplyIndexingOp, IndexingMapAttr, LoopOp, PureCallOp, TileIdOp, YieldOp
from hlo2tx8.emitters.elemental import emit_function
from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.errors import UnsupportedOp
from hlo2tx8.indexing import Dim, IndexingMap
from hlo2tx8.ir import i64_attr
from hlo2tx8.partitioner.computation import PartitionedComputation, SubgraphFunction
from hlo2tx8.partitioner.contraction import Contraction
from hlo2tx8.partitioner.instruction import is_elemental, is_inlined_constant, is_read_as_a_whole, tensor_type
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.reduction_blocks import Blocks
from hlo2tx8.schedule.row_split import JoinedLanes
from hlo2tx8.schedule.work_split import WorkSplit

Nest: TypeAlias = tuple[WorkSplit, Mapping[Operation, Blocks | JoinedLanes | Contraction]]
"""The work split of a loop over a function's roots, or a part of them, and how the reductions in that loop go by blocks."""
Split: TypeAlias = Callable[[SubgraphFunction], Sequence[Nest]]
"""The loops over a function's roots; a function that is called has one."""


@dataclass(frozen=True)
class LoopEmitter:
    """The last emitter: declines only what has no elemental emission; a reduction is a loop inside of its element."""

    name = "loop"

    def match(self, fusion: Fusion) -> Match | Declined:
        refused = [op for op in fusion.body.ops if op is not fusion.body.last_op and not _is_emitted(op)]
        if not refused:
            return Match(fusion)
        reason = "the loop emitter computes elemental operations and plain reductions only"
        ops = tuple(UnsupportedOp(op.name, (origin(op),), reason) for op in refused)
        return Declined(reason, ops)

    def emit(self, match: Match) -> ModuleOp:
        accesses = match.fusion.accesses
        return emit_loops(match.fusion, accesses.partitioned, accesses, lambda function: [(accesses.split(function), {})])


def emit_loops(fusion: Fusion, partitioned: PartitionedComputation, accesses: AccessAnalysis, split: Split) -> ModuleOp:
    """A module with a loop per group of roots, and a function for each function of the computation."""
    names = _name_functions(fusion.name, partitioned)
    loops = {function: split(function) for function in partitioned.functions if has_loop(function, accesses)}
    blocks = {op: own for nests in loops.values() for op, own in nests[0][1].items()}
    splits = {function: [own for own, _ in nests] for function, nests in loops.items()}
    functions: list[Operation] = [_emit_entry(fusion, partitioned, names, splits)]
    for function in partitioned.functions:
        if is_empty(function):
            continue  # no loop calls it, and no other function: nothing needs an element of an empty tensor
        element = emit_function(partitioned, function, names, fusion.body.args, blocks)
        parts = [own for nest, own in loops.get(function, ()) for _ in (nest, *nest.others)]
        for number, own in enumerate(parts[1:], start=1):
            part = names | {function: _part_name(names[function], number)}
            functions.append(emit_function(partitioned, function, part, fusion.body.args, own))
        if not function.is_entry_root:
            _say_how_to_materialize(element, function, accesses, splits)
        functions.append(element)
    return ModuleOp(functions, sym_name=StringAttr(fusion.name))


def _part_name(name: str, number: int) -> str:
    """The function that computes the elements of part `number` of a function's roots."""
    return f"{name}_part_{number}" if number else name


def has_loop(function: SubgraphFunction, accesses: AccessAnalysis) -> bool:
    """Does a loop over all indices call the function?"""
    return not is_empty(function) and (function.is_entry_root or not accesses.is_inlined(function))


def is_empty(function: SubgraphFunction) -> bool:
    """Have the function's roots no elements?"""
    return 0 in tensor_type(function.roots[0]).get_shape()


def _is_emitted(op: Operation) -> bool:
    if any(is_read_as_a_whole(op, n) and not _is_in_memory(operand) for n, operand in enumerate(op.operands)):
        return False
    return is_elemental(op) or is_reduction(op)


def _is_in_memory(value: SSAValue) -> bool:
    owner = value.owner
    return not isinstance(owner, Operation) or is_inlined_constant(owner)


def _name_functions(fusion: str, partitioned: PartitionedComputation) -> dict[SubgraphFunction, str]:
    """`<fusion>_<op of the root>`, with a number where that is taken."""
    names: dict[SubgraphFunction, str] = {}
    taken: dict[str, int] = {}
    for function in partitioned.functions:
        owner = function.roots[0].owner
        base = owner.name.rpartition(".")[2] if isinstance(owner, Operation) else "parameter"
        count = taken[base] = taken.get(base, -1) + 1
        names[function] = f"{fusion}_{base}_{count}" if count else f"{fusion}_{base}"
    return names


def _emit_entry(
    fusion: Fusion,
    partitioned: PartitionedComputation,
    names: dict[SubgraphFunction, str],
    splits: dict[SubgraphFunction, list[WorkSplit]],
) -> func.FuncOp:
    terminator = fusion.body.last_op
    assert terminator is not None
    params, roots = tuple(fusion.body.args), tuple(terminator.operands)
    types = [value.type for value in (*params, *roots)]
    block = Block(arg_types=types)
    for position, arg in enumerate(block.args):
        arg.name_hint = f"p{position}" if position < len(params) else f"r{position - len(params)}"
    results: list[SSAValue] = list(block.args[len(params) :])
    tile = TileIdOp(fusion.target.rates.tiles)
    tile.tile.name_hint = "tile"
    block.add_op(tile)
    for function in partitioned.functions:
        if not function.is_entry_root or is_empty(function):
            continue
        positions = [i for i, root in enumerate(roots) if root in function.roots]
        number = count()
        for split in splits[function]:
            loop = emit_loop(split, tile.tile, [results[i] for i in positions])
            body, updated = loop.body.block, list[SSAValue](loop.iter_block_args)
            for here in (None, *split.others):
                index = loop.index_args if here is None else _indices(here, loop.index_args, body)
                call = PureCallOp(
                    _part_name(names[function], next(number)),
                    [*block.args[: len(params)], *index],
                    [tensor_type(root).element_type for root in function.roots],
                )
                body.add_op(call)
                order = dict(zip(function.roots, call.res, strict=True))
                for slot, position in enumerate(positions):
                    root = roots[position]
                    insert = insert_op(order[root], updated[slot], _indices(function.maps[function.roots.index(root)], index, body))
                    body.add_op(insert)
                    updated[slot] = insert.result
            body.add_op(YieldOp(updated))
            block.add_op(loop)
            for position, result in zip(positions, loop.res, strict=True):
                results[position] = result
    block.add_op(func.ReturnOp(*results))
    entry = func.FuncOp(fusion.name, FunctionType.from_lists(types, types[len(params) :]), Region(block))
    entry.attributes["xla.entry"] = UnitAttr()
    return entry


def _indices(map: IndexingMap, args: Sequence[SSAValue], block: Block) -> Sequence[SSAValue]:
    """Where a root is at the loop's index."""
    if map.results == tuple(Dim(i) for i in range(len(args))):
        return args
    apply = ApplyIndexingOp(IndexingMapAttr(map), args)
    if map.results:
        block.add_op(apply)
    return apply.res


def emit_loop(split: WorkSplit, tile: SSAValue, targets: Sequence[SSAValue]) -> LoopOp:
    """An empty `xla.loop` over a work split that carries `targets`."""
    loop = LoopOp(IndexingMapAttr(split.map), [tile], targets, split.num_lanes)
    if split.in_channel_blocks:
        loop.attributes[CHANNEL_BLOCKS] = UnitAttr()
    variables = split.map.ranges
    for position, arg in enumerate(loop.body.block.args):
        if position < len(variables):
            arg.name_hint = variables[position].name
        elif position < len(variables) + len(split.map.results):
            arg.name_hint = f"dim{position - len(variables)}"
        else:
            arg.name_hint = "iter"
    return loop


def _say_how_to_materialize(
    element: func.FuncOp, function: SubgraphFunction, accesses: AccessAnalysis, splits: dict[SubgraphFunction, list[WorkSplit]]
) -> None:
    """Note on a called function whether it only moves an index, or only converts, else the loop nest that fills tensors with it."""
    if accesses.is_index_only(function):
        element.attributes["xla.no_compute"] = UnitAttr()
    elif accesses.is_made_again(function):
        element.attributes["xla.made_again"] = UnitAttr()
    if function.is_reduced_once:
        element.attributes["xla.compute_once"] = UnitAttr()
    if function in splits:
        element.attributes["xla.split"] = IndexingMapAttr(splits[function][0].map)
        element.attributes["xla.num_lanes"] = i64_attr(splits[function][0].num_lanes)
        element.attributes["xla.tensors"] = ArrayAttr([root.type for root in function.roots])
