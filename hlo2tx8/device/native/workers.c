/* Tiles on threads: phases from barrier to barrier, workers that wait for them, and scratchpads that tiles leave to each other. */
#include <fenv.h>
#include <stdlib.h>

#include "machine.h"

#define SPINS 6000 /* about 60 us, as long as to sleep and to be woken takes */

#define NOWHERE INT64_MAX /* no tile was run */

/* Phases that workers share are numbered. Who has seen a number takes tiles by raising what is claimed to it, which nobody can who comes
 * too late: all are claimed for that phase or a later one. What a thread ran it says in one place, once, so that little of a phase but
 * its number and that goes from one core to another. */
static inline u64 look(const u64 *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

static inline void pause_thread(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static void begin_phase(struct machine *m) {
    m->phase.done = 0;
    __atomic_store_n(&m->phase.number, m->phase.number + 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&m->asleep, __ATOMIC_SEQ_CST)) return;
    pthread_mutex_lock(&m->mutex);
    pthread_cond_broadcast(&m->start);
    pthread_mutex_unlock(&m->mutex);
}

static int claim(struct machine *m, int number, u64 phase) {
    u64 *const claimed = &m->claims[number].phase, before = __atomic_load_n(claimed, __ATOMIC_RELAXED);
    return before < phase && __atomic_compare_exchange_n(claimed, &(u64){before}, phase, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* A tile's SPM: the one a tile left that ended on this thread, else the next of the arena. Both are zero where a run finds zeros. */
static void take_spm(struct machine *m, struct tile *t, int thread) {
    t->spm = m->spare[thread];
    m->spare[thread] = NULL;
    if (!t->spm) t->spm = m->spm + __atomic_fetch_add(&m->next_spm, 1, __ATOMIC_RELAXED) * spm_stride(m);
}

/* Warm and already mapped memory for the next tile, or for the next run: clearing it costs less than fresh pages. */
static void leave_spm(struct machine *m, struct tile *t, int thread) {
    if (!t->spm || m->is_linked) return;
    if (finds_zeros(m)) {
        if (t->used > t->unused) memset(t->spm + t->unused, 0, (size_t)(t->used - t->unused));
        t->used = 0, t->unused = m->spm_bytes;
    }
    if (m->spare[thread]) return;
    m->spare[thread] = t->spm;
    t->spm = NULL;
}

/* Behind the barrier that all wait at. */
static void go_on(struct machine *m, struct tile *t) {
    t->state = TILE_RUNNING, t->phase = phase_after(m, t->at), t->num_phases++, t->at++;
    if (m->is_linked) deliver(m, t);
}

/* `at` becomes the barrier that this tile and those before wait at, or -1. */
static void run_one(struct machine *m, int number, int thread, i64 *at) {
    struct tile *const t = &m->tiles[number];
    if (m->goes_on) go_on(m, t);
    if (t->state == TILE_RUNNING) {
        if (!t->spm && t->at <= m->final_barrier) take_spm(m, t, thread);
        run_tile(m, number, thread);
        finish_streams();
        if (m->is_linked && t->state == TILE_WAITING) post_pending(t, (t->num_phases + 1) & 1);
        if (t->state == TILE_ENDED || (t->state == TILE_WAITING && t->at == m->final_barrier)) leave_spm(m, t, thread);
    }
    *at = t->state == TILE_WAITING && (*at == NOWHERE || *at == t->at) ? t->at : -1;
}

/* The thread's own tiles from the first on, then others' from the last on: from phase to phase a tile is mostly one thread's, which has it
 * in its cache. The number of tiles that it ran. */
static int share_tiles(struct machine *m, int thread, u64 phase, i64 *at) {
    const int threads = m->num_workers + 1;
    int taken = 0;
    for (int k = 0; k < threads; k++) {
        const int owner = (thread + k) % threads, first = owner * m->num_tiles / threads, end = (owner + 1) * m->num_tiles / threads;
        for (int i = first; i < end; i++) {
            const int number = k ? first + end - 1 - i : i;
            if (claim(m, number, phase)) run_one(m, number, thread, at), taken++;
            else if (threads == 2 || !k) break; /* those behind are the other's */
        }
    }
    return taken;
}

struct worker {
    struct machine *machine;
    int thread;
};

/* The next phase after the last one seen, or that one when the worker shall leave. Who was woken too late for one looks out for the next. */
static u64 await_phase(struct machine *m, u64 seen) {
    for (;;) {
        for (int k = 0; k < SPINS; k++) {
            const u64 phase = look(&m->phase.number);
            if (phase != seen) return phase;
            pause_thread();
        }
        pthread_mutex_lock(&m->mutex);
        __atomic_add_fetch(&m->asleep, 1, __ATOMIC_SEQ_CST);
        if (look(&m->phase.number) == seen && !m->leave) pthread_cond_wait(&m->start, &m->mutex);
        __atomic_sub_fetch(&m->asleep, 1, __ATOMIC_SEQ_CST);
        const int leave = m->leave;
        pthread_mutex_unlock(&m->mutex);
        if (leave) return seen;
    }
}

static void *work(void *argument) {
    struct worker worker = *(struct worker *)argument;
    struct machine *const m = worker.machine;
    free(argument);
    fesetenv(FE_DFL_ENV); /* that of the thread that started this one may flush to zero */
    for (u64 seen = 0, phase; (phase = await_phase(m, seen)) != seen; seen = phase) {
        i64 at = NOWHERE;
        const int taken = share_tiles(m, worker.thread, phase, &at);
        if (!taken) continue;
        m->arrivals[worker.thread].phase = phase;
        m->arrivals[worker.thread].at = at;
        __atomic_add_fetch(&m->phase.done, taken, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&m->is_waiting, __ATOMIC_SEQ_CST)) continue;
        pthread_mutex_lock(&m->mutex);
        pthread_cond_signal(&m->done);
        pthread_mutex_unlock(&m->mutex);
    }
    return NULL;
}

static int is_done(const struct machine *m, int left) { return __atomic_load_n(&m->phase.done, __ATOMIC_SEQ_CST) == left; }

/* Until workers have run the tiles that are left. */
static void await_workers(struct machine *m, int left) {
    for (int k = 0; k < SPINS && !is_done(m, left); k++) pause_thread();
    if (is_done(m, left)) return;
    pthread_mutex_lock(&m->mutex);
    __atomic_store_n(&m->is_waiting, 1, __ATOMIC_SEQ_CST);
    while (!is_done(m, left)) pthread_cond_wait(&m->done, &m->mutex);
    __atomic_store_n(&m->is_waiting, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&m->mutex);
}

void start_workers(struct machine *m) {
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

/* Is nothing left to do but to end? */
static int is_past_final_barrier(const struct machine *m) {
    if (m->goes_on) return m->barrier >= m->final_barrier;
    for (int i = 0; i < m->num_tiles; i++)
        if (m->tiles[i].state == TILE_RUNNING && m->tiles[i].at <= m->final_barrier) return 0;
    return 1;
}

/* One thread goes from the first tile to the last, as the definition does. */
int run_phase(struct machine *m) {
    i64 at = NOWHERE;
    const int is_alone = !m->num_workers || is_past_final_barrier(m);
    if (m->goes_on && may_gather(m, phase_after(m, m->barrier))) { /* what one tile was sent another may read at once */
        for (int i = 0; i < m->num_tiles; i++) go_on(m, m->tiles + i);
        m->goes_on = 0;
    }
    if (is_alone) {
        for (int i = 0; i < m->num_tiles; i++) run_one(m, i, 0, &at);
    } else {
        begin_phase(m);
        await_workers(m, m->num_tiles - share_tiles(m, 0, m->phase.number, &at));
        for (int k = 1; k <= m->num_workers; k++)
            if (m->arrivals[k].phase == m->phase.number && (at == NOWHERE || at != m->arrivals[k].at)) at = at == NOWHERE ? m->arrivals[k].at : -1;
    }
    m->barrier = at;
    m->goes_on = at >= 0 && at != m->final_barrier;
    return m->goes_on;
}
