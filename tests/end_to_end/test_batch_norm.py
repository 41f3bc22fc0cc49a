"""batch_norm_* on the emulator and at every level against XLA:CPU; an inference takes the ten steps."""

import re

import ml_dtypes
import numpy as np
import pytest
from jax_programs import CPU, FAST, LEVELS, check_text

from hlo2tx8 import Options, compile
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.device.emulator import Emulator
from hlo2tx8.hlo import evaluate
from hlo2tx8.options import Level
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.levels import RUNS, each_run

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
    check_text(text, inputs, CPU.run(text, inputs), levels, FAST, near)


def inference(shape: tuple[int, ...], element: str, before: str, after: str, more: str = "", feature: int = -1) -> str:
    """A batch norm of %x between other instructions, of %y, or of %b with an element per channel; %r is the result."""
    whole, own = (f"tensor<{'x'.join(map(str, s))}x{element}>" for s in (shape, (shape[feature],)))
    parameters = ", ".join(f"%{name}: {own}" for name in ("scale", "offset", "mean", "variance"))
    return f"""func.func @main(%x: {whole}, {parameters}{more}) -> whole {{
      {before}
      %n = "stablehlo.batch_norm_inference"(%a, %scale, %offset, %mean, %variance)
        {{epsilon = 1.0e-6 : f32, feature_index = {feature % len(shape)} : i64}} : (whole, own, own, own, own) -> whole
      {after}
      return %r : whole
    }}""".replace("whole", whole).replace("own", own)


RELU = "%z = stablehlo.constant dense<0.0> : whole\n %r = stablehlo.maximum %n, %z : whole"
SPREAD = "%bb = stablehlo.broadcast_in_dim %b, dims = [3] : (own) -> whole\n"
IN_BLOCKS = {
    "30 channels": inference((4, 112, 2, 30), "f16", "%a = stablehlo.negate %x : whole", RELU),
    "129 channels": inference((4, 112, 2, 129), "f16", "%a = stablehlo.negate %x : whole", RELU),
    "residual": inference(
        (4, 9, 8, 64), "bf16", "%a = stablehlo.tanh %x : whole", "%r = stablehlo.add %n, %y : whole", ", %y: whole"
    ),
    "bias before": inference((3, 5, 7, 100), "f32", SPREAD + "%a = stablehlo.subtract %bb, %x : whole", RELU, ", %b: own"),
    "ragged last step": inference((1, 3, 5, 33), "f32", "%a = stablehlo.abs %x : whole", RELU),
    "read twice": inference((2, 3, 3, 256), "f32", "%a = stablehlo.tanh %x : whole", "%r = stablehlo.multiply %a, %n : whole"),
    "an element per channel where no unit vector can be": inference(
        (4, 8, 8, 40),
        "f32",
        "%a = stablehlo.tanh %x : whole",
        SPREAD
        + "%e = stablehlo.exponential %bb : whole\n %q = stablehlo.subtract %e, %n : whole\n %r = stablehlo.maximum %e, %q : whole",
        ", %b: own",
    ),
}
DECLINED = {
    "its channels are not the innermost dimension": inference(
        (4, 40, 8, 3), "f32", "%a = stablehlo.tanh %x : whole", RELU, feature=1
    ),
    "not all of its values are floats": inference(
        (4, 8, 8, 40),
        "f32",
        "%a = stablehlo.tanh %x : whole",
        "%p = stablehlo.compare GT, %n, %x : (whole, whole) -> tensor<4x8x8x40xi1>\n"
        " %r = stablehlo.select %p, %n, %x : tensor<4x8x8x40xi1>, whole",
    ),
    "there are no points that several channels have": inference((4, 8, 8, 1), "f32", "%a = stablehlo.tanh %x : whole", RELU),
    "a tensor is read otherwise than": inference((4, 8, 8, 40), "f32", "%a = stablehlo.reverse %x, dims = [1] : whole", RELU),
}


def arguments(text: str) -> list[np.ndarray]:
    dtypes = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    rng, types = np.random.default_rng(0), re.findall(r"%\w+: tensor<([\dx]+)x(\w+)>", text)
    return [rng.uniform(0.5, 2, [int(n) for n in shape.split("x")]).astype(dtypes[element]) for shape, element in types]


@pytest.mark.parametrize(
    ("text", "emitter"),
    [*((text, "batchnorm emitter, hero kind batchnorm") for text in IN_BLOCKS.values())]
    + [(text, f"batchnorm emitter declines: {why}") for why, text in DECLINED.items()],
    ids=[*IN_BLOCKS, *DECLINED],
)
def test_a_fusion_with_a_batch_norm(text: str, emitter: str) -> None:
    executable, arrays = compile(text, Options(explain=True)), arguments(text)
    assert any(emitter in note for note in executable.explanation), executable.explanation
    found = {mode: Emulator(executable.chip, mode).run(executable.program, arrays)[0] for mode in ("fast", "strict", "definition")}
    assert found["fast"].tobytes() == found["strict"].tobytes() == found["definition"].tobytes()
    (expected,) = evaluate(load_source(text), *arrays)
    eps, wanted = float(ml_dtypes.finfo(expected.dtype).eps), expected.astype(np.float64)
    levels = [run for run in RUNS if Level.FUSED <= run.level < Level.PROGRAM]
    below = [results[0] for results in each_run(lambda: load_source(text), Options(), arrays, levels)]
    for actual in (found["fast"], *below):
        assert np.max(np.abs(actual.astype(np.float64) - wanted)) <= 4 * eps * max(1.0, float(np.max(np.abs(wanted))))


@pytest.mark.parametrize(("channels", "loops", "tails"), [(30, 0, 4), (64, 4, 0), (100, 4, 0), (129, 4, 4), (256, 4, 0)])
def test_an_inference_takes_the_ten_steps_in_order(channels: int, loops: int, tails: int) -> None:
    """Blocks of 64 channels by VuV_loop, a tail by VuV; what a channel has once is computed in the first step only."""
    whole, own = f"tensor<4x112x2x{channels}xf16>", f"tensor<{channels}xf16>"
    text = inference((4, 112, 2, channels), "f16", "", "").replace("%a,", "%x,").replace("%r :", "%n :")
    assert whole in text and own in text
    executable = compile(text)
    names = [line.split()[1] for line in executable.as_text("program").splitlines() if re.match(r" *\d+  ", line)]
    form = "VuV_{}_loop.fp32" if loops else "VuV_{}.fp32"
    steps = [
        "TDMA_gatherScatter.fp16",
        "ConvertOp_V_V_convert_fp16.fp32",
        form.format("sub"),
        "V_VS_add.fp32",
        "V_V_rsqrt.fp32",
        form.format("mul"),
        form.format("mul"),
        form.format("add"),
        "ConvertOp_V_V_convert_fp32.fp16",
        "TDMA_gatherScatter.fp16",
    ]
    following = iter(names)
    assert all(any(name.endswith(step) for name in following) for step in steps), names
    assert sum("VuV" in name and "loop" in name for name in names) == loops
    assert sum("VuV" in name and "loop" not in name for name in names) == tails
    counted = {tile: sum("rsqrt" in event for event in events) for tile, events in instructions_by_tile(executable).items()}
    assert set(counted.values()) == {1}, "the factors of the channels are computed once"


def instructions_by_tile(executable: Executable) -> dict[int, list[str]]:
    """Names of what a tile's engines do, from the modelled trace."""
    found: dict[int, list[str]] = {}
    for event in executable.trace()["traceEvents"]:
        if event.get("ph") == "X" and event["pid"] > 1:
            found.setdefault(event["pid"], []).append(event["name"])
    return found


@pytest.mark.parametrize(("shape", "most"), [((32, 56, 56, 256), 1.05), ((4, 112, 2, 129), 1.25), ((4, 112, 2, 30), 1.3)])
def test_an_inference_comes_near_its_bound(shape: tuple[int, ...], most: float) -> None:
    """Reading and writing once at the rate of DDR, behind the launch."""
    text = inference(shape, "f16", "", "").replace("%a,", "%x,").replace("%r :", "%n :")
    moved = 2 * int(np.prod(shape)) * 2 + 4 * shape[-1] * 2
    assert compile(text).cost_analysis()["cycles"] <= most * (2000 + moved / 204.8)
