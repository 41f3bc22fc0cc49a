/* Entry points: machines are made, given programs and run, in slices of time so that the caller can interrupt. */
#include <fenv.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "machine.h"
#include "made_of.h"

enum outcome { OUTCOME_DONE, OUTCOME_TIME, OUTCOME_FAULT, OUTCOME_MEMORY };

EXPORTED int tx8_abi_version(void) { return ABI_VERSION; }
EXPORTED const char *tx8_declarations(void) { return DECLARATIONS_DIGEST; }
EXPORTED const char *tx8_headers(void) { return HEADERS_DIGEST; }

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *map_bytes(size_t size) {
    void *const region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(region, size, MADV_HUGEPAGE); /* pages of 4 KiB are more than the host knows the places of at once */
#endif
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

/* OUTCOME_* of a phase after which not all tiles go on. Of tiles whose loops turn too often the first is named, whoever came there first. */
static int after_phase(struct machine *m, struct tx8_fault *fault) {
    int waiting = 0, ended = 0, equal = 1, running = 0;
    i64 first = INT64_MAX;
    for (int i = 0; i < m->num_tiles; i++) {
        const struct tile *const t = &m->tiles[i];
        running |= t->state == TILE_RUNNING;
        if (t->state == TILE_FAULT && !(running && t->turns > m->most_turns)) {
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
    if (!ended && equal) return OUTCOME_DONE; /* at the final barrier */
    *fault = (struct tx8_fault){.kind = FAULT_UNEQUAL_BARRIER, .record = first, .num_counters = waiting};
    return OUTCOME_FAULT;
}

EXPORTED void tx8_destroy(struct machine *m) {
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
    free(m->scalars);
    free(m->stores);
    free(m->heads);
    free(m->own_code);
    free(m->phases);
    free(m->named);
    for (int i = 0; i < m->num_tiles; i++) {
        forget_mail(&m->tiles[i]);
        free(m->tiles[i].sent[0].rows);
        free(m->tiles[i].sent[1].rows);
    }
    forget_decisions(m);
    pthread_cond_destroy(&m->start);
    pthread_cond_destroy(&m->done);
    pthread_mutex_destroy(&m->mutex);
    free(m);
}

/* The tiles of a program that has been prepared. */
static void number_tiles(struct machine *m) {
    for (int i = 0; i < m->num_tiles; i++) {
        m->tiles[i].registers[TILE_REGISTER] = i;
        m->tiles[i].unused = m->spm_bytes;
        if (m->is_linked) m->tiles[i].spm = m->spm + i * spm_stride(m);
    }
}

/* Makes a tile's SPM zero again, or notes how much of it is not. */
static void leave_tile(struct machine *m, struct tile *t) {
    const i64 used = t->used > t->remote_used ? t->used : t->remote_used;
    if (finds_zeros(m)) {
        if (t->spm) memset(t->spm, 0, (size_t)used);
    } else if (used > m->left_bytes) {
        m->left_bytes = used;
    }
}

/* Before a run that finds zeros in SPM. */
static void clear_left(struct machine *m) {
    for (int i = 0; m->left_bytes && finds_zeros(m) && i < m->num_tiles; i++) memset(m->spm + i * spm_stride(m), 0, (size_t)m->left_bytes);
    if (finds_zeros(m)) m->left_bytes = 0;
}

/* Room for what is made of the records; 0 if there is none. */
static int make_steps(struct machine *m, i64 num_records, i64 num_slots) {
    if (num_records < 0 || num_slots < 0) return 0;
    const size_t num = (size_t)num_records + 1;
    free(m->steps);
    free(m->scalars);
    free(m->stores);
    m->stores = calloc((size_t)num_slots + 1, 2);
    m->stays = m->stores ? m->stores + num_slots : NULL;
    m->steps = calloc(num, sizeof *m->steps);
    m->scalars = aligned_alloc(LINE_BYTES, num * sizeof *m->scalars);
    return m->steps && m->scalars && m->stores;
}

/* As before the first run, for the program it is ready for. */
static void begin_again(struct machine *m) {
    forget_decisions(m);
    memset(m->stays, STAYS_UNKNOWN, (size_t)m->num_slots);
    for (int i = 0; i < m->num_tiles; i++) {
        leave_tile(m, &m->tiles[i]);
        forget_mail(&m->tiles[i]);
        memset(&m->tiles[i], 0, offsetof(struct tile, loops));
    }
    memset(m->spare, 0, (size_t)m->num_threads * sizeof *m->spare); /* as the whole arena is now */
    m->next_spm = m->is_over = m->goes_on = 0;
}

/* A machine about to run `code`, or NULL: then *fault tells why, or has kind FAULT_NONE when memory ran out. Keeps `code` and `slots`. */
EXPORTED struct machine *tx8_create(const u64 *code, i64 num_records, const struct tx8_slot *slots, i64 num_slots, i64 spm_bytes, int tiles, int threads,
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
    m->spm = map_bytes(arena_bytes(m));
    int ok = make_steps(m, num_records, num_slots) && m->spm;
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
EXPORTED int tx8_restart(struct machine *m, const u64 *code, i64 num_records, const struct tx8_slot *slots, i64 num_slots, struct tx8_fault *fault) {
    memset(fault, 0, sizeof *fault);
    begin_again(m);
    m->slots = slots, m->decides = NULL;
    if (code == m->code && num_records == m->num_records && num_slots == m->num_slots) {
        number_tiles(m);
        return 0;
    }
    if (!make_steps(m, num_records, num_slots)) return -1;
    m->code = code, m->num_records = num_records, m->num_slots = num_slots;
    if (prepare(m, fault)) return -1;
    number_tiles(m);
    return 0;
}

/* Constants of activations, NaN where they are not known. */
EXPORTED void tx8_set_laws(struct machine *m, double satrelu_bound, double leakyrelu_slope) {
    m->satrelu_bound = satrelu_bound, m->leakyrelu_slope = leakyrelu_slope;
}

/* Exception bits cost time: they are kept if `keeps` is set. Between two runs. */
EXPORTED void tx8_keep_status(struct machine *m, int keeps) {
    m->keeps_status = keeps;
    clear_left(m);
}

/* A program that is not trusted finds zeros in SPM, which costs time. Between two runs. */
EXPORTED void tx8_trust(struct machine *m, int is_trusted) {
    m->is_trusted = is_trusted;
    clear_left(m);
}

EXPORTED u32 tx8_status(const struct machine *m, int tile) { return m->tiles[tile].status; }

/* Where the first tile is that has not ended, between two runs: tile, record, counters of its loops; tile -1 if all have. */
EXPORTED void tx8_place(const struct machine *m, struct tx8_fault *place) {
    place->tile = -1;
    for (int i = m->num_tiles - 1; i >= 0; i--)
        if (m->tiles[i].state != TILE_ENDED) write_place(&m->tiles[i], i, place);
}

static int run_phases(struct machine *m, double seconds, struct tx8_fault *fault) {
    m->deadline = seconds_now() + seconds;
    while (run_phase(m))
        if (seconds_now() > m->deadline) return OUTCOME_TIME;
    const int outcome = after_phase(m, fault);
    m->is_over = outcome == OUTCOME_DONE;
    return outcome;
}

/* Runs for about `seconds`; OUTCOME_TIME means call again. After OUTCOME_DONE the next call is the next run, on what the slots are then.
 * A tile whose loops turn more often than `most_turns` faults; 0: as often as they like. */
EXPORTED int tx8_run(struct machine *m, double seconds, struct tx8_fault *fault, i64 most_turns) {
    fenv_t environment;
    if (m->is_over) begin_again(m), number_tiles(m);
    m->most_turns = most_turns > 0 ? most_turns : INT64_MAX;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV); /* the host may have set flush to zero */
    const int outcome = run_phases(m, seconds, fault);
    fesetenv(&environment);
    return outcome;
}
