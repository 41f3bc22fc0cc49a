"""Pass saturate-conversions, bit for bit: random clamps, roundings and zero points in front of conversions, of all numbers."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from xdsl.context import Context

from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.types import dtype
from hlo2tx8.passes.saturate_conversions import SaturateConversionsPass
from hlo2tx8.passes.simplify_hlo import SimplifyHloPass

NAMES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "i32": "int32", "i16": "int16"}
FEW = 60
"""Chains of one test."""
BOUNDS = ((-128, 127), (0, 255), (0, 127), (-100, 300), (-3, 5), (-32768, 32767), (-5, -5))


@dataclass
class Chain:
    """Lines of a function of numbers %x."""

    source: str
    draw: random.Random
    lines: list[str] = field(default_factory=list[str])

    def emit(self, text: str) -> str:
        self.lines.append(f"  %v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def number(self, value: float, element: str) -> str:
        text = str(float(value) if "f" in element else int(value))
        return self.emit(f"stablehlo.constant dense<{text}> : {tensor(element)}")

    def bounded(self, value: str) -> str:
        """The value within bounds, of which some are no integers."""
        draw, element = self.draw, self.source
        low, high = draw.choice(BOUNDS)
        more = 0.5 if "f" in element and draw.random() < 0.15 else 0
        low, high = (self.number(bound + more, element) for bound in (low, high))
        forms = {
            "clamp": [f"clamp {low}, {{}}, {high}"],
            "low first": [f"maximum {{}}, {low}", f"minimum {high}, {{}}"],
            "high first": [f"minimum {{}}, {high}", f"maximum {low}, {{}}"],
            "low": [f"maximum {low}, {{}}"],
            "high": [f"minimum {high}, {{}}"],
        }
        for form in forms[draw.choice(list(forms))]:
            value = self.emit(f"stablehlo.{form.format(value)} : {tensor(element)}")
        return value

    def text(self) -> str:
        value, draw, element = "%x", self.draw, self.source
        if draw.random() < 0.4:
            value = self.bounded(value)
        if "f" in element and draw.random() < 0.7:
            value = self.emit(f"stablehlo.round_nearest_even {value} : {tensor(element)}")
        if "f" in element and draw.random() < 0.5:
            zero = self.number(draw.choice((3, 128, -7, 0.5, 1e9)), element)
            value = self.emit(f"stablehlo.{draw.choice(('add', 'subtract'))} {value}, {zero} : {tensor(element)}")
        if draw.random() < 0.8:
            value = self.bounded(value)
        result = draw.choice(("i8", "i8", "ui8", "ui8", "i16", "i32", "ui16", "i64"))
        value = self.emit(f"stablehlo.convert {value} : ({tensor(element)}) -> {tensor(result)}")
        head = f"func.func @main(%x: {tensor(self.source)}) -> {tensor(result)} {{"
        return "\n".join([head, *self.lines, f"  return {value} : {tensor(result)}", "}"])


def tensor(element: str) -> str:
    return f"tensor<8x64x{element}>"


def numbers(source: str, rng: np.random.Generator) -> np.ndarray:
    """Of all sizes: near the bounds, halves, and for floats what is no number, and zeros of both signs."""
    kind = dtype(NAMES[source])
    if "f" not in source:
        limits = np.iinfo(kind)
        some = [limits.min, limits.max, -129, -128, 127, 128, 0, -1, 255, 256]
        drawn = rng.integers(limits.min, limits.max, 256), rng.integers(-300, 300, 256)
        found = np.concatenate(drawn).astype(kind)
    else:
        some = [np.nan, np.inf, -np.inf, -0.0, 0.0, 2.5, 3.5, -0.5, 127.5, 254.5, 0.49999997, 0.50000006, 3e9, -3e9, 65504.0, 1e-40]
        drawn = rng.normal(0, 200, 256), np.round(rng.normal(0, 200, 200)) + 0.5, rng.normal(0, 1e6, 56)
        found = np.concatenate(drawn).clip(-65504, 65504).astype(kind)
    with np.errstate(over="ignore"):  # some are too large for floats of 16 bits
        found[: len(some)] = np.array(some).astype(kind)
    return found.reshape(8, 64)


@pytest.mark.parametrize("source", NAMES)
def test_conversions_are_what_they_were(source: str) -> None:
    changed = 0
    for number in range(FEW):
        text = Chain(source, random.Random(f"{source} {number}")).text()
        x = numbers(source, np.random.default_rng(number))
        before, after = load(text), load(text)
        SimplifyHloPass().apply(Context(), after)
        simple = str(after)
        SaturateConversionsPass().apply(Context(), after)
        changed += str(after) != simple
        (expected,), (found,) = evaluate(before, x), evaluate(after, x)
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes(), text
    assert changed > FEW // 8
