"""Executables: compile, ask, launch."""

import ctypes
import time
from collections.abc import Iterator, Mapping
from typing import Any

from hlo2tx8.pjrt.abi import ExecuteOptions, Program
from hlo2tx8.pjrt.buffers import BufferEntries, ShapeHandle, address_of, shape_handle
from hlo2tx8.pjrt.cells import Array, Cell, Job
from hlo2tx8.pjrt.compilation import Compiled, Compiler, Request
from hlo2tx8.pjrt.devices import Client, Device
from hlo2tx8.pjrt.elements import code_of
from hlo2tx8.pjrt.errors import Code, PjrtError
from hlo2tx8.pjrt.memory import Keep, read_int64s, read_pointers, read_text
from hlo2tx8.pjrt.native import PluginLibrary

QUICK_SECONDS = 5e-4
"""A program whose last run took less is run in the thread that launches it: queueing would cost as much."""
MLIR = "mlir"


class Loaded:
    """An executable on its devices, with everything jax asks about in the form C wants."""

    def __init__(self, compiled: Compiled, request: Request, client: Client, devices: tuple[Device, ...]) -> None:
        self.compiled = compiled
        self.executable = compiled.executable
        self.request = request
        self.client = client
        self.devices = devices
        self.is_quick = False
        self.keep = Keep()
        outputs = self.executable.signature.outputs
        self.shapes = (ShapeHandle * max(1, len(outputs)))(
            *(shape_handle(code_of(port.dtype), port.shape, self.keep) for port in outputs)
        )
        self.shapes_address = self.keep.address(self.shapes)
        self.num_outputs = len(outputs)
        self.output_kinds = [kind or devices[0].default_memory.kind for kind in compiled.output_memory_kinds]
        self.has_other_memories = any(kind != devices[0].default_memory.kind for kind in self.output_kinds)
        self.is_deleted = False

    def run(self, arrays: list[Array]) -> list[Array]:
        """The outputs for these inputs."""
        started = time.perf_counter()
        outputs = self.executable.execute(*arrays)
        self.is_quick = time.perf_counter() - started < QUICK_SECONDS
        return outputs


class ExecutableEntries(BufferEntries):
    """The entry points about executables that Python serves."""

    def __init__(self, library: PluginLibrary) -> None:
        super().__init__(library)
        self.compiler = Compiler()

    def Client_Compile(self, args: Any) -> None:
        self.drain()
        client = self.clients[args.client]
        program = Program.from_address(args.program)
        format = read_text(program.format, program.format_size)
        if format != MLIR:
            raise NotImplementedError(f"programs of format {format}")
        code = ctypes.string_at(program.code, program.code_size)
        options = ctypes.string_at(args.compile_options, args.compile_options_size)
        request = Request.of(code, options, client.options)
        args.executable = self.load(self.compiler.compile(request), request, client)

    def load(self, compiled: Compiled, request: Request, client: Client) -> int:
        """The handle of a new loaded executable."""
        devices = tuple(self.devices[self.device_of(client.address, id)] for row in request.assignment.devices for id in row)
        return self.new_handle(Loaded(compiled, request, client, devices))

    def new_handle(self, loaded: Loaded) -> int:
        """A handle, loaded or not."""
        assignment = loaded.request.assignment
        counts = assignment.num_replicas, assignment.num_partitions, loaded.num_outputs
        address = self.library.executable_create(*counts)
        self.executables[address] = loaded
        return address

    def LoadedExecutable_GetExecutable(self, args: Any) -> None:
        args.executable = self.new_handle(self.executables[args.loaded_executable])

    def LoadedExecutable_AddressableDevices(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        devices = () if loaded.request.assignment.is_portable else loaded.devices
        args.devices, args.num_devices = loaded.keep.pointers([d.address for d in devices]), len(devices)

    def LoadedExecutable_AddressableDeviceLogicalIds(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        assignment = loaded.request.assignment
        pairs = [(r, p) for r in range(assignment.num_replicas) for p in range(assignment.num_partitions)]
        pairs = [] if assignment.is_portable else pairs
        table = (ctypes.c_int32 * max(2, 2 * len(pairs)))(*(number for pair in pairs for number in pair))
        args.logical_ids, args.num_logical_ids = loaded.keep.address(table), len(pairs)

    def LoadedExecutable_GetDeviceAssignment(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        args.bytes, args.bytes_size = loaded.keep.text(loaded.request.assignment.serialized)
        args.holder, args.deleter = None, self.library.address("tx8_keep")

    def LoadedExecutable_Delete(self, args: Any) -> None:
        self.executables[args.executable].is_deleted = True

    def LoadedExecutable_IsDeleted(self, args: Any) -> None:
        args.is_deleted = self.executables[args.executable].is_deleted

    def Executable_Name(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        args.name, args.name_size = loaded.keep.text(loaded.executable.name)

    def Executable_Fingerprint(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        args.fingerprint, args.fingerprint_size = loaded.keep.text(loaded.request.fingerprint)

    LoadedExecutable_Fingerprint = Executable_Fingerprint

    def Executable_SizeOfGeneratedCodeInBytes(self, args: Any) -> None:
        args.size_in_bytes = self.executables[args.executable].executable.program.code_bytes

    def Executable_OutputElementTypes(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        codes = [shape.type for shape in loaded.shapes[: loaded.num_outputs]]
        table = (ctypes.c_int32 * max(1, len(codes)))(*codes)
        args.output_types, args.num_output_types = loaded.keep.address(table), len(codes)

    def Executable_OutputDimensions(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        shapes = [port.shape for port in loaded.executable.signature.outputs]
        args.num_outputs = len(shapes)
        args.dims = loaded.keep.sizes([size for shape in shapes for size in shape])
        args.dim_sizes = loaded.keep.sizes([len(shape) for shape in shapes])

    def Executable_OutputMemoryKinds(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        args.num_outputs = len(loaded.output_kinds)
        args.memory_kinds, args.memory_kind_sizes = loaded.keep.texts(loaded.output_kinds)

    def Executable_ParameterMemoryKinds(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        kinds = [kind or loaded.devices[0].default_memory.kind for kind in loaded.compiled.parameter_memory_kinds]
        args.num_parameters = len(kinds)
        args.memory_kinds, args.memory_kind_sizes = loaded.keep.texts(kinds)

    def Executable_OptimizedProgram(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        program = Program.from_address(args.program)
        program.format, program.format_size = loaded.keep.text(MLIR)
        code = loaded.request.code
        if program.code:
            ctypes.memmove(program.code, code, len(code))
        program.code_size = len(code)

    def Executable_GetCostAnalysis(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        numbers = dict(_numbers("", loaded.executable.cost_analysis()))
        args.properties, args.num_properties = loaded.keep.named_values(numbers), len(numbers)

    def Executable_GetCompiledMemoryStats(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        sizes = loaded.executable.memory_analysis()
        for name in STATS:
            setattr(args, name, sizes.get(name, 0))
        args.temp_size_in_bytes += sizes["constant_size_in_bytes"]
        ports = loaded.executable.signature.inputs
        args.alias_size_in_bytes = sum(ports[i].size_bytes for i in loaded.compiled.donated)
        args.total_size_in_bytes = args.argument_size_in_bytes + args.output_size_in_bytes + args.temp_size_in_bytes
        args.peak_memory_in_bytes = args.total_allocation_bytes = args.total_size_in_bytes

    def LoadedExecutable_Execute(self, args: Any) -> None:
        if self.dead_head.value:
            self.drain()
        loaded: Loaded = self.executables[args.executable]
        if loaded.is_deleted:
            raise PjrtError(Code.FAILED_PRECONDITION, f"executable {loaded.executable.name} has been deleted")
        device = self.devices[args.execute_device] if args.execute_device else loaded.devices[0]
        buffers = read_pointers(ctypes.c_void_p.from_address(args.argument_lists).value, args.num_args) if args.num_args else []
        if loaded.compiled.donated:
            self.check_donation(loaded, buffers)
        inputs = [self.cells[buffer] for buffer in buffers]
        output_list = ctypes.c_void_p.from_address(args.output_lists).value
        if loaded.is_quick and not any(cell.job for cell in inputs):
            arrays = loaded.executable.execute(*[cell.value() for cell in inputs])
            complete = self.ready_event
            self.new_outputs(loaded, device, None, [Cell(array) for array in arrays], output_list)
        else:
            complete = self.library.event_create(2)
            outputs = [Cell() for _ in range(loaded.num_outputs)]
            payloads = self.new_outputs(loaded, device, complete, outputs, output_list)
            self.enqueue(loaded, inputs, complete, outputs, payloads)
        if args.device_complete_events:
            ctypes.c_void_p.from_address(args.device_complete_events).value = complete
        else:
            self.library.event_release(complete)
        if loaded.compiled.donated:
            self.donate(loaded, buffers, args.options)

    def enqueue(self, loaded: Loaded, inputs: list[Cell], event: int, outputs: list[Cell], payloads: list[int]) -> None:
        """Queues a run that fills the outputs."""

        def work() -> None:
            arrays = loaded.run([cell.value() for cell in inputs])
            for cell, payload, array in zip(outputs, payloads, arrays, strict=True):
                cell.array = array
                cell.job = None
                self.library.payload_set(payload, address_of(array))

        def fail(error: PjrtError) -> None:
            for cell, payload in zip(outputs, payloads, strict=True):
                cell.error = error
                cell.job = None
                self.library.payload_set(payload, None)

        job = Job(work, event, fail)
        for cell in outputs:
            cell.job = job
        self.worker.submit(job)

    def new_outputs(
        self, loaded: Loaded, device: Device, event: int | None, cells: list[Cell], output_list: int | None
    ) -> list[int]:
        """Buffers for a launch's outputs, written into the caller's list; their payloads."""
        if not cells:
            return []
        place = device.address, device.default_memory.address, event
        table = ctypes.c_void_p * len(cells)
        data = None if event is not None else table(*[address_of(cell.value()) for cell in cells])
        payloads = table()
        if self.library.outputs_create(*place, loaded.shapes_address, len(cells), data, payloads, output_list):
            raise MemoryError("no memory for the outputs' buffers")
        addresses = read_pointers(output_list, len(cells))
        for address, payload, cell in zip(addresses, payloads, cells, strict=True):
            self.cells[address] = self.cells[payload] = cell
        return payloads[:]

    def check_donation(self, loaded: Loaded, buffers: list[int]) -> None:
        """PjrtError if a buffer that the program takes over is passed to it twice."""
        for i in loaded.compiled.donated:
            if buffers.count(buffers[i]) > 1:
                raise PjrtError(
                    Code.INVALID_ARGUMENT, f"argument {i} of {loaded.executable.name} is donated and used twice: f(donate(a), a)"
                )

    def donate(self, loaded: Loaded, buffers: list[int], options: int | None) -> None:
        """Marks the buffers that the program took over as deleted."""
        kept: tuple[int, ...] = ()
        if options:
            given = ExecuteOptions.from_address(options)
            kept = read_int64s(given.non_donatable, given.num_non_donatable)
        for i in loaded.compiled.donated:
            if i not in kept and self.library.buffer_delete(buffers[i]):
                self.cells[buffers[i]] = Cell()


def _numbers(name: str, value: object) -> Iterator[tuple[str, float]]:
    """The numbers of nested mappings, by dotted names."""
    if isinstance(value, Mapping):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _numbers(f"{name}.{key}" if name else str(key), inner)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, (int, float)):
        yield name, float(value)


STATS = (
    "generated_code_size_in_bytes", "argument_size_in_bytes", "output_size_in_bytes", "alias_size_in_bytes", "temp_size_in_bytes",
    "host_generated_code_size_in_bytes", "host_argument_size_in_bytes", "host_output_size_in_bytes", "host_alias_size_in_bytes",
    "host_temp_size_in_bytes", "peak_memory_in_bytes", "total_size_in_bytes", "total_allocation_bytes", "indefinite_allocations",
    "peak_unpadded_heap_bytes",
)  # fmt: skip
