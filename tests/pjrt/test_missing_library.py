"""A jax whose plugin has no native library: the reason is said to who asks for tx8, and to nobody else."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
from pathlib import Path
from hlo2tx8.pjrt import native
native.__file__ = str(Path(native.__file__).parents[1] / "nowhere.py")
import jax
print(jax.devices()[0].platform)
jax.devices("tx8")
"""


@pytest.mark.parametrize(("platforms", "printed"), [("", "cpu\n"), ("tx8", "")])
def test_only_who_asks_for_the_device_hears_why_there_is_none(platforms: str, printed: str):
    command, environment = [sys.executable, "-W", "error", "-c", SCRIPT], os.environ | {"JAX_PLATFORMS": platforms}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.stdout == printed
    assert "'tx8'" in (said := ended.stderr.splitlines()[-1])
    assert "its native library was not built; install with a C compiler" in said
