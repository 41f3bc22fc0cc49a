/* Work queues: streams are threads that do jobs in order; a run's jobs are put into their streams in one go, so no two wait for each other. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

void fail_run(struct run *run, int code, const char *message) {
    if (atomic_load(&run->code)) return;
    snprintf(run->message, sizeof run->message, "%s", message);
    atomic_store(&run->code, code);
}

void release_marker(struct marker *marker) {
    if (marker && atomic_fetch_sub(&marker->refs, 1) == 1) free(marker);
}

void release_progress(struct progress *p) {
    if (atomic_fetch_sub(&p->refs, 1) != 1) return;
    pthread_mutex_destroy(&p->mutex);
    pthread_cond_destroy(&p->changed);
    free(p);
}

/* A run's end: tells whoever waits, and lets go of everything. */
static void end_run(struct run *run) {
    struct progress *const p = run->progress;
    const int code = atomic_load(&run->code);
    if (run->done) run->done(run->user, code, run->message);
    for (int i = 0; i < run->num_jobs; i++) release_marker(run->jobs[i].marker);
    release_frame(run->frame);
    atomic_fetch_sub(&run->queue->num_users, 1);
    atomic_fetch_sub(&run->session->num_users, 1);
    pthread_mutex_lock(&p->mutex);
    if (code && !p->code) p->code = code, memcpy(p->message, run->message, sizeof p->message);
    p->under_way--;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    release_progress(p);
    free(run);
}

/* Waits and markers are done also where the run has failed: other streams may still be at work for it. */
static void do_job(struct job *job) {
    struct run *const run = job->run;
    tx8rt_queue *const q = run->queue;
    struct marker *const marker = job->marker;
    const tx8rt_options *const options = &run->session->options;
    const int is_told = !atomic_load(&run->code), is_last = job->is_last;
    if (is_told && options->before) options->before(options->user, &job->task);
    if (job->task.kind == TX8RT_WAIT_EVENT) {
        pthread_mutex_lock(&q->mutex);
        while (!marker->passed) pthread_cond_wait(&q->changed, &q->mutex);
        pthread_mutex_unlock(&q->mutex);
    } else if (is_told && job->task.kind != TX8RT_RECORD_EVENT) do_task(job);
    if (is_told && options->after) options->after(options->user, &job->task, atomic_load(&run->code));
    if (job->task.kind == TX8RT_RECORD_EVENT) { /* from here on the job may be gone, unless it is the last one */
        pthread_mutex_lock(&q->mutex);
        marker->passed = 1;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->mutex);
    }
    if (is_last) end_run(run);
}

static void *do_jobs(void *argument) {
    struct job_stream *const stream = argument;
    tx8rt_queue *const q = stream->queue;
    pthread_mutex_lock(&q->mutex);
    for (;;) {
        while (!stream->first && !q->leave) pthread_cond_wait(&q->changed, &q->mutex);
        struct job *const job = stream->first;
        if (!job) break;
        stream->first = job->next;
        pthread_mutex_unlock(&q->mutex);
        do_job(job);
        pthread_mutex_lock(&q->mutex);
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

/* On a thread of the caller's: all runs of a request that wait, in order. */
static void do_runs(void *argument) {
    struct progress *const p = argument;
    for (;;) {
        pthread_mutex_lock(&p->mutex);
        struct run *const run = p->first;
        if (run) p->first = run->next;
        else p->is_taken = 0;
        pthread_mutex_unlock(&p->mutex);
        if (!run) break;
        const int num = run->num_jobs;
        for (int i = 0; i < num; i++) do_job(&run->jobs[i]);
    }
    release_progress(p);
}

static int put_outside(struct run *run) {
    struct progress *const p = run->progress;
    tx8rt_queue *const q = run->queue;
    pthread_mutex_lock(&p->mutex);
    const int is_taken = p->is_taken;
    run->next = NULL;
    if (p->first) p->last->next = run;
    else p->first = run;
    p->last = run, p->is_taken = 1;
    if (!is_taken) atomic_fetch_add(&p->refs, 1);
    pthread_mutex_unlock(&p->mutex);
    if (is_taken || !q->submit(q->user, do_runs, p)) return 0;
    fail_run(run, TX8RT_ORDER, "error E1013: the caller's queue takes no run");
    do_runs(p);
    return 0; /* the request's next sync says it */
}

int put_run(struct run *run) {
    tx8rt_queue *const q = run->queue;
    if (q->submit) return put_outside(run);
    pthread_mutex_lock(&q->mutex);
    for (int i = 0; i < q->num_streams; i++)
        if (!q->streams[i].is_started) q->streams[i].is_started = !pthread_create(&q->streams[i].thread, NULL, do_jobs, &q->streams[i]);
    int is_sound = q->process == (int)getpid();
    for (int i = 0; i < q->num_streams; i++) is_sound = is_sound && q->streams[i].is_started;
    for (int i = 0; is_sound && i < run->num_jobs; i++) {
        struct job *const job = &run->jobs[i];
        struct job_stream *const stream = &q->streams[job->task.stream];
        job->next = NULL;
        if (stream->first) stream->last->next = job;
        else stream->first = job;
        stream->last = job;
    }
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
    if (is_sound) return 0;
    fail_run(run, TX8RT_ORDER, "error E1013: the queue has no threads in this process");
    for (int i = 0; i < run->num_jobs; i++) /* its markers are passed, so that nobody waits for them */
        if (run->jobs[i].task.kind == TX8RT_RECORD_EVENT) run->jobs[i].marker->passed = 1;
    end_run(run);
    return refuse(TX8RT_ORDER, "the queue has no threads in this process");
}

int is_own_thread(const tx8rt_queue *q) {
    int found = 0;
    for (int i = 0; i < q->num_streams; i++) found |= q->streams[i].is_started && pthread_equal(q->streams[i].thread, pthread_self());
    return found;
}

static tx8rt_queue *new_queue(int num_streams) {
    tx8rt_queue *const q = calloc(1, sizeof *q);
    if (!q) return NULL;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->num_streams = num_streams, q->process = (int)getpid();
    for (int i = 0; i < NUM_STREAMS_OF_QUEUE; i++) q->streams[i].queue = q, q->stream_of[i] = num_streams == NUM_STREAMS_OF_QUEUE ? i : 0;
    return q;
}

API int tx8rt_queue_create(enum tx8rt_queue_kind kind, tx8rt_queue **queue) {
    if (kind != TX8RT_SINGLE_STREAM && kind != TX8RT_ONE_COMPUTE_TWO_TRANSFERS) return refuse(TX8RT_INPUT, "no queue of kind %d", (int)kind);
    *queue = new_queue(kind == TX8RT_SINGLE_STREAM ? 1 : NUM_STREAMS_OF_QUEUE);
    return *queue ? 0 : refuse(TX8RT_MEMORY, "no memory for a queue");
}

API int tx8rt_queue_create_external(int (*submit)(void *, void (*)(void *), void *), void *user, tx8rt_queue **queue) {
    if (!submit) return refuse(TX8RT_INPUT, "a queue of the caller's own needs a function");
    if (!(*queue = new_queue(0))) return refuse(TX8RT_MEMORY, "no memory for a queue");
    (*queue)->submit = submit, (*queue)->user = user;
    return 0;
}

API int tx8rt_queue_destroy(tx8rt_queue *q) {
    if (!q) return 0;
    if (atomic_load(&q->num_users) || is_own_thread(q)) return refuse(TX8RT_ORDER, "the queue is destroyed with requests, or runs under way");
    pthread_mutex_lock(&q->mutex);
    q->leave = 1;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
    for (int i = 0; i < q->num_streams; i++)
        if (q->streams[i].is_started) pthread_join(q->streams[i].thread, NULL);
    pthread_mutex_destroy(&q->mutex);
    pthread_cond_destroy(&q->changed);
    free(q);
    return 0;
}
