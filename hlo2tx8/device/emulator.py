"""The emulator: runs a program on arrays, in the native core or in the definition tier."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from hlo2tx8.device import interpret, native
from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import Decisions, Log
from hlo2tx8.device.faults import FaultPlace
from hlo2tx8.device.host_memory import RECYCLED_BYTES, allocate
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
    `strict` runs numpy as late as the machine may, on poisoned memory, and faults on races and all else `device.strict` lists.

    A tile whose loops turn more than `max_steps` times, all together, faults, at the same place in every mode; 0 is no limit.
    """

    chip: Chip
    mode: Mode = "fast"
    threads: int = 0
    max_steps: int = 0

    @property
    def tier(self) -> str:
        """Which implementation runs, and why if it is not the native core in mode fast."""
        if self.mode != "fast":
            return f"definition ({self.mode})"
        return "native" if native.available() else f"definition (no native core: {native.why_not()})"

    @cached_property
    def _core(self) -> native.LoadedCore | None:
        """The native core, in mode fast."""
        core = native.load() if self.mode == "fast" else None
        return core if isinstance(core, native.LoadedCore) else None

    def looks_right(self, program: Program, inputs: tuple[object, ...]) -> bool:
        """Are these for certain arrays of numpy, in C order, of the shapes and dtypes of the program's inputs? False: perhaps."""
        if self._core is None or len(inputs) != program.num_inputs:
            return False
        return self._core.look(inputs, len(inputs), program.looks.buffer_info()[0]) != 0

    def run(
        self,
        program: Program,
        inputs: Sequence[np.ndarray],
        progress: Progress | None = None,
        outputs: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """The outputs for these inputs, in the order of the slots; raises LaunchError or Fault, or what `progress` raises.

        Inputs are C-contiguous arrays of exactly the slots' sizes, and stay as they are; outputs have the slots' shapes and dtypes.
        `outputs` are arrays of those sizes to put the results in: where one takes over an input it holds the input's elements, and
        may be the same memory. `progress` is called about ten times a second with the place of the first tile that has not ended.
        """
        return self._run(program, inputs, False, progress, outputs=outputs)[0]

    def run_with_status(self, program: Program, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], tuple[Status, ...]]:
        """As `run`, with the exception bits of every tile, which take time; ValueError in mode strict, which keeps none."""
        if self.mode == "strict":
            raise ValueError("strict mode keeps no exception bits")
        return self._run(program, inputs, True)

    def check_values(self, program: Program, inputs: Sequence[np.ndarray]) -> None:
        """Runs the program by definition; Fault at the first instruction that makes a NaN or an infinity of operands without."""
        outputs = _outputs(program, inputs)
        slots = [_bind(slot, program, inputs, outputs) for slot in program.slots]
        interpret.run_checked(program, slots, self.chip, self.max_steps)

    def run_with_decisions(
        self,
        program: Program,
        inputs: Sequence[np.ndarray],
        records: Iterable[int],
        progress: Progress | None = None,
        outputs: Sequence[np.ndarray] | None = None,
    ) -> tuple[list[np.ndarray], Decisions | None]:
        """As `run`, with what these records loaded into registers; None if that was too much to be kept."""
        log = Log(records)
        return self._run(program, inputs, False, progress, log, outputs)[0], log.decisions()

    def _run(
        self,
        program: Program,
        inputs: Sequence[np.ndarray],
        keeps_status: bool,
        progress: Progress | None = None,
        log: Log | None = None,
        outputs: Sequence[np.ndarray] | None = None,
    ) -> tuple[list[np.ndarray], tuple[Status, ...]]:
        if len(inputs) != program.num_inputs:
            raise LaunchError(f"the program wants {program.num_inputs} inputs, given {len(inputs)}")
        own = _outputs(program, inputs) if outputs is None else [*outputs]
        if self._core is not None:
            fixed = program.given, self.chip, self.threads, keeps_status, progress, log, self.max_steps
            try:
                return own, native.launch(self._core, program, (*inputs, *own), *fixed)
            except native.UnfitError:
                checked = [_input(slot, array) for slot, array in zip(program.slots_of(SlotKind.INPUT), inputs, strict=True)]
                return own, native.launch(self._core, program, (*checked, *own), *fixed)
        slots = [_bind(slot, program, inputs, own) for slot in program.slots]
        if self.mode == "strict":
            interpret.run_strict(program, slots, self.chip, progress=progress, log=log, max_steps=self.max_steps)
            return own, ()
        return own, interpret.run(program, slots, self.chip, keeps_status, progress, log, self.max_steps)


def _bind(slot: Slot, program: Program, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> np.ndarray:
    """The slot's bytes."""
    match slot.kind:
        case SlotKind.INPUT:
            return _input(slot, inputs[slot.index]).reshape(-1).view(np.uint8)
        case SlotKind.CONSTANT:
            return np.ascontiguousarray(program.constants[slot.index]).reshape(-1).view(np.uint8)
        case SlotKind.OUTPUT:
            return outputs[slot.index].reshape(-1).view(np.uint8)
        case SlotKind.SCRATCH:
            return allocate(slot.size_bytes, cleared=not program.trusted)


def _input(slot: Slot, given: np.ndarray) -> np.ndarray:
    """In C order, of the slot's size."""
    array = np.ascontiguousarray(given)
    if array.nbytes != slot.size_bytes:
        raise LaunchError(f"input {slot.index} has {array.nbytes} bytes, the program wants {slot.size_bytes}")
    return array


def _outputs(program: Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays for the results. What the compiler linked writes all of them; other programs find zeros, where that is cheap."""
    if program.trusted and program.launches:
        shapes, elements, apart = program.output_arrays
        outputs: list[np.ndarray] = list(map(np.empty, shapes, elements))
        for slot in apart:
            outputs[slot.index] = _output(slot, program, inputs)
        return outputs
    return [_output(slot, program, inputs) for slot in program.slots_of(SlotKind.OUTPUT)]


def _output(slot: Slot, program: Program, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """The array of one slot; a copy of the input that the slot takes over, which its caller keeps."""
    if slot.size_bytes < RECYCLED_BYTES:
        output = np.zeros(slot.shape, slot.element)
    else:
        memory = allocate(slot.size_bytes, cleared=not program.trusted)
        output = memory.view(slot.element).reshape(slot.shape)
    if slot.takes_over is not None:
        source = _input(program.slots_of(SlotKind.INPUT)[slot.takes_over], inputs[slot.takes_over])
        output.reshape(-1).view(np.uint8)[...] = source.reshape(-1).view(np.uint8)
    return output
