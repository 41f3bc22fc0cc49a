"""Types no instruction computes with (f8, f4, complex, sub-byte integers), and f64: constants and moves, bit for bit."""

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.types import dtype, mlir_name

DTYPES = (
    *("complex64", "complex128", "int2", "int4", "uint2", "uint4", "float4_e2m1fn", "float8_e8m0fnu"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz"),
)
IN = "tensor<5x7xT>"
MOVES: dict[str, tuple[str, str]] = {
    "reshape": (f"%r = stablehlo.reshape %a : ({IN}) -> tensor<35xT>", "tensor<35xT>"),
    "transpose": (f"%r = stablehlo.transpose %a, dims = [1, 0] : ({IN}) -> tensor<7x5xT>", "tensor<7x5xT>"),
    "slice": (f"%r = stablehlo.slice %a [0:5:2, 1:7:3] : ({IN}) -> tensor<3x2xT>", "tensor<3x2xT>"),
    "reverse": (f"%r = stablehlo.reverse %a, dims = [1] : {IN}", IN),
    "pad": (
        "%z = stablehlo.constant dense<ZERO> : tensor<T>\n"
        f"%r = stablehlo.pad %a, %z, low = [1, -1], high = [0, 2], interior = [1, 0] : ({IN}, tensor<T>) -> tensor<10x8xT>",
        "tensor<10x8xT>",
    ),
    "concatenate": (f"%r = stablehlo.concatenate %a, %a, dim = 1 : ({IN}, {IN}) -> tensor<5x14xT>", "tensor<5x14xT>"),
    "broadcast": (f"%r = stablehlo.broadcast_in_dim %a, dims = [0, 2] : ({IN}) -> tensor<5x3x7xT>", "tensor<5x3x7xT>"),
    "splat": (f"%r = stablehlo.constant dense<ONE> : {IN}", IN),
    "constant": ("%r = stablehlo.constant dense<[ONE, ZERO, ONE]> : tensor<3xT>", "tensor<3xT>"),
    "select": (
        "%p = stablehlo.constant dense<[true, false, true, true, false, true, true]> : tensor<7xi1>\n"
        "%q = stablehlo.broadcast_in_dim %p, dims = [1] : (tensor<7xi1>) -> tensor<5x7xi1>\n"
        f"%b = stablehlo.reverse %a, dims = [0] : {IN}\n"
        f"%r = stablehlo.select %q, %a, %b : (tensor<5x7xi1>, {IN}, {IN}) -> {IN}",
        IN,
    ),
}


def text(name: str, body: str, result: str) -> str:
    """A module over elements of that dtype."""
    zero, one = ("(1.0, -2.0)", "(0.5, 3.0)") if "complex" in name else ("1.0", "2.0") if "float" in name else ("1", "0")
    whole = f"func.func @main(%a: {IN}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    return whole.replace("ZERO", zero).replace("ONE", one).replace("xT>", f"x{_mlir(name)}>").replace("<T>", f"<{_mlir(name)}>")


def _mlir(name: str) -> str:
    return mlir_name(dtype(name))


def values(name: str) -> np.ndarray:
    """5 x 7 elements of all kinds of bits."""
    rng = np.random.default_rng(0)
    if "int" in name:
        width, low = int(name[-1]), 0 if name.startswith("u") else -(1 << (int(name[-1]) - 1))
        return rng.integers(low, low + (1 << width), (5, 7)).astype(np.int8).astype(dtype(name))
    octets = rng.integers(0, 16 if "float4" in name else 256, 35 * dtype(name).itemsize, dtype=np.uint8)
    return octets.view(dtype(name)).reshape(5, 7)


@pytest.mark.parametrize("name", [*DTYPES, "float64"])
@pytest.mark.parametrize("move", MOVES)
def test_moves(name: str, move: str) -> None:
    source, x = text(name, *MOVES[move]), values(name)
    expected = np.asarray(evaluate(load(source), x)[0])
    for mode in ("fast", "strict"):
        executable = hlo2tx8.compile(source, hlo2tx8.Options(mode=mode))
        actual = np.asarray(executable.run(x))
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert actual.tobytes() == expected.tobytes(), mode
