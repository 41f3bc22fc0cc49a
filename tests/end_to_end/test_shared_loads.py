"""Dots whose operands are read once and sent from tile to tile: the same bits as of loops, no race in strict mode."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from test_gemm import BELOW_FUSED, Array, main, random, typed

import hlo2tx8
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.device.chip import DEFAULT_PATH
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import LevelRun, each_run

ENDS = [run for run in BELOW_FUSED if run.name in ("loops", "native core", "strict mode")]
"""Where lowering begins and what it ends in; levels between have two seconds each."""
ALL_LEVELS = ("several steps", "batches", "a column", "nothing is whole")


def small_chip(folder: Path, spm_bytes: int) -> Path:
    """A chip whose scratchpads are so small that little work has several steps, slots that are used again, and tails; its DDR is
    so slow that operands are shared."""
    file = folder / "chip.yaml"
    text = DEFAULT_PATH.read_text().replace("spm_limit: 3080192", f"spm_limit: {65536 + spm_bytes}")
    file.write_text(text.replace("ddr_bytes_per_second: 200000000000", "ddr_bytes_per_second: 25000000000"))
    return file


def scheduled_and_run(
    text: str, options: Options, arrays: list[Array], runs: list[LevelRun] = ENDS
) -> tuple[str, list[list[Array]]]:
    """The text at SCHEDULED, and the outputs at each level, all of which have the same bits."""
    seen: list[str] = []
    look = lambda level, module: seen.append(str(module)) if level is Level.SCHEDULED else None
    found = list(each_run(partial(load_source, text), options, arrays, runs, look))
    for run, outputs in zip(runs, found, strict=True):
        for value, first in zip(outputs, found[0], strict=True):
            assert value.tobytes() == first.tobytes(), f"{run.name} differs from {runs[0].name}"
    (scheduled,) = seen
    return scheduled, found


def dot(rows: int, depth: int, columns: int, element: str = "bf16", batch: int = 0) -> str:
    outer = (batch,) if batch else ()
    left, right, result = (typed((*outer, *dims), element) for dims in ((rows, depth), (depth, columns), (rows, columns)))
    batches = "batching_dims = [0] x [0], contracting_dims = [2] x [1]" if batch else "contracting_dims = [1] x [0]"
    return main([left, right], result, f"%r = stablehlo.dot_general %p0, %p1, {batches} : ({left}, {right}) -> {result}")


def operands(rows: int, depth: int, columns: int, element: str = "bf16", batch: int = 0) -> list[Array]:
    outer = (batch,) if batch else ()
    return [random((*outer, *dims), element, seed) for seed, dims in enumerate(((rows, depth), (depth, columns)))]


SHARED = {
    "one step, tiles of a whole block": ((256, 256, 256), "bf16", 0, 60000),
    "several steps": ((512, 128, 512), "bf16", 0, 60000),
    "rows that stay": ((512, 192, 1024), "bf16", 0, 120000),
    "columns that stay, in four groups": ((512, 192, 1024), "bf16", 0, 60000),
    "rows of no whole box": ((500, 128, 512), "bf16", 0, 60000),
    "depth of no whole panel": ((256, 456, 256), "bf16", 0, 60000),
    "odd depth": ((256, 459, 256), "bf16", 0, 60000),
    "f16": ((256, 256, 256), "f16", 0, 60000),
    "tf32": ((256, 128, 256), "f32", 0, 60000),
    "batches": ((256, 128, 256), "bf16", 3, 60000),
    "rows and blocks of columns of no whole box": ((500, 128, 448), "bf16", 0, 60000),
}
TAILS = {
    "a column": ((256, 1024, 257), "bf16", 0, 300000),
    "columns of no whole block, blocks of no whole box": ((256, 1024, 511), "bf16", 0, 300000),
    "nothing is whole": ((257, 1029, 319), "bf16", 0, 300000),
    "the tail lies as the engine reads it": ((256, 1024, 288), "f16", 0, 300000),
    "several steps with a tail": ((512, 64, 449), "f32", 0, 150000),
    "batches with a tail": ((300, 129, 449), "bf16", 2, 300000),
    "a tail instead of columns": ((128, 192, 447), "bf16", 0, 120000),
    "a tail instead of columns in the last step": ((128, 128, 447), "f32", 0, 150000),
}
"""Columns that are no whole number of blocks."""
SKIPPED = re.compile(r"scf.if %\d+ \{\s+tx8.NE_gemm[^\n]*\n\s*\}\n")
"""Products of columns, not of the tail, that some tiles leave out."""


@pytest.mark.parametrize("name", [*SHARED, *TAILS])
def test_same_bits(name: str, tmp_path: Path) -> None:
    shape, element, batch, spm_bytes = {**SHARED, **TAILS}[name]
    text, options = dot(*shape, element, batch), Options(chip=small_chip(tmp_path, spm_bytes))
    arrays, runs = operands(*shape, element, batch), BELOW_FUSED if name in ALL_LEVELS else ENDS
    scheduled, found = scheduled_and_run(text, options, arrays, runs)
    assert "DTE_multicast" in scheduled
    assert ("is_tail" in scheduled) == (name in TAILS)
    assert bool(SKIPPED.search(scheduled)) or not name.startswith("a tail instead of columns")
    exact = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
    assert np.abs(found[0][0].astype(np.float64) - exact).max() <= 0.01 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("shape", "element", "precision", "spm_bytes"),
    [((128, 158, 404), "bf16", "DEFAULT", 150000), ((64, 130, 343), "f32", "HIGHEST", 300000)],
)
def test_what_columns_are_made_of_is_skipped_too(
    shape: tuple[int, int, int], element: str, precision: str, spm_bytes: int, tmp_path: Path
) -> None:
    """Columns that each tile moves before it multiplies them, and sums that are added up apart, in the last of two steps."""
    rows, depth, columns = shape
    left, right, result = (typed(dims, element) for dims in ((rows, depth), (columns, depth), (rows, columns)))
    fields = f"contracting_dims = [1] x [1], precision = [{precision}, {precision}]"
    text = main([left, right], result, f"%r = stablehlo.dot_general %p0, %p1, {fields} : ({left}, {right}) -> {result}")
    arrays = [random((rows, depth), element, 0), random((columns, depth), element, 1)]
    scheduled, _ = scheduled_and_run(text, Options(chip=small_chip(tmp_path, spm_bytes)), arrays, ENDS[2:])
    assert SKIPPED.search(scheduled)


IN_PLACE = {
    "tf32": ((512, 128, 1024), "f32", "f32", 180000),
    "a tail": ((256, 160, 511), "bf16", "f32", 100000),
    "rows of no whole box": ((504, 128, 1024), "bf16", "f32", 120000),
    "int8": ((512, 128, 1024), "i8", "i32", 120000),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_sums_are_stored_from_where_they_are_added_up(name: str, tmp_path: Path) -> None:
    """There is no room for a result beside its sums; the next step's wait until it is stored."""
    shape, element, result, spm_bytes = IN_PLACE[name]
    rows, _, columns = shape
    text = dot(*shape, element).replace(typed((rows, columns), element), typed((rows, columns), result))
    scheduled, _ = scheduled_and_run(text, Options(chip=small_chip(tmp_path, spm_bytes)), operands(*shape, element))
    sums = set(re.findall(r"NE_gemm .*psum\((%\d+)", scheduled))
    assert "DTE_multicast" in scheduled and sums & set(re.findall(r"NE_gemm dst\((%\d+)", scheduled))


EPILOGUES = {
    "bias and relu": ("tensor<512xbf16>", "dims = [1]", "stablehlo.maximum %s, %z : MATRIX"),
    "a value for each row": ("tensor<512xbf16>", "dims = [0]", "stablehlo.multiply %s, %s : MATRIX"),
    "residual": ("tensor<512x512xbf16>", "dims = [0, 1]", "stablehlo.tanh %s : MATRIX"),
    "a comparison": ("tensor<512xbf16>", "dims = [1]", "stablehlo.select %positive, %s, %half : tensor<512x512xi1>, MATRIX"),
    "one value divided": ("tensor<512x512xbf16>", "dims = [0, 1]", "stablehlo.divide %one, %s : MATRIX"),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues_go_over_sets_of_columns(name: str, tmp_path: Path) -> None:
    type_, dims, then = EPILOGUES[name]
    left, right, matrix = "tensor<512x256xbf16>", "tensor<256x512xbf16>", "tensor<512x512xbf16>"
    text = main(
        [left, right, type_],
        matrix,
        f"%d = stablehlo.dot_general %p0, %p1, contracting_dims = [1] x [0] : ({left}, {right}) -> {matrix}",
        f"%b = stablehlo.broadcast_in_dim %p2, {dims} : ({type_}) -> {matrix}",
        f"%s = stablehlo.add %d, %b : {matrix}",
        "%zero = stablehlo.constant dense<0.0> : tensor<bf16>",
        f"%z = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<bf16>) -> {matrix}",
        "%first = stablehlo.constant dense<1.0> : tensor<bf16>",
        f"%one = stablehlo.broadcast_in_dim %first, dims = [] : (tensor<bf16>) -> {matrix}",
        f"%positive = stablehlo.compare GT, %s, %z : ({matrix}, {matrix}) -> tensor<512x512xi1>",
        f"%half = stablehlo.multiply %s, %s : {matrix}",
        f"%r = {then.replace('MATRIX', matrix)}",
    )
    shape = (512, 512) if type_ == matrix else (512,)
    arrays = [*operands(512, 256, 512), random(shape, "bf16", 2)]
    scheduled, _ = scheduled_and_run(text, Options(chip=small_chip(tmp_path, 100000)), arrays)
    assert "DTE_multicast" in scheduled


@pytest.mark.parametrize(("elements", "dims"), [("259", "dims = [1]"), ("256", "dims = [0]"), ("256x259", "dims = [0, 1]")])
def test_a_tail_has_an_epilogue_of_its_own(elements: str, dims: str, tmp_path: Path) -> None:
    """What it reads is brought before the loop of the other columns, of which it becomes a part."""
    left, right, matrix = "tensor<256x1024xbf16>", "tensor<1024x259xbf16>", "tensor<256x259xbf16>"
    type_ = f"tensor<{elements}xbf16>"
    text = main(
        [left, right, type_],
        matrix,
        f"%d = stablehlo.dot_general %p0, %p1, contracting_dims = [1] x [0] : ({left}, {right}) -> {matrix}",
        f"%b = stablehlo.broadcast_in_dim %p2, {dims} : ({type_}) -> {matrix}",
        f"%s = stablehlo.add %d, %b : {matrix}",
        f"%r = stablehlo.abs %s : {matrix}",
    )
    arrays = [*operands(256, 1024, 259), random(tuple(map(int, elements.split("x"))), "bf16", 2)]
    scheduled, _ = scheduled_and_run(text, Options(chip=small_chip(tmp_path, 300000)), arrays)
    assert "is_tail" in scheduled


SAME_ROWS = {
    "two products": (2, (512, 256, 256), "bf16", ""),
    "three of them, with more": (3, (256, 256, 512), "bf16", "%rNUMBER = stablehlo.tanh %dNUMBER : MATRIX"),
    "rows of no whole box": (2, (500, 128, 512), "bf16", ""),
    "f16": (3, (256, 512, 256), "f16", "%rNUMBER = stablehlo.negate %dNUMBER : MATRIX"),
    "tf32": (2, (256, 256, 256), "f32", ""),
}


@pytest.mark.parametrize("name", SAME_ROWS)
def test_products_of_the_same_rows_read_them_once(name: str, tmp_path: Path) -> None:
    count, (rows, depth, columns), element, then = SAME_ROWS[name]
    left, right, matrix = (typed(dims, element) for dims in ((rows, depth), (depth, columns), (rows, columns)))
    lines: list[str] = []
    for number in range(count):
        result = "d" if then else "r"
        dot_of = f"stablehlo.dot_general %p0, %p{number + 1}, contracting_dims = [1] x [0] : ({left}, {right}) -> {matrix}"
        lines += [f"%{result}{number} = {dot_of}", then.replace("NUMBER", str(number)).replace("MATRIX", matrix)]
    results = ", ".join(f"%r{number}" for number in range(count))
    text = main([left, *[right] * count], matrix, *lines)
    text = text.replace(f"-> {matrix} {{", f"-> ({', '.join([matrix] * count)}) {{").replace("%r :", f"{results} :")
    text = text.replace(f": {matrix}\n}}", f": {', '.join([matrix] * count)}\n}}")
    arrays = [random((rows, depth), element, 0), *(random((depth, columns), element, 1 + i) for i in range(count))]
    scheduled, found = scheduled_and_run(text, Options(chip=small_chip(tmp_path, 300000)), arrays)
    assert "DTE_multicast" in scheduled and scheduled.count("launch.kernel") == 1
    for number in range(count):
        exact = arrays[0].astype(np.float64) @ arrays[number + 1].astype(np.float64)
        if not then:
            assert np.abs(found[0][number].astype(np.float64) - exact).max() <= 0.01 * np.abs(exact).max()


GATED = (
    "%n = stablehlo.negate %d : MATRIX",
    "%e = stablehlo.exponential %n : MATRIX",
    "%first = stablehlo.constant dense<1.0> : tensor<bf16>",
    "%one = stablehlo.broadcast_in_dim %first, dims = [] : (tensor<bf16>) -> MATRIX",
    "%a = stablehlo.add %e, %one : MATRIX",
    "%g = stablehlo.divide %one, %a : MATRIX",
    "%s = stablehlo.multiply %d, %g : MATRIX",
    "%r = stablehlo.multiply %s, %p2 : MATRIX",
)
COSTS = {
    "tanh": (("%r = stablehlo.tanh %d : MATRIX",), 1.05),
    "residual": (("%r = stablehlo.add %d, %p2 : MATRIX",), 1.05),
    "silu by another matrix": (GATED, 1.07),
}


@pytest.mark.parametrize("name", COSTS)
def test_an_epilogue_costs_little(name: str) -> None:
    """CT and DDR work beside the matrix engine, also where a further matrix is read and buffers would fill the scratchpad."""
    lines, most = COSTS[name]
    matrix = typed((4096, 4096), "bf16")
    text = dot(4096, 4096, 4096)
    plain = hlo2tx8.compile(text, Options()).cost_analysis()["cycles"]
    text = text.replace("%r = stablehlo.dot", "%d = stablehlo.dot").replace(f"%p1: {matrix}", f"%p1: {matrix}, %p2: {matrix}")
    text = text.replace("return", "\n".join(lines).replace("MATRIX", matrix) + "\nreturn")
    found = hlo2tx8.compile(text, Options()).cost_analysis()["cycles"]
    assert isinstance(plain, float) and isinstance(found, float)
    assert found <= most * plain


@pytest.mark.parametrize(("size", "most"), [(1024, 1.25), (2048, 1.15), (4096, 1.06)])
def test_large_products_come_near_the_bound(size: int, most: float) -> None:
    """The bound: DDR at 1024, the matrix engine beyond."""
    cycles = hlo2tx8.compile(dot(size, size, size), Options()).cost_analysis()["cycles"]
    assert isinstance(cycles, float)
    assert cycles <= most * (2000 + max(2 * size**3 / 131072, 6 * size**2 / 204.8))


def test_a_large_product_of_f32_reads_one_operand_once() -> None:
    """Sums of half of the result stay where they are added up, and are stored from there."""
    cycles = hlo2tx8.compile(dot(4096, 4096, 4096, "f32"), Options()).cost_analysis()["cycles"]
    assert isinstance(cycles, float)
    assert cycles <= 1.35 * (2000 + 2 * 4096**3 / 131072)


def test_a_last_block_that_lacks_a_column_costs_little() -> None:
    """Whole blocks and the last one apart do not fit beside each other; joined they do."""
    less, whole = (hlo2tx8.compile(dot(size, size, size, "f32"), Options()).cost_analysis()["cycles"] for size in (4095, 4096))
    assert isinstance(less, float) and isinstance(whole, float)
    assert less <= 1.35 * whole


def test_blocks_that_nothing_is_shared_by_after_all_are_rejected() -> None:
    matrix = typed((1023, 1023), "bf16")
    text = dot(1023, 1023, 1023).replace("%r = stablehlo.dot", "%d = stablehlo.dot")
    text = text.replace("return", f"%r = stablehlo.tanh %d : {matrix}\nreturn")
    for precision in ("default", "highest"):
        single = text.replace("bf16", "f32") if precision == "highest" else text
        assert hlo2tx8.compile(single, Options(matmul_precision=precision)).cost_analysis()["cycles"]


def test_int8_operands_arrive_in_the_order_of_the_engine() -> None:
    """Blocks of 128 columns of the operand, of 64 of the result: nothing is turned between."""
    size, integers, sums = 4096, typed((4096, 4096), "i8"), typed((4096, 4096), "i32")
    line = "%r = stablehlo.dot_general %p0, %p1, contracting_dims = [1] x [0]"
    text = main([integers, integers], sums, f"{line} : ({integers}, {integers}) -> {sums}")
    cycles = hlo2tx8.compile(text, Options()).cost_analysis()["cycles"]
    assert isinstance(cycles, float)
    assert cycles <= 1.25 * (2000 + 2 * size**3 / 262144)


def test_operands_that_fit_are_read_once() -> None:
    """The rows, or the columns, of a step stay for the steps that follow: DDR has 59 MB to move, not 67 as with four blocks."""
    cycles = hlo2tx8.compile(dot(4096, 1024, 4096), Options()).cost_analysis()["cycles"]
    assert isinstance(cycles, float)
    assert cycles <= 1.2 * (2000 + 2 * 4096 * 1024 * 4096 / 131072)


def test_few_rows_are_not_shared() -> None:
    """A row for each tile: nothing is read twice."""
    assert "DTE_multicast" not in hlo2tx8.compile(dot(1, 512, 512), Options()).as_text(Level.SCHEDULED)


CONVOLUTIONS = {
    "zeros around, 32 filters of a tile": ((8, 4, 4, 64), 128, 1),
    "windows that move by two": ((4, 6, 6, 64), 256, 2),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_share_images_and_weights(name: str, tmp_path: Path) -> None:
    """What is sent is as it lies in memory; TDMA pads it on each tile. Levels above VECTOR have no windows that a step shares."""
    runs = [run for run in BELOW_FUSED if run.name in ("vector", "native core", "strict mode")]
    image, filters, stride = CONVOLUTIONS[name]
    batch, height, width, channels = image
    size = -(-height // stride), -(-width // stride)
    types = typed(image, "bf16"), typed((3, 3, channels, filters), "bf16")
    result = typed((batch, *size, filters), "bf16")
    pads = "[1, 1], [1, 1]" if stride == 1 else "[0, 1], [0, 1]"
    window = f"window = {{stride = [{stride}, {stride}], pad = [{pads}]}}"
    counts = "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    numbers = "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
    line = f"%r = stablehlo.convolution(%p0, %p1) {numbers}, {window} {counts} : ({types[0]}, {types[1]}) -> {result}"
    text, options = main([*types], result, line), Options(chip=small_chip(tmp_path, 240000))
    arrays = [random(image, "bf16", 0), random((3, 3, channels, filters), "bf16", 1)]
    arrays[0][0, 0, 0, 0], arrays[0][1, 2, 3, 1] = np.nan, np.inf
    scheduled, _ = scheduled_and_run(text, options, arrays, runs)
    assert "DTE_multicast" in scheduled and "NE_conv" not in scheduled
