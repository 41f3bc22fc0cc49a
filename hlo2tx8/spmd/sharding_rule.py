"""How an op splits into independent shares of work, in the form of Shardy's op sharding rules.

A *factor* is an extent of the op's iteration space: dot_general of [m, k] and [k, n] has the factors m, n and k. A dimension of an
operand or result that belongs to a factor may be sharded as the factor is; one that belongs to none must be replicated. A factor
that the result does not have (k) is a *reduction factor*: sharded, it leaves each device with a partial result, a summand or
whatever the op's reduction combines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

DimFactors = tuple[int | None, ...]
"""For each dimension of an array its factor's number, None if the dimension must be replicated."""
ADD = "stablehlo.add"


@dataclass(frozen=True)
class OpShardingRule:
    """The factors of one op.

    `factor_sizes[f]`: factor f may be split evenly into any number of shards that divides this.
    `operands`, `results`: the factor of each dimension of each array.
    `reduction_factors`, `reduction`: sharded along one of these factors, results must be combined by that op.
    `linear`: operands in which the op is linear, so that they may be unreduced (each device has a summand): all of them
    together or, if `is_multilinear`, one of them.
    `accumulated_operand`: the operand to which the op adds, which must be unreduced along sharded reduction factors.
    `size_attributes`: attributes that list sizes, and the factor of each size.
    """

    factor_sizes: tuple[int, ...] = ()
    operands: tuple[DimFactors, ...] = ()
    results: tuple[DimFactors, ...] = ()
    reduction_factors: tuple[int, ...] = ()
    reduction: str = ""
    linear: tuple[int, ...] = ()
    is_multilinear: bool = False
    accumulated_operand: int | None = None
    size_attributes: dict[str, DimFactors] = field(default_factory=dict[str, DimFactors])

    def __str__(self) -> str:
        """The rule in Shardy's notation: ([i, k], [k, _])->([i, _]) {i=8, k=2} reduction={k}; _ is a replicated dimension."""

        def name(factor: int | None) -> str:
            return "_" if factor is None else "ijklmnopqrst"[factor]

        def side(arrays: Sequence[DimFactors]) -> str:
            return f"({', '.join('[' + ', '.join(map(name, dims)) + ']' for dims in arrays)})"

        sizes = ", ".join(f"{name(f)}={size}" for f, size in enumerate(self.factor_sizes))
        reduced = f" reduction={{{', '.join(map(name, self.reduction_factors))}}}" if self.reduction_factors else ""
        return f"{side(self.operands)}->{side(self.results)} {{{sizes}}}{reduced}"


Shapes = Sequence[Sequence[int]]


def replicated_rule(operands: Shapes, results: Shapes) -> OpShardingRule:
    """The rule of an op about which nothing is known: no factors, every device does all of the work."""
    return OpShardingRule(operands=tuple((None,) * len(s) for s in operands), results=tuple((None,) * len(s) for s in results))


def passthrough_rule(shapes: Shapes) -> OpShardingRule:
    """The rule of an op whose results are its operands: each dimension of each of them is a factor."""
    sizes = tuple(size for shape in shapes for size in shape)
    numbers = iter(range(len(sizes)))
    dims = tuple(tuple(next(numbers) for _ in shape) for shape in shapes)
    return OpShardingRule(sizes, dims, dims)


def batch_rule(operands: Shapes, results: Shapes, dimensions: Sequence[int]) -> OpShardingRule:
    """The rule of an op whose arrays share some dimensions, each of which is a factor; scalars beside them have none."""
    shape = max((*results, *operands), key=len)
    number = {d: f for f, d in enumerate(dimensions)}

    def factors(array: Sequence[int]) -> DimFactors:
        return tuple(number.get(d) if len(array) == len(shape) else None for d in range(len(array)))

    return OpShardingRule(tuple(shape[d] for d in dimensions), tuple(map(factors, operands)), tuple(map(factors, results)))
