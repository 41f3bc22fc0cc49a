/* Tiles on threads: phases from barrier to barrier, workers that wait for them, and scratchpads that tiles leave to each other. */
#include <fenv.h>
#include <stdlib.h>

#include "machine.h"

#define SPINS 6000 /* about 60 us, as long as to sleep and to be woken takes */

/* The gate: workers in this phase, whether more may come in, and from GENERATION on the number of the phase. Workers enter an open gate;
 * thread 0 closes it when no tile is left, waits for those inside, and not for one that wakes too late. */
#define IS_OPEN ((u64)1 << 16)
#define INSIDE (IS_OPEN - 1)
#define GENERATION (IS_OPEN << 1)

static inline u64 look(const u64 *gate) { return __atomic_load_n(gate, __ATOMIC_SEQ_CST); }

static inline void pause_thread(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static void open_gate(struct machine *m) {
    __atomic_store_n(&m->gate, (look(&m->gate) / GENERATION + 1) * GENERATION | IS_OPEN, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&m->asleep, __ATOMIC_SEQ_CST)) return;
    pthread_mutex_lock(&m->mutex);
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

/* Thread 0 goes from the first tile on, as the definition does, and workers from the last: from phase to phase a tile is mostly the same
 * thread's, which has it in its cache. */
static void run_tiles(struct machine *m, int thread) {
    for (int first = 0; __atomic_fetch_add(&m->taken, 1, __ATOMIC_RELAXED) < m->num_tiles;) {
        const int number = thread == 0 ? first++ : m->num_tiles - 1 - __atomic_fetch_add(&m->last_taken, 1, __ATOMIC_RELAXED);
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

static inline int is_new(u64 gate, u64 seen) { return gate & IS_OPEN && gate / GENERATION != seen; }

/* The gate when it opens for another phase than the last one seen. Who is woken too late for a phase looks out for the next one. */
static u64 await_phase(struct machine *m, u64 seen) {
    for (u64 gate;;) {
        for (int k = 0; k < SPINS; k++) {
            gate = look(&m->gate);
            if (is_new(gate, seen)) return gate;
            pause_thread();
        }
        pthread_mutex_lock(&m->mutex);
        __atomic_add_fetch(&m->asleep, 1, __ATOMIC_SEQ_CST);
        const int sleeps = !is_new(gate = look(&m->gate), seen) && !m->leave;
        if (sleeps) pthread_cond_wait(&m->start, &m->mutex);
        __atomic_sub_fetch(&m->asleep, 1, __ATOMIC_SEQ_CST);
        const int leave = m->leave;
        pthread_mutex_unlock(&m->mutex);
        if (leave) return gate;
    }
}

static void *work(void *argument) {
    struct worker worker = *(struct worker *)argument;
    struct machine *const m = worker.machine;
    free(argument);
    fesetenv(FE_DFL_ENV); /* that of the thread that started this one may flush to zero */
    for (u64 seen = 0;;) {
        u64 gate = await_phase(m, seen);
        if (!is_new(gate, seen)) return NULL;
        if (!__atomic_compare_exchange_n(&m->gate, &gate, gate + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
        seen = gate / GENERATION;
        run_tiles(m, worker.thread);
        gate = __atomic_sub_fetch(&m->gate, 1, __ATOMIC_SEQ_CST);
        if (gate & (INSIDE | IS_OPEN) || !__atomic_load_n(&m->is_waiting, __ATOMIC_SEQ_CST)) continue;
        pthread_mutex_lock(&m->mutex);
        pthread_cond_signal(&m->done);
        pthread_mutex_unlock(&m->mutex);
    }
}

/* No worker comes in any more, and those inside have left. */
static void close_gate(struct machine *m) {
    __atomic_and_fetch(&m->gate, ~IS_OPEN, __ATOMIC_SEQ_CST);
    for (int k = 0; k < SPINS && look(&m->gate) & INSIDE; k++) pause_thread();
    if (!(look(&m->gate) & INSIDE)) return;
    pthread_mutex_lock(&m->mutex);
    __atomic_store_n(&m->is_waiting, 1, __ATOMIC_SEQ_CST);
    while (look(&m->gate) & INSIDE) pthread_cond_wait(&m->done, &m->mutex);
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
    for (int i = 0; i < m->num_tiles; i++)
        if (m->tiles[i].state == TILE_RUNNING && m->tiles[i].at <= m->final_barrier) return 0;
    return 1;
}

/* All tiles that can; workers share them as soon as they are awake. */
void run_phase(struct machine *m) {
    const int is_shared = m->num_workers && !is_past_final_barrier(m);
    m->taken = m->last_taken = 0;
    if (is_shared) open_gate(m);
    run_tiles(m, 0);
    if (is_shared) close_gate(m);
}
