"""Pass integers-in-floats, bit for bit: random chains of integer ops on all bytes, and on words, then converted to floats."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from xdsl.context import Context

from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.types import element_type
from hlo2tx8.passes.integers_in_floats import IntegersInFloatsPass
from hlo2tx8.passes.simplify_hlo import SimplifyHloPass

BITS = {"ui8": 8, "i8": 8, "i16": 16, "ui16": 16, "i32": 32, "ui32": 32}
SHIFTS = ("shift_left", "shift_right_logical", "shift_right_arithmetic")
FEW = 20
"""Chains of one test."""


@dataclass
class Chain:
    """Lines of a function of bytes or words %q and of zero points %z."""

    source: str
    draw: random.Random
    lines: list[str] = field(default_factory=list[str])

    def emit(self, text: str) -> str:
        self.lines.append(f"  %v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def number(self, value: int, element: str) -> str:
        bits = BITS[element]
        value &= (1 << bits) - 1
        value -= (not element.startswith("u") and value >> (bits - 1)) << bits
        return self.emit(f"stablehlo.constant dense<{value}> : {tensor(element)}")

    def zero_points(self, element: str) -> str:
        z = self.emit(f"stablehlo.convert %z : (tensor<64xui8>) -> tensor<64x{element}>")
        return self.emit(f"stablehlo.broadcast_in_dim {z}, dims = [1] : (tensor<64x{element}>) -> {tensor(element)}")

    def step(self, value: str, element: str) -> tuple[str, str]:
        """One more op."""
        draw, bits = self.draw, BITS[element]
        op = draw.choice(("and", "xor", "or", *SHIFTS, "convert", "bitcast_convert", "add", "subtract"))
        if op in ("convert", "bitcast_convert"):
            other = draw.choice([name for name in BITS if op == "convert" or BITS[name] == bits])
            return self.emit(f"stablehlo.{op} {value} : ({tensor(element)}) -> {tensor(other)}"), other
        if op in SHIFTS:
            other = self.number(draw.choice((1, 2, 4, bits - 4)), element)
        elif op in ("add", "subtract"):
            of_rows = draw.random() < 0.5 and bits > 8
            other = self.zero_points(element) if of_rows else self.number(draw.choice((8, 1, 128, 7, 200, -8)), element)
        else:
            other = self.number(draw.choice((15, 240, 128, 7, 0xF << draw.randrange(0, bits, 4), draw.getrandbits(bits))), element)
        return self.emit(f"stablehlo.{op} {value}, {other} : {tensor(element)}"), element

    def text(self) -> str:
        value, element = "%q", self.source
        for _ in range(self.draw.randint(1, 6)):
            value, element = self.step(value, element)
        result = self.draw.choice(("bf16", "f16", "f32"))
        value = self.emit(f"stablehlo.convert {value} : ({tensor(element)}) -> {tensor(result)}")
        if self.draw.random() < 0.4:
            value = self.emit(f"stablehlo.subtract {value}, {self.zero_points(result)} : {tensor(result)}")
        head = f"func.func @main(%q: {tensor(self.source)}, %z: tensor<64xui8>) -> {tensor(result)} {{"
        return "\n".join([head, *self.lines, f"  return {value} : {tensor(result)}", "}"])


def tensor(element: str) -> str:
    return f"tensor<4x64x{element}>"


@pytest.mark.parametrize("source", ["ui8", "i8", "i32"])
@pytest.mark.parametrize("seed", range(2))
def test_floats_are_what_the_integers_were(source: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    changed = 0
    for number in range(FEW):
        text = Chain(source, random.Random(f"{source} {seed} {number}")).text()
        q = np.arange(256, dtype=np.uint8).reshape(4, 64).view(np.int8 if source == "i8" else np.uint8)
        if source == "i32":
            q = rng.integers(-(2**31), 2**31, (4, 64)).astype(np.int32)
            q.flat[:4] = (-(2**31), 2**31 - 1, 0, -1)
        z = rng.integers(0, rng.choice((16, 256)), 64).astype(np.uint8)
        before, after = load(text), load(text)
        SimplifyHloPass().apply(Context(), after)
        simple = str(after)
        IntegersInFloatsPass().apply(Context(), after)
        changed += str(after) != simple
        (expected,), (found,) = evaluate(before, q, z), evaluate(after, q, z)
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes(), text
    assert changed > FEW // 3


def test_bytes_without_a_sign_are_converted_with_one() -> None:
    text = "func.func @main(%q: tensor<4x64xui8>) -> tensor<4x64xbf16> {\n  %0 = stablehlo.convert %q : (tensor<4x64xui8>) -> "
    module = load(text + "tensor<4x64xbf16>\n  return %0 : tensor<4x64xbf16>\n}")
    IntegersInFloatsPass().apply(Context(), module)
    sources = [op.operands[0].type for op in module.walk() if op.name == "stablehlo.convert"]
    assert [type_.get_element_type() for type_ in sources] == [element_type(np.dtype(np.int8))]  # pyright: ignore
