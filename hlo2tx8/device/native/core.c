/* Entry points: tiles run in program order until a barrier, over worker threads, in slices of time so that the caller can interrupt. */
#include <fenv.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "core.h"

#define RECORDS_PER_POLL 64
#define POLLS_PER_VECTOR 8 /* a vector record counts as so many: it may take milliseconds; one of the matrix engine as all */
#define SPINS 6000 /* about 60 us */
#define WAKE_SECONDS 2e-5 /* in less a phase is over before a worker has woken */
#define KEPT_SPM_BYTES ((i64)1 << 20) /* of a tile: more is given back to the host between runs */

enum outcome { OUTCOME_DONE, OUTCOME_TIME, OUTCOME_FAULT, OUTCOME_MEMORY };

int tx8_abi_version(void) { return ABI_VERSION; }

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *map_bytes(size_t size) {
    void *const region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) return NULL;
    return region;
}

/* Under the address sanitizer, an access to the gap behind a tile's SPM is one out of bounds; off again before the arena goes. */
static void guard_gaps(struct machine *m, int is_on) {
#ifdef __SANITIZE_ADDRESS__
    for (int i = 0; i < m->num_tiles; i++) {
        u8 *const gap = m->spm + i * spm_stride(m) + m->spm_bytes;
        if (is_on) __asan_poison_memory_region(gap, SPM_GAP_BYTES);
        else __asan_unpoison_memory_region(gap, SPM_GAP_BYTES);
    }
#else
    (void)m, (void)is_on;
#endif
}

static i64 floor_div(i64 a, i64 b) {
    if (b == -1) return (i64)(0 - (u64)a);
    const i64 quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static int run_scalar(struct context *c, i64 *result) {
    const i64 a = operand(c, KC_MIN__A), b = operand(c, KC_MIN__B);
    switch (c->step->opcode) {
    case OP_KC_MIN: *result = a < b ? a : b; return 0;
    case OP_KC_MAX: *result = a > b ? a : b; return 0;
    case OP_KC_MUL: *result = (i64)((u64)a * (u64)b); return 0;
    case OP_KC_LESS: *result = a < b; return 0;
    default: break;
    }
    if (b == 0) return fail(c, FAULT_BAD_DESCRIPTOR, "division by zero");
    const i64 quotient = floor_div(a, b);
    *result = c->step->opcode == OP_KC_MOD ? (i64)((u64)a - (u64)quotient * (u64)b) : quotient;
    return 0;
}

static int run_wait(struct context *c) {
    const i64 engines = operand(c, KC_WAIT__ENGINES);
    if (is_engine_mask(engines)) return 0; /* whatever was issued has ended */
    return fail(c, FAULT_BAD_DESCRIPTOR, "engines = %lld is not in 0 .. %d", (long long)engines, (2 << ENGINE_KC) - 1);
}

static int run_load(struct context *c, i64 *result) {
    const u8 *const p = spm_range(c, operand(c, KC_LOAD_SCALAR__ADDRESS), 1, c->step->bytes);
    if (!p) return (int)c->tile->fault.kind;
    u64 bits = 0; /* any address is aligned enough */
    memcpy(&bits, p, (size_t)c->step->bytes);
    convert_elements(result, FORMAT_INT64, &bits, c->step->fmt == FORMAT_PRED ? FORMAT_UINT8 : c->step->fmt, 1);
    return 0;
}

/* The record after a loop's or branch's begin or end. */
static i64 begin_loop(struct context *c, i64 at) {
    struct tile *const t = c->tile;
    const i64 lo = operand(c, KC_LOOP__LO), hi = operand(c, KC_LOOP__HI), step = operand(c, KC_LOOP__STEP);
    if (step <= 0) {
        fail(c, FAULT_RUNAWAY, "loop step %lld", (long long)step);
        return -1;
    }
    if (lo >= hi) return c->step->partner + 1;
    t->loops[t->depth++] = (struct loop){at, lo, hi, step};
    set_register(t, c->record[HEADER_WORDS + KC_LOOP__RD], lo);
    return at + 1;
}

static i64 end_loop(struct context *c, i64 at) {
    struct tile *const t = c->tile;
    struct loop *const loop = &t->loops[t->depth - 1];
    i64 next;
    if (__builtin_add_overflow(loop->counter, loop->step, &next) || next >= loop->hi) {
        t->depth--;
        return at + 1;
    }
    loop->counter = next;
    set_register(t, c->machine->code[loop->record * RECORD_WORDS + HEADER_WORDS + KC_LOOP__RD], next);
    return loop->record + 1;
}

static void write_place(const struct tile *t, int number, struct tx8_fault *place) {
    place->tile = number;
    place->record = t->at;
    place->num_counters = t->depth;
    for (int i = 0; i < t->depth; i++) place->counters[i] = t->loops[i].counter;
}

static void stop_at_fault(struct tile *t, int number) {
    t->state = TILE_FAULT;
    write_place(t, number, &t->fault);
}

static void wake_workers(struct machine *m) {
    pthread_mutex_lock(&m->mutex);
    __atomic_store_n(&m->generation, m->generation + 1, __ATOMIC_RELEASE);
    m->is_open = 1;
    m->wake_at = INFINITY;
    pthread_cond_broadcast(&m->start);
    pthread_mutex_unlock(&m->mutex);
}

/* Records follow each other faster if their places do not go through vectors. */
#if defined(__GNUC__) && !defined(__clang__)
#define NO_VECTORS __attribute__((optimize("no-tree-slp-vectorize")))
#else
#define NO_VECTORS
#endif

/* Until a barrier, the end, a fault or the deadline. */
NO_VECTORS static void run_tile(struct machine *m, int number, int thread) {
    struct tile *const t = &m->tiles[number];
    struct context c = {.machine = m, .tile = t, .scratch = m->scratch[thread]};
    for (int polls = RECORDS_PER_POLL; t->at < m->num_records;) {
        c.record = m->code + t->at * RECORD_WORDS;
        c.step = m->steps + t->at;
        const u64 rd = c.record[HEADER_WORDS];
        i64 next = t->at + 1, value = 0;
        int fault = 0;
        switch ((enum form)c.step->form) {
        case FORM_HALT: t->state = TILE_ENDED; return;
        case FORM_BARRIER:
            if (t->at < m->final_barrier) {
                settle_loads(t);
                settle_boxes(t, t->spm, m->spm_bytes);
            }
            t->state = TILE_WAITING;
            return;
        case FORM_NOTHING: break;
        case FORM_WAIT: fault = run_wait(&c); break;
        case FORM_LOOP:
            next = begin_loop(&c, t->at);
            fault = next < 0;
            break;
        case FORM_END: next = end_loop(&c, t->at); break;
        case FORM_IF: next = operand(&c, KC_IF__VALUE) ? t->at + 1 : c.step->partner + 1; break;
        case FORM_EXIT:
            if (operand(&c, KC_EXIT__VALUE)) break;
            t->depth--;
            next = c.step->partner + 1;
            break;
        case FORM_AFFINE: run_affine(&c); break;
        case FORM_SCALAR:
            fault = run_scalar(&c, &value);
            if (!fault) set_register(t, rd, value);
            break;
        case FORM_LOAD_SCALAR:
            c.knows_deferred = 0;
            fault = run_load(&c, &value);
            if (fault) break;
            set_register(t, rd, value);
            if (m->decides) keep_decision(m, t, t->at, value);
            break;
        default:
            if (c.step->quick.is_ready && run_quick(&c)) break;
            if (is_short(&c)) {
                c.knows_deferred = 0;
                fault = m->keeps_status ? execute_kept(&c) : execute(&c);
                break;
            }
            c.knows_deferred = 1;
            if (m->keeps_status) {
                c.knows_deferred = 0;
                fault = execute_kept(&c);
                break;
            }
            if (c.step->form == FORM_RDMA && (defer_load(&c) > 0 || defer_box(&c))) break;
            if (c.step->form == FORM_WDMA && store_box(&c)) break;
            if (c.step->chain > (t->num_deferred ? 0 : 1)) { /* alone for the sake of what it reads in DDR */
                next = run_chain(&c, t->at);
                if (next > t->at) break;
                c.record = m->code + t->at * RECORD_WORDS;
                c.step = m->steps + t->at;
                next = t->at + 1;
            }
            c.knows_boxes = c.step->form == FORM_GEMM;
            c.knows_deferred = c.knows_boxes || c.step->form == FORM_REDUCE || c.step->form == FORM_UNIT || c.step->form == FORM_UNIT_LOOP;
            fault = execute(&c);
            c.knows_boxes = 0;
            polls = c.step->form == FORM_GEMM || c.step->form == FORM_CONV || polls <= POLLS_PER_VECTOR ? 1 : polls - POLLS_PER_VECTOR + 1;
        }
        if (fault) {
            stop_at_fault(t, number);
            return;
        }
        t->at = next;
        if (--polls == 0) {
            const double now = seconds_now();
            if (now > m->deadline) return;
            if (thread == 0 && now > m->wake_at) wake_workers(m);
            polls = RECORDS_PER_POLL;
        }
    }
    t->state = TILE_ENDED;
}

/* A tile's SPM: the one a tile left that ended on this thread, else the next of the arena. Both are zero. */
static void take_spm(struct machine *m, struct tile *t, int thread) {
    t->spm = m->spare[thread];
    m->spare[thread] = NULL;
    if (!t->spm) t->spm = m->spm + __atomic_fetch_add(&m->next_spm, 1, __ATOMIC_RELAXED) * spm_stride(m);
}

/* Warm and already mapped memory for the next tile, or for the next run: clearing it costs less than fresh pages. */
static void leave_spm(struct machine *m, struct tile *t, int thread) {
    if (!t->spm || m->is_linked || (m->spare[thread] && t->used > KEPT_SPM_BYTES)) return;
    if (t->used > t->unused) memset(t->spm + t->unused, 0, (size_t)(t->used - t->unused));
    t->used = 0, t->unused = m->spm_bytes;
    if (m->spare[thread]) return;
    m->spare[thread] = t->spm;
    t->spm = NULL;
}

/* What is too large to be cleared goes back to the host, which gives out zeros. */
static void leave_large_spms(struct machine *m) {
    for (int i = 0; i < m->num_tiles; i++) {
        struct tile *const t = &m->tiles[i];
        if (!t->spm || t->used <= KEPT_SPM_BYTES) continue;
        madvise(t->spm, (size_t)m->spm_bytes, MADV_DONTNEED);
        t->used = 0;
    }
}

static void run_tiles(struct machine *m, int thread) {
    for (;;) {
        const int number = __atomic_fetch_add(&m->next_tile, 1, __ATOMIC_RELAXED);
        if (number >= m->num_tiles) break;
        struct tile *const t = &m->tiles[number];
        if (t->state != TILE_RUNNING) continue;
        if (!t->spm && t->at <= m->final_barrier) take_spm(m, t, thread);
        run_tile(m, number, thread);
        finish_streams();
        if (t->state == TILE_ENDED || (t->state == TILE_WAITING && t->at == m->final_barrier)) leave_spm(m, t, thread);
    }
}

struct worker {
    struct machine *machine;
    int thread;
};

/* Looks for a change of the value, for about as long as to sleep and to be woken takes. */
static int spin(const int *value, int seen) {
    int now = seen;
    for (int k = 0; k < SPINS && now == seen; k++) {
        now = __atomic_load_n(value, __ATOMIC_ACQUIRE);
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
    }
    return now;
}

static void *work(void *argument) {
    struct worker worker = *(struct worker *)argument;
    struct machine *const m = worker.machine;
    free(argument);
    fesetenv(FE_DFL_ENV); /* that of the thread that started this one may flush to zero */
    int seen = 0;
    for (;;) {
        if (m->is_eager) spin(&m->generation, seen);
        pthread_mutex_lock(&m->mutex);
        while (m->generation == seen && !m->leave) pthread_cond_wait(&m->start, &m->mutex);
        seen = m->generation;
        const int leave = m->leave, is_late = !m->is_open;
        if (!leave && !is_late) m->busy++;
        pthread_mutex_unlock(&m->mutex);
        if (leave) return NULL;
        if (is_late) continue;
        run_tiles(m, worker.thread);
        pthread_mutex_lock(&m->mutex);
        if (__atomic_sub_fetch(&m->busy, 1, __ATOMIC_RELEASE) == 0) pthread_cond_signal(&m->done);
        pthread_mutex_unlock(&m->mutex);
    }
}

static void start_workers(struct machine *m) {
    while (m->num_workers < m->num_threads - 1) {
        struct worker *const worker = malloc(sizeof *worker);
        if (!worker) return;
        *worker = (struct worker){m, m->num_workers + 1};
        if (pthread_create(&m->workers[m->num_workers], NULL, work, worker)) {
            free(worker);
            m->num_threads = m->num_workers + 1;
            return;
        }
        m->num_workers++;
    }
}

/* Is there anything left to do but to end? */
static int is_past_final_barrier(const struct machine *m) {
    for (int i = 0; i < m->num_tiles; i++)
        if (m->tiles[i].state == TILE_RUNNING && m->tiles[i].at <= m->final_barrier) return 0;
    return 1;
}

/* All tiles that can, in parallel unless that is done before workers would be awake. A worker that wakes when no tile is left is not
 * waited for. */
static void run_phase(struct machine *m) {
    const int is_parallel = m->num_workers && !is_past_final_barrier(m);
    m->next_tile = 0;
    m->wake_at = is_parallel ? seconds_now() + WAKE_SECONDS : INFINITY;
    if (is_parallel && m->is_eager) wake_workers(m);
    run_tiles(m, 0);
    if (m->is_open) {
        pthread_mutex_lock(&m->mutex);
        m->is_open = 0;
        int busy = m->busy;
        pthread_mutex_unlock(&m->mutex);
        for (int now; busy && (now = spin(&m->busy, busy)) != busy; busy = now) continue;
        if (!busy) return;
        pthread_mutex_lock(&m->mutex);
        while (m->busy) pthread_cond_wait(&m->done, &m->mutex);
        pthread_mutex_unlock(&m->mutex);
    }
}

/* After a phase: OUTCOME_*, or -1 when all tiles were at one barrier and go on. */
static int after_phase(struct machine *m, struct tx8_fault *fault) {
    int waiting = 0, ended = 0, equal = 1;
    i64 first = INT64_MAX;
    for (int i = 0; i < m->num_tiles; i++) {
        const struct tile *const t = &m->tiles[i];
        if (t->state == TILE_FAULT) {
            *fault = t->fault;
            return OUTCOME_FAULT;
        }
    }
    for (int i = 0; i < m->num_tiles; i++) {
        const struct tile *const t = &m->tiles[i];
        if (t->state == TILE_RUNNING) return OUTCOME_TIME;
        ended += t->state == TILE_ENDED;
        if (t->state != TILE_WAITING) continue;
        if (waiting++ && t->at != first) equal = 0;
        if (t->at < first) first = t->at;
    }
    if (!waiting) return OUTCOME_DONE;
    if (ended || !equal) {
        *fault = (struct tx8_fault){.kind = FAULT_UNEQUAL_BARRIER, .record = first, .num_counters = waiting};
        return OUTCOME_FAULT;
    }
    for (int i = 0; i < m->num_tiles; i++) {
        m->tiles[i].state = TILE_RUNNING;
        m->tiles[i].at++;
    }
    return -1;
}

void tx8_destroy(struct machine *m) {
    if (!m) return;
    pthread_mutex_lock(&m->mutex);
    m->leave = 1;
    pthread_cond_broadcast(&m->start);
    pthread_mutex_unlock(&m->mutex);
    for (int i = 0; i < m->num_workers; i++) pthread_join(m->workers[i], NULL);
    if (m->spm) guard_gaps(m, 0), munmap(m->spm, arena_bytes(m));
    for (int i = 0; i < m->num_threads; i++)
        if (m->scratch[i]) munmap(m->scratch[i], scratch_bytes(m));
    free(m->steps);
    forget_decisions(m);
    pthread_cond_destroy(&m->start);
    pthread_cond_destroy(&m->done);
    pthread_mutex_destroy(&m->mutex);
    free(m);
}

/* The tiles of a program that has been prepared. */
static void number_tiles(struct machine *m) {
    for (int i = 0; i < m->num_tiles; i++) {
        m->tiles[i].registers[1] = i;
        m->tiles[i].unused = m->spm_bytes;
        if (m->is_linked) m->tiles[i].spm = m->spm + i * spm_stride(m);
    }
}

/* Makes a tile's SPM zero again. */
static void clear_spm(struct tile *t) {
    if (t->spm) memset(t->spm, 0, (size_t)(t->used > t->remote_used ? t->used : t->remote_used));
}

/* A machine about to run `code`, or NULL: then *fault tells why, or has kind FAULT_NONE when memory ran out. Keeps `code` and `slots`. */
struct machine *tx8_create(const u64 *code, i64 num_records, const struct tx8_slot *slots, i64 num_slots, i64 spm_bytes, int tiles, int threads,
                           struct tx8_fault *fault) {
    memset(fault, 0, sizeof *fault);
    if (tiles < 1 || tiles > MAX_TILES || spm_bytes < 4096 * 16 || num_records < 0) return NULL;
    struct machine *const m = calloc(1, sizeof *m);
    if (!m) return NULL;
    pthread_mutex_init(&m->mutex, NULL);
    pthread_cond_init(&m->start, NULL);
    pthread_cond_init(&m->done, NULL);
    m->code = code, m->num_records = num_records, m->slots = slots, m->num_slots = num_slots;
    m->spm_bytes = spm_bytes, m->num_tiles = tiles;
    m->num_threads = threads < 1 ? 1 : threads > tiles ? tiles : threads;
    m->steps = calloc((size_t)num_records + 1, sizeof *m->steps);
    m->spm = map_bytes(arena_bytes(m));
    int ok = m->steps && m->spm;
    if (m->spm) guard_gaps(m, 1);
    for (int i = 0; ok && i < m->num_threads; i++) ok = (m->scratch[i] = map_bytes(scratch_bytes(m))) != NULL;
    if (!ok || prepare(m, fault)) {
        tx8_destroy(m);
        return NULL;
    }
    number_tiles(m);
    start_workers(m);
    return m;
}

/* Another program, or new slots for the same one, which is known by its address: the caller has kept it as it was. 0 for a machine whose
 * last run is done, or -1 as tx8_create: then it is only good to be destroyed. */
int tx8_restart(struct machine *m, const u64 *code, i64 num_records, const struct tx8_slot *slots, i64 num_slots, struct tx8_fault *fault) {
    memset(fault, 0, sizeof *fault);
    for (int i = 0; i < m->num_tiles; i++) clear_spm(&m->tiles[i]);
    forget_decisions(m);
    memset(m->tiles, 0, (size_t)m->num_tiles * sizeof *m->tiles);
    memset(m->spare, 0, sizeof m->spare); /* zero already, as the whole arena is now */
    m->next_spm = 0;
    m->slots = slots;
    if (code == m->code && num_records == m->num_records && num_slots == m->num_slots) {
        number_tiles(m);
        return 0;
    }
    struct step *const steps = num_records < 0 ? NULL : calloc((size_t)num_records + 1, sizeof *steps);
    if (!steps) return -1;
    free(m->steps);
    m->steps = steps;
    m->code = code, m->num_records = num_records, m->num_slots = num_slots;
    if (prepare(m, fault)) return -1;
    number_tiles(m);
    return 0;
}

/* Constants of activations, NaN where they are not known. */
void tx8_set_laws(struct machine *m, double satrelu_bound, double leakyrelu_slope) {
    m->satrelu_bound = satrelu_bound, m->leakyrelu_slope = leakyrelu_slope;
}

/* Exception bits cost time: they are kept if `keeps` is set. */
void tx8_keep_status(struct machine *m, int keeps) { m->keeps_status = keeps; }

u32 tx8_status(const struct machine *m, int tile) { return m->tiles[tile].status; }

/* Where the first tile is that has not ended, between two runs: tile, record, counters of its loops; tile -1 if all have. */
void tx8_place(const struct machine *m, struct tx8_fault *place) {
    place->tile = -1;
    for (int i = m->num_tiles - 1; i >= 0; i--)
        if (m->tiles[i].state != TILE_ENDED) write_place(&m->tiles[i], i, place);
}

static int run_phases(struct machine *m, double seconds, struct tx8_fault *fault) {
    m->deadline = seconds_now() + seconds;
    for (;;) {
        run_phase(m);
        const int outcome = after_phase(m, fault);
        if (outcome == OUTCOME_DONE) leave_large_spms(m);
        if (outcome >= 0) return outcome;
        if (seconds_now() > m->deadline) return OUTCOME_TIME;
    }
}

/* Runs for about `seconds`; OUTCOME_TIME means call again. */
int tx8_run(struct machine *m, double seconds, struct tx8_fault *fault) {
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV); /* the host may have set flush to zero */
    const int outcome = run_phases(m, seconds, fault);
    fesetenv(&environment);
    return outcome;
}
