"""Floats of a byte and less: each code decodes, and numbers near all of them encode, as ml_dtypes has it; integers wrap."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context

from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.rounding import narrow
from hlo2tx8.hlo.types import bit_width, dtype, mlir_name
from hlo2tx8.passes.widen_narrow_types import WidenNarrowTypesPass

FORMATS = (
    *("float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    *("float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)


def expanded(text: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of the module behind the pass."""
    module = load(text)
    WidenNarrowTypesPass().apply(Context(), module)
    module.verify()
    return evaluate(module, *arrays)


def convert(array: np.ndarray, to: str) -> np.ndarray:
    source, target = (f"tensor<{array.size}x{mlir_name(d)}>" for d in (array.dtype, dtype(to)))
    body = f"%r = stablehlo.convert %a : ({source}) -> {target}\nreturn %r : {target}"
    return expanded(f"func.func @main(%a: {source}) -> {target} {{\n{body}\n}}", array)[0]


def codes(name: str) -> np.ndarray:
    return np.arange(1 << bit_width(dtype(name)), dtype=np.uint8).view(dtype(name))


def numbers(kind: Any, name: str) -> np.ndarray:
    """All bf16 numbers, and those next to and between the numbers of the small type."""
    with np.errstate(all="ignore"):
        every = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(kind)
    exact = codes(name).astype(np.float32).astype(kind)
    exact = np.unique(exact[np.isfinite(exact)])
    ties = (exact[1:] + exact[:-1]) / 2
    near = np.concatenate([exact, ties])
    return np.concatenate([every, near, np.nextafter(near, kind(np.inf)), np.nextafter(near, kind(-np.inf))])


@pytest.mark.parametrize("name", FORMATS)
def test_codes(name: str) -> None:
    found, expected = convert(codes(name), "float32"), codes(name).astype(np.float32)
    np.testing.assert_array_equal(np.signbit(found) & ~np.isnan(found), np.signbit(expected) & ~np.isnan(expected))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers(name: str, kind: Any) -> None:
    x = numbers(kind, name)
    with np.errstate(all="ignore"):
        expected = x.astype(dtype(name)) if kind == np.float32 else narrow(x, dtype(name))
    found = convert(x, name)
    known = ~np.isnan(expected.astype(np.float32))
    assert np.isnan(found.astype(np.float32)[~known]).all()
    wrong = found.view(np.uint8)[known] != expected.view(np.uint8)[known]
    assert not wrong.any(), (x[known][wrong][:5], found[known][wrong][:5], expected[known][wrong][:5])


@pytest.mark.parametrize("name", ["int2", "int4", "uint2", "uint4"])
def test_integers(name: str) -> None:
    low = 0 if name.startswith("u") else -(1 << (bit_width(dtype(name)) - 1))
    high = low + (1 << bit_width(dtype(name))) - 1
    whole = np.arange(-128, 128).astype(np.int8)
    wrapped = convert(whole, name).astype(np.int8)
    assert ((wrapped >= low) & (wrapped <= high) & ((whole - wrapped) % (high - low + 1) == 0)).all()
    real = np.array([-300, -8.9, -1.5, -0.5, np.nan, 0.5, 1.9, 7.5, 16, np.inf], np.float32)
    expected = np.trunc(np.clip(np.nan_to_num(real, nan=0, posinf=99), low, high))
    np.testing.assert_array_equal(convert(real, name).astype(np.float32), expected)
