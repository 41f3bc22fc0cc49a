"""The platforms on which a module can run: the chip, our evaluator, XLA:CPU, and main.c on the C model or RISC-V.

A platform gets the loaded source anew each time, because compiling consumes a module.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.chip_folder import is_chip_folder
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.levels import run_level

Array = npt.NDArray[Any]

MODELS = ("cmodel", "riscv")
"""Those that run main.c."""
PLATFORMS = ("tx8", "interpreter", "cpu", *MODELS)
ALIASES = {"default": "interpreter", "reference": "interpreter", "host": "cpu"}


@dataclass(frozen=True)
class Source:
    """A module that can be loaded as often as needed."""

    name: str
    load: Callable[[], ModuleOp]


def platform_of(name: str) -> str:
    """The platform with that name, in any case; InputError lists them."""
    word = ALIASES.get(name.lower(), name.lower())
    if word not in PLATFORMS:
        raise InputError("E1004", f"unknown platform {name!r}; there are {', '.join(PLATFORMS)}")
    return word


def execute(
    platform: str, source: Source, arrays: Sequence[Array], options: Options, executable: Executable | None = None
) -> list[Array]:
    """The module's outputs on a platform; on tx8 a level above PROGRAM runs in that level's interpreter."""
    match platform:
        case "interpreter":
            from hlo2tx8.hlo import evaluate

            return list(evaluate(source.load(), *arrays, max_steps=options.max_steps))
        case "cpu":
            from hlo2tx8.frontend import to_mlir_text
            from hlo2tx8.tools.xla_cpu import run_on_cpu

            return run_on_cpu(to_mlir_text(source.load()), arrays)
        case "cmodel" | "riscv":
            return _run_main(platform, source, arrays, options)
        case _ if executable is not None:
            return executable.execute(*arrays)
        case _:
            return run_level(source.load, options, arrays)


def _run_main(name: str, source: Source, arrays: Sequence[Array], options: Options) -> list[Array]:
    """A chip folder's own main.c on the folder's data, or that of the program which a module compiles to."""
    from hlo2tx8.runtime.compile import compile_module
    from hlo2tx8.vendor.platforms import platform_named, run_folder, run_program

    platform = platform_named(name)
    if is_chip_folder(Path(source.name)):
        outputs, cycles = run_folder(Path(source.name), platform)
    else:
        outputs, cycles = run_program(compile_module(source.load, options), arrays, platform)
    print(f"{platform.name}: {cycles:,.0f} cycles", file=sys.stderr)
    return outputs
