"""Who may import whom: rooms stand on floors, a room imports from floors below its own and never from its neighbours."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "hlo2tx8"

FLOORS: tuple[tuple[str, ...], ...] = (
    ("ir",),
    ("errors", "notes", "protobuf", "indexing", "device", "linalg"),
    ("options", "dialects", "kernel_registry"),
    ("hlo",),
    ("builders",),
    ("frontend", "partitioner", "interpreter"),
    ("schedule",),
    ("passes", "fusion"),
    ("emitters",),
    ("lower",),
    ("link",),
    ("compiler",),
    ("runtime",),
    ("spmd",),
    ("reports",),
    ("netlist", "vendor", "sweep"),
    ("pjrt", "tools", "torch_backend", "tensorflow_backend"),
    ("model_explorer",),
    ("dev",),
    ("__init__", "__main__", "onnx_backend"),
)
"""From the ground up. Machine-independent maths and the machine itself are the ground; doors are the roof."""

NARROWER: dict[str, tuple[str, ...]] = {
    "lower": ("ir", "errors", "notes", "indexing", "dialects", "device"),
    "interpreter": ("ir", "errors", "indexing", "dialects", "hlo", "device"),
    "linalg": (),
}
"""Rooms that know less than what is below them: lowering sees loops and the machine, never HLO."""

DEVICE_FLOORS: tuple[tuple[str, ...], ...] = (
    ("chip", "faults", "formats", "decisions", "host_memory", "approx"),
    ("arithmetic", "layouts", "program"),
    ("rates", "chip_links"),
    ("proxies",),
    (
        "alike_loads",
        "group_exchange",
        "mesh_sends",
    ),
    ("isa",),
    ("code", "status", "touches", "two_turns"),
    ("definition", "native"),
    ("strict", "timing"),
    ("interpret",),
    ("emulator",),
    ("assembler",),
)
"""The same inside of `device`, from the ground up."""

FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
VERSION = "hlo2tx8.__version__"
"""What any room may ask of the package itself."""
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


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_room_has_a_floor():
    assert {room_of(file) for file in sources()} <= set(FLOOR_OF)


@pytest.mark.parametrize("file", sorted((PACKAGE / "device").rglob("*.py")), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_rooms_of_the_device_follow_the_law(file: Path):
    floor_of = {room: number for number, rooms in enumerate(DEVICE_FLOORS) for room in rooms}
    room = file.relative_to(PACKAGE / "device").parts[0].removesuffix(".py")
    if room == "__init__":
        return
    ours = {name.split(".")[2] for name in imports_of(file) if name.startswith("hlo2tx8.device.")}
    wrong = sorted(other for other in ours - {room} if floor_of[other] >= floor_of[room])
    assert not wrong, f"device.{room} must not import {wrong}"


@pytest.mark.parametrize("file", sources(), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_follow_the_law(file: Path):
    room = room_of(file)
    below = [other for other, floor in FLOOR_OF.items() if floor < FLOOR_OF[room]]
    allowed = {room, *NARROWER.get(room, below)}
    ours = [name.split(".")[1] for name in imports_of(file) if name.startswith("hlo2tx8.") and name != VERSION]
    wrong = sorted({other for other in ours if other not in allowed})
    assert not wrong, f"{room} must not import {wrong}"


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
    code = "import hlo2tx8.compiler.driver, hlo2tx8.tools.main, sys; print(sorted({'jax', 'jaxlib'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
