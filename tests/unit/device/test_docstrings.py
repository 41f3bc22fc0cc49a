"""Every public name of the device says what it is or does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

DEVICE = Path(__file__).parents[3] / "hlo2tx8" / "device"


def unexplained(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    """Public classes, functions and methods without a docstring."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and not child.name.startswith("_"):
            if not ast.get_docstring(child):
                yield prefix + child.name
            if isinstance(child, ast.ClassDef):
                yield from unexplained(child, f"{prefix}{child.name}.")


@pytest.mark.parametrize("file", sorted(DEVICE.rglob("*.py")), ids=lambda f: str(f.relative_to(DEVICE)))
def test_public_names_have_docstrings(file: Path) -> None:
    assert not list(unexplained(ast.parse(file.read_text())))
