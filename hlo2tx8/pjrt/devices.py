"""Clients, devices, memories and the topology: fixed once a client exists."""

import ctypes
import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hlo2tx8 import __version__
from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.options import Options
from hlo2tx8.pjrt.c_memory import COwned, read_named_values
from hlo2tx8.pjrt.configuration import Configuration
from hlo2tx8.pjrt.errors import Code, PjrtError
from hlo2tx8.pjrt.jax_side import PLATFORM, current_stablehlo, jax_versions
from hlo2tx8.pjrt.key_values import JaxKeyValues
from hlo2tx8.pjrt.native import PluginLibrary
from hlo2tx8.runtime.pods.pod import Pod, join

MEMORY_KINDS = ("device", "pinned_host")
"""The first is every device's default memory."""


class MemoryHandle(ctypes.Structure):
    """`struct memory` of handles.h."""

    _fields_ = (("table", ctypes.c_void_p), ("kind", ctypes.c_void_p), ("kind_size", ctypes.c_size_t))


@dataclass(frozen=True)
class Memory:
    """One kind of memory of one device."""

    id: int
    kind: str
    address: int

    def __str__(self) -> str:
        return f"MEMORY_SPACE_{self.id} ({self.kind})"


@dataclass(frozen=True)
class Device:
    """One emulated chip; its description has the same address."""

    id: int
    address: int
    memories: tuple[Memory, ...]
    process: int = 0
    local_id: int = 0
    """Its number among the chips of its process."""

    @property
    def default_memory(self) -> Memory:
        return self.memories[0]

    def memory_of(self, kind: str) -> Memory:
        """The device's memory of that kind; PjrtError if there is none."""
        for memory in self.memories:
            if memory.kind == kind:
                return memory
        raise PjrtError(Code.INVALID_ARGUMENT, f"tx8:{self.id} has no memory of kind {kind}")

    def __str__(self) -> str:
        return f"Tx8Device(id={self.id})"


@dataclass
class Client:
    """The chips of one backend, those of all processes, and the options their programs are compiled with."""

    configuration: Configuration
    options: Options
    chip: Chip
    address: int
    devices: tuple[Device, ...]
    pod: Pod | None = None
    keep: COwned = field(default_factory=COwned)

    @property
    def process(self) -> int:
        """The number of this process."""
        return self.pod.number if self.pod else 0

    @cached_property
    def own_devices(self) -> tuple[Device, ...]:
        """The chips of this process."""
        return tuple(device for device in self.devices if device.process == self.process)

    def first_ids(self, count: int) -> list[int]:
        """The devices of a program that says nothing of them: of this process if it has so many, else of all."""
        devices = self.own_devices if count <= len(self.own_devices) else self.devices
        return [device.id for device in devices[:count]]

    @property
    def version(self) -> str:
        return f"hlo2tx8 {__version__}, {self.chip.name}"


class DeviceEntries:
    """The entry points about clients, devices, memories and topologies; each sets the outputs of its arguments."""

    def __init__(self, library: PluginLibrary) -> None:
        self.library: Any = library
        self.keep = COwned()
        self.clients: dict[int, Client] = {}
        self.devices: dict[int, Device] = {}
        self.memories: dict[int, tuple[Memory, Device]] = {}
        self.device_texts: dict[int, dict[str, tuple[int, int]]] = {}
        self.num_pods = 0

    def handle(self) -> int:
        """A new address to stand for an object."""
        return self.keep.address(ctypes.c_int64())

    def Plugin_Initialize(self, args: Any) -> None:
        pass

    def Plugin_Attributes(self, args: Any) -> None:
        attributes = {"stablehlo_current_version": current_stablehlo(), "stablehlo_minimum_version": (1, 0, 0)}
        args.attributes, args.num_attributes = self.keep.named_values(attributes), len(attributes)

    def Client_Create(self, args: Any) -> None:
        configuration = Configuration.of(read_named_values(args.create_options, args.num_options))
        options = configuration.options
        chip = load_chip(options.chip or "")
        address = self.handle()
        pod = self.joined(configuration, chip, args)
        places = enumerate([member.num_chips for member in pod.members] if pod else [configuration.chips])
        pairs = enumerate((process, own) for process, count in places for own in range(count))
        devices = tuple(self.new_device(id, *place, configuration, chip) for id, place in pairs)
        self.clients[address] = Client(configuration, options, chip, address, devices, pod)
        args.client = address

    def joined(self, configuration: Configuration, chip: Chip, args: Any) -> Pod | None:
        """The pod, if the options are those of one process among several."""
        if configuration.pod is None:
            return None
        self.num_pods += 1
        equal = {
            "hlo2tx8": __version__,
            **jax_versions(),
            "chip description": hashlib.sha256(repr(chip).encode()).hexdigest()[:12],
        }
        own = replace(configuration.pod, equal=equal, most_bytes=chip.ddr_bytes)
        return join(JaxKeyValues(self.library, args), own, f"pod{self.num_pods}")

    def new_device(self, id: int, process: int, local_id: int, configuration: Configuration, chip: Chip) -> Device:
        """A chip and its memories."""
        memories: list[Memory] = []
        for number, kind in enumerate(MEMORY_KINDS):
            handle = MemoryHandle(None, *self.keep.text(kind))
            memories.append(Memory(id * len(MEMORY_KINDS) + number, kind, self.keep.address(handle)))
        device = Device(id, self.handle(), tuple(memories), process, local_id)
        self.devices[device.address] = device
        for memory in memories:
            self.memories[memory.address] = memory, device
            self.device_texts[memory.address] = {"long": self.keep.text(str(memory)), "short": self.keep.text(str(memory))}
        debug = f"{device} {chip.name}, {chip.tiles} tiles, {configuration.options.mode}"
        self.device_texts[device.address] = {
            "kind": self.keep.text(chip.name),
            "long": self.keep.text(debug),
            "short": self.keep.text(str(device)),
        }
        return device

    def Client_PlatformName(self, args: Any) -> None:
        args.platform_name, args.platform_name_size = self.keep.text(PLATFORM)

    def Client_ProcessIndex(self, args: Any) -> None:
        args.process_index = self.clients[args.client].process

    def Client_PlatformVersion(self, args: Any) -> None:
        args.platform_version, args.platform_version_size = self.keep.text(self.clients[args.client].version)

    def Client_TopologyDescription(self, args: Any) -> None:
        args.topology = args.client

    def Client_Devices(self, args: Any) -> None:
        devices = self.clients[args.client].devices
        args.devices, args.num_devices = self.keep.pointers([d.address for d in devices]), len(devices)

    def Client_AddressableDevices(self, args: Any) -> None:
        devices = self.clients[args.client].own_devices
        args.devices, args.num_devices = self.keep.pointers([d.address for d in devices]), len(devices)

    def Client_LookupDevice(self, args: Any) -> None:
        args.device = self.device_of(args.client, args.id)

    def Client_LookupAddressableDevice(self, args: Any) -> None:
        client: Client = self.clients[args.client]
        own = client.own_devices
        if not 0 <= args.local_hardware_id < len(own):
            raise PjrtError(Code.INVALID_ARGUMENT, f"no device {args.local_hardware_id} of this process; there are {len(own)}")
        args.device = own[int(args.local_hardware_id)].address

    def device_of(self, client: int, id: int) -> int:
        """The address of a client's device."""
        devices = self.clients[client].devices
        if not 0 <= id < len(devices):
            raise PjrtError(Code.INVALID_ARGUMENT, f"no device {id}; there are {len(devices)}")
        return devices[id].address

    def is_own(self, device: Device) -> bool:
        """Is it a chip of this process?"""
        return any(device.process == client.process for client in self.clients.values() if device in client.devices)

    def capacity_of(self, device: int) -> int:
        """Bytes of a chip's DDR."""
        return next(c.chip.ddr_bytes for c in self.clients.values() if any(d.address == device for d in c.devices))

    def Client_AddressableMemories(self, args: Any) -> None:
        client: Client = self.clients[args.client]
        memories = [m.address for d in client.own_devices for m in d.memories]
        args.memories, args.num_memories = self.keep.pointers(memories), len(memories)

    def Client_DefaultDeviceAssignment(self, args: Any) -> None:
        table = (ctypes.c_int32 * args.assignment_size).from_address(args.assignment)
        count = args.num_replicas * args.num_partitions
        table[:count] = self.clients[args.client].first_ids(count)

    def TopologyDescription_PlatformName(self, args: Any) -> None:
        args.platform_name, args.platform_name_size = self.keep.text(PLATFORM)

    def TopologyDescription_PlatformVersion(self, args: Any) -> None:
        args.platform_version, args.platform_version_size = self.keep.text(self.clients[args.topology].version)

    def TopologyDescription_GetDeviceDescriptions(self, args: Any) -> None:
        devices = self.clients[args.topology].devices
        args.descriptions, args.num_descriptions = self.keep.pointers([d.address for d in devices]), len(devices)

    def TopologyDescription_Attributes(self, args: Any) -> None:
        args.attributes, args.num_attributes = self.keep.named_values({}), 0

    def DeviceDescription_Id(self, args: Any) -> None:
        args.id = self.devices[args.description].id

    def DeviceDescription_ProcessIndex(self, args: Any) -> None:
        args.process_index = self.devices[args.description].process

    def DeviceDescription_Attributes(self, args: Any) -> None:
        args.attributes, args.num_attributes = self.keep.named_values({}), 0

    def DeviceDescription_Kind(self, args: Any) -> None:
        args.text, args.size = self.device_texts[args.description]["kind"]

    def DeviceDescription_DebugString(self, args: Any) -> None:
        args.text, args.size = self.device_texts[args.description]["long"]

    def DeviceDescription_ToString(self, args: Any) -> None:
        args.text, args.size = self.device_texts[args.description]["short"]

    def Device_GetDescription(self, args: Any) -> None:
        args.description = args.device

    def Device_GetAttributes(self, args: Any) -> None:
        args.attributes, args.num_attributes = self.keep.named_values({}), 0
        args.holder, args.deleter = None, self.library.address("tx8_keep")

    def Device_IsAddressable(self, args: Any) -> None:
        args.is_addressable = self.is_own(self.devices[args.device])

    def Device_LocalHardwareId(self, args: Any) -> None:
        device = self.devices[args.device]
        args.local_hardware_id = device.local_id if self.is_own(device) else -1

    def Device_AddressableMemories(self, args: Any) -> None:
        memories = self.devices[args.device].memories
        args.memories, args.num_memories = self.keep.pointers([m.address for m in memories]), len(memories)

    def Device_DefaultMemory(self, args: Any) -> None:
        args.memory = self.devices[args.device].default_memory.address

    def Memory_Id(self, args: Any) -> None:
        args.id = self.memories[args.memory][0].id

    def Memory_Kind_Id(self, args: Any) -> None:
        args.kind_id = MEMORY_KINDS.index(self.memories[args.memory][0].kind)

    def Memory_DebugString(self, args: Any) -> None:
        args.text, args.size = self.device_texts[args.memory]["long"]

    def Memory_ToString(self, args: Any) -> None:
        args.text, args.size = self.device_texts[args.memory]["short"]

    def Memory_AddressableByDevices(self, args: Any) -> None:
        args.devices, args.num_devices = self.keep.pointers([self.memories[args.memory][1].address]), 1
