"""A program on the chips of several processes: each runs its own chips, and sends what its exchanges move to chips of the others.

Processes do the same steps in the same order, and every message says from which place of the program it is: the numbers of steps,
branches and turns, from outside in. A message from a later place than the one that is waited for says that the sender went past it:
its chips took no part.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.device.emulator import Progress
from hlo2tx8.device.faults import FaultPlace
from hlo2tx8.errors import PodError
from hlo2tx8.runtime.pods.peer import Begun, Parcel, Place
from hlo2tx8.runtime.pods.pod import Pod
from hlo2tx8.runtime.pods.wire import padded
from hlo2tx8.spmd.collectives import DeviceArrays
from hlo2tx8.spmd.link_plan import Box, BoxMove, index_of, shape_of, size_of

Array = npt.NDArray[Any]
Piece = tuple[int, int, Box]
"""A box of an operand of a chip: operand, chip, box."""
WAITING = FaultPlace(0, 0, "host")


@dataclass(frozen=True)
class Routes:
    """What the moves of an exchange take to other processes, and from them with the chips here that get it, by process."""

    given: Mapping[int, tuple[Piece, ...]]
    taken: Mapping[int, Mapping[Piece, frozenset[int]]]

    @staticmethod
    def of(moves: Sequence[BoxMove], owners: Sequence[int], own: int) -> "Routes":
        """The routes of process `own`; `owners` of the chips."""
        given: dict[int, dict[Piece, None]] = {}
        taken: dict[int, dict[Piece, frozenset[int]]] = {}
        for move in moves:
            source, target, piece = owners[move.source], owners[move.target], (move.operand, move.source, move.taken)
            if source == target or not size_of(move.taken):
                continue
            if source == own:
                given.setdefault(target, {})[piece] = None
            elif target == own:
                pieces = taken.setdefault(source, {})
                pieces[piece] = pieces.get(piece, frozenset()) | {move.target}
        return Routes({process: tuple(pieces) for process, pieces in given.items()}, taken)


@dataclass(frozen=True)
class PodProgram:
    """A program whose chips are those of the processes `owners`, one for each chip, in a pod."""

    pod: Pod
    owners: tuple[int, ...]
    begun: Begun
    routes: dict[int, tuple[Sequence[BoxMove], Routes]] = field(default_factory=dict[int, tuple[Sequence[BoxMove], Routes]])

    @cached_property
    def own_chips(self) -> tuple[int, ...]:
        """The chips of this process."""
        return tuple(chip for chip, owner in enumerate(self.owners) if owner == self.pod.number)

    def routes_of(self, moves: Sequence[BoxMove]) -> Routes:
        """The routes of an exchange, found once."""
        if id(moves) not in self.routes:
            self.routes[id(moves)] = moves, Routes.of(moves, self.owners, self.pod.number)
        return self.routes[id(moves)][1]

    def run(self, work: Callable[["Run"], DeviceArrays], progress: Progress | None) -> DeviceArrays:
        """A launch. The other processes hear how it ended; PodError if one of them cannot go on."""
        run = Run(progress)
        others = tuple(sorted({*self.owners} - {self.pod.number}))
        numbers, error = self.pod.begin(others, self.begun, run.tick), ""
        try:
            return work(replace(run, launch=PodLaunch(self, numbers)))
        except BaseException as found:
            error = str(found) or type(found).__name__
            raise
        finally:
            for process, number in numbers.items():
                self.pod.peers[process].end(number, error)


@dataclass(frozen=True)
class PodLaunch:
    """A run of the program: its number for each of the other processes."""

    program: PodProgram
    numbers: Mapping[int, int]

    def exchange(
        self, moves: Sequence[BoxMove], arrays: DeviceArrays, types: Sequence[np.dtype[Any]], run: "Run"
    ) -> dict[Piece, Array]:
        """What the moves bring from other processes, of chips that take part, after giving those what they bring to them.

        `arrays`: those of the chips here that take part; `types` of the operands.
        """
        routes, peers = self.program.routes_of(moves), self.program.pod.peers
        for process in sorted({*routes.given, *routes.taken}):
            pieces = [arrays[chip][k][index_of(box)] for k, chip, box in routes.given.get(process, ()) if chip in arrays]
            peers[process].give(self.numbers[process], run.place, sorted(arrays), [np.ascontiguousarray(a) for a in pieces])
        found: dict[Piece, Array] = {}
        for process, pieces in routes.taken.items():
            if any(chip in arrays for chips in pieces.values() for chip in chips):
                part = peers[process].take(self.numbers[process], run.place, self.program.begun.name, run.tick)
                found |= {} if part is None else _unpacked(part, pieces, types, str(peers[process].name))
        return found


@dataclass(frozen=True)
class Run:
    """A run of steps: what it calls now and then, and on a pod its launch, and its place in the program."""

    progress: Progress | None = None
    launch: PodLaunch | None = None
    place: Place = ()

    def at(self, number: int) -> "Run":
        """The run within the step, branch or turn of that number."""
        return self if self.launch is None else replace(self, place=(*self.place, number))

    def is_here(self, chip: int) -> bool:
        """Is the chip one of this process?"""
        return self.launch is None or chip in self.launch.program.own_chips

    def tick(self) -> None:
        """Lets the run be interrupted between programs."""
        if self.progress is not None:
            self.progress(WAITING)

    def exchange(self, moves: Sequence[BoxMove], arrays: DeviceArrays, types: Sequence[np.dtype[Any]]) -> dict[Piece, Array]:
        """What the moves bring from other processes."""
        return {} if self.launch is None else self.launch.exchange(moves, arrays, types, self)


def _unpacked(part: Parcel, pieces: Mapping[Piece, object], types: Sequence[np.dtype[Any]], sender: str) -> dict[Piece, Array]:
    """The arrays of a message; PodError if it has not the size that they have."""
    found: dict[Piece, Array] = {}
    at = 0
    for piece in pieces:
        k, chip, box = piece
        if chip in part.chips:
            num_bytes = size_of(box) * types[k].itemsize
            if at + num_bytes <= part.body.size:
                found[piece] = part.body[at : at + num_bytes].view(types[k]).reshape(shape_of(box))
            at += padded(num_bytes)
    if at != part.body.size:
        raise PodError(f"{sender} has sent {part.body.size} bytes where {at} are expected")
    return found


def fingerprint_of(executable: Any, owners: Sequence[int]) -> str:
    """Equal for programs that run the same instructions and exchange the same boxes between the same processes."""
    plans = [(step.name, step.plan, count) for step, count in executable.links]
    digest = hashlib.sha256(repr((executable.signature, executable.mesh, plans, owners)).encode())
    for program, count in executable.programs:
        digest.update(repr((program.name, count)).encode() + program.program.code.tobytes())
    return digest.hexdigest()
