"""What `compile` returns: a program for the chip with everything needed to run it, look at it and store it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import numpy.typing as npt

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.emulator import Emulator, Progress
from hlo2tx8.device.faults import Fault, FaultPlace
from hlo2tx8.device.program import Program, SlotKind
from hlo2tx8.device.timing import Report
from hlo2tx8.errors import DeviceError, InputError
from hlo2tx8.frontend.calling import Calling, call_module
from hlo2tx8.hlo.least_work import LeastWork
from hlo2tx8.hlo.signature import Signature
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.lower_bound import LowerBound, losses
from hlo2tx8.runtime.modelled import ModelledTime

if TYPE_CHECKING:
    from hlo2tx8.runtime.profile import Profile

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Executable:
    """An encoded program, its signature and the chip it is for.

    `text_at(level)` gives the IR at a level: from the compiler for a fresh executable, from the file for a loaded one.
    `seconds` says what each pass cost, `explanation` why (if the options ask for it); a file holds neither. `least_work` is that of
    the module as it was given, None if nobody knows it. `calling` says how the Python function is called that was compiled; None
    for a module of a file or text, and for a function whose trees have nodes of classes of their own, once it was in a file.
    """

    name: str
    program: Program
    signature: Signature
    chip: Chip
    options: Options
    text_at: Callable[[Level], str]
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    explanation: tuple[str, ...] = ()
    least_work: Callable[[], LeastWork] | None = None
    calling: Calling | None = None

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, ports)) for ports in (self.signature.inputs, self.signature.outputs))
        by_hand = "".join(f", {kernel}" for kernel in self.program.library)
        return (
            f"<Executable {self.name}: ({takes}) -> ({gives}), {len(self.program.code)} instructions for {self.chip.name}{by_hand}>"
        )

    @cached_property
    def emulator(self) -> Emulator:
        """The emulator of the executable's chip, in the mode of its options."""
        return Emulator(self.chip, self.options.mode, self.options.threads, self.options.max_steps)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """As `run`."""
        return self.run(*args, **kwargs)

    def run(self, *args: object, **kwargs: object) -> Any:
        """Run the program as what was compiled is called.

        A function of jax takes the pytrees that it was compiled for, also arguments that it does not use, and gives what it
        returns. A module takes an array for each input in order, and gives one array, or a list if @main has no result or several.
        Arrays are of numpy, jax, torch (in the host's memory) or whatever numpy takes; Python's numbers become the input's dtype,
        for a function also numbers of 64 bits where it takes 32, as jax does. Results are numpy arrays. Errors as of `execute`.
        """
        if self.calling is None:
            return call_module(self.execute, args, kwargs)
        leaves = self.calling.leaves(args, kwargs)
        return self.calling.results_of(self.launch(self._checked(leaves, is_narrowing=True)))

    def execute(self, *arrays: object) -> list[Array]:
        """Run the program on an array for each of its inputs: a list of result arrays. InputError if the inputs do not fit the
        signature, DeviceError if the emulator faults.
        """
        return self.launch(self._checked(arrays))

    def _checked(self, arrays: Sequence[object], *, is_narrowing: bool = False) -> Sequence[Array]:
        """As Signature.check, which takes longer of hundreds of arrays than some programs: most are just as they should be."""
        given = tuple(arrays)
        if self._is_of_slots and self.emulator.looks_right(self.program, given):
            return cast("tuple[Array, ...]", given)
        return self.signature.check(given, is_narrowing=is_narrowing)

    @cached_property
    def _is_of_slots(self) -> bool:
        """Are arrays that look as the program's slots what the signature wants?"""
        slots = self.program.slots_of(SlotKind.INPUT)
        return [(port.shape, port.dtype, port.layout, port.value) for port in self.signature.inputs] == [
            (slot.shape, slot.dtype, (), None) for slot in slots
        ]

    def launch(self, arrays: Sequence[Array], progress: Progress | None = None) -> list[Array]:
        """As `execute`, for arrays that are known to fit the signature; long runs call `progress` as Emulator.run does. DeviceError
        when the options' `timeout` is over, or loops turned `max_steps` times.
        """
        is_plain = self.signature.is_plain
        inputs = arrays if is_plain else [p.to_device(a) for p, a in zip(self.signature.inputs, arrays, strict=True)]
        results = self.launch_on(inputs, None, progress)
        return results if is_plain else [p.from_device(a) for p, a in zip(self.signature.outputs, results, strict=True)]

    def launch_on(self, inputs: Sequence[Array], outputs: Sequence[Array] | None, progress: Progress | None = None) -> list[Array]:
        """As `launch`, for arrays in the order of elements that they have in DDR; results go to `outputs` if they are given, as of
        Emulator.run.
        """
        if self.options.timeout:
            progress = ends_after(self.options.timeout, progress)
        try:
            return self.time.run(self.emulator, inputs, progress, outputs)
        except Fault as fault:
            raise DeviceError("E1008", str(fault)) from fault

    def check_values(self, *arrays: object) -> None:
        """Run the program by definition; DeviceError names tile, instruction, source line and operands' ranges where the first NaN
        or infinity is made of operands that have none.
        """
        inputs = [p.to_device(a) for p, a in zip(self.signature.inputs, self.signature.check(arrays), strict=True)]
        try:
            self.emulator.check_values(self.program, inputs)
        except Fault as fault:
            raise DeviceError("E1008", str(fault)) from fault

    def as_text(self, level: Level | str = Level.PROGRAM) -> str:
        """The module at a level as text; at PROGRAM the listing of the tile program."""
        try:
            return self.text_at(Level.parse(level) if isinstance(level, str) else level)
        except ValueError as error:
            raise InputError("E1004", str(error)) from None

    @cached_property
    def time(self) -> ModelledTime:
        """The modelled time of the program, with the trip counts and branches that the last run took."""
        return ModelledTime(self.program, self.chip)

    @cached_property
    def lower_bound(self) -> LowerBound | None:
        """The least cycles that any program takes for the module; None if the module is not known."""
        return None if self.least_work is None else LowerBound.of(self.least_work(), self.chip)

    @property
    def report(self) -> Report:
        """Modelled cycles, what bounds them, and the chip's roofline; needs no run.

        Trip counts that depend on data are those of the last run, assumed before the first: `report.trip_counts` says which.
        """
        return self.time.report if self.lower_bound is None else self.time.report_against(self.lower_bound.cycles)

    def cost_analysis(self) -> dict[str, object]:
        """Modelled cost under XLA's keys where it has them: cycles, seconds, flops, bytes accessed, per engine busy."""
        found = self.report.as_dict()
        if self.lower_bound is not None:
            found |= {"lower_bound": self.lower_bound.as_dict(), "lost_cycles": self.lost_cycles()}
        return found

    def lost_cycles(self) -> dict[str, float]:
        """What the program does beyond its module's lower bound, by cause, each in the cycles it takes by itself; see `losses`."""
        return {} if self.lower_bound is None else losses(self.program, self.report, self.lower_bound)

    def profile(self) -> "Profile":
        """Where the modelled time goes, by fusion, HLO instruction and engine; see `report`."""
        from hlo2tx8.runtime.profile import profile

        return replace(profile(self.program, self.chip, self.name, self.report), lost_cycles=self.lost_cycles())

    def trace(self, path: str | Path | None = None) -> dict[str, object]:
        """The modelled run in the Trace Event Format that Perfetto opens, written to a file if one is given; see `report`."""
        from hlo2tx8.runtime.trace import trace, write_trace

        content = trace(self.program, self.chip, self.name, decisions=self.time.decisions, bound=self.lower_bound)
        if path is not None:
            write_trace(content, Path(path))
        return content

    def memory_analysis(self) -> dict[str, int]:
        """Bytes of arguments, outputs (alias: in memory of arguments), constants, scratch, used SPM per tile, encoded program."""
        sizes = {kind: sum(slot.size_bytes for slot in self.program.slots_of(kind)) for kind in SlotKind}
        return {
            "argument_size_in_bytes": sizes[SlotKind.INPUT],
            "output_size_in_bytes": sizes[SlotKind.OUTPUT],
            "alias_size_in_bytes": sum(s.size_bytes for s in self.program.slots_of(SlotKind.OUTPUT) if s.takes_over is not None),
            "constant_size_in_bytes": sizes[SlotKind.CONSTANT],
            "temp_size_in_bytes": sizes[SlotKind.SCRATCH],
            "spm_size_in_bytes": max(self.program.spm_bytes - self.chip.spm_allocation_start, 0),
            "generated_code_size_in_bytes": self.program.code_bytes,
        }

    def save(self, path: str | Path) -> None:
        """Write a `.tx8x` container."""
        from hlo2tx8.runtime.container import write

        write(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> "Executable":
        """Read a `.tx8x` container; ContainerError if it is damaged or newer than this version."""
        from hlo2tx8.runtime.container import read

        return read(Path(path))


def ends_after(seconds: float, progress: Progress | None) -> Progress:
    """A `progress` that tells another one where a run is, and ends it with a DeviceError so many seconds from now."""
    deadline = monotonic() + seconds

    def watch(place: FaultPlace) -> None:
        if progress is not None:
            progress(place)
        if monotonic() >= deadline:
            raise DeviceError("E1008", f"still running after {seconds:g} s", origin=place.origin, hint="timeout= allows more")

    return watch
