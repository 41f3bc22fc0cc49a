"""Every op's attributes and regions: jaxlib's text, walked, exported and parsed again, is the same in generic form."""

from pathlib import Path
from typing import Any

import pytest
from jaxlib.mlir.dialects import chlo as bindings

from hlo2tx8.dialects import chlo, stablehlo
from hlo2tx8.frontend import shim, to_mlir_text
from hlo2tx8.frontend.walker import walk_module

OPS = Path(__file__).parent / "ops"
CORPORA = sorted(path.stem for path in OPS.glob("*.mlir"))

UNARY = {
    "f32": (
        *(
            [
                "abs",
                "cbrt",
                "ceil",
                "cosine",
                "exponential",
                "exponential_minus_one",
                "floor",
                "log",
                "log_plus_one",
                "logistic",
                "negate",
            ]
        ),
        *(["round_nearest_afz", "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh", "real", "imag"]),
    ),
    "ui16": ("count_leading_zeros", "not", "popcnt"),
}
BINARY = {
    "f64": ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract"],
    "i4": ["and", "or", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical"],
}
CHLO_UNARY = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i1e",
    "conj",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "lgamma",
    "sinh",
    "square",
    "tan",
]
CHLO_BINARY = ["next_after", "polygamma", "zeta"]
CHLO_BROADCAST = {
    "f32": [
        "add",
        "atan2",
        "divide",
        "maximum",
        "minimum",
        "multiply",
        "next_after",
        "polygamma",
        "power",
        "remainder",
        "subtract",
        "zeta",
    ],
    "i32": ["and", "or", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical"],
}
HAS_MULHI = hasattr(bindings, "MulhiOp")
"""jaxlib knows it since 0.10.2."""
NOT_HELD = {"uniform_quantize", "uniform_dequantize"}
"""jaxlib's bindings do not load the dialect their types come from."""


def function(name: str, op: str, operands: list[str], result: str, attributes: str = "") -> str:
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(operands))
    values = ", ".join(f"%a{i}" for i in range(len(operands)))
    call = f'"{op}"({values}) {{{attributes}}} : ({", ".join(operands)}) -> {result}'
    return f"func.func @{name}({arguments}) -> {result} {{\n  %0 = {call}\n  return %0 : {result}\n}}"


def elementwise() -> str:
    """All elementwise ops of both dialects, one function each."""
    found: list[str] = []
    for element, names in UNARY.items():
        t = f"tensor<3x{element}>"
        found += [function(f"s_{name}", f"stablehlo.{name}", [t], t) for name in names]
    for element, names in BINARY.items():
        t = f"tensor<3x{element}>"
        found += [function(f"s_{name}", f"stablehlo.{name}", [t, t], t) for name in names]
    t, p, c = "tensor<3xf32>", "tensor<3xi1>", "tensor<3xcomplex<f32>>"
    accuracy = "result_accuracy = #stablehlo.result_accuracy<ulps = 1, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>"
    found += [
        function("s_accurate", "stablehlo.exponential", [t], t, accuracy),
        function("s_complex", "stablehlo.complex", [t, t], c),
        function("s_is_finite", "stablehlo.is_finite", [t], p),
        function("s_clamp", "stablehlo.clamp", ["tensor<f32>", t, "tensor<f32>"], t),
        function("s_select", "stablehlo.select", ["tensor<i1>", t, t], t),
    ]
    for direction in ("EQ", "NE", "GE", "GT", "LE", "LT"):
        chosen = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
        total = f"{chosen}, compare_type = #stablehlo<comparison_type TOTALORDER>"
        found += [function(f"s_{direction}", "stablehlo.compare", [t, t], p, chosen)]
        found += [function(f"s_{direction}_total", "stablehlo.compare", [t, t], p, total)]
    return "\n".join(found)


def chlo_ops() -> str:
    """All chlo ops but scan and ragged_dot, which are in a corpus."""
    t, p = "tensor<3xf32>", "tensor<3xi1>"
    found = [function(f"c{name}", f"chlo.{name}", [t], t) for name in CHLO_UNARY]
    found += [function(f"c_{name}", f"chlo.{name}", [t], p) for name in ("is_inf", "is_neg_inf", "is_pos_inf")]
    found += [function(f"c_{name}", f"chlo.{name}", [t, t], t) for name in CHLO_BINARY]
    c = "tensor<3xcomplex<f64>>"
    found += [function("c_asin_acos", "chlo._asin_acos_kernel", [c], c)]
    if HAS_MULHI:
        found += [function("c_mulhi", "chlo.mulhi", ["tensor<3xi32>"] * 2, "tensor<3xi32>")]
    for element, names in CHLO_BROADCAST.items():
        operands, result = [f"tensor<2x3x{element}>", f"tensor<3x{element}>"], f"tensor<2x3x{element}>"
        dims = "broadcast_dimensions = array<i64: 1>"
        found += [function(f"b_{name}", f"chlo.broadcast_{name}", operands, result, dims) for name in names]
    compare = "comparison_direction = #chlo<comparison_direction NE>, compare_type = #chlo<comparison_type FLOAT>"
    return "\n".join(
        [
            *found,
            function("b_compare", "chlo.broadcast_compare", [t, t], p, compare),
            function("b_complex", "chlo.broadcast_complex", [t, t], "tensor<3xcomplex<f32>>"),
            function("b_select", "chlo.broadcast_select", [p, t, "tensor<f32>"], t),
            function("c_like", "chlo.constant_like", [t], t, "value = 2.5 : f32"),
            function("c_like_inf", "chlo.constant_like", [t], t, "value = 0xFF800000 : f32"),
            function("c_constant", "chlo.constant", [], t, "value = dense<[1.0, -0.0, 0x7FC00001]> : tensor<3xf32>"),
        ]
    )


def corpus(name: str) -> str:
    return (OPS / f"{name}.mlir").read_text()


def functions_of(module: Any) -> dict[str, str]:
    """Generic text of each function."""
    ops = [o.operation for o in module.body.operations]
    return {o.attributes["sym_name"].value: o.get_asm(print_generic_op_form=True) for o in ops}


def assert_round_trip(text: str) -> None:
    module = shim.parse_module(text, shim.make_context())
    again = shim.parse_module(to_mlir_text(walk_module(module)), shim.make_context())
    before, after = functions_of(module), functions_of(again)
    assert list(before) == list(after)
    for name, generic in before.items():
        assert generic == after[name]


@pytest.mark.parametrize("name", CORPORA)
def test_corpus(name: str):
    assert_round_trip(corpus(name))


def test_elementwise_ops():
    assert_round_trip(elementwise())


def test_chlo_ops():
    assert_round_trip(chlo_ops())


def test_every_op_is_in_a_round_trip():
    text = "\n".join([*map(corpus, CORPORA), elementwise(), chlo_ops()])
    declared = {f"stablehlo.{name}" for name in stablehlo.OPS if name not in NOT_HELD} | {f"chlo.{name}" for name in chlo.OPS}
    unknown = set() if HAS_MULHI else {"chlo.mulhi"}
    assert {name for name in declared if f'"{name}"' not in text and f" {name} " not in text} == unknown
    assert len(stablehlo.OPS) >= 117 and len(chlo.OPS) >= 51


def test_module_name_and_argument_attributes_survive():
    text = """module @named attributes {mhlo.num_partitions = 2 : i32} {
      func.func public @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<f32>)
          -> (tensor<2xf32> {jax.result_info = "r"}) {
        return %a : tensor<2xf32>
      }
    }"""
    module = shim.parse_module(text, shim.make_context())
    again = shim.parse_module(to_mlir_text(walk_module(module)), shim.make_context())
    assert str(again) == str(module)
