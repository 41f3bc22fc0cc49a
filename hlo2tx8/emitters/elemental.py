"""Elemental emission: a subgraph function computes one element of its roots at index arguments.

    func.func private @gelu_multiply(%p0: tensor<6x512x4096xbf16>, %i0: index, %i1: index, %i2: index) -> bf16 {
      %0 = tensor.extract %p0[%i0, %i1, %i2]
      %1 = arith.mulf %0, %0 : bf16
      ...

Shaping instructions are only indexing: their operand is emitted at the composed map. An operand that serves only a
part of the result (pad, concatenate) is emitted inside an scf.if on that part, what a reduction reads inside its loop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import FunctionType, IntegerAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from hlo2tx8.dialects.made import extract_op, if_op, yield_op
from hlo2tx8.dialects.xla import ApplyIndexingOp, ElementwiseOp, IndexingMapAttr, InDomainOp, PureCallOp, index
from hlo2tx8.emitters.accumulate import Accumulation
from hlo2tx8.emitters.contraction_loop import ContractionLoop
from hlo2tx8.emitters.reduce_blocks import BlockLoop, counted_loop, join_lanes
from hlo2tx8.emitters.runtime_index import RuntimeIndices
from hlo2tx8.emitters.scalar import constant_array, scalar_constant, scalar_op
from hlo2tx8.errors import LevelError
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.indexing import Dim, Expr, IndexingMap
from hlo2tx8.ir import append
from hlo2tx8.partitioner.computation import PartitionedComputation, Scope, SubgraphFunction
from hlo2tx8.partitioner.contraction import Contraction
from hlo2tx8.partitioner.instruction import is_inlined_constant, is_view, kind_of, tensor_type
from hlo2tx8.partitioner.made_from import have_same_source
from hlo2tx8.partitioner.reduction_paths import is_empty_loop, is_reduction, loop_counters, num_loop_operands
from hlo2tx8.schedule.reduction_blocks import Blocks
from hlo2tx8.schedule.row_split import JoinedLanes


def emit_function(
    partitioned: PartitionedComputation,
    function: SubgraphFunction,
    names: Mapping[SubgraphFunction, str],
    params: Sequence[SSAValue],
    blocks: Mapping[Operation, Blocks | JoinedLanes | Contraction],
) -> func.FuncOp:
    """`func private @name(params..., indices...) -> elements`: one result per root of the function; `blocks` has the reductions
    that go by blocks of lanes, or over lanes of the step, and the dots that the matrix engine computes."""
    rank = len(function.identity.dims)
    block = Block(arg_types=[*(param.type for param in params), *([index] * rank)])
    for position, arg in enumerate(block.args):
        arg.name_hint = f"p{position}" if position < len(params) else f"i{position - len(params)}"
    tensors = dict(zip(params, block.args[: len(params)], strict=True))
    emitter = _ElementEmitter(partitioned, function, names, tensors, blocks, block)
    emitter.emit()
    results = [tensor_type(root).element_type for root in function.roots]
    type_ = FunctionType.from_lists([arg.type for arg in block.args], results)
    return func.FuncOp(names[function], type_, Region(block), visibility="private")


@dataclass
class _ElementEmitter:
    partitioned: PartitionedComputation
    function: SubgraphFunction
    names: Mapping[SubgraphFunction, str]
    tensors: Mapping[SSAValue, SSAValue]
    blocks: Mapping[Operation, Blocks | JoinedLanes | Contraction]
    block: Block
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    reads: dict[tuple[int, SSAValue, IndexingMap], SSAValue] = field(
        default_factory=dict[tuple[int, SSAValue, IndexingMap], SSAValue]
    )
    indices: dict[tuple[int, IndexingMap], tuple[SSAValue, ...]] = field(
        default_factory=dict[tuple[int, IndexingMap], tuple[SSAValue, ...]]
    )
    constants: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    counters: list[SSAValue] = field(default_factory=list[SSAValue])
    of_scope: dict[int, list[Operation]] = field(default_factory=dict[int, list[Operation]])

    def emit(self) -> None:
        """Fill the function's block."""
        for op in self.function.instructions:
            self.of_scope.setdefault(id(self.partitioned.places[op].scope), []).append(op)
        self._emit_scope(self.function.top, self.block)
        roots, top = zip(self.function.roots, self.function.maps, strict=True), self.function.top
        results = [self._value(root, map, top, self.block) for root, map in roots]
        self.block.add_op(func.ReturnOp(*results))
        first = self.block.first_op
        assert first is not None
        owners = [value.owner for value in self.constants.values()]
        self.block.insert_ops_before([op for op in owners if isinstance(op, Operation)], first)

    def _emit_scope(self, scope: Scope, block: Block) -> None:
        """All instructions of a scope, in program order; dots that the matrix engine computes from the same rows with the first
        of them."""
        for op in self.of_scope.get(id(scope), ()):
            if any(result in self.values for result in op.results):
                continue
            dots = self._dots_like(op, scope)
            if dots:
                values = self._contractions(dots, block)
            else:
                values = self._reduction(op, block) if is_reduction(op) else [self._instruction(op, scope, block)]
            for result, value in zip([result for each in dots or [op] for result in each.results], values, strict=True):
                if value.name_hint is None:
                    value.name_hint = result.name_hint
                self.values[result] = value

    def _dots_like(self, op: Operation, scope: Scope) -> list[Operation]:
        """The dots of a scope that the matrix engine computes as it does this one, from the same rows or from columns made of the
        same bytes; none if it does not."""
        contraction = self.blocks.get(op)
        if not isinstance(contraction, Contraction) or is_empty_loop(op):
            return []
        rows, places = contraction.rows, self.partitioned.operand_places
        others = [other for other in self.of_scope[id(scope)] if self.blocks.get(other) == contraction]
        return [
            other
            for other in others
            if (other.operands[rows] is op.operands[rows] and places[other, rows][0] == places[op, rows][0])
            or (have_same_source(op, other, 1 - rows) and places[other, 1 - rows][0] == places[op, 1 - rows][0])
        ]

    def _contractions(self, dots: Sequence[Operation], block: Block) -> list[SSAValue]:
        """The results of dots with the same rows. What was read before is a vector of the result, no element of their operands."""
        contraction = self.blocks[dots[0]]
        assert isinstance(contraction, Contraction)
        before, self.reads = self.reads, {}
        sums = ContractionLoop(dots, contraction, self._elements).emit(block)
        self.reads = before
        return [value for op, own in zip(dots, sums, strict=True) for value in Accumulation(op).finish([own], block)]

    def _instruction(self, op: Operation, scope: Scope, block: Block) -> SSAValue:
        kind = kind_of(op)
        type_ = tensor_type(op.results[0]).element_type
        if kind is Kind.ELEMENTWISE:
            operands = [self._operand(op, i, block) for i in range(len(op.operands))]
            return _add(block, scalar_op(op, operands, type_))
        if kind is Kind.INDEXED and not is_view(op):
            return self._read_at(op, block)
        if kind not in (Kind.SHAPING, Kind.INDEXED):
            raise LevelError("E1006", f"{op.name} has no elemental emission")
        if op.name == "stablehlo.iota":
            return self._iota(op, type_, scope, block)
        ways = {n: self.partitioned.operand_places[op, n] for n in range(len(op.operands))}
        # Where the result itself is empty no operand serves, and any will do.
        served = [n for n, (map, _) in ways.items() if not map.is_empty] or [0]
        ready = {n: self._operand(op, n, block) for n in served if ways[n][1] is scope}
        return self._choose_operand(op, served, ready, type_, block)

    def _read_at(self, op: Operation, block: Block) -> SSAValue:
        """An element of a parameter at run-time indices; every element of a constant is the same."""
        source = op.operands[0]
        if isinstance(owner := source.owner, Operation):
            return self._constant(source, owner)
        indices = self._indices(*self.partitioned.operand_places[op, 0], block)
        runtime = [self._operand(op, number, block) for number in range(1, len(op.operands))]
        return RuntimeIndices(op, block).read(self.tensors[source], indices, runtime)

    def _reduction(self, op: Operation, block: Block) -> list[SSAValue]:
        """A nest of counted loops that carries accumulators; operands are read inside, at maps with the counters.

        %sum = scf.for %k = %c0 to %c4096 step %c1 iter_args(%acc = %zero) -> (f32) {
          %x = tensor.extract %p0[%i0, %k]
          %new = arith.addf %acc, %x : f32
          scf.yield %new
        }
        """
        accumulation, inputs = Accumulation(op), num_loop_operands(op)
        initial = [self._operand(op, number, block) for number in range(inputs, len(op.operands))]
        carried = accumulation.start(initial, block)
        if is_empty_loop(op):
            return accumulation.finish(carried, block)
        blocks = self.blocks.get(op)
        if isinstance(blocks, JoinedLanes):
            elements = accumulation.widened([self._operand(op, number, block) for number in range(inputs)], block)
            return accumulation.finish(join_lanes(accumulation, blocks.lanes, elements, carried, block), block)
        if isinstance(blocks, Blocks):
            loop = BlockLoop(op, blocks, partial(self._elements, op))
            return accumulation.finish(loop.emit(carried, block), block)
        nest: list[scf.ForOp] = []
        inner = block
        for counter in loop_counters(op):
            loop = counted_loop(counter.hi + 1, carried, inner)
            inner, carried = loop.body.block, list(loop.body.block.args[1:])
            nest.append(loop)
        elements = self._elements(op, [loop.body.block.args[0] for loop in nest], inner)
        carried = accumulation.turn(carried, elements, inner)
        for loop in reversed(nest):
            loop.body.block.add_op(yield_op(*carried))
            carried = list(loop.results)
        return accumulation.finish(carried, block)

    def _elements(
        self, op: Operation, counters: Sequence[SSAValue], block: Block, numbers: Sequence[int] | None = None
    ) -> list[SSAValue]:
        """What a turn of a reduction's loop reads of its inputs, of all unless `numbers` says which. Values of the turn are known
        in the turn only."""
        known = dict(self.values), dict(self.reads), dict(self.indices)
        self.counters.extend(counters)
        inputs = range(num_loop_operands(op)) if numbers is None else numbers
        for scope in dict.fromkeys(self.partitioned.operand_places[op, number][1] for number in inputs):
            self._emit_scope(scope, block)
        elements = [self._operand(op, number, block) for number in inputs]
        del self.counters[len(self.counters) - len(counters) :]
        self.values, self.reads, self.indices = known
        return elements

    def _iota(self, op: Operation, type_: Attribute, scope: Scope, block: Block) -> SSAValue:
        """The index along the iota dimension, as a number."""
        dimension = op.properties["iota_dimension"]
        assert isinstance(dimension, IntegerAttr)
        position = self._indices(self.partitioned.places[op].map, scope, block)[dimension.value.data]
        loc = {name: value for name, value in op.attributes.items() if name == "loc"}
        return _add(block, ElementwiseOp("stablehlo.convert", [position], type_, loc))

    def _choose_operand(
        self,
        op: Operation,
        numbers: Sequence[int],
        ready: Mapping[int, SSAValue],
        type_: Attribute,
        block: Block,
    ) -> SSAValue:
        """The first of the operands whose domain holds; the last one needs no check.

        %b = xla.in_domain #map(%i0)
        %v = scf.if %b -> f32 { ... scf.yield %operand } else { ... scf.yield %next }
        """
        number, *others = numbers
        if number in ready:
            return ready[number]
        map, scope = self.partitioned.operand_places[op, number]
        if not others or self._always_holds(op, map):
            self._emit_scope(scope, block)
            return self._operand(op, number, block)
        condition = InDomainOp(IndexingMapAttr(map.with_results(())), self._args())
        block.add_op(condition)
        inside, outside = Block(), Block()
        self._emit_scope(scope, inside)
        inside.add_op(yield_op(self._operand(op, number, inside)))
        outside.add_op(yield_op(self._choose_operand(op, others, ready, type_, outside)))
        return _add(block, if_op(condition.res, [type_], Region(inside), Region(outside)))

    def _always_holds(self, op: Operation, map: IndexingMap) -> bool:
        whole = self.partitioned.places[op].map.dims
        same = all(a.lo <= b.lo and a.hi >= b.hi for a, b in zip(map.dims, whole, strict=True))
        return same and not map.constraints

    def _args(self) -> tuple[SSAValue, ...]:
        """The function's index, then the counters of the loops around."""
        return (*self.block.args[len(self.tensors) :], *self.counters)

    def _operand(self, op: Operation, number: int, block: Block) -> SSAValue:
        map, scope = self.partitioned.operand_places[op, number]
        return self._value(op.operands[number], map, scope, block)

    def _value(self, value: SSAValue, map: IndexingMap, scope: Scope, block: Block) -> SSAValue:
        """The element of an HLO value at `map` of the function's index."""
        owner = value.owner
        if isinstance(owner, Operation):
            if is_inlined_constant(owner):
                return self._constant(value, owner)
            if owner not in self.partitioned.function_of:
                return self.values[value]
            if self.partitioned.function_of[owner] is self.function:
                return self.values[value]
        key = (id(scope), value, map)
        if key not in self.reads:
            self.reads[key] = self._read(value, map, scope, block)
        return self.reads[key]

    def _read(self, value: SSAValue, map: IndexingMap, scope: Scope, block: Block) -> SSAValue:
        """An element of a parameter, or a call of another function."""
        type_ = tensor_type(value).element_type
        indices = self._indices(map, scope, block)
        if isinstance(value, BlockArgument):
            return _add(block, extract_op(self.tensors[value], indices, type_))
        owner = value.owner
        assert isinstance(owner, Operation)
        callee = self.names[self.partitioned.function_of[owner]]
        types = [tensor_type(result).element_type for result in owner.results]
        call = PureCallOp(callee, [*self.tensors.values(), *indices], types)
        block.add_op(call)
        return call.res[owner.results.index(value)]

    def _indices(self, map: IndexingMap, scope: Scope, block: Block) -> tuple[SSAValue, ...]:
        key = (id(scope), map)
        if key not in self.indices:
            self.indices[key] = self._apply(map, block)
        return self.indices[key]

    def _apply(self, map: IndexingMap, block: Block) -> tuple[SSAValue, ...]:
        args = self._args()
        position: dict[Expr, SSAValue] = {Dim(i): arg for i, arg in enumerate(args)}
        direct = [position.get(result) for result in map.results]
        if all(value is not None for value in direct):
            return tuple(value for value in direct if value is not None)
        op = ApplyIndexingOp(IndexingMapAttr(map), args)
        block.add_op(op)
        return tuple(op.res)

    def _constant(self, value: SSAValue, owner: Operation) -> SSAValue:
        if value not in self.constants:
            op = scalar_constant(constant_array(owner), tensor_type(value).element_type)
            self.constants[value] = op.results[0]
        return self.constants[value]


def _add(block: Block, op: Operation) -> SSAValue:
    append(block, op)
    return op.results[0]
