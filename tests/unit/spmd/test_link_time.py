"""Modelled time of collective ops on the ring of chips."""

from dataclasses import replace

import pytest
from xdsl.ir import Operation

from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.frontend import load
from hlo2tx8.spmd.device_mesh import DeviceMesh, Sharding
from hlo2tx8.spmd.link_time import link_cycles
from hlo2tx8.spmd.tile_assignment import encode_reshards

X = ("x", 1)
N = 4
BYTES = 4096
SUM = "({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = stablehlo.add %x, %y : tensor<f32>\n stablehlo.return %z : tensor<f32> })"
GROUP = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>"


def op_of(text: str, result: str = "tensor<1024xf32>") -> Operation:
    """The op of a program with one op on 4 KiB."""
    module = load(f"module {{ func.func @main(%a: tensor<1024xf32>) -> {result} {{\n%0 = {text}\nreturn %0 : {result}\n}} }}")
    return next(op for op in module.walk() if op.name.startswith("stablehlo.") and op.results and op.parent_op() is not None
                and getattr(op.parent_op(), "name", "") == "func.func")  # fmt: skip


def chip(startup: int, seconds: float) -> Chip:
    """A chip whose links take `startup` cycles, and `seconds` for the 4 KiB."""
    plain = load_chip()
    rate = plain.link_neighbours * round(BYTES / seconds)
    return replace(plain, link_bytes_per_second=rate, cycles=replace(plain.cycles, link_startup=startup))


def pair_text(pairs: str, count: int) -> str:
    attributes = f"source_target_pairs = dense<{pairs}> : tensor<{count}x2xi64>"
    return f'"stablehlo.collective_permute"(%a) <{{{attributes}}}> : (tensor<1024xf32>) -> tensor<1024xf32>'


def reshard_text() -> str:
    mesh = DeviceMesh({X: N}, tuple(range(N)))
    source, target = (mesh.tile_assignments(Sharding(dims)) for dims in (((X,),), ((),)))
    config = encode_reshards(zip(source, target, strict=True)).replace('"', '\\"')
    return f'stablehlo.custom_call @tx8_reshard(%a) {{backend_config = "{config}"}} : (tensor<1024xf32>) -> tensor<1024xf32>'


SPLIT = "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 4 : i64"
SAME = ": (tensor<1024xf32>) -> tensor<1024xf32>"
CASES = {
    "all_reduce": (f'"stablehlo.all_reduce"(%a) <{{{GROUP}}}> {SUM} {SAME}', "tensor<1024xf32>", 6, 6 / 4),
    "reduce_scatter": (
        f'"stablehlo.reduce_scatter"(%a) <{{{GROUP}, scatter_dimension = 0 : i64}}> {SUM} : (tensor<1024xf32>) -> tensor<256xf32>',
        "tensor<256xf32>", 3, 3 / 4,
    ),
    "all_gather": (
        f'"stablehlo.all_gather"(%a) <{{{GROUP}, all_gather_dim = 0 : i64}}> : (tensor<1024xf32>) -> tensor<4096xf32>',
        "tensor<4096xf32>", 3, 3,
    ),
    "all_to_all": (
        f'"stablehlo.all_to_all"(%a) <{{{GROUP}, {SPLIT}}}> {SAME}',
        "tensor<1024xf32>", 3, 6 / 4,
    ),
    "collective_broadcast": (f'"stablehlo.collective_broadcast"(%a) <{{{GROUP}}}> {SAME}', "tensor<1024xf32>", 3, 1),
    "reshard": (reshard_text(), "tensor<1024xf32>", 3, 3),
    "to the next": (pair_text("[[0, 1], [1, 2], [2, 3], [3, 0]]", 4), "tensor<1024xf32>", 1, 1),
    "the shorter way around": (pair_text("[[0, 3]]", 1), "tensor<1024xf32>", 1, 1),
    "across": (pair_text("[[0, 2]]", 1), "tensor<1024xf32>", 2, 1),
    "two over one link": (pair_text("[[0, 2], [1, 3]]", 2), "tensor<1024xf32>", 2, 2),
    "to itself": (pair_text("[[0, 0]]", 1), "tensor<1024xf32>", 0, 0),
    "device ids": ("stablehlo.replica_id : tensor<ui32>", "tensor<ui32>", 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_steps_and_bytes(name: str):
    """Start-ups, and times that 4 KiB pass a link, of each op on four chips."""
    text, result, startups, transfers = CASES[name]
    op = op_of(text, result)
    assert link_cycles(op, N, 1, chip(1000, 1e-9)) == pytest.approx(1000 * startups, abs=20)
    far = chip(0, 1e-3)
    assert link_cycles(op, N, 1, far) == pytest.approx(transfers * 1e-3 * far.clock_hz, rel=1e-3)
