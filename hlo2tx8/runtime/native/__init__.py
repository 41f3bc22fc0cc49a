"""libtx8runtime: the calls of sessions for C, without Python; `folder()` has the library, its header and its pkg-config file."""

from pathlib import Path


def folder() -> Path:
    """Where `tx8_runtime.h`, `tx8runtime.pc` and, if it was built, `libtx8runtime.so` are."""
    return Path(__file__).parent
