"""Find and load the build of the native core that fits this processor."""

import ctypes
import importlib.machinery
import platform
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hlo2tx8.device.native.launch import declare

ABI_VERSION = 7
# Best last; each level's `tx8_supported` (compiled for the baseline) says whether the processor has it.
LEVELS = ("baseline", "v2", "v3", "v4")


@dataclass(frozen=True)
class LoadedCore:
    """`library` with the functions of core.h; `level` is its instruction set."""

    library: ctypes.CDLL
    level: str


def _path(level: str) -> Path | None:
    directory = Path(__file__).parent
    for suffix in (*importlib.machinery.EXTENSION_SUFFIXES, ".so"):
        path = directory / f"core_{level}{suffix}"
        if path.exists():
            return path
    return None


@cache
def load() -> LoadedCore | str:
    """The best core, or the reason why there is none, of which a warning tells once: without it programs take far longer."""
    reason = f"no library for {platform.machine()} was built; install with a C compiler"
    for level in reversed(LEVELS):
        path = _path(level)
        if path is None:
            continue
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            reason = str(error)
            continue
        if library.tx8_abi_version() != ABI_VERSION:
            reason = f"{path.name} is of another version; build it again"
        elif library.tx8_supported():
            declare(library)
            return LoadedCore(library, level)
    warnings.warn(f"no native core, programs run in the slow definition tier: {reason}", RuntimeWarning, stacklevel=3)
    return reason
