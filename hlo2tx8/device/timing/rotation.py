"""Buffers that a loop takes in turns: after how many turns it is back at the first."""

from collections.abc import Sequence
from math import lcm

from hlo2tx8.device.isa.encoding import Record, Register, number_of
from hlo2tx8.device.isa.kc_control import KcFloorDiv, KcMod

MOST_ROTATION = 6


def rotation_of(counter: int, made: Sequence[Record]) -> int:
    """The turns of a loop after which divisions by constants are back where they were; those by large ones are left alone.

    Only what depends on the loop's counter, or on a turn before, goes on from turn to turn.
    """
    lasting = {counter}
    is_set = set[int]()
    for record in made:
        lasting |= _sources(record) - is_set
        is_set.add(number_of(record.fields["rd"]))
    lasting &= is_set | {counter}
    size = 0
    while size != len(lasting):
        size = len(lasting)
        lasting |= {number_of(r.fields["rd"]) for r in made if _sources(r) & lasting}
    divisions = [r for r in made if r.kind in (KcMod, KcFloorDiv) and _sources(r) & lasting]
    divisors = [r.fields["b"] for r in divisions]
    return lcm(*(d for d in divisors if isinstance(d, int) and 0 < d <= MOST_ROTATION)) if divisors else 1


def _sources(record: Record) -> set[int]:
    return {o.number for name, o in record.fields.items() if isinstance(o, Register) and name != "rd"}
