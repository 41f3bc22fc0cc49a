/* What stands behind the opaque handles of the PJRT C API. */
#ifndef HLO2TX8_PJRT_HANDLES_H
#define HLO2TX8_PJRT_HANDLES_H

#include <pthread.h>
#include <stdatomic.h>

#include "abi.h"

#define PJRT_ABI_VERSION 4
#define EXPORT __attribute__((visibility("default")))

/* PJRT_Error: the first word is its function table. */
struct error {
    const void *table;
    int32_t code;
    size_t size;
    char message[];
};

typedef void (*ready_callback)(struct error *error, void *argument);

struct waiter {
    struct waiter *next;
    ready_callback call;
    void *argument;
};

/* Ends once, with code 0 or an error; destroyed with its last reference. */
struct event {
    atomic_int references;
    atomic_int done;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int32_t code;
    size_t size;
    char *message;
    struct waiter *waiters;
};

/* Destroyed handles wait in a list until Python, at a safe time, forgets what belongs to them. */
struct handle {
    struct handle *next_dead;
};

/* PJRT_Memory: the first word is its function table, which may be NULL. */
struct memory {
    const void *table;
    const char *kind;
    size_t kind_size;
};

struct shape {
    int32_t type;
    size_t rank;
    size_t size_bytes;
    const int64_t *dims, *minor_to_major;
};

/* An array's bytes in host memory, which Python keeps until the handle is dead; there from the end of `ready` on. */
struct payload {
    struct handle handle;
    atomic_int references;
    struct event *ready; /* NULL: it always was */
    const void *data;
};

struct buffer {
    struct handle handle;
    void *device;
    struct memory *memory;
    struct event *ready; /* the payload's */
    struct payload *payload; /* NULL once deleted; `mutex` guards it */
    pthread_mutex_t mutex;
    atomic_bool deleted;
    int32_t type;
    size_t rank, size_bytes;
    int64_t sizes[]; /* dimensions, then minor to major */
};

/* PJRT_Executable and PJRT_LoadedExecutable. */
struct executable {
    struct handle handle;
    size_t num_replicas, num_partitions, num_outputs;
};

struct layout {
    size_t size;
    char text[];
};

void *tx8_bury(struct handle *handle);
void Error_Destroy(struct Error_Destroy_args *args);
struct error *tx8_error(int32_t code, const char *message, size_t size);
struct event *tx8_event_create(int references);
void tx8_event_retain(struct event *event, int count);
void tx8_event_release(struct event *event);
void tx8_event_set(struct event *event, int32_t code, const char *message, size_t size);
struct event *tx8_event_ready(void);
struct error *tx8_event_error(const struct event *event);
int tx8_event_when(struct event *event, ready_callback call, void *argument);
struct payload *tx8_payload_create(struct event *ready, const void *data, int references);
void tx8_payload_release(struct payload *payload);
struct payload *tx8_buffer_payload(struct buffer *buffer);
struct layout *tx8_layout_create(const int64_t *minor_to_major, size_t rank, int element_bits);
void *tx8_nothing(void *args);

#endif
