"""lit: `*.hlo` and `*.mlir` below tests/ except the unit tests' inputs, checked with the filecheck of this environment."""

import os
import sys
import tempfile

import lit.formats

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in conftest.py; before numpy is imported
here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(here)
sys.path[:0] = [root, here]

from lit_format import InProcessTest  # noqa: E402  (lies beside this file)

config.name = "hlo2tx8"
config.test_format = lit.formats.ShTest() if lit_config.params.get("shell") else InProcessTest()
config.suffixes = [".hlo", ".mlir"]
config.excludes = ["unit"]
config.test_source_root = here
config.test_exec_root = os.path.join(root, "build", "lit")
config.environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
config.environment["PYTHONPATH"] = root
config.environment["XDG_CACHE_HOME"] = os.path.join(tempfile.gettempdir(), "hlo2tx8-tests")
config.substitutions += [
    ("%hlo2tx8", f"{sys.executable} -m hlo2tx8"),
    ("%opt", f"{sys.executable} -m hlo2tx8.tools.opt"),
]
