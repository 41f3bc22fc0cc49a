/* libtx8runtime: programs of the TX8 that hlo2tx8 compiled and saved (.tx8x), loaded and run from C.
 *
 *     tx8rt_session *session; tx8rt_request *request; int model;
 *     if (tx8rt_session_create(NULL, &session) || tx8rt_session_load(session, "gelu.tx8x", NULL, &model) ||
 *         tx8rt_request_create(session, model, NULL, &request) || tx8rt_bind_arg(request, 0, x, sizeof x, TX8RT_DDR) ||
 *         tx8rt_bind_arg(request, 1, y, sizeof y, TX8RT_DDR) || tx8rt_finish_io_binding(request) || tx8rt_run(request, NULL, NULL) ||
 *         tx8rt_sync(request))
 *         fprintf(stderr, "%s\n", tx8rt_error());
 *
 * The calls are those of hlo2tx8.Session, see docs/runtime.md. No Python runs in here: the library reads the file itself and runs the program
 * in the emulator's native core, of which it loads the build that fits this processor. So it takes compiled programs only, it has neither
 * strict mode nor modelled times, and it pads no batches: those are Python's.
 *
 * Functions that return int return 0, or the number of an error code of docs/errors (1004 for E1004), which tx8rt_error() then explains.
 * Any thread may use a session; a request is one thread's at a time.
 */
#ifndef TX8_RUNTIME_H
#define TX8_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TX8RT_VERSION 1 /* of these calls; tx8rt_version() says the library's */

typedef struct tx8rt_session tx8rt_session;
typedef struct tx8rt_request tx8rt_request;
typedef struct tx8rt_queue tx8rt_queue;

enum tx8rt_code {
    TX8RT_OK = 0,
    TX8RT_UNSUPPORTED = 1001, /* a program with something that this library does not do */
    TX8RT_INPUT = 1004,       /* a wrong argument, number or name */
    TX8RT_MEMORY = 1005,      /* no memory, or the arena's limit */
    TX8RT_CONTAINER = 1007,   /* a file that is damaged, of a newer format, or none */
    TX8RT_FAULT = 1008,       /* the emulator refused to go on, or the time is over */
    TX8RT_NO_CORE = 1010,     /* no core of the emulator for this machine */
    TX8RT_ORDER = 1013        /* calls in a wrong order */
};

/* What the last failed call of this thread said; "" if none has failed. */
const char *tx8rt_error(void);
int tx8rt_version(void);

/* Where an argument's array is: in space DDR the program reads or writes the array itself, in space HOST each run moves it. */
enum tx8rt_space { TX8RT_DDR, TX8RT_HOST };
enum tx8rt_kind { TX8RT_INPUTS, TX8RT_OUTPUTS, TX8RT_WEIGHTS, TX8RT_ARGUMENTS /* inputs, then outputs */ };

/* Pointers are the session's. `dtype` is numpy's or ml_dtypes' name; elements are in logical order, row major. `alias_offset` is that of the
 * input whose memory an output takes over, or -1; `data` is a weight's array, NULL for all else. */
typedef struct {
    enum tx8rt_kind kind;
    enum tx8rt_space space;
    const char *name, *dtype;
    int offset, rank, alias_offset;
    const int64_t *shape;
    size_t size_bytes;
    const void *data;
} tx8rt_argument;

typedef struct {
    int64_t in_use_bytes, peak_bytes, kept_bytes, limit_bytes, num_allocated, num_reused;
} tx8rt_statistics;

enum tx8rt_task_kind { TX8RT_H2D, TX8RT_D2H, TX8RT_D2D, TX8RT_COMPUTE, TX8RT_RECORD_EVENT, TX8RT_WAIT_EVENT };

/* `stream` numbers the queue's threads; `event` is the marker that is recorded or waited for, 0 for other tasks. */
typedef struct {
    enum tx8rt_task_kind kind;
    int stream;
    const char *name;
    int64_t request, run, event;
    size_t size_bytes;
} tx8rt_task;

/* Zero, or NULL for all of them, is the default of each. */
typedef struct {
    const char *cores;                                   /* folder of the emulator's cores; that of the installed package */
    int threads;                                         /* of the host for a launch; as many as there are processors */
    double timeout;                                      /* seconds after which a run is ended; never */
    int64_t max_steps;                                   /* turns of loops, on each tile, likewise */
    size_t limit_bytes;                                  /* of the arena; none */
    void *(*allocate)(void *user, size_t bytes);         /* memory of the caller's own instead of the arena, aligned to 16 bytes */
    void (*free)(void *user, void *memory, size_t bytes); /* both or none; called in any thread */
    void (*before)(void *user, const tx8rt_task *task);  /* called around each task, in the thread that does it */
    void (*after)(void *user, const tx8rt_task *task, int code);
    void *user;
} tx8rt_options;

int tx8rt_session_create(const tx8rt_options *options, tx8rt_session **session);
int tx8rt_session_destroy(tx8rt_session *session); /* TX8RT_ORDER while it has requests; ends its own queue */

/* A model of a file, or of its bytes, which are not needed any more afterwards; `name` may be NULL for the program's own. */
int tx8rt_session_load(tx8rt_session *session, const char *path, const char *name, int *model);
int tx8rt_session_load_bytes(tx8rt_session *session, const void *bytes, size_t size, const char *name, int *model);
int tx8rt_session_model(tx8rt_session *session, const char *name);            /* its number, or -1 */
const char *tx8rt_session_name(tx8rt_session *session, int model);            /* NULL if there is no such model */
int tx8rt_session_count(tx8rt_session *session, int model, enum tx8rt_kind kind); /* how many of them, or -1 */
int tx8rt_session_argument(tx8rt_session *session, int model, enum tx8rt_kind kind, int number, tx8rt_argument *argument);
int tx8rt_session_statistics(tx8rt_session *session, tx8rt_statistics *statistics); /* of the arena */

/* Queues: all tasks on one thread; launches, transfers to the device and from it on one thread each; or the caller's threads, which must call
 * work(argument) once for each call of `submit`, which returns 0 if that will be done. */
enum tx8rt_queue_kind { TX8RT_SINGLE_STREAM, TX8RT_ONE_COMPUTE_TWO_TRANSFERS };
int tx8rt_queue_create(enum tx8rt_queue_kind kind, tx8rt_queue **queue);
int tx8rt_queue_create_external(int (*submit)(void *user, void (*work)(void *argument), void *argument), void *user, tx8rt_queue **queue);
int tx8rt_queue_destroy(tx8rt_queue *queue); /* TX8RT_ORDER while requests use it */

int tx8rt_request_create(tx8rt_session *session, int model, tx8rt_queue *queue, tx8rt_request **request); /* queue NULL: the session's own */
void tx8rt_request_destroy(tx8rt_request *request); /* runs under way go on, on memory that stays until they are done, as the caller's must */
int tx8rt_bind_arg(tx8rt_request *request, int offset, void *data, size_t size_bytes, enum tx8rt_space space);
int tx8rt_bind_args(tx8rt_request *request, void *const *data, const size_t *size_bytes, int count); /* in space DDR; NULL leaves one as it is */
void *tx8rt_get_arg(tx8rt_request *request, int offset); /* NULL if nothing is bound or allocated yet */
int tx8rt_finish_io_binding(tx8rt_request *request);
int tx8rt_run(tx8rt_request *request, void (*done)(void *user, int code, const char *message), void *user); /* `done` may be NULL */
int tx8rt_sync(tx8rt_request *request);             /* waits for all runs so far; the first error since the last sync */

#ifdef __cplusplus
}
#endif
#endif
