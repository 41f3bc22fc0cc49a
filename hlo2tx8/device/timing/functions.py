"""Functions in the timing model: what a call takes is followed once, where it depends on nothing before.

A function that all tiles enter and leave together, with nothing under way and no registers that matter, takes the same cycles
each time. So the time of calls of calls is known without following each, however many there are.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hlo2tx8.device.timing.bundle import Bundle
from hlo2tx8.device.timing.steps import Op, Step

if TYPE_CHECKING:
    from hlo2tx8.device.timing.engines import Sums
    from hlo2tx8.device.timing.machine import TimingMachine


class _Begun(NamedTuple):
    """A call that is measured: how many are around it, its function, and clock and counters before it."""

    depth: int
    function: int
    cycle: float
    sums: "Sums"


@dataclass
class Calls:
    """Cycles and counters of functions, by the step they begin with, and calls that are being measured, the innermost last."""

    known: "dict[int, tuple[float, Sums]]" = field(default_factory=lambda: {})
    begun: list[_Begun] = field(default_factory=list[_Begun])


def follow_function(machine: "TimingMachine", b: Bundle, step: Step) -> None:
    """A bundle passes by a function, calls it or returns from it."""
    machine.spend(b, step, 1 if step.op is Op.CALL else 0)
    if step.op is Op.RETURN:
        _end(machine, b)
        b.at = b.returns.pop()
        return
    if step.op is Op.CALL:
        if _repeat(machine, b, step.target):
            b.at += 1
            return
        b.returns.append(b.at + 1)
    b.at = step.target + 1


def _is_alone(machine: "TimingMachine", b: Bundle) -> bool:
    """Do all tiles do the same, is nothing under way, and is nothing told of what happens?"""
    is_told = machine.recorder is not None or machine.replay is not None
    return not is_told and len(machine.bundles) == 1 and b.is_drained(b.now) and not machine.steps.enter_functions


def _repeat(machine: "TimingMachine", b: Bundle, function: int) -> bool:
    """Count a call of a function whose cost is known; True if that was done. Otherwise it is measured, if it can be."""
    if not _is_alone(machine, b):
        return False
    calls = machine.calls
    if function not in calls.known:
        calls.begun.append(_Begun(len(b.returns) + 1, function, b.now, machine.sums()))
        return False
    cycles, (records, counters) = calls.known[function]
    machine.records += records
    machine.counters += counters
    b.now += cycles
    return True


def _end(machine: "TimingMachine", b: Bundle) -> None:
    """Keep what a call cost."""
    begun, start = machine.calls.begun, None
    while begun and begun[-1].depth >= len(b.returns):
        start = begun.pop()
    if start is not None and start.depth == len(b.returns) and _is_alone(machine, b):
        records, counters = machine.sums()
        machine.calls.known[start.function] = b.now - start.cycle, (records - start.sums[0], counters - start.sums[1])
