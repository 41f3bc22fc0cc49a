/* What sanitize.py builds with libtx8runtime's own sources: `sanitize CORES damaged FILE` loads and runs programs of a file of (u32 size, bytes),
 * `sanitize CORES threads PROGRAM` serves one from many threads on every queue, and drops requests with runs under way. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tx8_runtime.h"

enum { NUM_THREADS = 25, NUM_QUEUES = 5, NUM_REQUESTS = 10, NUM_RUNS = 5, MOST_BYTES = 1 << 26 };

static tx8rt_session *session;
static tx8rt_queue *queues[NUM_QUEUES]; /* the last one is the session's own */
static int model, num_done, num_wrong;
static size_t size;

struct work {
    void (*function)(void *);
    void *argument;
};

static void *do_work(void *given) {
    const struct work work = *(struct work *)given;
    free(given);
    work.function(work.argument);
    return NULL;
}

static int submit(void *user, void (*function)(void *), void *argument) {
    struct work *const work = malloc(sizeof *work);
    pthread_t thread;
    (void)user;
    *work = (struct work){function, argument};
    return pthread_create(&thread, NULL, do_work, work) || pthread_detach(thread);
}

static int submit_at_once(void *user, void (*function)(void *), void *argument) {
    (void)user;
    function(argument);
    return 0;
}

static void note(void *user, int code, const char *message) {
    (void)user, (void)message;
    __atomic_add_fetch(&num_done, 1, __ATOMIC_SEQ_CST);
    if (code) __atomic_add_fetch(&num_wrong, 1, __ATOMIC_SEQ_CST);
}

/* Its arrays stay, as runs of dropped requests read them. */
static void *serve(void *given) {
    const long number = (long)given;
    unsigned seed = (unsigned)number + 1;
    for (int turn = 0; turn < NUM_REQUESTS; turn++) {
        tx8rt_request *request;
        uint8_t *const x = malloc(size), *const y = malloc(size);
        for (size_t i = 0; i < size; i++) x[i] = (uint8_t)(rand_r(&seed) & 63);
        const enum tx8rt_space space = rand_r(&seed) & 1 ? TX8RT_HOST : TX8RT_DDR;
        int failed = tx8rt_request_create(session, model, queues[number % NUM_QUEUES], &request) || tx8rt_bind_arg(request, 0, x, size, space);
        failed = failed || (turn & 1 && tx8rt_bind_arg(request, 1, y, size, space)) || tx8rt_finish_io_binding(request);
        for (int run = 0; run < NUM_RUNS; run++) failed = failed || tx8rt_run(request, note, NULL);
        if (turn % 3) failed = failed || tx8rt_sync(request);
        if (failed) __atomic_add_fetch(&num_wrong, 1, __ATOMIC_SEQ_CST);
        tx8rt_request_destroy(request);
    }
    return NULL;
}

static int serve_threads(const char *path) {
    pthread_t threads[NUM_THREADS];
    tx8rt_argument input;
    tx8rt_statistics statistics;
    if (tx8rt_session_load(session, path, NULL, &model) || tx8rt_session_argument(session, model, TX8RT_INPUTS, 0, &input)) return 1;
    size = input.size_bytes;
    if (tx8rt_queue_create(TX8RT_SINGLE_STREAM, &queues[0]) || tx8rt_queue_create(TX8RT_ONE_COMPUTE_TWO_TRANSFERS, &queues[1])) return 1;
    if (tx8rt_queue_create_external(submit, NULL, &queues[2]) || tx8rt_queue_create_external(submit_at_once, NULL, &queues[3])) return 1;
    for (long i = 0; i < NUM_THREADS; i++) pthread_create(&threads[i], NULL, serve, (void *)i);
    for (int i = 0; i < NUM_THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 1000 && tx8rt_session_destroy(session) == TX8RT_ORDER; i++) {
        usleep(10000);
        tx8rt_session_statistics(session, &statistics);
        if (statistics.in_use_bytes) continue;
        for (int q = 0; q < NUM_QUEUES - 1; q++)
            if (queues[q] && !tx8rt_queue_destroy(queues[q])) queues[q] = NULL;
    }
    printf("%d runs, %d wrong\n", num_done, num_wrong);
    return num_wrong || num_done != NUM_THREADS * NUM_REQUESTS * NUM_RUNS;
}

static size_t bytes_of_arguments(int number) {
    size_t total = 0;
    for (int i = 0; i < tx8rt_session_count(session, number, TX8RT_ARGUMENTS); i++) {
        tx8rt_argument argument;
        tx8rt_session_argument(session, number, TX8RT_ARGUMENTS, i, &argument);
        total += argument.size_bytes;
    }
    return total;
}

static int load_damaged(const char *path) {
    FILE *const file = fopen(path, "rb");
    int counts[3] = {0};
    uint32_t length;
    for (int number = 0; file && fread(&length, sizeof length, 1, file) == 1; number++) {
        uint8_t *const bytes = malloc(length); /* of its own, so that a read behind its end is seen */
        char name[16];
        snprintf(name, sizeof name, "%d", number);
        if (fread(bytes, 1, length, file) != length) return 1;
        const int refused = tx8rt_session_load_bytes(session, bytes, length, name, &model);
        free(bytes);
        tx8rt_request *request;
        int failed = 0;
        if (!refused && bytes_of_arguments(model) < MOST_BYTES && !tx8rt_request_create(session, model, NULL, &request)) {
            failed = tx8rt_finish_io_binding(request) || tx8rt_run(request, NULL, NULL) || tx8rt_sync(request);
            tx8rt_request_destroy(request);
        }
        counts[refused ? 0 : failed ? 1 : 2]++;
    }
    printf("%d programs refused, %d failed, %d ran\n", counts[0], counts[1], counts[2]);
    return !file || fclose(file) || tx8rt_session_destroy(session);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const tx8rt_options options = {.cores = argv[1], .threads = 1, .max_steps = 2000, .timeout = 2};
    if (tx8rt_session_create(&options, &session)) return fprintf(stderr, "%s\n", tx8rt_error()), 1;
    return strcmp(argv[2], "threads") ? load_damaged(argv[3]) : serve_threads(argv[3]);
}
