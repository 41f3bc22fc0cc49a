/* Kernel cores, queues, engines and the shared DDR of all tiles as events, loops in a steady state left out: see timing/machine.py, which
 * is what this has to equal. Packets between tiles are only followed there. */
#include <stdlib.h>

#include "timing.h"

#define TURN_CYCLES 2
#define SAME_CYCLES 1e-6
#define CLOSE_CYCLES 1e-3
#define MOST_TURNS 64
#define LONG_PERIOD 12
#define LAST_TURNS 2
#define NUM_PROBES 8

static const int PERIODS[] = {1, 2, 3, 4, 6};

struct shape_entry {
    struct shape_entry *next;
    struct timed_shape shape;
    int num;
    struct timed_value key[];
};

enum flow { FLOWS_NOT, FLOWS_LATER, FLOWS };

struct issued {
    const struct timed_shape *shape;
    int step, engine, cause, missing, has_start, has_end, flow, num_dependents;
    u64 serial;
    double issue, ready, free, start, end, flows_at, rest;
    uintptr_t dependents[MAX_DEPENDENTS]; /* the address; bit 0: it is the next one of the queue */
};

struct queue {
    struct issued slots[MAX_QUEUE];
    int first, num;
};

struct mark {
    double now;
    i64 *structure;
    double *ahead;
    int num_structure, num_ahead;
};

struct probe {
    i64 period, turn;
    int is_settled;
    struct mark must_equal;
    double cycles, clocks[2 + QUEUED_ENGINES];
    int depth[MAX_TIMED_TILES];
    i64 turns[MAX_TIMED_TILES][MAX_FRAMES];
    double *sums; /* records, then counters */
    u64 last_serial;
};

struct frame {
    int loop;
    struct timed_value lo;
    i64 step, total, turn;
    struct mark *marks;
    int num_marks;
    struct probe *probe;
};

struct timed_tile {
    int number, at, depth, is_at_barrier, is_done;
    double now;
    struct issued *blocked;
    struct timed_value *registers;
    struct frame frames[MAX_FRAMES];
    struct queue queues[QUEUED_ENGINES];
};

struct model {
    struct timing *t;
    struct timed_tile *tiles;
    struct shape_entry **shapes;
    struct issued **flowing, **coming; /* transfers of all tiles, in no order */
    int num_flowing, num_coming, failed;
    double flow_now;
    u64 serial;
};

static void issue_started(struct model *m, struct timed_tile *b, struct issued *i);

static struct issued *at_queue(struct queue *q, int k) { return &q->slots[(q->first + k) % MAX_QUEUE]; }
static double *counters_of(const struct model *m, const struct timed_tile *b) { return m->t->counters + (size_t)b->number * PER_TILE; }
static double *record_of(const struct model *m, int step) { return m->t->records + (size_t)m->t->steps[step].record * PER_RECORD; }
static double larger(double a, double b) { return a > b ? a : b; }

/* ------------------------------------------------------------------------------------------------------------------ engines */

static void spend(struct model *m, struct timed_tile *b, int step, double cycles, int before) {
    cycles += before;
    b->now += cycles;
    counters_of(m, b)[ISSUE] += cycles;
    record_of(m, step)[RECORD_ELAPSED] += cycles;
}

static void wait_until(struct model *m, struct timed_tile *b, int step, int why, const struct issued *i) {
    if (i->end <= b->now) return;
    counters_of(m, b)[why + i->engine] += i->end - b->now;
    record_of(m, step)[RECORD_ELAPSED] += i->end - b->now;
    b->now = i->end;
}

static void ended(struct model *m, struct timed_tile *b, struct issued *i, double end) {
    i->end = end, i->has_end = 1, i->flow = FLOWS_NOT;
    double *const record = record_of(m, i->step), *const row = counters_of(m, b) + i->engine * PER_ENGINE;
    record[RECORD_INSTRUCTIONS] += 1;
    record[RECORD_BUSY] += end - i->start;
    row[ENGINE_INSTRUCTIONS] += 1;
    row[ENGINE_BUSY] += end - i->start;
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
    if (!i->shape->ddr_bytes) {
        ended(m, b, i, i->start + i->shape->cycles);
        return;
    }
    i->flows_at = i->start + i->shape->cycles, i->rest = i->shape->ddr_bytes, i->flow = FLOWS_LATER;
    m->coming[m->num_coming++] = i;
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
static int issue(struct model *m, struct timed_tile *b, int number, const struct timed_shape *shape) {
    const struct timed_step *const step = m->t->steps + number;
    struct queue *const queue = &b->queues[step->engine];
    struct issued *const oldest = queue->num == m->t->queue_depth ? at_queue(queue, 0) : NULL;
    if (oldest && !oldest->has_end) {
        b->blocked = oldest;
        return 0;
    }
    spend(m, b, number, (double)m->t->issue_cycles, step->before);
    if (oldest) {
        wait_until(m, b, number, FULL, oldest);
        queue->first = (queue->first + 1) % MAX_QUEUE, queue->num--;
    }
    struct issued *const last = queue->num ? at_queue(queue, queue->num - 1) : oldest;
    struct issued *const new = at_queue(queue, queue->num++);
    const double end_before = last && last->has_end ? last->end : 0.0;
    const int waits = last && !last->has_end;
    new->shape = shape, new->step = number, new->engine = step->engine, new->cause = step->engine;
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

/* ---------------------------------------------------------------------------------------------------------------------- DDR */

static double flow_rate(const struct model *m) {
    const double rate = m->t->ddr_rate / m->num_flowing;
    return rate < m->t->port_rate ? rate : m->t->port_rate;
}

static double next_flow_event(const struct model *m) {
    double begin = INFINITY, least = INFINITY;
    for (int k = 0; k < m->num_coming; k++) begin = m->coming[k]->flows_at < begin ? m->coming[k]->flows_at : begin;
    if (!m->num_flowing) return larger(begin, m->flow_now);
    for (int k = 0; k < m->num_flowing; k++) least = m->flowing[k]->rest < least ? m->flowing[k]->rest : least;
    const double end = m->flow_now + least / flow_rate(m);
    return end <= begin + SAME_CYCLES ? end : begin;
}

static struct timed_tile *owner_of(const struct model *m, const struct issued *i) {
    return m->tiles + ((const u8 *)i - (const u8 *)m->tiles) / (ptrdiff_t)sizeof *m->tiles;
}

static void step_flow(struct model *m, double until) {
    const double rate = m->num_flowing ? flow_rate(m) : 0.0, cycles = until - m->flow_now;
    struct issued *done[MAX_TIMED_TILES * 2 * MAX_QUEUE];
    int num_done = 0, num = 0;
    m->flow_now = until;
    for (int k = 0; k < m->num_flowing; k++) {
        struct issued *const i = m->flowing[k];
        i->rest -= cycles * rate;
        if (i->rest <= SAME_CYCLES * rate) done[num_done++] = i;
        else m->flowing[num++] = i;
    }
    m->num_flowing = num;
    num = 0;
    for (int k = 0; k < m->num_coming; k++) {
        struct issued *const i = m->coming[k];
        if (i->flows_at <= until + SAME_CYCLES) i->flow = FLOWS, m->flowing[m->num_flowing++] = i;
        else m->coming[num++] = i;
    }
    m->num_coming = num;
    for (int k = 0; k < num_done; k++) ended(m, owner_of(m, done[k]), done[k], until);
}

static struct timed_value fold(const struct timing *t, const struct timed_value *r, const struct timed_step *s) {
    const i32 *const in = t->indices + s->first_input;
    struct timed_value result = {0, s->fold != FOLD_UNKNOWN, 0};
    for (int k = 0; k < s->num_inputs; k++) result.is_known &= r[in[k]].is_known;
    if (!result.is_known) return (struct timed_value){0, 0, 0};
    const i64 a = r[in[0]].value, c = s->num_inputs > 1 ? r[in[1]].value : 0;
    i64 quotient;
    switch ((enum timed_fold)s->fold) {
    case FOLD_AFFINE:
        result.value = a;
        for (int k = 1; k < s->num_inputs; k += 2) result.value += r[in[k]].value * r[in[k + 1]].value;
        break;
    case FOLD_FLOOR_DIV: case FOLD_MOD:
        if (c == 0) break; /* the emulator faults */
        quotient = c == -1 ? -a : a / c - (a % c != 0 && (a < 0) != (c < 0));
        result.value = s->fold == FOLD_FLOOR_DIV ? quotient : a - quotient * c;
        break;
    case FOLD_MIN: result.value = a < c ? a : c; break;
    case FOLD_MAX: result.value = a > c ? a : c; break;
    case FOLD_MUL: result.value = a * c; break;
    case FOLD_LESS: result.value = a < c; break;
    case FOLD_UNKNOWN: break;
    }
    return result;
}

/* A loop's turns: none if it ends before it begins, not known if a bound is not. */
static struct timed_value turns_of(struct timed_value lo, struct timed_value hi, struct timed_value by) {
    const i64 step = by.value > 1 ? by.value : 1;
    struct timed_value total = {0, lo.is_known && hi.is_known && by.is_known, 0};
    if (total.is_known && hi.value > lo.value) total.value = (i64)(((__int128)hi.value - lo.value + step - 1) / step);
    return total;
}

static struct timed_value counter_of(struct timed_value lo, i64 turn, i64 step) {
    return (struct timed_value){lo.is_known ? lo.value + turn * step : 0, lo.is_known, 0};
}

/* ---------------------------------------------------------------------------------------------- do turns stay what they were? */

/* Branches, trip counts, counts and strides of a turn. */
struct signature {
    struct timed_value *values;
    int num, room;
};

static void note(struct signature *found, struct timed_value v) {
    if (found->num == found->room) {
        found->room = found->room ? 2 * found->room : 64;
        found->values = realloc(found->values, (size_t)found->room * sizeof *found->values);
    }
    found->values[found->num++] = v;
}

/* Follows scalars and branches only; of inner loops the first and the last turn. */
static void walk(const struct timing *t, i64 at, i64 end, struct timed_value *r, struct signature *found) {
    while (at < end) {
        const struct timed_step *const s = t->steps + at++;
        const i32 *const in = t->indices + s->first_input;
        if (s->op == TIMED_SCALAR) {
            if (s->decides_counts && s->rd) r[s->rd] = fold(t, r, s);
        } else if (s->op == TIMED_LOOP) {
            const struct timed_value lo = r[in[0]], by = r[in[2]], total = turns_of(lo, r[in[1]], by);
            note(found, total);
            for (int k = 0; k < 2 && k < total.value; k++) {
                if (s->rd) r[s->rd] = counter_of(lo, k ? total.value - 1 : 0, by.value);
                walk(t, at, s->target, r, found);
            }
            at = s->target + 1;
        } else if (s->op == TIMED_IF) {
            const struct timed_value v = r[in[0]];
            note(found, (struct timed_value){v.value != 0, v.is_known, 0});
            if (v.is_known && !v.value) at = s->target;
        } else {
            for (int k = 0; k < s->num_counts; k++) note(found, r[t->indices[s->first_count + k]]);
        }
    }
}

static int is_equal_turn(const struct model *m, const struct timed_tile *b, const struct frame *f, i64 turn, struct timed_value *r,
                         const struct signature *before, struct signature *found) {
    const struct timed_step *const loop = m->t->steps + f->loop;
    memcpy(r, b->registers, (TIMED_REGISTERS + (size_t)m->t->num_constants) * sizeof *r);
    if (loop->rd) r[loop->rd] = counter_of(f->lo, turn, f->step);
    found->num = 0;
    walk(m->t, f->loop + 1, loop->target, r, found);
    return before && before->num == found->num && !memcmp(before->values, found->values, (size_t)found->num * sizeof *found->values);
}

/* How many times, at most `most`, the `turns` turns before turn `first` repeat. Conditions are taken to change once: after the last turn
 * that was found equal by bisection, with some probes between. */
static i64 equal_turns(const struct model *m, const struct timed_tile *b, const struct frame *f, i64 first, i64 turns, i64 most) {
    if (!m->t->steps[f->loop].varies) return most;
    struct timed_value *const r = malloc((TIMED_REGISTERS + (size_t)m->t->num_constants) * sizeof *r);
    struct signature found = {NULL, 0, 0}, *const before = calloc((size_t)turns, sizeof *before);
    for (i64 i = 0; i < turns; i++) is_equal_turn(m, b, f, first - turns + i, r, NULL, before + i);
    const i64 stride = most / NUM_PROBES > 1 ? most / NUM_PROBES : 1;
    i64 low = 0, high = most + 1;
    for (i64 probe = most, next = 1; probe; probe = next < most ? next : 0, next += stride) {
        int is_equal = 1;
        for (i64 i = 0; is_equal && i < turns; i++) is_equal = is_equal_turn(m, b, f, first + (probe - 1) * turns + i, r, before + i, &found);
        if (!is_equal && probe < high) high = probe;
    }
    while (high <= most && high - low > 1) {
        const i64 middle = (low + high) / 2;
        int is_equal = 1;
        for (i64 i = 0; is_equal && i < turns; i++) is_equal = is_equal_turn(m, b, f, first + (middle - 1) * turns + i, r, before + i, &found);
        if (is_equal) low = middle;
        else high = middle;
    }
    for (i64 i = 0; i < turns; i++) free(before[i].values);
    free(before), free(found.values), free(r);
    return high > most ? most : low;
}

/* -------------------------------------------------------------------------------------------------------------- steady states */

static void drop_marks(struct frame *f) {
    for (int k = 0; k < f->num_marks; k++) free(f->marks[k].structure), free(f->marks[k].ahead);
    f->num_marks = 0;
}

static void drop_probe(struct frame *f) {
    if (f->probe) free(f->probe->sums), free(f->probe->must_equal.structure), free(f->probe->must_equal.ahead), free(f->probe);
    f->probe = NULL;
}

static void drop_frame(struct frame *f) {
    drop_marks(f);
    free(f->marks);
    drop_probe(f);
    f->marks = NULL;
}

static struct mark take_mark(const struct model *m, const struct timed_tile *lead) {
    const struct timing *const t = m->t;
    size_t room = 0;
    for (int n = 0; n < t->num_tiles; n++) {
        const struct timed_tile *const b = m->tiles + n;
        room += 3 + 2 * QUEUED_ENGINES * MAX_QUEUE;
        for (int k = 0; k < b->depth; k++) room += 1 + 2 * (size_t)t->steps[b->frames[k].loop].num_carried;
    }
    struct mark mark = {lead->now, malloc(room * sizeof(i64)), malloc((room + 1) * sizeof(double)), 0, 0};
    for (int n = 0; n < t->num_tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        const int is_idle = b->is_at_barrier || b->is_done;
        mark.structure[mark.num_structure++] = (i64)b->at << 1 | is_idle;
        mark.structure[mark.num_structure++] = b->depth;
        for (int k = 0; k < b->depth; k++) {
            const struct timed_step *const loop = t->steps + b->frames[k].loop;
            mark.structure[mark.num_structure++] = b->frames[k].loop;
            for (int c = 0; c < loop->num_carried; c++) {
                const struct timed_value v = b->registers[t->indices[loop->first_carried + c]];
                mark.structure[mark.num_structure++] = v.is_known;
                mark.structure[mark.num_structure++] = v.is_known ? v.value : 0;
            }
        }
        if (!is_idle) mark.ahead[mark.num_ahead++] = b->now - mark.now;
        const double past = is_idle ? mark.now : b->now;
        for (int e = 0; e < QUEUED_ENGINES; e++) {
            for (int k = b->queues[e].num - 1; k >= 0; k--) {
                const struct issued *const i = at_queue(&b->queues[e], k);
                if (i->has_end && i->end <= past) break;
                mark.structure[mark.num_structure++] = (i64)t->steps[i->step].record << 8 | (i->has_end ? 255 : i->missing);
                mark.ahead[mark.num_ahead++] = (i->has_end ? i->end : i->has_start ? i->start : i->ready) - mark.now;
                if (i->flow) mark.ahead[mark.num_ahead++] = i->rest;
            }
        }
        mark.structure[mark.num_structure++] = -1;
    }
    if (m->num_flowing) mark.ahead[mark.num_ahead++] = m->flow_now - mark.now;
    return mark;
}

static int equals(const struct mark *a, const struct mark *b) {
    if (a->num_structure != b->num_structure || a->num_ahead != b->num_ahead) return 0;
    if (memcmp(a->structure, b->structure, (size_t)a->num_structure * sizeof(i64))) return 0;
    for (int k = 0; k < a->num_ahead; k++)
        if (!(fabs(a->ahead[k] - b->ahead[k]) < CLOSE_CYCLES)) return 0;
    return 1;
}

static void read_clocks(const struct model *m, struct timed_tile *b, double *clocks) {
    clocks[0] = b->now, clocks[1] = m->flow_now;
    for (int e = 0; e < QUEUED_ENGINES; e++) {
        clocks[2 + e] = 0.0;
        for (int k = 0; k < b->queues[e].num; k++) {
            const struct issued *const i = at_queue(&b->queues[e], k);
            if (i->has_end) clocks[2 + e] = larger(clocks[2 + e], i->end);
        }
    }
}

static size_t num_sums(const struct timing *t) { return (size_t)t->num_records * PER_RECORD + (size_t)t->num_tiles * PER_TILE; }

static void begin_probe(struct model *m, struct timed_tile *b, struct frame *f, i64 period, struct mark *mark, double cycles) {
    const struct timing *const t = m->t;
    struct probe *const p = f->probe = calloc(1, sizeof *p);
    p->period = period, p->turn = f->turn, p->cycles = cycles, p->is_settled = mark != NULL, p->last_serial = m->serial;
    if (mark) p->must_equal = *mark;
    read_clocks(m, b, p->clocks);
    for (int n = 0; n < t->num_tiles; n++) {
        p->depth[n] = m->tiles[n].depth;
        for (int k = 0; k < m->tiles[n].depth; k++) p->turns[n][k] = m->tiles[n].frames[k].turn;
    }
    p->sums = malloc(num_sums(t) * sizeof(double));
    memcpy(p->sums, t->records, (size_t)t->num_records * PER_RECORD * sizeof(double));
    memcpy(p->sums + t->num_records * PER_RECORD, t->counters, (size_t)t->num_tiles * PER_TILE * sizeof(double));
}

static double cycles_left(const struct model *m, const struct issued *i, double now) {
    if (i->has_end) return i->end - now;
    return i->flow == FLOWS ? i->rest / flow_rate(m) - (now - m->flow_now) : 0.0;
}

static int is_old(const struct probe *p, const struct issued *i, double now) {
    return !p->is_settled && i->serial <= p->last_serial && (!i->has_end || i->end > now);
}

/* Everything that happened since the probe happens again, as often as it is sure to. */
static void skip_turns(struct model *m, struct timed_tile *lead, struct frame *frame, const struct probe *p) {
    const struct timing *const t = m->t;
    struct frame *moved[MAX_TIMED_TILES] = {NULL};
    i64 turns[MAX_TIMED_TILES], times = INT64_MAX;
    int num_moved = 0;
    for (int n = 0; n < t->num_tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        int is_elsewhere = b->is_at_barrier, changed = 0;
        for (int k = 0; k < b->depth; k++) is_elsewhere &= b->frames[k].loop != frame->loop;
        if (b->is_done || is_elsewhere) continue;
        if (b->depth != p->depth[n]) return;
        for (int k = 0; k < b->depth; k++) {
            if (b->frames[k].turn == p->turns[n][k]) continue;
            changed++, moved[n] = b->frames + k, turns[n] = b->frames[k].turn - p->turns[n][k];
        }
        if (changed != 1 || turns[n] < 0) return;
        if (!p->is_settled && t->steps[moved[n]->loop].num_carried) return;
        num_moved++;
    }
    if (!num_moved) return;
    for (int n = 0; n < t->num_tiles; n++) {
        if (!moved[n]) continue;
        const i64 first = moved[n]->turn + (m->tiles + n != lead), left = moved[n]->total - first - LAST_TURNS;
        const i64 most = left < 0 ? -1 : left / turns[n];
        times = most < times ? most : times;
    }
    for (int n = 0; n < t->num_tiles && times > 0; n++) {
        if (!moved[n] || !t->steps[moved[n]->loop].varies) continue;
        const i64 first = moved[n]->turn + (m->tiles + n != lead);
        times = equal_turns(m, m->tiles + n, moved[n], first, turns[n], times);
    }
    double clocks[2 + QUEUED_ENGINES], pace = -INFINITY;
    read_clocks(m, lead, clocks);
    for (int k = 0; k < 2 + QUEUED_ENGINES; k++) pace = larger(pace, clocks[k] - p->clocks[k]);
    if (p->is_settled) pace = lead->now - p->clocks[0];
    for (int n = 0; n < t->num_tiles && !p->is_settled; n++) {
        for (int e = 0; e < QUEUED_ENGINES; e++) {
            for (int k = 0; k < m->tiles[n].queues[e].num; k++) {
                const struct issued *const i = at_queue(&m->tiles[n].queues[e], k);
                if (!is_old(p, i, lead->now)) continue;
                const i64 most = (i64)floor(cycles_left(m, i, lead->now) / larger(pace, 1.0));
                times = most < times ? most : times;
            }
        }
    }
    if (times <= 0) return;
    const double cycles = pace * (double)times;
    const size_t num_records = (size_t)t->num_records * PER_RECORD, num_counters = (size_t)t->num_tiles * PER_TILE;
    for (size_t k = 0; k < num_records; k++) t->records[k] += (t->records[k] - p->sums[k]) * (double)times;
    for (size_t k = 0; k < num_counters; k++) t->counters[k] += (t->counters[k] - p->sums[num_records + k]) * (double)times;
    const double now = lead->now, rate = m->num_flowing ? flow_rate(m) : 0.0;
    for (int n = 0; n < t->num_tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        for (int e = 0; e < QUEUED_ENGINES; e++) {
            for (int k = 0; k < b->queues[e].num; k++) {
                struct issued *const i = at_queue(&b->queues[e], k);
                if (is_old(p, i, now)) {
                    if (i->flow) i->rest -= rate * cycles;
                    continue;
                }
                i->issue += cycles, i->ready += cycles, i->free += cycles, i->start += cycles, i->end += cycles;
            }
        }
        if (moved[n]) moved[n]->turn += turns[n] * times, b->now += cycles;
    }
    m->flow_now += cycles;
    for (int k = 0; k < m->num_coming; k++) m->coming[k]->flows_at += cycles;
}

static void end_turn(struct model *m, struct timed_tile *b, struct frame *f) {
    if (f->probe) {
        struct probe *const p = f->probe;
        if (f->turn < p->turn + p->period) return;
        int repeats = !p->is_settled;
        if (p->is_settled) {
            struct mark mark = take_mark(m, b);
            repeats = equals(&mark, &p->must_equal) && fabs(mark.now - p->must_equal.now - p->cycles) < CLOSE_CYCLES;
            free(mark.structure), free(mark.ahead);
        }
        if (repeats) skip_turns(m, b, f, p);
        if (repeats) drop_marks(f);
        drop_probe(f);
        if (repeats) return;
    }
    if (f->total - f->turn <= LAST_TURNS + 2) return;
    if (!f->marks) f->marks = malloc(MOST_TURNS * 4 * sizeof *f->marks);
    if (f->num_marks == MOST_TURNS * 4) drop_marks(f);
    f->marks[f->num_marks++] = take_mark(m, b);
    struct mark *const mark = f->marks + f->num_marks - 1;
    const int rotation = m->t->steps[f->loop].rotation;
    for (size_t k = 0; k < sizeof PERIODS / sizeof *PERIODS; k++) {
        const int period = PERIODS[k] * rotation;
        if (f->num_marks <= period || !equals(mark, mark - period)) continue;
        struct mark copy = take_mark(m, b);
        begin_probe(m, b, f, period, &copy, mark->now - mark[-period].now);
        return;
    }
    if (f->num_marks >= MOST_TURNS) {
        begin_probe(m, b, f, -(-LONG_PERIOD / rotation) * rotation + (LONG_PERIOD % rotation ? rotation : 0), NULL, 0.0);
        drop_marks(f);
    }
}

/* --------------------------------------------------------------------------------------------------------------- kernel cores */

static const struct timed_shape *shape_of(struct model *m, const struct timed_tile *b, int step) {
    const struct timed_step *const s = m->t->steps + step;
    struct timed_value key[MAX_KEY];
    for (int k = 0; k < s->num_inputs; k++) key[k] = b->registers[m->t->indices[s->first_input + k]];
    const size_t size = (size_t)s->num_inputs * sizeof *key;
    for (struct shape_entry *e = m->shapes[step]; e; e = e->next)
        if (!memcmp(e->key, key, size)) return &e->shape;
    struct shape_entry *const new = calloc(1, sizeof *new + size);
    memcpy(new->key, key, size);
    new->next = m->shapes[step], m->shapes[step] = new;
    if (m->t->shape(step, key, &new->shape)) m->failed = 1;
    return &new->shape;
}

static i64 known(struct model *m, const struct timed_step *s, struct timed_value v, i64 assumed) {
    if (!v.is_known) m->t->unknown[s->record] = 1;
    return v.is_known ? v.value : assumed;
}

static void begin_turn(struct model *m, struct timed_tile *b, int step, int before) {
    const struct frame *const f = b->frames + b->depth - 1;
    const struct timed_step *const loop = m->t->steps + f->loop;
    if (loop->rd) b->registers[loop->rd] = counter_of(f->lo, f->turn, f->step);
    spend(m, b, step, TURN_CYCLES, before);
    b->at = f->loop + 1;
}

static void loop(struct model *m, struct timed_tile *b, const struct timed_step *s) {
    const i32 *const in = m->t->indices + s->first_input;
    const struct timed_value lo = b->registers[in[0]], hi = b->registers[in[1]], by = b->registers[in[2]];
    const i64 turns = known(m, s, turns_of(lo, hi, by), 1);
    if (!turns || b->depth == MAX_FRAMES) {
        m->failed |= turns != 0;
        spend(m, b, b->at, 0, s->before);
        b->at = s->target + 1;
        return;
    }
    b->frames[b->depth++] = (struct frame){b->at, lo, by.value > 1 ? by.value : 1, turns, 0, NULL, 0, NULL};
    begin_turn(m, b, b->at, s->before);
}

static struct timed_tile *lead_of(const struct model *m) {
    for (int n = 0; n < m->t->num_tiles; n++)
        if (!m->tiles[n].is_done && !m->tiles[n].is_at_barrier) return m->tiles + n;
    return NULL;
}

static void turn(struct model *m, struct timed_tile *b, const struct timed_step *s) {
    struct frame *const f = b->frames + b->depth - 1;
    int before = s->before;
    const int at = b->at;
    f->turn++;
    if (f->turn < f->total && b == lead_of(m)) {
        spend(m, b, at, 0, before);
        before = 0;
        end_turn(m, b, f);
    }
    if (f->turn < f->total) {
        begin_turn(m, b, at, before);
        return;
    }
    drop_frame(f);
    b->depth--;
    spend(m, b, at, 0, before);
    b->at = at + 1;
}

static int wait_engines(struct model *m, struct timed_tile *b, const struct timed_step *s) {
    const struct timed_value mask = b->registers[m->t->indices[s->first_input]];
    struct issued *last[QUEUED_ENGINES];
    int num = 0;
    for (int e = 0; e < QUEUED_ENGINES; e++) {
        if (!mask.is_known || !(mask.value >> e & 1) || !b->queues[e].num) continue;
        struct issued *const i = at_queue(&b->queues[e], b->queues[e].num - 1);
        if (!i->has_end) {
            b->blocked = i;
            return 0;
        }
        int k = num++;
        for (; k && last[k - 1]->end > i->end; k--) last[k] = last[k - 1];
        last[k] = i;
    }
    spend(m, b, b->at, (double)m->t->wait_cycles, s->before);
    for (int k = 0; k < num; k++) wait_until(m, b, b->at, WAITING, last[k]);
    return 1;
}

static void work(struct model *m, struct timed_tile *b, const struct timed_step *s, const struct timed_shape *shape) {
    spend(m, b, b->at, 0, s->before);
    double *const record = record_of(m, b->at), *const row = counters_of(m, b) + ENGINE_KC * PER_ENGINE;
    record[RECORD_INSTRUCTIONS] += 1, record[RECORD_BUSY] += shape->cycles, record[RECORD_ELAPSED] += shape->cycles;
    record[RECORD_OPERATIONS] += shape->operations, record[RECORD_LEAST] += shape->least_cycles;
    row[ENGINE_INSTRUCTIONS] += 1, row[ENGINE_BUSY] += shape->cycles;
    b->now += shape->cycles;
}

/* Until it has to wait for an end that is not known, is at a barrier, or is done. */
static void follow(struct model *m, struct timed_tile *b) {
    while (!b->blocked && !m->failed) {
        const struct timed_step *const s = m->t->steps + b->at;
        const i32 *const in = m->t->indices + s->first_input;
        struct timed_value v;
        switch ((enum timed_op)s->op) {
        case TIMED_ISSUE:
            if (!issue(m, b, b->at, shape_of(m, b, b->at))) continue;
            break;
        case TIMED_SCALAR:
            v = fold(m->t, b->registers, s);
            if (s->rd) b->registers[s->rd] = v;
            spend(m, b, b->at, s->cycles, s->before);
            break;
        case TIMED_LOOP: loop(m, b, s); continue;
        case TIMED_END: turn(m, b, s); continue;
        case TIMED_IF:
            v = b->registers[in[0]];
            spend(m, b, b->at, 1, s->before);
            if (!known(m, s, v, 1)) b->at = s->target;
            break;
        case TIMED_EXIT:
            v = b->registers[in[0]];
            spend(m, b, b->at, 1, s->before);
            if (!v.is_known) b->frames[b->depth - 1].total = b->frames[b->depth - 1].turn + 1;
            if (known(m, s, v, 1)) break;
            drop_frame(b->frames + --b->depth);
            b->at = s->target;
            break;
        case TIMED_JOIN: spend(m, b, b->at, 0, s->before); break;
        case TIMED_WORK: work(m, b, s, shape_of(m, b, b->at)); break;
        case TIMED_WAIT:
            if (!wait_engines(m, b, s)) continue;
            break;
        case TIMED_BARRIER:
            spend(m, b, b->at, 0, s->before);
            b->is_at_barrier = 1;
            return;
        case TIMED_HALT:
            spend(m, b, b->at, 0, s->before);
            b->is_done = 1;
            return;
        }
        b->at++;
    }
}

static void follow_cores(struct model *m) {
    for (int n = 0; n < m->t->num_tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        while (!b->is_done && !b->is_at_barrier && (!b->blocked || b->blocked->has_end) && !m->failed) {
            b->blocked = NULL;
            follow(m, b);
        }
    }
}

/* If all kernel cores are at a barrier they go on. */
static int release_barrier(struct model *m) {
    double arrived = -INFINITY;
    int num = 0;
    for (int n = 0; n < m->t->num_tiles; n++) {
        if (m->tiles[n].is_done) continue;
        if (!m->tiles[n].is_at_barrier) return 0;
        arrived = larger(arrived, m->tiles[n].now), num++;
    }
    if (!num) return 0;
    const double cycles = (double)m->t->barrier_cycles;
    for (int n = 0; n < m->t->num_tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        if (b->is_done) continue;
        counters_of(m, b)[BARRIER_WAIT] += arrived - b->now;
        counters_of(m, b)[BARRIER] += cycles;
        record_of(m, b->at)[RECORD_ELAPSED] += arrived + cycles - b->now;
        b->now = arrived + cycles, b->is_at_barrier = 0, b->at++;
    }
    return 1;
}

static void run_model(struct model *m) {
    follow_cores(m);
    while (!m->failed) {
        if (release_barrier(m)) {
            follow_cores(m);
            continue;
        }
        const double next = next_flow_event(m);
        if (next == INFINITY || (!m->num_flowing && !m->num_coming)) break;
        step_flow(m, next);
        follow_cores(m);
    }
}

static int fits(const struct timing *t) {
    if (t->per_record != PER_RECORD || t->per_tile != PER_TILE || t->num_tiles < 1 || t->num_tiles > MAX_TIMED_TILES) return 0;
    if (t->queue_depth < 1 || t->queue_depth >= MAX_QUEUE) return 0;
    for (i64 k = 0; k < t->num_steps; k++)
        if (t->steps[k].num_inputs > MAX_KEY) return 0;
    return 1;
}

/* Runs all tiles from cycle 0; not 0 if this cannot, and then what it wrote means nothing. */
int tx8_time(struct timing *t) {
    if (!fits(t)) return 1;
    const size_t num_tiles = (size_t)t->num_tiles, num_registers = TIMED_REGISTERS + (size_t)t->num_constants, most = num_tiles * 2 * MAX_QUEUE;
    struct model m = {.t = t};
    m.tiles = calloc(num_tiles, sizeof *m.tiles);
    m.shapes = calloc((size_t)t->num_steps, sizeof *m.shapes);
    m.flowing = malloc(most * sizeof *m.flowing), m.coming = malloc(most * sizeof *m.coming);
    struct timed_value *const registers = calloc(num_tiles * num_registers, sizeof *registers);
    for (size_t n = 0; n < num_tiles; n++) {
        struct timed_tile *const b = m.tiles + n;
        b->number = (int)n, b->registers = registers + n * num_registers;
        for (size_t k = 0; k < num_registers; k++) b->registers[k].is_known = 1;
        for (i64 k = 0; k < t->num_constants; k++) b->registers[TIMED_REGISTERS + k].value = t->constants[k];
        b->registers[1].value = (i64)n;
    }
    run_model(&m);
    t->cycles = 0.0, t->all_ended = 1;
    for (size_t n = 0; n < num_tiles; n++) {
        struct timed_tile *const b = m.tiles + n;
        t->cycles = larger(t->cycles, b->now);
        for (int e = 0; e < QUEUED_ENGINES; e++)
            for (int k = 0; k < b->queues[e].num; k++) t->cycles = larger(t->cycles, at_queue(&b->queues[e], k)->end);
        t->all_ended &= b->at < t->num_steps - 1;
        while (b->depth) drop_frame(b->frames + --b->depth);
    }
    for (i64 k = 0; k < t->num_steps; k++) {
        for (struct shape_entry *e = m.shapes[k], *next; e; e = next) next = e->next, free(e);
    }
    free(m.tiles), free(m.shapes), free(m.flowing), free(m.coming), free(registers);
    return m.failed;
}
