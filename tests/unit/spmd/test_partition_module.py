"""Programs for several devices as what each of them does."""

import re

import pytest

from hlo2tx8.frontend import shim
from hlo2tx8.spmd.device_mesh import DeviceMesh, Sharding
from hlo2tx8.spmd.partition_module import partition

A, B, LOW, HIGH = ("a", 1), ("b", 1), ("a", 1), ("a", 2)
MESH = DeviceMesh({LOW: 2, HIGH: 2, B: 2}, tuple(range(8)))


def test_places_of_axes_and_their_parts():
    assert [list(p.devices) for p in MESH.tile_assignments(Sharding(((B,), ())))] == [[0, 2, 4, 6, 1, 3, 5, 7]]
    assert [list(p.devices) for p in MESH.tile_assignments(Sharding(((HIGH, B),)))] == [[0, 4, 1, 5, 2, 6, 3, 7]]
    assert [list(p.devices) for p in MESH.tile_assignments(Sharding(((HIGH,),)), (B,))] == [[0, 4, 2, 6], [1, 5, 3, 7]]
    assert MESH.replica_groups((HIGH, LOW)) == [[0, 4, 2, 6], [1, 5, 3, 7]]


def test_only_even_cuts():
    assert MESH.evenly(Sharding(((LOW, HIGH), (B,))), (6, 3)) == Sharding(((LOW,), ()))


def local(body: str, arguments: str, results: str, kind: str = "8x4xf32") -> str:
    """What each device does, as text; the shardings of two arguments and the result on a mesh x=4, y=2."""
    first, second = (f"{{sdy.sharding = #sdy.sharding<@m, {text}>}}" for text in arguments.split(";"))
    sharding = f"{{sdy.sharding = #sdy.sharding<@m, {results}>}}"
    code = f"""module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
      sdy.mesh @m = <["x"=4, "y"=2]>
      func.func @main(%a: tensor<8x4xf32> {first}, %b: tensor<4x8xf32> {second}) -> (tensor<{kind}> {sharding}) {{
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        {body}
        return %r : tensor<{kind}>
      }}
    }}"""
    return str(shim.parse_module(partition(code.encode()).code, shim.make_context()))


def collectives(text: str) -> list[str]:
    return re.findall(r"(?:stablehlo\.|@)(all_\w+|tx8_reshard|collective_\w+)", text)


MAXIMUM = (
    "%r = stablehlo.reduce(%a init: %zero) applies stablehlo.maximum across dimensions = [0]"
    " : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>"
)
ABS = "%r = stablehlo.abs %a : tensor<8x4xf32>"
SUMMANDS = '[{}, {}], unreduced={"x"}'
PRODUCT = "%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>"
PARTS = PRODUCT.replace("[0] :", "[0] {sdy.sharding = #sdy.sharding_per_value<[<@m, " + SUMMANDS + ">]>} :")
CASES = {
    "maximum": (MAXIMUM, '[{"x"}, {}];[{}, {}]', "[{}]", "4xf32", ["all_reduce"]),
    "maximum of what each has whole": (MAXIMUM, '[{}, {"x"}];[{}, {}]', '[{"x"}]', "4xf32", []),
    "product of rows and columns": (PRODUCT, '[{"x"}, {}];[{}, {"y"}]', '[{"x"}, {"y"}]', "8x8xf32", []),
    "product over what is cut": (PRODUCT, '[{}, {"x"}];[{"x"}, {}]', "[{}, {}]", "8x8xf32", ["all_reduce"]),
    "product, parts of sums": (PARTS, '[{}, {"x"}];[{"x"}, {}]', SUMMANDS, "8x8xf32", []),
    "rows elsewhere": (ABS, '[{"x"}, {}];[{}, {}]', '[{}, {"x"}]', "8x4xf32", ["all_to_all"]),
    "other order": (ABS, '[{"x", "y"}, {}];[{}, {}]', '[{"y", "x"}, {}]', "8x4xf32", ["tx8_reshard"]),
    "backwards": (
        "%r = stablehlo.reverse %a, dims = [0] : tensor<8x4xf32>",
        '[{"x"}, {"y"}];[{}, {}]', '[{"x"}, {"y"}]', "8x4xf32", ["all_gather", "tx8_reshard"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_exchanged(case: str):
    body, arguments, results, kind, expected = CASES[case]
    assert collectives(local(body, arguments, results, kind)) == expected


def test_what_is_reduced_is_combined_alike():
    text = local(*CASES["maximum"][:4])
    assert "stablehlo.add" not in text and text.count("stablehlo.maximum") == 2


def test_a_start_that_counts_is_not_used_by_every_device():
    body = MAXIMUM.replace("maximum", "add").replace("%zero)", "%one)").replace("%zero,", "%one,")
    body = "%one = stablehlo.constant dense<1.0> : tensor<f32>\n" + body.replace("init: %zero", "init: %one")
    assert collectives(local(body, '[{"x"}, {}];[{}, {}]', "[{}]", "4xf32")) == ["all_gather"]


def test_sums_over_the_same_devices_are_one_exchange():
    total = "stablehlo.reduce(%{v} init: %zero) applies stablehlo.add across dimensions = [{d}]"
    body = f"""%0 = {total.format(v="a", d=0)} : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
        %1 = {total.format(v="b", d=1)} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
        %r = stablehlo.multiply %0, %1 : tensor<4xf32>"""
    assert collectives(local(body, '[{"x"}, {}];[{}, {"x"}]', "[{}]", "4xf32")) == ["all_reduce"]


def test_uneven_cuts_are_left_out():
    body = """%0 = stablehlo.slice %a [0:7, 0:4] : (tensor<8x4xf32>) -> tensor<7x4xf32>
        %r = sdy.sharding_constraint %0 <@m, [{"x"}, {"y"}]> : tensor<7x4xf32>"""
    assert "tensor<7x2xf32>" in local(body, "[{}, {}];[{}, {}]", '[{}, {"y"}]', "7x4xf32")


def test_complex_constants():
    body = """%i = stablehlo.constant dense<(0.0, 1.0)> : tensor<8x4xcomplex<f32>>
        %c = stablehlo.convert %a : (tensor<8x4xf32>) -> tensor<8x4xcomplex<f32>>
        %0 = stablehlo.multiply %c, %i : tensor<8x4xcomplex<f32>>
        %r = stablehlo.imag %0 : (tensor<8x4xcomplex<f32>>) -> tensor<8x4xf32>"""
    assert "(0.000000e+00,1.000000e+00)" in local(body, '[{"x"}, {}];[{}, {}]', '[{"x"}, {}]')
