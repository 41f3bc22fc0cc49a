"""Instructions of a block that are not needed: they compute the same of the same values, or nobody reads them."""

from collections.abc import Hashable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo.lookup import names_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.ir import maker_of
from hlo2tx8.partitioner.instruction import tensor_type

_MERGED = names_of(Kind.ELEMENTWISE, Kind.SHAPING, Kind.INDEXED, Kind.REDUCE, Kind.DOT, Kind.CONSTANT)
_UNREPEATABLE = ("stablehlo.rng",)
"""Equal ops that give other values each time."""


def merge_equal(block: Block) -> None:
    """Lets the first of equal instructions of a block stand for all of them."""
    alone: dict[Hashable, Operation] = {}  # an op that nothing else resembles needs no key
    known: dict[Hashable, dict[Hashable, Operation]] = {}
    for op in ops_of(block):
        if not op.operands or op.name in _UNREPEATABLE or op.name not in _MERGED:
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
    owner = maker_of(value)
    if owner is None or owner.name != "stablehlo.constant" or tensor_type(value).get_shape() != ():
        return value
    return owner.properties["value"], value.type


def _region_key(region: Region, inside: dict[SSAValue, int]) -> Hashable:
    block, own = region.block, dict(inside)
    for arg in block.args:
        own[arg] = len(own)
    return tuple(block.arg_types), tuple(_key(op, own) for op in block.ops)


def erase_unread_of_functions(module: ModuleOp) -> None:
    """Drops what nobody reads in the bodies of a module's functions."""
    for function in defined_functions(module):
        erase_unread(function.body.block)


def erase_unread(block: Block) -> None:
    """Drops what nobody reads."""
    for op in reversed(ops_of(block)):
        if op.name in _MERGED and op.results and all(r.first_use is None for r in op.results):
            Rewriter.erase_op(op)
