"""Pass simplify-hlo: the same values with fewer and simpler ops, bit for bit but for the payload of a NaN.

    transpose (transpose %a), reshape (reshape %a)    ⟶    one of them, or %a
    dot_general (transpose %a), %b                    ⟶    dot_general %a, %b
    transpose (dot_general %a, %b)                    ⟶    dot_general %b, %a, or a transpose of it that keeps rows whole
    broadcast (broadcast %a)                          ⟶    one broadcast
    add (broadcast %a, broadcast %b)                  ⟶    broadcast (add %a, %b)
    reduce over dimensions of size 1                  ⟶    the combiner on whole tensors
    multiply %a, 1   add %a, -0.0   divide %a, 4      ⟶    %a, %a, multiply %a, 0.25
    exponential 2.0                                   ⟶    a constant
    two equal ops, one nobody reads                   ⟶    one, none

What an op becomes is said in `rules.shapes`, `rules.arithmetic` and `rules.fold_constants`. Tensors with layouts of their own and
the bodies of fusions are left as they are.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.hlo.lookup import has_spec, spec_of
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.passes.rules.arithmetic import RULES as OF_VALUES
from hlo2tx8.passes.rules.fold_constants import fold_constants
from hlo2tx8.passes.rules.shapes import RULES as OF_SHAPES
from hlo2tx8.passes.rules.shapes import sink_broadcast

Rule = Callable[[Operation], SSAValue | None]
MOST_WALKS = 4
"""A rule may make room for another one before it; few chains are longer."""
_MERGED = (Kind.ELEMENTWISE, Kind.SHAPING, Kind.INDEXED, Kind.REDUCE, Kind.DOT, Kind.CONSTANT)
_UNREPEATABLE = ("stablehlo.rng",)
"""Equal ops that give other values each time."""


@dataclass(frozen=True)
class SimplifyHloPass(ModulePass):
    """Rewrites @main and the regions of its control flow; see the module docstring."""

    name = "simplify-hlo"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _simplify(function.body.block)


def _simplify(block: Block) -> None:
    for op in block.ops:
        if op.name in CONTROL:
            for region in op.regions:
                for inner in region.blocks:
                    _simplify(inner)
    looked_at: set[Operation] | None = None
    for _ in range(MOST_WALKS):
        looked_at = _rewrite(block, looked_at)
        if not looked_at:
            break
    _merge_equal(block)
    _erase_unread(block)


def _rewrite(block: Block, among: set[Operation] | None) -> set[Operation]:
    """One walk with the rules over all ops, or some; the ops for which there may be a rule now: new ones, readers of new ones."""
    changed: set[Operation] = set()
    for op in tuple(block.ops):
        if (among is not None and op not in among) or len(op.results) != 1 or not _is_plain(op):
            continue
        before = op.prev_op
        for rule in _rules(op):
            if (value := rule(op)) is None or value.type != op.results[0].type:  # what an operand reads may have a layout
                continue
            if value.name_hint is None:
                value.name_hint = op.results[0].name_hint
            new = block.first_op if before is None else before.next_op
            while new is not None and new is not op:
                changed.add(new)
                new = new.next_op
            Rewriter.replace_op(op, [], [value])
            changed.update(use.operation for use in value.uses)
            break
    return changed


def _rules(op: Operation) -> tuple[Rule, ...]:
    if not has_spec(op.name):
        return ()
    kind = spec_of(op).kind
    if kind is Kind.ELEMENTWISE:
        return (fold_constants, *OF_VALUES.get(op.name, ()), sink_broadcast)
    return (*OF_SHAPES.get(op.name, ()), fold_constants) if kind is Kind.SHAPING else OF_SHAPES.get(op.name, ())


def _is_plain(op: Operation) -> bool:
    """Are all of its values tensors in the usual order?"""
    types: tuple[Attribute, ...] = (*(value.type for value in op.operands), *op.result_types)
    return all(isinstance(type_, TensorType) and isinstance(type_.encoding, NoneAttr) for type_ in types)


def _merge_equal(block: Block) -> None:
    alone: dict[Hashable, Operation] = {}  # an op that nothing else resembles needs no key
    known: dict[Hashable, dict[Hashable, Operation]] = {}
    for op in tuple(block.ops):
        if not op.operands or op.name in _UNREPEATABLE or not has_spec(op.name) or spec_of(op).kind not in _MERGED:
            continue
        alike = (op.name, *map(_same, op.operands))
        if (first := alone.setdefault(alike, op)) is op:
            continue
        if alike not in known:
            known[alike] = {_key(first, {}): first}
        other = known[alike].setdefault(_key(op, {}), op)
        if other is not op:
            Rewriter.replace_op(op, [], list(other.results))


def _key(op: Operation, inside: dict[SSAValue, int]) -> Hashable:
    """Equal for ops that mean the same; values of regions by number, others themselves."""
    regions = tuple(_region_key(region, inside) for region in op.regions)
    facts = tuple((k, v) for k, v in sorted((*op.properties.items(), *op.attributes.items())) if k != "loc")
    operands = tuple(inside.get(value, _same(value)) for value in op.operands)
    for result in op.results if inside else ():
        inside[result] = len(inside)
    return op.name, operands, facts, tuple(op.result_types), regions


def _same(value: SSAValue) -> Hashable:
    """A value; of a constant that is a scalar, what is equal for all others of that element."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name != "stablehlo.constant" or tensor_type(value).get_shape() != ():
        return value
    return owner.properties["value"], value.type


def _region_key(region: Region, inside: dict[SSAValue, int]) -> Hashable:
    block, own = region.block, dict(inside)
    for arg in block.args:
        own[arg] = len(own)
    return tuple(block.arg_types), tuple(_key(op, own) for op in block.ops)


def _erase_unread(block: Block) -> None:
    for op in reversed(tuple(block.ops)):
        if op.results and has_spec(op.name) and spec_of(op).kind in _MERGED and all(r.first_use is None for r in op.results):
            Rewriter.erase_op(op)
