/* What the files of libtx8model share. */
#ifndef TX8_MODEL_INTERNAL_H
#define TX8_MODEL_INTERNAL_H

#include <pthread.h>
#include <ucontext.h>

#include "core.h"
#include "load.h"
#include "stream.h"
#include "timing_stream.h"
#include "tx8.h"

#define API __attribute__((visibility("default")))
#define MESSAGE_BYTES 1024

/* Functions of the core: those linked in, or those of the best one that the package has. */
#define CORE_FUNCTIONS(X)                                                                                                                     \
    X(tx8_stream_create) X(tx8_stream_records) X(tx8_stream_begin) X(tx8_stream_run) X(tx8_stream_loaded) X(tx8_time_create) X(tx8_time_begin) \
    X(tx8_time_issue) X(tx8_time_follow) X(tx8_set_laws)
typedef void tx8_set_laws_call(struct machine *m, double satrelu_bound, double leakyrelu_slope);
#define MEMBER(name) name##_call *name;
struct functions {
    CORE_FUNCTIONS(MEMBER)
};
int find_functions(struct functions *f, char *message); /* 0 if they are all there */
const struct timed_kind *timed_kinds(void); /* by opcode */

/* files.c: what is in DDR. The message says what is wrong; 0 if nothing is. */
struct ddr {
    struct tx8_slot *slots;
    u8 *is_written;
    u8 **inputs; /* as they were read, of outputs that take them over; else NULL */
};
int read_folder(const TsmProgram *p, const char *folder, struct ddr *ddr, char *message);
void begin_launch(const TsmProgram *p, struct ddr *ddr); /* outputs that take over inputs are those again */
int write_results(const TsmProgram *p, const char *folder, const struct ddr *ddr, char *message);
void free_ddr(const TsmProgram *p, struct ddr *ddr);

enum core_state { CORE_RUNS, CORE_AT_BARRIER, CORE_ENDED, CORE_FAULT };

struct core {
    struct model *model;
    Tile tile;
    int thread;
    enum core_state state;
    u64 phase;             /* the last one, from barrier to barrier, in which a thread took it */
    ucontext_t own, *host; /* `host` is whom it goes back to */
    u8 *stack;
    u64 *records; /* the next ones, as the core wants them */
    i64 num, issued;
    char why[MESSAGE_BYTES];
};

struct host_thread {
    struct model *model;
    int number;
    pthread_t thread;
    ucontext_t context;
};

struct model {
    const TsmProgram *program;
    struct functions core;
    struct machine *machine;
    struct timed_stream *timing;
    struct ddr ddr;
    struct core cores[MAX_TILES];
    struct host_thread threads[MAX_THREADS];
    int num_tiles, num_threads;
    int is_timed, is_over, failed;
    double cycles;
    char message[MESSAGE_BYTES];
    pthread_mutex_t mutex;
    pthread_cond_t met;
    int arrived;
    u64 meeting;
};

/* model.c */
extern _Thread_local struct core *current; /* whose stack this thread is on */
void run_main(void);                       /* a tile's program from its beginning, on the stack of `current` */

#endif
