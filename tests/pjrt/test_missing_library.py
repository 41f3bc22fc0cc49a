"""A jax whose plugin has no native library: the reason is said to who asks for tx8, and to nobody else."""

import subprocess
import sys

SCRIPT = """
from pathlib import Path
from hlo2tx8.pjrt import native
native.__file__ = str(Path(native.__file__).parents[1] / "nowhere.py")
import jax
print(jax.devices()[0].platform)
jax.devices("tx8")
"""


def test_only_who_asks_for_the_device_hears_why_there_is_none():
    ended = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert ended.stdout == "cpu\n"
    said = ended.stderr.splitlines()[-1]
    assert "'tx8' failed to initialize: its native library was not built; install with a C compiler" in said
