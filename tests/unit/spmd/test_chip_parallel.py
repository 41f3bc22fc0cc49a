"""chip_parallel of tx8be's ops: which chip gets which part, and programs that are shared out so."""

from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.dialects.tx8be_attributes import ParallelAttr
from hlo2tx8.errors import InputError
from hlo2tx8.spmd.chip_parallel import ChipParallel, mode_of
from hlo2tx8.tools.main import main

MODULE = """module {
  func.func @main(%arg0: tensor<8x32xf32>, %arg1: tensor<32x24xf32>, %arg2: tensor<24x16xf32>) -> tuple<tensor<8x16xf32>> {
    %n = "tx8be.None"() : () -> none
    %x = "tx8be.Input"(%arg0) {chip_parallel = FIRST} : (tensor<8x32xf32>) -> tensor<8x32xf32>
    %1 = "tx8be.Gemm"(%x, %arg1, %n, %n) {chip_parallel = SECOND} : (tensor<8x32xf32>, tensor<32x24xf32>, none, none) -> tensor<8x24xf32>
    %2 = "tx8be.Tanh"(%1) : (tensor<8x24xf32>) -> tensor<8x24xf32>
    %3 = "tx8be.Gemm"(%2, %arg2, %n, %n) {chip_parallel = THIRD} : (tensor<8x24xf32>, tensor<24x16xf32>, none, none) -> tensor<8x16xf32>
    %4 = "tx8be.Tuple"(%3) {input_nums = 1 : i64} : (tensor<8x16xf32>) -> tuple<tensor<8x16xf32>>
    return %4 : tuple<tensor<8x16xf32>>
  }
}
"""  # noqa: E501


def parallel(words: str) -> str:
    return f"#tx8be.parallel_attr<{words}>"


def tiles(rank: int, mesh: tuple[int, int], **values: object) -> list[object]:
    """The chips of each part."""
    found = ChipParallel.found_in(ParallelAttr.of(**values).sharding, mesh)
    assert found is not None
    return found.tiles(rank)[1].tolist()


def test_which_chip_has_which_part() -> None:
    assert tiles(2, (2, 2), parallel="Data") == [[[0]], [[1]], [[2]], [[3]]]
    assert tiles(3, (2, 2), parallel="Tensor") == [[[[0], [1], [2], [3]]]]
    assert tiles(2, (3, 2), parallel="DataTensor") == [[[0], [1], [2]], [[3], [4], [5]]]
    assert tiles(2, (3, 2), parallel="DataTensor", dp_dim_x=3, tp_dim_y=2) == [[[0], [3]], [[1], [4]], [[2], [5]]]
    assert tiles(2, (4, 1), parallel="DataTensor", dp_dim_x=2, tp_dim_x=2) == [[[0], [1]], [[2], [3]]]
    assert tiles(2, (4, 1), parallel="DataTensor", dp_dim_x=2, tp_dim_x=2, is_dp_inner=True) == [[[0], [2]], [[1], [3]]]
    assert tiles(2, (2, 2), parallel="Data", dp_dim_x=2, tp_dim_y=2) == [[[0, 2]], [[1, 3]]]
    assert tiles(1, (2, 2), parallel="DataTensor") == [[0, 2], [1, 3]]
    assert tiles(0, (2, 2), parallel="Data") == [0, 1, 2, 3]


def test_modes_of_parts() -> None:
    counts = ([], [4], [4, 1], [1, 4], [2, 1, 2], [1, 2, 1], [1, 1])
    assert [mode_of(each) for each in counts] == ["None", "Data", "Data", "Tensor", "DataTensor", "None", "None"]


def test_other_numbers_of_chips_are_refused() -> None:
    text = ParallelAttr.of(parallel="Data", dp_dim_x=3).sharding
    with pytest.raises(InputError, match="chip_parallel shares out over 3 chips, and there are 4"):
        ChipParallel.found_in(text, (2, 2))
    assert ParallelAttr.of(parallel="None").sharding == "{replicated}"
    assert not ParallelAttr.of(parallel="Data", sharding_is_given=True, shape_spatial_sharding=(4, 1)).sharding


CASES = {
    "data": (("Data", "Data", "Data"), 4, []),
    "columns, then sums": (("None", "Tensor", "None"), 4, ["all_reduce"]),
    "columns of both": (("None", "Tensor", "Tensor"), 2, ["all_gather"]),
    "data and columns": (("Data", "DataTensor", "Data"), 8, ["all_reduce"]),
}


@pytest.mark.parametrize("name", CASES)
def test_modules_are_shared_out(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    modes, chips, ops = CASES[name]
    numbers = ", dp_dim_y = 2, tp_dim_x = 4" if chips == 8 else ""
    text = MODULE
    for word, mode in zip(("FIRST", "SECOND", "THIRD"), modes, strict=True):
        text = text.replace(word, parallel(f"parallel = {mode}{numbers if mode != 'None' else ''}"))
    (file := tmp_path / "m.mlir").write_text(text)
    assert main(["run", "--report", str(file), *([] if numbers else [f"--chips={chips}"])]) == 0
    told = capfd.readouterr()
    assert f"{chips} chips: 1 replicas of {chips} partitions" in told.err
    assert [op for op in ("all_reduce", "all_gather", "all_to_all", "reshard") if f"\n{op} " in told.out] == ops
    assert main(["run", "--chips=1", "--partitions=1", str(file)]) == 0


def test_a_folder_of_the_whole_module(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Chips have parts of the arrays, and the module says how they are cut: rows and columns of a mesh of one column."""
    text = MODULE.replace("FIRST", parallel("parallel = Data")).replace("SECOND", parallel("parallel = Data"))
    (file := tmp_path / "m.mlir").write_text(text.replace("THIRD", parallel("parallel = Data")))
    folder = tmp_path / "out"
    assert main(["compile", "--emit=chip", "--chips=2", "-o", str(folder), str(file)]) == 0
    written = (folder / "module.mlir").read_text()
    assert "parallel = Data, sharding_is_given = true, shape_spatial_sharding = [2, 1]" in written
    (folder / "module.mlir").write_text(file.read_text())
    assert main(["run", str(folder)]) == 0
    assert "2 chips" in capfd.readouterr().err
    whole = np.concatenate([np.fromfile(folder / f"chip{n}/agent/data/in0.bin", np.float32).reshape(4, 32) for n in range(2)])
    assert whole.shape == (8, 32)
