"""The PJRT C API 0.112 as data: the order of its function table and the argument structures of what is implemented.

`argument_struct("Buffer_Device")` is the ctypes class of PJRT_Buffer_Device_Args; `abi.h` is generated from the same
lines. Every structure begins with `struct_size` and `extension_start`. jaxlib's public header is the source.
"""

import ctypes
from functools import cache
from typing import Any

MAJOR, MINOR = 0, 112

FUNCTIONS = tuple(
    f"{group}_{name}" if group else name
    for line in """
Error: Destroy Message GetCode
Plugin: Initialize Attributes
Event: Destroy IsReady Error Await OnReady
Client: Create Destroy PlatformName ProcessIndex PlatformVersion Devices AddressableDevices LookupDevice LookupAddressableDevice
Client: AddressableMemories Compile DefaultDeviceAssignment BufferFromHostBuffer
DeviceDescription: Id ProcessIndex Attributes Kind DebugString ToString
Device: GetDescription IsAddressable LocalHardwareId AddressableMemories DefaultMemory MemoryStats
Memory: Id Kind DebugString ToString AddressableByDevices
Executable: Destroy Name NumReplicas NumPartitions NumOutputs SizeOfGeneratedCodeInBytes GetCostAnalysis OutputMemoryKinds
Executable: OptimizedProgram Serialize
LoadedExecutable: Destroy GetExecutable AddressableDevices Delete IsDeleted Execute
Executable: DeserializeAndLoad
LoadedExecutable: Fingerprint
Buffer: Destroy ElementType Dimensions UnpaddedDimensions DynamicDimensionIndices GetMemoryLayout OnDeviceSizeInBytes Device
Buffer: Memory Delete IsDeleted CopyToDevice ToHostBuffer IsOnCpu ReadyEvent UnsafePointer IncreaseExternalReferenceCount
Buffer: DecreaseExternalReferenceCount OpaqueDeviceMemoryDataPointer
CopyToDeviceStream: Destroy AddChunk TotalBytes GranuleSize CurrentBytes
TopologyDescription: Create Destroy PlatformName PlatformVersion GetDeviceDescriptions Serialize Attributes
: Compile
Executable: OutputElementTypes OutputDimensions
Buffer: CopyToMemory
Client: CreateViewOfDeviceBuffer
Executable: Fingerprint
Client: TopologyDescription
Executable: GetCompiledMemoryStats
Memory: Kind_Id
ExecuteContext: Create Destroy
Buffer: CopyRawToHost
AsyncHostToDeviceTransferManager: Destroy TransferData
Client: CreateBuffersForAsyncHostToDevice
AsyncHostToDeviceTransferManager: RetrieveBuffer Device BufferCount BufferSize SetBufferError AddMetadata
Client: DmaMap DmaUnmap CreateUninitializedBuffer UpdateGlobalProcessInfo
TopologyDescription: Deserialize
Client: CreateAliasBuffer FulfillAliasBuffer
LoadedExecutable: GetDeviceAssignment
Client: CreateErrorBuffer
AsyncHostToDeviceTransferManager: TransferLiteral
Buffer: CopyRawToHostFuture
Device: PoisonExecution CreateAsyncTrackingEvent
AsyncTrackingEvent: Destroy
Executable: GetCompileOptions
Buffer: DonateWithControlDependency
Event: Create Set
Device: GetAttributes
Client: Load
LoadedExecutable: AddressableDeviceLogicalIds
Buffer: Bitcast
Error: ForEachPayload
TopologyDescription: Fingerprint
Executable: ParameterMemoryKinds
Device: ClearMemoryStats
TopologyDescription: MakeCanonicalShapeForMemorySpace GetMemorySpaceKindIds
""".strip().splitlines()
    for group, _, names in (line.partition(": ") if not line.startswith(":") else ("", "", line[2:]),)
    for name in names.split()
)
"""PJRT_Api's function pointers in order, without the prefix PJRT_."""

LAYOUTS = (
    "MemoryLayout_Destroy",
    "MemoryLayout_Serialize",
    "Client_GetDefaultLayout",
    "Buffer_MemoryLayout",
    "Topology_GetDefaultLayout",
    "Executable_GetOutputLayouts",
    "Executable_GetParameterLayouts",
)
"""The layouts extension's function pointers in order."""
LAYOUTS_TYPE, SHARDINGS_TYPE = 4, 19
SHARDINGS = ("Executable_ParameterShardings", "Executable_OutputShardings")
"""The shardings extension's function pointers in order."""

# p pointer, z size, q int64, i int32, f float, b bool; "name: fields".
ARGUMENTS = """
Error_Destroy: p error
Error_Message: p error, p message, z message_size
Error_GetCode: p error, i code
Error_ForEachPayload: p error, p visitor, p user_arg
Plugin_Initialize:
Plugin_Attributes: p attributes, z num_attributes
Event_Destroy: p event
Event_IsReady: p event, b is_ready
Event_Error: p event
Event_Await: p event
Event_OnReady: p event, p callback, p user_arg
Client_Create: p create_options, z num_options, p kv_get, p kv_get_arg, p kv_put, p kv_put_arg, p client, p kv_try, p kv_try_arg
Client_Destroy: p client
Client_PlatformName: p client, p platform_name, z platform_name_size
Client_ProcessIndex: p client, i process_index
Client_PlatformVersion: p client, p platform_version, z platform_version_size
Client_TopologyDescription: p client, p topology
Client_Devices: p client, p devices, z num_devices
Client_AddressableDevices: p client, p devices, z num_devices
Client_LookupDevice: p client, i id, p device
Client_LookupAddressableDevice: p client, i local_hardware_id, p device
Client_AddressableMemories: p client, p memories, z num_memories
Client_Compile: p client, p program, p compile_options, z compile_options_size, p executable
Client_DefaultDeviceAssignment: p client, i num_replicas, i num_partitions, z assignment_size, p assignment
Client_BufferFromHostBuffer: p client, p data, i type, p dims, z num_dims, p byte_strides, z num_byte_strides, i semantics,
    p device, p memory, p device_layout, p done_with_host_buffer, p buffer
Client_CreateUninitializedBuffer: p client, p dims, z num_dims, i type, p layout, p device, p memory, p buffer
Client_CreateErrorBuffer: p client, i error_code, p error_message, z error_message_size, p dims, z num_dims, i type, p layout,
    p memory, p buffer, p payload, z num_payload
DeviceDescription_Id: p description, i id
DeviceDescription_ProcessIndex: p description, i process_index
DeviceDescription_Attributes: p description, z num_attributes, p attributes
DeviceDescription_Kind: p description, p text, z size
DeviceDescription_DebugString: p description, p text, z size
DeviceDescription_ToString: p description, p text, z size
Device_GetDescription: p device, p description
Device_IsAddressable: p device, b is_addressable
Device_LocalHardwareId: p device, i local_hardware_id
Device_AddressableMemories: p device, p memories, z num_memories
Device_DefaultMemory: p device, p memory
Device_MemoryStats: p device, q bytes_in_use, q peak_bytes_in_use, b peak_bytes_in_use_is_set, q num_allocs, b num_allocs_is_set,
    q largest_alloc_size, b largest_alloc_size_is_set, q bytes_limit, b bytes_limit_is_set, q bytes_reserved,
    b bytes_reserved_is_set, q peak_bytes_reserved, b peak_bytes_reserved_is_set, q bytes_reservable_limit,
    b bytes_reservable_limit_is_set, q largest_free_block_bytes, b largest_free_block_bytes_is_set, q pool_bytes,
    b pool_bytes_is_set, q peak_pool_bytes, b peak_pool_bytes_is_set
Device_GetAttributes: p device, p attributes, z num_attributes, p holder, p deleter
Memory_Id: p memory, i id
Memory_Kind: p memory, p kind, z kind_size
Memory_Kind_Id: p memory, i kind_id
Memory_DebugString: p memory, p text, z size
Memory_ToString: p memory, p text, z size
Memory_AddressableByDevices: p memory, p devices, z num_devices
TopologyDescription_Destroy: p topology
TopologyDescription_PlatformName: p topology, p platform_name, z platform_name_size
TopologyDescription_PlatformVersion: p topology, p platform_version, z platform_version_size
TopologyDescription_GetDeviceDescriptions: p topology, p descriptions, z num_descriptions
TopologyDescription_Attributes: p topology, p attributes, z num_attributes
Executable_Destroy: p executable
Executable_Name: p executable, p name, z name_size
Executable_NumReplicas: p executable, z num_replicas
Executable_NumPartitions: p executable, z num_partitions
Executable_NumOutputs: p executable, z num_outputs
Executable_SizeOfGeneratedCodeInBytes: p executable, q size_in_bytes
Executable_GetCostAnalysis: p executable, z num_properties, p properties
Executable_OutputMemoryKinds: p executable, z num_outputs, p memory_kinds, p memory_kind_sizes
Executable_ParameterMemoryKinds: p executable, z num_parameters, p memory_kinds, p memory_kind_sizes
Executable_OutputElementTypes: p executable, p output_types, z num_output_types
Executable_OutputDimensions: p executable, z num_outputs, p dims, p dim_sizes
Executable_OptimizedProgram: p executable, p program
Executable_Fingerprint: p executable, p fingerprint, z fingerprint_size
Executable_GetCompiledMemoryStats: p executable, q generated_code_size_in_bytes, q argument_size_in_bytes,
    q output_size_in_bytes, q alias_size_in_bytes, q temp_size_in_bytes, q host_generated_code_size_in_bytes,
    q host_argument_size_in_bytes, q host_output_size_in_bytes, q host_alias_size_in_bytes, q host_temp_size_in_bytes,
    q peak_memory_in_bytes, q total_size_in_bytes, q total_allocation_bytes, q indefinite_allocations,
    q peak_unpadded_heap_bytes
Executable_Serialize: p executable, p bytes, z bytes_size, p holder, p deleter
Executable_DeserializeAndLoad: p client, p bytes, z bytes_size, p loaded_executable, p options, z options_size, p load_options
Executable_GetCompileOptions: p executable, p bytes, z bytes_size, p holder, p deleter
LoadedExecutable_Destroy: p executable
LoadedExecutable_GetExecutable: p loaded_executable, p executable
LoadedExecutable_GetDeviceAssignment: p executable, p bytes, z bytes_size, p holder, p deleter
LoadedExecutable_AddressableDevices: p executable, p devices, z num_devices
LoadedExecutable_AddressableDeviceLogicalIds: p executable, p logical_ids, z num_logical_ids
LoadedExecutable_Delete: p executable
LoadedExecutable_IsDeleted: p executable, b is_deleted
LoadedExecutable_Fingerprint: p executable, p fingerprint, z fingerprint_size
LoadedExecutable_Execute: p executable, p options, p argument_lists, z num_devices, z num_args, p output_lists,
    p device_complete_events, p execute_device
ExecuteContext_Destroy: p context
Buffer_Destroy: p buffer
Buffer_ElementType: p buffer, i type
Buffer_Dimensions: p buffer, p dims, z num_dims
Buffer_UnpaddedDimensions: p buffer, p dims, z num_dims
Buffer_DynamicDimensionIndices: p buffer, p indices, z num_indices
Buffer_OnDeviceSizeInBytes: p buffer, z size_in_bytes
Buffer_Device: p buffer, p device
Buffer_Memory: p buffer, p memory
Buffer_Delete: p buffer
Buffer_IsDeleted: p buffer, b is_deleted
Buffer_IsOnCpu: p buffer, b is_on_cpu
Buffer_ReadyEvent: p buffer, p event
Buffer_ToHostBuffer: p buffer, p host_layout, p dst, z dst_size, p event
Buffer_CopyRawToHost: p buffer, p dst, q offset, q transfer_size, p event
Buffer_CopyToDevice: p buffer, p device, p dst_buffer
Buffer_CopyToMemory: p buffer, p memory, p dst_buffer
Buffer_UnsafePointer: p buffer, z pointer
Buffer_OpaqueDeviceMemoryDataPointer: p buffer, p pointer
Buffer_IncreaseExternalReferenceCount: p buffer
Buffer_DecreaseExternalReferenceCount: p buffer
MemoryLayout_Destroy: p layout
MemoryLayout_Serialize: p layout, p bytes, z bytes_size, p holder, p deleter
Buffer_MemoryLayout: p buffer, p layout
Client_GetDefaultLayout: p client, i type, p dims, z num_dims, p layout
Executable_GetOutputLayouts: p executable, z num_layouts, p layouts
Executable_GetParameterLayouts: p executable, z num_layouts, p layouts
Executable_OutputShardings: p executable, z num_shardings, p shardings, p sharding_sizes
Executable_ParameterShardings: p executable, z num_shardings, p shardings, p sharding_sizes
"""

CTYPES: dict[str, Any] = {
    "p": ctypes.c_void_p,
    "z": ctypes.c_size_t,
    "q": ctypes.c_int64,
    "i": ctypes.c_int32,
    "f": ctypes.c_float,
    "b": ctypes.c_bool,
}


@cache
def arguments() -> dict[str, tuple[tuple[str, str], ...]]:
    """Fields of each function's argument structure after the two common ones: (code, name)."""
    table: dict[str, tuple[tuple[str, str], ...]] = {}
    for line in ARGUMENTS.strip().replace(",\n   ", ",").splitlines():
        name, _, fields = line.partition(":")
        pairs = (field.split() for field in fields.split(",") if field.strip())
        table[name] = tuple((code, field) for code, field in pairs)
    return table


@cache
def argument_struct(name: str) -> Any:
    """The ctypes class of PJRT_<name>_Args."""
    fields = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]
    fields += [(field, CTYPES[code]) for code, field in arguments()[name]]
    return type(f"{name}_Args", (ctypes.Structure,), {"_fields_": fields})


class NamedValue(ctypes.Structure):
    """PJRT_NamedValue; `value` holds a pointer, an int64, a float's or a bool's bits."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_size_t),
        ("type", ctypes.c_int32),
        ("value", ctypes.c_int64),
        ("value_size", ctypes.c_size_t),
    )


class Program(ctypes.Structure):
    """PJRT_Program."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("code", ctypes.c_void_p),
        ("code_size", ctypes.c_size_t),
        ("format", ctypes.c_void_p),
        ("format_size", ctypes.c_size_t),
    )


class ExecuteOptions(ctypes.Structure):
    """The part of PJRT_ExecuteOptions that is read."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("send_callbacks", ctypes.c_void_p),
        ("recv_callbacks", ctypes.c_void_p),
        ("num_send_ops", ctypes.c_size_t),
        ("num_recv_ops", ctypes.c_size_t),
        ("launch_id", ctypes.c_int32),
        ("non_donatable", ctypes.c_void_p),
        ("num_non_donatable", ctypes.c_size_t),
    )
