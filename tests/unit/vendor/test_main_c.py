"""main.c on the C model and on RISC-V: the emulator's bits and its cycles; and what is said of folders that are damaged."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.emulator import Emulator
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_pool import CtPoolMaxIndexed
from hlo2tx8.device.isa.dte import DteUnicast
from hlo2tx8.device.isa.kc_move import KcVIota
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.timing import model
from hlo2tx8.errors import DeviceError, InputError
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.tools.arguments import random_arguments, seeded
from hlo2tx8.tools.main import main
from hlo2tx8.vendor.c_text import fp32_text, unique
from hlo2tx8.vendor.main_c import main_c
from hlo2tx8.vendor.platforms import PLATFORMS, build, missing, run, run_folder, run_program

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "hlo_samples"
CMODEL, RISCV = PLATFORMS["cmodel"], PLATFORMS["riscv"]
SMALL = (
    "elementwise/gelu_bf16_small.hlo",
    "indexing/update_in_place_bf16.hlo",
    "control/calls_f32.mlir",
    "layouts/column_major_f32.hlo",
)
needs_cc = pytest.mark.skipif(bool(missing(CMODEL)), reason=missing(CMODEL))
needs_riscv = pytest.mark.skipif(bool(missing(RISCV)), reason=missing(RISCV))


def compiled(name: str) -> tuple[Executable, list[np.ndarray]]:
    """A sample's program, and random inputs."""
    executable = hlo2tx8.compile(SAMPLES / name)
    module = hlo2tx8.frontend.load(SAMPLES / name)
    return executable, list(random_arguments(module, executable.signature, seeded(0, different_seeds=False)))


def same_bits(actual: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    """Are the arrays equal bit for bit?"""
    return [a.tobytes() for a in actual] == [np.ascontiguousarray(e).tobytes() for e in expected]


@needs_cc
@pytest.mark.parametrize("name", SMALL)
def test_the_c_model_has_the_emulators_bits_and_cycles(name: str):
    executable, arrays = compiled(name)
    expected = executable.execute(*arrays)
    results, cycles = run_program(executable, arrays, CMODEL)
    assert same_bits(results, expected)
    assert cycles == pytest.approx(executable.report.cycles, abs=1e-3)


@needs_riscv
def test_riscv_has_the_emulators_bits_and_cycles():
    executable, arrays = compiled("norm/layer_norm_f32.mlir")
    expected = executable.execute(*arrays)
    results, cycles = run_program(executable, arrays, RISCV)
    assert same_bits(results, expected)
    assert cycles == pytest.approx(executable.report.cycles, abs=1e-3)


@pytest.mark.parametrize(
    "name",
    [
        "elementwise/gelu_bf16.hlo",
        "reduce/softmax_f32.hlo",
        "norm/batch_norm_training_f32.hlo",
        "dot/gemm_bf16.hlo",
        "conv/conv3x3_f32.hlo",
    ],
)
def test_main_c_is_rolled(name: str):
    executable, _ = compiled(name)
    text = main_c(executable.program, load_chip(), executable.name)
    assert len(text.splitlines()) <= 400
    assert "while (!slices_" in text or not name.startswith("elementwise")
    assert re.search(rf"/\* .*{Path(name).name}:\d+", text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chip folder."""
    place = tmp_path_factory.mktemp("chip") / "gelu"
    assert main(["compile", "--emit=chip", "-o", str(place), str(SAMPLES / SMALL[0])]) == 0
    return place


@needs_cc
def test_a_folder_is_built_and_run(folder: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["run", str(folder), "--platform=Cmodel"]) == 0
    said = capfd.readouterr().err
    assert "Cmodel: 6,645 cycles" in said
    assert "out0_cmodel.bin: equal bit for bit" in said
    assert run(folder, CMODEL, launches=3).text.count("\n") == 1


@needs_cc
@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_size_is_refused(folder: Path, change: int):
    path = folder / "chip0/agent/data/in0.bin"
    kept = path.read_bytes()
    path.write_bytes(kept[:change] if change < 0 else kept + b"x")
    with pytest.raises(InputError, match=r"in0.bin has [\d]+ bytes, and the program takes [\d]+"):
        run_folder(folder, CMODEL)
    path.write_bytes(kept)


@needs_cc
def test_a_missing_file_and_main_c_are_named(folder: Path):
    for name in ("chip0/agent/data/in0.bin", "chip0/main.c"):
        path = folder / name
        path.rename(path.with_suffix(".kept"))
        try:
            with pytest.raises(InputError, match=name.rpartition("/")[2]):
                run_folder(folder, CMODEL)
        finally:
            path.with_suffix(".kept").rename(path)


@needs_cc
def test_a_fault_is_one_and_not_a_crash(folder: Path):
    source = folder / "chip0/main.c"
    kept = source.read_text()
    for old, new, what in (
        ("spm_square = 0x", "spm_square = 0x7fffff", "out_of_bounds"),
        ("input_0->addr, ", "input_0->addr, 1 << 30 | ", "out_of_bounds"),
        ("TsmWait(", "if (tile->id) {\n TsmBarrier();\n}\n TsmWait(", "unequal_barrier"),
    ):
        source.write_text(kept.replace(old, new))
        with pytest.raises(DeviceError, match=what):
            run_folder(folder, CMODEL)
    source.write_text("int main(")
    with pytest.raises(InputError, match="does not compile"):
        build(folder, CMODEL)
    source.write_text(kept)


def test_without_compilers_the_packages_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.setenv("PATH", "/nowhere")
    for name, package in (("Cmodel", "gcc"), ("riscv", "gcc-riscv64-linux-gnu")):
        assert main(["run", str(folder), f"--platform={name}"]) == 1
        assert package in capfd.readouterr().err


@needs_cc
def test_tiles_that_send_to_each_other_and_costs_that_only_tensors_have():
    chip = load_chip()
    tx8 = Assembler()
    x, y = tx8.input("float32", (1, 8, 8, 68)), tx8.output("float32", (16, 1088))
    image = {"batch": 1, "h": 8, "w": 8, "c": 68, "kernel_h": 2, "kernel_w": 2, "stride_h": 2, "stride_w": 2}
    pads = dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    tx8(Rdma, Format.FP32, dst=0x10000, slot=x, offset=0, count=8 * 8 * 68)
    tx8(CtPoolMaxIndexed, Format.FP32, dst=0x20000, src=0x10000, index=0x30000, **image, **pads)
    tx8(KcVIota, Format.INT32, dst=0x40000, n=64, start=0, step=1, div=1, mod=64)
    tx8.barrier()
    other = tx8.remainder(tx8.affine(1, (tx8.tile, 1)), 16)
    with tx8.loop(3):
        tx8(DteUnicast, Format.FP32, dst=0x50000, src=0x20000, n=1088, tile=other)
    tx8.barrier()
    tx8(Wdma, Format.FP32, slot=y, offset=tx8.affine(0, (tx8.tile, 4352)), src=0x50000, count=1088)
    program = tx8.program(0x60000)
    arrays = [np.random.default_rng(0).standard_normal((1, 8, 8, 68), np.float32)]
    expected = Emulator(chip).run(program, arrays)
    executable = hlo2tx8.compile(
        "HloModule m\nENTRY e { x = f32[1,8,8,68] parameter(0) ROOT y = f32[16,1088] broadcast(f32[] constant(0)), dimensions={} }"
    )
    results, cycles = run_program(replace(executable, program=program), arrays, CMODEL)
    assert same_bits(results, expected)
    assert cycles == pytest.approx(model(program, chip).cycles, abs=1e-3)


def test_names_in_c_are_there_once():
    taken: set[str] = set()
    assert [unique(word, taken) for word in ("silu", "silu", "silu_2", "silu.2", "größe")] == [
        *("silu", "silu_2", "silu_2_2", "silu_2_3", "gr__e"),
    ]
    assert [fp32_text(x) for x in (1.0, 0.5, 2.0**-149, -0.0, 3.4028234663852886e38)] == [
        "1.0",
        "0.5",
        "1e-45",
        "-0.0",
        "3.4028235e+38",
    ]
