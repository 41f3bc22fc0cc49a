"""What collective ops and reshards do to the arrays of four devices."""

from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

from hlo2tx8.frontend import load
from hlo2tx8.spmd.collectives import collective_of
from hlo2tx8.spmd.device_mesh import Axes, DeviceMesh, Sharding
from hlo2tx8.spmd.factor_axes import axes_of_factors, kept_unreduced
from hlo2tx8.spmd.sharding_rule import ADD, OpShardingRule
from hlo2tx8.spmd.tile_assignment import decode_reshards, encode_reshards

MAXIMUM = (
    "({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = stablehlo.maximum %x, %y : tensor<f32>\n stablehlo.return %z : tensor<f32> })"
)
PAIRS = "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"
SAME = "(tensor<4xf32>) -> tensor<4xf32>"
OPS = {
    "all_reduce": (f'"stablehlo.all_reduce"(%a) <{{{PAIRS}}}> {MAXIMUM} : {SAME}', [[4, 5, 6, 7]] * 2 + [[12, 13, 14, 15]] * 2),
    "reduce_scatter": (
        f'"stablehlo.reduce_scatter"(%a) <{{{PAIRS}, scatter_dimension = 0 : i64}}> {MAXIMUM} : (tensor<4xf32>) -> tensor<2xf32>',
        [[4, 5], [6, 7], [12, 13], [14, 15]],
    ),
    "all_gather": (
        f'"stablehlo.all_gather"(%a) <{{{PAIRS}, all_gather_dim = 0 : i64}}> : (tensor<4xf32>) -> tensor<8xf32>',
        [[*range(8)]] * 2 + [[*range(8, 16)]] * 2,
    ),
    "all_to_all": (
        f'"stablehlo.all_to_all"(%a) <{{{PAIRS}, split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64}}>'
        f" : {SAME}",
        [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]],
    ),
    "collective_broadcast": (
        f'"stablehlo.collective_broadcast"(%a) <{{{PAIRS}}}> : {SAME}',
        [[0, 1, 2, 3]] * 2 + [[8, 9, 10, 11]] * 2,
    ),
    "collective_permute": (
        f'"stablehlo.collective_permute"(%a) <{{source_target_pairs = dense<[[0, 3], [3, 1]]> : tensor<2x2xi64>}}> : {SAME}',
        [[0, 0, 0, 0], [12, 13, 14, 15], [0, 0, 0, 0], [0, 1, 2, 3]],
    ),
}


def op_of(text: str) -> Operation:
    result = text.rpartition("-> ")[2]
    module = load(f"module {{ func.func @main(%a: tensor<4xf32>) -> {result} {{\n%0 = {text}\nreturn %0 : {result}\n}} }}")
    name = text.partition('"stablehlo.')[2].partition('"')[0]
    return next(op for op in module.walk() if op.name == f"stablehlo.{name}")


@pytest.mark.parametrize("name", OPS)
def test_results_on_every_device(name: str):
    """Device i has 4 i, 4 i + 1, 4 i + 2, 4 i + 3."""
    text, expected = OPS[name]
    found = collective_of(op_of(text), 4, 1)({i: [np.arange(4, dtype=np.float32) + 4 * i] for i in range(4)})
    for device, values in enumerate(expected):
        np.testing.assert_array_equal(found[device][0], values)


@pytest.mark.parametrize(("name", "expected"), [("replica_id", [0, 0, 1, 1]), ("partition_id", [0, 1, 0, 1])])
def test_ids_of_two_replicas_of_two_partitions(name: str, expected: list[int]):
    module = load(
        f"module {{ func.func @main() -> tensor<ui32> {{\n%0 = stablehlo.{name} : tensor<ui32>\nreturn %0 : tensor<ui32>\n}} }}"
    )
    op = next(op for op in module.walk() if op.name == f"stablehlo.{name}")
    found = collective_of(op, 2, 2)({i: [] for i in range(4)})
    assert [int(found[i][0]) for i in range(4)] == expected


X, Y = ("x", 1), ("y", 1)
MESH = DeviceMesh({X: 2, Y: 2}, (0, 1, 2, 3))
SHARDINGS = {
    "replicated": Sharding(((), ())),
    "rows": Sharding(((X,), ())),
    "rows by both": Sharding(((Y, X), ())),
    "rows and columns": Sharding(((Y,), (X,))),
    "unreduced": Sharding(((), ()), (X,)),
    "columns, unreduced": Sharding(((), (Y,)), (X,)),
}


@pytest.mark.parametrize("target", SHARDINGS)
@pytest.mark.parametrize("source", SHARDINGS)
def test_reshards_keep_the_array(source: str, target: str):
    whole = np.arange(32, dtype=np.float32).reshape(4, 8)
    (first,), (second,) = (MESH.tile_assignments(SHARDINGS[name]) for name in (source, target))
    shards = first.disassemble(whole, first)
    assert all(shard.shape == first.shard_shape(whole.shape) for shard in shards.values())
    ((source_again, target_again),) = decode_reshards(encode_reshards([(first, second)]))
    moved = target_again.disassemble(source_again.assemble(shards), source_again)
    np.testing.assert_array_equal(second.assemble(moved), whole)


def test_a_device_has_its_own_tile():
    (tiles,) = MESH.tile_assignments(SHARDINGS["rows and columns"])
    whole = np.arange(32).reshape(4, 8)
    shards = tiles.disassemble(whole, tiles)
    np.testing.assert_array_equal(shards[1], whole[2:, :4])
    np.testing.assert_array_equal(shards[2], whole[:2, 4:])
    np.testing.assert_array_equal(whole[tiles.tile_slices(3, (4, 8))], shards[3])


PRODUCT = OpShardingRule((8, 8, 8), ((0, 2), (2, 1)), ((0, 1),), (2,), ADD, (0, 1), is_multilinear=True)
SCATTER = OpShardingRule((8, 8), ((None, 0), (1, None), (1, 0)), ((None, 0),), (1,), ADD, accumulated_operand=0)
NONE: Axes = ()


def sharding(*dims: Axes, unreduced: Axes = ()) -> Sharding:
    return Sharding(dims, unreduced)


def axes(rule: OpShardingRule, wanted: Any, *given: Sharding, zeros: Any = (False,) * 3, manual: Axes = ()) -> list[Axes]:
    return axes_of_factors(rule, [wanted], given, zeros[: len(given)], MESH, manual)


def test_the_wanted_result_comes_first():
    assert axes(PRODUCT, sharding((X,), NONE), sharding(NONE, (X,)), sharding((X,), NONE)) == [(X,), (), ()]


def test_else_the_operands_shard():
    assert axes(PRODUCT, None, sharding((Y,), (X,)), sharding((X,), NONE)) == [(Y,), (), (X,)]


def test_no_axis_shards_twice_and_no_manual_one():
    assert axes(PRODUCT, None, sharding((X,), NONE), sharding(NONE, (X,))) == [(X,), (), ()]
    assert axes(PRODUCT, sharding((X,), (Y,)), sharding(NONE, NONE), sharding(NONE, NONE), manual=(X,)) == [(), (Y,), ()]


def test_a_sum_onto_an_operand_is_sharded_where_that_is_zero_or_the_result_is_unreduced():
    given = sharding(NONE, NONE), sharding((X,), NONE), sharding((X,), NONE)
    assert axes(SCATTER, None, *given) == [(), ()]
    assert axes(SCATTER, None, *given, zeros=(True, False, False)) == [(), (X,)]
    assert axes(SCATTER, sharding(NONE, NONE, unreduced=(X,)), *given) == [(), (X,)]


def test_linear_ops_hand_on_unreduced_operands():
    addition = OpShardingRule((8,), ((0,), (0,)), ((0,),), linear=(0, 1))
    unreduced, whole = sharding(NONE, unreduced=(X,)), sharding(NONE)
    assert kept_unreduced(addition, (X,), [unreduced, whole], [False, False]) == ((X,), 0)
    assert kept_unreduced(addition, (X,), [whole, whole], [False, True]) == ((X,), 1)
    assert kept_unreduced(addition, (), [unreduced, whole], [False, False]) == ((), None)
    assert kept_unreduced(OpShardingRule((8,), ((0,),), ((0,),)), (X,), [unreduced], [False]) == ((), None)
