"""PJRT's entry points about executables: compile, describe, serialise, launch."""

import ctypes
import time
from collections.abc import Callable
from importlib import import_module
from itertools import chain, product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hlo2tx8.pjrt.abi import ExecuteOptions, Program
from hlo2tx8.pjrt.analyses import STATS, numbers
from hlo2tx8.pjrt.buffers import BufferEntries, ShapeHandle, address_of, shape_handle
from hlo2tx8.pjrt.c_memory import COwned, read_int64s, read_pointers, read_text
from hlo2tx8.pjrt.compilation import Compiled, Compiler, Request
from hlo2tx8.pjrt.devices import Client, Device
from hlo2tx8.pjrt.elements import TOKEN, code_of
from hlo2tx8.pjrt.errors import Code, PjrtError
from hlo2tx8.pjrt.launch_queue import Array, BufferContents, QueuedJob
from hlo2tx8.pjrt.native import PluginLibrary
from hlo2tx8.pjrt.pod_programs import pod_program
from hlo2tx8.pjrt.timeline import Timeline
from hlo2tx8.spmd.host_functions import HostFunctions

if TYPE_CHECKING:
    from hlo2tx8.device.emulator import Progress
    from hlo2tx8.spmd.pod_launch import PodProgram
    from hlo2tx8.spmd.segmented_executable import SegmentedExecutable

QUICK_SECONDS = 5e-4
"""A program whose last run took less is run in the thread that launches it: queueing would cost as much."""
MLIR = "mlir"
ArraysByDevice = list[list[Array]]
"""Arrays by device."""
LaunchAll = Callable[[ArraysByDevice, "Progress | None"], ArraysByDevice]
NO_ELEMENTS = np.zeros(0, np.bool_)
A_TOKEN = np.zeros((), np.bool_)

WORD = ctypes.sizeof(ctypes.c_void_p)


class LoadedExecutable:
    """An executable bound to its devices, and the tables in C's form that PJRT hands out about it."""

    def __init__(
        self, compiled: Compiled, request: Request, client: Client, devices: tuple[Device, ...], timeline: Timeline
    ) -> None:
        self.compiled = compiled
        self.executable = compiled.executable
        self.request = request
        self.client = client
        self.devices = devices
        self.timeline = timeline
        self.is_quick = False
        self.places = tuple((chip, device) for chip, device in enumerate(devices) if device.process == client.process)
        self.own_devices = tuple(device for _, device in self.places)
        self.launch_all: LaunchAll | None = getattr(self.executable, "launch_all", None)
        if (
            client.pod
            and self.launch_all
            and (pod := pod_program(segmented := cast("SegmentedExecutable", self.executable), client, devices))
        ):
            self.launch_all = self.launcher(segmented, pod)
        self.keep = COwned()
        outputs = self.executable.signature.outputs
        kinds = [(code_of(port.dtype), port.shape) for port in outputs]
        for i in compiled.token_outputs:
            kinds[i] = TOKEN, ()
        self.shapes = (ShapeHandle * max(1, len(outputs)))(*(shape_handle(*kind, self.keep) for kind in kinds))
        self.shapes_address = self.keep.address(self.shapes)
        self.num_outputs = len(outputs)
        self.output_kinds = [kind or devices[0].default_memory.kind for kind in compiled.output_memory_kinds]
        self.has_other_memories = any(kind != devices[0].default_memory.kind for kind in self.output_kinds)
        self.is_deleted = False

    def launcher(self, executable: "SegmentedExecutable", pod: "PodProgram") -> LaunchAll:
        """What launches the devices of this process, while other processes launch theirs."""
        chips = [chip for chip, _ in self.places]

        def launch(rows: ArraysByDevice, progress: "Progress | None") -> ArraysByDevice:
            found = executable.launch_here(dict(zip(chips, rows, strict=True)), progress, pod)
            return [found[chip] for chip in chips]

        return launch

    def run(self, rows: ArraysByDevice, devices: tuple[Device, ...], progress: "Progress | None" = None) -> ArraysByDevice:
        """The outputs by device, from the inputs by device; a long run calls `progress` now and then, and raises what it raises."""
        started = time.perf_counter()
        for row, i in product(rows, self.compiled.token_inputs):
            row[i] = NO_ELEMENTS
        if self.launch_all is None:
            outputs = [self.executable.launch(row, progress) for row in rows]
            if import_module("jax").config.jax_debug_nans:
                from hlo2tx8.pjrt.debug_nans import warn_of_nans

                for row, found in zip(rows, outputs, strict=True):
                    warn_of_nans(self.executable, row, found)
        else:
            outputs = self.launch_all(rows, progress)
        for row, i in product(outputs, self.compiled.token_outputs):
            row[i] = A_TOKEN
        seconds = time.perf_counter() - started
        self.is_quick = self.launch_all is None and seconds < QUICK_SECONDS
        if self.timeline.is_on:
            self.timeline.add(self.executable, [device.id for device in devices], seconds)
        return outputs


class ExecutableEntries(BufferEntries):
    """The entry points about executables that Python serves."""

    def __init__(self, library: PluginLibrary) -> None:
        super().__init__(library)
        self.host_functions = HostFunctions()
        self.timeline = Timeline()
        self.compiler = Compiler(self.host_functions, self.worker.interrupts)

    def Client_Create(self, args: Any) -> None:
        super().Client_Create(args)
        if pod := self.clients[args.client].pod:
            pod.does = self.doing

    def doing(self) -> str:
        """What this process is busy with, for the others of a pod; "" if nothing."""
        return "it compiles" if self.compiler.lock.locked() else "it runs a program" * self.worker.is_working

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
        ids = [id for row in request.assignment.devices for id in row]
        ids = ids if request.assignment.serialized else client.first_ids(len(ids))
        devices = tuple(self.devices[self.device_of(client.address, id)] for id in ids)
        return self.new_handle(LoadedExecutable(compiled, request, client, devices, self.timeline))

    def new_handle(self, loaded: LoadedExecutable) -> int:
        """A handle, loaded or not."""
        assignment = loaded.request.assignment
        counts = assignment.num_replicas, assignment.num_partitions, loaded.num_outputs
        address = self.library.executable_create(*counts)
        self.executables[address] = loaded
        return address

    def LoadedExecutable_GetExecutable(self, args: Any) -> None:
        args.executable = self.new_handle(self.executables[args.loaded_executable])

    def LoadedExecutable_AddressableDevices(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        devices = () if loaded.request.assignment.is_portable else loaded.own_devices
        args.devices, args.num_devices = loaded.keep.pointers([d.address for d in devices]), len(devices)

    def LoadedExecutable_AddressableDeviceLogicalIds(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        assignment = loaded.request.assignment
        pairs = [] if assignment.is_portable else [divmod(chip, assignment.num_partitions) for chip, _ in loaded.places]
        table = (ctypes.c_int32 * max(2, 2 * len(pairs)))(*(number for pair in pairs for number in pair))
        args.logical_ids, args.num_logical_ids = loaded.keep.address(table), len(pairs)

    def LoadedExecutable_GetDeviceAssignment(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        args.bytes, args.bytes_size = loaded.keep.text(loaded.request.assignment.serialized)
        args.holder, args.deleter = None, self.library.address("tx8_keep")

    def LoadedExecutable_Delete(self, args: Any) -> None:
        self.executables[args.executable].is_deleted = True

    def LoadedExecutable_IsDeleted(self, args: Any) -> None:
        args.is_deleted = self.executables[args.executable].is_deleted

    def Executable_Name(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        args.name, args.name_size = loaded.keep.text(loaded.executable.name)

    def Executable_Fingerprint(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        args.fingerprint, args.fingerprint_size = loaded.keep.text(loaded.request.fingerprint)

    LoadedExecutable_Fingerprint = Executable_Fingerprint

    def Executable_SizeOfGeneratedCodeInBytes(self, args: Any) -> None:
        args.size_in_bytes = self.executables[args.executable].executable.memory_analysis()["generated_code_size_in_bytes"]

    def Executable_OutputElementTypes(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        codes = [shape.type for shape in loaded.shapes[: loaded.num_outputs]]
        table = (ctypes.c_int32 * max(1, len(codes)))(*codes)
        args.output_types, args.num_output_types = loaded.keep.address(table), len(codes)

    def Executable_OutputDimensions(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        shapes = [port.shape for port in loaded.executable.signature.outputs]
        args.num_outputs = len(shapes)
        args.dims = loaded.keep.sizes([size for shape in shapes for size in shape])
        args.dim_sizes = loaded.keep.sizes([len(shape) for shape in shapes])

    def Executable_OutputMemoryKinds(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        args.num_outputs = len(loaded.output_kinds)
        args.memory_kinds, args.memory_kind_sizes = loaded.keep.texts(loaded.output_kinds)

    def Executable_ParameterMemoryKinds(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        kinds = [kind or loaded.devices[0].default_memory.kind for kind in loaded.compiled.parameter_memory_kinds]
        args.num_parameters = len(kinds)
        args.memory_kinds, args.memory_kind_sizes = loaded.keep.texts(kinds)

    def Executable_OptimizedProgram(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        program = Program.from_address(args.program)
        program.format, program.format_size = loaded.keep.text(MLIR)
        code = loaded.compiled.code
        if program.code:
            ctypes.memmove(program.code, code, len(code))
        program.code_size = len(code)

    def Executable_Serialize(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        from hlo2tx8.pjrt.serialized import serialize

        args.bytes, args.bytes_size = loaded.keep.text(serialize(loaded.compiled, loaded.request))
        args.holder, args.deleter = None, self.library.address("tx8_keep")

    def Executable_DeserializeAndLoad(self, args: Any) -> None:
        from hlo2tx8.pjrt.serialized import deserialize

        self.drain()
        client = self.clients[args.client]
        data = ctypes.string_at(args.bytes, args.bytes_size)
        options = ctypes.string_at(args.options, args.options_size) if args.options else b""
        args.loaded_executable = self.load(*deserialize(data, options, client.options, self.compiler), client)

    def Executable_GetCompileOptions(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        args.bytes, args.bytes_size = loaded.keep.text(loaded.request.serialized_options)
        args.holder, args.deleter = None, self.library.address("tx8_keep")

    def Executable_GetCostAnalysis(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        found = dict(numbers("", loaded.executable.cost_analysis()))
        args.properties, args.num_properties = loaded.keep.named_values(found), len(found)

    def Executable_GetCompiledMemoryStats(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
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
        self.worker.refuse_if_forked()
        loaded: LoadedExecutable = self.executables[args.executable]
        if loaded.is_deleted:
            raise PjrtError(Code.FAILED_PRECONDITION, f"executable {loaded.executable.name} has been deleted")
        devices = (self.devices[args.execute_device],) if args.execute_device else loaded.own_devices
        lists = read_pointers(args.argument_lists, args.num_devices)
        buffers = [read_pointers(row, args.num_args) for row in lists]
        if loaded.compiled.donated:
            self.check_donation(loaded, buffers)
        inputs = [[self.contents[buffer] for buffer in row] for row in buffers]
        output_lists = read_pointers(args.output_lists, args.num_devices)
        if loaded.is_quick and len(inputs) == 1 and not any(content.job for content in inputs[0]):
            (arrays,) = loaded.run([[content.value() for content in inputs[0]]], devices)
            events = [self.ready_event]
            self.new_outputs(loaded, devices[0], None, [BufferContents(array) for array in arrays], output_lists[0])
        else:
            events = [self.library.event_create(2) for _ in devices]
            outputs = [[BufferContents() for _ in range(loaded.num_outputs)] for _ in devices]
            places = zip(devices, events, outputs, output_lists, strict=True)
            payloads = [self.new_outputs(loaded, *place) for place in places]
            self.enqueue(loaded, devices, inputs, events, outputs, payloads)
        if args.device_complete_events:
            (ctypes.c_void_p * len(events)).from_address(args.device_complete_events)[:] = events
        else:
            for event in events:
                self.library.event_release(event)
        if loaded.compiled.donated:
            self.donate(loaded, buffers, args.options)

    def enqueue(
        self,
        loaded: LoadedExecutable,
        devices: tuple[Device, ...],
        inputs: list[list[BufferContents]],
        events: list[int],
        outputs: list[list[BufferContents]],
        payloads: list[list[int]],
    ) -> None:
        """Queues a launch that sets the outputs' contents and ends the events, one per device; the last is the job's own."""

        def end(content: BufferContents, payload: int, array: Array | None, error: PjrtError | None) -> None:
            content.array, content.error = array, error
            content.job = None
            self.library.payload_set(payload, None if array is None else address_of(array))

        def work(check: "Progress") -> None:
            rows = loaded.run([[content.value() for content in row] for row in inputs], devices, check)
            for content, payload, array in zip(chain(*outputs), chain(*payloads), chain(*rows), strict=True):
                end(content, payload, array, None)
            for event in events[:-1]:
                self.worker.end(event, Code.OK, "")

        def fail(error: PjrtError) -> None:
            for content, payload in zip(chain(*outputs), chain(*payloads), strict=True):
                end(content, payload, None, error)
            for event in events[:-1]:
                self.worker.end(event, error.code, error.message)

        job = QueuedJob(work, events[-1], fail)
        for content in chain(*outputs):
            content.job = job
        self.worker.submit(job)

    def new_outputs(
        self, loaded: LoadedExecutable, device: Device, event: int | None, contents: list[BufferContents], output_list: int | None
    ) -> list[int]:
        """Buffers for a launch's outputs, written into the caller's list; their payloads."""
        if not contents:
            return []
        place = device.address, device.default_memory.address, event
        table = ctypes.c_void_p * len(contents)
        data = None if event is not None else table(*[address_of(content.value()) for content in contents])
        payloads = table()
        if loaded.has_other_memories:
            self.outputs_apart(loaded, device, event, data, payloads, output_list or 0)
        elif self.library.outputs_create(*place, loaded.shapes_address, len(contents), data, payloads, output_list):
            raise MemoryError("no memory for the outputs' buffers")
        addresses = read_pointers(output_list, len(contents))
        for address, payload, content in zip(addresses, payloads, contents, strict=True):
            self.contents[address] = self.contents[payload] = content
        return payloads[:]

    def outputs_apart(
        self, loaded: LoadedExecutable, device: Device, event: int | None, data: Any, payloads: Any, output_list: int
    ) -> None:
        """Buffers one by one, each in its kind of memory."""
        for i, kind in enumerate(loaded.output_kinds):
            place = device.address, device.memory_of(kind).address, event
            shape = loaded.shapes_address + i * ctypes.sizeof(ShapeHandle)
            here = [None if table is None else ctypes.addressof(table) + i * WORD for table in (data, payloads)]
            if self.library.outputs_create(*place, shape, 1, *here, output_list + i * WORD):
                raise MemoryError("no memory for the outputs' buffers")

    def check_donation(self, loaded: LoadedExecutable, buffers: list[list[int]]) -> None:
        """PjrtError if a buffer is passed to the program twice and donated."""
        for row, i in product(buffers, loaded.compiled.donated):
            if row.count(row[i]) > 1:
                raise PjrtError(
                    Code.INVALID_ARGUMENT, f"argument {i} of {loaded.executable.name} is donated and used twice: f(donate(a), a)"
                )

    def donate(self, loaded: LoadedExecutable, buffers: list[list[int]], options: int | None) -> None:
        """Deletes the donated buffers, but those that the launch options except."""
        kept: tuple[int, ...] = ()
        if options:
            given = ExecuteOptions.from_address(options)
            kept = read_int64s(given.non_donatable, given.num_non_donatable)
        for row, i in product(buffers, loaded.compiled.donated):
            if i not in kept and self.library.buffer_delete(row[i]):
                self.contents[row[i]] = BufferContents()
