"""What is settled before a run begins: that its files can be written, and when it ends at the latest."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hlo2tx8.errors import DeviceError, InputError

LONGEST_SECONDS = 1e8  # three years, which every system's timer can count


def check_writable(path: Path | None) -> None:
    """InputError if no file can be written at that path; None is no file."""
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise InputError("E1004", f"{path} is a folder")
    if not folder.is_dir():
        raise InputError("E1004", f"{path}: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError("E1004", f"{path} cannot be written")


def check_folder(path: Path | None) -> None:
    """InputError if there is no folder of that name and none can be made; None is no folder."""
    if path is None:
        return
    there = next(folder for folder in (path, *path.parents, Path()) if folder.exists())
    if not there.is_dir():
        raise InputError("E1004", f"{there} is not a folder")
    if not os.access(there, os.W_OK):
        raise InputError("E1004", f"{there} cannot be written")


@contextmanager
def at_most(seconds: float, what: str) -> Generator[None]:
    """A context that a DeviceError ends after so many seconds, wherever it is; 0 is no limit. For the main thread."""
    if not seconds:
        yield
        return

    def stop(*_: object) -> None:
        raise DeviceError("E1008", f"{what}: still running after {seconds:g} s", hint="--timeout=S allows more")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, LONGEST_SECONDS))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
