"""Which scalars of a program matter to its time: those that something that decides time is made of.

Registers are used again for other things, so it is asked backward from every use whether the value that a record puts into a
register can be the one that is read there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.encoding import Record, Register, number_of
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcCall,
    KcEnd,
    KcEndIf,
    KcExit,
    KcFunction,
    KcIf,
    KcLoadScalar,
    KcLoop,
    KcReturn,
)

BLOCKS = (KcEnd, KcEndIf, KcLoop, KcIf, KcExit, KcFunction, KcReturn, KcCall)
ALWAYS_SET = frozenset((0, 1))
Names = Callable[[type[Instruction]], Sequence[str]]


@cache
def is_scalar(kind: type[Instruction]) -> bool:
    """Does it only put a value into a register?"""
    return issubclass(kind, KcScalar) or kind in (KcAffine, KcLoadScalar)


@dataclass(frozen=True)
class Needed:
    """Scalars whose values matter, registers that are read before they are set, and by loop those that matter in its next turn
    and that its body sets; do registers that matter go into functions, or out of them?"""

    scalars: frozenset[int]
    live_in: frozenset[int]
    carried: Mapping[int, tuple[int, ...]]
    enter_functions: bool


def needed_scalars(records: Sequence[Record], targets: Sequence[int], names: Names) -> Needed:
    """The scalars that the named fields of other records may be made of.

    targets: per record the other end of its block, as `partners` gives them.
    """
    uses = [_Use.of(record, names) for record in records]
    at_begin: dict[int, frozenset[int]] = {}
    while True:
        seen = dict(at_begin)
        found, live = _backward(uses, targets, at_begin)
        if at_begin == seen:
            break
    carried: dict[int, tuple[int, ...]] = {}
    for loop, registers in at_begin.items():
        if records[loop].kind is not KcLoop:
            continue
        body = (i for i in range(loop + 1, targets[loop]) if i in found or records[i].kind is KcLoop)
        is_set = {number_of(records[i].fields["rd"]) for i in body}
        carried[loop] = tuple(sorted((registers - {number_of(records[loop].fields["rd"])}) & is_set))
    entered = any(registers - ALWAYS_SET for i, registers in at_begin.items() if records[i].kind in (KcFunction, KcReturn))
    return Needed(frozenset(found), live - ALWAYS_SET, carried, entered)


class _Use(NamedTuple):
    """Of a record: what it is to liveness, the register it sets (0: none that counts), those it reads."""

    kind: type[Instruction] | None
    rd: int
    reads: set[int]

    @staticmethod
    def of(record: Record, names: Names) -> "_Use":
        kind = record.kind
        if is_scalar(kind):
            fields = [o.number for n, o in record.fields.items() if type(o) is Register and n != "rd"]
            return _Use(KcScalar, number_of(record.fields["rd"]), set(fields))
        rd = number_of(record.fields["rd"]) if kind is KcLoop else 0
        return _Use(kind if kind in BLOCKS else None, rd, registers_of(record, names(kind)))


def _backward(uses: Sequence[_Use], targets: Sequence[int], at_begin: dict[int, frozenset[int]]) -> tuple[set[int], frozenset[int]]:
    """One pass; what is live where a loop's body or a function begins is known from the pass before. What is live behind any call
    of a function is so at its return."""
    found = set[int]()
    live = set[int]()
    behind: dict[int, frozenset[int]] = {}  # by the end of a block
    for i in range(len(uses) - 1, -1, -1):
        kind, rd, reads = uses[i]
        if kind is KcScalar:
            if rd not in live:
                continue
            found.add(i)
            live.discard(rd)
        elif kind is KcCall:
            end = targets[targets[i]]
            at_begin[end] = at_begin.get(end, frozenset()) | live
            live |= at_begin.get(targets[i], frozenset())
        elif kind is KcReturn:
            behind[i] = frozenset(live)
            live = set(at_begin.get(i, frozenset()))
        elif kind is KcFunction:
            at_begin[i] = frozenset(live)
            live = set(behind[targets[i]])
        elif kind is KcEnd or kind is KcEndIf:
            behind[i] = frozenset(live)
            live |= at_begin.get(targets[i], frozenset())
        elif kind is KcLoop:
            at_begin[i] = frozenset(live)
            live.discard(rd)
            live |= behind[targets[i]]
        elif kind is not None:
            live |= behind[targets[i]]
        live |= reads
    return found, frozenset(live)


def registers_of(record: Record, names: Sequence[str]) -> set[int]:
    """The registers that the named fields are in."""
    return {o.number for name in names if isinstance(o := record.fields[name], Register)}
