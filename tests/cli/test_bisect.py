"""`hlo2tx8 bisect` finds seeded defects: the level and pass where they show, and the least that shows them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import SubfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.math import TanhOp

from hlo2tx8.lower.loops.flatten_tensors import FlattenTensorsPass
from hlo2tx8.lower.loops.simplify import SimplifyPass
from hlo2tx8.tools.main import main

MODULE = """HloModule m
fused {
  p = f32[6,33] parameter(0)
  q = f32[6,33] parameter(1)
  t = f32[6,33] tanh(p)
  n = f32[6,33] negate(q)
  s = f32[6,33] subtract(t, n)
  e = f32[6,33] exponential(s)
  ROOT r = (f32[6,33], f32[6,33]) tuple(e, n)
}
ENTRY main {
  a = f32[6,33] parameter(0)
  b = f32[33,6] parameter(1)
  m = f32[6,33] cosine(a)
  c = f32[6,33] transpose(b), dimensions={1,0}
  f = (f32[6,33], f32[6,33]) fusion(m, c), kind=kLoop, calls=fused
  x = f32[6,33] get-tuple-element(f), index=0
  y = f32[6,33] get-tuple-element(f), index=1
  ROOT z = f32[6,33] add(x, y)
}
"""


def swap_differences(module: ModuleOp, is_seen: Callable[[ModuleOp], bool] = lambda _: True) -> None:
    """a - b becomes b - a."""
    for op in module.walk():
        if isinstance(op, SubfOp) and is_seen(module):
            op.operands = (op.rhs, op.lhs)


def break_pass(monkeypatch: pytest.MonkeyPatch, kind: type, is_seen: Callable[[ModuleOp], bool]) -> None:
    correct = kind.apply

    def broken(self: object, ctx: Context, op: ModuleOp) -> None:
        correct(self, ctx, op)
        swap_differences(op, is_seen)

    monkeypatch.setattr(kind, "apply", broken)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "module.hlo"
    path.write_text(MODULE)
    return path


def test_nothing_is_found_where_nothing_is_wrong(module: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bisect", str(module)]) == 0
    assert (
        "nothing differs: hlo, fused, loops, flat, vector, scheduled, program, native core, strict mode" in capsys.readouterr().out
    )


def test_a_wrong_pass_is_named_with_one_instruction(
    module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    break_pass(monkeypatch, FlattenTensorsPass, lambda _: True)
    smallest = module.with_name("smallest.hlo")
    assert main(["bisect", str(module), f"--write={smallest}"]) == 1
    out = capsys.readouterr().out
    assert "right:       hlo, fused, loops\n" in out
    assert "first wrong: flat, after pass flatten-tensors\n" in out
    assert "smallest:    1 of 4 instructions" in out
    assert "does not fail" not in out
    text = smallest.read_text()
    assert " subtract(" in text and "tanh(" not in text and "fusion(" not in text
    assert "f32[1,1]{" in text and "f32[6,33]{" not in text
    flags = next(line for line in out.splitlines() if line.startswith("again:")).split()[2:]
    assert main(flags) == 1
    monkeypatch.undo()
    assert main(flags) == 0


def test_a_defect_of_two_instructions_together_keeps_their_fusion(
    module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    break_pass(monkeypatch, SimplifyPass, lambda m: any(isinstance(op, TanhOp) for op in m.walk()))
    smallest = module.with_name("smallest.hlo")
    assert main(["bisect", str(module), f"--write={smallest}"]) == 1
    out = capsys.readouterr().out
    assert "first wrong: loops, after pass simplify\n" in out
    text = smallest.read_text()
    assert text.count(" tanh(") == text.count(" subtract(") == 1
    assert not any(word in text for word in ("exponential", "cosine", "transpose", "negate", " add("))
