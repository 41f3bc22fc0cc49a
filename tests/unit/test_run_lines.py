"""The runner of RUN lines: what passes passes, and what must not pass fails with what was printed."""

from pathlib import Path

import pytest
from run_lines import Failure, OtherFormError, parse, run_test

GOOD = """// RUN: %opt -p simplify %s | filecheck %s
func.func @f(%x: f32) -> f32 {
  %unused = math.exp %x : f32
  func.return %x : f32
}
// CHECK:      func.func @f
// CHECK-NEXT: func.return
"""


def run(tmp_path: Path, text: str) -> Failure | None:
    path = tmp_path / "test.mlir"
    path.write_text(text)
    return run_test(path)


def test_good_test_passes(tmp_path: Path):
    assert run(tmp_path, GOOD) is None
    assert run(tmp_path, GOOD.replace("%opt -p simplify %s |", "%opt %s | %opt -p simplify |")) is None


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("-p simplify ", "", "FileCheck failed"),
        ("CHECK-NEXT: func.return", "CHECK-NOT: func.return", "FileCheck failed"),
        ("%opt", "not %opt", "exit code 0"),
        ("func.return %x", "func.return %y", "exit code 1"),
        ("-p simplify", "-p nothing-by-that-name", "exit code 1"),
    ],
)
def test_bad_test_fails(tmp_path: Path, old: str, new: str, reason: str):
    failure = run(tmp_path, GOOD.replace(old, new, 1))
    assert failure is not None
    assert failure.reason == reason


def test_expected_failures_pass_and_their_messages_are_checked(tmp_path: Path):
    text = "// RUN: not %opt %s 2>&1 | filecheck %s\nfunc.func @f() { nothing.known }\n// CHECK: nothing.known is not registered\n"
    assert run(tmp_path, text) is None
    failure = run(tmp_path, text.replace("CHECK: nothing", "CHECK: something"))
    assert failure is not None
    assert "is not registered" in failure.output


@pytest.mark.parametrize("line", ["rm -f %t", "%opt %s > %t", "%opt %s | grep x", "env A=1 %opt %s", "%opt %t"])
def test_other_lines_are_left_to_a_shell(line: str):
    with pytest.raises(OtherFormError):
        parse(line, Path("test.mlir"))
