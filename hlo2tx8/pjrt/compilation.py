"""From what jax passes to `compile` to an executable and what jax will ask about it."""

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import hlo2tx8
from hlo2tx8.options import Options
from hlo2tx8.pjrt.configuration import override
from hlo2tx8.pjrt.jax_side import CompileOptions, compile_options, main_function
from hlo2tx8.pjrt.protobuf import integers, messages

if TYPE_CHECKING:
    from hlo2tx8.runtime.executable import Executable

MOST_CACHED = 512


@dataclass(frozen=True)
class Assignment:
    """Which device runs what: `devices[replica][partition]`. `is_portable`: the caller names one device at each launch."""

    devices: tuple[tuple[int, ...], ...]
    is_portable: bool
    serialized: bytes

    @property
    def num_replicas(self) -> int:
        return len(self.devices)

    @property
    def num_partitions(self) -> int:
        return len(self.devices[0])

    @staticmethod
    def of(options: CompileOptions) -> "Assignment":
        """The assignment that was asked for, else the first devices in order."""
        if not options.device_assignment:
            width = options.num_partitions
            devices = tuple(tuple(r * width + p for p in range(width)) for r in range(options.num_replicas))
            return Assignment(devices, options.is_portable, b"")
        columns = [integers(column, 1) for column in messages(options.device_assignment, 3)]
        return Assignment(tuple(zip(*columns, strict=True)), options.is_portable, options.device_assignment)


@dataclass(frozen=True)
class Request:
    """A module as a portable artifact, the options for it and its devices."""

    code: bytes
    options: Options
    assignment: Assignment
    serialized_options: bytes

    @staticmethod
    def of(code: bytes, serialized_options: bytes, options: Options) -> "Request":
        """The request for a serialised CompileOptionsProto; InputError on unknown compiler options."""
        parsed = compile_options(serialized_options)
        return Request(code, override(options, parsed.overrides), Assignment.of(parsed), serialized_options)

    @cached_property
    def fingerprint(self) -> str:
        """Equal for requests that give the same program."""
        return hashlib.sha256(self.code + repr((self.options, hlo2tx8.__version__)).encode()).hexdigest()


@dataclass(frozen=True)
class Compiled:
    """An executable, the arguments whose buffers it takes over, and the memory kinds of its results ("" is the default)."""

    executable: "Executable"
    donated: tuple[int, ...]
    output_memory_kinds: tuple[str, ...]
    parameter_memory_kinds: tuple[str, ...]


class Compiler:
    """Compiles requests, one at a time; equal ones once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done: OrderedDict[str, Compiled] = OrderedDict()

    def compile(self, request: Request) -> Compiled:
        """Raises what `hlo2tx8.compile` does."""
        key = request.fingerprint
        with self.lock:
            compiled = self.done.get(key) or _compile(request)
            self.done[key] = compiled
            self.done.move_to_end(key)
            while len(self.done) > MOST_CACHED:
                self.done.popitem(last=False)
        return compiled


def _compile(request: Request) -> Compiled:
    if request.assignment.num_replicas * request.assignment.num_partitions > 1:
        raise NotImplementedError("programs for several tx8 devices")
    main = main_function(request.code)
    donated = tuple(
        i for i, attributes in enumerate(main.arguments) if "tf.aliasing_output" in attributes or "jax.buffer_donor" in attributes
    )
    kinds = [tuple(a.get("mhlo.memory_kind", "").strip('"') for a in side) for side in (main.results, main.arguments)]
    return Compiled(hlo2tx8.compile(request.code, request.options), donated, *kinds)
