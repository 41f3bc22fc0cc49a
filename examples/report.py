"""What the examples share: the choice of a device, and what a program costs on it."""

import argparse
from pathlib import Path
from typing import Any

import jax

import hlo2tx8
import hlo2tx8.pjrt


def start(description: str, **numbers: int) -> argparse.Namespace:
    """Reads the flags, numbers with these defaults among them, and makes the platform the default one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--platform", choices=("tx8", "cpu"), default="tx8")
    parser.add_argument("--trace", type=Path, help="where the trace of the modelled run goes, for Perfetto")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    given = parser.parse_args()
    hlo2tx8.pjrt.initialize()  # jax does so itself where the package is installed
    jax.config.update("jax_platforms", "cpu" if given.platform == "cpu" else "tx8,cpu")
    jax.config.update("jax_default_matmul_precision", "highest")
    return given


def cost(what: str, lowered: jax.stages.Lowered, given: argparse.Namespace, name: str) -> Any:
    """Prints the modelled time of a lowered program and writes its trace; the executable, None on cpu."""
    if given.platform != "tx8":
        return None
    executable = hlo2tx8.compile(lowered)
    path = given.trace or Path(f"{name}.trace.json")
    executable.trace(path)
    print(f"{what}: {1e6 * executable.report.seconds:.1f} us modelled on the chip, trace in {path}")
    return executable
