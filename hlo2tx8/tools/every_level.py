"""`hlo2tx8 run --level=all`: a module at every level, the program in every mode of the emulator, against the reference.

Beside the answers the kernels at LOOPS are checked to write every element of every result exactly once.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from hlo2tx8.compiler.driver import lower
from hlo2tx8.dialects.launch import kernels
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.interpreter.coverage import check_written_once
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import RUNS, each_run
from hlo2tx8.tools.platforms import Source
from hlo2tx8.tools.reference import Reference

Array = npt.NDArray[Any]


def first_difference(source: Source, options: Options, arrays: Sequence[Array], reference: Reference) -> str:
    """The first level or mode that gives another answer than the reference, or writes an element not once; "" if all agree."""
    results = each_run(source.load, options, arrays)
    for run in RUNS:
        try:
            if run.level is Level.LOOPS:
                for kernel in kernels(lower(source.load, replace(options, until=Level.LOOPS)).module).values():
                    check_written_once(kernel)
            actual = next(results)
        except Hlo2tx8Error as error:
            return f"{run.name}: {error}"
        if wrong := reference.mismatches(actual):
            return f"{run.name}: {wrong[0]}"
    return ""
