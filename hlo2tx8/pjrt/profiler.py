"""The profiler extension: jax.profiler hears from it what ran on the device. Its functions never fail."""

import ctypes
from collections.abc import Callable
from typing import Any

from hlo2tx8.pjrt.native import PluginLibrary
from hlo2tx8.pjrt.timeline import Timeline

PROFILER_TYPE = 1
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
FUNCTIONS = ("error_destroy", "error_message", "error_get_code", "create", "destroy", "start", "stop", "collect_data")
"""PLUGIN_Profiler_Api after its size and a pointer."""


class ProfilerApi(ctypes.Structure):
    """PLUGIN_Profiler_Api."""

    _fields_ = (("struct_size", ctypes.c_size_t), ("priv", ctypes.c_void_p), *((name, ctypes.c_void_p) for name in FUNCTIONS))


class ProfilerExtension(ctypes.Structure):
    """PJRT_Profiler_Extension."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("profiler_api", ctypes.c_void_p),
        ("traceme_context_id", ctypes.c_int64),
    )


class CreateArgs(ctypes.Structure):
    """PLUGIN_Profiler_Create_Args."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("options", ctypes.c_void_p),
        ("options_size", ctypes.c_size_t),
        ("profiler", ctypes.c_void_p),
    )


class CollectArgs(ctypes.Structure):
    """PLUGIN_Profiler_CollectData_Args."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("profiler", ctypes.c_void_p),
        ("buffer", ctypes.c_void_p),
        ("buffer_size_in_bytes", ctypes.c_size_t),
    )


class Profiler:
    """The extension's structures; as long-lived as the plugin."""

    def __init__(self, library: PluginLibrary, timeline: Timeline, following: int | None) -> None:
        self.timeline = timeline
        self.collected = ctypes.create_string_buffer(1)
        self.nothing = library.address("tx8_nothing")
        self.api = ProfilerApi(ctypes.sizeof(ProfilerApi), None, *[self.nothing] * len(FUNCTIONS))
        self.callbacks: list[Any] = []
        for name in ("create", "start", "stop", "collect_data"):
            callback = FUNCTION(self.silent(getattr(self, name)))
            self.callbacks.append(callback)
            setattr(self.api, name, ctypes.cast(callback, ctypes.c_void_p))
        size = ctypes.sizeof(ProfilerExtension)
        self.extension = ProfilerExtension(size, PROFILER_TYPE, following, ctypes.addressof(self.api), 0)
        self.address = ctypes.addressof(self.extension)

    def silent(self, function: Callable[[int], None]) -> Callable[[int], None]:
        """A timeline is not worth a failure."""

        def call(address: int) -> None:
            try:
                function(address)
            except Exception:
                self.timeline.stop()

        return call

    def create(self, address: int) -> None:
        CreateArgs.from_address(address).profiler = self.address

    def start(self, _: int) -> None:
        self.timeline.start()

    def stop(self, _: int) -> None:
        self.timeline.stop()

    def collect_data(self, address: int) -> None:
        args = CollectArgs.from_address(address)
        args.buffer_size_in_bytes = 0
        data = self.timeline.space()
        self.collected = ctypes.create_string_buffer(data, max(1, len(data)))
        args.buffer, args.buffer_size_in_bytes = ctypes.addressof(self.collected), len(data)

    def close(self) -> None:
        """Python is not called any more."""
        self.timeline.stop()
        for name in FUNCTIONS:
            setattr(self.api, name, self.nothing)
