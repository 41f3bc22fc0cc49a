"""jax on the device tx8, each file of checks/ in a process of its own: a plugin cannot be unloaded, and a crash is one failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKS = sorted((HERE / "checks").glob("*.py"))


SLOW = ("eigenvalues", "linear_algebra")
"""Half a minute of processor time: many programs are compiled."""
OPTIONS = {"devices": "chips:4", "shardings": "chips:4"}


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=file.stem, marks=pytest.mark.slow if file.stem in SLOW else ()) for file in CHECKS]
)
def test_checks(file: Path, tmp_path: Path):
    environment = os.environ | {"JAX_PLATFORMS": "tx8,cpu", "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), *sys.path])}
    environment["JAX_PJRT_CLIENT_CREATE_OPTIONS"] = OPTIONS.get(file.stem, "chips:1")
    if file.stem == "dumps":
        environment["XLA_FLAGS"] = f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=fusions"
    command = [sys.executable, "-X", "faulthandler", str(HERE / "run_checks.py"), str(file)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr
