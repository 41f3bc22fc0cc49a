"""The native core: a C library that runs encoded programs, loops and tiles included, with the definition's bits.

One build per instruction set lies beside this file; the best one the processor has is loaded with ctypes, so nothing depends on the
Python version. Where none was built (no compiler at installation) `available()` is False and the definition tier serves.
"""

from collections.abc import Callable, Sequence

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import Log
from hlo2tx8.device.faults import FaultPlace
from hlo2tx8.device.native.launch import launch
from hlo2tx8.device.native.loader import LoadedCore, load
from hlo2tx8.device.native.machines import UnfitError
from hlo2tx8.device.program import Program
from hlo2tx8.device.status import Status

__all__ = ["LoadedCore", "UnfitError", "available", "launch", "load", "run", "why_not"]


def available() -> bool:
    """Is there a library this processor can run?"""
    return isinstance(load(), LoadedCore)


def why_not() -> str:
    """Why `available` is False; empty if it is not."""
    core = load()
    return "" if isinstance(core, LoadedCore) else core


def run(
    program: Program,
    slots: Sequence[np.ndarray],
    chip: Chip,
    threads: int = 0,
    keeps_status: bool = False,
    progress: Callable[[FaultPlace], None] | None = None,
    log: Log | None = None,
    given: Sequence[int] | None = None,
    max_steps: int = 0,
) -> tuple[Status, ...]:
    """Runs `program` on its DDR slots: C-contiguous arrays in the order of program.slots, of which outputs and scratch are written.

    `given` are the numbers of the slots if they are not all: constants and scratch may be left to the core. `threads` = 0 takes one
    per processor. With `keeps_status`, which takes time, gives the exception bits of every tile. Ctrl-C stops a run; `progress`
    hears about ten times a second where it is, `log` what its records load; `max_steps` as of Emulator. Raises Fault; UnfitError if
    an array is not contiguous; RuntimeError if there is no core.
    """
    core = load()
    if isinstance(core, str):
        raise RuntimeError(f"no native core: {core}")
    numbers = range(len(slots)) if given is None else given
    return launch(core, program, slots, numbers, chip, threads, keeps_status, progress, log, max_steps)
