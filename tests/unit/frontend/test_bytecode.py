"""Bytecode is read in a child first: what ends a reader is an error of ours, by every door, and sound modules stay as they are."""

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import hlo2tx8
from hlo2tx8.errors import ParseError
from hlo2tx8.frontend import load, shim
from hlo2tx8.tools.main import main

TEXT = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %b = stablehlo.add %a, %a : tensor<2xf32>
  return %b : tensor<2xf32>
}"""


def bytecode(change: Callable[[object], None] = lambda module: None) -> bytes:
    """The module, perhaps with something changed, as bytecode."""
    context = shim.make_context()
    module = shim.parse_module(TEXT, context)
    with context:
        change(module)
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
    return stream.getvalue()


def nest(module: object) -> None:
    """Tuples in tuples, as an attribute of the module."""
    ir = shim.ir()
    inner = ir.TupleType.get_tuple([])
    for _ in range(20000):
        inner = ir.TupleType.get_tuple([inner])
    module.operation.attributes["a.b"] = ir.TypeAttr.get(inner)


NO_NAME = bytecode().replace(b"main", b"ma\xffn")


def test_sound_modules_stay_as_they_are():
    given = bytecode()
    artifact = shim.portable_artifact(shim.parse_module(TEXT, shim.make_context()))
    text = str(load(TEXT)).replace("<text>", "")
    for data in (given, artifact):
        assert str(load(data)).replace("<bytes>", "") == str(load(data, is_sound=True)).replace("<bytes>", "")
        assert str(load(data)).count("stablehlo.add") == text.count("stablehlo.add") == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bytecode(nest), "malformed MLIR bytecode: the parser died without a message\n  hint: it is damaged, or"),
        (NO_NAME, "<bytes>: "),
        (bytecode()[:-9], "<bytes>: "),
        (b"ML\xefR", "<bytes>: "),
    ],
    ids=["deep", "no name", "short", "nothing"],
)
def test_what_ends_a_reader_is_an_error(data: bytes, message: str):
    with pytest.raises(ParseError) as caught:
        load(data)
    assert caught.value.code == "E1003"
    assert message in str(caught.value)
    assert load(bytecode())


@pytest.mark.parametrize("command", ["run", "compile", "check", "profile", "bisect"])
def test_every_command_is_safe(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "module.mlirbc"
    path.write_bytes(NO_NAME)
    assert main([command, str(path)]) == 1
    assert "error E1003: " in capsys.readouterr().err


def test_every_source_is_safe(tmp_path: Path):
    path = tmp_path / "module"
    path.write_bytes(NO_NAME)
    for source in (NO_NAME, path, str(path), SimpleNamespace(mlir_module_serialized=NO_NAME)):
        with pytest.raises(ParseError):
            hlo2tx8.compile(source)
