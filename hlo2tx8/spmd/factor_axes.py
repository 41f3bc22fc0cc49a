"""Which mesh axes shard the factors of an op, and over which axes its result stays unreduced."""

from collections.abc import Sequence
from itertools import takewhile

from hlo2tx8.spmd.device_mesh import Axes, DeviceMesh, Sharding
from hlo2tx8.spmd.sharding_rule import OpShardingRule


def axes_of_factors(
    rule: OpShardingRule,
    wanted: Sequence[Sharding | None],
    given: Sequence[Sharding],
    are_zero: Sequence[bool],
    mesh: DeviceMesh,
    manual: Axes,
) -> list[Axes]:
    """The axes that shard each factor: those that shard it in a wanted result, else those that shard it in a given operand.

    No axis shards two factors, and none of `manual` any. `are_zero` says which operands are zero everywhere: a summand of an
    unreduced array costs nothing then.
    """
    found: list[Axes] = [()] * len(rule.factor_sizes)
    used = {*manual}
    unreduced = wanted_unreduced(wanted)
    can_reduce = rule.accumulated_operand is None or are_zero[rule.accumulated_operand]

    def shard(factor: int | None, axes: Axes) -> None:
        if factor is None or found[factor]:
            return
        found[factor] = mesh.dividing_prefix(tuple(takewhile(lambda axis: axis not in used, axes)), rule.factor_sizes[factor])
        used.update(found[factor])

    operands = [pair for dims, sharding in zip(rule.operands, given, strict=True) for pair in zip(dims, sharding.dims, strict=True)]
    for dims, sharding in zip(rule.results, wanted, strict=True):
        for factor, axes in zip(dims, sharding.dims if sharding is not None else (), strict=sharding is not None):
            shard(factor, axes)
    for factor, axes in operands:
        if factor in rule.reduction_factors:
            shard(factor, axes if can_reduce else tuple(takewhile(lambda axis: axis in unreduced, axes)))
    used.update(unreduced)
    for factor, axes in operands:
        if factor not in rule.reduction_factors:
            shard(factor, axes)
    return found


def kept_unreduced(
    rule: OpShardingRule, wanted: Axes, given: Sequence[Sharding], are_zero: Sequence[bool]
) -> tuple[Axes, int | None]:
    """The axes over which a result may stay unreduced because linear operands are, and the first such operand.

    `wanted` are the axes over which the result is wanted unreduced. Without such an operand: no axes, None.
    """
    for number in rule.linear:
        unreduced = given[number].unreduced
        if unreduced and {*unreduced} <= {*wanted}:
            return (unreduced if rule.is_multilinear else wanted), number
        if wanted and not rule.is_multilinear and are_zero[number]:
            return wanted, number
    return (), None


def wanted_unreduced(wanted: Sequence[Sharding | None]) -> Axes:
    """The axes over which the first result is wanted unreduced."""
    return wanted[0].unreduced if wanted and wanted[0] is not None else ()
