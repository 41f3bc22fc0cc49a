"""Coarse ops: kept, decomposed, or computed by kernels that somebody registered."""

import re
from collections.abc import Callable, Generator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from hlo2tx8 import Level, Options
from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Program
from hlo2tx8.errors import CompileError, InputError
from hlo2tx8.frontend import load
from hlo2tx8.kernel_registry import REGISTRY, CoarseOp, CoarseTensor, KernelMaker, register_kernel
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.levels import each_run
from hlo2tx8.tools.profile import text_of
from hlo2tx8.tools.saved import parsed

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
LOOP = """
func.func @main(%x: tensor<16x256xf32>) -> tensor<16x256xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<16x256xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %1 = stablehlo.composite "mine.twice" %y {decomposition = @twice} : (tensor<16x256xf32>) -> tensor<16x256xf32>
    %2 = stablehlo.subtract %1, %x : tensor<16x256xf32>
    stablehlo.return %next, %2 : tensor<i32>, tensor<16x256xf32>
  }
  return %0#1 : tensor<16x256xf32>
}
func.func private @twice(%x: tensor<16x256xf32>) -> tensor<16x256xf32> {
  %0 = stablehlo.add %x, %x : tensor<16x256xf32>
  return %0 : tensor<16x256xf32>
}
"""
LOOPS_KERNEL = """
builtin.module @twice {
  func.func @twice(%p0: tensor<16x256xf32>, %r0: tensor<16x256xf32>) -> tensor<16x256xf32> attributes {xla.entry} {
    %tile = xla.tile_id [0, 15]
    %0 = xla.loop (%tile)[%step, %lane] -> (%row, %column) in #xla.indexing_map<"(tile)[step, lane] -> (tile, step * 128 + lane), \
domain: tile in [0, 15], step in [0, 1], lane in [0, 127]"> lanes 1 iter_args(%iter = %r0) -> (tensor<16x256xf32>) {
      %1 = tensor.extract %p0[%row, %column] : tensor<16x256xf32>
      %2 = arith.addf %1, %1 : f32
      %3 = tensor.insert %2 into %iter[%row, %column] : tensor<16x256xf32>
      xla.yield %3 : tensor<16x256xf32>
    }
    func.return %0 : tensor<16x256xf32>
  }
}
"""
X = np.arange(16 * 256, dtype=np.float32).reshape(16, 256)


@pytest.fixture(autouse=True)
def registry() -> Generator[None]:
    """Nothing is registered behind a test."""
    before = list(REGISTRY.kernels)
    yield
    REGISTRY.kernels[:] = before


def twice_by_hand(op: CoarseOp, chip: Chip) -> Program:
    """A row for each tile."""
    tx8, (columns,), at = Assembler(), op.operands[0].shape[1:], chip.spm_allocation_start
    x, y = tx8.input("float32", op.operands[0].shape), tx8.output("float32", op.results[0].shape)
    place = tx8.affine(0, (tx8.tile, columns * 4))
    with tx8.loop(1):
        tx8(Rdma, Format.FP32, dst=at, slot=x, offset=place, count=columns)
        tx8(CtAddVV, Format.FP32, dst=at, a=at, b=at, n=columns)
        tx8(Wdma, Format.FP32, slot=y, offset=place, src=at, count=columns)
    return tx8.program(spm_bytes=at + columns * 4)


def no_kernel(op: CoarseOp, chip: Chip) -> None:
    """For nothing."""


def of_loops(op: CoarseOp, chip: Chip) -> str:
    """The same at level LOOPS."""
    return LOOPS_KERNEL


@pytest.mark.parametrize("make", [twice_by_hand, of_loops])
def test_a_registered_kernel_in_a_loop_gives_the_answer_at_every_level(make: KernelMaker, tmp_path: Path):
    register_kernel("mine.twice", operands=("float32[16,*]",))(make)
    for [y] in each_run(lambda: load(LOOP), Options(), [X]):
        np.testing.assert_array_equal(y, X)
    executable = compile_source(LOOP, Options())
    parsed(executable.as_text(Level.SCHEDULED), "scheduled").verify()
    assert "mine_twice" in {fusion.name for fusion in executable.profile().fusions}
    executable.save(tmp_path / "a.tx8x")
    REGISTRY.remove("mine.twice")
    loaded = Executable.load(tmp_path / "a.tx8x")
    np.testing.assert_array_equal(loaded.execute(X)[0], X)
    assert f"mine_twice by {make.__name__} 1" in repr(loaded)
    assert f"registered kernel: mine_twice by {make.__name__} 1\n" in text_of(loaded.profile(), 5, is_terminal=False)


BEHIND = """
func.func @main(%x: tensor<16x256xf32>, %b: tensor<256xf32>) -> tensor<16x256xbf16> {
  %1 = stablehlo.composite "mine.twice" %x {decomposition = @twice} : (tensor<16x256xf32>) -> tensor<16x256xf32>
  %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<256xf32>) -> tensor<16x256xf32>
  %3 = stablehlo.add %1, %2 : tensor<16x256xf32>
  %4 = stablehlo.multiply %3, %x : tensor<16x256xf32>
  %5 = stablehlo.subtract %4, %1 : tensor<16x256xf32>
  %6 = stablehlo.convert %5 : (tensor<16x256xf32>) -> tensor<16x256xbf16>
  return %6 : tensor<16x256xbf16>
}
""" + LOOP.partition("return %0#1 : tensor<16x256xf32>\n}")[2]


@pytest.mark.parametrize(
    ("make", "kernels", "why"),
    [
        (of_loops, 1, "has stablehlo.convert as epilogue"),
        (twice_by_hand, 2, "has no epilogue: it is a program of the Assembler"),
    ],
)
def test_arithmetic_behind_a_kernel_of_loops_joins_it(make: KernelMaker, kernels: int, why: str):
    register_kernel("mine.twice")(make)
    x, b = X / 1000, np.linspace(-1, 1, 256, dtype=np.float32)
    wanted = ((2 * x + b) * x - 2 * x).astype(ml_dtypes.bfloat16)
    for [y] in each_run(lambda: load(BEHIND), Options(), [x, b]):
        np.testing.assert_array_equal(y, wanted)
    executable = compile_source(BEHIND, Options(explain=True))
    assert any(why in line for line in executable.explanation)
    assert len(executable.profile().fusions) == 1 + kernels  # and the launch


READS_BACK = LOOPS_KERNEL.replace("tensor.extract %p0[%row", "tensor.extract %iter[%row")


def test_what_cannot_join_a_kernel_of_loops_is_behind_it(tmp_path: Path):
    register_kernel("mine.twice")(of_loops)
    chip = tmp_path / "small.yaml"
    chip.write_text((files("hlo2tx8.device") / "chip.yaml").read_text().replace("spm_limit: 3080192", "spm_limit: 68096"))
    executable = compile_source(BEHIND, Options(explain=True, chip=chip))
    assert any("its fusions are kernels of their own: their buffers do not fit" in line for line in executable.explanation)
    assert len(executable.profile().fusions) == 3
    register_kernel("mine.twice", version="2")(lambda op, chip: READS_BACK)
    executable = compile_source(BEHIND, Options(explain=True))
    assert any("its LOOPS read what they store" in line for line in executable.explanation)


def test_a_kernel_that_is_not_for_the_types_or_says_so_is_not_taken():
    register_kernel("mine.twice", operands=("bfloat16",))(twice_by_hand)
    register_kernel("mine.twice")(no_kernel)
    executable = compile_source(LOOP, Options(explain=True))
    assert "mine.twice is kept as one fusion" in executable.explanation
    np.testing.assert_array_equal(executable.execute(X)[0], X)


def test_a_kernel_of_other_types_is_refused():
    def other(op: CoarseOp, chip: Chip) -> Program:
        return twice_by_hand(CoarseOp("", {}, (CoarseTensor("float32", (4, 4)),), op.results), chip)

    def nothing(op: CoarseOp, chip: Chip) -> str:
        return "builtin.module {}"

    register_kernel("mine.twice")(other)
    with pytest.raises(CompileError, match=r"has inputs float32\[4,4\], not float32\[16,256\]"):
        compile_source(LOOP, Options())
    register_kernel("mine.twice")(nothing)
    with pytest.raises(CompileError, match="has the entry none"):
        compile_source(LOOP, Options())


def test_a_custom_call_with_a_reference_is_computed_without_a_kernel_too():
    def scaled(x: Any, by: float) -> Any:
        return x * by

    register_kernel("mine.scaled", reference=scaled)(no_kernel)
    text = """func.func @main(%x: tensor<16x256xf32>) -> tensor<16x256xf32> {
      %0 = stablehlo.custom_call @mine.scaled(%x) {byteir_attrs = {by = 3.0 : f64}} : (tensor<16x256xf32>) -> tensor<16x256xf32>
      return %0 : tensor<16x256xf32>
    }"""
    np.testing.assert_array_equal(compile_source(text, Options()).execute(X)[0], 3 * X)
    with pytest.raises(CompileError, match=r"mine\.scaled: "):
        compile_source(text.replace("by =", "of ="), Options())


def two_hot(places: Any) -> Any:
    """Two at the places, and minus one."""
    return jax.nn.one_hot(places, 9) * 3 - 1


ROWS, ROW = "4x64xf32", "64xf32"
CALLS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], Callable[..., Any]], ...] = (
    ("softmax", "axis = 1 : i64", (ROWS,), (ROWS,), lambda x: jax.nn.softmax(x)),
    ("log_softmax", "axis = 1 : i64", (ROWS,), (ROWS,), lambda x: jax.nn.log_softmax(x)),
    ("gelu", 'approximate = "tanh"', (ROWS,), (ROWS,), lambda x: jax.nn.gelu(x)),
    ("layer_norm", "axis = [1], epsilon = 1.0e-5 : f64", (ROWS, ROW, ROW), (ROWS,), lambda x, w, b: jax.nn.standardize(x) * w + b),
    ("l2_norm", "axis = [1], epsilon = 1.0e-12 : f64", (ROWS,), (ROWS,), lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True)),
    ("erf", "", (ROWS,), (ROWS,), jax.lax.erf),
    ("arg_max", "axis = 1 : i64, keep_dims = false, select_last_index = false", (ROWS,), ("4xi64",), lambda x: x.argmax(1)),
    ("top_k", "axis = [1], k = 5 : i64, sorted = true", (ROWS,), ("4x5xf32", "4x5xi64"), lambda x: jax.lax.top_k(x, 5)),
    ("one_hot", "axis = 1 : i64, depth = 9 : i64, on_value = 2.0 : f32, off_value = -1.0 : f32", ("5xi32",), ("5x9xf32",), two_hot),
    ("addn", "", (ROWS, ROWS, ROWS), (ROWS,), lambda x, y, z: x + y + z),
)


@pytest.mark.parametrize(("name", "attributes", "operands", "results", "reference"), CALLS)
def test_custom_calls_of_byteir_give_what_jax_does_kept_and_decomposed(
    name: str, attributes: str, operands: Sequence[str], results: Sequence[str], reference: Callable[..., Any]
):
    arguments = ", ".join(f"%{n}: tensor<{type_}>" for n, type_ in enumerate(operands))
    takes, gives = (", ".join(f"tensor<{type_}>" for type_ in types) for types in (operands, results))
    text = f"""func.func @main({arguments}) -> ({gives}) {{
      %r:{len(results)} = stablehlo.custom_call @byteir.{name}({", ".join(f"%{n}" for n in range(len(operands)))})
        {{byteir_attrs = {{{attributes}}}}} : ({takes}) -> ({gives})
      return {", ".join(f"%r#{n}" for n in range(len(results)))} : {gives}
    }}"""
    random = np.random.default_rng(0)
    sizes = [tuple(int(size) for size in type_.split("x")[:-1]) for type_ in operands]
    is_float = operands[0].endswith("f32")
    arrays = [random.standard_normal(s, np.float32) if is_float else random.integers(0, 9, s, np.int32) for s in sizes]
    kept = compile_source(text, Options(keep=name, explain=True))
    assert any(line.startswith(f"{name} is ") for line in kept.explanation)
    decomposed, wanted = compile_source(text, Options()).execute(*arrays), jax.tree.leaves(reference(*arrays))
    for y, other, expected in zip(kept.execute(*arrays), decomposed, wanted, strict=True):
        np.testing.assert_array_equal(y, other)
        np.testing.assert_allclose(y, expected, atol=2e-5)


def test_a_package_registers_its_kernels_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told = tmp_path / "their_kernels-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Name: their-kernels\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[hlo2tx8.kernels]\ntheirs = their_kernels:register\n")
    module = tmp_path / "their_kernels.py"
    module.write_text(
        "from hlo2tx8 import register_kernel\ndef register(): register_kernel('mine.twice')(lambda op, chip: 1 / 0)\n"
    )
    monkeypatch.setattr(REGISTRY, "has_entry_points", False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CompileError, match=r"E1016: kernel <lambda> 1 for mine\.twice raised ZeroDivisionError: "):
        compile_source(LOOP, Options())
    assert [kernel.name for kernel in REGISTRY.known()] == ["mine.twice"]
    (told / "entry_points.txt").write_text("[hlo2tx8.kernels]\ntheirs = their_kernels:renamed\n")
    monkeypatch.setattr(REGISTRY, "has_entry_points", False)
    for _ in range(2):
        with pytest.raises(InputError, match=r"entry point their_kernels:renamed cannot be had: AttributeError"):
            compile_source(LOOP, Options())


def test_patterns_of_types():
    tensor = CoarseTensor("float32", (8, 1024))
    fitting = ("*", "float32", "float32[*,1024]", "*[8,*]")
    assert [tensor.fits(p) for p in (*fitting, "bfloat16", "float32[8]", "float32[4,*]")] == [True] * 4 + [False] * 3


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    run: Callable[[str, dict[str, object]], None] = exec
    run(code, {})
    assert "softmax is computed by the registered kernel softmax_by_hand 1" in capsys.readouterr().out
