"""Collective ops on the links: what arrives is what the op means, and how long it takes."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.chip_links import ChipMesh, Packet, exchange
from hlo2tx8.errors import InputError
from hlo2tx8.frontend import load
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.spmd.collectives import collective_of
from hlo2tx8.spmd.device_mesh import DeviceMesh, Sharding
from hlo2tx8.spmd.link_plan import link_plan
from hlo2tx8.spmd.link_step import link_step
from hlo2tx8.spmd.pod_launch import Run
from hlo2tx8.spmd.tile_assignment import decode_reshards, encode_reshards

X, Y = ("x", 1), ("y", 1)
N = 4
SHAPE = (8, 5)
SUM = "({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = stablehlo.add %x, %y : tensor<f32>\n stablehlo.return %z : tensor<f32> })"
GROUP = "replica_groups = dense<[[2, 0, 3, 1]]> : tensor<1x4xi64>"
PAIRS = "replica_groups = dense<[[0, 3], [1, 2]]> : tensor<2x2xi64>"
SWAP = "source_target_pairs = dense<[[0, 1], [1, 0], [3, 3]]> : tensor<3x2xi64>"
THREE = "replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>"
UNEVEN = "replica_groups = dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>"
WHOLE = "tensor<8x5xf32>"


def op_of(text: str, result: str = WHOLE, operand: str = WHOLE) -> Operation:
    """The op of a program with one op."""
    text = f"{text} : ({operand}) -> {result}"
    module = load(f"module {{ func.func @main(%a: {operand}) -> {result} {{\n%0 = {text}\nreturn %0 : {result}\n}} }}")
    return next(op for op in module.walk() if getattr(op.parent_op(), "name", "") == "func.func")


def reshard(source: Sharding, target: Sharding) -> str:
    mesh = DeviceMesh({X: 2, Y: 2}, (0, 3, 1, 2))
    pairs = zip(mesh.tile_assignments(source), mesh.tile_assignments(target), strict=True)
    config = encode_reshards(pairs).replace('"', '\\"')
    return f'stablehlo.custom_call @tx8_reshard(%a) {{backend_config = "{config}"}}'


SPLIT = "split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 4 : i64"
CASES = {
    "all_reduce": (f'"stablehlo.all_reduce"(%a) <{{{GROUP}}}> {SUM}', WHOLE),
    "all_reduce in pairs": (f'"stablehlo.all_reduce"(%a) <{{{PAIRS}}}> {SUM}', WHOLE),
    "all_reduce in groups of 3 and 1": (f'"stablehlo.all_reduce"(%a) <{{{UNEVEN}}}> {SUM}', WHOLE),
    "reduce_scatter": (f'"stablehlo.reduce_scatter"(%a) <{{{GROUP}, scatter_dimension = 0 : i64}}> {SUM}', "tensor<2x5xf32>"),
    "all_gather": (f'"stablehlo.all_gather"(%a) <{{{PAIRS}, all_gather_dim = 1 : i64}}>', "tensor<8x10xf32>"),
    "all_to_all": (f'"stablehlo.all_to_all"(%a) <{{{GROUP}, {SPLIT}}}>', "tensor<2x20xf32>"),
    "collective_broadcast": (f'"stablehlo.collective_broadcast"(%a) <{{{PAIRS}}}>', WHOLE),
    "permute": (f'"stablehlo.collective_permute"(%a) <{{{SWAP}}}>', WHOLE),
    "gather rows": (reshard(Sharding(((X,), ())), Sharding(((), ()))), "tensor<16x5xf32>"),
    "other rows": (reshard(Sharding(((X, Y), ())), Sharding(((Y,), ()))), "tensor<16x5xf32>"),
    "sum": (reshard(Sharding(((X,), ()), (Y,)), Sharding(((), ()))), "tensor<16x5xf32>"),
    "sum and scatter": (reshard(Sharding(((), ()), (X, Y)), Sharding(((Y, X), ()))), "tensor<2x5xf32>"),
    "to summands": (reshard(Sharding(((X,), ())), Sharding(((), ()), (X,))), "tensor<16x5xf32>"),
    "to summands of four": (reshard(Sharding(((Y, X), ())), Sharding(((X,), ()), (Y,))), "tensor<16x5xf32>"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("scale", [1, 400], ids=["", "of many rows"])
def test_what_arrives_is_what_the_op_means(name: str, scale: int) -> None:
    text, result = CASES[name]
    rows = int(result[7 : result.index("x")])
    op = op_of(text, result.replace(f"<{rows}x", f"<{rows * scale}x"), f"tensor<{8 * scale}x5xf32>")
    rng = np.random.default_rng(len(name))
    arrays: Any = {n: [rng.standard_normal((8 * scale, 5)).astype(np.float32)] for n in range(N)}
    for source, _ in decode_reshards(str(attributes_of(op)["backend_config"])) if "reshard" in text else ():
        for place, device in enumerate(source.devices):  # replicas hold the same
            arrays[device] = arrays[source.devices[place - place % source.num_replicas]]
    mesh, chip = ChipMesh.of(load_chip(), N), load_chip()
    step = link_step(op, (N, 1), mesh, chip, lambda module: compile_module(module.clone, Options()))
    found, expected = step.run(arrays, Run()), collective_of(op, N, 1)(arrays)
    for n in range(N):
        np.testing.assert_array_equal(found[n][0], expected[n][0])


@pytest.mark.parametrize(
    ("text", "result", "said"),
    [
        (CASES["all_to_all"][0], "tensor<2x20xf32>", "names chip 3, and there are 3"),
        (CASES["permute"][0], WHOLE, "names chip 3, and there are 3"),
        (f'"stablehlo.all_gather"(%a) <{{{THREE}, all_gather_dim = 0 : i64}}>', "tensor<32x5xf32>", "not for groups of 3 chips"),
    ],
)  # fmt: skip
def test_an_op_for_other_chips_is_refused(text: str, result: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        link_plan(op_of(text, result), 3, 1, ChipMesh(3, 1), load_chip())


def slow(startup: int, rate: float) -> Chip:
    """A chip whose links take `startup` cycles and so many bytes a cycle, and whose DDR takes no time."""
    plain = load_chip()
    links = round(rate * plain.clock_hz * plain.link_neighbours)
    cycles = replace(plain.cycles, link_startup=startup, dte_startup=0)
    return replace(plain, link_bytes_per_second=links, ddr_bytes_per_second=1 << 60, cycles=cycles)


MESH = ChipMesh(4, 2)


@pytest.mark.parametrize(
    ("packets", "hops", "busiest"),
    [
        ([Packet(0, (1,), 100)], 1, 100),
        ([Packet(0, (6,), 100)], 3, 100),
        ([Packet(0, (1, 2, 3), 100)], 3, 100),  # passes each link once
        ([Packet(0, (2,), 100), Packet(1, (2,), 50)], 2, 150),
        ([Packet(0, (1,), 100), Packet(1, (0,), 70)], 1, 100),  # both ways at once
        ([Packet(5, (5,), 100)], 0, 0),
        ([], 0, 0),
    ],
)
def test_time_of_packets(packets: list[Packet], hops: int, busiest: int) -> None:
    found = exchange(packets, MESH, slow(1000, 2.0))
    assert (found.hops, max(found.loads.values(), default=0)) == (hops, busiest)
    assert found.cycles == pytest.approx(1000 * hops + busiest / 2, abs=1 if hops or not packets else 100)


def test_ways_and_meshes() -> None:
    assert [*MESH.way(6, 0)] == [(6, 5), (5, 4), (4, 0)]
    assert [ChipMesh.of(load_chip(), n) for n in (1, 3, 4, 6, 8)] == [
        ChipMesh(1, 1), ChipMesh(3, 1), ChipMesh(2, 2), ChipMesh(3, 2), ChipMesh(4, 2),
    ]  # fmt: skip
    assert ChipMesh.of(replace(load_chip(), chip_mesh=(2, 4)), 3) == ChipMesh(2, 4)
    torus = replace(load_chip(), chip_mesh=(4, 4), chip_rings=(1, 0), chip_block=(2, 2))
    assert ChipMesh.of(torus, 16) == ChipMesh(4, 4, (True, False), (2, 2))
    with pytest.raises(ValueError, match="9 chips do not fit into chip_mesh, 2 x 4"):
        ChipMesh.of(replace(load_chip(), chip_mesh=(2, 4)), 9)


def test_a_large_sum_goes_by_parts_and_a_small_one_at_once() -> None:
    op = op_of(CASES["all_reduce"][0])
    assert not link_plan(op, N, 1, ChipMesh(2, 2), load_chip()).spread
    large = op_of(CASES["all_reduce"][0], "tensor<80000x5xf32>", "tensor<80000x5xf32>")
    plan = link_plan(large, N, 1, ChipMesh(2, 2), load_chip())
    assert plan.spread
    cycles = sum(each.cycles for each in plan.exchanges([4], ChipMesh(2, 2), slow(0, 1.0)))
    assert cycles == pytest.approx(1.0 * 80000 * 5 * 4, rel=1e-3)  # a half there and a half back over each link


def test_a_torus_has_ways_around_its_ends() -> None:
    mesh, torus = ChipMesh(5, 4), ChipMesh(5, 4, (True, True))
    assert [*torus.way(0, 19)] == [(0, 4), (4, 19)]
    assert [*torus.way(19, 0)] == [(19, 15), (15, 0)]
    assert [*torus.way(1, 3)] == [(1, 2), (2, 3)] == [*mesh.way(1, 3)]
    assert [*torus.way(0, 10)] == [(0, 5), (5, 10)], "half around a ring is the same way as without"
    assert ChipMesh(5, 4, (True, False)).distance(0, 19) == 4
    for source, target in product(range(20), range(20)):
        assert len([*torus.way(source, target)]) == torus.distance(source, target) <= mesh.distance(source, target)
    ring, line = (exchange([Packet(0, (4,), 1000)], ChipMesh(5, 1, (is_ring, False)), slow(1000, 2)) for is_ring in (True, False))
    assert (ring.hops, line.hops) == (1, 4)


def test_chips_are_numbered_by_blocks() -> None:
    mesh = ChipMesh(4, 4, block=(2, 2))
    places = [mesh.place(n) for n in range(16)]
    assert places[:6] == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 0)]
    assert places[8] == (0, 2) and len({*places}) == 16
    assert [mesh.number(*place) for place in places] == [*range(16)]
    assert [*mesh.way(1, 4)] == [(1, 4)] and mesh.distance(0, 15) == 6
