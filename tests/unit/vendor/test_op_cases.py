"""Drawn uses of ops: every public op has some, they are what StableHLO takes, and arrays have format codes."""

import pytest

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.errors import InputError
from hlo2tx8.frontend.chip_folder import FORMATS
from hlo2tx8.hlo import all_specs
from hlo2tx8.hlo.signature import signature_of
from hlo2tx8.vendor.op_cases import case_names, draw_case, find_op, open_sizes
from hlo2tx8.vendor.op_probes import has_probes
from hlo2tx8.vendor.real_ports import with_real_ports

TOGETHER = ("conv_bias_relu", "gemm_bias_relu", "gemm_bias_gelu", "softmax", "layer_norm", "rms_norm", "silu", "relu")


def test_every_public_op_has_cases_and_so_have_ops_that_often_stand_together():
    public = {spec.name for spec in all_specs() if has_probes(spec)}
    assert public | {*TOGETHER} == {*case_names(), "stablehlo.rng"}  # whose results nobody defines


@pytest.mark.parametrize("family", sorted({name.partition("_")[0] for name in case_names()}))
def test_drawn_modules_are_taken_and_their_arrays_have_codes(family: str):
    for op in (name for name in case_names() if name.partition("_")[0] == family):
        for number in range(3):
            signature = signature_of(load_source(draw_case(op, 7, number).text, format="stablehlo"))
            assert {port.dtype for port in (*signature.inputs, *signature.outputs)} <= {*FORMATS.values()}, (op, number)


def test_equal_seeds_give_equal_cases_and_others_differ():
    first, again, other = (draw_case("stablehlo.reshape", seed, 0) for seed in (1, 1, 2))
    assert first == again
    assert first.text != other.text
    assert len({draw_case("stablehlo.dot", 0, number).text for number in range(8)}) > 6


def test_element_type_and_sizes_can_be_fixed():
    case = draw_case("stablehlo.dot_general", 0, 3, "bfloat16", {"M": 5, "K": 6, "N": 7})
    assert case.dtype == "bfloat16"
    assert {case.sizes[name] for name in "MKN"} == {5, 6, 7}
    assert "5x" in case.text and "bf16" in case.text
    assert "(%a0: tensor<2x3xi8>)" in draw_case("stablehlo.negate", 0, 0, "int8", {"shape": "2x3"}).text
    assert "stablehlo.minimum" in draw_case("stablehlo.reduce", 0, 0, "float32", {"op": "minimum"}).text


@pytest.mark.parametrize(
    ("op", "dtype", "fixed", "message"),
    [
        ("stablehlo.dot", "bool", {}, "stablehlo.dot takes no bool"),
        ("stablehlo.dot", "", {"Q": 1}, "stablehlo.dot has no sizes Q"),
        ("stablehlo.dot", "", {"M": 0}, "M of stablehlo.dot is 0"),
        ("stablehlo.reduce", "", {"op": "cosine"}, "op of stablehlo.reduce is cosine"),
        ("stablehlo.add", "", {"M": 1}, "stablehlo.add has no size M"),
        ("stablehlo.add", "", {"shape": "2x"}, "'2x' is no shape"),
        ("stablehlo.concatenate", "", {"shape": ""}, "stablehlo.concatenate takes no scalar"),
    ],
)
def test_what_an_op_does_not_take_is_refused(op: str, dtype: str, fixed: dict[str, int | str], message: str):
    with pytest.raises(InputError, match=message):
        draw_case(op, 0, 0, dtype, fixed)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("add", "stablehlo.add"),
        ("chlo.tan", "chlo.tan"),
        ("erf", "chlo.erf"),
        ("Gemm", "stablehlo.dot_general"),
        ("op_Conv", "stablehlo.convolution"),
        ("tx8be.BatchNorm_Inference", "stablehlo.batch_norm_inference"),
        ("softmax", "softmax"),
    ],
)
def test_ops_are_found_by_the_names_that_they_have(name: str, op: str):
    assert find_op(name) == op
    assert open_sizes(op)


def test_nearest_names_of_an_unknown_op_are_told():
    with pytest.raises(InputError) as error:
        find_op("softmx")
    assert "softmax" in error.value.hint


def test_a_complex_array_is_two_arrays_and_small_integers_are_bytes():
    text = "func.func public @main(%a: tensor<2xcomplex<f64>>, %b: tensor<ui4>) -> (tensor<2xcomplex<f64>>, tensor<ui4>) {\n"
    text += "return %a, %b : tensor<2xcomplex<f64>>, tensor<ui4>\n}\n"
    signature = signature_of(load_source(with_real_ports(text), format="stablehlo"))
    ports = [("float32", (2,)), ("float32", (2,)), ("uint8", ())]
    assert [(port.dtype, port.shape) for port in signature.inputs] == ports
    assert [(port.dtype, port.shape) for port in signature.outputs] == ports
