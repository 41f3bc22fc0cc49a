"""Pass flatten-tensors: tensors become 1-D buffers, every access one map from the loop variables to an offset.

Before:
    %i, %j = xla.apply_indexing #map(%tile)[%step, %lane]
    %k, %l = xla.apply_indexing #transpose(%i, %j)
    %x = tensor.extract %p0[%k, %l] : tensor<20x30xf32>

After:
    %o = xla.apply_indexing #offset(%tile)[%step, %lane]
    %x = tensor.extract %p0[%o] : tensor<600xf32>

Layouts are folded into the offset. The entry function keeps its former type as `xla.logical_type`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, func, scf, tensor
from xdsl.dialects.builtin import FunctionType, IndexType, IntegerAttr, IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.layout import strides
from hlo2tx8.dialects.made import extract_op, for_op, if_op, insert_op, of_two
from hlo2tx8.dialects.xla import (
    ApplyIndexingOp,
    DotOp,
    ExtractAtOp,
    IndexingMapAttr,
    InDomainOp,
    InsertAtOp,
    JoinAtOp,
    ReduceLanesOp,
    ReduceOp,
    ScanLanesOp,
    TileIdOp,
)
from hlo2tx8.errors import LevelError
from hlo2tx8.indexing import Const, Dim, Expr, FloorDiv, Interval, Sym, Variable
from hlo2tx8.indexing.expr import from_terms
from hlo2tx8.ir import append, like
from hlo2tx8.lower.loops.flat_scope import FlatScope


@dataclass(frozen=True)
class FlattenTensorsPass(ModulePass):
    """Rebuilds each function on 1-D tensors; see the module docstring."""

    name = "flatten-tensors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _flatten_function(function)


def _flatten_function(function: func.FuncOp) -> None:
    old = function.body.block
    new = Block(arg_types=[flat_type(arg.type) for arg in old.args])
    scope = FlatScope()
    for before, after in zip(old.args, new.args, strict=True):
        after.name_hint = before.name_hint
        scope.values[before] = after
    for op in old.ops:
        _flatten(op, new, scope)
    function.attributes["xla.logical_type"] = function.function_type
    results = [flat_type(type_) for type_ in function.function_type.outputs]
    function.properties["function_type"] = FunctionType.from_lists([arg.type for arg in new.args], results)
    function.detach_region(0)
    function.add_region(Region(new))


@lru_cache(maxsize=1 << 12)
def flat_type(type_: Attribute) -> Attribute:
    """tensor<6x512xf32> → tensor<3072xf32>; other types as they are."""
    if not isinstance(type_, TensorType):
        return type_
    tensor_type = cast("TensorType[Attribute]", type_)
    return TensorType(tensor_type.element_type, [prod(tensor_type.get_shape())])


def _flatten(op: Operation, block: Block, scope: FlatScope) -> None:
    match op:
        case TileIdOp():
            _tile(op, block, scope)
        case arith.ConstantOp() if isinstance(op.result.type, IndexType):
            assert isinstance(op.value, IntegerAttr)
            scope.indices[op.result] = Const(op.value.value.data)
            scope.values[op.result] = _copy(op, block, scope)[0]
        case ApplyIndexingOp():
            for result, expr in zip(op.res, scope.substituted(op, op.map.data.results), strict=True):
                scope.indices[result] = expr
        case InDomainOp():
            scope.values[op.res] = _domain(op, block, scope)
        case tensor.ExtractOp():
            offset = _offset(op.tensor, op.indices, block, scope)
            read = extract_op(scope.values[op.tensor], [offset], op.result.type)
            _add(read, op, block, scope)
        case ExtractAtOp():
            offset = _offset(op.tensor, op.indices, block, scope)
            shift = _shift(op.tensor, op, block, scope)
            _add(ExtractAtOp(scope.values[op.tensor], [offset], [0], [shift]), op, block, scope)
        case InsertAtOp():
            offset = _offset(op.dest, op.indices, block, scope)
            shift = _shift(op.dest, op, block, scope)
            where = None if op.where is None else scope.values[op.where]
            _add(InsertAtOp(scope.values[op.scalar], scope.values[op.dest], [offset], [0], [shift], where), op, block, scope)
        case tensor.InsertOp():
            offset = _offset(op.dest, op.indices, block, scope)
            _add(insert_op(scope.values[op.scalar], scope.values[op.dest], [offset]), op, block, scope)
        case scf.ForOp():
            _loop(op, block, scope)
        case ReduceOp():
            _reduce(op, block, scope)
        case DotOp():
            _dot(op, block, scope)
        case JoinAtOp():
            places, elements = (_lane_block(region.block, [op.num_updates], scope) for region in (op.places, op.elements))
            combiner, init = _scalar_block(op.combiner.block, scope), scope.values[op.init]
            _add(JoinAtOp(op.lane, op.num_updates, init, places, elements, combiner), op, block, scope)
        case ReduceLanesOp() | ScanLanesOp():
            _reduce_lanes(op, block, scope)
        case scf.IfOp():
            outer = scope.holds
            scope.assume((*outer, *scope.checks.get(scope.values[op.cond], ())))
            inside = _region(op.regions[0], scope)
            scope.assume(outer)
            outside = _region(op.regions[1], scope)
            types = [flat_type(result.type) for result in op.results]
            _add(if_op(scope.values[op.cond], types, inside, outside), op, block, scope)
        case _:
            for old, new in zip(op.results, _copy(op, block, scope), strict=True):
                scope.values[old] = new


def _add(new: Operation, old: Operation, block: Block, scope: FlatScope) -> None:
    append(block, new)
    for before, after in zip(old.results, new.results, strict=True):
        after.name_hint = before.name_hint
        scope.values[before] = after


def _copy(op: Operation, block: Block, scope: FlatScope) -> Sequence[SSAValue]:
    """The same op on the new values; an index that it takes as a number becomes a map of the variables."""
    if op.regions:
        raise LevelError("E1006", f"{op.name} may not occur at level FLAT")
    operands = [
        scope.index_value(scope.indices[value], block) if value in scope.indices else scope.values[value] for value in op.operands
    ]
    new = like(op, operands, [flat_type(result.type) for result in op.results])
    append(block, new)
    return new.results


def _tile(op: TileIdOp, block: Block, scope: FlatScope) -> None:
    new = _copy(op, block, scope)[0]
    lo, hi = (int(bound) for bound in op.range.get_values())
    scope.indices[op.tile] = Dim(len(scope.tiles))
    scope.tiles.append((Variable(lo, hi, op.tile.name_hint or "tile"), new))
    scope.variables_changed()


def _loop(op: scf.ForOp, block: Block, scope: FlatScope) -> None:
    old = op.body.block
    new = Block(arg_types=[flat_type(arg.type) for arg in old.args])
    for before, after in zip(old.args, new.args, strict=True):
        after.name_hint = before.name_hint
        scope.values[before] = after
    lo, hi = (scope.index_of(value) for value in (op.lb, op.ub))
    if not (isinstance(lo, Const) and isinstance(hi, Const)):
        raise LevelError("E1006", "a loop bound is not constant")
    scope.enter(old.args[0], new.args[0], lo.value, hi.value - 1)
    for inner in old.ops:
        _flatten(inner, new, scope)
    scope.leave()
    lb, ub, step = (scope.values[value] for value in (op.lb, op.ub, op.step))
    nest = for_op(lb, ub, step, [scope.values[value] for value in op.iter_args], Region(new))
    nest.attributes.update(op.attributes)
    _add(nest, op, block, scope)


def _reduce(op: ReduceOp, block: Block, scope: FlatScope) -> None:
    elements, combiner = _lane_block(op.elements.block, [op.num_lanes], scope), _scalar_block(op.combiner.block, scope)
    init = [scope.values[value] for value in op.init]
    _add(ReduceOp(op.num_lanes, init, elements, combiner, is_outer=op.is_outer is not None), op, block, scope)


def _dot(op: DotOp, block: Block, scope: FlatScope) -> None:
    row, column = (_lane_block(region.block, op.lane_shape, scope) for region in op.regions)
    new = DotOp(
        op.lane_shape,
        scope.values[op.init],
        row,
        column,
        op.window_list,
        is_per_channel=op.is_per_channel is not None,
        is_backward=op.is_backward is not None,
        parts=op.num_parts,
    )
    new.attributes |= {name: value for name, value in op.attributes.items() if name == "loc"}
    _add(new, op, block, scope)


def _lane_block(old: Block, sizes: Sequence[int], scope: FlatScope) -> Block:
    """A block that gets the lanes of a block of elements."""
    new = Block(arg_types=old.arg_types)
    for before, after, size in zip(old.args, new.args, sizes, strict=True):
        after.name_hint = before.name_hint
        scope.values[before] = after
        scope.enter(before, after, 0, size - 1)
    for inner in old.ops:
        _flatten(inner, new, scope)
    for _ in sizes:
        scope.leave()
    return new


def _scalar_block(old: Block, scope: FlatScope) -> Block:
    """A combiner."""
    new = Block(arg_types=old.arg_types)
    for before, after in zip(old.args, new.args, strict=True):
        after.name_hint = before.name_hint
        scope.values[before] = after
    for inner in old.ops:
        _flatten(inner, new, scope)
    return new


def _reduce_lanes(op: ReduceLanesOp | ScanLanesOp, block: Block, scope: FlatScope) -> None:
    combiner = _scalar_block(op.combiner.block, scope)
    elements, init = ([scope.values[value] for value in values] for values in (op.elements, op.init))
    _add(type(op)(op.lanes, elements, init, combiner), op, block, scope)


def _region(region: Region, scope: FlatScope) -> Region:
    block = Block()
    for inner in region.block.ops:
        _flatten(inner, block, scope)
    return Region(block)


def _offset(buffer: SSAValue, indices: Sequence[SSAValue], block: Block, scope: FlatScope) -> SSAValue:
    """Elements from the start of the buffer, in the order of its layout."""
    offset: Expr = Const(0)
    for value, step in zip(indices, strides(cast("TensorType[Attribute]", buffer.type)), strict=True):
        offset = offset + scope.index_of(value) * step
    return scope.index_value(offset, block)


def _shift(buffer: SSAValue, op: ExtractAtOp | InsertAtOp, block: Block, scope: FlatScope) -> SSAValue:
    """The sum of the shifts times the strides they go along."""
    steps = strides(cast("TensorType[Attribute]", buffer.type))
    total: SSAValue | None = None
    for dim, shift in zip(op.dims.get_values(), op.shifts, strict=True):
        part = scope.values[shift]
        if steps[int(dim)] != 1:
            factor = arith.ConstantOp(IntegerAttr(steps[int(dim)], cast(IntegerType, part.type)))
            product = of_two(arith.MuliOp, part, factor.result)
            block.add_ops([factor, product])
            part = product.result
        if total is not None:
            add = of_two(arith.AddiOp, total, part)
            block.add_op(add)
            part = add.result
        total = part
    assert total is not None
    return total


def _domain(op: InDomainOp, block: Block, scope: FlatScope) -> SSAValue:
    """The same check on the variables in scope; what their ranges and the checks around imply is left out."""
    map = op.map.data
    variables = [(Dim(i), v.interval) for i, v in enumerate(map.dims)]
    variables += [(Sym(i), v.interval) for i, v in enumerate(map.ranges + map.runtime)]
    checks = [*variables, *map.constraints]
    exprs = scope.substituted(op, [expr for expr, _ in checks])
    whole = scope.map(())
    for expr, (_, interval) in zip(exprs, checks, strict=True):
        simple, interval = _without_division(scope.simplifier.simplify(expr), interval)
        if (beyond := scope.beyond_known(simple, interval)) is not None:
            whole = whole.with_constraint(simple, beyond)
    new = InDomainOp(IndexingMapAttr(whole), *scope.operands)
    append(block, new)
    scope.checks[new.res] = whole.constraints
    return new.res


def _without_division(expr: Expr, interval: Interval) -> tuple[Expr, Interval]:
    """`y + x floordiv k + c in [a + c, b + c]` is `y * k + x in [a * k, b * k + k - 1]`, which is affine if x and y are."""
    while True:
        constant, terms = expr.affine_terms()
        quotients = [term for term in terms if isinstance(term, FloorDiv)]
        divisor = quotients[0].rhs.value if len(quotients) == 1 and isinstance(quotients[0].rhs, Const) else 0
        if divisor <= 0 or terms[quotients[0]] != 1:
            return expr, interval
        rest = from_terms(0, {term: factor * divisor for term, factor in terms.items() if term is not quotients[0]})
        low, high = interval.lo - constant, interval.hi - constant
        expr, interval = rest + quotients[0].lhs, Interval(low * divisor, high * divisor + divisor - 1)
