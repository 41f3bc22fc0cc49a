"""batch_norm_* on the emulator and at every level against XLA:CPU."""

import ml_dtypes
import numpy as np
import pytest
from jax_programs import FAST, LEVELS, check_text

from hlo2tx8.tools.xla_cpu import run_on_cpu

TEXTS = {
    "inference": ("xffff", "x"),
    "training": ("xff", "xff"),
    "grad": ("xfffx", "xff"),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize(("shape", "feature", "element"), [((2, 5, 4, 3), 3, "f32"), ((3, 6, 5), 1, "f64"), ((4, 7, 3), 2, "bf16")])
def test_batch_norm(kind: str, shape: tuple[int, ...], feature: int, element: str) -> None:
    whole, own = (f"tensor<{'x'.join(map(str, s))}x{element}>" for s in (shape, (shape[feature],)))
    types, results = ([whole if letter == "x" else own for letter in letters] for letters in TEXTS[kind])
    arguments = ", ".join(f"%{i}: {t}" for i, t in enumerate(types))
    names = ", ".join(f"%{i}" for i in range(len(types)))
    returned = ", ".join(f"%r#{i}" for i in range(len(results))) if len(results) > 1 else "%r"
    text = f"""func.func @main({arguments}) -> ({", ".join(results)}) {{
      %r{f":{len(results)}" if len(results) > 1 else ""} = "stablehlo.batch_norm_{kind}"({names})
        {{epsilon = 0.001 : f32, feature_index = {feature} : i64}} : ({", ".join(types)}) -> ({", ".join(results)})
      return {returned} : {", ".join(results)}
    }}"""
    dtype = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}[element]
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(0.5, 2, shape if t == whole else shape[feature]).astype(dtype) for t in types]
    eps = float(ml_dtypes.finfo(dtype).eps)

    def near(actual: np.ndarray, expected: np.ndarray) -> None:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        assert np.max(np.abs(actual.astype(np.float64) - expected.astype(np.float64))) <= 128 * eps

    levels = LEVELS if element == "f32" else ()
    check_text(text, inputs, run_on_cpu(text, inputs), levels, FAST, near)
