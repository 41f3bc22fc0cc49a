"""lit: `*.hlo` and `*.mlir` below tests/ except the unit tests' inputs, checked with the filecheck of this environment."""

import os
import sys

import lit.formats

config.name = "hlo2tx8"
config.test_format = lit.formats.ShTest()
config.suffixes = [".hlo", ".mlir"]
config.excludes = ["unit"]
here = os.path.dirname(__file__)
config.test_source_root = here
root = os.path.dirname(here)
config.test_exec_root = os.path.join(root, "build", "lit")
config.environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
config.environment["PYTHONPATH"] = root
config.substitutions += [
    ("%hlo2tx8", f"{sys.executable} -m hlo2tx8"),
    ("%opt", f"{sys.executable} -m hlo2tx8.tools.opt"),
]
