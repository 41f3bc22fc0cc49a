/* What the parts of libtx8runtime share. */
#ifndef TX8_RUNTIME_INTERNAL_H
#define TX8_RUNTIME_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core.h"
#include "tx8_runtime.h"

#define API __attribute__((visibility("default")))
#define MESSAGE_BYTES 512
#define MOST_RANK 64
#define DATA_ALIGNMENT 64

int refuse(int code, const char *format, ...) __attribute__((format(printf, 2, 3))); /* notes what tx8rt_error says; returns `code` */

/* zip.c: a member's bytes, which the caller frees, ended by a zero that does not count. */
struct bytes {
    u8 *data;
    size_t size;
};
int read_member(struct bytes archive, const char *name, size_t most_bytes, struct bytes *found);

/* json.c: values in the order of the text, each before those inside it. */
enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_LIST, JSON_MAP };
struct value {
    enum json_kind kind;
    const char *text; /* of a number or string, `size` bytes, without its quotes */
    size_t size;
    int count, next; /* values right inside, keys too; the value behind all of it */
};
struct json {
    const char *text, *end;
    struct value *values;
    int num, room;
};
int parse_json(struct json *json, const char *text, size_t size); /* 0 if it is sound; the caller frees the values in any case */
int member_of(const struct json *json, int map, const char *key);  /* -1 if there is none */
int item_of(const struct json *json, int list, int number);        /* -1 likewise */
int integer_of(const struct json *json, int value, i64 least, i64 most, i64 *found); /* 0 if it is one */
double number_of(const struct json *json, int value);              /* NaN if it is none */
char *string_of(const struct json *json, int value);               /* in UTF-8; NULL if it is none, or there is no memory */

/* model.c */
struct port {
    tx8rt_argument argument;
    i64 *shape;
    int *layout;   /* minor to major; NULL for row major */
    i64 *required; /* the only elements that an input may have; NULL for any */
    i64 num_elements, element_bytes;
    int slot;
};

enum slot_kind { SLOT_INPUT, SLOT_OUTPUT, SLOT_CONSTANT, SLOT_SCRATCH, NUM_SLOT_KINDS };

struct launcher {
    struct launcher *next;
    struct machine *machine;
    struct tx8_slot *slots;
    u8 *scratch;
};

struct model {
    struct model *next;
    char *name;
    u64 *code;
    struct bytes constants;
    i64 num_records, num_slots;
    i64 *sizes; /* of slots */
    u8 *kinds;
    int num_inputs, num_outputs, num_weights;
    struct port *ports; /* inputs, outputs, weights */
    char **origins;
    i64 num_origins, tiles, spm_bytes, threads, scratch_bytes;
    double satrelu_bound, leakyrelu_slope;
    pthread_mutex_t mutex;
    struct launcher *ready; /* that nobody uses */
};
int read_model(struct bytes archive, const char *what, struct model **model);
void free_model(struct model *model, tx8rt_session *session);

/* launch.c */
struct core {
    void *library;
    struct machine *(*create)(const u64 *, i64, const struct tx8_slot *, i64, i64, int, int, struct tx8_fault *);
    void (*set_laws)(struct machine *, double, double);
    int (*run)(struct machine *, double, struct tx8_fault *, i64);
    void (*destroy)(struct machine *);
};
int load_core(struct core *core, const char *folder);
int launch(tx8rt_session *session, struct model *model, u8 *const *data, char *message); /* on the memory of inputs, then outputs */

/* memory.c: blocks that stay as long as somebody refers to them. */
struct block {
    struct block *next;
    atomic_int refs;
    tx8rt_session *session;
    size_t size, room;
    u8 *memory, *data;
};
int new_block(tx8rt_session *session, size_t size, struct block **block);
void release_block(struct block *block);
void free_arena(tx8rt_session *session);

struct tx8rt_session {
    tx8rt_options options;
    struct core core;
    tx8rt_queue *own_queue;
    struct model **models;
    int num_models;
    atomic_int num_users; /* requests, and runs under way */
    pthread_mutex_t mutex;
    struct block *kept;
    tx8rt_statistics statistics;
};

/* queue.c */
struct marker {
    atomic_int refs;
    int passed;
    i64 number;
};

/* An array of the host and the memory of the device for it. */
struct staged {
    const struct port *port;
    u8 *host, *device;
};

/* All that a run needs, as long as one is under way. */
struct frame {
    atomic_int refs;
    struct model *model;
    u8 **data;             /* of the device, by offset */
    struct staged *staged; /* of inputs, then of outputs */
    int num_loads, num_stores;
    struct block **blocks;
    int num_blocks;
};
void release_frame(struct frame *frame);

/* What outlives a request whose runs are under way. */
struct progress {
    atomic_int refs;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int under_way, code;
    char message[MESSAGE_BYTES];
    struct run *first, *last; /* that wait for a thread of the caller's */
    int is_taken;
};
void release_progress(struct progress *progress);

struct job {
    struct job *next;
    struct run *run;
    tx8rt_task task;
    struct marker *marker;
    const struct staged *staged;
    const struct port *output; /* that takes over an input */
    int is_last;
};

struct run {
    struct run *next;
    tx8rt_session *session;
    tx8rt_queue *queue;
    struct frame *frame;
    struct progress *progress;
    atomic_int code;
    char message[MESSAGE_BYTES];
    void (*done)(void *, int, const char *);
    void *user;
    int num_jobs;
    struct job jobs[];
};

enum { STREAM_H2D, STREAM_COMPUTE, STREAM_D2H, NUM_STREAMS_OF_QUEUE };

struct job_stream {
    pthread_t thread;
    struct job *first, *last;
    tx8rt_queue *queue;
    int is_started;
};

struct tx8rt_queue {
    int (*submit)(void *, void (*)(void *), void *);
    void *user;
    int stream_of[NUM_STREAMS_OF_QUEUE], num_streams;
    struct job_stream streams[NUM_STREAMS_OF_QUEUE];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int leave, process;
    atomic_int num_users;
};
int put_run(struct run *run); /* takes the run, also where it fails */
int is_own_thread(const tx8rt_queue *queue);
void do_task(struct job *job); /* request.c: what a job does, but waits and markers; notes a failure in its run */
void fail_run(struct run *run, int code, const char *message);
void release_marker(struct marker *marker);

#endif
