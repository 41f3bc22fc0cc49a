"""Ops that the host does for all chips at once: a program ends in front of one, and another begins behind it."""

COLLECTIVES = (
    *("stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all", "stablehlo.collective_broadcast"),
    *("stablehlo.collective_permute", "stablehlo.reduce_scatter"),
)
DEVICE_IDS = ("stablehlo.partition_id", "stablehlo.replica_id")
"""Ops whose results differ by device, though no data moves."""
FEEDS = ("stablehlo.infeed", "stablehlo.outfeed")
"""The host hands arrays to a running program, and takes them from it."""
HOST_OPS = (*COLLECTIVES, *DEVICE_IDS, *FEEDS)
