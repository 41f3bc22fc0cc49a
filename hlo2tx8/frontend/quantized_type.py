"""Uniform quantised element types, `!quant.uniform<i8:f32, 0.1:-30>`, read from MLIR's text of a type."""

import re
from dataclasses import dataclass

MARK = "!quant."
_TYPE = re.compile(
    r"!quant\.uniform<(?P<sign>[iu])(?P<width>\d+)(?:<(?P<low>-?\d+):(?P<high>-?\d+)>)?:(?P<expressed>\w+)"
    r"(?::(?P<axis>\d+))?, (?:\{(?P<many>[^{}]*)\}|(?P<one>[^<>{}]*))>"
)


@dataclass(frozen=True)
class QuantizedType:
    """An integer i of type `storage`, `low` <= i <= `high`, stands for (i - zero point) * scale of the float type `expressed`.

    `axis` is the dimension along which scales and zero points differ; None where there is one of each. Types are MLIR's text.
    """

    storage: str
    low: int
    high: int
    expressed: str
    axis: int | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]

    @property
    def is_of_pass(self) -> bool:
        """Does StableHLO's own pass expand it rightly? It takes unsigned integers for signed ones, and floats for f32."""
        return self.expressed == "f32" and not self.storage.startswith("u")

    @property
    def wide(self) -> str:
        """The signed integer type in which a zero point is subtracted."""
        return "i32" if int(self.storage.lstrip("ui")) < 32 else "i64"


def quantized_types(text: str) -> tuple[QuantizedType, ...]:
    """The quantised types in the text of a type; ValueError where one has another form."""
    found = tuple(_read(match) for match in _TYPE.finditer(text))
    if len(found) != text.count(MARK):
        raise ValueError(text)
    return found


def storage_text(text: str) -> str:
    """The text of a type with storage types in place of quantised ones."""
    return _TYPE.sub(lambda match: _read(match).storage, text)


def expressed_text(text: str) -> str:
    """The text of a type with expressed types in place of quantised ones."""
    return _TYPE.sub(lambda match: match["expressed"], text)


def _read(match: re.Match[str]) -> QuantizedType:
    width = int(match["width"])
    is_signed = match["sign"] == "i"
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)
    pairs = [pair.partition(":") for pair in (match["many"] or match["one"]).split(",")]
    return QuantizedType(
        f"{'' if is_signed else 'u'}i{width}",
        int(match["low"] or low),
        int(match["high"] or high),
        match["expressed"],
        int(match["axis"]) if match["axis"] else None,
        tuple(float(scale) for scale, _, _ in pairs),
        tuple(int(point or 0) for _, _, point in pairs),
    )
