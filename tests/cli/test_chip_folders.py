"""Chip folders of the vendor's flow: `hlo2tx8 run DIR`, and what is refused of a folder that is damaged."""

import json
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.tools.main import main

INFO = {
    "chip": [
        {
            "imm_size": 0,
            "input_file": ["chip0/agent/data/in0.bin", "chip0/agent/data/in1.bin"],
            "input_num": 2,
            "input_size": [6, 8],
            "input_tensor": [
                {"dim": 3, "dtype": 0, "layout": 34, "shape": [1, 3, 2]},
                {"dim": 2, "dtype": 0, "layout": 0, "shape": [2, 4]},
            ],
            "output_file": ["chip0/agent/data/out0_cmodel.bin"],
            "output_num": 1,
            "output_ref_file": ["chip0/agent/data/out0_ref.bin"],
            "output_size": [12],
            "output_tensor": [{"dim": 3, "dtype": 0, "inplace": -1, "layout": 34, "shape": [1, 3, 4]}],
            "param_file": ["chip0/agent/data/param.bin"],
            "param_num": 1,
            "param_size": [0],
            "tile_num": 16,
            "tile_x": 4,
            "tile_y": 4,
        }
    ],
    "chip_num": 1,
    "chip_x": 1,
    "chip_y": 1,
}
MODULE = """module {
  func.func @main(%arg0: tensor<1x3x2xi8>, %arg1: tensor<2x4xi8>) -> tuple<tensor<1x3x4xi8>> {
    %0 = "tx8be.None"() : () -> none
    %1 = "tx8be.Gemm"(%arg0, %arg1, %0, %0) : (tensor<1x3x2xi8>, tensor<2x4xi8>, none, none) -> tensor<1x3x4xi8>
    %2 = "tx8be.Tuple"(%1) {input_nums = 1 : i64} : (tensor<1x3x4xi8>) -> tuple<tensor<1x3x4xi8>>
    return %2 : tuple<tensor<1x3x4xi8>>
  }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as the vendor writes it."""
    (data := tmp_path / "gemm" / "chip0" / "agent" / "data").mkdir(parents=True)
    left, right = np.array([[[1, 2], [3, -4], [100, 100]]], np.int8), np.arange(8, dtype=np.int8).reshape(2, 4)
    result = np.clip(left.astype(int) @ right.astype(int), -128, 127).astype(np.int8)
    for name, array in (("in0", left), ("in1", right), ("out0_ref", result), ("out0_riscv", result)):
        (data / f"{name}.bin").write_bytes(array.tobytes())
    (data / "param.bin").write_bytes(b"")
    (tmp_path / "gemm" / "gemm.mlir").write_text(MODULE)
    (tmp_path / "gemm" / "model_info.json").write_text(json.dumps(INFO))
    return tmp_path / "gemm"


def test_a_folder_is_run_on_its_data(folder: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["run", str(folder)]) == 0
    said = capfd.readouterr().err
    for word in ("ref", "riscv"):
        assert f"chip0/agent/data/out0_{word}.bin: equal bit for bit" in said


def test_a_result_that_differs_is_counted(folder: Path, capfd: pytest.CaptureFixture[str]):
    file = folder / "chip0/agent/data/out0_riscv.bin"
    file.write_bytes(bytes([5]) + file.read_bytes()[1:])
    assert main(["run", str(folder)]) == 1
    said = capfd.readouterr().err
    assert "out0_riscv.bin: 1 of 12 elements differ, by at most 3" in said
    assert "out0_ref.bin: equal" in said


def test_other_commands_take_a_folder(folder: Path, capfd: pytest.CaptureFixture[str]):
    for command in ("compile", "check", "profile"):
        assert main([command, str(folder)]) == 0, command
    assert main(["run", "--level=all", str(folder)]) == 0
    assert main(["run", "--use_large_float_range", str(folder)]) == 0
    assert "out0_ref" not in capfd.readouterr().err.rpartition("Running HLO module")[2]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("input_file", ["../in0.bin", "chip0/agent/data/in1.bin"], "chip[0].input_file[0] should be a file in the folder"),
        ("input_file", ["/etc/passwd", "chip0/agent/data/in1.bin"], "chip[0].input_file[0] should be a file in the folder"),
        ("input_file", ["chip0/agent/data/none.bin", "chip0/agent/data/in1.bin"], "none.bin: No such file"),
        ("input_num", 3, "should be a list of 3"),
        ("input_size", [7, 8], "chip[0].input_size[0] is 7, and s8[1,3,2] has 6 bytes"),
        ("output_tensor", [{"dim": 1, "dtype": 13, "shape": [12]}], "dtype: there is no format 13"),
        ("output_tensor", [{"dim": 1, "dtype": 0, "shape": [12]}], "has the outputs s8[12], and gemm.mlir s8[1,3,4]"),
        ("output_tensor", [{"dim": 1, "dtype": 0}], "chip[0].output_tensor[0]: there is no shape"),
        ("param_file", [7], "param_file[0] should be a file in the folder"),
    ],
)
def test_what_the_description_has_wrong(folder: Path, key: str, value: object, why: str, capfd: pytest.CaptureFixture[str]):
    (folder / "model_info.json").write_text(json.dumps({**INFO, "chip": [{**INFO["chip"][0], key: value}]}))
    assert main(["run", str(folder)]) == 1
    said = capfd.readouterr().err
    assert "error E1004: " in said and why in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda f: (f / "chip0/agent/data/in0.bin").write_bytes(b"12345"), "in0.bin has 5 bytes, and s8[1,3,2] has 6"),
        (lambda f: (f / "chip0/agent/data/out0_ref.bin").write_bytes(b""), "out0_ref.bin has 0 bytes"),
        (lambda f: [(f / f"chip0/agent/data/out0_{w}.bin").unlink() for w in ("ref", "riscv")], "no results of output 0"),
        (lambda f: (f / "model_info.json").write_text("{"), "model_info.json: Expecting"),
        (lambda f: (f / "model_info.json").write_text("[1]"), "there is no chip_num"),
        (lambda f: (f / "model_info.json").write_text('{"chip_num": 2}'), "there is no chip_x"),
        (lambda f: (f / "gemm.mlir").unlink(), "should have one module, .mlir, and has none"),
        (lambda f: (f / "two.mlir").write_text(""), "has gemm.mlir, two.mlir"),
        (lambda f: (f / "gemm.mlir").write_text(MODULE.replace("Gemm", "Gem")), "gemm.mlir:4:"),
    ],
)
def test_what_is_damaged(folder: Path, damage: object, why: str, capfd: pytest.CaptureFixture[str]):
    damage(folder)  # type: ignore[operator]
    assert main(["run", str(folder)]) == 1
    said = capfd.readouterr().err
    assert "error E100" in said and why in said and "Traceback" not in said


def test_a_link_out_of_the_folder(folder: Path, capfd: pytest.CaptureFixture[str]):
    file = folder / "chip0/agent/data/in0.bin"
    file.rename(folder.parent / "in0.bin")
    file.symlink_to(folder.parent / "in0.bin")
    assert main(["run", str(folder)]) == 1
    assert "input_file[0] should be a file in the folder" in capfd.readouterr().err
