"""Profiles: cycles that add up, what bounds what, and the three outputs of `hlo2tx8 profile`."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import hlo2tx8
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.profile import Profile
from hlo2tx8.tools.main import main
from hlo2tx8.tools.profile import text_of
from hlo2tx8.tools.table import Table, bar, percent, size

GELU = str(Path(__file__).parents[2] / "hlo_samples" / "elementwise" / "gelu_bf16_small.hlo")


@pytest.fixture(scope="module")
def looping() -> Executable:
    """Two fusions in a loop, then one."""

    def f(x: Any) -> Any:
        y = jax.lax.fori_loop(0, 4, lambda _, z: jnp.exp(z) * 0.5, x)
        return jnp.tanh(y.sum(axis=0))

    return hlo2tx8.compile(f, args=(jnp.ones((32, 256)),))


@pytest.fixture(scope="module")
def profile(looping: Executable) -> Profile:
    return looping.profile()


def test_fusions_and_the_launch_add_up(profile: Profile) -> None:
    assert sum(row.cycles for row in profile.fusions) == pytest.approx(profile.report.cycles)
    assert sum(row.share for row in profile.fusions) == pytest.approx(1)
    assert sum(row.bytes for row in profile.fusions) == profile.report.ddr_bytes
    assert sum(row.flops for row in profile.fusions) == profile.report.operations


def test_instructions_divide_the_time_of_fusions(profile: Profile) -> None:
    without_launch = profile.report.cycles - profile.report.overhead["launch"]
    assert sum(row.cycles for row in profile.instructions) == pytest.approx(without_launch, rel=1e-3)
    assert sum(row.flops for row in profile.instructions) == profile.report.operations
    assert all(0 <= row.roofline <= 1.0001 for row in profile.instructions)
    assert {row.source.rpartition(":")[0].rpartition(":")[0] for row in profile.instructions} == {__file__}
    assert [row.cycles for row in profile.instructions] == sorted((row.cycles for row in profile.instructions), reverse=True)


def test_fusions_have_the_names_of_their_kernels(looping: Executable, profile: Profile) -> None:
    launched = {launch.name for launch in looping.program.launches}
    assert launched == {name for row in profile.fusions[1:] for name in row.name.split(", ")}


def test_a_stored_executable_has_the_same_profile(looping: Executable, profile: Profile, tmp_path: Path) -> None:
    looping.save(tmp_path / "x.tx8x")
    loaded = Executable.load(tmp_path / "x.tx8x")
    assert loaded.profile().as_dict() == profile.as_dict()
    assert loaded.memory_analysis() == looping.memory_analysis()


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--top=3", GELU]) == 0
    out = capsys.readouterr().out
    assert out.startswith("gelu_small: ")
    assert "fusion" in out
    assert "and 6 more\n" in out
    assert "\x1b" not in out


def test_terminals_get_bars(profile: Profile) -> None:
    assert "█" in text_of(profile, 5, is_terminal=True)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--format=json", GELU]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bound"] == found["fusions"][1]["bound"] == "DDR"
    assert [tiles["tiles"] for tiles in found["counters_by_tile"]] == [list(range(16))]


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--format=jsonl", GELU]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert list(dict.fromkeys(row["kind"] for row in rows)) == ["program", "fusion", "instruction", "engine"]


def test_an_empty_program_is_strict_json(capsys: pytest.CaptureFixture[str]) -> None:
    empty = str(Path(GELU).with_name("empty.hlo"))
    assert main(["profile", "--format=json", empty]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert found["roofline_ratio"] is None


def test_spm_is_what_is_used() -> None:
    executable = hlo2tx8.compile(GELU)
    used = executable.memory_analysis()["spm_size_in_bytes"]
    assert used == max(b.end for b in executable.program.buffers) - executable.chip.spm_allocation_start
    assert 0 < used < 1 << 20


def test_numbers_as_text() -> None:
    assert [size(n, "B") for n in (0, 999, 1000, 1234567, 5e12)] == ["0 B", "999 B", "1 kB", "1.23 MB", "5 TB"]
    assert [percent(s) for s in (0, 0.0123, 0.0996, 1)] == ["0.0%", "1.2%", "10%", "100%"]
    assert (bar(0), bar(1), bar(2)) == ("", "█" * 12, "█" * 12)
    table = Table(("name", ">n"), [("a", "10"), ("long", "7")])
    assert table.text(is_terminal=False) == "name   n\na     10\nlong   7\n"
