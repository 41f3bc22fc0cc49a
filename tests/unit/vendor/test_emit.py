"""What is written for the vendor's flow: modules that read back with the same results, figures of the program, chip folders."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.dialects.tx8be import Tx8beOp
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.signature import signature_of
from hlo2tx8.options import Options
from hlo2tx8.tools.arguments import random_arguments, seeded
from hlo2tx8.tools.main import main
from hlo2tx8.vendor.grouped import grouped_module

SAMPLES = Path(__file__).parents[3] / "hlo_samples"
IMAGE = SAMPLES / "vendor" / "image_bf16.mlir"
NORM = """HloModule norm
ENTRY main {
  x = f32[4,8] parameter(0)
  c = f32[8] constant({1,2,3,4,5,6,7,8})
  b = f32[4,8] broadcast(c), dimensions={1}
  s = f32[4,8] multiply(x, b)
  w = f32[8,3] parameter(1)
  p = f32[4,3] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[4,3] tanh(p)
}
"""


def names(module: object) -> list[str]:
    return [op.ROW.name for op in module.walk() if isinstance(op, Tx8beOp)]


def same_results(source: Path | str, module: object) -> None:
    """Does what is written give the source's results?"""
    plain = load(source)
    arrays = random_arguments(plain, signature_of(plain), seeded(0, different_seeds=False))
    for before, after in zip(evaluate(plain, *arrays), evaluate(load(str(module)), *arrays), strict=True):
        np.testing.assert_array_equal(before, after)


TWO_DOTS = SAMPLES / "regressions" / "two_dots_into_one_sum.hlo"


@pytest.mark.parametrize(
    "source", [IMAGE, SAMPLES / "dot" / "batched_f32.hlo", SAMPLES / "control" / "collatz_s32.mlir", NORM, TWO_DOTS]
)
def test_what_is_written_reads_back_the_same(source: Path | str):
    module, _ = grouped_module(partial(load, source), Options())
    module.verify()
    again, _ = grouped_module(partial(load, str(module)), Options())
    assert str(again) == str(module)
    same_results(source, module)


LAYERS = """HloModule layers
less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT l = pred[] compare(p, q), direction=LT
}
ENTRY main {
  x = f32[16,32] parameter(0)
  v = f32[32,32] parameter(1)
  w = f32[32,32] parameter(2)
  u = f32[32,32] parameter(3)
  a = f32[16,32] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[16,32] sort(a), dimensions={1}, to_apply=less
  b = f32[16,32] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[16,32] sort(b), dimensions={1}, to_apply=less
  c = f32[16,32] dot(t, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[16,32] sort(c), dimensions={1}, to_apply=less
}
"""
COLLATZ = SAMPLES / "control" / "collatz_s32.mlir"


def test_groups_alike_are_a_subgraph_that_is_called():
    module, _ = grouped_module(partial(load, LAYERS), Options())
    module.verify()
    calls = [op for op in module.walk() if isinstance(op, Tx8beOp) and op.ROW.name == "Call"]
    assert names(module).count("Subgraph") == names(module).count("Group") == 2
    assert len({call["group_id"] for call in calls}) == len(calls) == 6
    same_results(LAYERS, module)
    assert str(grouped_module(partial(load, str(module)), Options())[0]) == str(module)


def test_groups_stand_in_the_bodies_of_loops_and_branches():
    module, _ = grouped_module(partial(load, COLLATZ), Options())
    groups = [op for op in module.walk() if isinstance(op, Tx8beOp) and op.ROW.name == "Group"]
    parents = [parent.name for op in groups if (parent := op.parent_op()) is not None]
    assert {"func.func", "tx8be.While", "tx8be.Case"} == set(parents)
    assert len({op["group_id"] for op in groups}) == len(groups)
    assert all(op["spm_alloc_size"] for op in groups)
    same_results(COLLATZ, module)


BITCASTS = """HloModule bitcasts
ENTRY main {
  x = f32[4,8]{0,1} parameter(0)
  y = f16[0,4] parameter(1)
  n = f32[4,8]{0,1} negate(x)
  a = f32[2,16]{0,1} bitcast(n)
  b = s8[8,16]{1,0} bitcast(n)
  c = f32[8,4]{1,0} bitcast(n)
  d = f16[4,0] bitcast(y)
  ROOT r = (f32[2,16]{0,1}, s8[8,16]{1,0}, f32[8,4]{1,0}, f16[4,0]) tuple(a, b, c, d)
}
"""


def test_bitcasts_are_moves_of_elements():
    module, _ = grouped_module(partial(load, BITCASTS), Options())
    assert {"Transpose", "Reshape", "BitcastConvert"} <= set(names(module))
    same_results(BITCASTS, module)


def test_the_command_prints_what_reads_back(capsys: pytest.CaptureFixture[str]):
    assert main(["compile", "--emit=tx8be", str(TWO_DOTS)]) == 0
    printed = capsys.readouterr().out
    assert printed == str(grouped_module(partial(load, printed), Options())[0]) + "\n"


def test_published_ops_are_found_again():
    found = names(grouped_module(partial(load, IMAGE), Options())[0])
    assert {"Transpose", "BatchNorm_Inference", "Conv", "Gemm", "Add", "Group", "LoadVar", "StoreVar"} <= set(found)
    assert not {"Convert", "Convolution", "DotGeneral"} & set(found)


def test_figures_are_those_of_the_program():
    module, (program,) = grouped_module(partial(load, NORM), Options())
    groups = [op for op in module.walk() if isinstance(op, Tx8beOp) and op.ROW.name == "Group"]
    assert groups and all(0 < group["spm_alloc_size"] <= program.spm_bytes for group in groups)
    buffers = {b.address + k * b.stride_bytes for b in program.buffers for k in range(b.copies)}
    infos = [op["dev_info"] for op in module.walk() if isinstance(op, Tx8beOp) and op["dev_info"] and op["mem_scope"] is None]
    assert infos and all(set(info["mem_addr"]) <= buffers for info in infos)


def test_a_folder_is_written_and_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (source := tmp_path / "norm.hlo").write_text(NORM)
    folder = tmp_path / "out"
    assert main(["compile", "--emit=chip", "-o", str(folder), str(source)]) == 0
    info = json.loads((folder / "model_info.json").read_text())["chip"][0]
    assert info["input_size"] == [128, 96] and info["output_tensor"] == [
        {"dim": 2, "dtype": 5, "layout": 0, "shape": [4, 3], "inplace": -1}
    ]
    assert (folder / "chip0/agent/data/param.bin").read_bytes() == np.arange(1, 9, dtype=np.float32).tobytes()
    streams = (folder / "chip0/agent/StreamConfigMap.txt").read_text()
    assert (
        streams.count("StreamType: InStream") == 4 and streams.count("tileStreamCfg_") == 16 and "tileStreamCfg_196611{" in streams
    )
    assert not list(folder.rglob("tile*"))
    assert main(["run", str(folder)]) == 0
    assert "out0_ref.bin: " in capfd.readouterr().err
    assert main(["compile", "--emit=chip", "-o", str(folder), str(source)]) == 1
    assert "is not empty" in capfd.readouterr().err


def test_a_dtype_without_a_code_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (source := tmp_path / "wide.hlo").write_text("HloModule m\nENTRY main {\n  ROOT x = f64[2] parameter(0)\n}\n")
    assert main(["compile", "--emit=chip", "-o", str(tmp_path / "out"), str(source)]) == 1
    assert "f64[2] has no format code" in capfd.readouterr().err and not (tmp_path / "out").exists()
    assert main(["compile", "--emit=chip", str(source)]) == 1
    assert "-o DIR says where" in capfd.readouterr().err
