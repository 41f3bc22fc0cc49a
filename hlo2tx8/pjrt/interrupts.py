"""Ctrl-C in work that another thread waits for in C++: that thread's Python hears of it when the work is over."""

import ctypes
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from hlo2tx8.pjrt.native import PluginLibrary

GRACE_SECONDS = 0.5
"""A run that ends by itself so soon after Ctrl-C keeps its results: a training loop that is stopped leaves its parameters."""
POLL_SECONDS = 0.1
CHECKED_SECONDS = 0.2
"""So long after Ctrl-C work that checks now and then has ended by itself."""


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

    @contextmanager
    def ending(self, count_before: int) -> Generator[None]:
        """The block's thread gets KeyboardInterrupt wherever its Python is, if it has not checked soon after Ctrl-C."""
        thread, lock, is_over = ctypes.c_ulong(threading.get_ident()), threading.Lock(), threading.Event()

        def watch() -> None:
            while not is_over.wait(POLL_SECONDS):
                try:
                    self.check(count_before, CHECKED_SECONDS)
                except KeyboardInterrupt:
                    with lock:
                        if not is_over.is_set():
                            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(KeyboardInterrupt))
                    return

        threading.Thread(target=watch, name="tx8 interrupts", daemon=True).start()
        try:
            yield
        finally:
            with lock:
                is_over.set()
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, None)
