"""The child of test_checks.py: registers the plugin and calls every `check_*` function of one file.

Numbers of the file can be given: `JAX_PLATFORMS=tx8,cpu python tests/pjrt/run_checks.py tests/pjrt/checks/stress.py SECONDS=60`.
"""

import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import hlo2tx8.pjrt

DEVICES = {"devices": "chips:4", "shardings": "chips:4"}
"""Chips that the files need which need more than one."""


def environment(file: Path, folder: Path) -> dict[str, str]:
    """The variables of a process that runs a file's checks; `folder` is where it may write."""
    found = os.environ | {"JAX_PLATFORMS": "tx8,cpu", "JAX_PJRT_CLIENT_CREATE_OPTIONS": DEVICES.get(file.stem, "chips:1")}
    found["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    if file.stem == "dumps":
        found["XLA_FLAGS"] = f"--xla_dump_to={folder} --xla_dump_hlo_pass_re=fusions --xla_dump_emitter_re=sort"
    return found


def main(path: Path, numbers: Sequence[str]) -> int:
    """The number of checks that failed; their tracebacks go to stderr."""
    hlo2tx8.pjrt.initialize()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, _, number in (text.partition("=") for text in numbers):
        assert isinstance(getattr(module, name), int)
        setattr(module, name, int(number))
    failed = 0
    for name, check in list(vars(module).items()):
        if not name.startswith("check_"):
            continue
        try:
            check()
        except Exception:
            failed += 1
            print(f"--- {name}\n{traceback.format_exc()}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
