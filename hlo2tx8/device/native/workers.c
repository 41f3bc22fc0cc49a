/* Tiles on threads: phases from barrier to barrier, workers that wait for them, and scratchpads that tiles leave to each other. */
#include <fenv.h>
#include <stdlib.h>

#include "machine.h"

#define SPINS 6000 /* about 60 us */
#define WAKE_SECONDS 2e-5 /* in less a phase is over before a worker has woken */

void wake_workers(struct machine *m) {
    m->wake_at = INFINITY;
    if (__atomic_load_n(&m->next_tile, __ATOMIC_RELAXED) >= m->num_tiles) return; /* no tile is left for them */
    pthread_mutex_lock(&m->mutex);
    __atomic_store_n(&m->generation, m->generation + 1, __ATOMIC_RELEASE);
    m->is_open = 1;
    pthread_cond_broadcast(&m->start);
    pthread_mutex_unlock(&m->mutex);
}

/* A tile's SPM: the one a tile left that ended on this thread, else the next of the arena. Both are zero. */
static void take_spm(struct machine *m, struct tile *t, int thread) {
    t->spm = m->spare[thread];
    m->spare[thread] = NULL;
    if (!t->spm) t->spm = m->spm + __atomic_fetch_add(&m->next_spm, 1, __ATOMIC_RELAXED) * spm_stride(m);
}

/* Warm and already mapped memory for the next tile, or for the next run: clearing it costs less than fresh pages. */
static void leave_spm(struct machine *m, struct tile *t, int thread) {
    if (!t->spm || m->is_linked) return;
    if (t->used > t->unused) memset(t->spm + t->unused, 0, (size_t)(t->used - t->unused));
    t->used = 0, t->unused = m->spm_bytes;
    if (m->spare[thread]) return;
    m->spare[thread] = t->spm;
    t->spm = NULL;
}

/* One thread goes from the first tile to the last, as the definition does. Several end with the first: what is one tile's is its. */
static void run_tiles(struct machine *m, int thread) {
    for (;;) {
        const int taken = __atomic_fetch_add(&m->next_tile, 1, __ATOMIC_RELAXED);
        const int number = m->num_threads == 1 ? taken : m->num_tiles - 1 - taken;
        if (taken >= m->num_tiles) break;
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

/* Is there anything left to do but to end? */
static int is_past_final_barrier(const struct machine *m) {
    for (int i = 0; i < m->num_tiles; i++)
        if (m->tiles[i].state == TILE_RUNNING && m->tiles[i].at <= m->final_barrier) return 0;
    return 1;
}

/* All tiles that can, in parallel unless that is done before workers would be awake. A worker that wakes when no tile is left is not
 * waited for. */
void run_phase(struct machine *m) {
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
