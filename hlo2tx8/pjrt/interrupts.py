"""Ctrl-C in work that another thread waits for in C++: that thread's Python hears of it when the work is over."""

import signal
import time
from typing import Any

from hlo2tx8.pjrt.native import PluginLibrary

GRACE_SECONDS = 0.5
"""A run that ends by itself so soon after Ctrl-C keeps its results: a training loop that is stopped leaves its parameters."""


class Interrupts:
    """Counts Ctrl-C; work that began at one count ends itself when it sees another, or when the process is about to end."""

    def __init__(self, library: PluginLibrary) -> None:
        self.library: Any = library
        self.seen = 0
        self.seen_at = 0.0
        self.is_last = False

    def count(self) -> int:
        """Presses so far; counting starts with the first call."""
        return self.library.interrupts()

    def end_all(self) -> None:
        """From now on every check raises."""
        self.is_last = True

    def check(self, count_before: int, grace_seconds: float = 0.0) -> None:
        """KeyboardInterrupt if Ctrl-C was pressed since, a grace ago, and means to the program what it means by default."""
        if self.is_last:
            raise KeyboardInterrupt
        count = self.count()
        if count == count_before:
            return
        if count != self.seen:
            self.seen, self.seen_at = count, time.perf_counter()
        if time.perf_counter() >= self.seen_at + grace_seconds and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            raise KeyboardInterrupt
