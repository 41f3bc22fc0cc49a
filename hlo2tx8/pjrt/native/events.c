/* Errors and events: called while a Python exception is on its way or another thread holds the GIL, so no Python here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handles.h"

enum code { OK = 0, CANCELLED = 1, UNIMPLEMENTED = 12, RESOURCE_EXHAUSTED = 8 };

static void destroy_error(struct error *error);

static void message_of(const struct error *error, const char **message, size_t *size) {
    *message = error->message;
    *size = error->size;
}

static int32_t code_of(const struct error *error) { return error->code; }

static void for_each_payload(const struct error *error, void *visitor, void *argument) { (void)error, (void)visitor, (void)argument; }

static const struct {
    size_t struct_size, instance_size;
    void *extension_start;
    void (*destroy)(struct error *);
    void (*message)(const struct error *, const char **, size_t *);
    int32_t (*get_code)(const struct error *);
    void (*for_each_payload)(const struct error *, void *, void *);
} FUNCTIONS = {sizeof FUNCTIONS, sizeof(void *), NULL, destroy_error, message_of, code_of, for_each_payload};

static struct error OUT_OF_MEMORY = {&FUNCTIONS, RESOURCE_EXHAUSTED, 0, ""};

static void destroy_error(struct error *error) {
    if (error != &OUT_OF_MEMORY) free(error);
}

/* The error, never NULL; copies the message. */
EXPORT struct error *tx8_error(int32_t code, const char *message, size_t size) {
    struct error *const error = malloc(sizeof *error + size + 1);
    if (!error) return &OUT_OF_MEMORY;
    error->table = &FUNCTIONS, error->code = code, error->size = size;
    memcpy(error->message, message, size);
    error->message[size] = 0;
    return error;
}

EXPORT void Error_Destroy(struct Error_Destroy_args *args) {
    if (args->error) destroy_error(args->error);
}

EXPORT void Error_Message(struct Error_Message_args *args) {
    const struct error *const error = args->error;
    args->message = (char *)error->message;
    args->message_size = error->size;
}

EXPORT void *Error_GetCode(struct Error_GetCode_args *args) {
    args->code = ((struct error *)args->error)->code;
    return NULL;
}

EXPORT void *Error_ForEachPayload(struct Error_ForEachPayload_args *args) {
    (void)args;
    return NULL;
}

/* Fills every slot of the table that has nothing else. */
EXPORT void *tx8_unimplemented(void *args) {
    static const char message[] = "the tx8 plugin does not implement this PJRT function";
    (void)args;
    return tx8_error(UNIMPLEMENTED, message, sizeof message - 1);
}

/* Compile waits for a Python callback without releasing the GIL: an error instead of a deadlock. */
EXPORT void *Compile(void *args) {
    static const char message[] = "compiling for a topology without devices is not implemented for tx8; use jit(f).lower(...).compile()";
    (void)args;
    return tx8_error(UNIMPLEMENTED, message, sizeof message - 1);
}

/* What a slot that makes something becomes when the interpreter ends. */
EXPORT void *tx8_ended(void *args) {
    static const char message[] = "the process ends";
    (void)args;
    return tx8_error(CANCELLED, message, sizeof message - 1);
}

/* What every other slot becomes then. */
EXPORT void *tx8_nothing(void *args) {
    (void)args;
    return NULL;
}

static struct event READY = {.references = 1, .done = 1, .mutex = PTHREAD_MUTEX_INITIALIZER};

/* The event of what needed no waiting; never freed. */
EXPORT struct event *tx8_event_ready(void) { return &READY; }

EXPORT struct event *tx8_event_create(int references) {
    struct event *const event = calloc(1, sizeof *event);
    if (!event) return NULL;
    event->references = references;
    pthread_mutex_init(&event->mutex, NULL);
    pthread_cond_init(&event->changed, NULL);
    return event;
}

EXPORT void tx8_event_retain(struct event *event, int count) {
    if (event && event != &READY) atomic_fetch_add(&event->references, count);
}

EXPORT void tx8_event_release(struct event *event) {
    if (!event || event == &READY || atomic_fetch_sub(&event->references, 1) != 1) return;
    pthread_mutex_destroy(&event->mutex);
    pthread_cond_destroy(&event->changed);
    free(event->message);
    free(event);
}

/* A new error for its caller, NULL if there was none. */
struct error *tx8_event_error(const struct event *event) {
    return event->code == OK ? NULL : tx8_error(event->code, event->message ? event->message : "", event->size);
}

/* Ends the event; callbacks run on this thread. */
EXPORT void tx8_event_set(struct event *event, int32_t code, const char *message, size_t size) {
    char *copy = NULL;
    if (code != OK && (copy = malloc(size + 1))) memcpy(copy, message, size), copy[size] = 0;
    pthread_mutex_lock(&event->mutex);
    event->code = code, event->message = copy, event->size = copy ? size : 0;
    atomic_store(&event->done, 1);
    struct waiter *waiter = event->waiters;
    event->waiters = NULL;
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->mutex);
    while (waiter) {
        struct waiter *const next = waiter->next;
        waiter->call(tx8_event_error(event), waiter->argument);
        free(waiter);
        waiter = next;
    }
}

EXPORT void *Event_Destroy(struct Event_Destroy_args *args) {
    tx8_event_release(args->event);
    return NULL;
}

EXPORT void *Event_IsReady(struct Event_IsReady_args *args) {
    args->is_ready = atomic_load(&((struct event *)args->event)->done) != 0;
    return NULL;
}

EXPORT void *Event_Error(struct Event_Error_args *args) { return tx8_event_error(args->event); }

EXPORT void *Event_Await(struct Event_Await_args *args) {
    struct event *const event = args->event;
    if (!atomic_load(&event->done)) {
        pthread_mutex_lock(&event->mutex);
        while (!atomic_load(&event->done)) pthread_cond_wait(&event->changed, &event->mutex);
        pthread_mutex_unlock(&event->mutex);
    }
    return tx8_event_error(event);
}

/* Calls at the event's end, at once if that was; -1 without memory. The callback owns the error. */
int tx8_event_when(struct event *event, ready_callback call, void *argument) {
    if (!atomic_load(&event->done)) {
        struct waiter *const waiter = malloc(sizeof *waiter);
        if (!waiter) return -1;
        *waiter = (struct waiter){NULL, call, argument};
        pthread_mutex_lock(&event->mutex);
        const int done = atomic_load(&event->done);
        if (!done) waiter->next = event->waiters, event->waiters = waiter;
        pthread_mutex_unlock(&event->mutex);
        if (!done) return 0;
        free(waiter);
    }
    call(tx8_event_error(event), argument);
    return 0;
}

EXPORT void *Event_OnReady(struct Event_OnReady_args *args) {
    const ready_callback call = (ready_callback)(uintptr_t)args->callback;
    return tx8_event_when(args->event, call, args->user_arg) ? &OUT_OF_MEMORY : NULL;
}
