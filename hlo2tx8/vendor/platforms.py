"""Where main.c runs: `build` makes the binary of a chip folder, `run` runs it; `run_program` does both for any program, in a folder
of its own.

| platform | compiler | machine |
|---|---|---|
| Cmodel | cc | this one: libtx8model, which is installed with the package |
| riscv | riscv64-linux-gnu-gcc | qemu-riscv64: libtx8model and the native core, compiled once for it and kept in the cache |
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import hlo2tx8.device.native as core
import hlo2tx8.runtime.native as runtime
from hlo2tx8.device.chip import Chip
from hlo2tx8.device.native import generate as core_headers
from hlo2tx8.device.program import Program, Slot, SlotKind
from hlo2tx8.errors import DeviceError, HostError, InputError
from hlo2tx8.frontend.chip_folder import INFO, ChipFolder
from hlo2tx8.hlo.signature import dtype_of
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.vendor import native
from hlo2tx8.vendor.main_c import constants_of, main_c
from hlo2tx8.vendor.native import generate as model_headers

Array = npt.NDArray[Any]
MAIN = "chip0/main.c"
DATA = "chip0/agent/data"
OPTIONS = ("-std=c11", "-O1", "-fwrapv", "-Wall", "-Wextra", "-Werror")
NOT_BUILT = "hlo2tx8 was built without a C compiler, so that there is no libtx8model"


@dataclass(frozen=True)
class Platform:
    """`compilers` are tried in order; `runner` is the command before a binary; both are in `packages` of Debian."""

    name: str
    word: str
    compilers: tuple[str, ...]
    runner: tuple[str, ...]
    packages: str

    def compiler(self) -> str:
        """The first compiler that is installed; HostError names the packages."""
        found = next((path for name in self.compilers if (path := shutil.which(name))), None)
        if found is None:
            raise HostError("E1010", f"{self.name} needs {self.compilers[0]}", hint=f"apt-get install {self.packages}")
        return found

    def command(self) -> list[str]:
        """What a binary is run with; HostError names the packages."""
        if self.runner and shutil.which(self.runner[0]) is None:
            raise HostError("E1010", f"{self.name} needs {self.runner[0]}", hint=f"apt-get install {self.packages}")
        return [*self.runner]


PLATFORMS = {
    "cmodel": Platform("Cmodel", "cmodel", ("cc", "gcc", "clang"), (), "gcc libc6-dev"),
    "riscv": Platform(
        "riscv", "riscv", ("riscv64-linux-gnu-gcc",), ("qemu-riscv64",), "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user"
    ),
}


class PlatformRun(NamedTuple):
    """`outputs` are out<i>_<word>.bin; modelled `cycles` from launch to the end; what the binary said."""

    outputs: tuple[Path, ...]
    cycles: float
    text: str


def platform_named(name: str) -> Platform:
    """The platform of that name, in any case; InputError lists them."""
    if name.lower() not in PLATFORMS:
        raise InputError("E1004", f"unknown platform {name!r}; there are {', '.join(p.name for p in PLATFORMS.values())}")
    return PLATFORMS[name.lower()]


def missing(platform: Platform) -> str:
    """What this host lacks for the platform; empty if it has everything."""
    try:
        platform.compiler()
        platform.command()
    except HostError as error:
        return f"{error.message}: {error.hint}"
    return "" if platform.runner or (native.folder() / "libtx8model.so").exists() else NOT_BUILT


def build(folder: Path, platform: Platform) -> Path:
    """Compile the folder's main.c to a binary. InputError without a main.c that compiles, HostError without a compiler."""
    source, binary = folder / MAIN, folder / "chip0" / platform.name
    if not source.is_file():
        raise InputError("E1004", f"{folder} has no {MAIN}", hint="hlo2tx8 compile --emit=chip writes it")
    _compile([platform.compiler(), *OPTIONS, str(source), *link_flags(platform), "-o", str(binary)], f"{source} does not compile")
    return binary


def link_flags(platform: Platform) -> list[str]:
    """What main.c is compiled with besides: where tx8.h and libtx8model are."""
    if platform.runner:
        library = _library(platform.compiler())
        return [f"-I{library.parent}", f"-I{native.folder()}", str(library), "-static", "-pthread", "-lm"]
    home = native.folder()
    if not (home / "libtx8model.so").exists():
        raise HostError("E1010", NOT_BUILT, hint="install it again with a compiler")
    return [f"-I{home}", f"-L{home}", f"-Wl,-rpath,{home}", "-ltx8model"]


def run(folder: Path, platform: Platform, launches: int = 1, timeout: float | None = None) -> PlatformRun:
    """Build and run the folder's binary, which reads in<i>.bin and writes results; DeviceError with what it said if it fails."""
    binary = build(folder, platform)
    for old in (folder / DATA).glob(f"out*_{platform.word}.bin"):
        old.unlink()
    command = [*platform.command(), str(binary.absolute()), str(folder), *([f"--launches={launches}"] * (launches > 1))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise DeviceError("E1008", f"{platform.name}: still running after {timeout:g} s") from None
    if done.returncode:
        said = done.stderr.strip().removeprefix("error: ") or f"the program ended with code {done.returncode}"
        is_fault = re.search(r"\bfault \w+:", said) is not None or done.returncode < 0
        raise DeviceError("E1008", f"{platform.name}: {said}") if is_fault else InputError("E1004", f"{platform.name}: {said}")
    cycles = re.search(r": ([\d.]+) cycles", done.stdout)
    files = sorted((folder / DATA).glob(f"out*_{platform.word}.bin"), key=lambda file: int(re.sub(r"\D", "", file.name)))
    return PlatformRun(tuple(files), float(cycles[1]) if cycles else 0.0, done.stdout.strip())


def write_main(folder: Path, program: Program, chip: Chip, name: str) -> None:
    """Write main.c, const.bin and the Makefile into a folder."""
    (folder / DATA).mkdir(parents=True, exist_ok=True)
    (folder / MAIN).write_text(main_c(program, chip, name))
    (folder / DATA / "const.bin").write_bytes(constants_of(program))
    (folder / "Makefile").write_text(_makefile())


def run_folder(folder: Path, platform: Platform) -> tuple[list[Array], float]:
    """The outputs of a chip folder's main.c, and modelled cycles; InputError if the folder is damaged."""
    chips = ChipFolder.of(folder).chips
    if len(chips) != 1:
        raise InputError("E1004", f"{folder} is for {len(chips)} chips, and main.c is the program of one")
    tensors = chips[0].outputs
    done = run(folder, platform)
    if len(done.outputs) != len(tensors):
        raise InputError("E1004", f"{folder / MAIN} wrote {len(done.outputs)} results, and {INFO} has {len(tensors)}")
    return [replace(tensor, file=file).read() for file, tensor in zip(done.outputs, tensors, strict=True)], done.cycles


def run_program(
    executable: Executable, arrays: Sequence[Array], platform: Platform, timeout: float | None = None
) -> tuple[list[Array], float]:
    """A program's outputs and modelled cycles on a platform: main.c, compiled and run. Arrays as of Executable.execute."""
    signature, program = executable.signature, executable.program
    given = [port.to_device(a) for port, a in zip(signature.inputs, signature.check(arrays), strict=True)]
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_main(folder, program, executable.emulator.chip, "program")
        for number, array in enumerate(given):
            (folder / DATA / f"in{number}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
        done = run(folder, platform, timeout=timeout)
        slots = program.slots_of(SlotKind.OUTPUT)
        results = [_read(file, slot) for file, slot in zip(done.outputs, slots, strict=True)]
    return [port.from_device(a) for port, a in zip(signature.outputs, results, strict=True)], done.cycles


def _read(file: Path, slot: Slot) -> Array:
    return np.frombuffer(file.read_bytes(), dtype_of(slot.dtype)).reshape(slot.shape)


def _compile(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise InputError(
            "E1004", f"{what}: {next((line for line in lines if 'error' in line), lines[-1] if lines else 'no reason given')}"
        )


@cache
def _library(compiler: str) -> Path:
    """libtx8model.a for the compiler's machine, with the core inside and tx8.h beside it; compiled unless it is in the cache."""
    folders = core_folder, runtime_folder, model_folder = Path(core.__file__).parent, runtime.folder(), native.folder()
    sources = [*sorted(core_folder.glob("*.c")), runtime_folder / "load.c", *sorted(model_folder.glob("*.c"))]
    texts = core_headers.texts() | model_headers.texts()
    options = [*(core_folder / "options.txt").read_text().split(), "-O1", "-D_GNU_SOURCE", "-DTX8_STATIC"]  # quickly compiled
    hash_ = sha256(" ".join((compiler, *options)).encode())
    for path in (*sources, *(path for folder in folders for path in sorted(folder.glob("*.h")))):
        hash_.update(path.read_bytes())
    hash_.update("".join(texts.values()).encode())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hlo2tx8"
    home = base / f"{Path(compiler).name}-{hash_.hexdigest()[:16]}"
    if (home / "libtx8model.a").exists():
        return home / "libtx8model.a"
    base.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=base) as place:
        made = Path(place) / "made"
        made.mkdir()
        for name, text in texts.items():
            (made / name).write_text(text)
        flags = [*options, f"-I{made}", *(f"-I{folder}" for folder in folders)]
        objects = [made / f"{number}.o" for number in range(len(sources))]

        def compile_one(number: int) -> None:
            command = [compiler, *flags, "-c", str(sources[number]), "-o", str(objects[number])]
            _compile(command, f"{sources[number].name} does not compile")

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, range(len(sources))))
        archiver = re.sub(r"(gcc|cc|clang)$", "ar", compiler)
        _compile([archiver, "rcs", str(made / "libtx8model.a"), *map(str, objects)], "the library cannot be put together")
        for path in objects:
            path.unlink()
        with suppress(OSError):  # somebody may have been faster
            made.rename(home)
    return home / "libtx8model.a"


def _makefile() -> str:
    ask = "$(shell $(PYTHON) -c 'from hlo2tx8.vendor.platforms import *; print(*link_flags(PLATFORMS[\"{word}\"]))')"
    targets = "".join(
        f"\n{platform.name}: chip0/{platform.name}\n\nchip0/{platform.name}: {MAIN}\n"
        f"\t{platform.compilers[0]} {' '.join(OPTIONS)} $< {ask.format(word=platform.word)} -o $@\n"
        for platform in PLATFORMS.values()
    )
    return (
        "# main.c for the C model and for RISC-V; `make run` runs the first, on the data of this folder.\n"
        f"PYTHON ?= python3\n.PHONY: Cmodel riscv run\n{targets}\nrun: Cmodel\n\tchip0/Cmodel .\n"
    )
