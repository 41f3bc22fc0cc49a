"""Every sample, from its file to a comparison, on the emulator; and what a user sees while it happens."""

import json
import re
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.parser import Parser

import hlo2tx8
from hlo2tx8.compiler.driver import load_source, lower_stages
from hlo2tx8.compiler.pipeline import last_stages
from hlo2tx8.errors import ContainerError, InputError
from hlo2tx8.options import Level, Options
from hlo2tx8.tools.main import main
from hlo2tx8.tools.universe import UNIVERSE

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
LARGE = ("gelu_bf16.hlo", "gelu_f32.hlo")
FILES = [f for f in sorted(SAMPLES.rglob("*")) if f.suffix in (".hlo", ".mlir")]
SMALL = [f for f in FILES if f.name not in LARGE]
GELU = SAMPLES / "elementwise" / "gelu_bf16_small.hlo"
LEVELS = ["hlo", "fused", "loops", "flat", "vector", "scheduled"]


def name(path: Path) -> str:
    return str(path.relative_to(SAMPLES))


@pytest.mark.parametrize("file", SMALL, ids=name)
def test_sample_agrees_with_the_reference(file: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", str(file), "--iterations=2"]) == 0
    error = capsys.readouterr().err
    assert error.count("** Results on tx8 and interpreter are close enough. **") == 2
    assert error.endswith("0/2 runs failed.\n")


@pytest.mark.parametrize("file", SMALL, ids=name)
def test_sample_runs_at_every_level(file: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", str(file), "--level=all"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("level", LEVELS)
def test_one_level_is_run_and_printed(level: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", str(GELU), f"--level={level}"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().err.endswith("0/1 runs failed.\n")
    assert main(["compile", f"--until={level}", str(GELU)]) == 0
    assert capsys.readouterr().out == texts_of(GELU)[level] + "\n"


@cache
def parsing() -> Context:
    """Everything that IR of ours may contain."""
    ctx = Context()
    for dialect, make in UNIVERSE.all_dialects.items():
        ctx.register_dialect(dialect, make)
    for dialect, make in get_all_dialects().items():
        if dialect not in ctx.registered_dialect_names:
            ctx.register_dialect(dialect, make)
    return ctx


def texts_of(file: Path) -> dict[str, str]:
    """The IR by level, of a module that is lowered once."""
    last = last_stages(Options(until=Level.SCHEDULED))
    stages = lower_stages(load_source(file), Options(until=Level.SCHEDULED))
    return {stage.after.name.lower(): str(module) for stage, module in stages if stage is last[stage.after]}


@pytest.mark.parametrize("file", SMALL, ids=name)
def test_what_levels_print_parses_back(file: Path):
    texts = texts_of(file)
    assert list(texts) == LEVELS
    for text in texts.values():
        module = Parser(parsing(), text).parse_module()
        module.verify()
        assert str(module) == text


TWO_REFUSED = """HloModule two

ENTRY main {
  x = f32[8,8] parameter(0)
  first = f32[8,8] custom-call(x), custom_call_target="unheard_of"
  ROOT more = f32[8,8] custom-call(first), custom_call_target="unheard_of"
}
"""


def test_unsupported_operations_are_all_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "two.hlo"
    file.write_text(TWO_REFUSED)
    assert main(["profile", str(file)]) == 1
    error = capsys.readouterr().err
    assert "error E1001: 2 unsupported operations" in error
    assert "2 x stablehlo.custom_call" in error
    assert "two.hlo:6 more" in error


REFUSED = """func.func @main(%a: tensor<i4>, %b: tensor<4x4xf32>)
  -> (tensor<7xi4>, tensor<4x4xf32>) {
  %shape = stablehlo.constant dense<7> : tensor<1xi64>
  %1 = stablehlo.rng %a, %a, %shape, distribution = UNIFORM : (tensor<i4>, tensor<i4>, tensor<1xi64>) -> tensor<7xi4>
  %2 = stablehlo.einsum %b, %b, config = "ab,bc->ac" : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = stablehlo.einsum %2, %b, config = "ab,bc->ac" : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %3 : tensor<7xi4>, tensor<4x4xf32>
}
"""


def test_refusals_of_the_frontend_and_of_passes_are_in_one_list(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "refused.mlir"
    file.write_text(REFUSED)
    assert main(["profile", str(file)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error E1001: 3 unsupported operations"
    assert lines[1] == f"  2 x stablehlo.einsum at {file}:5:8, {file}:6:8"
    assert lines[2].startswith("  1 x stablehlo.rng: ") and lines[2].endswith(f" at {file}:4:8")


def test_malformed_text_names_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "bad.hlo"
    file.write_text("HloModule m\nENTRY main {\n  a = f32[2] parameter(0)\n  ROOT b = f32[2] oops(a)\n}\n")
    assert main(["run", str(file)]) == 1
    error = capsys.readouterr().err
    assert "error E1003" in error
    assert "4:" in error


def test_dumps_hold_every_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    dump = [f"--xla_dump_to={tmp_path}", "--xla_dump_hlo_pass_re=fusion-emitter", "--xla_disable_all_hlo_passes"]
    assert main(["run", str(GELU), "--reference_platform=", *dump]) == 0
    assert "Skipping reference runner" in capsys.readouterr().err
    files = sorted(f.name for f in tmp_path.iterdir())
    assert files[0].startswith("module_0000.gelu_small.00.before-")
    (log,) = (f for f in files if f.endswith(".mlir-passes.log"))
    text = (tmp_path / log).read_text()
    positions = [text.index(word) for word in ("xla.loop", "scf.for", "vec.box", "tx8.RDMA_load", "spm.alloc")]
    assert positions[:4] == sorted(positions[:4])
    assert text.rstrip().rpartition("IR Dump After")[2].count("spm.alloc") == 0


@pytest.mark.parametrize(("pattern", "kernels"), [("transpo", ["b"]), ("^loop$", ["a"]), ("mlir-fusion", ["a", "b"])])
def test_logs_of_kernels_by_their_emitter(pattern: str, kernels: list[str], tmp_path: Path):
    file = tmp_path / "two.hlo"
    body = "ENTRY e {\n  x = f32[9,70] parameter(0)\n  a = f32[9,70] fusion(x), kind=kLoop, calls=l\n"
    body += "  ROOT b = f32[70,9] fusion(a), kind=kLoop, calls=t\n}\n"
    one = "{\n  x = f32[9,70] parameter(0)\n  ROOT v = "
    loop, transpose = f"l {one}f32[9,70] exponential(x)\n}}\n", f"t {one}f32[70,9] transpose(x), dimensions={{1,0}}\n}}\n"
    file.write_text(f"HloModule two\n{loop}{transpose}{body}")
    assert main(["compile", str(file), f"--xla_dump_to={tmp_path}", f"--xla_dump_emitter_re={pattern}"]) == 0
    found = sorted(path.name.split(".")[2] for path in tmp_path.glob("*.mlir-passes.log"))
    assert found == kernels
    assert [path for path in tmp_path.iterdir() if "before-inline" in path.name]


def test_xla_flags_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """As flags of the command, which wins; emitters of other platforms are for those."""
    file, given, own = tmp_path / "m.hlo", tmp_path / "given", tmp_path / "own"
    file.write_text("HloModule m\nENTRY e {\n  x = f32[9] parameter(0)\n  n = f32[9] negate(x)\n  ROOT r = f32[9] negate(n)\n}\n")
    flags = f"--xla_dump_to={given} --xla_dump_emitter_re=triton --xla_dump_hlo_pass_re='vectorize|nothing else'"
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert main(["run", str(file)]) == main(["check", str(file)]) == 0
    assert [re.sub(r".*before-", "", path.name) for path in given.iterdir()] == ["vectorize.mlir"]
    capsys.readouterr()
    assert main(["compile", "--until=fused", f"--xla_dump_to={own}", "--xla_dump_hlo_pass_re=inline-calls", str(file)]) == 0
    assert "stablehlo.negate" not in capsys.readouterr().out
    assert len([*own.iterdir()]) == len([*given.iterdir()]) == 1
    (tmp_path / "flags").write_text("--xla_disable_all_hlo_passes\n")
    monkeypatch.setenv("XLA_FLAGS", str(tmp_path / "flags"))
    assert main(["compile", "--until=fused", str(file)]) == 0
    assert capsys.readouterr().out.count("stablehlo.negate") == 2
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to='given")
    assert main(["run", str(file)]) == 1
    assert capsys.readouterr().err == "error E1004: XLA_FLAGS: No closing quotation\n"


def test_a_saved_executable_runs_the_same(tmp_path: Path):
    executable = hlo2tx8.compile(str(GELU))
    (port,) = executable.signature.inputs
    x = np.linspace(-3, 3, 196608).reshape(port.shape).astype("bfloat16")
    path = tmp_path / "gelu.tx8x"
    executable.save(path)
    again = hlo2tx8.load(str(path))
    assert np.array_equal(np.asarray(again.run(x)), np.asarray(executable.run(x)))
    assert again.as_text("flat") == executable.as_text("flat")
    assert again.memory_analysis() == executable.memory_analysis()
    first = path.read_bytes()
    executable.save(path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("other_version", [3, 5, "6.0.0", "5.0", "5.x.0", "4.1.0.0", None, [5], True])
def test_damaged_executables_and_those_of_another_version_are_refused(tmp_path: Path, other_version: object):
    path, other = tmp_path / "gelu.tx8x", tmp_path / "other.tx8x"
    hlo2tx8.compile(str(GELU)).save(path)
    other.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ContainerError, match="not a sound"):
        hlo2tx8.load(str(other))
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for member in old.namelist():
            data = old.read(member)
            if member == "manifest.json":
                data = json.dumps(json.loads(data) | {"format_version": other_version, "producer": "somebody 9"}).encode()
            new.writestr(member, data)
    with pytest.raises(
        ContainerError, match=rf"format version {re.escape(str(other_version))} of somebody 9, this hlo2tx8 reads 4.0.0 and 5.1.0"
    ):
        hlo2tx8.load(str(other))
    with pytest.raises(ContainerError, match="no file"):
        hlo2tx8.load(str(tmp_path / "nowhere.tx8x"))


def test_a_wrong_input_is_one_line():
    executable = hlo2tx8.compile(str(GELU))
    with pytest.raises(InputError, match=r"input 0 should be bf16\[6,64,512\], got f64\[3\]"):
        executable.run(np.zeros(3))


def test_what_exceeds_ddr_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "large.mlir"
    shape = "tensor<65536x65536x16xf32>"
    file.write_text(f"func.func @main(%a: {shape}) -> {shape} {{ %0 = stablehlo.negate %a : {shape}\n return %0 : {shape} }}")
    assert main(["compile", str(file)]) == 1
    assert "error E1005: f32[65536,65536,16] needs 274,877,906,944 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("tiles", [1, 5, 32])
def test_programs_are_for_the_chip_that_was_described(tiles: int, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    described = (Path(hlo2tx8.__file__).parent / "device" / "chip.yaml").read_text()
    chip = tmp_path / "chip.yaml"
    described = described.replace("tiles: 16 ", f"tiles: {tiles} ").replace("mesh: [4, 4]", f"mesh: [{tiles}, 1]")
    chip.write_text(described.replace("spm_limit: 3080192", "spm_limit: 200000"))
    assert main(["run", f"--chip={chip}", str(GELU)]) == 0, capsys.readouterr().err
    assert main(["run", f"--chip={chip}", "--level=scheduled", str(GELU)]) == 0, capsys.readouterr().err
    assert main(["run", f"--chip={tmp_path}/none.yaml", "--level=flat", str(GELU)]) == 1
    assert "none.yaml" in capsys.readouterr().err


def test_literals_round_trip(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "literals.safetensors"
    assert main(["run", str(GELU), f"--output_literals_file={file}"]) == 0
    assert main(["run", str(GELU), f"--input_literals_file={file}"]) == 0
    assert "equal bit for bit" in capsys.readouterr().err


def test_instructions_can_be_run_alone(capsys: pytest.CaptureFixture[str]):
    assert main(["run", str(SAMPLES / "shaping" / "pad_slice_bf16.hlo"), "--isolate_instructions"]) == 0
    printed = capsys.readouterr()
    assert "0/2 runs failed." in printed.err
    assert re.findall(r"#\d (\S+) +agrees +(.*)", printed.out) == [
        ("stablehlo.pad", "equal bit for bit"),
        ("stablehlo.slice", "equal bit for bit"),
    ]


def test_reference_can_be_xla(capsys: pytest.CaptureFixture[str]):
    assert main(["run", str(SAMPLES / "diamonds" / "slice_pad_f32.hlo"), "--reference_platform=cpu"]) == 0
    assert "** Results on tx8 and cpu are close enough. **" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--xla_disable_all_hlo_passes", "--run_test_hlo_passes=false", "--norun_test_hlo_passes"])
def test_instructions_stay_without_hlo_passes(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "twice.hlo"
    file.write_text(
        "HloModule m\nENTRY main {\n  x = f32[3,5] parameter(0)\n  n = f32[3,5] negate(x)\n  ROOT r = f32[3,5] negate(n)\n}\n"
    )
    assert main(["run", flag, "--until=fused", str(file)]) == 0
    assert capsys.readouterr().out.count("stablehlo.negate") == 2
    assert main(["run", flag, "--level=all", str(file)]) == 0
    assert main(["run", "--until=fused", str(file)]) == 0
    assert "stablehlo.negate" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "sample", ["windows/running_sum_f32.mlir", "conv/depthwise_bf16.hlo", "reduce/argmax_f32.hlo", "sort/top_k_f32.mlir"]
)
def test_samples_without_hlo_passes(sample: str):
    assert main(["run", "--xla_disable_all_hlo_passes", str(SAMPLES / sample)]) == 0
