"""Find and load the build of the native core that fits this processor."""

import ctypes
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from hlo2tx8.device.isa import declarations
from hlo2tx8.device.native import arrays

ABI_VERSION = 10
REBUILD = "build it again: make native, or pip install the package again"
# Best last; each level's `tx8_supported` (compiled for the baseline) says whether the processor has it.
LEVELS = ("baseline", "v2", "v3", "v4")


class _Python(ctypes.Structure):
    """struct python of arguments.c."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("get_buffer", "release_buffer", "item", "clear_error", "array_type"))


@dataclass(frozen=True)
class LoadedCore:
    """`library` with the functions of core.h; `level` is its instruction set; `look` and `bind` are tx8_look and tx8_bind, called
    with Python's lock.
    """

    library: ctypes.CDLL
    level: str
    look: Callable[[tuple[object, ...], int, int], int]
    bind: Callable[[tuple[object, ...], int, int, int, int, int], int]


def _path(level: str) -> Path | None:
    path = Path(__file__).with_name(f"core_{level}.so")
    return path if path.exists() else None


def declare(library: ctypes.CDLL) -> None:
    """Says what the functions take; once per library."""
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    program = (pointer, number, pointer, number)
    library.tx8_create.restype = pointer
    library.tx8_create.argtypes = (*program, number, ctypes.c_int, ctypes.c_int, pointer)
    library.tx8_restart.argtypes = (pointer, *program, pointer)
    library.tx8_set_laws.argtypes = (pointer, ctypes.c_double, ctypes.c_double)
    library.tx8_set_laws.restype = None
    library.tx8_keep_status.argtypes = (pointer, ctypes.c_int)
    library.tx8_keep_status.restype = None
    library.tx8_trust.argtypes = (pointer, ctypes.c_int)
    library.tx8_trust.restype = None
    library.tx8_status.argtypes = (pointer, ctypes.c_int)
    library.tx8_status.restype = ctypes.c_uint32
    library.tx8_keep_decisions.argtypes = (pointer, pointer, number)
    library.tx8_keep_decisions.restype = None
    library.tx8_decisions.argtypes = (pointer, pointer, number)
    library.tx8_decisions.restype = number
    library.tx8_run.argtypes = (pointer, ctypes.c_double, pointer, number)
    library.tx8_place.argtypes = (pointer, pointer)
    library.tx8_place.restype = None
    library.tx8_destroy.argtypes = (pointer,)
    library.tx8_destroy.restype = None


def _with_python(library: ctypes.CDLL, path: Path, level: str) -> LoadedCore:
    """The core with what takes Python's objects."""
    api = ctypes.pythonapi
    functions = api.PyObject_GetBuffer, api.PyBuffer_Release, api.PyTuple_GetItem, api.PyErr_Clear
    array_type = id(np.ndarray) if arrays.is_known() else None
    python = ctypes.byref(_Python(*(ctypes.cast(function, ctypes.c_void_p) for function in functions), array_type))
    locked = ctypes.PyDLL(str(path))
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    locked.tx8_look.argtypes = (pointer, ctypes.py_object, number, pointer)
    locked.tx8_bind.restype = ctypes.c_int64
    locked.tx8_bind.argtypes = (pointer, ctypes.py_object, number, number, pointer, pointer, pointer)
    return LoadedCore(library, level, partial(locked.tx8_look, python), partial(locked.tx8_bind, python))


@dataclass(frozen=True)
class MadeOf:
    """Digests of what a core was built of: of the instruction classes, and of the generated headers."""

    declarations: str
    headers: str


def made_of(library: ctypes.CDLL) -> MadeOf:
    """What a core of this version was built of."""
    library.tx8_declarations.restype = library.tx8_headers.restype = ctypes.c_char_p
    return MadeOf(library.tx8_declarations().decode(), library.tx8_headers().decode())


def _missing(error: AttributeError) -> str:
    """The function that a library has not, of `path: undefined symbol: name`."""
    return str(error).rpartition(" ")[2]


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
        try:
            if library.tx8_abi_version() != ABI_VERSION:
                reason = f"{path.name} is of another version; {REBUILD}"
            elif made_of(library).declarations != declarations.digest():
                reason = f"{path.name} was built of other instruction classes; {REBUILD}"
            elif library.tx8_supported():
                declare(library)
                return _with_python(library, path, level)
        except AttributeError as error:  # a function that was not there when it was built
            reason = f"{path.name} is older than the sources, {_missing(error)} is not in it; {REBUILD}"
    warnings.warn(f"no native core, programs run in the slow definition tier: {reason}", RuntimeWarning, stacklevel=3)
    return reason
