"""Records that test which branch a selector takes."""

from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import KcAffine, KcLess, KcMul

NO_BRANCH = -1
SELECTOR, FOUND, OTHER = map(Register, range(2, 5))
"""Registers of the program, which kernels use too: they hold nothing while a branch that is taken runs."""


def in_range(num_branches: int) -> list[Record]:
    """Records that replace a selector outside of 0..num_branches-1 by the number of the last branch."""
    last = num_branches - 1
    return [
        Record(KcLess, {"rd": FOUND, "a": SELECTOR, "b": last}),
        Record(KcLess, {"rd": OTHER, "a": SELECTOR, "b": 0}),
        Record(KcAffine, {"rd": FOUND, "c": 0, "r1": FOUND, "k1": 1, "r2": OTHER, "k2": -1}),
        Record(KcAffine, {"rd": SELECTOR, "c": -last, "r1": SELECTOR, "k1": 1}),
        Record(KcMul, {"rd": SELECTOR, "a": SELECTOR, "b": FOUND}),
        Record(KcAffine, {"rd": SELECTOR, "c": last, "r1": SELECTOR, "k1": 1}),
    ]


def is_selected(number: int) -> list[Record]:
    """Records that set register FOUND to 1 if the selector equals `number`, else to 0."""
    return [
        Record(KcLess, {"rd": FOUND, "a": SELECTOR, "b": number + 1}),
        Record(KcLess, {"rd": OTHER, "a": SELECTOR, "b": number}),
        Record(KcAffine, {"rd": FOUND, "c": 0, "r1": FOUND, "k1": 1, "r2": OTHER, "k2": -1}),
    ]
