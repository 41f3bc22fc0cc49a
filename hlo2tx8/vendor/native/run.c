/* Tiles at work: the main program of each on a stack of its own, threads of the host run them, one after the other, until all are at a
 * barrier or have ended. So what is computed, and what is timed, does not depend on the host. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "model.h"

#define STACK_BYTES ((size_t)1 << 20)
#define SINGLE_THREAD_BYTES (1 << 15) /* programs with fewer in their slots are not worth a thread */
#define MOST_LAUNCHES 1000000

/* The tile before its first instruction. */
static void begin_core(struct model *m, int number) {
    struct core *const c = m->cores + number;
    c->model = m, c->state = CORE_RUNS, c->phase = 0;
    c->tile = (Tile){.id = number};
    c->num = c->issued = 0;
    c->records = m->core.tx8_stream_records(m->machine, number);
    m->core.tx8_stream_begin(m->machine, number);
    getcontext(&c->own);
    c->own.uc_stack.ss_sp = c->stack, c->own.uc_stack.ss_size = STACK_BYTES, c->own.uc_link = NULL;
    makecontext(&c->own, run_main, 0);
}

/* All threads are here; `is_last` came last, and all others wait until it goes on. */
static int meet(struct model *m) {
    pthread_mutex_lock(&m->mutex);
    const u64 meeting = m->meeting;
    const int is_last = ++m->arrived == m->num_threads;
    while (!is_last && m->meeting == meeting) pthread_cond_wait(&m->met, &m->mutex);
    if (!is_last) pthread_mutex_unlock(&m->mutex);
    return is_last;
}

static void go_on(struct model *m) {
    m->arrived = 0, m->meeting++;
    pthread_cond_broadcast(&m->met);
    pthread_mutex_unlock(&m->mutex);
}

static void fail_model(struct model *m, const char *why) {
    if (!m->failed) snprintf(m->message, sizeof m->message, "%s", why);
    m->failed = m->is_over = 1;
}

/* All tiles wait at a barrier, or have ended. Of faults the first tile's is told. */
static void judge(struct model *m) {
    int waiting = 0, ended = 0;
    for (int i = 0; i < m->num_tiles; i++) {
        const struct core *const c = m->cores + i;
        if (c->state == CORE_FAULT) fail_model(m, c->why);
        waiting += c->state == CORE_AT_BARRIER, ended += c->state == CORE_ENDED;
    }
    if (!m->failed && waiting && ended) fail_model(m, "fault unequal_barrier: some tiles wait at a barrier, and others have ended");
    m->is_over = m->failed || !waiting;
    if (m->failed || !m->is_timed) return;
    m->cycles = m->core.tx8_time_follow(m->timing, m->is_over);
    if (m->cycles < 0.0) fail_model(m, "the modelled time cannot be told");
}

static int claim(struct core *c, u64 phase) { return __atomic_exchange_n(&c->phase, phase, __ATOMIC_ACQ_REL) != phase; }

/* A thread's own tiles from the first on, then others' from the last on: from barrier to barrier a tile is mostly one thread's. */
static void run_phase(struct model *m, int thread, u64 phase) {
    for (int k = 0; k < m->num_threads; k++) {
        const int owner = (thread + k) % m->num_threads, first = owner * m->num_tiles / m->num_threads, end = (owner + 1) * m->num_tiles / m->num_threads;
        for (int i = first; i < end; i++) {
            struct core *const c = m->cores + (k ? first + end - 1 - i : i);
            if (!claim(c, phase) || (c->state != CORE_RUNS && c->state != CORE_AT_BARRIER)) continue;
            c->state = CORE_RUNS, c->thread = thread, c->host = &m->threads[thread].context;
            current = c;
            swapcontext(&m->threads[thread].context, &c->own);
        }
    }
}

static void run_share(struct model *m, int thread) {
    const int first = thread * m->num_tiles / m->num_threads, end = (thread + 1) * m->num_tiles / m->num_threads;
    for (int i = first; i < end; i++) begin_core(m, i);
    if (meet(m)) go_on(m);
    for (u64 phase = 1; !m->is_over; phase++) {
        run_phase(m, thread, phase);
        if (meet(m)) judge(m), go_on(m);
    }
}

static void *work(void *argument) {
    const struct host_thread *const t = argument;
    run_share(t->model, t->number);
    return NULL;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double launch(struct model *m) {
    const double started = now();
    m->is_over = m->arrived = 0;
    if (m->is_timed) m->core.tx8_time_begin(m->timing);
    begin_launch(m->program, &m->ddr);
    int num = 1;
    for (; num < m->num_threads; num++)
        if (pthread_create(&m->threads[num].thread, NULL, work, &m->threads[num])) break;
    if (num < m->num_threads) {
        fprintf(stderr, "no threads\n");
        exit(1);
    }
    run_share(m, 0);
    for (int t = 1; t < num; t++) pthread_join(m->threads[t].thread, NULL);
    return now() - started;
}

#define COPY(name) .name = c->name
static struct timed_model_chip timing_of(const TsmChip *c) {
    struct timed_model_chip t = {
        .chip = {COPY(tiles), COPY(queue_depth), COPY(issue), COPY(wait), COPY(barrier), COPY(ct_startup), COPY(ct_bytes_per_cycle), COPY(dma_startup),
                 COPY(dma_min_run_bytes), COPY(tdma_startup), COPY(tdma_bytes_per_cycle), COPY(tdma_min_run_bytes), COPY(kc_vector_bytes_per_cycle),
                 COPY(dte_startup), COPY(dte_hop), COPY(dte_bytes_per_cycle), COPY(mesh_columns), .ddr_rate = c->ddr_bytes_per_cycle,
                 .port_rate = (double)c->dma_bytes_per_cycle},
        COPY(ne_startup), COPY(ne_tile_rows), COPY(ne_tile_columns), COPY(ne_tile_depth), COPY(ne_arrays), COPY(ne_int8_speedup),
        COPY(ddr_read_charge), COPY(ddr_write_charge)};
    _Static_assert(sizeof c->beats == sizeof t.beats, "a number for each entry");
    memcpy(t.beats, &c->beats, sizeof t.beats);
    return t;
}

/* What is there for all launches; not 0 if something is missing. */
static int prepare_model(struct model *m, const char *folder) {
    const TsmProgram *const p = m->program;
    const TsmChip *const c = p->chip;
    i64 bytes = 0;
    if (find_functions(&m->core, m->message) || read_folder(p, folder, &m->ddr, m->message)) return 1;
    for (i32 i = 0; i < p->num_slots; i++) bytes += p->slots[i].size;
    m->num_tiles = (int)c->tiles;
    m->num_threads = bytes < SINGLE_THREAD_BYTES ? 1 : processors() < m->num_tiles ? processors() : m->num_tiles;
    const struct timed_model_chip chip = timing_of(c);
    m->machine = m->core.tx8_stream_create(m->ddr.slots, m->ddr.is_written, p->num_slots, c->spm_limit, m->num_tiles, m->num_threads, p->is_linked);
    m->timing = m->core.tx8_time_create(&chip, timed_kinds());
    if (!m->machine || !m->timing) return snprintf(m->message, MESSAGE_BYTES, "no memory for the machine"), 1;
    m->core.tx8_set_laws(m->machine, c->satrelu_bound, c->leakyrelu_slope);
    u8 *const stacks = mmap(NULL, STACK_BYTES * (size_t)m->num_tiles, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return snprintf(m->message, MESSAGE_BYTES, "no memory for stacks"), 1;
    for (int i = 0; i < m->num_tiles; i++) m->cores[i].stack = stacks + (size_t)i * STACK_BYTES;
    for (int t = 0; t < m->num_threads; t++) m->threads[t].model = m, m->threads[t].number = t;
    return 0;
}

static int run_model(struct model *m, const char *folder, long launches) {
    if (prepare_model(m, folder)) return 1;
    const TsmProgram *const p = m->program;
    double least = INFINITY;
    for (long i = 0; i < launches && !m->failed; i++) {
        m->is_timed = i == 0;
        const double seconds = launch(m);
        if (i) least = seconds < least ? seconds : least;
    }
    if (m->failed || write_results(p, folder, &m->ddr, m->message)) return 1;
    const double fetched = (double)p->program_bytes / (double)p->chip->program_bytes_per_cycle;
    const double cycles = m->cycles + (fetched > (double)p->chip->launch ? fetched : (double)p->chip->launch);
    printf("%s: %.3f cycles, %.3f us\n", p->name, cycles, 1e6 * cycles / (double)p->chip->clock_hz);
    if (launches > 1) printf("%s: %.3f ms for a launch on this machine, the least of %ld\n", p->name, 1e3 * least, launches - 1);
    return 0;
}

API int TsmRun(const TsmProgram *program, int argc, char **argv) {
    const char *folder = ".";
    long launches = 1;
    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        if (!strncmp(argv[i], "--launches=", 11)) launches = strtol(argv[i] + 11, &end, 10);
        else folder = argv[i];
        if ((end && *end) || launches < 1 || launches > MOST_LAUNCHES) {
            fprintf(stderr, "usage: %s [FOLDER] [--launches=N]\n", argv[0]);
            return 2;
        }
    }
    if (program->chip->tiles < 1 || program->chip->tiles > MAX_TILES) {
        fprintf(stderr, "%s: a chip has 1 to %d tiles\n", program->name, MAX_TILES);
        return 1;
    }
    struct model *const m = calloc(1, sizeof *m);
    if (!m) return 1;
    m->program = program;
    pthread_mutex_init(&m->mutex, NULL);
    pthread_cond_init(&m->met, NULL);
    const int failed = run_model(m, folder, launches);
    if (failed) fprintf(stderr, "error: %s: %s\n", program->name, m->message);
    free_ddr(program, &m->ddr);
    return failed; /* what is left goes with the process */
}
