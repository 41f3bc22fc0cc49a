"""The data of a chip folder for `hlo2tx8 run DIR`: inputs, and results that those of the run are compared with."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from hlo2tx8.frontend.chip_folder import ChipFolder, is_chip_folder
from hlo2tx8.hlo.signature import Signature

if TYPE_CHECKING:
    from hlo2tx8.tools.reference import Reference

Array = npt.NDArray[Any]
INPUT_FLAGS = ("input_literals_file", "random_init_input_literals", "use_large_float_range", "different_random_seeds")
"""With one of these a folder's module runs on other inputs than the folder's."""


@dataclass(frozen=True)
class ChipData:
    """The arrays of a folder."""

    folder: ChipFolder

    @staticmethod
    def of(name: str, given: Sequence[str] | frozenset[str] = ()) -> "ChipData | None":
        """The data of the folder of that name; None of a file, and where one of the flags `given` asks for other inputs."""
        if not is_chip_folder(Path(name)) or any(flag in given for flag in INPUT_FLAGS):
            return None
        return ChipData(ChipFolder.of(Path(name)))

    @cached_property
    def inputs(self) -> list[tuple[Array, ...]]:
        """The inputs of each chip in order."""
        return [tuple(tensor.read() for tensor in chip.inputs) for chip in self.folder.chips]

    def arrays(self, signature: Signature, chip: int = 0) -> tuple[Array, ...]:
        """The inputs of a module with that signature; InputError if the folder describes another one, or lacks data."""
        self.folder.check(signature)
        return signature.check(self.inputs[chip])

    def worst(self, actual: Sequence[Array], reference: "Callable[[list[Array]], Reference]", chip: int = 0) -> list[str]:
        """Print how far results of a chip are from each file of results; the files from which they are farther than `reference`
        allows."""
        wrong: list[str] = []
        for number, stored in self.folder.references(chip):
            expected = [*actual]
            expected[number] = stored.read()
            bounds = reference(expected)
            print(f"{stored.label}: {bounds.describe(actual)}", file=sys.stderr)
            for mismatch in bounds.mismatches(actual):
                print(mismatch, file=sys.stderr)
                wrong.append(f"{stored.label}: {mismatch.line}")
        return wrong
