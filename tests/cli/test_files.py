"""Every kind of file, packed or not, by every command that takes a module."""

import gzip
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

import hlo2tx8
from hlo2tx8.compiler import driver
from hlo2tx8.frontend import load, shim, to_mlir_text
from hlo2tx8.protobuf import message
from hlo2tx8.tools.main import main

BARE = "ENTRY main {\n  x = f32[3] parameter(0)\n  ROOT r = f32[3] negate(x)\n}\n"
HLO = f"HloModule m\n{BARE}"
COMMANDS = (["run"], ["compile"], ["compile", "--explain"], ["check"], ["profile"], ["bisect"])
KINDS = ("a.hlo", "bare.hlo", "marked.hlo", "a.mlir", "a.mlirbc", "module.pb", "proto.pb", "a.tx8x")
ELIDED = """HloModule m
ENTRY main {
  a = f32[9,33] constant({...})
  b = f32[9,33] constant({...})
  ROOT r = f32[9,33] multiply(a, b)
}
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """What files of each kind hold, by name."""
    mlir = to_mlir_text(load(HLO))
    proto = shim._hlo_bindings().hlo_module_from_text(HLO).as_serialized_hlo_module_proto()
    saved = tmp_path_factory.mktemp("saved") / "a.tx8x"
    hlo2tx8.compile(HLO).save(saved)
    found = {
        "a.hlo": HLO.encode(),
        "bare.hlo": BARE.encode(),
        "marked.hlo": b"\xef\xbb\xbf" + HLO.replace("\n", "\r\n").encode(),
        "a.mlir": mlir.encode(),
        "a.mlirbc": shim.bytecode(shim.parse_module(mlir, shim.make_context())),
        "module.pb": proto,
        "proto.pb": message(1, proto),
        "a.tx8x": saved.read_bytes(),
    }
    assert tuple(found) == KINDS
    return found


@pytest.mark.parametrize("is_packed", [False, True], ids=["", "gzip"])
@pytest.mark.parametrize("name", KINDS)
def test_every_command_takes_it(
    name: str, is_packed: bool, files: Mapping[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / (f"{name}.gz" if is_packed else name)
    path.write_bytes(gzip.compress(files[name], mtime=0) if is_packed else files[name])
    ended = [main([*command, str(path)]) for command in COMMANDS]
    assert ended == [0] * len(COMMANDS), capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in KINDS if name != "a.tx8x"])
def test_so_does_stdin(name: str, files: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for command in COMMANDS:
        driver._from_stdin.cache_clear()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(files[name])))
        assert main([*command, "-"]) == 0, capsys.readouterr().err
    driver._from_stdin.cache_clear()


def test_a_packed_program_that_ends_early(files: Mapping[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "a.tx8x.gz"
    path.write_bytes(gzip.compress(files["a.tx8x"], mtime=0)[:-20])
    assert main(["run", str(path)]) == 1
    assert "a.tx8x.gz is not a sound gzip file: it ends early" in capsys.readouterr().err


@pytest.mark.parametrize(("filling", "said"), [("random", "random numbers, the same in every run"), ("zeros", "zeros")])
def test_elided_constants_are_one_warning(filling: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "elided.hlo").write_text(ELIDED)
    assert main(["run", f"--fill_elided_constants={filling}", str(tmp_path / "elided.hlo")]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")] == [
        f"warning: {tmp_path}/elided.hlo: elements left out of the text (2 x constant({{...}})) are {said}"
    ]
