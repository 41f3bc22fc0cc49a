"""What setup.py says and does where no compiler runs, or one that cannot do everything."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`setup.py build_ext` into the folder."""
    command = [sys.executable, "setup.py", "-q", "build_ext", f"--build-lib={folder}", f"--build-temp={folder / 'objects'}"]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)


def test_without_a_compiler_the_build_ends_with_what_to_install(tmp_path: Path):
    built = build(tmp_path, CC=str(tmp_path / "cc"))
    assert built.returncode != 0
    assert "hlo2tx8 needs a C compiler to be built from source" in built.stderr
    assert "HLO2TX8_WITHOUT_NATIVE=1" in built.stderr and "Traceback" not in built.stderr


def test_the_native_libraries_can_be_left_out(tmp_path: Path):
    built = build(tmp_path, CC=str(tmp_path / "cc"), HLO2TX8_WITHOUT_NATIVE="1")
    assert built.returncode == 0, built.stderr
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.parametrize("takes", [True, False])
def test_the_core_is_optimised_as_a_whole_where_the_compiler_can(tmp_path: Path, takes: bool):
    compiler, log = tmp_path / "cc", tmp_path / "log"
    made = 'while [ $# -gt 0 ]; do [ "$1" = -o ] && touch "$2"; shift; done'
    refuses = "" if takes else 'case "$*" in *-flto*) exit 1;; esac\n'
    compiler.write_text(f'#!/bin/sh\n{refuses}echo "$@" >> {log}\n{made}\n')
    compiler.chmod(0o755)
    built = build(tmp_path / "build", CC=str(compiler), HLO2TX8_LEVELS="v2")
    assert built.returncode == 0, built.stderr
    of_core = [line for line in log.read_text().splitlines() if "device.native" in line]
    assert of_core and all(("-flto" in line) is takes for line in of_core)


def test_a_wheel_is_for_every_python(tmp_path: Path):
    steps = ["egg_info", f"--egg-base={tmp_path}", "build", f"--build-base={tmp_path / 'build'}"]
    wheel = ["bdist_wheel", f"--bdist-dir={tmp_path / 'wheel'}", f"--dist-dir={tmp_path / 'dist'}"]
    environment = os.environ | {"HLO2TX8_WITHOUT_NATIVE": "1"}
    command = [sys.executable, "setup.py", "-q", *steps, *wheel]
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    assert [path.name.partition("-py3-none-")[1] for path in (tmp_path / "dist").iterdir()] == ["-py3-none-"]
