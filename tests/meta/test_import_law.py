"""Who may import whom: indexing ← hlo ← partitioner ← schedule ← emitters ← driver; device imports none of ours."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "hlo2tx8"

ISA = ("device.isa", "device.program", "device.encoding", "device.formats", "device.chip", "device.layouts")
RULES = ("device.formats", "device.layouts", "device.ne_rules")
HLO = ("errors", "notes", "indexing", "dialects")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": (),
    "notes": (),
    "options": (),
    "indexing": (),
    "device": (),
    "dialects": ("errors", "indexing", *ISA),
    "hlo": HLO,
    "frontend": (*HLO, "hlo"),
    "interpreter": (*HLO, "hlo", *RULES),
    "partitioner": (*HLO, "hlo", "device.chip"),
    "schedule": (*HLO, "hlo", "partitioner", *ISA),
    "emitters": (*HLO, "hlo", "partitioner", "schedule"),
    "lower": (*HLO, *ISA),
    "linalg": (),
    "spmd": (*HLO, "options", "device", "hlo", "partitioner", "frontend", "module", "driver", "runtime"),
    "pjrt": (
        *("errors", "options", "device", "dialects", "hlo", "frontend", "module", "driver", "runtime", "progress_bar", "linalg"),
        *("spmd", "__version__"),
    ),
}
"""Allow-list per package; the driver, runtime and tools stand above all and may import anything."""

ABOVE = (
    *("driver", "pipeline", "dump", "module", "emit_fusions", "expand_chlo", "expand_complex", "single_op", "unsupported"),
    *("garbage", "progress_bar", "link", "runtime", "tools", "dev", "__init__", "__main__"),
)
SHIMS = (PACKAGE / "frontend" / "shim.py", *(PACKAGE / "pjrt" / name for name in ("jax_side.py", "jax_lowerings.py")))
JAX_PRIVATE = ("jaxlib._", "jaxlib.mlir._", "jax._src")


def imports_of(file: Path) -> list[str]:
    """Absolute module names a file imports anywhere, `from a import b` as a.b."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import():
                names += [alias.name for alias in node.names]
            case ast.ImportFrom():
                assert node.level == 0, f"{file}: relative import"
                names += [f"{node.module}.{alias.name}" for alias in node.names]
            case _:
                pass
    return names


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_every_part_is_in_the_law():
    parts = {file.relative_to(PACKAGE).parts[0].removesuffix(".py") for file in sources()}
    assert parts <= {*MAY_IMPORT, *ABOVE}


@pytest.mark.parametrize("file", sources(), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_follow_the_law(file: Path):
    part = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part in ABOVE:
        return
    allowed = (part, *MAY_IMPORT[part])
    ours = [name.removeprefix("hlo2tx8.") for name in imports_of(file) if name.startswith("hlo2tx8.")]
    wrong = [name for name in ours if not any(name == a or name.startswith(f"{a}.") for a in allowed)]
    assert not wrong, f"{part} must not import {wrong}"


@pytest.mark.parametrize("file", sources(), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_private_parts_of_jax_stay_in_the_shims(file: Path):
    if file in SHIMS:
        return
    assert not [name for name in imports_of(file) if name.startswith(JAX_PRIVATE)]


def test_importing_the_package_is_quick_and_leaves_jax_alone():
    code = (
        "import time; t = time.perf_counter(); import hlo2tx8; s = time.perf_counter() - t\n"
        "import sys; print(s, sorted({'jax', 'jaxlib', 'xdsl'} & set(sys.modules)))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    seconds, loaded = zip(*(run.stdout.split(maxsplit=1) for run in runs), strict=True)
    assert set(loaded) == {"[]\n"}
    assert min(map(float, seconds)) < 0.3


def test_importing_the_driver_leaves_jax_alone():
    code = "import hlo2tx8.driver, hlo2tx8.tools.main, sys; print(sorted({'jax', 'jaxlib'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
