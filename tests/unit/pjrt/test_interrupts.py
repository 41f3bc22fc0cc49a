"""Ctrl-C in work that does not look for it."""

import time
from typing import Any, cast

import pytest

from hlo2tx8.pjrt.interrupts import Interrupts


class Library:
    """As the native one, with presses at will."""

    presses = 0

    def interrupts(self) -> int:
        return self.presses


def test_work_that_never_checks_is_ended():
    library = Library()
    interrupts = Interrupts(cast(Any, library))
    started = time.monotonic()

    def work() -> None:
        with interrupts.ending(interrupts.count()):
            while time.monotonic() < started + 20:
                library.presses = 1

    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() < started + 10


def test_what_follows_is_not_ended():
    library = Library()
    interrupts = Interrupts(cast(Any, library))
    with interrupts.ending(interrupts.count()):
        library.presses = 1
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        pass
