"""Inputs and results as text, and in files of literals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def print_literals(heading: str, arrays: Sequence[Array]) -> None:
    """Each array under a heading, long ones shortened."""
    from hlo2tx8.hlo.signature import Port

    for i, array in enumerate(arrays):
        with np.printoptions(threshold=64, edgeitems=3):
            print(f"\n** {heading} {i} **\n{Port(array.shape, array.dtype.name)} {array}")


def write_literals(path: Path, inputs: Sequence[Array], results: Sequence[Array], references: Sequence[Array]) -> None:
    """Safetensors with input0, ..., result0, ..., reference0, ...."""
    from hlo2tx8.runtime.tensors import write_tensors

    groups = {"input": inputs, "result": results, "reference": references}
    write_tensors(path, {f"{kind}{i}": a for kind, arrays in groups.items() for i, a in enumerate(arrays)})


def numbered(path: Path, number: int) -> Path:
    """A file of its own for every run or program after the first."""
    return path.with_stem(f"{path.stem}.{number}") if number else path
