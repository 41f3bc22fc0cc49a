"""The emulator: runs a program on arrays, in the native core or in the definition tier."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from hlo2tx8.device import interpret
from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import Decisions, Log
from hlo2tx8.device.faults import FaultPlace
from hlo2tx8.device.host_memory import allocate
from hlo2tx8.device.program import Program, Slot, SlotKind
from hlo2tx8.device.status import Status

Mode = Literal["fast", "definition", "strict"]
Progress = Callable[[FaultPlace], None]
"""Hears where a run is; what it raises ends the run."""


class LaunchError(ValueError):
    """Inputs that do not fit the program."""


@dataclass(frozen=True)
class Emulator:
    """`fast` runs the native core, or the definition tier where none was built (see `tier`); `definition` runs numpy;
    `strict` runs numpy as late as the machine may, on poisoned memory, and faults on races and all else `device.strict` lists."""

    chip: Chip
    mode: Mode = "fast"
    threads: int = 0

    @property
    def tier(self) -> str:
        """Which implementation runs, and why if it is not the native core in mode fast."""
        if self.mode != "fast":
            return f"definition ({self.mode})"
        from hlo2tx8.device import native

        return "native" if native.available() else f"definition (no native core: {native.why_not()})"

    def run(self, program: Program, inputs: Sequence[np.ndarray], progress: Progress | None = None) -> list[np.ndarray]:
        """The outputs for these inputs, in the order of the slots; raises LaunchError or Fault, or what `progress` raises.

        Inputs are C-contiguous arrays of exactly the slots' sizes; outputs have the slots' shapes and dtypes. `progress` is called
        about ten times a second with the place of the first tile that has not ended.
        """
        return self._run(program, inputs, False, progress)[0]

    def run_with_status(self, program: Program, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], tuple[Status, ...]]:
        """As `run`, with the exception bits of every tile, which take time; ValueError in mode strict, which keeps none."""
        if self.mode == "strict":
            raise ValueError("strict mode keeps no exception bits")
        return self._run(program, inputs, True)

    def run_with_decisions(
        self, program: Program, inputs: Sequence[np.ndarray], records: Iterable[int], progress: Progress | None = None
    ) -> tuple[list[np.ndarray], Decisions | None]:
        """As `run`, with what these records loaded into registers; None if that was too much to be kept."""
        log = Log(records)
        return self._run(program, inputs, False, progress, log)[0], log.decisions()

    def _run(
        self,
        program: Program,
        inputs: Sequence[np.ndarray],
        keeps_status: bool,
        progress: Progress | None = None,
        log: Log | None = None,
    ) -> tuple[list[np.ndarray], tuple[Status, ...]]:
        num_inputs = len(program.slots_of(SlotKind.INPUT))
        if len(inputs) != num_inputs:
            raise LaunchError(f"the program wants {num_inputs} inputs, given {len(inputs)}")
        native = self.tier == "native"
        outputs: dict[Slot, np.ndarray] = {}
        slots = [
            inputs[slot.index] if native and _fits(slot, inputs) else self._bind(slot, program, inputs, outputs)
            for slot in program.slots
        ]
        if native:
            from hlo2tx8.device import native as core

            status = core.run(program, slots, self.chip, self.threads, keeps_status, progress, log)
        elif self.mode == "strict":
            interpret.run_strict(program, slots, self.chip, progress=progress, log=log)
            status = ()
        else:
            status = interpret.run(program, slots, self.chip, keeps_status, progress, log)
        return [outputs[s] for s in program.slots_of(SlotKind.OUTPUT)], status

    def _bind(self, slot: Slot, program: Program, inputs: Sequence[np.ndarray], outputs: dict[Slot, np.ndarray]) -> np.ndarray:
        """The slot's bytes."""
        match slot.kind:
            case SlotKind.INPUT:
                array = np.ascontiguousarray(inputs[slot.index])
                if array.nbytes != slot.size_bytes:
                    raise LaunchError(f"input {slot.index} has {array.nbytes} bytes, the program wants {slot.size_bytes}")
                return array.reshape(-1).view(np.uint8)
            case SlotKind.CONSTANT:
                return np.ascontiguousarray(program.constants[slot.index]).reshape(-1).view(np.uint8)
            case SlotKind.OUTPUT:
                data = allocate(slot.size_bytes)
                outputs[slot] = data.view(numpy_dtype(slot.dtype)).reshape(slot.shape)
                return data
            case SlotKind.SCRATCH:
                return allocate(slot.size_bytes)


def _fits(slot: Slot, inputs: Sequence[np.ndarray]) -> bool:
    """Is it an input that the native core takes as it is? Views of many small ones cost more than some programs."""
    if slot.kind is not SlotKind.INPUT:
        return False
    array = inputs[slot.index]
    return array.flags.c_contiguous and array.nbytes == slot.size_bytes


@cache
def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The numpy dtype of a slot."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
