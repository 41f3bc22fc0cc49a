"""`hlo2tx8 explain`: answers about fusions, groups, time and memory are those of the decisions that were made."""

from pathlib import Path

import pytest

from hlo2tx8.notes import LINES, Decision, DecisionLine, Name, What, decisions_in
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.memory import memory_use
from hlo2tx8.tools.explain.book import aliases_in
from hlo2tx8.tools.main import main

MODULE = """HloModule asked
add_c {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = bf16[512,768] parameter(0)
  w = bf16[768,1024] parameter(1)
  dot.3 = bf16[512,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="/home/me/model.py" source_line=12}
  tanh.4 = bf16[512,1024] tanh(dot.3), metadata={op_name="jit(f)/tanh" source_file="/home/me/model.py" source_line=13}
  neg.5 = bf16[512,1024] negate(tanh.4)
  c = f32[512,1024] convert(neg.5)
  z = f32[] constant(0)
  red.6 = f32[512] reduce(c, z), dimensions={1}, to_apply=add_c
  bc.7 = f32[512,1024] broadcast(red.6), dimensions={0}
  div.8 = f32[512,1024] divide(c, bc.7)
  tr.9 = f32[1024,512] transpose(div.8), dimensions={1,0}
  red.10 = f32[1024] reduce(tr.9, z), dimensions={1}, to_apply=add_c
  ROOT t = (f32[1024,512], f32[1024], bf16[512,1024]) tuple(tr.9, red.10, tanh.4)
}
"""  # noqa: E501


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("explain") / "asked.hlo"
    path.write_text(MODULE)
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["explain", *argv]) == 0
    return capsys.readouterr().out


def test_why_names_the_rule_and_what_it_saves(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = answer(capsys, "--why", "dot.3", "--why=tr.9", file)
    assert "jit(f)/dot (model.py:12) has jit(f)/tanh (model.py:13) as epilogue" in out
    assert "which saves 10,896 cycles" in out
    assert "is part of kernel group, with reduce_fusion" in out
    assert "It is in a group with reduce_fusion: phases that share 65536 bytes a tile" in out


@pytest.mark.parametrize("name", ["%tanh.4", "model.py:13", "/home/me/model.py:13", "jit(f)/tanh", "tanh"])
def test_instructions_have_many_names(name: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "jit(f)/tanh (model.py:13) begins a fusion of its own: a result" in answer(capsys, "--why", name, file)


def test_unknown_names_get_near_ones(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--why=tanh_fusoin", file]) == 1
    assert "tanh_fusion" in capsys.readouterr().err.partition("hint")[2]


def test_why_not_fused_names_the_rule(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "are fused, in tanh_fusion" in answer(capsys, "--why_not_fused", "dot.3", "tanh.4", file)
    near = answer(capsys, "--why-not-fused", "dot.3", "red.6", file)
    assert "which is written behind that and not beside a reduction of its rows. One fusion would save 10,896 cycles" in near
    assert "it has no single reader" in near
    far = answer(capsys, "--why_not_fused", "red.10", "dot.3", file)
    assert "Between tanh_fusion and reduce_fusion.1 lie transpose_fusion" in far
    together = answer(capsys, "--why_not_fused", "red.6", "tr.9", file)
    assert "a reduction read at another index" in together
    assert "They are one kernel, group, as a group" in together


def test_independent_ones_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two.hlo").write_text(
        "HloModule two\nENTRY main {\n  a = f32[64] parameter(0)\n  b = f32[9] parameter(1)\n  x = f32[64] exponential(a)\n"
        "  y = f32[9] tanh(b)\n  ROOT t = (f32[64], f32[9]) tuple(x, y)\n}\n"
    )
    out = answer(capsys, "--why_not_fused", "x", "y", str(tmp_path / "two.hlo"))
    assert "Neither of x and y is made of the other" in out
    assert "They read no fusion in common" in out


def test_slowest_say_what_bounds_them(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = answer(capsys, "--slowest=1", file)
    assert "\n1. group (asked.hlo:18): " in out
    assert "\n2. " not in out
    assert "DDR bounds it" in out
    assert "are read or written again" in out


def test_memory_adds_up(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = answer(capsys, "--memory", file)
    executable = compile_source(file, Options())
    use, sizes = memory_use(executable.program), executable.memory_analysis()
    assert use.scratch_bytes == sizes["temp_size_in_bytes"] == 2048
    assert use.scratchpad is not None
    assert use.scratchpad.size_bytes <= sizes["spm_size_in_bytes"]
    assert f"{use.scratchpad.size_bytes / 1e6:.3g} MB of 3.01 MB per tile" in out
    assert "jit(f)/tanh (tanh_fusion)" in out
    assert "tanh_fusion to group" in out


def test_programs_of_files_are_explained_too(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_source(file, Options()).save(tmp_path / "asked.tx8x")
    assert "as epilogue" in answer(capsys, "--why=tanh_fusion", str(tmp_path / "asked.tx8x"))


def test_lines_keep_their_decisions(file: str) -> None:
    lines = compile_source(file, Options(explain=True)).explanation
    found = decisions_in(lines)
    assert {What.FUSION, What.KERNEL, What.EPILOGUE, What.GROUP, What.PLAN, What.NO_LINK} <= {d.what for d in found}
    assert all(line == line.decision.line() for line in lines if isinstance(line, DecisionLine))
    assert Decision(What.FUSION, (Name("a"),)).line() == ""
    assert all("{about}" in text for text in LINES.values() if "{other}:" not in text)
    assert compile_source(file, Options()).explanation == ()


def test_metadata_of_text_are_aliases() -> None:
    assert aliases_in(MODULE) == {
        "dot.3": ("/home/me/model.py:12 jit(f)/dot", "dot"),
        "tanh.4": ("/home/me/model.py:13 jit(f)/tanh", "tanh"),
    }
