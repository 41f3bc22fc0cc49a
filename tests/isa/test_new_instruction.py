"""The recipe "add a CT instruction": one class, followed in a copy of the package.

The copy gets the class and a core built of it, nothing else by hand; then the derived tests of tests/isa run there,
which compare the native core with the definition bit for bit, status bits included.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hlo2tx8.device.native import loader

ROOT = Path(__file__).parents[2]
CLASS = '''

@instruction
class CtProductLess(CtVV):
    """dst[i] = a[i] * b[i] - a[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VV_product_less"
    OPCODE = 400
    COMPUTE = lambda a, b: a * b - a
    EXPRESSION = number("x * y - x")
    EXACT = exactness.Exactness(lambda r, x, y: x * y - x == r, "x * y - x == r")


@instruction
class CtTwice(CtV):
    """dst[i] = src[i] + src[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_twice"
    OPCODE = 401
    COMPUTE = lambda x: x + x
    EXPRESSION = number("x + x")
    EXACT = exactness.SUM
'''
CHECK = """
import numpy as np
from test_status import FP32, INEXACT, Status, status
from hlo2tx8.device import native
from hlo2tx8.device.isa.ct_arith import CtProductLess, CtTwice

assert native.available(), native.why_not()
assert status(CtProductLess, {"a": [3.0], "b": [5.0]}, FP32) == Status.NONE
assert status(CtProductLess, {"a": [1 + 2**-23], "b": [1 + 2**-23]}, FP32) == INEXACT
assert status(CtTwice, {"src": [1.5]}, FP32) == Status.NONE
assert status(CtTwice, {"src": [3e38]}, FP32) & Status.OVERFLOW
"""
OPTIONS = ("-O1", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing")


def run(copy: Path, *command: str) -> str:
    """Output of a command in the copy; fails with what it printed."""
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'tests' / 'isa'}"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="no C compiler")
def test_one_class_is_all(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "hlo2tx8", tmp_path / "hlo2tx8", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copytree(ROOT / "tests" / "isa", tmp_path / "tests" / "isa", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "hlo2tx8" / "device" / "isa" / "ct_arith.py").open("a") as file:
        file.write(CLASS)
    run(tmp_path, sys.executable, "-m", "hlo2tx8.device.native.generate", "generated")
    native = tmp_path / "hlo2tx8" / "device" / "native"
    sources = [str(path) for path in sorted(native.glob("*.c"))]
    library = str(native / f"core_{loader.LEVELS[0]}.so")
    compiler = os.environ.get("CC", "cc")
    run(
        tmp_path,
        compiler,
        *OPTIONS,
        "-Wno-psabi",
        "-fPIC",
        "-shared",
        "-pthread",
        "-Igenerated",
        f"-I{native}",
        *sources,
        "-lm",
        "-o",
        library,
    )
    run(tmp_path, sys.executable, "-c", CHECK)
    tests = ("tests/isa/test_native.py", "tests/isa/test_status.py", "tests/isa/test_encoding.py", "tests/isa/test_constraints.py")
    done = run(tmp_path, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "CtProductLess or CtTwice", *tests)
    assert "passed" in done and "skipped" not in done.splitlines()[-1], done
