/* Buffers, executables and layouts: what jaxlib asks about them at any time, and their end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handles.h"

EXPORT int tx8_pjrt_abi_version(void) { return PJRT_ABI_VERSION; }

static _Atomic(struct handle *) DEAD;

void *tx8_bury(struct handle *handle) {
    if (!handle) return NULL;
    handle->next_dead = atomic_load(&DEAD);
    while (!atomic_compare_exchange_weak(&DEAD, &handle->next_dead, handle)) {}
    return NULL;
}

/* Up to `most` dead handles, newest first; each is to be freed by tx8_free once nothing refers to it. */
EXPORT size_t tx8_take_dead(struct handle **handles, size_t most) {
    struct handle *next = atomic_exchange(&DEAD, NULL);
    size_t count = 0;
    for (; next && count < most; next = next->next_dead) handles[count++] = next;
    while (next) {
        struct handle *const rest = next->next_dead;
        tx8_bury(next);
        next = rest;
    }
    return count;
}

/* The list's head: 0 if there is nothing to take. */
EXPORT _Atomic(struct handle *) *tx8_dead(void) { return &DEAD; }

EXPORT void tx8_free(struct handle **handles, size_t count) {
    for (size_t i = 0; i < count; i++) free(handles[i]);
}

/* Bytes that `references` holders have; NULL without memory. */
EXPORT struct payload *tx8_payload_create(struct event *ready, const void *data, int references) {
    struct payload *const payload = malloc(sizeof *payload);
    if (!payload) return NULL;
    tx8_event_retain(ready, 1);
    payload->references = references;
    payload->ready = ready;
    payload->data = data;
    return payload;
}

EXPORT void tx8_payload_release(struct payload *payload) {
    if (!payload || atomic_fetch_sub(&payload->references, 1) != 1) return;
    tx8_event_release(payload->ready);
    tx8_bury(&payload->handle);
}

/* What the job whose event the payload waits for computed; the job lets go of the payload. */
EXPORT void tx8_payload_set(struct payload *payload, const void *data) {
    payload->data = data;
    tx8_payload_release(payload);
}

/* A buffer that takes over a reference to its payload; NULL without memory. */
EXPORT struct buffer *tx8_buffer_create(void *device, struct memory *memory, struct payload *payload, const struct shape *shape) {
    struct buffer *const buffer = calloc(1, sizeof *buffer + 2 * shape->rank * sizeof(int64_t));
    if (!buffer) return NULL;
    tx8_event_retain(payload->ready, 1);
    pthread_mutex_init(&buffer->mutex, NULL);
    buffer->device = device, buffer->memory = memory, buffer->ready = payload->ready, buffer->payload = payload;
    buffer->type = shape->type, buffer->rank = shape->rank, buffer->size_bytes = shape->size_bytes;
    if (shape->rank) {
        memcpy(buffer->sizes, shape->dims, shape->rank * sizeof(int64_t));
        memcpy(buffer->sizes + shape->rank, shape->minor_to_major, shape->rank * sizeof(int64_t));
    }
    return buffer;
}

/* The buffers of one execution's outputs on one device: with their bytes, or with payloads that its job sets; -1 without memory. */
EXPORT int tx8_outputs_create(void *device, struct memory *memory, struct event *ready, const struct shape *shapes, size_t count,
                              void *const *data, struct payload **payloads, struct buffer **outputs) {
    for (size_t i = 0; i < count; i++) {
        payloads[i] = tx8_payload_create(ready, data ? data[i] : NULL, data ? 1 : 2);
        if (!payloads[i] || !(outputs[i] = tx8_buffer_create(device, memory, payloads[i], &shapes[i]))) return -1;
    }
    return 0;
}

static struct payload *take_payload(struct buffer *buffer) {
    pthread_mutex_lock(&buffer->mutex);
    struct payload *const payload = buffer->payload;
    buffer->payload = NULL;
    pthread_mutex_unlock(&buffer->mutex);
    return payload;
}

/* The buffer's payload with one more reference; NULL once it is deleted. */
struct payload *tx8_buffer_payload(struct buffer *buffer) {
    pthread_mutex_lock(&buffer->mutex);
    struct payload *const payload = buffer->payload;
    if (payload) atomic_fetch_add(&payload->references, 1);
    pthread_mutex_unlock(&buffer->mutex);
    return payload;
}

/* A buffer elsewhere with the same contents: no bytes move, since contents never change. NULL if it is deleted or without memory. */
EXPORT struct buffer *tx8_buffer_share(struct buffer *buffer, void *device, struct memory *memory) {
    struct payload *const payload = tx8_buffer_payload(buffer);
    if (!payload) return NULL;
    const int64_t *const sizes = buffer->sizes;
    const struct shape shape = {buffer->type, buffer->rank, buffer->size_bytes, sizes, sizes + buffer->rank};
    struct buffer *const shared = tx8_buffer_create(device, memory, payload, &shape);
    if (!shared) tx8_payload_release(payload);
    return shared;
}

/* 1 if this call deleted the buffer, 0 if it was deleted before. */
EXPORT int tx8_buffer_delete(struct buffer *buffer) {
    if (atomic_exchange(&buffer->deleted, true)) return 0;
    tx8_payload_release(take_payload(buffer));
    return 1;
}

EXPORT void *Buffer_Destroy(struct Buffer_Destroy_args *args) {
    struct buffer *const buffer = args->buffer;
    if (!buffer) return NULL;
    tx8_payload_release(take_payload(buffer));
    tx8_event_release(buffer->ready);
    buffer->ready = NULL;
    pthread_mutex_destroy(&buffer->mutex);
    return tx8_bury(&buffer->handle);
}

EXPORT void *Buffer_ElementType(struct Buffer_ElementType_args *args) {
    args->type = ((struct buffer *)args->buffer)->type;
    return NULL;
}

EXPORT void *Buffer_Dimensions(struct Buffer_Dimensions_args *args) {
    struct buffer *const buffer = args->buffer;
    args->dims = buffer->sizes;
    args->num_dims = buffer->rank;
    return NULL;
}

EXPORT void *Buffer_UnpaddedDimensions(struct Buffer_UnpaddedDimensions_args *args) {
    struct buffer *const buffer = args->buffer;
    args->dims = buffer->sizes;
    args->num_dims = buffer->rank;
    return NULL;
}

EXPORT void *Buffer_DynamicDimensionIndices(struct Buffer_DynamicDimensionIndices_args *args) {
    args->indices = NULL;
    args->num_indices = 0;
    return NULL;
}

EXPORT void *Buffer_OnDeviceSizeInBytes(struct Buffer_OnDeviceSizeInBytes_args *args) {
    args->size_in_bytes = ((struct buffer *)args->buffer)->size_bytes;
    return NULL;
}

EXPORT void *Buffer_Device(struct Buffer_Device_args *args) {
    args->device = ((struct buffer *)args->buffer)->device;
    return NULL;
}

EXPORT void *Buffer_Memory(struct Buffer_Memory_args *args) {
    args->memory = ((struct buffer *)args->buffer)->memory;
    return NULL;
}

EXPORT void *Buffer_IsDeleted(struct Buffer_IsDeleted_args *args) {
    args->is_deleted = atomic_load(&((struct buffer *)args->buffer)->deleted);
    return NULL;
}

EXPORT void *Buffer_IsOnCpu(struct Buffer_IsOnCpu_args *args) {
    args->is_on_cpu = false;
    return NULL;
}

EXPORT void *Buffer_ReadyEvent(struct Buffer_ReadyEvent_args *args) {
    struct buffer *const buffer = args->buffer;
    tx8_event_retain(buffer->ready, 1);
    args->event = buffer->ready ? buffer->ready : tx8_event_ready();
    return NULL;
}

EXPORT void *Memory_Kind(struct Memory_Kind_args *args) {
    const struct memory *const memory = args->memory;
    args->kind = (char *)memory->kind;
    args->kind_size = memory->kind_size;
    return NULL;
}

EXPORT struct executable *tx8_executable_create(size_t num_replicas, size_t num_partitions, size_t num_outputs) {
    struct executable *const executable = calloc(1, sizeof *executable);
    if (executable) executable->num_replicas = num_replicas, executable->num_partitions = num_partitions, executable->num_outputs = num_outputs;
    return executable;
}

EXPORT void *Executable_Destroy(struct Executable_Destroy_args *args) { return tx8_bury(args->executable); }

EXPORT void *LoadedExecutable_Destroy(struct LoadedExecutable_Destroy_args *args) { return tx8_bury(args->executable); }

EXPORT void *Executable_NumReplicas(struct Executable_NumReplicas_args *args) {
    args->num_replicas = ((struct executable *)args->executable)->num_replicas;
    return NULL;
}

EXPORT void *Executable_NumPartitions(struct Executable_NumPartitions_args *args) {
    args->num_partitions = ((struct executable *)args->executable)->num_partitions;
    return NULL;
}

EXPORT void *Executable_NumOutputs(struct Executable_NumOutputs_args *args) {
    args->num_outputs = ((struct executable *)args->executable)->num_outputs;
    return NULL;
}

EXPORT void *ExecuteContext_Destroy(void *args) { return tx8_nothing(args); }

EXPORT void *Client_Destroy(void *args) { return tx8_nothing(args); }

EXPORT void *TopologyDescription_Destroy(void *args) { return tx8_nothing(args); }

/* XLA's text of a layout, `{1,0}`, with `:E(4)` for elements of 4 bits; NULL without memory. */
EXPORT struct layout *tx8_layout_create(const int64_t *minor_to_major, size_t rank, int element_bits) {
    struct layout *const layout = malloc(sizeof *layout + 24 * (rank + 1));
    if (!layout) return NULL;
    char *at = layout->text;
    *at++ = '{';
    for (size_t i = 0; i < rank; i++) at += sprintf(at, i ? ",%lld" : "%lld", (long long)minor_to_major[i]);
    if (element_bits) at += sprintf(at, ":E(%d)", element_bits);
    *at++ = '}';
    layout->size = (size_t)(at - layout->text);
    return layout;
}

EXPORT void *Buffer_MemoryLayout(struct Buffer_MemoryLayout_args *args) {
    struct buffer *const buffer = args->buffer;
    args->layout = tx8_layout_create(buffer->sizes + buffer->rank, buffer->rank, 0);
    return args->layout ? NULL : tx8_error(8, "no memory", 9);
}

EXPORT void *MemoryLayout_Destroy(struct MemoryLayout_Destroy_args *args) {
    free(args->layout);
    return NULL;
}

static void keep(void *holder) { (void)holder; }

EXPORT void *MemoryLayout_Serialize(struct MemoryLayout_Serialize_args *args) {
    struct layout *const layout = args->layout;
    args->bytes = layout->text;
    args->bytes_size = layout->size;
    args->holder = layout;
    args->deleter = (void *)(uintptr_t)keep;
    return NULL;
}

/* Deleter of what lives as long as its owner. */
EXPORT void tx8_keep(void *holder) { keep(holder); }
