"""Inputs, outputs and weights of loaded programs, as a session's caller sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy.typing as npt

from hlo2tx8.device.program import SlotKind
from hlo2tx8.hlo.signature import Port
from hlo2tx8.runtime.executable import Executable

Array = npt.NDArray[Any]
Space = Literal["ddr", "host"]


@dataclass(frozen=True)
class Argument:
    """An input, output or weight of a loaded program.

    Inputs have the offsets 0, 1, ..., outputs those that follow; weights have offsets of their own. In space `ddr` a bound array is
    what the program reads or writes itself; in space `host` a run moves it to memory of the device, or back from there.
    `alias_offset` is that of the input whose memory an output takes over, None for all else.
    """

    kind: Literal["input", "output", "weight"]
    name: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    space: Space
    size_bytes: int
    alias_offset: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {Port(self.shape, self.dtype)}"


def arguments_of(executable: Executable, shapes: Mapping[int, tuple[int, ...]]) -> tuple[Argument, ...]:
    """Inputs, then outputs of a program, some of them with other shapes than its own; see Argument."""
    signature, found = executable.signature, list[Argument]()
    count = len(signature.inputs)
    donors: dict[int, Any] = {slot.index: slot.takes_over for slot in executable.program.slots_of(SlotKind.OUTPUT)}
    for offset, port in enumerate((*signature.inputs, *signature.outputs)):
        is_input, index = offset < count, offset if offset < count else offset - count
        kind = "input" if is_input else "output"
        shape = shapes.get(offset, port.shape)
        space = "host" if port.layout or shape != port.shape else "ddr"
        size = replace(port, shape=shape).size_bytes
        alias = None if is_input else donors.get(index)
        found.append(Argument(kind, port.name or f"{kind}{index}", offset, shape, port.dtype, space, size, alias))
    return tuple(found)


@dataclass(frozen=True)
class Callee:
    """What a request calls: a program, its arguments as the request has them, and the inputs that are weights of the session.

    An argument whose shape is not that of its port is padded with zeros to it, and cut back. `specialization` says what the program
    was made for.
    """

    name: str
    executable: Executable
    arguments: tuple[Argument, ...]
    weights: Mapping[int, Array] = field(default_factory=dict[int, Array])
    specialization: str = ""

    @property
    def ports(self) -> tuple[Port, ...]:
        """What the program takes, then what it gives."""
        signature = self.executable.signature
        return (*signature.inputs, *signature.outputs)

    @property
    def num_inputs(self) -> int:
        """How many arguments are inputs."""
        return len(self.executable.signature.inputs)

    def modelled_seconds(self) -> float:
        """The modelled time of one launch."""
        return self.executable.report.cycles / self.executable.chip.clock_hz
