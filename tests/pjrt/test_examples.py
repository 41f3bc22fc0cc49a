"""The examples, made small: each in a process of its own, on the device."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from tests.forks import Forks

ROOT = Path(__file__).parents[2]
NAMES = {file.stem for file in (ROOT / "examples").glob("*.py") if "def main" in file.read_text()}
SMALL = {
    "resnet_block": (("--size=8", "--channels=8"), ("difference to cpu", "maximum_fusion_1")),
    "text": (("--steps=1", "--letters=2"), ("the program ",)),
    "digits_mlp": (("--epochs=1",), ("epoch 1: 85.3 % of 360",)),
    "digits_cnn": (("--epochs=1",), ("epoch 1: 65.0 % of 360",)),
}
"""Flags, and what is printed: accuracies are those of the same command with --platform=cpu."""
SLOW = ("text", "digits_cnn")


def test_every_example_is_here_and_in_the_documents():
    assert set(SMALL) == NAMES
    text = (ROOT / "docs" / "jax_support.md").read_text()
    assert all(f"examples.{name}" in text for name in NAMES)


def test_without_the_digits_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(SystemExit, match=r"the digits come with scikit-learn: pip install -e \.\[examples\]"):
        importlib.import_module("examples.digits").load()


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in SMALL])
def test_example(name: str, tmp_path: Path, forks: Forks):
    if name.startswith("digits"):
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn, an optional dependency")
    flags, printed = SMALL[name]
    trace = tmp_path / "trace.json"
    child = forks.start(["-m", f"examples.{name}", f"--trace={trace}", *flags], os.environ)
    output, errors = child.communicate(timeout=200)
    assert child.returncode == 0, errors
    assert all(words in output for words in (*printed, "us modelled on the chip")), output
    assert trace.stat().st_size > 1000
