"""jax on the device tx8, each file of checks/ in a process of its own: a plugin cannot be unloaded, and a crash is one failure."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pjrt.run_checks import environment

HERE = Path(__file__).parent
CHECKS = sorted((HERE / "checks").glob("*.py"))


SLOW = ("eigenvalues", "linear_algebra")
"""Half a minute of processor time: many programs are compiled."""


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=file.stem, marks=pytest.mark.slow if file.stem in SLOW else ()) for file in CHECKS]
)
def test_checks(file: Path, tmp_path: Path):
    command = [sys.executable, "-X", "faulthandler", str(HERE / "run_checks.py"), str(file)]
    run = subprocess.run(command, env=environment(file, tmp_path), capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr
