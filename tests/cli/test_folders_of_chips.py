"""Chip folders of several chips: written of a program, run and compared per chip; what is refused of a damaged one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.tools.main import main

SAMPLES = Path(__file__).parents[2] / "examples" / "chips"
STEP = SAMPLES / "mlp_step_data_f32.mlir"
PAIR = SAMPLES / "gemm_pair_tensor_bf16.mlir"
EVEN = """HloModule rows, num_partitions={0}
ENTRY e {{
  x = f32[{0},5] parameter(0), sharding={{devices=[{0},1]<=[{0}]}}
  n = f32[{0},5] negate(x)
  ROOT r = f32[5,{0}] transpose(n), dimensions={{1,0}}, sharding={{devices=[1,{0}]<=[{0}]}}
}}"""
LOOP = """HloModule loop, replica_count=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
body {
  p = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[3] get-tuple-element(p), index=1
  r = f32[3] all-reduce(x), replica_groups={}, to_apply=add
  ROOT t = (s32[], f32[3]) tuple(next, r)
}
cond {
  p = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}
ENTRY e {
  x = f32[3] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[3]) tuple(zero, x)
  w = (s32[], f32[3]) while(t), condition=cond, body=body
  ROOT r = f32[3] get-tuple-element(w), index=1
}"""


def emit(source: Path, folder: Path, *flags: str) -> int:
    return main(["compile", "--emit=chip", "-o", str(folder), str(source), *flags])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("pair") / "out"
    assert emit(PAIR, found) == 0
    return found


def test_a_step_of_four_chips_is_written_and_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    assert emit(STEP, folder) == 0
    info = json.loads((folder / "model_info.json").read_text())
    assert [info[key] for key in ("chip_num", "chip_x", "chip_y")] == [4, 2, 2] and len(info["chip"]) == 4
    assert info["chip"][3]["input_tensor"][3]["shape"] == [4, 24]
    assert info["chip"][3]["input_file"][3] == "chip3/agent/data/in3.bin"
    assert main(["run", "--report", str(folder)]) == 0
    told = capfd.readouterr()
    assert "chip3/agent/data/out2_ref.bin: " in told.err
    assert "over the links" in told.out and "chip of 2 x 2" in told.out and "PCIe, apart" in told.out


def test_streams_between_chips_name_each_other(pair: Path) -> None:
    texts = [(pair / f"chip{n}/agent/StreamConfigMap.txt").read_text() for n in range(4)]
    for text in texts:  # one out, to three chips, and three in
        assert text.count("StreamScope: Chip") == 4 and text.count("StreamAttr: multicast") >= 1
        assert text.count("        ChipId: ") == 6
    ends = texts[0][texts[0].index("ChipId: 1") :].split("}")[0]
    number = int(ends.rpartition("StreamId: ")[2])
    assert "ChipId: 0" in texts[1][texts[1].index(f"StreamCfg_tile_0_{number}{{") :].split("}")[0]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_other_numbers_of_chips_are_equal_bit_for_bit(tmp_path: Path, capfd: pytest.CaptureFixture[str], count: int) -> None:
    (source := tmp_path / "rows.hlo").write_text(EVEN.format(count))
    folder = tmp_path / "out"
    assert emit(source, folder) == 0
    assert main(["run", str(folder)]) == 0
    told = capfd.readouterr().err
    assert all(f"chip{n}/agent/data/out0_ref.bin: equal bit for bit" in told for n in range(count))


@pytest.mark.parametrize("count", [2, 3, 8])
def test_rows_that_chips_do_not_divide_are_padded(tmp_path: Path, capfd: pytest.CaptureFixture[str], count: int) -> None:
    (source := tmp_path / "rows.hlo").write_text(
        EVEN.format(count).replace(f"f32[{count},5]", "f32[13,5]").replace(f"f32[5,{count}]", "f32[5,13]")
    )
    folder = tmp_path / "out"
    assert emit(source, folder) == 0
    info = json.loads((folder / "model_info.json").read_text())
    assert info["chip"][0]["input_tensor"][0]["shape"] == [-(-13 // count), 5]
    assert main(["run", str(folder)]) == 0
    told = capfd.readouterr().err
    assert all(f"chip{n}/agent/data/out0_ref.bin: equal bit for bit" in told for n in range(count))


def test_replicas_and_loops(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (source := tmp_path / "loop.hlo").write_text(LOOP)
    folder = tmp_path / "out"
    assert emit(source, folder) == 0
    assert main(["run", str(folder)]) == 0
    data = [np.fromfile(folder / f"chip{n}/agent/data/in0.bin", np.float32) for n in range(2)]
    assert (data[0] != data[1]).any()
    found = np.fromfile(folder / "chip1/agent/data/out0_ref.bin", np.float32)
    np.testing.assert_allclose(found, 4 * (data[0] + data[1]), rtol=1e-6)


def test_other_inputs_and_commands(pair: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--random_init_input_literals=false", str(pair)]) == 0
    assert "out0_ref" not in capfd.readouterr().err
    assert main(["compile", "--report", str(pair)]) == 0
    assert "all_reduce" in capfd.readouterr().out
    assert main(["run", "--chips=2", str(pair)]) == 1
    assert "is for 4 chips, not 2" in capfd.readouterr().err


def changed(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    path = folder / "model_info.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no entry of a chip": (lambda f: changed(f, lambda i: i["chip"].pop()), "chip should be a list of 4"),  # type: ignore
    "no folder of a chip": (lambda f: shutil.rmtree(f / "chip2"), "chip2/agent/data/param.bin: No such file"),
    "no data of a chip": (lambda f: (f / "chip2/agent/data/in0.bin").unlink(), "chip2/agent/data/in0.bin: No such file"),
    "no results of a chip": (lambda f: (f / "chip1/agent/data/out0_ref.bin").unlink(), "chip1/agent/data has no results"),
    "another mesh": (lambda f: changed(f, lambda i: i.update(chip_x=3)), "4 chips in 2 rows of 3"),
    "no chips": (lambda f: changed(f, lambda i: i.update(chip_x=0, chip_num=0)), "0 chips in 2 rows of 0"),
    "other arrays": (
        lambda f: changed(f, lambda i: i["chip"][2]["input_tensor"][0].update(shape=[32, 16])),  # type: ignore
        "chip[2] has other arrays than chip 0",
    ),
    "other parameters": (lambda f: (f / "chip3/agent/data/param.bin").write_bytes(b"x"), "chip 3 has other parameters"),
    "a module for two": (
        lambda f: (f / "jit_gemm.mlir").write_text((f / "jit_gemm.mlir").read_text().replace("partitions = 4", "partitions = 2")),
        "jit_gemm.mlir is for 2 chips, and the folder has 4",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_folders_are_refused(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    shutil.copytree(pair, folder := tmp_path / "copy")
    damage, said = DAMAGES[name]
    damage(folder)
    assert main(["run", str(folder)]) == 1
    assert said in capfd.readouterr().err


def test_a_chip_that_computed_something_else_is_named(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(pair, folder := tmp_path / "copy")
    (folder / "chip1/agent/data/out0_riscv.bin").write_bytes(bytes(16 * 24 * 2))
    assert main(["run", str(folder)]) == 1
    told = capfd.readouterr().err
    assert "chip1/agent/data/out0_riscv.bin: " in told and "1/1 runs failed" in told


def test_chips_that_do_not_fit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (chip := tmp_path / "chip.yaml").write_text("base: " + str(Path(main.__code__.co_filename).parents[1] / "device/chip.yaml"))
    with chip.open("a") as file:
        file.write("\nchip_mesh: [3, 1]\n")
    assert main(["run", f"--chip={chip}", str(PAIR)]) == 1
    assert "4 chips do not fit into chip_mesh, 3 x 1" in capfd.readouterr().err
    (source := tmp_path / "rows.hlo").write_text(EVEN.format(2))
    assert emit(source, tmp_path / "out", f"--chip={chip}") == 1
    assert "2 chips do not fill the chip_mesh of 3 x 1" in capfd.readouterr().err
