"""Faults: the emulator refuses to go on, and says where and why."""

from dataclasses import dataclass
from enum import Enum


class FaultKind(Enum):
    """What went wrong, and what to look at."""

    ILLEGAL_OPCODE = "the encoder, or a damaged program file"
    OUT_OF_BOUNDS = "the address arithmetic of the access, and the size of the buffer or slot"
    BAD_DESCRIPTOR = "the counts and strides of the descriptor"
    UNWRITTEN_SPM = "the producer of the buffer: was it skipped, or given another address?"
    UNEQUAL_BARRIER = "control flow that differs between tiles"
    RACE = "the wait between the two accesses, and the barrier if they are of two tiles"
    OUT_OF_BUFFER = "the address arithmetic of the access, and the size of the buffer"
    DEAD_BUFFER = "the order of instructions: was one moved out of the time its buffer is alive?"
    UNWRITTEN_DDR = "the store that should have written it: its bounds, and the loops around it"
    UNFINISHED = "the wait at the end of the program"
    MISALIGNED = "the address arithmetic of the access"
    RUNAWAY = "loop bounds"
    VALUE = "what the operands should be: is it the model, or the instruction?"
    UNPUBLISHED = "the laws of the chip description: the vendor has not published what this instruction computes"


@dataclass(frozen=True)
class FaultPlace:
    """Where it happened: tile number, record index, engine and mnemonic, HLO origin, loop counters from the outermost."""

    tile: int
    record: int
    engine: str = ""
    mnemonic: str = ""
    origin: str = ""
    counters: tuple[int, ...] = ()


class Fault(Exception):
    """A category, a place, and what is wrong."""

    def __init__(self, kind: FaultKind, detail: str, place: FaultPlace) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.place = kind, detail, place

    def __str__(self) -> str:
        place = self.place
        lines = [f"fault {self.kind.name.lower()}: {self.detail}"]
        turns = f", loop counters {list(place.counters)}" if place.counters else ""
        lines.append(f"  at tile {place.tile}, engine {place.engine}, record {place.record} {place.mnemonic}{turns}")
        if place.origin:
            lines.append(f"  from {place.origin}")
        lines.append(f"  look at {self.kind.value}")
        return "\n".join(lines)
