"""The jax plugin's native part with sanitizers: `python -m tests.pjrt.sanitize [--only=RE]` builds it, runs files of checks/.

An access out of bounds, to freed memory or other undefined behaviour in it ends the process that does it, and is printed. Python,
jaxlib and the emulator's core are not built so: only what goes through the allocator they share is watched there.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from hlo2tx8.pjrt import header
from tests.pjrt.run_checks import environment

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "hlo2tx8" / "pjrt" / "native"
OPTIONS = ("-O1", "-g1", "-std=gnu11", "-pthread", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
OPTIONS_OF_RUNTIME = "detect_leaks=0:handle_segv=1:abort_on_error=0:quarantine_size_mb=4:thread_local_quarantine_size_kb=64"
"""Python and jaxlib keep what they have until they end. Freed memory is kept from use for a while, but not so much that a process
grows, which a check measures.
"""
SECONDS = 900
RUN = """
import runpy, sys
from pathlib import Path
from hlo2tx8.pjrt import native
library = native.PluginLibrary(Path(sys.argv.pop(1)))
native.load = lambda: library
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Puts the sanitized library in place of the built one, and runs a script."""


def build(directory: Path) -> Path:
    """The library with sanitizers."""
    library, headers = directory / "plugin.so", directory / "generated"
    header.write(headers)
    sources = map(str, sorted(NATIVE.glob("*.c")))
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, *OPTIONS, f"-I{NATIVE}", f"-I{headers}", *sources, "-o", str(library)], check=True)
    return library


def runtime() -> str:
    """The sanitizer's own libraries, which have to be loaded first."""
    names = ("libasan.so", "libubsan.so")
    compiler = os.environ.get("CC", "cc")
    found = [subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True) for name in names]
    return " ".join(done.stdout.strip() for done in found)


def main() -> int:
    """1 if a file's checks fail or a sanitizer says something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="a regular expression over names of files in checks/")
    parser.add_argument("--directory", type=Path, default=Path("build/sanitize_plugin"), help="where to build")
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    library, failed = build(args.directory).absolute(), 0
    for file in sorted((HERE / "checks").glob("*.py")):
        if not re.search(args.only, file.stem):
            continue
        with tempfile.TemporaryDirectory() as folder:
            variables = environment(file, Path(folder)) | {
                "PYTHONMALLOC": "malloc",
                "LD_PRELOAD": runtime(),
                "ASAN_OPTIONS": OPTIONS_OF_RUNTIME,
            }
            command = [sys.executable, "-c", RUN, str(library), str(HERE / "run_checks.py"), str(file)]
            run = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False)
        print(f"{file.stem}: {'failed' if run.returncode else 'nothing found'}", flush=True)
        if run.returncode:
            failed += 1
            print(run.stderr[-4000:])
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
