"""Which axes of a mesh cut the factors of an operation, and along which its result stays parts of a sum."""

from collections.abc import Sequence
from itertools import takewhile

from hlo2tx8.spmd.device_mesh import Axes, Mesh, Sharding
from hlo2tx8.spmd.sharding_rule import Rule


def cuts_of(
    rule: Rule, wanted: Sequence[Sharding | None], had: Sequence[Sharding], zeros: Sequence[bool], mesh: Mesh, manual: Axes
) -> list[Axes]:
    """The axes that cut each factor: as results are wanted, else as operands have them; none of `manual`, and none twice.

    `zeros` tells operands that are zero everywhere: these are parts of any sum.
    """
    found: list[Axes] = [()] * len(rule.sizes)
    used = {*manual}
    partial = partial_of(wanted)
    can_combine = rule.summed_onto is None or zeros[rule.summed_onto]

    def cut(factor: int | None, axes: Axes) -> None:
        if factor is None or found[factor]:
            return
        found[factor] = mesh.fitting(tuple(takewhile(lambda axis: axis not in used, axes)), rule.sizes[factor])
        used.update(found[factor])

    operands = [pair for dims, sharding in zip(rule.operands, had, strict=True) for pair in zip(dims, sharding.dims, strict=True)]
    for dims, sharding in zip(rule.results, wanted, strict=True):
        for factor, axes in zip(dims, sharding.dims if sharding is not None else (), strict=sharding is not None):
            cut(factor, axes)
    for factor, axes in operands:
        if factor in rule.combined:
            cut(factor, axes if can_combine else tuple(takewhile(lambda axis: axis in partial, axes)))
    used.update(partial)
    for factor, axes in operands:
        if factor not in rule.combined:
            cut(factor, axes)
    return found


def summed_of(rule: Rule, wish: Axes, had: Sequence[Sharding], zeros: Sequence[bool]) -> tuple[Axes, int]:
    """Along which axes the result stays parts of a sum because operands are, and the first of these; none, and -1."""
    for number in rule.linear:
        partial = had[number].partial
        if partial and {*partial} <= {*wish}:
            return (partial if rule.is_bilinear else wish), number
        if wish and not rule.is_bilinear and zeros[number]:
            return wish, number
    return (), -1


def partial_of(wanted: Sequence[Sharding | None]) -> Axes:
    """The axes along which results are wanted as parts of sums."""
    return wanted[0].partial if wanted and wanted[0] is not None else ()
