"""SpmdPartitioner: a program on whole arrays becomes the program that each device runs on its shards.

%0 = dot %a, %b        %a: 8x4 {x, y}          %0 = dot %a, %1           %1: all_gather of %b along x;  4x2 and 2x8
%b: 4x8 {y, x}                          ⟶     %2 = all_reduce %0 along y
return %0              {x, ?}                  return %2

An op with a sharding rule has its factors sharded as its results are wanted (what Shardy's propagation found), else as its operands
are. Operands are resharded where they are needed, as late as that is known, right after the op that defines them. An op without
a rule gets replicated operands, and every device does all of its work. So a wanted sharding may be followed in part or not at all,
and the program's results stay the same; what was promised to the user is kept by reshards: of arguments and results, of explicit
reshards, at the edges of manual computations, and of the state of loops.
"""
# pyright: basic

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hlo2tx8.frontend import shim
from hlo2tx8.frontend.attributes import AttributeReader
from hlo2tx8.spmd.device_mesh import Axes, DeviceMesh, Sharding, mesh_name, replicated, sharding_of
from hlo2tx8.spmd.factor_axes import axes_of_factors, kept_unreduced, wanted_unreduced
from hlo2tx8.spmd.mlir_rule import rule_of
from hlo2tx8.spmd.mlir_values import CONSTANT, SHARDING, as_stablehlo, inserting_after, is_tensor, is_zero, rank_of, splat_of
from hlo2tx8.spmd.reshard import ReshardBuilder
from hlo2tx8.spmd.sharding_rule import ADD, DimFactors, OpShardingRule, replicated_rule

MANUAL = "sdy.manual_computation"
WHILE, CONDITIONAL = "stablehlo.while", ("stablehlo.if", "stablehlo.case")
HINTS = ("sdy.propagation_barrier", "sdy.reshard", "sdy.sharding_constraint")
"""Shardy's ops that hand on their operand, and only say how its sharding is found."""
SHARDING_ATTRIBUTES = ("sharding", "out_sharding")
"""Attributes of Shardy's ops that hand on their operand in another sharding: reshard, sharded_to_unreduced, ..."""


@dataclass(frozen=True)
class ManualScope:
    """A mesh, and the axes that manual computations around an op have taken: on these, devices have unrelated arrays."""

    mesh: DeviceMesh
    manual: Axes = ()


def outermost(scopes: Iterable[ManualScope]) -> ManualScope:
    """The scope with the fewest manual axes."""
    return min(scopes, key=lambda scope: len(scope.manual))


class SpmdPartitioner:
    """Changes functions of a module in place, block by block. `meshes` are the module's."""

    def __init__(self, module: Any, meshes: dict[str, DeviceMesh]) -> None:
        self.reader = AttributeReader(module)
        self.meshes = meshes
        self.builder = ReshardBuilder()
        self.shardings: dict[Any, dict[ManualScope, Sharding]] = {}
        """Of each value, its sharding in the scope that it is in, and in those of manual computations that read it."""
        self.resharded: dict[tuple[Any, Sharding, ManualScope], Any] = {}

    def partition_block(self, block: Any, scope: ManualScope) -> None:
        """All ops of a block but its terminator. The shardings of its arguments must be known."""
        for op in list(block.operations)[:-1]:
            if not any(result in self.shardings for result in op.operation.results):
                self.partition_op(op.operation, scope)

    def partition_op(self, op: Any, scope: ManualScope) -> None:
        """Makes an op work on shards, and notes the shardings of its results."""
        op = as_stablehlo(op)
        attribute = next((name for name in SHARDING_ATTRIBUTES if op.name.startswith("sdy.") and name in op.attributes), None)
        if attribute is not None or op.name in HINTS:
            value = op.operands[0]
            wanted = None if attribute is None else self.wanted(op.attributes[attribute], value, scope)
            if wanted is not None and wanted.unreduced != self.sharding(value, scope).unreduced:
                value = self.reshard(value, wanted, scope)
            op.results[0].replace_all_uses_with(value)
            op.erase()
        elif op.name == MANUAL:
            self.inline_manual_computation(op, scope)
        elif op.name == WHILE:
            self.partition_while(op, scope)
        elif op.name in CONDITIONAL:
            self.partition_conditional(op, scope)
        elif not op.results and op.name.startswith("sdy."):
            op.erase()
        else:
            self.partition_by_rule(op, scope)

    def partition_by_rule(self, op: Any, scope: ManualScope) -> None:
        """Shards an op without control flow along the factors of its rule."""
        mesh = scope.mesh
        rule = self.rule(op, scope)
        hints = self.hints(op, scope)
        given = [self.sharding(value, scope) for value in op.operands]
        are_zero = [is_zero(value) for value in op.operands]
        axes_of = axes_of_factors(rule, hints, given, are_zero, mesh, scope.manual)

        def sharding(dims: DimFactors, unreduced: Axes = ()) -> Sharding:
            return Sharding(tuple(() if f is None else axes_of[f] for f in dims), tuple(sorted(unreduced)))

        reduced = tuple(axis for f in rule.reduction_factors for axis in axes_of[f])
        wanted = wanted_unreduced(hints)
        left_unreduced = tuple(a for a in wanted if a in reduced) if rule.reduction == ADD else ()
        free = tuple(a for a in wanted if all(a not in axes for axes in axes_of))
        is_zero_constant = op.name == CONSTANT and is_zero(op.results[0])
        passed_on, first = (free, None) if is_zero_constant else kept_unreduced(rule, free, given, are_zero)
        for number, dims in enumerate(rule.operands):
            unreduced = passed_on if number == first or (number in rule.linear and not rule.is_multilinear) else ()
            if number == rule.accumulated_operand:
                unreduced = reduced
            op.operands[number] = self.reshard(op.operands[number], sharding(dims, unreduced), scope)
        for region in op.regions:
            self.replicate_captured(region, scope)
        for result, dims in zip(op.results, rule.results, strict=True):
            self.set_sharding(result, sharding(dims, (*passed_on, *left_unreduced)), scope)
        for name, dims in rule.size_attributes.items():
            counts = [1 if f is None else mesh.size(axes_of[f]) for f in dims]
            sizes = [-(-n // count) for n, count in zip(op.attributes[name], counts, strict=True)]
            op.attributes[name] = shim.ir().DenseI64ArrayAttr.get(sizes)
        if op.name == CONSTANT and any(axes_of):
            op.attributes["value"] = shim.ir().DenseElementsAttr.get_splat(op.results[0].type, splat_of(op))
        left = tuple(axis for axis in reduced if axis not in left_unreduced)
        if left:
            self.reduce_result(op, left, rule, scope)

    def reduce_result(self, op: Any, axes: Axes, rule: OpShardingRule, scope: ManualScope) -> None:
        """Puts an all_reduce over these axes behind the op's result."""
        (result,) = op.results
        with inserting_after(result):
            total = self.builder.all_reduce(result, scope.mesh, axes, rule.reduction)
        result.replace_all_uses_except(total, total.owner.operation)
        self.shardings[total] = {scope: self.shardings[result][scope]}

    def rule(self, op: Any, scope: ManualScope) -> OpShardingRule:
        """The rule of the op on whole arrays; without factors where all axes of the mesh are manual."""
        shapes = [self.global_shape(value, scope) for value in op.operands]
        if len(scope.manual) == len(scope.mesh.axes):
            return replicated_rule(shapes, [(0,) * rank_of(v) for v in op.results])
        return rule_of(op, shapes, self.reader)

    def partition_while(self, op: Any, scope: ManualScope) -> None:
        """Shards a loop's state, at its beginning and at the end of each turn, as it is wanted after the loop."""
        state = [self.wanted_result(op, number, scope) for number in range(len(op.results))]
        self.reshard_operands(op, state, scope)
        for region in op.regions:
            for argument, sharding in zip(region.blocks[0].arguments, state, strict=True):
                self.set_sharding(argument, sharding, scope)
            self.partition_region(region, None if region == op.regions[0] else state, scope)
        self.set_shardings(op, state, scope)

    def partition_conditional(self, op: Any, scope: ManualScope) -> None:
        """Shards the results of all branches as they are wanted after the op; every device has the predicate."""
        op.operands[0] = self.reshard(op.operands[0], replicated(0), scope)
        found = [self.wanted_result(op, number, scope) for number in range(len(op.results))]
        for region in op.regions:
            self.partition_region(region, found, scope)
        self.set_shardings(op, found, scope)

    def partition_region(self, region: Any, results: list[Sharding] | None, scope: ManualScope) -> None:
        """A region whose results get these shardings; replicated if None."""
        block = region.blocks[0]
        self.partition_block(block, scope)
        last = list(block.operations)[-1].operation
        self.reshard_operands(last, [replicated(rank_of(v)) for v in last.operands] if results is None else results, scope)

    def inline_manual_computation(self, op: Any, scope: ManualScope) -> None:
        """Puts the body of a manual computation in its place, to work on each device's own shards."""
        from jaxlib.mlir.dialects import sdy

        ins = list(sdy.TensorShardingPerValueAttr(op.attributes["in_shardings"]).shardings)
        outs = list(sdy.TensorShardingPerValueAttr(op.attributes["out_shardings"]).shardings)
        mesh = self.meshes[mesh_name((*ins, *outs)[0])] if ins or outs else scope.mesh
        scope = scope if mesh == scope.mesh else ManualScope(mesh)
        axes = mesh.axes_named(str(axis) for axis in sdy.ManualAxesAttr(op.attributes["manual_axes"]))
        inner = ManualScope(mesh, (*scope.manual, *axes))
        block = op.regions[0].blocks[0]
        for argument, operand, attribute in zip(block.arguments, list(op.operands), ins, strict=True):
            if is_tensor(operand.type):
                sharding = mesh.evenly(sharding_of(attribute, mesh), self.global_shape(operand, scope))
                operand = self.in_scope(self.reshard(operand, sharding, scope), sharding.without(axes), inner)
            argument.replace_all_uses_with(operand)
        self.partition_block(block, inner)
        *_, last = (o.operation for o in block.operations)
        results: list[tuple[Any, Sharding]] = []
        for value, result, attribute in zip(last.operands, op.results, outs, strict=True):
            sharding = mesh.evenly(sharding_of(attribute, mesh), result.type.shape) if is_tensor(result.type) else replicated(0)
            results.append((self.reshard(value, sharding.without(axes), inner), sharding))
        for inlined in [o.operation for o in block.operations][:-1]:
            inlined.move_before(op)
        for result, (value, sharding) in zip(list(op.results), results, strict=True):
            result.replace_all_uses_with(self.in_scope(value, sharding, scope))
        op.erase()

    def in_scope(self, value: Any, sharding: Sharding, scope: ManualScope) -> Any:
        """The value with that sharding in another scope too; a copy of it where it has a different one there already."""
        shardings = self.shardings.setdefault(value, {})
        if shardings.get(scope, sharding) == sharding:
            shardings[scope] = sharding
            return value
        with inserting_after(value):
            copy = shim.ir().Operation.create("stablehlo.optimization_barrier", [value.type], [value]).results[0]
        self.shardings[copy] = {scope: sharding}
        return copy

    def replicate_captured(self, region: Any, scope: ManualScope) -> None:
        """Gives every device all of what an op's own region reads from outside."""
        for inner in [o.operation for block in region.blocks for o in block.operations]:
            for number, value in enumerate(inner.operands):
                if value in self.shardings:
                    inner.operands[number] = self.reshard(value, replicated(rank_of(value)), scope)
            for nested in inner.regions:
                self.replicate_captured(nested, scope)

    def reshard_operands(self, op: Any, wanted: list[Sharding], scope: ManualScope) -> None:
        for number, sharding in enumerate(wanted):
            op.operands[number] = self.reshard(op.operands[number], sharding, scope)

    def set_shardings(self, op: Any, found: list[Sharding], scope: ManualScope) -> None:
        for result, sharding in zip(op.results, found, strict=True):
            self.set_sharding(result, sharding, scope)

    def wanted_result(self, op: Any, number: int, scope: ManualScope) -> Sharding:
        """The sharding in which a result of an op with regions is wanted; replicated where nothing is said."""
        hint = self.hints(op, scope)[number]
        return replicated(rank_of(op.results[number])) if hint is None else hint

    def hints(self, op: Any, scope: ManualScope) -> list[Sharding | None]:
        """The sharding in which each result is wanted; None where nothing is said, or it is on another mesh."""
        from jaxlib.mlir.dialects import sdy

        if SHARDING not in op.attributes:
            return [None] * len(op.results)
        found = list(sdy.TensorShardingPerValueAttr(op.attributes[SHARDING]).shardings)
        return [self.wanted(found[number], value, scope) for number, value in enumerate(op.results)]

    def wanted(self, attribute: Any, value: Any, scope: ManualScope) -> Sharding | None:
        """The sharding that an attribute asks for a value, without what is uneven; None if it is on another mesh."""
        mesh = self.meshes[mesh_name(attribute)]
        if mesh != scope.mesh or not is_tensor(value.type):
            return None
        return mesh.evenly(sharding_of(attribute, mesh).without(scope.manual), self.global_shape(value, scope))

    def sharding(self, value: Any, scope: ManualScope) -> Sharding:
        """The value's sharding in a scope; a value from around the scope is replicated in it."""
        return self.shardings[value].get(scope) or replicated(rank_of(value))

    def global_shape(self, value: Any, scope: ManualScope) -> tuple[int, ...]:
        """The shape that the value had before partitioning."""
        if not is_tensor(value.type):
            return ()
        shardings = self.shardings.get(value, {})
        if not shardings:
            return tuple(value.type.shape)
        scope = scope if scope in shardings else outermost(shardings)
        return scope.mesh.global_shape(value.type.shape, shardings[scope])

    def set_sharding(self, value: Any, sharding: Sharding, scope: ManualScope) -> None:
        """Turns a whole value into a shard: changes its type and notes its sharding."""
        if is_tensor(value.type):
            shape = scope.mesh.shard_shape(value.type.shape, sharding)
            value.set_type(shim.ir().RankedTensorType.get(shape, value.type.element_type))
        self.shardings[value] = {scope: sharding}

    def reshard(self, value: Any, target: Sharding, scope: ManualScope) -> Any:
        """The value in another sharding; one from around the scope is replicated first. Equal reshards are done once."""
        shardings = self.shardings[value]
        if scope not in shardings:
            everywhere = replicated(rank_of(value))
            value = self.in_scope(self.reshard(value, everywhere, outermost(shardings)), everywhere, scope)
        source = self.shardings[value][scope]
        if source == target or not is_tensor(value.type):
            return value
        if is_zero(value) and source.dims == target.dims:
            return value
        key = value, target, scope
        if key not in self.resharded:
            with inserting_after(value):
                self.resharded[key] = self.builder.reshard(value, scope.mesh, source, target, scope.manual)
            self.shardings[self.resharded[key]] = {scope: target}
        return self.resharded[key]
