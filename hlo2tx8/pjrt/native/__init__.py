"""The plugin's native part: what jaxlib may call while no Python can run. A plain library beside this file, loaded with ctypes."""

import ctypes
from functools import cache
from pathlib import Path

ABI_VERSION = 4
REBUILD = "build it again: make native, or pip install the package again"
POINTER, SIZE, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32

FUNCTIONS: tuple[tuple[str, object, tuple[object, ...], bool], ...] = (
    ("tx8_error", POINTER, (INT, ctypes.c_char_p, SIZE), True),
    ("tx8_event_create", POINTER, (INT,), True),
    ("tx8_event_ready", POINTER, (), True),
    ("tx8_event_retain", None, (POINTER, INT), True),
    ("tx8_event_release", None, (POINTER,), True),
    ("tx8_event_set", None, (POINTER, INT, ctypes.c_char_p, SIZE), False),
    ("tx8_take_dead", SIZE, (POINTER, SIZE), True),
    ("tx8_dead", POINTER, (), True),
    ("tx8_free", None, (POINTER, SIZE), True),
    ("tx8_buffer_create", POINTER, (POINTER, POINTER, POINTER, POINTER), True),
    ("tx8_buffer_delete", INT, (POINTER,), True),
    ("tx8_payload_create", POINTER, (POINTER, POINTER, INT), True),
    ("tx8_payload_set", None, (POINTER, POINTER), True),
    ("tx8_buffer_share", POINTER, (POINTER, POINTER, POINTER), True),
    ("tx8_outputs_create", INT, (POINTER, POINTER, POINTER, POINTER, SIZE, POINTER, POINTER, POINTER), True),
    ("tx8_executable_create", POINTER, (SIZE, SIZE, SIZE), True),
    ("tx8_layout_create", POINTER, (POINTER, SIZE, INT), True),
    ("tx8_interrupts", INT, (), True),
    ("tx8_entry", POINTER, (POINTER,), True),
    ("tx8_calls", INT, (), True),
)
"""Name, result, arguments, and whether the call keeps the GIL: all do but the one that runs jaxlib's callbacks."""


class PluginLibrary:
    """The library's functions, typed; `address(name)` is what goes into a function table."""

    def __init__(self, path: Path) -> None:
        self.plain = ctypes.CDLL(str(path))
        self.with_gil = ctypes.PyDLL(str(path))
        for name, result, arguments, keeps_gil in FUNCTIONS:
            function = getattr(self.with_gil if keeps_gil else self.plain, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("tx8_"), function)

    def address(self, name: str) -> int | None:
        """The entry point of that name; None if the library has none."""
        try:
            return ctypes.cast(getattr(self.plain, name), ctypes.c_void_p).value
        except AttributeError:
            return None


@cache
def load() -> PluginLibrary | str:
    """The library, or the reason why there is none."""
    path = Path(__file__).with_name("plugin.so")
    if not path.exists():
        return "its native library was not built; install with a C compiler, or a wheel"
    try:
        library = PluginLibrary(path)
        version = library.plain.tx8_pjrt_abi_version()
    except OSError as error:
        return str(error)
    except AttributeError as error:  # `path: undefined symbol: name`
        return f"{path.name} is older than the sources, {str(error).rpartition(' ')[2]} is not in it; {REBUILD}"
    if version != ABI_VERSION:
        return f"{path.name} is of another version; {REBUILD}"
    return library
