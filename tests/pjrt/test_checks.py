"""jax on the device tx8, each file of checks/ in a process of its own: a plugin cannot be unloaded, and a crash is one failure."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.pjrt.run_checks import environment

HERE = Path(__file__).parent
CHECKS = sorted((HERE / "checks").glob("*.py"))


SLOW = ("eigenvalues", "linear_algebra")
"""Half a minute of processor time: many programs are compiled."""
BARE = ("arrays",)
"""See what is imported when."""


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=file.stem, marks=pytest.mark.slow if file.stem in SLOW else ()) for file in CHECKS]
)
def test_checks(file: Path, tmp_path: Path, forks: Forks):
    arguments, own = [str(HERE / "run_checks.py"), str(file)], environment(file, tmp_path)
    if file.stem in BARE:
        pipe = subprocess.PIPE
        child = subprocess.Popen([sys.executable, "-X", "faulthandler", *arguments], env=own, stdout=pipe, stderr=pipe, text=True)
    else:
        child = forks.start(arguments, own)
    _, errors = child.communicate(timeout=240)
    assert child.returncode == 0, errors
