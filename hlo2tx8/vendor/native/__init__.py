"""libtx8model: the machine for main programs in C; `folder()` has the library, its headers and its pkg-config file."""

from pathlib import Path


def folder() -> Path:
    """Where `tx8_model.h`, `tx8model.pc` and, if they were built, `tx8.h` and `libtx8model.so` are."""
    return Path(__file__).parent
