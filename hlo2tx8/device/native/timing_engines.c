/* Queues and engines of all tiles as events. */
#include "timing_model.h"

static void issue_started(struct model *m, struct timed_tile *b, struct issued *i);

void spend(struct model *m, struct timed_tile *b, int step, double cycles, int before) {
    cycles += before;
    b->now += cycles;
    counters_of(m, b)[ISSUE] += cycles;
    record_of(m, step)[RECORD_ELAPSED] += cycles;
}

void wait_until(struct model *m, struct timed_tile *b, int step, int why, const struct issued *i) {
    if (i->end <= b->now) return;
    counters_of(m, b)[why + i->engine] += i->end - b->now;
    record_of(m, step)[RECORD_ELAPSED] += i->end - b->now;
    tell(m, (struct timed_note){.start = b->now, .end = i->end, .record = noted_record(m, step), .what = why == WAITING ? NOTED_WAIT : NOTED_FULL, .tile = (i16)b->number, .engine = (i16)i->engine});
    b->now = i->end;
}

void ended(struct model *m, struct timed_tile *b, struct issued *i, double end) {
    i->end = end, i->has_end = 1, i->flow = FLOWS_NOT;
    double *const record = record_of(m, i->step), *const row = counters_of(m, b) + i->engine * PER_ENGINE;
    record[RECORD_INSTRUCTIONS] += 1;
    record[RECORD_BUSY] += end - i->start;
    row[ENGINE_INSTRUCTIONS] += 1;
    row[ENGINE_BUSY] += end - i->start;
    const double bytes = i->shape->is_packet ? (double)i->shape->packet_bytes : i->shape->bytes;
    b->bytes[i->engine] += bytes;
    tell(m, (struct timed_note){i->issue, i->ready, i->start, end, bytes, 0, noted_record(m, i->step), NOTED_INSTRUCTION, (i16)b->number, (i16)i->engine, (i16)(i->ready > i->issue ? i->cause : -1)});
    if (i->shape->ddr_bytes) {
        record[RECORD_DDR_BYTES] += i->shape->ddr_bytes;
        record[RECORD_BYTES] += i->shape->bytes;
    } else {
        record[RECORD_OPERATIONS] += i->shape->operations;
        record[RECORD_LEAST] += i->shape->least_cycles;
    }
    const int num = i->num_dependents;
    i->num_dependents = 0;
    for (int k = 0; k < num; k++) {
        struct issued *const other = (struct issued *)(i->dependents[k] & ~(uintptr_t)1);
        if (i->dependents[k] & 1) other->free = end;
        else if (end > other->ready) other->ready = end, other->cause = i->engine;
        if (--other->missing == 0) issue_started(m, b, other);
    }
}

static void issue_started(struct model *m, struct timed_tile *b, struct issued *i) {
    i->start = larger(i->ready, i->free), i->has_start = 1;
    double *const row = counters_of(m, b) + i->engine * PER_ENGINE;
    if (i->ready > i->issue) row[i->cause] += larger(i->ready - larger(i->issue, i->free), 0.0);
    if (i->shape->ddr_bytes || i->shape->is_packet) begin_transfer(m, b, i);
    else ended(m, b, i, i->start + i->shape->cycles);
}

/* Must one of them wait for the other? */
static int conflict(const struct timed_shape *one, const struct timed_shape *other) {
    for (int i = 0; i < one->num_ranges; i++) {
        const struct timed_range a = one->ranges[i];
        for (int k = 0; k < other->num_ranges; k++) {
            const struct timed_range b = other->ranges[k];
            if (a.start < b.end && b.start < a.end && (a.is_write || b.is_write)) return 1;
        }
    }
    return 0;
}

static void depend(struct issued *on, struct issued *other, int is_order) {
    on->dependents[on->num_dependents++] = (uintptr_t)other | (uintptr_t)is_order;
    other->missing++;
}

/* 0 if the queue is full for a time that is not known yet. */
int issue(struct model *m, struct timed_tile *b, int number, int engine, int before, const struct timed_shape *shape) {
    struct queue *const queue = &b->queues[engine];
    struct issued *const oldest = queue->num == m->t->chip.queue_depth ? at_queue(queue, 0) : NULL;
    if (oldest && !oldest->has_end) {
        b->blocked = oldest;
        return 0;
    }
    spend(m, b, number, (double)m->t->chip.issue, before);
    if (oldest) {
        wait_until(m, b, number, FULL, oldest);
        queue->first = (queue->first + 1) % MAX_QUEUE, queue->num--;
    }
    struct issued *const last = queue->num ? at_queue(queue, queue->num - 1) : oldest;
    struct issued *const new = at_queue(queue, queue->num++);
    const double end_before = last && last->has_end ? last->end : 0.0;
    const int waits = last && !last->has_end;
    new->shape = shape, new->step = number, new->engine = engine, new->cause = engine;
    new->missing = new->has_start = new->has_end = new->flow = new->num_dependents = 0;
    new->issue = new->ready = b->now, new->free = end_before, new->serial = ++m->serial;
    if (waits) depend(last, new, 1);
    for (int e = 0; e < QUEUED_ENGINES; e++) {
        struct queue *const other = &b->queues[e];
        if (other == queue) continue;
        for (int k = other->num - 1; k >= 0; k--) {
            struct issued *const i = at_queue(other, k);
            if (i->has_end && i->end <= b->now) break;
            if (!conflict(shape, i->shape)) continue;
            if (!i->has_end) depend(i, new, 0);
            else if (i->end > new->ready) new->ready = i->end, new->cause = i->engine;
            break;
        }
    }
    if (!new->missing) issue_started(m, b, new);
    return 1;
}
