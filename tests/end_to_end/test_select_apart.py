"""select_and_scatter whose windows lie side by side: two kernels, the first selecting element by element, exact at every level."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from jax_programs import FAST, check_text, same_bits

import hlo2tx8

MLIR = {np.dtype(np.float32): "f32", np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype(np.int32): "i32", np.dtype(np.float64): "f64"}
COMPARE = {"GE": np.greater_equal, "LT": np.less, "GT": np.greater}


def text_of(shape: tuple[int, ...], window: tuple[int, ...], dtype: Any, direction: str) -> str:
    element, small = MLIR[np.dtype(dtype)], [n // size for n, size in zip(shape, window, strict=True)]
    full, part, scalar = (f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>" for sizes in (shape, small, ()))
    kind = "SIGNED" if element == "i32" else "FLOAT"
    array = f"array<i64: {', '.join(map(str, window))}>"
    return f"""func.func @main(%x: {full}, %source: {part}, %start: {scalar}) -> {full} {{
      %0 = "stablehlo.select_and_scatter"(%x, %source, %start) <{{window_dimensions = {array}, window_strides = {array}}}> ({{
      ^bb0(%a: {scalar}, %b: {scalar}):
        %1 = stablehlo.compare {direction}, %a, %b, {kind} : ({scalar}, {scalar}) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }}, {{
      ^bb0(%a: {scalar}, %b: {scalar}):
        %1 = stablehlo.add %a, %b : {scalar}
        stablehlo.return %1 : {scalar}
      }}) : ({full}, {part}, {scalar}) -> {full}
      return %0 : {full}
    }}"""


def scattered(x: np.ndarray, source: np.ndarray, start: np.ndarray, window: tuple[int, ...], direction: str) -> np.ndarray:
    """Window by window, element by element."""
    found = np.full(x.shape, start, x.dtype)
    for place in np.ndindex(*source.shape):
        elements = [tuple(p * n + o for p, n, o in zip(place, window, at, strict=True)) for at in product(*map(range, window))]
        chosen = elements[0]
        for at in elements[1:]:
            with np.errstate(invalid="ignore"):
                stays = COMPARE[direction](x[chosen], x[at])
            chosen = chosen if stays else at
        found[chosen] = start + source[place]
    return found


@pytest.mark.parametrize("dtype", list(MLIR), ids=str)
@pytest.mark.parametrize(
    ("shape", "window", "direction"), [((2, 6, 4, 3), (1, 3, 2, 1), "GE"), ((4, 6), (2, 1), "LT"), ((2, 2, 8), (2, 2, 4), "GT")]
)
def test_windows_side_by_side(shape: tuple[int, ...], window: tuple[int, ...], direction: str, dtype: np.dtype[Any]) -> None:
    """Ties, NaN, zeros of both signs; a start that is added."""
    rng = np.random.default_rng(7)
    x = rng.integers(-2, 3, shape).astype(dtype)
    if dtype.kind != "i":
        x[rng.random(shape) < 0.1] = np.nan
        x[rng.random(shape) < 0.1] = -0.0
    small = tuple(n // size for n, size in zip(shape, window, strict=True))
    source, start = rng.integers(-9, 9, small).astype(dtype), np.array(2, dtype)
    text = text_of(shape, window, dtype, direction)
    levels = {"levels": ()} if dtype.itemsize == 8 else {}
    check_text(text, [x, source, start], [scattered(x, source, start, window, direction)], modes=FAST, compare=same_bits, **levels)


def test_it_takes_two_kernels() -> None:
    assert len(hlo2tx8.compile(text_of((4, 16, 16, 8), (1, 2, 2, 1), np.float32, "GE")).program.launches) <= 2
