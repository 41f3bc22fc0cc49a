"""Pass widen-narrow-types on what arithmetic there is, all values of each type, against the evaluator; bitcasts between widths."""

import numpy as np
import pytest
from jax_programs import FAST, LEVELS, check_text
from op_programs import ulps

import hlo2tx8
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.types import bit_width, dtype, is_float, mlir_name

FORMATS = ("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn")
BOTH = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "negate", "abs", "sign", "remainder")
OF_FLOATS = ("exponential", "sqrt", "floor", "tanh")
OF_INTEGERS = ("and", "xor", "not", "shift_left", "shift_right_logical", "shift_right_arithmetic", "popcnt", "count_leading_zeros")
UNARY = ("negate", "abs", "sign", "not", "popcnt", "count_leading_zeros", *OF_FLOATS)


def lines_of(name: str) -> list[tuple[str, str]]:
    """Operations on %a and %b, tensor<6x40xT>, with the types of their results."""
    kind, t = dtype(name), f"tensor<6x40x{mlir_name(dtype(name))}>"
    element, wide = mlir_name(kind), "f32" if is_float(kind) else "i32"
    found: list[tuple[str, str]] = []
    for op in (*BOTH, *(OF_FLOATS if is_float(kind) else OF_INTEGERS)):
        if name == "float8_e8m0fnu" and op not in ("add", "multiply", "maximum", "sqrt"):
            continue
        if not name.startswith("u") or op not in ("abs", "sign"):
            operands = "%a" if op in UNARY else "%a, %b"
            found.append((f'"stablehlo.{op}"({operands}) : ({", ".join([t] * (1 + (op not in UNARY)))}) -> {t}', t))
    p, q = f"tensor<6x40x{wide}>", "tensor<6x40xi1>"
    found.append((f"stablehlo.convert %a : ({t}) -> {p}", p))
    found.append((f"stablehlo.compare LT, %a, %b : ({t}, {t}) -> {q}", q))
    found.append((f"stablehlo.clamp %b, %a, %b : {t}", t))
    row, square = f"tensor<40x{element}>", f"tensor<6x6x{wide}>"
    if name != "float8_e8m0fnu":
        found.append((f"stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : ({t}, {t}) -> {square}", square))
        for op in ("add", "maximum"):
            reduction = f"stablehlo.reduce(%a init: %z) applies stablehlo.{op} across dimensions = [0]"
            found.append((f"{reduction} : ({t}, tensor<{element}>) -> {row}", row))
        found.append((f"stablehlo.iota dim = 0 : {t}", t))
    return found


def text_of(name: str) -> str:
    kind = mlir_name(dtype(name))
    lines = lines_of(name)
    body = "\n".join(f"%r{i} = {line}" for i, (line, _) in enumerate(lines))
    names, types = ", ".join(f"%r{i}" for i in range(len(lines))), ", ".join(type_ for _, type_ in lines)
    zero = f"%z = stablehlo.constant dense<{'1.0' if is_float(dtype(name)) else '0'}> : tensor<{kind}>"
    parameters = ", ".join(f"%{x}: tensor<6x40x{kind}>" for x in "ab")
    return f"func.func @main({parameters}) -> ({types}) {{\n{zero}\n{body}\nreturn {names} : {types}\n}}"


def values(name: str, seed: int) -> np.ndarray:
    kind, rng = dtype(name), np.random.default_rng(seed)
    if is_float(kind):
        return rng.integers(0, 1 << bit_width(kind), (6, 40)).astype(np.uint8).view(kind)
    low = 0 if name.startswith("u") else -(1 << (bit_width(kind) - 1))
    return rng.integers(low, low + (1 << bit_width(kind)), (6, 40)).astype(np.int8).astype(kind)


def same(actual: np.ndarray, expected: np.ndarray) -> None:
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    if actual.dtype == np.float32:  # a sum of 40 products
        np.testing.assert_array_equal(np.isfinite(actual), np.isfinite(expected))
        known = np.isfinite(expected)
        bound = 40 * np.finfo(np.float32).eps * np.abs(expected[known]).max(initial=0)
        assert np.max(np.abs(actual - expected)[known], initial=0) <= bound
        return
    assert np.max(ulps(actual, expected), initial=0) <= (1 if is_float(actual.dtype) else 0)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", *FORMATS])
def test_operations(name: str) -> None:
    text, inputs = text_of(name), [values(name, seed) for seed in (0, 1)]
    levels = LEVELS if name == "float8_e5m2" else ()
    with np.errstate(all="ignore"):
        check_text(text, inputs, evaluate(load(text), *inputs), levels, FAST, same)


@pytest.mark.parametrize(("narrow", "wide"), [("i2", "i8"), ("ui4", "f8E4M3FN"), ("i4", "f32"), ("f4E2M1FN", "i8")])
def test_bitcasts_between_widths(narrow: str, wide: str) -> None:
    count = {"i8": 8, "f8E4M3FN": 8, "f32": 32}[wide] // int(narrow.strip("uif")[0])
    parts, whole = f"tensor<5x{count}x{narrow}>", f"tensor<5x{wide}>"
    text = f"""func.func @main(%a: {whole}) -> ({parts}, {whole}) {{
      %r = stablehlo.bitcast_convert %a : ({whole}) -> {parts}
      %q = stablehlo.bitcast_convert %r : ({parts}) -> {whole}
      return %r, %q : {parts}, {whole}
    }}"""
    kind = {"i8": np.int8, "f8E4M3FN": dtype("float8_e4m3fn"), "f32": np.float32}[wide]
    x = np.random.default_rng(0).integers(0, 120, 5 * np.dtype(kind).itemsize).astype(np.uint8).view(kind)
    check_text(text, [x], evaluate(load(text), x), (), FAST)


@pytest.mark.parametrize("name", FORMATS)
def test_arrays_of_the_caller(name: str) -> None:
    """Types that numpy knows of by a library only; arrays that may be written."""
    t = f"tensor<3x5x{mlir_name(dtype(name))}>"
    executable = hlo2tx8.compile(f"func.func @main(%a: {t}) -> {t} {{\nreturn %a : {t}\n}}")
    x = np.arange(15, dtype=np.uint8).reshape(3, 5).view(dtype(name))
    assert executable.execute(x.copy())[0].tobytes() == x.tobytes()


@pytest.mark.parametrize("op", ["asin", "atan", "erf", "erfc", "is_inf", "is_pos_inf"])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_chlo(op: str, name: str) -> None:
    t = f"tensor<6x40x{mlir_name(dtype(name))}>"
    result = "tensor<6x40xi1>" if op.startswith("is_") else t
    text = f'func.func @main(%a: {t}) -> {result} {{\n%r = "chlo.{op}"(%a) : ({t}) -> {result}\nreturn %r : {result}\n}}'
    x = values(name, 0)
    with np.errstate(all="ignore"):
        check_text(text, [x], evaluate(load(text), x), (), FAST, same)
