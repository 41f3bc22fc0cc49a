"""The body of a lane nest as vector operations: loads with strides and clips, element operations, merges, stores."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import IntegerAttr, TensorType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import constant_index, for_op, of_two, put, yield_op
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.errors import CompileError
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Variable
from hlo2tx8.ir import vector_type_of
from hlo2tx8.lower.element_format import tensor_type
from hlo2tx8.lower.vectorize.box_builder import BoxBuilder
from hlo2tx8.lower.vectorize.lane_access import Constraint, LaneAccess, LaneRegion, LaneSpace
from hlo2tx8.lower.vectorize.varying_lanes import varying_lanes
from hlo2tx8.lower.vectorize.vectorize_dot import vectorize_dot
from hlo2tx8.lower.vectorize.vectorize_join import vectorize_join_at
from hlo2tx8.lower.vectorize.vectorize_reduce import vectorize_reduce, vectorize_reduce_lanes
from hlo2tx8.lower.vectorize.vectorize_sort import vectorize_sort_lanes


@dataclass
class BoxVectorizer(BoxBuilder):
    """Builds one `vec.box` from the innermost block of a lane nest."""

    def build(self, body: Block, outer: Builder) -> vec.BoxOp:
        """The box for `body`, inserted through `outer`."""
        block = Block()
        self.builder = Builder(InsertPoint.at_end(block))
        guard, inner = self._guard(body)
        self.guard = self.space.region(guard)
        valid = self._valid_lanes(outer)
        self.bounds.clear()
        self.block(inner, LaneRegion())
        for load in self.filled:
            if not load.result.uses and load.parent is not None:
                Rewriter.erase_op(load)
        return put(outer, vec.BoxOp(self.space.shape, valid, block))

    def _guard(self, body: Block) -> tuple[tuple[Constraint, ...], Block]:
        """The constraints under which the step computes a lane, and the block that computes it."""
        constraints: tuple[Constraint, ...] = ()
        for op in body.ops:
            if isinstance(op, scf.IfOp) and op.cond in self.conditions and _stores(op):
                constraints += self.conditions[op.cond]
                return constraints, op.true_region.block
            if isinstance(op, (xla.ApplyIndexingOp, xla.InDomainOp, arith.ConstantOp)):
                self._operation(op, LaneRegion())
                continue
            break
        return (), body

    def _valid_lanes(self, outer: Builder) -> dict[int, SSAValue]:
        """How many entries are valid along each ragged lane dimension."""
        region = self.guard
        if region.scattered or any(c.lower for c in region.clips):
            raise CompileError("E3003", f"the valid lanes of a step are no prefix of its box along each dimension: {region}")
        self.builder, inner = outer, self.builder
        valid = {c.lane: self.extent(c.upper, "min", self.space.shape[c.lane]) for c in region.clips if c.upper}
        self.builder = inner
        return valid

    # ---------------------------------------------------------------------------------------------- values

    def block(self, block: Block, region: LaneRegion) -> tuple[SSAValue, ...]:
        """Emits the operations of a block under a region; returns what it yields."""
        for op in block.ops:
            if isinstance(op, (scf.YieldOp, xla.YieldOp)):
                return tuple(self.values.get(o, o) for o in op.operands)
            self._operation(op, region)
        return ()

    def _operation(self, op: Operation, region: LaneRegion) -> None:
        match op:
            case xla.ApplyIndexingOp():
                dims, syms = self._map_operands(op.map.data, op.operands)
                for result, expr in zip(op.results, op.map.data.results, strict=True):
                    self.indices[result] = self.space.simplify(expr.substitute(dims, syms))
            case xla.InDomainOp():
                self.conditions[op.res] = self._domain(op)
            case arith.ConstantOp() if op.result.type == xla.index:
                assert isinstance(op.value, IntegerAttr)
                self.indices[op.result] = Const(op.value.value.data)
            case arith.ConstantOp() | xla.ConstantOp():
                self.values[op.results[0]] = put(self.builder, cloned(op)).results[0]
            case tensor.ExtractOp():
                self.values[op.result] = self._extract(op, region)
            case xla.ExtractAtOp():
                self.values[op.res] = self._extract_at(op, region)
            case tensor.InsertOp():
                self._insert(op)
            case xla.InsertAtOp():
                self._insert_at(op)
            case scf.IfOp():
                self._merge(op, region)
            case scf.ForOp():
                self._loop(op, region)
            case xla.ReduceOp():
                vectorize_reduce(self, op, region)
            case xla.DotOp():
                vectorize_dot(self, op, region)
            case xla.ReduceLanesOp() | xla.ScanLanesOp():
                vectorize_reduce_lanes(self, op)
            case xla.SortLanesOp():
                vectorize_sort_lanes(self, op)
            case xla.JoinAtOp():
                vectorize_join_at(self, op, region)
            case _:
                self._elementwise(op)

    def _map_operands(self, m: IndexingMap, operands: Sequence[SSAValue]) -> tuple[list[Expr], list[Expr]]:
        exprs = [self.indices[o] for o in operands]
        return exprs[: len(m.dims)], exprs[len(m.dims) :]

    def _domain(self, op: xla.InDomainOp) -> tuple[Constraint, ...]:
        m = op.map.data
        dims, syms = self._map_operands(m, op.operands)
        variables = zip(op.operands, (*dims, *syms), (*m.dims, *m.ranges, *m.runtime), strict=True)
        own = [(e, Interval(v.lo, v.hi)) for value, e, v in variables if value not in self.on_lines]
        return (*own, *((expr.substitute(dims, syms), interval) for expr, interval in m.constraints))

    def _elementwise(self, op: Operation) -> None:
        if op.regions or len(op.results) != 1:
            raise CompileError("E3004", f"no vector form of {op.name}")
        operands = [self.vector(o) for o in op.operands]
        result_type = vector_type_of(op.results[0].type, self.space.shape)
        if any(o in self.indices for o in op.operands):
            new = self._index_arithmetic(op, operands, result_type)
        else:
            new = op.create(
                operands=operands,
                result_types=[result_type],
                properties=dict(op.properties),
                attributes=dict(op.attributes),
            )
        self.values[op.results[0]] = put(self.builder, new).results[0]

    def _index_arithmetic(self, op: Operation, operands: list[SSAValue], result_type: VectorType) -> Operation:
        """An index that becomes data (iota): a conversion from the integer vector of its expression."""
        if len(operands) != 1:
            raise CompileError("E3004", f"no vector form of {op.name} on indices")
        return xla.ElementwiseOp("stablehlo.convert", operands, result_type)

    # ----------------------------------------------------------------------------------------------- loops

    def _loop(self, op: scf.ForOp, region: LaneRegion) -> None:
        """A loop inside of every lane: the lanes take its turns together, its iter args become vectors."""
        lo, hi, step = (self._constant(bound) for bound in (op.lb, op.ub, op.step))
        carried = [self.vector(value) for value in op.iter_args]
        old, block = op.body.block, Block(arg_types=[xla.index, *(value.type for value in carried)])
        for before, after in zip(old.args, block.args, strict=True):
            after.name_hint = before.name_hint
        lower, upper, stride = (put(self.builder, constant_index(n)).result for n in (lo, hi, step))
        outer = self.builder, self.space, self.fixed_values, dict(self.indices), dict(self.conditions)
        known = dict(self.loads), dict(self.bounds), dict(self.splats)
        counter = Variable(lo, max(lo, hi - 1), old.args[0].name_hint)
        self.indices[old.args[0]] = Dim(len(self.space.fixed))
        self.space = LaneSpace((*self.space.fixed, counter), self.space.lanes)
        self.fixed_values = (*self.fixed_values, block.args[0])
        self.values.update(zip(old.args[1:], block.args[1:], strict=True))
        self.builder = Builder(InsertPoint.at_end(block))
        results = [self.vector(value) for value in self.block(old, region)]
        put(self.builder, yield_op(*results))
        # What the body loaded is known in the body only.
        self.builder, self.space, self.fixed_values, self.indices, self.conditions = outer
        self.loads, self.bounds, self.splats = known
        loop = put(self.builder, for_op(lower, upper, stride, carried, block))
        self.values.update(zip(op.results, loop.results, strict=True))

    def _constant(self, value: SSAValue) -> int:
        expr = self.indices[value]
        if not isinstance(expr, Const):
            raise CompileError("E3002", "a loop bound is not constant")
        return expr.value

    # ---------------------------------------------------------------------------------------------- memory

    def _extract(self, op: tensor.ExtractOp, region: LaneRegion) -> SSAValue:
        source, offset = self.values[op.tensor], self.space.simplify(self.indices[op.indices[0]])
        key = (source, offset, region)
        if key not in self.loads:
            self.loads[key] = self._load(source, offset, region)
        return self.loads[key]

    def _load(self, source: SSAValue, offset: Expr, region: LaneRegion) -> SSAValue:
        result_type = vector_type_of(_element_type(source), self.space.shape)
        access = self.space.access(offset)
        if access is None or (not region.is_box and not self._stays_inside(source, offset)):
            return self._gather(source, offset, result_type)
        clips = self.box_region(region) if region.is_box else None
        new = vec.LoadOp(source, self.offset(access.base), access.strides, result_type, clips)
        return put(self.builder, new).result

    def _extract_at(self, op: xla.ExtractAtOp, region: LaneRegion) -> SSAValue:
        """An element at a place that data move; where only lanes of a region may read, the whole place becomes data."""
        source, shift = self.values[op.tensor], self.vector(op.shifts[0])
        offset = self.space.simplify(self.indices[op.indices[0]])
        access = self.space.access(offset)
        result_type = vector_type_of(_element_type(source), self.space.shape)
        if access is None or not region.without(self.guard).is_whole:
            place = self.index_vector(offset, shift.type)
            shift = self._inside(source, put(self.builder, of_two(arith.AddiOp, place, shift)).result)
            access = LaneAccess(Const(0), (0,) * len(self.space.lanes))
        varying = varying_lanes(shift, {})
        new = vec.LoadAtOp(source, self.offset(access.base), access.strides, shift, varying, result_type)
        return put(self.builder, new).result

    def _inside(self, source: SSAValue, index: SSAValue) -> SSAValue:
        """The indices, those outside of the tensor moved into it."""
        last = self.splat_int(max(_num_elements(source) - 1, 0), index.type)
        index = put(self.builder, arith.MinSIOp(index, last)).result
        return put(self.builder, arith.MaxSIOp(index, self.splat_int(0, index.type))).result

    def _stays_inside(self, source: SSAValue, offset: Expr) -> bool:
        bounds = self.space.bounds(offset)
        return bounds.lo >= 0 and bounds.hi < _num_elements(source)

    def _gather(self, source: SSAValue, offset: Expr, result_type: VectorType) -> SSAValue:
        """Lanes whose element nobody uses may lie outside the tensor: their index is clamped into it."""
        index = self.index_vector(offset)
        if not self._stays_inside(source, offset):
            index = self._inside(source, index)
        return put(self.builder, vec.GatherOp(source, index, result_type)).result

    def _insert(self, op: tensor.InsertOp) -> None:
        target = self.values[op.dest]
        access = self.space.access(self.indices[op.indices[0]])
        if access is None:
            raise CompileError("E3005", "a store is not affine in the lanes of its box")
        put(self.builder, vec.StoreOp(self.vector(op.scalar), target, self.offset(access.base), access.strides))
        self.values[op.result] = target

    def _insert_at(self, op: xla.InsertAtOp) -> None:
        target, shift = self.values[op.dest], self.vector(op.shifts[0])
        where = None if op.where is None else self.vector(op.where)
        access = self.space.access(self.indices[op.indices[0]])
        if access is None or varying_lanes(shift, {}) or (where is not None and varying_lanes(where, {})):
            raise CompileError("E3005", "a store is not affine in the lanes of its box")
        value, offset = self.vector(op.scalar), self.offset(access.base)
        put(self.builder, vec.StoreAtOp(value, target, offset, access.strides, shift, where))
        self.values[op.res] = target

    # ---------------------------------------------------------------------------------------------- regions

    def _merge(self, op: scf.IfOp, context: LaneRegion) -> None:
        """A value that differs by region: a clipped load over a fill, or a select by mask."""
        if op.cond not in self.conditions:
            raise CompileError("E3006", "a branch in an element function depends on data")
        if self.space.is_never(self.conditions[op.cond]):
            self._bind(op, self.block(op.false_region.block, context))
            return
        here = self.space.region(self.conditions[op.cond])
        if here.is_whole:
            self._bind(op, self.block(op.true_region.block, context))
            return
        taken = context.intersect(here)
        then = self.block(op.true_region.block, taken)
        rest = here.complement_within(context)
        other = self.block(op.false_region.block, rest)
        self._bind(op, [self._select(t, e, taken, here) for t, e in zip(then, other, strict=True)])

    def _bind(self, op: scf.IfOp, values: Sequence[SSAValue]) -> None:
        for result, value in zip(op.results, values, strict=True):
            if value in self.indices:
                self.indices[result] = self.indices[value]
            else:
                self.values[result] = value

    def _select(self, then: SSAValue, other: SSAValue, taken: LaneRegion, here: LaneRegion) -> SSAValue:
        owner = then.owner
        if isinstance(owner, vec.LoadOp) and owner.fill is None and taken.is_box:
            fill = self.vector(other) if other in self.indices else other
            new = vec.LoadOp(
                owner.source,
                owner.offset,
                vec.ints(owner.strides),
                owner.result.type,
                self.box_region(taken),
                fill,
            )
            result = put(self.builder, new).result
            self.filled.append(owner)
            return result
        mask = self.mask(here)
        values = [mask, self.vector(then), self.vector(other)]
        return put(self.builder, xla.ElementwiseOp("stablehlo.select", values, values[1].type)).res


def _stores(op: scf.IfOp) -> bool:
    """Whether the branch is the guard of the step: it carries tensors, not elements."""
    return any(isinstance(r.type, TensorType) for r in op.results)


def _num_elements(value: SSAValue) -> int:
    return prod(tensor_type(value).get_shape())


def _element_type(value: SSAValue) -> Attribute:
    return tensor_type(value).element_type
