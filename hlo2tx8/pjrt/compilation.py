"""From a module and options that jax passes to `compile` to an executable and the facts that jax asks about it."""

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

import hlo2tx8
from hlo2tx8.options import Options
from hlo2tx8.pjrt.configuration import override
from hlo2tx8.pjrt.interrupts import Interrupts
from hlo2tx8.pjrt.jax_side import CompileOptions, MainFunction, compile_options, main_function
from hlo2tx8.protobuf import integers, messages
from hlo2tx8.spmd.host_functions import HostFunctions

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from hlo2tx8.compiler.driver import Watch
    from hlo2tx8.hlo.signature import Signature
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.spmd.segmented_executable import SegmentedExecutable

    AnyExecutable: TypeAlias = Executable | SegmentedExecutable

MOST_CACHED = 512
ALIASING, DONOR = "tf.aliasing_output", "jax.buffer_donor"
SAID = (ALIASING.encode(), DONOR.encode(), b"mhlo.memory_kind")
"""Attributes of arguments and results that `describe` looks for."""


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
        shape = self.assignment.num_replicas, self.assignment.num_partitions
        return hashlib.sha256(self.code + repr((self.options, shape, hlo2tx8.__version__)).encode()).hexdigest()


@dataclass(frozen=True)
class Compiled:
    """An executable, the arguments whose buffers it takes over, and the memory kinds of its results ("" is the default).

    Tokens are arrays without elements to the executable. `code` is the program of one device. Shardings are serialised
    OpSharding, none for one device.
    """

    executable: "AnyExecutable"
    donated: tuple[int, ...]
    output_memory_kinds: tuple[str, ...]
    parameter_memory_kinds: tuple[str, ...]
    token_inputs: tuple[int, ...] = ()
    token_outputs: tuple[int, ...] = ()
    code: bytes = b""
    parameter_shardings: tuple[bytes, ...] = ()
    output_shardings: tuple[bytes, ...] = ()


class Compiler:
    """Compiles requests, one at a time; equal ones once."""

    def __init__(self, functions: HostFunctions, interrupts: Interrupts) -> None:
        self.functions = functions
        self.interrupts = interrupts
        self.lock = threading.Lock()
        self.done: OrderedDict[str, Compiled] = OrderedDict()
        self.dump_numbers = count()

    def compile(self, request: Request) -> Compiled:
        """Raises what `hlo2tx8.compile` does."""
        key = request.fingerprint
        with self.lock:
            self.interrupts.check(self.interrupts.count())  # the process may be about to end
            compiled = self.done.get(key) or self.watched(request)
            self.done[key] = compiled
            self.done.move_to_end(key)
            while len(self.done) > MOST_CACHED:
                self.done.popitem(last=False)
        return compiled

    def has_host_functions(self, fingerprint: bytes) -> bool:
        """Does the executable that was made for that request call functions of this process?"""
        compiled = self.done.get(fingerprint.decode())
        return compiled is not None and bool(getattr(compiled.executable, "functions", ()))

    def watched(self, request: Request) -> Compiled:
        """Compiles with a progress bar, until Ctrl-C."""
        from hlo2tx8.runtime.progress_bar import shown

        if request.options.dump_dir is not None:
            request = replace(request, options=replace(request.options, dump_number=next(self.dump_numbers)))
        interrupts = self.interrupts.count()
        with shown() as bar:

            def watch(part: float, what: str) -> None:
                self.interrupts.check(interrupts)
                bar(part, what)

            return _compile(request, self.functions, watch)


def _compile(request: Request, functions: HostFunctions, watch: "Watch") -> Compiled:
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.frontend.tokens import replace_tokens
    from hlo2tx8.spmd.partition_module import PartitionedModule, partition

    local = partition(request.code) if request.assignment.num_partitions > 1 else PartitionedModule(request.code, (), ())
    module = load_source(local.code, is_sound=True)
    token_inputs, token_outputs = replace_tokens(module)
    executable: AnyExecutable = _executable(module, local.code, request, functions, watch)
    return replace(
        describe(executable, request.code),
        token_inputs=token_inputs,
        token_outputs=token_outputs,
        code=local.code,
        parameter_shardings=local.arguments,
        output_shardings=local.results,
    )


def describe(executable: "AnyExecutable", code: bytes) -> Compiled:
    """The executable of a module for one device, with what the module says of its arguments and results."""
    if not any(name in code for name in SAID):  # bytecode has names as they are; to parse it again takes time
        of_outputs, of_inputs = (("",) * len(ports) for ports in (executable.signature.outputs, executable.signature.inputs))
        return Compiled(executable, (), of_outputs, of_inputs, code=code)
    main = main_function(code)
    donated = _donated(main, executable.signature)
    return Compiled(executable, donated, _memory_kinds(main.results), _memory_kinds(main.arguments), code=code)


def _donated(main: MainFunction, signature: "Signature") -> tuple[int, ...]:
    """Arguments whose memory a result gets: it is said which, or any result of that size may. Other donors keep theirs."""
    found = [i for i, attributes in enumerate(main.arguments) if ALIASING in attributes]
    taken = {int(main.arguments[i][ALIASING].partition(" ")[0]) for i in found}
    free = [output.size_bytes for i, output in enumerate(signature.outputs) if i not in taken]
    for i, attributes in enumerate(main.arguments):
        if DONOR in attributes and signature.inputs[i].size_bytes in free:
            free.remove(signature.inputs[i].size_bytes)
            found.append(i)
    return tuple(sorted(found))


def _memory_kinds(attributes: tuple[dict[str, str], ...]) -> tuple[str, ...]:
    return tuple(entry.get("mhlo.memory_kind", "").strip('"') for entry in attributes)


def _executable(
    module: "ModuleOp", code: bytes, request: Request, functions: HostFunctions, watch: "Watch"
) -> "Executable | SegmentedExecutable":
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.frontend.tokens import replace_tokens
    from hlo2tx8.runtime.compile import compile_module
    from hlo2tx8.spmd.segmented_executable import compile_segments
    from hlo2tx8.spmd.segments import segment_program

    found = segment_program(module)
    if found is not None:
        shape = request.assignment.num_replicas, request.assignment.num_partitions
        return compile_segments(module, found, request.options, functions, shape, watch)
    loaded = [module]

    def load() -> "ModuleOp":
        if loaded:
            return loaded.pop()
        again = load_source(code, is_sound=True)
        replace_tokens(again)
        return again

    return compile_module(load, request.options, watch)
