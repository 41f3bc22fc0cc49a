/* To the host. jaxlib makes the host's array, then calls this holding the GIL, then notes that the array is on its way: another Python
   thread in between would make a second array and free the first, so no Python here. */
#include <stdlib.h>
#include <string.h>

#include "handles.h"

enum { INVALID_ARGUMENT = 3, RESOURCE_EXHAUSTED = 8, UNIMPLEMENTED = 12, TILED = 0, MOST_DIMENSIONS = 64 };

/* PJRT_Buffer_MemoryLayout. */
struct host_layout {
    size_t struct_size;
    void *extension_start;
    size_t tiled_struct_size;
    void *tiled_extension_start;
    const int64_t *minor_to_major;
    size_t minor_to_major_size;
    const int64_t *tile_dims;
    const size_t *tile_dim_sizes;
    size_t num_tiles;
    int32_t type;
};

/* Row major bytes to a host array whose dimensions from the slowest on have these sizes and, in the source, these strides. */
struct copy {
    struct payload *payload;
    struct event *event;
    char *target;
    size_t size, element, rank;
    int64_t sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
};

static struct error *error(int code, const char *message) { return tx8_error(code, message, strlen(message)); }

static void copy_permuted(const struct copy *copy) {
    int64_t at[MOST_DIMENSIONS] = {0};
    const char *source = copy->payload->data;
    for (size_t done = 0; done < copy->size; done += copy->element) {
        memcpy(copy->target + done, source, copy->element);
        for (size_t d = copy->rank; d-- > 0;) {
            source += copy->strides[d];
            if (++at[d] < copy->sizes[d]) break;
            source -= copy->strides[d] * at[d];
            at[d] = 0;
        }
    }
}

static struct error *run(const struct copy *copy) {
    if (!copy->size) return NULL;
    if (!copy->payload->data) return error(INVALID_ARGUMENT, "the array has been deleted or donated");
    if (copy->rank)
        copy_permuted(copy);
    else
        memcpy(copy->target, copy->payload->data, copy->size);
    return NULL;
}

static void run_at_end(struct error *failed, void *argument) {
    struct copy *const copy = argument;
    if (!failed) failed = run(copy);
    if (failed)
        tx8_event_set(copy->event, failed->code, failed->message, failed->size);
    else
        tx8_event_set(copy->event, 0, NULL, 0);
    Error_Destroy(&(struct Error_Destroy_args){.error = failed});
    tx8_event_release(copy->event);
    tx8_payload_release(copy->payload);
    free(copy);
}

static int set_order(struct copy *copy, const struct buffer *buffer, const struct host_layout *layout) {
    size_t elements = 1, is_row_major = 1;
    for (size_t d = 0; d < buffer->rank; d++) elements *= (size_t)buffer->sizes[d];
    copy->size = buffer->size_bytes, copy->element = elements ? copy->size / elements : 1;
    if (!layout || layout->minor_to_major_size != buffer->rank) return 0;
    for (size_t d = 0; d < buffer->rank; d++) is_row_major &= layout->minor_to_major[d] == (int64_t)(buffer->rank - 1 - d);
    if (is_row_major) return 0;
    if (buffer->rank > MOST_DIMENSIONS) return -1;
    copy->rank = buffer->rank;
    for (size_t d = 0; d < buffer->rank; d++) {
        const int64_t dimension = layout->minor_to_major[buffer->rank - 1 - d];
        copy->sizes[d] = buffer->sizes[dimension];
        copy->strides[d] = (int64_t)copy->element;
        for (size_t i = (size_t)dimension + 1; i < buffer->rank; i++) copy->strides[d] *= buffer->sizes[i];
    }
    return 0;
}

EXPORT void *Buffer_ToHostBuffer(struct Buffer_ToHostBuffer_args *args) {
    struct buffer *const buffer = args->buffer;
    const struct host_layout *const layout = args->host_layout;
    args->event = tx8_event_ready();
    if (!args->dst) {
        args->dst_size = buffer->size_bytes;
        return NULL;
    }
    if (layout && layout->type != TILED) return error(UNIMPLEMENTED, "strides of a host buffer that is written");
    if (args->dst_size < buffer->size_bytes) return error(INVALID_ARGUMENT, "the host's buffer is too small");
    struct copy now = {.target = args->dst, .payload = tx8_buffer_payload(buffer)};
    if (!now.payload) return error(INVALID_ARGUMENT, "the array has been deleted or donated");
    struct error *failed = set_order(&now, buffer, layout) ? error(UNIMPLEMENTED, "more than 64 dimensions in another order") : NULL;
    struct event *const ready = now.payload->ready;
    struct copy *later = NULL;
    if (!failed && (!ready || atomic_load(&ready->done))) {
        failed = ready ? tx8_event_error(ready) : NULL;
        if (!failed) failed = run(&now);
    } else if (!failed) {
        later = malloc(sizeof *later);
        now.event = later ? tx8_event_create(2) : NULL;
        if (now.event) {
            *later = now;
            args->event = now.event;
            if (!tx8_event_when(ready, run_at_end, later)) return NULL;
        }
        args->event = NULL;
        free(now.event), free(later);
        failed = error(RESOURCE_EXHAUSTED, "no memory for a transfer");
    }
    tx8_payload_release(now.payload);
    return failed;
}
