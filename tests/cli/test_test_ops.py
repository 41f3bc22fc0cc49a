"""`hlo2tx8 test-ops`: cases, the table, the page, the log, and what is wrong is said."""

import json
import sys
from pathlib import Path

import pytest

from hlo2tx8.tools.main import main
from hlo2tx8.tools.test_ops.cases import report
from hlo2tx8.tools.test_ops.command import page


def test_ops_of_a_pattern_run_and_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, html = tmp_path / "log.jsonl", tmp_path / "ops.html"
    flags = ["--only=stablehlo.xor/(bool|int8)$", "--samples=1", "--jobs=1", f"--log={log}", f"--report={html}"]
    assert main(["test-ops", *flags]) == 0
    assert "stablehlo.xor                       2       0        0" in capsys.readouterr().out
    assert [json.loads(line)["case"] for line in log.read_text().splitlines()] == ["stablehlo.xor/bool", "stablehlo.xor/int8"]
    assert "<td>stablehlo.xor</td><td>1 / 1</td><td>1 / 1</td>" in html.read_text()


def test_only_failures_that_are_not_known_decide(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(program: object, wanted: list[dict[str, object]], *_: object) -> list[dict[str, object]]:
        return [request | {"outcome": "failed", "cause": "wrong"} for request in wanted]

    monkeypatch.setattr("hlo2tx8.tools.test_ops.command.run_and_tell", run)
    flags = ["test-ops", "--only=stablehlo.xor/(bool|int8)$"]
    assert main(flags) == 1
    assert main([*flags, "--known=xor/(bool|int8)"]) == 0
    assert main([*flags, "--known=bool"]) == 1
    assert "1 failed that are known to, 1 others: stablehlo.xor/int8" in capsys.readouterr().out


def test_the_page_says_what_failed_and_escapes_it() -> None:
    made = {"op": "add", "dtype": "f32", "case": "add/f32"}
    outcomes = [made | {"outcome": "failed", "cause": "<5>"}, made | {"outcome": "passed", "cause": ""}]
    text = page("hlo", outcomes)
    assert '<td class="failed">1 / 2</td>' in text and "&lt;5&gt;" in text and "<5>" not in text
    assert "50.00 % of 2 cases pass" in report(outcomes, lambda outcome: outcome["op"])


@pytest.mark.parametrize(
    ("flag", "said"),
    [("--known=(", "regular expression"), ("--only=nothing", "has no such cases"), ("--only=(", "regular expression")],
)
def test_what_cannot_run_is_said(flag: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test-ops", flag]) == 1
    assert said in capsys.readouterr().err


def test_a_framework_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["test-ops", "--suite=onnx"]) == 1
    assert "pip install 'hlo2tx8[onnx]'" in capsys.readouterr().err
