"""Pass turn-factors: factors and zero points of groups along what a product adds up lie by groups first.

    %r = broadcast_in_dim %s, dims = [0, 1]     [4096, 32] -> [4096, 32, 128]
    %w = reshape (multiply %q, %r)              [4096, 4096]
    %y = dot_general %x, %w over dimension 1 of %w

    ⟶    %r = broadcast_in_dim (transpose %s), dims = [1, 0]     [32, 4096] -> [4096, 32, 128]

A panel of the product has one group of many columns: it reads factors that are next to each other, instead of one from each line.
"""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.partitioner.contraction import added_dimensions, is_dot
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.partitioner.made_from import BROADCAST, made_from

FEW = 16
"""Elements that a factor is of at least: to turn the factors of fewer takes as long as it saves."""


@dataclass(frozen=True)
class TurnFactorsPass(ModulePass):
    """Turns what weights of groups are made with; see the module docstring."""

    name = "turn-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        turned: dict[SSAValue, SSAValue] = {}
        for dot in ops_named(op, ("stablehlo.dot_general",)):
            if not is_dot(dot):
                continue
            for value, added in zip(dot.operands, added_dimensions(dot), strict=True):
                if list(added) == [len(shape_of(value)) - 1]:
                    for other in made_from(value).others:
                        if other.name == BROADCAST:
                            _turn(other, turned)


def _turn(op: Operation, turned: dict[SSAValue, SSAValue]) -> None:
    """Puts the groups of factors first, if they are last and each is repeated behind that."""
    dims, shape, result = [*attributes_of(op)["broadcast_dimensions"]], shape_of(op.operands[0]), shape_of(op.results[0])
    last = len(result) - 1
    if len(dims) < 2 or dims != list(range(last)) or result[last] < FEW or prod(shape[:-1]) < FEW or shape[-1] == 1:
        return
    order, factors = [len(shape) - 1, *range(len(shape) - 1)], op.operands[0]
    e = Expansion(op)
    found = turned.get(factors)
    if (
        found is None
        or not isinstance(found.owner, Operation)
        or found.owner.parent is not op.parent
        or op.is_before_in_block(found.owner)
    ):
        found = turned[factors] = e.transpose(factors, order)
    e.replace(e.emit("broadcast_in_dim", [found], op.results[0].type, broadcast_dimensions=int_array([dims[d] for d in order])))
