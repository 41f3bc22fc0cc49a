/* Generated from hlo2tx8/pjrt/abi.py. Do not edit. */
#ifndef HLO2TX8_PJRT_ABI_H
#define HLO2TX8_PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct Error_Destroy_args {
    size_t struct_size;
    void *extension_start;
    void *error;
};

struct Error_Message_args {
    size_t struct_size;
    void *extension_start;
    void *error;
    void *message;
    size_t message_size;
};

struct Error_GetCode_args {
    size_t struct_size;
    void *extension_start;
    void *error;
    int32_t code;
};

struct Error_ForEachPayload_args {
    size_t struct_size;
    void *extension_start;
    void *error;
    void *visitor;
    void *user_arg;
};

struct Plugin_Initialize_args {
    size_t struct_size;
    void *extension_start;
};

struct Plugin_Attributes_args {
    size_t struct_size;
    void *extension_start;
    void *attributes;
    size_t num_attributes;
};

struct Event_Destroy_args {
    size_t struct_size;
    void *extension_start;
    void *event;
};

struct Event_IsReady_args {
    size_t struct_size;
    void *extension_start;
    void *event;
    bool is_ready;
};

struct Event_Error_args {
    size_t struct_size;
    void *extension_start;
    void *event;
};

struct Event_Await_args {
    size_t struct_size;
    void *extension_start;
    void *event;
};

struct Event_OnReady_args {
    size_t struct_size;
    void *extension_start;
    void *event;
    void *callback;
    void *user_arg;
};

struct Client_Create_args {
    size_t struct_size;
    void *extension_start;
    void *create_options;
    size_t num_options;
    void *kv_get;
    void *kv_get_arg;
    void *kv_put;
    void *kv_put_arg;
    void *client;
    void *kv_try;
    void *kv_try_arg;
};

struct Client_Destroy_args {
    size_t struct_size;
    void *extension_start;
    void *client;
};

struct Client_PlatformName_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *platform_name;
    size_t platform_name_size;
};

struct Client_ProcessIndex_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    int32_t process_index;
};

struct Client_PlatformVersion_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *platform_version;
    size_t platform_version_size;
};

struct Client_TopologyDescription_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *topology;
};

struct Client_Devices_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *devices;
    size_t num_devices;
};

struct Client_AddressableDevices_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *devices;
    size_t num_devices;
};

struct Client_LookupDevice_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    int32_t id;
    void *device;
};

struct Client_LookupAddressableDevice_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    int32_t local_hardware_id;
    void *device;
};

struct Client_AddressableMemories_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *memories;
    size_t num_memories;
};

struct Client_Compile_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *program;
    void *compile_options;
    size_t compile_options_size;
    void *executable;
};

struct Client_DefaultDeviceAssignment_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    int32_t num_replicas;
    int32_t num_partitions;
    size_t assignment_size;
    void *assignment;
};

struct Client_BufferFromHostBuffer_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *data;
    int32_t type;
    void *dims;
    size_t num_dims;
    void *byte_strides;
    size_t num_byte_strides;
    int32_t semantics;
    void *device;
    void *memory;
    void *device_layout;
    void *done_with_host_buffer;
    void *buffer;
};

struct Client_CreateUninitializedBuffer_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *dims;
    size_t num_dims;
    int32_t type;
    void *layout;
    void *device;
    void *memory;
    void *buffer;
};

struct Client_CreateErrorBuffer_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    int32_t error_code;
    void *error_message;
    size_t error_message_size;
    void *dims;
    size_t num_dims;
    int32_t type;
    void *layout;
    void *memory;
    void *buffer;
    void *payload;
    size_t num_payload;
};

struct DeviceDescription_Id_args {
    size_t struct_size;
    void *extension_start;
    void *description;
    int32_t id;
};

struct DeviceDescription_ProcessIndex_args {
    size_t struct_size;
    void *extension_start;
    void *description;
    int32_t process_index;
};

struct DeviceDescription_Attributes_args {
    size_t struct_size;
    void *extension_start;
    void *description;
    size_t num_attributes;
    void *attributes;
};

struct DeviceDescription_Kind_args {
    size_t struct_size;
    void *extension_start;
    void *description;
    void *text;
    size_t size;
};

struct DeviceDescription_DebugString_args {
    size_t struct_size;
    void *extension_start;
    void *description;
    void *text;
    size_t size;
};

struct DeviceDescription_ToString_args {
    size_t struct_size;
    void *extension_start;
    void *description;
    void *text;
    size_t size;
};

struct Device_GetDescription_args {
    size_t struct_size;
    void *extension_start;
    void *device;
    void *description;
};

struct Device_IsAddressable_args {
    size_t struct_size;
    void *extension_start;
    void *device;
    bool is_addressable;
};

struct Device_LocalHardwareId_args {
    size_t struct_size;
    void *extension_start;
    void *device;
    int32_t local_hardware_id;
};

struct Device_AddressableMemories_args {
    size_t struct_size;
    void *extension_start;
    void *device;
    void *memories;
    size_t num_memories;
};

struct Device_DefaultMemory_args {
    size_t struct_size;
    void *extension_start;
    void *device;
    void *memory;
};

struct Device_MemoryStats_args {
    size_t struct_size;
    void *extension_start;
    void *device;
    int64_t bytes_in_use;
    int64_t peak_bytes_in_use;
    bool peak_bytes_in_use_is_set;
    int64_t num_allocs;
    bool num_allocs_is_set;
    int64_t largest_alloc_size;
    bool largest_alloc_size_is_set;
    int64_t bytes_limit;
    bool bytes_limit_is_set;
    int64_t bytes_reserved;
    bool bytes_reserved_is_set;
    int64_t peak_bytes_reserved;
    bool peak_bytes_reserved_is_set;
    int64_t bytes_reservable_limit;
    bool bytes_reservable_limit_is_set;
    int64_t largest_free_block_bytes;
    bool largest_free_block_bytes_is_set;
    int64_t pool_bytes;
    bool pool_bytes_is_set;
    int64_t peak_pool_bytes;
    bool peak_pool_bytes_is_set;
};

struct Device_GetAttributes_args {
    size_t struct_size;
    void *extension_start;
    void *device;
    void *attributes;
    size_t num_attributes;
    void *holder;
    void *deleter;
};

struct Memory_Id_args {
    size_t struct_size;
    void *extension_start;
    void *memory;
    int32_t id;
};

struct Memory_Kind_args {
    size_t struct_size;
    void *extension_start;
    void *memory;
    void *kind;
    size_t kind_size;
};

struct Memory_Kind_Id_args {
    size_t struct_size;
    void *extension_start;
    void *memory;
    int32_t kind_id;
};

struct Memory_DebugString_args {
    size_t struct_size;
    void *extension_start;
    void *memory;
    void *text;
    size_t size;
};

struct Memory_ToString_args {
    size_t struct_size;
    void *extension_start;
    void *memory;
    void *text;
    size_t size;
};

struct Memory_AddressableByDevices_args {
    size_t struct_size;
    void *extension_start;
    void *memory;
    void *devices;
    size_t num_devices;
};

struct TopologyDescription_Destroy_args {
    size_t struct_size;
    void *extension_start;
    void *topology;
};

struct TopologyDescription_PlatformName_args {
    size_t struct_size;
    void *extension_start;
    void *topology;
    void *platform_name;
    size_t platform_name_size;
};

struct TopologyDescription_PlatformVersion_args {
    size_t struct_size;
    void *extension_start;
    void *topology;
    void *platform_version;
    size_t platform_version_size;
};

struct TopologyDescription_GetDeviceDescriptions_args {
    size_t struct_size;
    void *extension_start;
    void *topology;
    void *descriptions;
    size_t num_descriptions;
};

struct TopologyDescription_Attributes_args {
    size_t struct_size;
    void *extension_start;
    void *topology;
    void *attributes;
    size_t num_attributes;
};

struct Executable_Destroy_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
};

struct Executable_Name_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *name;
    size_t name_size;
};

struct Executable_NumReplicas_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_replicas;
};

struct Executable_NumPartitions_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_partitions;
};

struct Executable_NumOutputs_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_outputs;
};

struct Executable_SizeOfGeneratedCodeInBytes_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    int64_t size_in_bytes;
};

struct Executable_GetCostAnalysis_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_properties;
    void *properties;
};

struct Executable_OutputMemoryKinds_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_outputs;
    void *memory_kinds;
    void *memory_kind_sizes;
};

struct Executable_ParameterMemoryKinds_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_parameters;
    void *memory_kinds;
    void *memory_kind_sizes;
};

struct Executable_OutputElementTypes_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *output_types;
    size_t num_output_types;
};

struct Executable_OutputDimensions_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_outputs;
    void *dims;
    void *dim_sizes;
};

struct Executable_OptimizedProgram_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *program;
};

struct Executable_Fingerprint_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *fingerprint;
    size_t fingerprint_size;
};

struct Executable_GetCompiledMemoryStats_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    int64_t generated_code_size_in_bytes;
    int64_t argument_size_in_bytes;
    int64_t output_size_in_bytes;
    int64_t alias_size_in_bytes;
    int64_t temp_size_in_bytes;
    int64_t host_generated_code_size_in_bytes;
    int64_t host_argument_size_in_bytes;
    int64_t host_output_size_in_bytes;
    int64_t host_alias_size_in_bytes;
    int64_t host_temp_size_in_bytes;
    int64_t peak_memory_in_bytes;
    int64_t total_size_in_bytes;
    int64_t total_allocation_bytes;
    int64_t indefinite_allocations;
    int64_t peak_unpadded_heap_bytes;
};

struct Executable_Serialize_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *bytes;
    size_t bytes_size;
    void *holder;
    void *deleter;
};

struct Executable_DeserializeAndLoad_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    void *bytes;
    size_t bytes_size;
    void *loaded_executable;
    void *options;
    size_t options_size;
    void *load_options;
};

struct Executable_GetCompileOptions_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *bytes;
    size_t bytes_size;
    void *holder;
    void *deleter;
};

struct LoadedExecutable_Destroy_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
};

struct LoadedExecutable_GetExecutable_args {
    size_t struct_size;
    void *extension_start;
    void *loaded_executable;
    void *executable;
};

struct LoadedExecutable_GetDeviceAssignment_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *bytes;
    size_t bytes_size;
    void *holder;
    void *deleter;
};

struct LoadedExecutable_AddressableDevices_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *devices;
    size_t num_devices;
};

struct LoadedExecutable_AddressableDeviceLogicalIds_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *logical_ids;
    size_t num_logical_ids;
};

struct LoadedExecutable_Delete_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
};

struct LoadedExecutable_IsDeleted_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    bool is_deleted;
};

struct LoadedExecutable_Fingerprint_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *fingerprint;
    size_t fingerprint_size;
};

struct LoadedExecutable_Execute_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    void *options;
    void *argument_lists;
    size_t num_devices;
    size_t num_args;
    void *output_lists;
    void *device_complete_events;
    void *execute_device;
};

struct ExecuteContext_Destroy_args {
    size_t struct_size;
    void *extension_start;
    void *context;
};

struct Buffer_Destroy_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
};

struct Buffer_ElementType_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    int32_t type;
};

struct Buffer_Dimensions_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *dims;
    size_t num_dims;
};

struct Buffer_UnpaddedDimensions_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *dims;
    size_t num_dims;
};

struct Buffer_DynamicDimensionIndices_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *indices;
    size_t num_indices;
};

struct Buffer_OnDeviceSizeInBytes_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    size_t size_in_bytes;
};

struct Buffer_Device_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *device;
};

struct Buffer_Memory_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *memory;
};

struct Buffer_Delete_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
};

struct Buffer_IsDeleted_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    bool is_deleted;
};

struct Buffer_IsOnCpu_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    bool is_on_cpu;
};

struct Buffer_ReadyEvent_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *event;
};

struct Buffer_ToHostBuffer_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *host_layout;
    void *dst;
    size_t dst_size;
    void *event;
};

struct Buffer_CopyRawToHost_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *dst;
    int64_t offset;
    int64_t transfer_size;
    void *event;
};

struct Buffer_CopyToDevice_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *device;
    void *dst_buffer;
};

struct Buffer_CopyToMemory_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *memory;
    void *dst_buffer;
};

struct Buffer_UnsafePointer_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    size_t pointer;
};

struct Buffer_OpaqueDeviceMemoryDataPointer_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *pointer;
};

struct Buffer_IncreaseExternalReferenceCount_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
};

struct Buffer_DecreaseExternalReferenceCount_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
};

struct MemoryLayout_Destroy_args {
    size_t struct_size;
    void *extension_start;
    void *layout;
};

struct MemoryLayout_Serialize_args {
    size_t struct_size;
    void *extension_start;
    void *layout;
    void *bytes;
    size_t bytes_size;
    void *holder;
    void *deleter;
};

struct Buffer_MemoryLayout_args {
    size_t struct_size;
    void *extension_start;
    void *buffer;
    void *layout;
};

struct Client_GetDefaultLayout_args {
    size_t struct_size;
    void *extension_start;
    void *client;
    int32_t type;
    void *dims;
    size_t num_dims;
    void *layout;
};

struct Executable_GetOutputLayouts_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_layouts;
    void *layouts;
};

struct Executable_GetParameterLayouts_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_layouts;
    void *layouts;
};

struct Executable_OutputShardings_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_shardings;
    void *shardings;
    void *sharding_sizes;
};

struct Executable_ParameterShardings_args {
    size_t struct_size;
    void *extension_start;
    void *executable;
    size_t num_shardings;
    void *shardings;
    void *sharding_sizes;
};

#endif
