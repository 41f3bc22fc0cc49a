"""What StableHLO says about the edges, written out by hand."""

from math import pi
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.errors import CompileError
from hlo2tx8.hlo import Kind, TensorLike, all_specs, element_type, numpy_dtype, spec_of
from hlo2tx8.hlo.edge_values import edge_values
from hlo2tx8.hlo.ops.forms import DTYPES
from hlo2tx8.hlo.rounding import narrow
from hlo2tx8.hlo.types import dtype

NAN, INF = float("nan"), float("inf")


def run(name: str, result: str, *operands: Any, **attributes: Any) -> list[Any]:
    """The reference on arrays; lists are int32."""
    arrays = [np.asarray(o, np.int32) if isinstance(o, list) else o for o in operands]
    (found,) = spec_of(name).evaluate(attributes, (TensorLike(arrays[-1].shape, dtype(result)),), *arrays)
    assert found.dtype == dtype(result)
    return found.tolist()


LOW = -(2**31)


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("divide", [7, -7, 7, -7, 5, LOW, LOW], [2, 2, -2, -2, 0, -1, 0], [3, -3, -3, 3, -1, LOW, -1]),
        ("remainder", [7, -7, 7, -7, 5, LOW, LOW], [2, 2, -2, -2, 0, -1, 0], [1, -1, 1, -1, 5, 0, LOW]),
        ("shift_left", [1, 1, 1, -1], [31, 32, -1, 1], [LOW, 0, 0, -2]),
        ("shift_right_logical", [-1, -1, -1, 8], [31, 32, -1, 1], [1, 0, 0, 4]),
        ("shift_right_arithmetic", [-8, -8, 8, 8], [1, 99, 99, -1], [-4, -1, 0, 0]),
        ("power", [3, -1, 1, 2, 0, -3], [-1, -3, -7, 31, 0, 3], [0, -1, 1, LOW, 1, -27]),
        ("multiply", [LOW, 65536], [2, 65536], [0, 0]),
        ("maximum", [LOW, 1], [0, -1], [0, 1]),
    ],
)
def test_integers(name: str, a: list[int], b: list[int], expected: list[int]):
    assert run(f"stablehlo.{name}", "int32", a, b) == expected


@pytest.mark.parametrize(
    ("name", "a", "expected"),
    [
        ("abs", [LOW, -3], [LOW, 3]),
        ("negate", [LOW, 3], [LOW, -3]),
        ("sign", [LOW, 0, 3], [-1, 0, 1]),
        ("popcnt", [-1, 0, 5, LOW], [32, 0, 2, 1]),
        ("count_leading_zeros", [-1, 0, 1, 2**30], [0, 32, 31, 1]),
        ("not", [0, -1], [-1, 0]),
    ],
)
def test_unary_integers(name: str, a: list[int], expected: list[int]):
    assert run(f"stablehlo.{name}", "int32", a) == expected


def test_unsigned_division_by_zero_is_all_ones():
    a, b = np.array([5, 0], np.uint8), np.array([0, 0], np.uint8)
    assert run("stablehlo.divide", "uint8", a, b) == [255, 255]
    assert run("stablehlo.remainder", "uint8", a, b) == [5, 0]


def test_sub_byte_integers_wrap():
    a, b = np.array([7, -8, -8], ml_dtypes.int4), np.array([1, -1, 1], ml_dtypes.int4)
    assert [int(x) for x in run("stablehlo.add", "int4", a, b)] == [-8, 7, -7]
    assert [int(x) for x in run("stablehlo.divide", "int4", a, b)] == [7, -8, -8]
    assert [int(x) for x in run("stablehlo.popcnt", "int4", a)] == [3, 1, 1]


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float64", "float8_e5m2"])
def test_maximum_and_minimum(name: str):
    a = np.array([0.0, -0.0, NAN, 1.0, -INF]).astype(dtype(name))
    b = np.array([-0.0, 0.0, 1.0, NAN, INF]).astype(dtype(name))
    high, low = run("stablehlo.maximum", name, a, b), run("stablehlo.minimum", name, a, b)
    assert [str(float(x)) for x in high] == ["0.0", "0.0", "nan", "nan", "inf"]
    assert [str(float(x)) for x in low] == ["-0.0", "-0.0", "nan", "nan", "-inf"]


def test_total_order():
    values = np.array([-NAN, -INF, -1.0, -0.0, 0.0, 1.0, INF, NAN], np.float32)
    values.view(np.uint32)[0] |= np.uint32(1 << 31)
    total = {"comparison_direction": "LT", "compare_type": "TOTALORDER"}
    assert all(run("stablehlo.compare", "bool", values[:-1], values[1:], **total))
    plain = run("stablehlo.compare", "bool", values[:-1], values[1:], comparison_direction="LT", compare_type="FLOAT")
    assert plain == [False, True, True, False, True, True, False]


def test_rounding_ties():
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609.0], np.float32)
    assert run("stablehlo.round_nearest_even", "float32", x) == [0, 2, 2, 0, -2, 0, 8388609]
    assert run("stablehlo.round_nearest_afz", "float32", x) == [1, 2, 3, -1, -3, 0, 8388609]


def test_convert_rounds_once():
    """1 + 2**-8 + 2**-40 is just above a bf16 tie: through float32 it would be the tie and go to even."""
    near_tie = 1 + 2.0**-8 + 2.0**-40
    x = np.array([near_tie, -near_tie, 1 + 2.0**-8, 1 + 3 * 2.0**-8 - 2.0**-40])
    assert [float(v) for v in run("stablehlo.convert", "bfloat16", x)] == [1 + 2**-7, -1 - 2**-7, 1, 1 + 2**-7]
    big = np.array([2**62 + 2**54 + 1, 2**62 + 2**54], np.int64)
    assert [float(v) for v in run("stablehlo.convert", "bfloat16", big)] == [2.0**62 + 2.0**55, 2.0**62]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "bfloat16", "float16"])
def test_narrowing_of_doubles_is_nearest(name: str):
    """Against the neighbours: no other number of the dtype is closer."""
    kind = dtype(name)
    rng = np.random.default_rng(3)
    x = rng.normal(size=4000)
    got = narrow(x, kind).astype(np.float64)
    if kind.itemsize == 1:
        every = np.arange(256 if "8" in name else 16, dtype=np.uint8).view(kind).astype(np.float64)
        best = np.min(np.abs(x[:, None] - every[np.isfinite(every)]), axis=1)
        assert np.array_equal(np.abs(x - got), best)
    else:
        bits = narrow(x, kind).view(np.uint16)
        for step in (1, -1):
            other = (bits + np.uint16(step % 65536)).view(kind).astype(np.float64)
            assert (np.abs(x - got) <= np.abs(x - other)).all()


def test_float_to_integer_saturates():
    x = np.array([NAN, INF, -INF, -1.5, 300.0, 3e9, -3e9], np.float32)
    assert run("stablehlo.convert", "int32", x) == [0, 2**31 - 1, LOW, -1, 300, 2**31 - 1, LOW]
    assert run("stablehlo.convert", "uint8", x) == [0, 255, 0, 0, 255, 255, 0]
    assert run("stablehlo.convert", "bool", np.array([NAN, 0.0, -0.0, 1e-45], np.float32)) == [True, False, False, True]
    assert run("stablehlo.convert", "int8", np.array([300, -129], np.int32)) == [44, 127]


def test_next_after_in_bf16():
    x = np.array([1.0, 1.0, 0.0, -0.0, INF, NAN], ml_dtypes.bfloat16)
    to = np.array([2.0, 0.0, 1.0, -1.0, 0.0, 1.0], ml_dtypes.bfloat16)
    got = [float(v) for v in run("chlo.next_after", "bfloat16", x, to)]
    tiny = float(ml_dtypes.finfo(ml_dtypes.bfloat16).smallest_subnormal)
    assert got[:5] == [1 + 2**-7, 1 - 2**-8, tiny, -tiny, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)]
    assert np.isnan(got[5])


def test_zeta_left_of_zero():
    s, q = np.array([2.0, 2.0, 3.0, 2.5]), np.array([-0.5, 0.0, -1.0, -0.5])
    got = run("chlo.zeta", "float64", s, q)
    assert got[:2] == [pytest.approx(4 + pi**2 / 2), INF]
    assert np.isnan(got[2:]).all()


def test_top_k_keeps_order_of_equals():
    x = np.array([[1.0, 3.0, NAN, 3.0]], np.float32)
    results = (TensorLike((1, 3), dtype("float32")), TensorLike((1, 3), dtype("int32")))
    values, indices = spec_of("chlo.top_k").evaluate({"k": 3}, results, x)
    assert indices.tolist() == [[2, 1, 3]]
    assert values[0, 1:].tolist() == [3.0, 3.0]


def test_constants_stay_views():
    (found,) = spec_of("stablehlo.constant").evaluate(
        {"value": np.array(2.0, np.float32)}, (TensorLike((4096, 4096), dtype("float32")),)
    )
    assert found.strides == (0, 0)


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_samples_fit_their_spec(spec: Any):
    """References give the declared shapes and dtypes; indexing has one entry per operand; shape rules agree."""
    for sample in spec.samples():
        arrays = [np.resize(edge_values(o.dtype)[:5], o.shape).astype(o.dtype) for o in sample.operands]
        for i in sample.index_operands or ():
            arrays[i] = np.zeros_like(arrays[i])
        if spec.reference is not None:
            for array, result in zip(spec.evaluate(sample.attributes, sample.results, *arrays), sample.results, strict=True):
                assert (array.shape, array.dtype) == (result.shape, result.dtype)
        if spec.indexing is not None:
            assert len(spec.indexing(sample.attributes, sample.results[0], sample.operands)) == len(sample.operands)
        if spec.shape is not None:
            assert spec.shape(sample.attributes, sample.operands) == sample.results


def test_dot_general_is_a_sum_of_products():
    (sample,) = [s for s in spec_of("stablehlo.dot_general").samples() if s.results[0].dtype == np.float64]
    a, b = (np.random.default_rng(0).normal(size=o.shape) for o in sample.operands)
    (found,) = spec_of("stablehlo.dot_general").evaluate(sample.attributes, sample.results, a, b)
    np.testing.assert_allclose(found, np.einsum("bijk,kjbn->bin", a, b), rtol=1e-12)


def test_elementwise_and_shaping_specs_are_complete():
    for spec in all_specs():
        if spec.kind in (Kind.ELEMENTWISE, Kind.SHAPING, Kind.DOT):
            assert spec.reference is not None
        if spec.kind not in (Kind.CONTROL, Kind.HERO):
            assert spec.indexing is not None


@pytest.mark.parametrize("name", [*DTYPES, "float8_e8m0fnu", "float6_e3m2fn", "float4_e2m1fn"])
def test_element_types_round_trip(name: str):
    assert numpy_dtype(element_type(dtype(name))) == dtype(name)


def test_unknown_op_is_named():
    with pytest.raises(CompileError, match=r"E1001.*stablehlo\.nonsense"):
        spec_of("stablehlo.nonsense")
