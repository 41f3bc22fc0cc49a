"""A program on whole arrays as what each device does with its parts.

%0 = dot %a, %b        %a: 8x4 {x, y}          %0 = dot %a, %1           %1: %b gathered along x;  4x2 and 2x8
%b: 4x8 {y, x}                          ⟶     %2 = all_reduce %0 along y
return %0              {x, ?}                  return %2

Of every operation that has a rule, the factors are cut as its results are wanted (what sdy's propagation found), else as its
operands are; operands come where they are needed, as late as that is known, right after what gives them. Operations without a rule
get whole arrays, and every device does all of their work. So any wish can be followed in part only, or not at all, and the answer
stays the same; what the user was promised is kept by moves: of arguments and results, of reshards, at the edges of manual
computations, and for the state of loops.
"""
# pyright: basic

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hlo2tx8.frontend import shim
from hlo2tx8.spmd.device_mesh import Axes, Mesh, Sharding, mesh_name, sharding_of, whole
from hlo2tx8.spmd.factor_axes import cuts_of, partial_of, summed_of
from hlo2tx8.spmd.mlir_values import CONSTANT, SHARDING, after, as_stablehlo, is_tensor, is_zero, rank_of
from hlo2tx8.spmd.reshard import Mover
from hlo2tx8.spmd.sharding_rule import ADD, Dims, Rule, splat_of
from hlo2tx8.spmd.sharding_rules import rule_of

Hints = list[Sharding | None]
MANUAL = "sdy.manual_computation"
WHILE, CONDITIONAL = "stablehlo.while", ("stablehlo.if", "stablehlo.case")
ONLY_HINTS = ("sdy.propagation_barrier", "sdy.reshard", "sdy.sharding_constraint")
CONSTRAINTS = ("sharding", "out_sharding")
"""Attributes of Shardy's operations on one array that only say how it is cut: reshard, sharded_to_unreduced, ..."""


@dataclass(frozen=True)
class Context:
    """The mesh that shardings are on, and the axes on which every value is each device's own."""

    mesh: Mesh
    manual: Axes = ()


def outermost(contexts: Iterable[Context]) -> Context:
    """The one around the others."""
    return min(contexts, key=lambda context: len(context.manual))


class Localizer:
    """Changes functions in place; `meshes` are those of the module."""

    def __init__(self, meshes: dict[str, Mesh]) -> None:
        self.meshes = meshes
        self.mover = Mover()
        self.views: dict[Any, dict[Context, Sharding]] = {}
        """Of each value, how it is cut: in its own context, and in that of manual computations that read it."""
        self.moves: dict[tuple[Any, Sharding, Context], Any] = {}

    def block(self, block: Any, context: Context) -> None:
        """All operations of a block but the last, and those that are known already, as arguments must be."""
        for op in list(block.operations)[:-1]:
            if not any(result in self.views for result in op.operation.results):
                self.operation(op.operation, context)

    def operation(self, op: Any, context: Context) -> None:
        """Changes it, and says how its results are cut."""
        op = as_stablehlo(op)
        constraint = next((name for name in CONSTRAINTS if op.name.startswith("sdy.") and name in op.attributes), None)
        if constraint is not None or op.name in ONLY_HINTS:
            value = op.operands[0]
            wanted = None if constraint is None else self.wanted(op.attributes[constraint], value, context)
            if wanted is not None and wanted.partial != self.here(value, context).partial:
                value = self.moved(value, wanted, context)
            op.results[0].replace_all_uses_with(value)
            op.erase()
        elif op.name == MANUAL:
            self.manual(op, context)
        elif op.name == WHILE:
            self.loop(op, context)
        elif op.name in CONDITIONAL:
            self.conditional(op, context)
        elif not op.results and op.name.startswith("sdy."):
            op.erase()
        else:
            self.plain(op, context)

    def plain(self, op: Any, context: Context) -> None:
        """An operation without control."""
        mesh = context.mesh
        rule = self.rule(op, context)
        hints = self.hints(op, context)
        had = [self.here(value, context) for value in op.operands]
        zeros = [is_zero(value) for value in op.operands]
        cuts = cuts_of(rule, hints, had, zeros, mesh, context.manual)

        def sharding(dims: Dims, partial: Axes = ()) -> Sharding:
            return Sharding(tuple(() if f is None else cuts[f] for f in dims), tuple(sorted(partial)))

        combined = tuple(axis for f in rule.combined for axis in cuts[f])
        wish = partial_of(hints)
        kept = tuple(a for a in wish if a in combined) if rule.combiner == ADD else ()
        free = tuple(a for a in wish if all(a not in axes for axes in cuts))
        summed, first = (free, -1) if op.name == CONSTANT and is_zero(op.results[0]) else summed_of(rule, free, had, zeros)
        for number, dims in enumerate(rule.operands):
            partial = summed if number == first or (number in rule.linear and not rule.is_bilinear) else ()
            if number == rule.summed_onto:
                partial = combined
            op.operands[number] = self.moved(op.operands[number], sharding(dims, partial), context)
        for region in op.regions:
            self.scalars(region, context)
        for result, dims in zip(op.results, rule.results, strict=True):
            self.set(result, sharding(dims, (*summed, *kept)), context)
        for name, dims in rule.attributes.items():
            sizes = [n if f is None else n // mesh.size(cuts[f]) for n, f in zip(op.attributes[name], dims, strict=True)]
            op.attributes[name] = shim.ir().DenseI64ArrayAttr.get(sizes)
        if op.name == CONSTANT and any(cuts):
            op.attributes["value"] = shim.ir().DenseElementsAttr.get_splat(op.results[0].type, splat_of(op))
        left = tuple(axis for axis in combined if axis not in kept)
        if left:
            self.combine(op, left, rule, context)

    def combine(self, op: Any, axes: Axes, rule: Rule, context: Context) -> None:
        """Puts together what devices along some axes have of the result."""
        (result,) = op.results
        with after(result):
            together = self.mover.combined(result, context.mesh, axes, rule.combiner)
        result.replace_all_uses_except(together, together.owner.operation)
        self.views[together] = {context: self.views[result][context]}

    def rule(self, op: Any, context: Context) -> Rule:
        """Of the operation on whole arrays, the types of which operands get for as long."""
        if len(context.manual) == len(context.mesh.axes):
            return _without_factors(op)
        types = {value: value.type for value in op.operands}
        for value, kind in types.items():
            if is_tensor(kind):
                value.set_type(shim.ir().RankedTensorType.get(self.whole_shape(value, context), kind.element_type))
        rule = rule_of(op)
        for value, kind in types.items():
            value.set_type(kind)
        return rule

    def loop(self, op: Any, context: Context) -> None:
        """The state is cut as it is wanted after the loop."""
        state = [self.result(op, number, context) for number in range(len(op.results))]
        self.operands(op, state, context)
        for region in op.regions:
            for argument, sharding in zip(region.blocks[0].arguments, state, strict=True):
                self.set(argument, sharding, context)
            self.region(region, None if region == op.regions[0] else state, context)
        self.results(op, state, context)

    def conditional(self, op: Any, context: Context) -> None:
        op.operands[0] = self.moved(op.operands[0], whole(0), context)
        found = [self.result(op, number, context) for number in range(len(op.results))]
        for region in op.regions:
            self.region(region, found, context)
        self.results(op, found, context)

    def region(self, region: Any, found: list[Sharding] | None, context: Context) -> None:
        """A region whose results are cut like this; whole if None."""
        block = region.blocks[0]
        self.block(block, context)
        last = list(block.operations)[-1].operation
        self.operands(last, [whole(rank_of(v)) for v in last.operands] if found is None else found, context)

    def manual(self, op: Any, context: Context) -> None:
        """Puts the body in the place of the operation, on each device's own part."""
        from jaxlib.mlir.dialects import sdy

        ins = list(sdy.TensorShardingPerValueAttr(op.attributes["in_shardings"]).shardings)
        outs = list(sdy.TensorShardingPerValueAttr(op.attributes["out_shardings"]).shardings)
        mesh = self.meshes[mesh_name((*ins, *outs)[0])] if ins or outs else context.mesh
        context = context if mesh == context.mesh else Context(mesh)
        axes = mesh.named(str(axis) for axis in sdy.ManualAxesAttr(op.attributes["manual_axes"]))
        inner = Context(mesh, (*context.manual, *axes))
        block = op.regions[0].blocks[0]
        for argument, operand, attribute in zip(block.arguments, list(op.operands), ins, strict=True):
            if is_tensor(operand.type):
                sharding = mesh.fitted(sharding_of(attribute, mesh), self.whole_shape(operand, context))
                operand = self.seen(self.moved(operand, sharding, context), sharding.without(axes), inner)
            argument.replace_all_uses_with(operand)
        self.block(block, inner)
        *body, last = (o.operation for o in block.operations)
        given: list[tuple[Any, Sharding]] = []
        for value, result, attribute in zip(last.operands, op.results, outs, strict=True):
            sharding = mesh.fitted(sharding_of(attribute, mesh), result.type.shape) if is_tensor(result.type) else whole(0)
            given.append((self.moved(value, sharding.without(axes), inner), sharding))
        body = [o.operation for o in block.operations][:-1]
        for moved in body:
            moved.move_before(op)
        for result, (value, sharding) in zip(list(op.results), given, strict=True):
            result.replace_all_uses_with(self.seen(value, sharding, context))
        op.erase()

    def seen(self, value: Any, sharding: Sharding, context: Context) -> Any:
        """What devices have of a value, as parts of an array in another context."""
        views = self.views.setdefault(value, {})
        if views.get(context, sharding) == sharding:
            views[context] = sharding
            return value
        with after(value):
            copy = shim.ir().Operation.create("stablehlo.optimization_barrier", [value.type], [value]).results[0]
        self.views[copy] = {context: sharding}
        return copy

    def scalars(self, region: Any, context: Context) -> None:
        """What an operation's own region reads from outside is whole."""
        for inner in [o.operation for block in region.blocks for o in block.operations]:
            for number, value in enumerate(inner.operands):
                if value in self.views:
                    inner.operands[number] = self.moved(value, whole(rank_of(value)), context)
            for nested in inner.regions:
                self.scalars(nested, context)

    def operands(self, op: Any, wanted: list[Sharding], context: Context) -> None:
        for number, sharding in enumerate(wanted):
            op.operands[number] = self.moved(op.operands[number], sharding, context)

    def results(self, op: Any, found: list[Sharding], context: Context) -> None:
        for result, sharding in zip(op.results, found, strict=True):
            self.set(result, sharding, context)

    def result(self, op: Any, number: int, context: Context) -> Sharding:
        """How a result of an operation with regions is to be cut."""
        hint = self.hints(op, context)[number]
        return whole(rank_of(op.results[number])) if hint is None else hint

    def hints(self, op: Any, context: Context) -> Hints:
        """How each result is wanted, None where nobody said or it is on another mesh."""
        from jaxlib.mlir.dialects import sdy

        if SHARDING not in op.attributes:
            return [None] * len(op.results)
        found = list(sdy.TensorShardingPerValueAttr(op.attributes[SHARDING]).shardings)
        return [self.wanted(found[number], value, context) for number, value in enumerate(op.results)]

    def wanted(self, attribute: Any, value: Any, context: Context) -> Sharding | None:
        """What an attribute says, so far as it can be had."""
        mesh = self.meshes[mesh_name(attribute)]
        if mesh != context.mesh or not is_tensor(value.type):
            return None
        return mesh.fitted(sharding_of(attribute, mesh).without(context.manual), self.whole_shape(value, context))

    def here(self, value: Any, context: Context) -> Sharding:
        """How a value is cut in a context; one from around it comes whole."""
        return self.views[value].get(context) or whole(rank_of(value))

    def whole_shape(self, value: Any, context: Context) -> tuple[int, ...]:
        """The shape that the value had in the program."""
        if not is_tensor(value.type):
            return ()
        views = self.views.get(value, {})
        if not views:
            return tuple(value.type.shape)
        context = context if context in views else outermost(views)
        return context.mesh.whole_shape(value.type.shape, views[context])

    def set(self, value: Any, sharding: Sharding, context: Context) -> None:
        """Gives a value that was whole the type of a part."""
        if is_tensor(value.type):
            value.set_type(shim.ir().RankedTensorType.get(context.mesh.local(value.type.shape, sharding), value.type.element_type))
        self.views[value] = {context: sharding}

    def moved(self, value: Any, target: Sharding, context: Context) -> Any:
        """The value in another sharding; from around the context it comes whole."""
        views = self.views[value]
        if context not in views:
            value = self.seen(self.moved(value, whole(rank_of(value)), outermost(views)), whole(rank_of(value)), context)
        source = self.views[value][context]
        if source == target or not is_tensor(value.type):
            return value
        if is_zero(value) and source.dims == target.dims:
            return value
        key = value, target, context
        if key not in self.moves:
            with after(value):
                self.moves[key] = self.mover.moved(value, context.mesh, source, target, context.manual)
            self.views[self.moves[key]] = {context: target}
        return self.moves[key]


def _without_factors(op: Any) -> Rule:
    """Everything whole."""
    return Rule(operands=[[None] * rank_of(v) for v in op.operands], results=[[None] * rank_of(v) for v in op.results])
