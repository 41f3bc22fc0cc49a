/* Requests: arguments bound to memory, made ready, and their runs. */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

struct tx8rt_request {
    tx8rt_session *session;
    tx8rt_queue *queue;
    struct model *model;
    i64 number, num_runs;
    int num;                  /* of arguments */
    u8 **bound;               /* by offset; the caller's */
    enum tx8rt_space *spaces; /* of what is bound */
    struct block **own, **staged;
    struct frame *frame; /* NULL until the binding is finished */
    struct marker *computed, *stored;
    struct progress *progress;
};

static atomic_llong num_requests, num_markers;

API int tx8rt_request_create(tx8rt_session *s, int model, tx8rt_queue *queue, tx8rt_request **request) {
    pthread_mutex_lock(&s->mutex);
    struct model *const m = model >= 0 && model < s->num_models ? s->models[model] : NULL;
    pthread_mutex_unlock(&s->mutex);
    if (!m) return refuse(TX8RT_INPUT, "the session has no model %d", model);
    tx8rt_request *const r = calloc(1, sizeof *r);
    struct progress *const p = calloc(1, sizeof *p);
    if (r) r->num = m->num_inputs + m->num_outputs;
    const size_t num = r ? (size_t)r->num + 1 : 0;
    if (r) r->bound = calloc(num, sizeof *r->bound), r->spaces = calloc(num, sizeof *r->spaces);
    if (r) r->own = calloc(num, sizeof *r->own), r->staged = calloc(num, sizeof *r->staged);
    if (!r || !p || !r->bound || !r->spaces || !r->own || !r->staged) {
        if (r) free(r->bound), free(r->spaces), free(r->own), free(r->staged);
        free(r), free(p);
        return refuse(TX8RT_MEMORY, "no memory for a request");
    }
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    atomic_store(&p->refs, 1);
    r->session = s, r->model = m, r->queue = queue ? queue : s->own_queue, r->progress = p, r->number = ++num_requests;
    atomic_fetch_add(&s->num_users, 1);
    atomic_fetch_add(&r->queue->num_users, 1);
    *request = r;
    return 0;
}

API void tx8rt_request_destroy(tx8rt_request *r) {
    if (!r) return;
    release_frame(r->frame);
    for (int i = 0; i < r->num; i++) release_block(r->own[i]), release_block(r->staged[i]);
    release_marker(r->computed), release_marker(r->stored);
    release_progress(r->progress);
    atomic_fetch_sub(&r->queue->num_users, 1);
    atomic_fetch_sub(&r->session->num_users, 1);
    free(r->bound), free(r->spaces), free(r->own), free(r->staged), free(r);
}

static int check_offset(const tx8rt_request *r, int offset) {
    if (offset >= 0 && offset < r->num) return 0;
    return refuse(TX8RT_INPUT, "%s has no argument %d, but 0 to %d", r->model->name, offset, r->num - 1);
}

API int tx8rt_bind_arg(tx8rt_request *r, int offset, void *data, size_t size_bytes, enum tx8rt_space space) {
    if (check_offset(r, offset)) return TX8RT_INPUT;
    const tx8rt_argument *const a = &r->model->ports[offset].argument;
    if (size_bytes != a->size_bytes) return refuse(TX8RT_INPUT, "%s has %zu bytes, bound to %zu", a->name, a->size_bytes, size_bytes);
    if (!data && size_bytes) return refuse(TX8RT_INPUT, "%s is bound to NULL", a->name);
    if (space != TX8RT_DDR && space != TX8RT_HOST) return refuse(TX8RT_INPUT, "no space %d", (int)space);
    static u8 nothing;
    r->bound[offset] = data ? data : &nothing, r->spaces[offset] = a->space == TX8RT_HOST ? TX8RT_HOST : space;
    release_block(r->own[offset]), release_block(r->staged[offset]);
    r->own[offset] = r->staged[offset] = NULL;
    release_frame(r->frame);
    r->frame = NULL;
    return 0;
}

API int tx8rt_bind_args(tx8rt_request *r, void *const *data, const size_t *size_bytes, int count) {
    if (count < 0 || count > r->num) return refuse(TX8RT_INPUT, "%s has %d arguments, got %d", r->model->name, r->num, count);
    for (int i = 0; i < count; i++) {
        const int code = data[i] ? tx8rt_bind_arg(r, i, data[i], size_bytes[i], TX8RT_DDR) : 0;
        if (code) return code;
    }
    return 0;
}

API void *tx8rt_get_arg(tx8rt_request *r, int offset) {
    if (check_offset(r, offset)) return NULL;
    return r->bound[offset] ? r->bound[offset] : r->own[offset] ? r->own[offset]->data : NULL;
}

/* Outputs need memory of their own, but for the input that one takes over. */
static int check_overlaps(tx8rt_request *r) {
    const struct model *const m = r->model;
    for (int o = m->num_inputs; o < r->num; o++)
        for (int i = 0; i < o; i++) {
            const tx8rt_argument *const a = &m->ports[i].argument, *const b = &m->ports[o].argument;
            const u8 *const x = tx8rt_get_arg(r, i), *const y = tx8rt_get_arg(r, o);
            if (!a->size_bytes || !b->size_bytes || x + a->size_bytes <= y || y + b->size_bytes <= x) continue;
            if (x != y || b->alias_offset != i) return refuse(TX8RT_INPUT, "%s shares memory with %s", b->name, a->name);
        }
    return 0;
}

void release_frame(struct frame *f) {
    if (!f || atomic_fetch_sub(&f->refs, 1) != 1) return;
    for (int i = 0; i < f->num_blocks; i++) release_block(f->blocks[i]);
    free(f->data), free(f->staged), free(f->blocks), free(f);
}

static void keep(struct frame *f, struct block *block) {
    if (!block) return;
    atomic_fetch_add(&block->refs, 1);
    f->blocks[f->num_blocks++] = block;
}

API int tx8rt_finish_io_binding(tx8rt_request *r) {
    const struct model *const m = r->model;
    for (int i = 0; i < r->num; i++) {
        const size_t size = m->ports[i].argument.size_bytes;
        int code = 0;
        if (!r->bound[i] && !r->own[i]) {
            if ((code = new_block(r->session, size, &r->own[i]))) return code;
            memset(r->own[i]->data, 0, size);
            r->spaces[i] = m->ports[i].argument.space;
        }
        if (r->spaces[i] == TX8RT_HOST && !r->staged[i] && (code = new_block(r->session, size, &r->staged[i]))) return code;
    }
    if (check_overlaps(r)) return TX8RT_INPUT;
    const size_t num = (size_t)r->num + 1;
    struct frame *const f = calloc(1, sizeof *f);
    if (f) f->data = calloc(num, sizeof *f->data), f->staged = calloc(num, sizeof *f->staged), f->blocks = calloc(2 * num, sizeof *f->blocks);
    if (!f || !f->data || !f->staged || !f->blocks) {
        if (f) free(f->data), free(f->staged), free(f->blocks);
        free(f);
        return refuse(TX8RT_MEMORY, "no memory for a request");
    }
    for (int i = 0; i < r->num; i++) {
        u8 *const host = tx8rt_get_arg(r, i);
        f->data[i] = r->staged[i] ? r->staged[i]->data : host;
        keep(f, r->own[i]), keep(f, r->staged[i]);
        if (!r->staged[i]) continue;
        f->staged[f->num_loads + f->num_stores] = (struct staged){&m->ports[i], host, f->data[i]};
        if (i < m->num_inputs) f->num_loads++;
        else f->num_stores++;
    }
    f->model = r->model;
    atomic_store(&f->refs, 1);
    release_frame(r->frame);
    r->frame = f;
    return 0;
}

/* Between the logical order of the host's elements and that of a layout, minor to major. */
static void move(const struct staged *s, int is_load) {
    const struct port *const p = s->port;
    const size_t n = (size_t)p->element_bytes;
    if (!p->layout) {
        memcpy(is_load ? s->device : s->host, is_load ? s->host : s->device, p->argument.size_bytes);
        return;
    }
    i64 strides[MOST_RANK], index[MOST_RANK] = {0}, stride = 1, at = 0;
    for (int k = 0; k < p->argument.rank; k++) strides[p->layout[k]] = stride, stride *= p->shape[p->layout[k]];
    for (i64 e = 0; e < p->num_elements; e++) {
        u8 *const host = s->host + (size_t)e * n, *const device = s->device + (size_t)at * n;
        memcpy(is_load ? device : host, is_load ? host : device, n);
        for (int d = p->argument.rank - 1; d >= 0; d--) {
            at += strides[d];
            if (++index[d] < p->shape[d]) break;
            at -= index[d] * strides[d], index[d] = 0;
        }
    }
}

void do_task(struct job *job) {
    const struct frame *const f = job->run->frame;
    char message[MESSAGE_BYTES];
    int code = 0;
    switch (job->task.kind) {
    case TX8RT_H2D: move(job->staged, 1); break;
    case TX8RT_D2H: move(job->staged, 0); break;
    case TX8RT_D2D: {
        const tx8rt_argument *const a = &job->output->argument;
        memcpy(f->data[a->offset], f->data[a->alias_offset], a->size_bytes);
        break;
    }
    default: code = launch(job->run->session, f->model, f->data, message);
    }
    if (code) fail_run(job->run, code, message);
}

static struct marker *new_marker(void) {
    struct marker *const found = calloc(1, sizeof *found);
    if (found) atomic_store(&found->refs, 1), found->number = ++num_markers;
    return found;
}

static struct job *add(struct run *run, const tx8rt_request *r, enum tx8rt_task_kind kind, int stream, const char *name, struct marker *marker) {
    struct job *const job = &run->jobs[run->num_jobs++];
    job->run = run, job->marker = marker;
    if (marker) atomic_fetch_add(&marker->refs, 1);
    job->task = (tx8rt_task){kind, r->queue->stream_of[stream], name, r->number, r->num_runs, marker ? marker->number : 0, 0};
    return job;
}

static void add_moves(struct run *run, const tx8rt_request *r, enum tx8rt_task_kind kind, int stream, int first, int count) {
    for (int i = first; i < first + count; i++) {
        const struct staged *const s = &run->frame->staged[i];
        struct job *const job = add(run, r, kind, stream, s->port->argument.name, NULL);
        job->staged = s, job->task.size_bytes = s->port->argument.size_bytes;
    }
}

/* As runtime/work_queues.py says; a wait is for what the run before had. */
static void add_jobs(struct run *run, tx8rt_request *r, struct marker *loaded, struct marker *computed, struct marker *stored) {
    const struct frame *const f = run->frame;
    if (f->num_loads) {
        if (r->computed) add(run, r, TX8RT_WAIT_EVENT, STREAM_H2D, "wait computed", r->computed);
        add_moves(run, r, TX8RT_H2D, STREAM_H2D, 0, f->num_loads);
        add(run, r, TX8RT_RECORD_EVENT, STREAM_H2D, "record loaded", loaded);
        add(run, r, TX8RT_WAIT_EVENT, STREAM_COMPUTE, "wait loaded", loaded);
    }
    if (r->stored) add(run, r, TX8RT_WAIT_EVENT, STREAM_COMPUTE, "wait stored", r->stored);
    for (int i = r->model->num_inputs; i < r->num; i++) {
        const struct port *const p = &r->model->ports[i];
        if (p->argument.alias_offset < 0 || f->data[i] == f->data[p->argument.alias_offset]) continue;
        struct job *const job = add(run, r, TX8RT_D2D, STREAM_COMPUTE, p->argument.name, NULL);
        job->output = p, job->task.size_bytes = p->argument.size_bytes;
    }
    add(run, r, TX8RT_COMPUTE, STREAM_COMPUTE, r->model->name, NULL);
    add(run, r, TX8RT_RECORD_EVENT, STREAM_COMPUTE, "record computed", computed);
    if (f->num_stores) {
        add(run, r, TX8RT_WAIT_EVENT, STREAM_D2H, "wait computed", computed);
        add_moves(run, r, TX8RT_D2H, STREAM_D2H, f->num_loads, f->num_stores);
        add(run, r, TX8RT_RECORD_EVENT, STREAM_D2H, "record stored", stored);
    }
    run->jobs[run->num_jobs - 1].is_last = 1;
}

API int tx8rt_run(tx8rt_request *r, void (*done)(void *, int, const char *), void *user) {
    struct frame *const f = r->frame;
    if (!f) return refuse(TX8RT_ORDER, "a run of %s before finish_io_binding", r->model->name);
    const size_t num_jobs = (size_t)(f->num_loads + f->num_stores + r->model->num_outputs) + 8;
    struct run *const run = calloc(1, sizeof *run + num_jobs * sizeof(struct job));
    struct marker *const loaded = new_marker(), *const computed = new_marker(), *const stored = new_marker();
    if (!run || !loaded || !computed || !stored) {
        free(run), release_marker(loaded), release_marker(computed), release_marker(stored);
        return refuse(TX8RT_MEMORY, "no memory for a run");
    }
    run->session = r->session, run->queue = r->queue, run->frame = f, run->progress = r->progress, run->done = done, run->user = user;
    atomic_fetch_add(&f->refs, 1);
    atomic_fetch_add(&r->progress->refs, 1);
    atomic_fetch_add(&r->queue->num_users, 1);
    atomic_fetch_add(&r->session->num_users, 1);
    pthread_mutex_lock(&r->progress->mutex);
    r->progress->under_way++;
    pthread_mutex_unlock(&r->progress->mutex);
    add_jobs(run, r, loaded, computed, stored);
    release_marker(loaded), release_marker(r->computed), release_marker(r->stored);
    r->computed = computed, r->stored = f->num_stores ? stored : NULL;
    if (!f->num_stores) release_marker(stored);
    r->num_runs++;
    return put_run(run);
}

API int tx8rt_sync(tx8rt_request *r) {
    struct progress *const p = r->progress;
    const int is_own = is_own_thread(r->queue);
    pthread_mutex_lock(&p->mutex);
    if (is_own && p->under_way) {
        pthread_mutex_unlock(&p->mutex);
        return refuse(TX8RT_ORDER, "sync on a thread of the work queue, which would wait for itself");
    }
    while (p->under_way) pthread_cond_wait(&p->changed, &p->mutex);
    const int code = p->code;
    char message[MESSAGE_BYTES];
    memcpy(message, p->message, sizeof message);
    p->code = 0;
    pthread_mutex_unlock(&p->mutex);
    const char *const told = code ? strchr(message, ':') : NULL;
    return code ? refuse(code, "%s", told ? told + 2 : message) : 0;
}
