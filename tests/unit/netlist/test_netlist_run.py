"""Netlists run by numpy: samples against formulas written down here, rounding bit by bit, pointers, errors."""

from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.errors import InputError, NetlistRunError
from hlo2tx8.netlist.compare import compare
from hlo2tx8.netlist.config import Comparison
from hlo2tx8.netlist.formats import FORMATS, Array, round_to, to_host
from hlo2tx8.netlist.golden import inputs_of, outputs_of, run_golden
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.reader import read_file, read_netlist
from hlo2tx8.netlist.roots import under_roots
from hlo2tx8.netlist.stimulus import exact_in

SAMPLES = Path(__file__).parents[3] / "hlo_samples" / "netlists"


def run(name: str, changes: tuple[tuple[str, str], ...] = (), scale: float = 1.0) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs that are random and exact in their formats, filling every queue, and what comes out of a sample."""
    text = (SAMPLES / f"{name}.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    netlist = read_netlist(text, name)
    random = np.random.default_rng(1)
    inputs: dict[str, Array] = {}
    for io, queue in inputs_of(expand(netlist)).items():
        low, high = (0, 63) if queue.df.family == "raw" else (-20, 20)
        made = random.integers(low, high, (queue.entries, *queue.host_shape)) / (1 if queue.df.is_integer else 16 / scale)
        inputs[io] = np.stack([exact_in(tensor, queue) for tensor in made])
    return inputs, run_golden(netlist, netlist.devices.arches[-1], inputs, {})


def near(found: Array, expected: Array, tolerance: float = 1e-2) -> None:
    assert found.shape == expected.shape
    assert np.allclose(found, expected, rtol=tolerance, atol=tolerance), np.abs(found - expected).max()


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def test_softmax_of_rows():
    inputs, _ = run("softmax")
    ones = np.ones_like(inputs["ones"])
    netlist = read_file(SAMPLES / "softmax.yaml")
    outputs = run_golden(netlist, "grayskull", inputs | {"ones": ones}, {})
    power = np.exp(inputs["scores"].astype(np.float64))
    near(outputs["shares"], power / power.sum(axis=-1, keepdims=True))


def test_manipulations_of_tensors():
    inputs, outputs = run("manipulations")
    x, y, row = (inputs[name].astype(np.float64) for name in ("x", "y", "row"))
    heads = [x[..., 64 * h : 64 * h + 64] @ y[..., 64 * h : 64 * h + 64].swapaxes(-1, -2) for h in range(2)]
    near(outputs["z"], np.concatenate(heads, axis=-1) + np.tile(row, (1, 1, 2, 1)))


def test_a_fused_op():
    inputs, outputs = run("fused")
    x, w, b = (inputs[name].astype(np.float64) for name in ("x", "w", "b"))
    made = np.sqrt(np.abs(x)) @ w + b[:, :, :1]
    near(outputs["y"], np.where(made >= 0.25, made, 0), 0.02)


def test_a_product_with_bias_and_its_largest():
    inputs, outputs = run("dense", scale=0.25)
    x, w, b = (inputs[name].astype(np.float64) for name in ("x", "w", "b"))
    made = gelu(x @ w + b[:, :, :1])
    near(outputs["y"], made)
    near(outputs["most"][..., 0], made.max(axis=-1))
    assert not outputs["most"][..., 1:].any()


def test_integers():
    inputs, _ = run("integers")
    inputs["s"][...] = 0.0625
    netlist = read_file(SAMPLES / "integers.yaml")
    outputs = run_golden(netlist, "wormhole_b0", inputs, {})
    x, w, b, s = (inputs[name].astype(np.float64) for name in ("x", "w", "b", "s"))
    exact = (x @ w + b) * s + 3
    small = np.clip(np.copysign(np.floor(np.abs(exact) + 0.5), exact), -127, 127)
    assert np.array_equal(outputs["y"], (small - 3) * s)


def test_splice_of_ublocks_and_slices():
    inputs, outputs = run("splice")
    a, b = inputs["a"], inputs["b"]
    mixed = np.concatenate([a[..., 32:64], b[..., :32], a[..., 96:], b[..., 32:]], axis=-1)
    assert np.array_equal(outputs["c"], mixed)
    assert np.array_equal(outputs["d"], np.concatenate([a[:, 1:], mixed], axis=1))


def test_embedding():
    inputs, outputs = run("embedding")
    numbers = inputs["numbers"].reshape(2, -1)[:, :32]
    assert np.array_equal(outputs["rows"][:, 0], inputs["table"][0, 0][numbers])
    inputs["numbers"][0, 0, 0, 3] = 0xFFFFFFFF
    again = run_golden(read_file(SAMPLES / "embedding.yaml"), "wormhole_b0", inputs, {})
    assert not again["rows"][0, 0, 3].any()
    inputs["numbers"][0, 0, 0, 3] = 64
    with pytest.raises(NetlistRunError, match="op pick: the table has 64 rows, there is no row 64"):
        run_golden(read_file(SAMPLES / "embedding.yaml"), "wormhole_b0", inputs, {})


def test_topk():
    inputs, _ = run("topk")
    inputs["at"][...] = np.arange(128)
    outputs = run_golden(read_file(SAMPLES / "topk.yaml"), "wormhole_b0", inputs, {})
    best = -np.sort(-inputs["x"], axis=-1)[..., :10]
    assert np.array_equal(outputs["best"][..., :10], best)
    assert np.array_equal(np.take_along_axis(inputs["x"], outputs["where"][..., :10].astype(int), axis=-1), best)
    assert not outputs["best"][..., 10:].any()


def test_depthwise_and_maxima_of_slices():
    inputs, outputs = run("depthwise")
    x, w, b = (inputs[name].astype(np.float64) for name in ("x", "w", "b"))
    taps = [
        [x[..., 64 * t + 32 * c :][..., :32] @ w[:, :, 32 * t : 32 * t + 32, 32 * c : 32 * c + 32] for t in range(2)]
        for c in range(2)
    ]
    made = np.concatenate([one + two for one, two in taps], axis=-1) + b[:, :, :1]
    near(outputs["y"], made.max(axis=1, keepdims=True), 0.02)


def test_small_tiles_pads_and_unpads():
    inputs, outputs = run("small_tiles")
    squares = inputs["x"].reshape(2, 1, 2, 8, 64) ** 2
    squares[:, :, :, 4:] = 0  # on vectors of rows the first four are computed
    near(outputs["y"], squares.reshape(2, 1, 16, 64))
    v = inputs["v"][:, :, :32]
    wide = np.pad(
        np.pad(v, ((0, 0), (0, 0), (0, 0), (0, 32)), constant_values=2.0), ((0, 0), (0, 0), (0, 32), (0, 0)), constant_values=-1.0
    )
    near(outputs["u"], np.exp(wide))


def test_gradients_parameters_and_rams_under_two_names():
    inputs, outputs = run("training", scale=0.5)
    x, weight = inputs["x"].astype(np.float64), inputs["weight"].astype(np.float64)
    near(outputs["y"], x * weight)
    near(outputs["log"], x * weight)
    gradient = (x * x).sum(axis=0, keepdims=True)
    near(outputs["gradient"], gradient)
    near(outputs["weight"], weight - gradient)
    near(outputs["sums"], (x * weight).reshape(2, 1, 64, 64))


def test_devices_and_epochs():
    inputs, outputs = run("two_devices")
    near(outputs["y.1"], inputs["x.1"] ** 2)
    near(outputs["z"], np.tanh(inputs["a"]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("loop: 2", "loop: 3", "program main, graph softmax: queue scores: nothing was pushed where 4 reads"),
        (
            "entries: 4, grid_size: [1, 1], t: 1, mblock: [2, 2]",
            "entries: 3, grid_size: [1, 1], t: 1, mblock: [2, 2]",
            "queue shares: is full",
        ),
        ("$c_zero: 0}", "$c_zero: 1}", "ram ones: there is no slot 1 of 1"),
        ("type: exp", "type: sqrt", "op power: sqrt of a negative number or NaN"),
        ("incwrap, $c_inputs, 8", "incwrap, $c_inputs, 0", "program main: incwrap modulo 0"),
    ],
)
def test_what_would_hang_is_an_error(old: str, new: str, message: str):
    with pytest.raises(NetlistRunError) as error:
        run("softmax", ((old, new),))
    assert message in str(error.value)


def test_wrong_inputs_are_refused():
    netlist = read_file(SAMPLES / "softmax.yaml")
    with pytest.raises(InputError, match=r"there is no input scores \[n, 1, 64, 128\]"):
        run_golden(netlist, "grayskull", {}, {})
    with pytest.raises(InputError, match=r"input scores is float64\[1, 64, 128\] instead of numbers \[n, 1, 64, 128\]"):
        run_golden(netlist, "grayskull", {"scores": np.zeros((1, 64, 128))}, {})
    with pytest.raises(InputError, match="input scores has 5 tensors for 4 entries"):
        run_golden(netlist, "grayskull", {"scores": np.zeros((5, 1, 64, 128))}, {})


@pytest.mark.parametrize(
    ("format", "value", "rounded"),
    [
        ("Float16_b", 1.999, 1.9921875),
        ("Float16_b", -1.999, -1.9921875),
        ("Tf32", 1.9999, 1.9990234375),
        ("Float16", 65536.0, 65536.0),
        ("Float16", 1e6, 131008.0),
        ("Float16", -np.inf, -131008.0),
        ("Float16", 2.0**-15, 0.0),
        ("Lf8", 1.9, 1.75),
        ("Fp8_e4m3", 1000.0, 480.0),
        ("Fp8_e4m3", 2.0**-7, 0.0),
        ("Int8", 2.5, 3.0),
        ("Int8", -200.0, -127.0),
        ("UInt8", -1.0, 0.0),
        ("UInt16", 70000.0, 65535.0),
        ("Int32", 2.9, 2.0),
        ("Int32", -2.5, -3.0),
    ],
)
def test_rounding(format: str, value: float, rounded: float):
    assert round_to(np.array([[value]], np.float32), FORMATS[format])[0, 0] == rounded


def test_rounding_of_blocks():
    row = np.zeros((1, 32), np.float32)
    row[0, :6] = [1.0, 0.015625, 0.0078125, 0.005, -0.0001, 1.999]
    found = round_to(row, FORMATS["Bfp8_b"])[0]
    assert found[:6].tolist() == [1.0, 0.015625, 0.015625, 0.0, 0.0, 1.984375]
    assert not np.signbit(found[4])
    assert round_to(row, FORMATS["Bfp2_b"])[0, :6].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    row[0, 16] = 2.0**20
    assert round_to(row, FORMATS["Bfp8"])[0, 16] == 2.0**16 * (127 / 64)
    assert round_to(row, FORMATS["Bfp8_b"])[0, 16] == 2.0**20
    again = round_to(found[None], FORMATS["Bfp8_b"])[0]
    assert np.array_equal(found, again)
    assert to_host(row, FORMATS["Bfp8_b"])[0, 5] == 1.9921875


def test_comparison_of_tiles():
    a = np.random.default_rng(2).normal(size=(1, 1, 64, 32))
    config = Comparison(type="AllCloseHw", atol=0.01, rtol=0.0, check_pct=0.9, check_pcc=0.99)
    assert compare(a, a + 0.001, config).agrees
    assert compare(a, np.where(np.arange(32) == 3, 9, a), config).agreeing == 0  # 3 % are far off, and nothing correlates
    assert not compare(a, -a, config).agrees
    assert compare(np.full_like(a, 2.0), np.full_like(a, 2.0), config).agrees
    assert not compare(a, a[:, :, :32], config).agrees
    assert not compare(a, a + 1e-9, Comparison(type="Exact")).agrees
    endless = np.full_like(a, np.inf)
    assert compare(endless, np.full_like(a, 3e38), Comparison(type="AllClose")).agrees
    assert not compare(endless, -endless, Comparison(type="AllClose")).agrees


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_samples_stay_near_exact_arithmetic(path: Path):
    netlist = read_file(path)
    for arch in netlist.devices.arches:
        found, expected = (run_golden(netlist, arch, None, {}, exact=exact) for exact in (False, True))
        assert list(found) == list(outputs_of(expand(netlist)))
        for name, array in found.items():
            assert (
                array.size
                and compare(array, expected[name], Comparison(atol=0.05, rtol=0.05, check_pct=0.99, check_pcc=0.99)).agrees
            )


def test_a_run_may_be_ended():
    netlist = read_netlist((SAMPLES / "softmax.yaml").read_text().replace("loop: 2", "loop: 99999999"), "long")
    with pytest.raises(NetlistRunError, match="program main: stopped after 5 turns of loops"):
        run_golden(netlist, "grayskull", None, {}, max_steps=5)


def test_what_an_op_on_vectors_leaves_out_is_no_error():
    netlist = read_netlist((SAMPLES / "small_tiles.yaml").read_text().replace("type: square", "type: sqrt"), "roots")
    x = np.where(np.arange(16) % 8 < 4, 4.0, -4.0)[:, None] * np.ones((2, 1, 16, 64))
    found = run_golden(netlist, "wormhole_b0", {"x": x, "v": np.zeros((2, 1, 64, 64))}, {})
    assert np.array_equal(found["y"], np.where(x > 0, 2, 0))


def test_a_sparse_product():
    netlist = read_file(SAMPLES / "sparse.yaml")
    random = np.random.default_rng(3)
    x = exact_in(random.normal(size=(4, 128, 64)), netlist.queues["x"]).reshape(2, 2, 128, 64)
    tiles = exact_in(random.integers(-8, 8, (1, 32, 96)), netlist.queues["tiles"])
    listed = {  # z: strips, with their ublocks, with (row, depth, tile)
        0: {0: {1: [(0, 1, 2), (1, 0, 0)]}, 1: {0: [(1, 1, 1)], 1: [(0, 0, 1)]}},
        1: {3: {0: [(0, 0, 2), (0, 1, 1)]}},
    }
    words: list[int] = []
    expected = np.zeros((2, 2, 128, 64))
    for z, strips in listed.items():
        for strip, blocks in strips.items():
            is_last = strip == max(strips)
            words += [strip, (1 << 14) * is_last, len(blocks)]
            for block, parts in blocks.items():
                words += [len(parts) << 4 | block, *(tile << 12 | row << 1 | depth for row, depth, tile in parts)]
                for row, depth, tile in parts:
                    line = 2 * strip + depth
                    source = x[:, line // 4, 32 * (line % 4) : 32 * (line % 4) + 32].astype(np.float64)
                    at = 32 * (2 * block + row)
                    expected[:, z, at : at + 32] += tiles[0, :, 32 * tile : 32 * tile + 32].astype(np.float64) @ source
    encoding = np.zeros(2048, np.uint16)
    encoding[: len(words)] = words
    inputs = {"x": x, "tiles": tiles[None], "words": encoding.view(np.uint32).reshape(1, 1, 32, 32)}
    near(run_golden(netlist, "wormhole_b0", inputs, {})["y"], expected, 0.02)
    encoding[2] = 100
    with pytest.raises(NetlistRunError, match="op product: the encoding"):
        run_golden(netlist, "wormhole_b0", inputs, {})


def test_the_host_pushes_what_roots_are_taken_of_without_signs(tmp_path: Path):
    """Unless the file says what it pushes: then there is no root of it, and that is an error."""
    text = (SAMPLES / "softmax.yaml").read_text().replace("type: exp", "type: sqrt").partition("test-config")[0]
    found = run_golden(read_netlist(text, "roots.yaml"), "grayskull", None, {})
    assert np.isfinite(found["shares"]).all()
    told = text + "test-config: {stimulus-config: {overrides: {scores: {type: Constant, constant_value: -1}}}}\n"
    with pytest.raises(NetlistRunError, match="op power: sqrt of a negative"):
        run_golden(read_netlist(told, "told.yaml"), "grayskull", None, {})


def test_which_inputs_are_under_a_root():
    fused = (SAMPLES / "fused.yaml").read_text()
    assert under_roots(read_netlist(fused, "")) == frozenset()
    assert under_roots(read_netlist(fused.replace("type: abs", "type: datacopy"), "")) == {"x"}
    summed = fused.replace("root: {type: abs, inputs: [input0]", "root: {type: add, inputs: [input0, input0]")
    assert under_roots(read_netlist(summed, "")) == {"x"}
    squared = fused.replace("root: {type: abs, inputs: [input0]", "root: {type: multiply, inputs: [input0, input0]")
    assert under_roots(read_netlist(squared, "")) == frozenset()


def test_an_encoding_has_room_and_names_what_there_is():
    """However many strips the op may have, and however few tiles the activations have."""
    text = (SAMPLES / "sparse.yaml").read_text().replace("m_k: 2", "m_k: 400")
    found = run_golden(read_netlist(text, "sparse.yaml"), "grayskull", None, {})
    assert np.any(found["y"])
