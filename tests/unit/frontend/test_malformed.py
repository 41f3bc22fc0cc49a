"""Malformed input is an error with its place, never an abort; the parser child survives or is replaced."""

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hlo2tx8.errors import CapacityError, CompileError, ParseError
from hlo2tx8.frontend import load
from hlo2tx8.frontend.hlo_text import Child, HloTextParser
from hlo2tx8.frontend.walker import MOST_AROUND

GOOD = "HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] add(p, p)\n}"


def hlo(root: str, parameter: str = "f32[4]") -> str:
    return f"HloModule m\nENTRY e {{\n  p = {parameter} parameter(0)\n  ROOT r = {root}\n}}"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (hlo("f32[3] reshape(p)"), "4:12", "f32[4] cannot be reshaped to f32[3]"),
        (hlo("f32[4] addd(p, p)"), "4:19", "Unknown opcode: addd"),
        (hlo("f32[4] add(p, q)"), "4:26", "instruction name"),
        (hlo("f32[5] add(p, p)"), "4:8", "requires the same shape"),
        (hlo("f32[3,5] broadcast(p), dimensions={0}"), "4:8", "size of operand dimension 0 (4)"),
        (hlo("f32[4] constant({1,2,3})"), "4:34", "expects 4 elements"),
        ("HloModule m\n", "1:11", "expects name"),
        (GOOD + "\n" + GOOD, "6:1", "a second module begins here"),
    ],
)
def test_hlo_with_place(text: str, place: str, message: str, tmp_path: Path):
    path = tmp_path / "bad.hlo"
    path.write_text(text)
    with pytest.raises(ParseError) as caught:
        load(path)
    assert caught.value.message.startswith(f"{path}:{place}: ")
    assert message in caught.value.message and "\n" not in caught.value.message
    assert load(GOOD)


@pytest.mark.parametrize("text", [hlo("f32[4] add(p, p)").replace("(0)", "(3)"), hlo("f32[4,4] add(p, p)", "f32[4,4]{1,1}")])
def test_hlo_without_place(text: str):
    with pytest.raises(ParseError, match="<text>: "):
        load(text)


def test_bitcast_between_sizes():
    with pytest.raises(CompileError, match="a bitcast of 128 bits to 96 bits"):
        load(hlo("f32[3] bitcast(p)"))
    assert load(hlo("f32[2,2] bitcast(p)")) and load(hlo("s8[16] bitcast(p)"))


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("%0 = stablehlo.addd %a, %a : tensor<2xf32>\n  return %0 : tensor<2xf32>", "2:8"),
        ("%0 = stablehlo.reshape %a : (tensor<2xf32>) -> tensor<3xf32>\n  return %a : tensor<2xf32>", "2:8"),
        ("return %b : tensor<2xf32>", "2:10"),
    ],
)
def test_stablehlo(body: str, place: str, tmp_path: Path):
    path = tmp_path / "bad.mlir"
    path.write_text(f"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n  {body}\n}}\n")
    with pytest.raises(ParseError) as caught:
        load(path)
    assert caught.value.message.startswith(f"{path}:{place}: ") and caught.value.code == "E1003"


@pytest.mark.parametrize("data", [b"ML\xefRgarbage", b"\x00\x01\x02"])
def test_bytes(data: bytes):
    with pytest.raises(ParseError):
        load(data)


def test_the_child_stays_and_is_replaced_after_it_died():
    parser = HloTextParser()
    assert parser.parse(GOOD, "a")
    first = parser.child
    assert first is not None and parser.parse(GOOD, "a") and parser.child is first
    with pytest.raises(ParseError):
        parser.parse(hlo("f32[4] addd(p, p)"), "a")
    assert parser.child is first
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert parser.parse(GOOD, "a") and parser.child is not first
    with pytest.raises(ParseError):
        parser.parse(hlo("f32[3] reshape(p)"), "a")
    assert parser.child is None
    assert parser.parse(GOOD, "a")
    last = parser.child
    del parser
    assert last is not None and last.process.wait(10) == -signal.SIGKILL


def test_a_child_that_does_not_answer_is_ended(tmp_path: Path):
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time; time.sleep(60)")
    parser = HloTextParser(seconds=0.3, start=lambda: Child.start((str(sleeper),)))
    with pytest.raises(ParseError, match=r"took more than 0\.3 s"):
        parser.parse(GOOD, "slow")
    assert parser.child is None


def test_a_child_on_which_a_parser_hangs_ends_where_nobody_waits_for_it():
    hang = "import time; from hlo2tx8.frontend.shim import serve; serve(lambda *_: time.sleep(60), seconds=1)"
    request = struct.pack("<?Q", False, 1) + b"x"
    child = subprocess.run([sys.executable, "-c", hang], check=False, input=request, capture_output=True, timeout=30)
    assert child.returncode == -signal.SIGALRM and child.stdout == b""


def _nested(count: int) -> str:
    begins = "".join(f'%r{k} = "stablehlo.if"(%p) ({{\n' for k in range(count))
    ends = "".join(
        "stablehlo.return %a : tensor<2xf32> }, { stablehlo.return %a : tensor<2xf32> }) : (tensor<i1>) -> tensor<2xf32>\n"
        for _ in range(count)
    )
    return f"func.func @main(%a: tensor<2xf32>, %p: tensor<i1>) -> tensor<2xf32> {{\n{begins}{ends}return %a : tensor<2xf32>\n}}"


def test_control_flow_is_nested_to_a_limit():
    assert load(_nested(MOST_AROUND), clean_up=False)
    with pytest.raises(CapacityError, match=f"more than {MOST_AROUND} deep") as caught:
        load(_nested(MOST_AROUND + 1), clean_up=False)
    assert caught.value.origin == f"<text>:{MOST_AROUND + 2}:8"


_BROADCAST = """func.func @main(%x: tensor<5x5xf32>, %y: tensor<5xf32>) -> tensor<5x5xf32> {
  %0 = chlo.broadcast_add %x, %y {broadcast_dimensions = array<i64: -1>} : (tensor<5x5xf32>, tensor<5xf32>) -> tensor<5x5xf32>
  return %0 : tensor<5x5xf32>
}"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_nested(10_000), "brackets are open at once"),
        (f"func.func @main(%a: {'tuple<' * 3000}tensor<f32>{'>' * 3000}) {{ return }}", "brackets are open at once"),
        (f"func.func @main(%a: {'tuple<' * 1500}tensor<f32>{'>' * 1500}) {{ return }}", "too deep inside each other"),
        ("func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  return %a#2147483648 : tensor<f32>\n}", ":2: an operation with"),
        (_BROADCAST, ":2: broadcast_dimensions must not be negative"),
        ('func.func @main() {\n  "other"() ({}) : () -> ()\n  return\n}', "symbol"),
    ],
)
def test_mlir_that_would_end_the_process(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        load(text)


def test_recursion_is_named():
    functions = (
        f"func.func private @{name}(%a: tensor<f32>) -> tensor<f32> {{\n"
        f"  %0 = call @{callee}(%a) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}}"
        for name, callee in (("main", "f"), ("f", "g"), ("g", "f"))
    )
    with pytest.raises(CompileError, match="recursion: @f calls @g calls @f") as caught:
        load("\n".join(functions).replace("private @main", "@main"))
    assert caught.value.origin == "<text>:10:8"


def _doubling(levels: int, last: str = "%1 = stablehlo.negate %a : tensor<f32>") -> str:
    """Functions that call the one before twice, and one with `last` above them."""
    bodies = ["%1 = stablehlo.tanh %a : tensor<f32>"]
    for n in range(levels):
        bodies.append(f"%0 = call @f{n}(%a) : (tensor<f32>) -> tensor<f32>\n%1 = call @f{n}(%0) : (tensor<f32>) -> tensor<f32>")
    bodies.append(last)
    names = [*(f"private @f{n}" for n in range(levels + 1)), "@main"]
    begin, end = "(%a: tensor<f32>) -> tensor<f32> {\n", "\nreturn %1 : tensor<f32>\n}\n"
    return "".join(f"func.func {name}{begin}{body}{end}" for name, body in zip(names, bodies, strict=True))


SUM = """%v = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<4xf32>
%1 = "stablehlo.reduce"(%v, %a) ({
^bb0(%x: tensor<f32>, %y: tensor<f32>):
  %s = stablehlo.add %x, %y : tensor<f32>
  %r = call @f40(%s) : (tensor<f32>) -> tensor<f32>
  stablehlo.return %r : tensor<f32>
}) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"""


def test_calls_that_multiply_are_refused_where_elements_are_combined():
    assert load(_doubling(5)) and load(_doubling(40))
    with pytest.raises(CapacityError, match="operations when each call is the body") as caught:
        load(_doubling(40, SUM))
    assert caught.value.origin


def test_layouts_name_each_dimension_once():
    layouts = "entry_computation_layout={(f32[2,3]{7,1})->f32[2,3]{1,0}}"
    with pytest.raises(ParseError, match=r"\{7,1\} is no layout of 2 dimensions"):
        load(f"HloModule m, {layouts}\nENTRY e {{\n  ROOT p = f32[2,3] parameter(0)\n}}")
