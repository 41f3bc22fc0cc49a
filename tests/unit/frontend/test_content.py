"""What files hold is told from their bytes: text with or without a header, bytecode, protos, packed or not."""

import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.compiler import driver
from hlo2tx8.errors import InputError, ParseError
from hlo2tx8.frontend import load, shim, to_mlir_text
from hlo2tx8.options import Options
from hlo2tx8.protobuf import message

HLO = """HloModule m
ENTRY main {
  x = f32[3] parameter(0)
  ROOT r = f32[3] negate(x)
}
"""
BARE = """%half (p: f32[3]) -> f32[3] {
  p = f32[3] parameter(0)
  ROOT h = f32[3] add(p, p)
}
ENTRY main {
  x = f32[3] parameter(0)
  ROOT r = f32[3] fusion(x), kind=kLoop, calls=half
}
"""
ELIDED = """HloModule m
ENTRY main {
  c = f32[64,33]{0,1} constant({...})
  n = s8[64,33] constant({ ... }), metadata={op_name="n"}
  f = f32[64,33] convert(n)
  ROOT r = f32[64,33] multiply(c, f)
}
"""


@pytest.fixture(scope="module")
def proto() -> bytes:
    return shim._hlo_bindings().hlo_module_from_text(HLO).as_serialized_hlo_module_proto()


def text_of(source) -> str:
    return to_mlir_text(load(source)).partition("{")[2]


def test_text_with_marks_and_line_ends_of_windows(tmp_path: Path):
    for name, text in (("a.hlo", HLO), ("a.mlir", to_mlir_text(load(HLO)))):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
        assert "stablehlo.negate" in text_of(tmp_path / name)


@pytest.mark.parametrize("name", ["a.hlo", "a.txt", "a"])
def test_hlo_without_a_header(name: str, tmp_path: Path):
    (tmp_path / name).write_text(BARE)
    assert text_of(tmp_path / name) == text_of(BARE) == text_of(BARE.encode())


def test_protos_of_every_kind(proto: bytes, tmp_path: Path):
    in_snapshot = message(1, message(1, proto))
    for kind in (proto, message(1, proto), in_snapshot):
        (tmp_path / "a.pb").write_bytes(kind)
        assert text_of(tmp_path / "a.pb") == text_of(HLO)


@pytest.mark.parametrize("name", ["a.hlo.gz", "a.gz", "a"])
def test_packed(name: str, proto: bytes, tmp_path: Path):
    for data in (HLO.encode(), to_mlir_text(load(HLO)).encode(), *((proto,) if name != "a.hlo.gz" else ())):
        (tmp_path / name).write_bytes(gzip.compress(data, mtime=0))
        if name != "a.hlo.gz" or data.startswith(b"HloModule"):
            assert "stablehlo.negate" in text_of(tmp_path / name)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"\x1f\x8b\x00", InputError, "not a sound gzip file"),
        (gzip.compress(HLO.encode(), mtime=0)[:-9], InputError, "not a sound gzip file: it ends early"),
        (b"PK\x03\x04", InputError, "a compiled program, not a module"),
        (b"\xff\xfe\x00\x01", ParseError, "neither text, MLIR bytecode nor an HLO proto"),
        (b"\x0a\x02ab\xff", ParseError, "neither text, MLIR bytecode nor an HLO proto"),
    ],
)
def test_what_is_none_of_these(data: bytes, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        load(data)


def test_a_format_that_does_not_exist():
    with pytest.raises(InputError, match="unknown input format tflite"):
        load(HLO, format="tflite")


def test_text_is_no_onnx_model():
    with pytest.raises(ParseError, match="no ONNX model but text"):
        load(HLO, format="onnx")


def test_format_mlir():
    assert "stablehlo.negate" in to_mlir_text(load(to_mlir_text(load(HLO)), format="mlir"))


def test_stdin(monkeypatch: pytest.MonkeyPatch):
    driver._from_stdin.cache_clear()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(HLO.encode())))
    for _ in range(2):
        assert "stablehlo.negate" in to_mlir_text(driver.load_source("-"))
    driver._from_stdin.cache_clear()


def test_constants_that_were_left_out_are_the_same_in_every_run():
    with pytest.warns(UserWarning, match=r"elements left out of the text \(2 x constant"):
        first, again = (hlo2tx8.compile(ELIDED).run() for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert 0 < first.max() < 1
    assert len(np.unique(first)) > 500


def test_or_zeros():
    with pytest.warns(UserWarning, match="are zeros"):
        assert not np.any(hlo2tx8.compile(ELIDED, options=Options(fill_elided_constants="zeros")).run())
