"""Every operation of StableHLO and chlo has an OpSpec, or stands here with what becomes of it."""

from hlo2tx8.dialects import chlo, stablehlo
from hlo2tx8.hlo import all_specs

BECOMES = {
    "custom_call": "what its target names, or a refusal",
    **dict.fromkeys(("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute"), "exchange of chips"),
    **dict.fromkeys(("cross-replica-sum", "partition_id", "reduce_scatter", "replica_id"), "exchange of chips"),
    **dict.fromkeys(("async_start", "async_done", "infeed", "outfeed", "send", "recv"), "refused: there is no host to talk to"),
    **dict.fromkeys(("uniform_quantize", "uniform_dequantize"), "refused: quantised types"),
    **dict.fromkeys(("set_dimension_size", "get_dimension_size"), "refused: dynamic"),
    **dict.fromkeys(("dynamic_conv", "dynamic_gather", "dynamic_pad"), "refused: dynamic"),
    **dict.fromkeys(("einsum", "unary_einsum"), "refused: jax makes dot_general of them"),
}
"""Operations of StableHLO without an OpSpec."""
OF_CHLO = {"_asin_acos_kernel": "jaxlib expands it", "ragged_dot": "jaxlib expands it", "scan": "a loop, in the frontend"}
"""Operations of chlo without an OpSpec."""
WITHOUT = {f"stablehlo.{name}" for name in BECOMES} | {f"chlo.{name}" for name in OF_CHLO}


def test_every_operation_has_an_opspec():
    declared = {f"stablehlo.{name}" for name in stablehlo.OPS} | {f"chlo.{name}" for name in chlo.OPS}
    missing = declared - {spec.name for spec in all_specs()} - WITHOUT
    assert not missing, f"no OpSpec in hlo2tx8/hlo/ops/: {sorted(missing)}"


def test_what_has_an_opspec_is_not_listed_as_without():
    assert not WITHOUT & {spec.name for spec in all_specs()}
    assert set(BECOMES) <= set(stablehlo.OPS)
    assert set(OF_CHLO) <= set(chlo.OPS)
