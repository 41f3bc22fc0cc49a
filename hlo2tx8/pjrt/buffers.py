"""PJRT's entry points about buffers: transfers from and to the host, copies, deletion."""

import ctypes
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.device.host_memory import allocate
from hlo2tx8.pjrt.c_memory import COwned, read_int64s, read_text
from hlo2tx8.pjrt.devices import Device, DeviceEntries, Memory
from hlo2tx8.pjrt.elements import dtype_of
from hlo2tx8.pjrt.errors import Code, PjrtError
from hlo2tx8.pjrt.launch_queue import BufferContents, LaunchThread, QueuedJob
from hlo2tx8.pjrt.native import PluginLibrary

Array = npt.NDArray[Any]
DRAINED_AT_ONCE = 256


class ShapeHandle(ctypes.Structure):
    """`struct shape` of handles.h."""

    _fields_ = (
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_size_t),
        ("size_bytes", ctypes.c_size_t),
        ("dims", ctypes.c_void_p),
        ("minor_to_major", ctypes.c_void_p),
    )


def shape_handle(type_code: int, dims: tuple[int, ...], keep: COwned, minor_to_major: tuple[int, ...] = ()) -> ShapeHandle:
    """The native description of a shape; row major if no order is given."""
    order = minor_to_major or tuple(reversed(range(len(dims))))
    size_bytes = prod(dims) * dtype_of(type_code).itemsize
    return ShapeHandle(type_code, len(dims), size_bytes, keep.sizes(dims), keep.sizes(order))


def host_view(address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> Array:
    """The host's memory as an array of unsigned integers (or 16 byte records) of that size; strides in bytes."""

    class View:
        __array_interface__ = {  # noqa: RUF012
            "version": 3,
            "shape": shape,
            "strides": strides,
            "data": (address, False),
            "typestr": f"<u{itemsize}" if itemsize <= 8 else "<c16",
        }

    return np.asarray(View())


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any], *, cleared: bool = False) -> Array:
    """An array of DDR; contents undefined, for who writes all of it, unless it is cleared."""
    return allocate(prod(shape) * dtype.itemsize, cleared=cleared).view(dtype).reshape(shape)


class BufferEntries(DeviceEntries):
    """The entry points about buffers that Python serves."""

    def __init__(self, library: PluginLibrary) -> None:
        super().__init__(library)
        self.worker = LaunchThread(library)
        self.contents: dict[int, BufferContents] = {}
        self.executables: dict[int, Any] = {}
        self.dead_head = ctypes.c_void_p.from_address(self.library.dead())
        self.ready_event: int = self.library.event_ready()

    def drain(self) -> None:
        """Drops the contents of destroyed buffers, and destroyed executables."""
        dead = (ctypes.c_void_p * DRAINED_AT_ONCE)()
        while count := self.library.take_dead(dead, DRAINED_AT_ONCE):
            for address in dead[:count]:
                self.contents.pop(address, None)
                self.executables.pop(address, None)
            self.library.free(dead, count)

    def new_buffer(self, device: Device, memory: Memory, shape: ShapeHandle, content: BufferContents, payload: int) -> int:
        """The handle of a new buffer with these contents; it takes over the caller's reference to the native payload."""
        address = self.library.buffer_create(device.address, memory.address, payload, ctypes.addressof(shape))
        if not address:
            raise MemoryError("no memory for a buffer")
        self.contents[address] = content
        return address

    def new_payload(self, content: BufferContents, event: int | None = None) -> int:
        """The native payload of contents that no job has yet to compute; `event` says when they are there, None for now."""
        address = self.library.payload_create(event, None if content.array is None else address_of(content.array), 1)
        if not address:
            raise MemoryError("no memory for a buffer")
        self.contents[address] = content
        return address

    def device_and_memory(self, device: int | None, memory: int | None) -> tuple[Device, Memory]:
        """The memory with its device, or the device with its default memory; PjrtError if neither is given."""
        if memory:
            found, owner = self.memories[memory]
            return owner, found
        if not device:
            raise PjrtError(Code.INVALID_ARGUMENT, "neither a device nor a memory is given")
        owner = self.devices[device]
        return owner, owner.default_memory

    def fresh_buffer(
        self, device: int | None, memory: int | None, type_code: int, dims: tuple[int, ...], content: BufferContents
    ) -> int:
        """The handle of a new row-major buffer with contents that no job has yet to compute."""
        keep = COwned()
        return self.new_buffer(
            *self.device_and_memory(device, memory), shape_handle(type_code, dims, keep), content, self.new_payload(content)
        )

    def Client_BufferFromHostBuffer(self, args: Any) -> None:
        if self.dead_head.value:
            self.drain()
        shape = read_int64s(args.dims, args.num_dims)
        dtype = dtype_of(args.type)
        array = new_array(shape, dtype)
        strides = read_int64s(args.byte_strides, args.num_byte_strides) if args.num_byte_strides else None
        if array.size and (strides is None or strides == array.strides):
            ctypes.memmove(address_of(array), args.data, array.nbytes)
        elif array.size:
            source = host_view(args.data, shape, strides, dtype.itemsize)
            np.copyto(array.view(source.dtype), source)
        args.buffer = self.fresh_buffer(args.device, args.memory, args.type, shape, BufferContents(array))
        args.done_with_host_buffer = self.ready_event

    def Client_CreateUninitializedBuffer(self, args: Any) -> None:
        shape = read_int64s(args.dims, args.num_dims)
        content = BufferContents(new_array(shape, dtype_of(args.type), cleared=True))
        args.buffer = self.fresh_buffer(args.device, args.memory, args.type, shape, content)

    def Client_CreateErrorBuffer(self, args: Any) -> None:
        shape = read_int64s(args.dims, args.num_dims)
        content = BufferContents()
        content.error = PjrtError(Code(args.error_code), read_text(args.error_message, args.error_message_size))
        event = self.library.event_create(1)
        self.library.event_set(event, content.error.code, content.error.message.encode(), len(content.error.message.encode()))
        payload = self.new_payload(content, event)
        self.library.event_release(event)
        args.buffer = self.new_buffer(
            *self.device_and_memory(None, args.memory), shape_handle(args.type, shape, COwned()), content, payload
        )

    def Buffer_CopyRawToHost(self, args: Any) -> None:
        content = self.contents[args.buffer]
        dst, offset, size = int(args.dst), int(args.offset), int(args.transfer_size)

        def copy(*_: object) -> None:
            raw = content.value().reshape(-1).view(np.uint8)[offset : offset + size]
            ctypes.memmove(dst, address_of(raw), raw.nbytes)

        if content.job is None:
            copy()
            args.event = self.ready_event
        else:
            args.event = self.submit(copy)

    def submit(self, work: Any) -> int:
        """Queues work; returns the event that ends with it, with one reference for the caller."""
        event = self.library.event_create(2)
        self.worker.submit(QueuedJob(work, event))
        return event

    def Buffer_Delete(self, args: Any) -> None:
        if self.library.buffer_delete(args.buffer):
            self.contents[args.buffer] = BufferContents()

    def Buffer_CopyToMemory(self, args: Any) -> None:
        device, memory = self.device_and_memory(None, args.memory)
        args.dst_buffer = self.alias_buffer(args.buffer, device, memory)

    def Buffer_CopyToDevice(self, args: Any) -> None:
        device, memory = self.device_and_memory(args.device, None)
        args.dst_buffer = self.alias_buffer(args.buffer, device, memory)

    def alias_buffer(self, buffer: int, device: Device, memory: Memory) -> int:
        """The handle of a buffer in another memory with the same contents, which never change: no bytes move."""
        content = self.contents[buffer]
        address = self.library.buffer_share(buffer, device.address, memory.address)
        if not address:
            raise PjrtError(Code.INVALID_ARGUMENT, "the array has been deleted or donated")
        self.contents[address] = content
        return address

    def Device_MemoryStats(self, args: Any) -> None:
        self.drain()
        in_use = {id(content.array): content.array.nbytes for content in list(self.contents.values()) if content.array is not None}
        args.bytes_in_use, args.num_allocs, args.num_allocs_is_set = sum(in_use.values()), len(in_use), True
        args.bytes_limit, args.bytes_limit_is_set = self.capacity_of(args.device), True
        for name in UNKNOWN_STATS:
            setattr(args, f"{name}_is_set", False)

    def Buffer_UnsafePointer(self, args: Any) -> None:
        args.pointer = address_of(self.contents[args.buffer].wait())

    def Buffer_OpaqueDeviceMemoryDataPointer(self, args: Any) -> None:
        args.pointer = address_of(self.contents[args.buffer].wait())

    def Buffer_IncreaseExternalReferenceCount(self, args: Any) -> None:
        pass

    def Buffer_DecreaseExternalReferenceCount(self, args: Any) -> None:
        pass


UNKNOWN_STATS = (
    "peak_bytes_in_use", "largest_alloc_size", "bytes_reserved", "peak_bytes_reserved", "bytes_reservable_limit",
    "largest_free_block_bytes", "pool_bytes", "peak_pool_bytes",
)  # fmt: skip


def address_of(array: Array) -> int:
    """Where the array's bytes are."""
    return array.__array_interface__["data"][0]
