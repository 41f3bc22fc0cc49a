"""FLAT → VECTOR: the lane loops of a step become one box of dense vectors.

Before:
    scf.for %step = %c0 to %c48 step %c1 iter_args(%t = %r0) {
      scf.for %l0 = %c0 to %c8192 step %c1 iter_args(%u = %t) attributes {xla.lane} {
        %o = xla.apply_indexing #map(%tile, %step)[%l0]
        %x = tensor.extract %p0[%o]
        %y = arith.mulf %x, %x : bf16
        %v = tensor.insert %y into %u[%o] ...

After:
    scf.for %step = %c0 to %c48 step %c1 {
      vec.box [8192] {
        %o = xla.apply_indexing #map0(%tile, %step)
        %x = vec.load %p0[%o] {strides = [1]}
        %y = arith.mulf %x, %x : vector<8192xbf16>
        vec.store %y, %r0[%o] {strides = [1]}

Bounds checks become the number of valid lanes (a tail) or clips of loads (pads, concatenations). An access that is not affine
in the lanes becomes `vec.gather`, which the kernel core performs.
"""

from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import constant_index, for_op, put, yield_op
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.errors import CompileError
from hlo2tx8.indexing import Const, Dim, Expr, Sym, Variable
from hlo2tx8.lower.vectorize.lane_access import LaneSpace
from hlo2tx8.lower.vectorize.vectorize_box import BoxVectorizer


@dataclass
class _Scope:
    """What a FLAT value is at the VECTOR level: an index expression, or another value."""

    fixed: list[Variable] = field(default_factory=list[Variable])
    fixed_values: list[SSAValue] = field(default_factory=list[SSAValue])
    indices: dict[SSAValue, Expr] = field(default_factory=dict[SSAValue, Expr])
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def add_fixed(self, old: SSAValue, new: SSAValue, lo: int, hi: int, name: str) -> None:
        self.indices[old] = Dim(len(self.fixed))
        self.fixed.append(Variable(lo, hi, name))
        self.fixed_values.append(new)

    def pop_fixed(self) -> None:
        self.fixed.pop()
        self.fixed_values.pop()


@dataclass(frozen=True)
class VectorizePass(ModulePass):
    """Turns lane loops into boxes of vectors; see the module docstring."""

    name = "vectorize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _vectorize_function(function)


def _vectorize_function(function: func.FuncOp) -> None:
    old = function.body.block
    new = Block(arg_types=[a.type for a in old.args])
    scope = _Scope()
    for a, b in zip(old.args, new.args, strict=True):
        b.name_hint = a.name_hint
        scope.values[a] = b
    builder = Builder(InsertPoint.at_end(new))
    for op in old.ops:
        _vectorize_op(op, builder, scope)
    function.detach_region(0)
    function.add_region(Region(new))
    function.properties["function_type"] = FunctionType.from_lists([a.type for a in new.args], [])


def _vectorize_op(op: Operation, builder: Builder, scope: _Scope) -> None:
    """One operation outside of lane loops."""
    match op:
        case xla.TileIdOp():
            new = put(builder, cloned(op))
            lo, hi = vec.ints(op.range)
            scope.add_fixed(op.tile, new.tile, lo, hi, "tile")
        case arith.ConstantOp():
            if isinstance(op.value, IntegerAttr) and op.result.type == xla.index:
                scope.indices[op.result] = Const(op.value.value.data)
            scope.values[op.result] = put(builder, cloned(op)).results[0]
        case xla.ConstantOp() | xla.AllocateScratchOp():
            scope.values[op.results[0]] = put(builder, cloned(op)).results[0]
        case xla.SyncTilesOp():
            put(builder, xla.SyncTilesOp([scope.values[o] for o in op.operands]))
            for operand, result in zip(op.operands, op.results, strict=True):
                scope.values[result] = scope.values[operand]
        case scf.ForOp() if _is_lane_loop(op):
            _vectorize_box(op, builder, scope)
        case scf.ForOp():
            _vectorize_step_loop(op, builder, scope)
        case func.ReturnOp():
            put(builder, func.ReturnOp())
        case _:
            raise CompileError("E3001", f"vectorize meets {op.name} outside of lane loops")


def _vectorize_step_loop(op: scf.ForOp, builder: Builder, scope: _Scope) -> None:
    lo, hi, step = (_constant(scope, v) for v in (op.lb, op.ub, op.step))
    block = Block(arg_types=[xla.index])
    block.args[0].name_hint = op.body.block.args[0].name_hint or "step"
    inner = Builder(InsertPoint.at_end(block))
    _map_iter_args(op, scope)
    known = dict(scope.indices)
    scope.add_fixed(op.body.block.args[0], block.args[0], lo, max(lo, hi - 1), block.args[0].name_hint or "step")
    for child in op.body.block.ops:
        if not isinstance(child, scf.YieldOp):
            _vectorize_op(child, inner, scope)
    scope.pop_fixed()
    scope.indices = known  # what the loop's counter decides is of no use behind it
    put(inner, yield_op())
    lower, upper, stride = (put(builder, constant_index(v)).result for v in (lo, hi, step))
    loop = put(builder, for_op(lower, upper, stride, [], Region(block)))
    loop.attributes.update(op.attributes)


def _vectorize_box(op: scf.ForOp, builder: Builder, scope: _Scope) -> None:
    """A perfect nest of lane loops."""
    lanes: list[Variable] = []
    indices = dict(scope.indices)
    body: Block = op.body.block
    loop: Operation | None = op
    while isinstance(loop, scf.ForOp) and _is_lane_loop(loop):
        _map_iter_args(loop, scope)
        body = loop.body.block
        indices[body.args[0]] = Sym(len(lanes))
        lanes.append(Variable(0, _constant(scope, loop.ub) - 1, body.args[0].name_hint))
        loop = body.first_op
    space = LaneSpace(tuple(scope.fixed), tuple(lanes))
    box = BoxVectorizer(space, tuple(scope.fixed_values), indices, dict(scope.values)).build(body, builder)
    box.attributes |= {name: value for name, value in op.attributes.items() if name == xla.CHANNEL_BLOCKS}


def _is_lane_loop(op: scf.ForOp) -> bool:
    return xla.LANE in op.attributes


def _map_iter_args(op: scf.ForOp, scope: _Scope) -> None:
    """A tensor carried through a loop is the buffer it started from."""
    for init, arg, result in zip(op.iter_args, op.body.block.args[1:], op.results, strict=True):
        assert isinstance(init.type, TensorType) and isinstance(arg, BlockArgument)
        scope.values[arg] = scope.values[init]
        scope.values[result] = scope.values[init]


def _constant(scope: _Scope, value: SSAValue) -> int:
    expr = scope.indices.get(value)
    if not isinstance(expr, Const):
        raise CompileError("E3002", "a loop bound is not constant")
    return expr.value
