"""What is imported is declared in pyproject.toml, and the ranges declared are those that are tested."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: [Requirement(text) for text in texts] for name, texts in PROJECT["optional-dependencies"].items()}
DEPENDENCIES = [Requirement(text) for text in PROJECT["dependencies"]]
OURS = {"hlo2tx8", "benchmarks", "examples", "tests"}
NOT_ALWAYS_INSTALLED = {
    "keras": ["tensorflow-cpu"],
    "model_explorer": ["ai-edge-model-explorer"],
    "sklearn": ["scikit-learn"],
    "tensorflow": ["tensorflow-cpu"],
}
"""Modules of extras that a developer's environment may lack, by distribution."""


def imported(folder: Path) -> dict[str, Path]:
    """Top-level modules that files of the folder import, also by `import_module("name")`, and a file that does."""
    found: dict[str, Path] = {}
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Import():
                    names = [alias.name for alias in node.names]
                case ast.ImportFrom(module=str(module), level=0):
                    names = [module]
                case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(module)), *_]):
                    names = [module]
                case _:
                    continue
            found |= {name.partition(".")[0]: file for name in names}
    return found


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("hlo2tx8", ("explorer", "onnx", "report", "tensorflow", "torch")),
        ("examples", ("examples", "serving")),
        ("benchmarks", ("test",)),
        ("tests", ("test", "corpora", "examples", "onnx", "tensorflow", "torch")),
    ],
)
def test_what_is_imported_is_declared(folder: str, extras: tuple[str, ...]):
    declared = {canonicalize_name(r.name) for r in (*DEPENDENCIES, *(r for extra in extras for r in EXTRAS[extra]))}
    distributions = {**NOT_ALWAYS_INSTALLED, **packages_distributions()}
    siblings = {file.stem for file in (ROOT / folder).rglob("*.py")}
    missing = {
        name: file.relative_to(ROOT)
        for name, file in imported(ROOT / folder).items()
        if name not in sys.stdlib_module_names
        and name not in OURS | siblings
        and not declared & {canonicalize_name(distribution) for distribution in distributions.get(name, [name])}
    }
    assert not missing, f"imported and not declared in pyproject.toml: {missing}"


def pins(name: str) -> dict[str, Version]:
    """The versions of a file of `name==version` lines."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(line.partition("==")[0]): Version(line.partition("==")[2]) for line in lines}


def test_the_lowest_versions_are_those_that_are_tested():
    lower = {canonicalize_name(r.name): Version(s.version) for r in DEPENDENCIES for s in r.specifier if s.operator == ">="}
    assert pins("tests/versions/lowest.txt") == lower


def test_the_newest_versions_are_in_range_and_next_to_its_end():
    """A range with an upper end ends right behind a version that is tested."""
    bounded = {canonicalize_name(r.name): r for r in DEPENDENCIES if "<" in {s.operator for s in r.specifier}}
    newest = pins("tests/versions/newest.txt")
    assert set(newest) == set(bounded)
    for name, requirement in bounded.items():
        (end,) = (Version(s.version) for s in requirement.specifier if s.operator == "<")
        version = newest[name]
        assert version in requirement.specifier
        major, minor, micro = version.release
        assert end in (Version(f"{major}.{minor + 1}"), Version(f"{major}.{minor}.{micro + 1}"))


def test_the_lock_holds_what_is_declared():
    locked = pins("requirements-dev.lock")
    extras = [r for extra in ("test", "docs", "examples", "dev") for r in EXTRAS[extra] if r.name != "hlo2tx8"]
    missing = [r.name for r in (*DEPENDENCIES, *extras) if canonicalize_name(r.name) not in locked]
    assert not missing, f"requirements-dev.lock lacks {missing}; run `make lock`"
    wrong = [str(r) for r in (*DEPENDENCIES, *extras) if locked[canonicalize_name(r.name)] not in r.specifier]
    assert not wrong, f"requirements-dev.lock does not satisfy {wrong}; run `make lock`"


@pytest.mark.parametrize(
    "name", ["requirements-dev.lock", ".pre-commit-config.yaml", "tests/versions/lowest.txt", "tests/versions/newest.txt"]
)
def test_no_host_is_named(name: str):
    """Packages and hooks come by name from wherever the developer's tools are set up to look."""
    assert not re.search(r"https?://|file://|index-url|trusted-host", (ROOT / name).read_text())
