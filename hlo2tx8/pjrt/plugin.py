"""The function table: native entry points where Python must not run, Python ones elsewhere, errors in the other slots."""

import ctypes
import sys
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any

from hlo2tx8.pjrt.abi import FUNCTIONS, LAYOUTS, LAYOUTS_TYPE, MAJOR, MINOR, SHARDINGS, SHARDINGS_TYPE, argument_struct, arguments
from hlo2tx8.pjrt.errors import code_and_message
from hlo2tx8.pjrt.extensions import ExtensionEntries
from hlo2tx8.pjrt.jax_side import end_without_others
from hlo2tx8.pjrt.native import PluginLibrary
from hlo2tx8.pjrt.profiler import Profiler

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
SPARE_SLOTS = 64
"""Zeros behind the table: newer callers look at slots this version does not have."""
PAUSE_SECONDS, TURNS_TO_INTERRUPT, MOST_TURNS = 0.01, 50, 3000
"""While the process ends, calls are waited for: looked at every 0.01 s, interrupted every 0.5 s, and given up after 30 s."""
LEAVING_SECONDS = 10.0
"""Where a process of a pod has died, its first process is the last to end: jax aborts the others as soon as that is gone."""
MAKERS = frozenset({"Client_Compile", "Client_BufferFromHostBuffer", "Executable_DeserializeAndLoad", "LoadedExecutable_Execute"})
"""What threads that live longer than the interpreter may still ask for: they get an error, not an address of nothing."""

NOTHING_TO_DO = frozenset({"Client_UpdateGlobalProcessInfo"})
"""What jaxlib ends the process for if it fails. How other processes are is known from the connections to them."""


class ServedCall(ctypes.Structure):
    """What a function of Python is given: the address of its arguments, and room for what it gives. What a function returns in C
    is of no use: ctypes returns anything if Ctrl-C comes before its first line.
    """

    _fields_ = (("args", ctypes.c_void_p), ("result", ctypes.c_void_p))


class Extension(ctypes.Structure):
    """The head of PJRT_Extension_Base; function pointers follow."""

    _fields_ = (("struct_size", ctypes.c_size_t), ("type", ctypes.c_int32), ("next", ctypes.c_void_p))


class Head(ctypes.Structure):
    """PJRT_Api before its function pointers."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("version_size", ctypes.c_size_t),
        ("version_extension", ctypes.c_void_p),
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
    )


class Plugin:
    """PJRT_Api and its extensions. jaxlib keeps their addresses for ever, so a plugin is made once and never goes."""

    def __init__(self, library: PluginLibrary) -> None:
        self.library: Any = library
        self.entries = ExtensionEntries(library)
        self.callbacks: list[Any] = []
        self.python_slots: list[tuple[Any, int, str]] = []
        self.threads: list[int] = []
        shardings = self.extension(SHARDINGS, SHARDINGS_TYPE, None)
        layouts = self.extension(LAYOUTS, LAYOUTS_TYPE, shardings)
        self.head, table = self.table(Head, FUNCTIONS, SPARE_SLOTS)
        self.head.struct_size = ctypes.sizeof(Head) + 8 * len(FUNCTIONS)
        self.profiler = Profiler(library, self.entries.timeline, layouts)
        self.head.extension_start = self.profiler.address
        self.head.version_size, self.head.major, self.head.minor = 24, MAJOR, MINOR
        self.address = ctypes.addressof(table)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def extension(self, names: tuple[str, ...], type_code: int, following: int | None) -> int:
        """The address of an extension."""
        head, table = self.table(Extension, names, 0)
        head.struct_size = ctypes.sizeof(Extension) + 8 * len(names)
        head.type, head.next = type_code, following
        return ctypes.addressof(table)

    def table(self, head: Any, names: tuple[str, ...], spare: int) -> tuple[Any, Any]:
        """A structure with that head and one pointer per function."""
        memory = (ctypes.c_char * (ctypes.sizeof(head) + 8 * (len(names) + spare)))()
        slots = (ctypes.c_void_p * len(names)).from_buffer(memory, ctypes.sizeof(head))
        for i, name in enumerate(names):
            native = self.library.address(name)
            slots[i] = native or self.python_entry(name)
            if native is None:
                self.python_slots.append((slots, i, name))
        return head.from_buffer(memory), memory

    def python_entry(self, name: str) -> int | None:
        """The address of a function that Python serves, or that nobody does."""
        if name in NOTHING_TO_DO:
            return self.library.address("tx8_nothing")
        function = getattr(self.entries, name, None)
        if function is None:
            return self.library.address("tx8_unimplemented")
        callback = ENTRY(self.guarded(name, function))
        self.callbacks.append(callback)
        return self.library.entry(ctypes.cast(callback, ctypes.c_void_p).value)

    def guarded(self, name: str, function: Callable[[Any], None]) -> Callable[[int], None]:
        """Runs the function for a `ServedCall` at that address; what it raises becomes a PJRT_Error."""
        assert name in arguments(), name
        from_address, call_at = argument_struct(name).from_address, ServedCall.from_address
        make_error, nothing, threads = self.library.error, self.library.address("tx8_nothing"), self.threads
        is_long = name in MAKERS

        def serve(address: int) -> None:
            call = call_at(address)
            if is_long:
                threads.append(get_ident())
            try:
                function(from_address(call.args))
                call.result = nothing
            except BaseException as error:
                code, message = code_and_message(error)
                data = message.encode()
                call.result = make_error(code, data, len(data))
            finally:
                if is_long:
                    threads.remove(get_ident())

        return serve

    def leave_pods(self) -> None:
        """Says good-bye to the other processes of a pod: after what is queued, or at once and why if an exception ends this one."""
        error, worker = getattr(sys, "last_value", None), self.entries.worker
        for pod in [client.pod for client in self.entries.clients.values() if client.pod]:
            while error is None and worker.is_busy:
                time.sleep(PAUSE_SECONDS)
            pod.leave("" if error is None else f"{type(error).__name__}: {error}")
            if pod.has_died:
                end_without_others()
                pod.wait_for_ends(LEAVING_SECONDS if pod.number == 0 else 0.0)

    def close(self) -> None:
        """Ends all work and turns Python's functions into native no-ops: no Python runs for jaxlib from here on.

        Native ones stay, for the threads that are still on their way out.
        """
        self.entries.worker.interrupts.end_all()
        self.entries.worker.stop()
        self.profiler.close()
        nothing, ended = self.library.address("tx8_nothing"), self.library.address("tx8_ended")
        for slots, i, name in self.python_slots:
            slots[i] = ended if name in MAKERS else nothing
        self._wait_for_threads()

    def _wait_for_threads(self) -> None:
        """Until no thread is in a function of this plugin: one that meets the end of the interpreter there never returns,
        and jaxlib waits for it. A compilation between two of its checks is interrupted.
        """
        for turn in range(1, MOST_TURNS):
            if self.library.calls() == 0:
                break
            time.sleep(PAUSE_SECONDS)
            for thread in tuple(self.threads) if turn % TURNS_TO_INTERRUPT == 0 else ():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))
