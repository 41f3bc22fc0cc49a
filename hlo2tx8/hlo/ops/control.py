"""Ops of regions, calls and tuples: their meaning is in the evaluator; here are their names and kinds."""

from hlo2tx8.hlo.spec import Kind, OpSpec

SINGLE_DEVICE_IDENTITIES = (
    *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"),
    *("LayoutConstraint", "annotate_device_placement", "MoveToHost", "MoveToDevice", "xla.sdy.FuncResultSharding"),
)
"""Targets of custom calls that say where data lies: on one device, their operand."""

SPECS = tuple(
    OpSpec(name, Kind.CONTROL)
    for name in (
        "stablehlo.return",
        "func.return",
        "func.call",
        "func.func",
        "builtin.module",
        "hlo.fusion",
        "hlo.group",
        "hlo.library",
        "stablehlo.if",
        "stablehlo.case",
        "stablehlo.while",
        "stablehlo.map",
        "stablehlo.composite",
        "stablehlo.tuple",
        "stablehlo.get_tuple_element",
        "stablehlo.optimization_barrier",
        "stablehlo.after_all",
        "stablehlo.create_token",
    )
)
