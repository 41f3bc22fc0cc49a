"""Pages about the code say what the code says."""

import argparse
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from hlo2tx8.dev.docs import PAGES
from hlo2tx8.tools.main import parser

ROOT = Path(__file__).parents[2]


def test_every_error_code_has_a_page():
    """Raised codes are spelled out where they are raised; a page is of one code or of a family such as E30xx."""
    pages = {page.stem for page in (ROOT / "docs" / "errors").glob("*.md")}
    codes = {code for file in (ROOT / "hlo2tx8").rglob("*.py") for code in re.findall(r'"(E\d{4})"', file.read_text())}
    assert {code for code in codes if code not in pages and f"{code[:3]}xx" not in pages} == set()
    known = re.findall(r"\bE1\d{3}\b", (ROOT / "hlo2tx8" / "errors.py").read_text())
    assert {page for page in pages if page.startswith("E1")} <= {*known, *codes}


def test_pages_begin_with_their_code():
    for page in sorted((ROOT / "docs" / "errors").glob("*.md")):
        assert page.read_text().startswith(f"# {page.stem}: ")


def test_make_targets_explain_themselves():
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == set(re.findall(r"^([a-z-]+):.*## \S", text, re.MULTILINE))


def test_links_between_pages_lead_somewhere():
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize(("name", "make"), PAGES, ids=lambda v: v if isinstance(v, str) else "")
def test_generated_pages_are_current(name: str, make: Callable[[], str]):
    assert (ROOT / "docs" / name).read_text() == make(), f"docs/{name} is stale; run `make docs`"


def test_every_flag_is_on_the_command_line_page():
    page = (ROOT / "docs" / "cli.md").read_text()
    commands = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    flags = {
        flag
        for name in ("run", "compile", "profile", "report", "check", "bisect")
        for action in commands.choices[name]._actions
        for flag in action.option_strings
        if flag.startswith("--") and action.help != argparse.SUPPRESS and flag != "--help"
    }
    assert {flag for flag in flags if f"`{flag}" not in page} == set()


def test_the_example_of_a_program_by_hand_runs(capsys: pytest.CaptureFixture[str]):
    example = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "assembler.md").read_text(), re.DOTALL)
    assert example
    exec(compile(example[1], "assembler.md", "exec"), {})
    assert capsys.readouterr().out.endswith("DDR\n")


def test_the_readme_is_true(capsys: pytest.CaptureFixture[str]):
    """Its Python runs, on fewer rows; its commands are commands, on files that are there, and its examples are there."""
    page = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    for program in [text for kind, text in blocks if kind == "python"]:
        exec(compile(program.replace("512", "2"), "README.md", "exec"), names)
    assert "module @jit_gelu" in capsys.readouterr().out
    lines = [shlex.split(line, comments=True) for kind, text in blocks if not kind for line in text.splitlines()]
    commands = [line[1:] for line in lines if line[:1] == ["hlo2tx8"]]
    assert len(commands) > 3
    for command in commands:
        args = parser().parse_args(command)
        assert all(any(ROOT.glob(file)) for file in getattr(args, "files", None) or [args.file])
    examples = {line[2] for line in lines if line[:2] == ["python", "-m"] and line[2].startswith("examples.")}
    assert all((ROOT / f"{name.replace('.', '/')}.py").exists() for name in examples)
    assert len(examples) > 1
