/* Kernel cores, queues, engines and the shared DDR of all tiles as events, loops in a steady state left out: see timing/machine.py, which
 * is what this has to equal. */
#include <stdlib.h>

#include "timing_model.h"

#define TURN_CYCLES 2

static const struct timed_shape *shape_of(struct model *m, const struct timed_tile *b, int step) {
    const struct timed_step *const s = m->s->steps + step;
    struct timed_value key[OPERAND_WORDS];
    for (int k = 0; k < s->num_inputs; k++) key[k] = b->registers[m->s->indices[s->first_input + k]];
    const size_t size = (size_t)s->num_inputs * sizeof *key;
    for (struct shape_entry *e = m->shapes[step]; e; e = e->next)
        if (!memcmp(e->key, key, size)) return &e->shape;
    struct shape_entry *const new = calloc(1, sizeof *new + size);
    memcpy(new->key, key, size);
    new->next = m->shapes[step], m->shapes[step] = new;
    if (cost_of(m->s, m->s->first + s->record, key, &new->shape)) m->failed = 1;
    return &new->shape;
}

static i64 known(struct model *m, const struct timed_step *s, struct timed_value v, i64 assumed) {
    if (!v.is_known) m->unknown[s->record] = 1;
    return v.is_known ? v.value : assumed;
}

static void begin_turn(struct model *m, struct timed_tile *b, int step, int before) {
    const struct frame *const f = b->frames + b->depth - 1;
    const struct timed_step *const loop = m->s->steps + f->loop;
    if (loop->rd) b->registers[loop->rd] = counter_of(f->lo, f->turn, f->step);
    spend(m, b, step, TURN_CYCLES, before);
    b->at = f->loop + 1;
}

static void loop(struct model *m, struct timed_tile *b, const struct timed_step *s) {
    const i32 *const in = m->s->indices + s->first_input;
    const struct timed_value *const r = b->registers;
    const struct timed_value lo = input(m->s, r, in[0]), hi = input(m->s, r, in[1]), by = input(m->s, r, in[2]);
    const i64 turns = known(m, s, turns_of(lo, hi, by), 1);
    if (!turns || b->depth == MAX_FRAMES) {
        m->failed |= turns != 0;
        spend(m, b, b->at, 0, s->before);
        b->at = s->target + 1;
        return;
    }
    b->frames[b->depth++] = (struct frame){b->at, lo, by.value > 1 ? by.value : 1, turns, 0, NULL, 0, NULL, 0, m->serial};
    begin_turn(m, b, b->at, s->before);
}

static struct timed_tile *lead_of(const struct model *m) {
    for (int n = 0; n < m->t->chip.tiles; n++)
        if (!m->tiles[n].is_done && !m->tiles[n].is_at_barrier) return m->tiles + n;
    return NULL;
}

static void turn(struct model *m, struct timed_tile *b, const struct timed_step *s) {
    struct frame *const f = b->frames + b->depth - 1;
    int before = s->before;
    const int at = b->at;
    f->turn++;
    const int leads = b == lead_of(m);
    if (f->turn < f->total && (leads || is_quiet(m, f))) {
        spend(m, b, at, 0, before);
        before = 0;
        (leads ? end_turn : end_own_turn)(m, b, f);
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

/* 0 if an end is not known yet. */
int wait_engines(struct model *m, struct timed_tile *b, i64 engines, int before) {
    struct issued *last[QUEUED_ENGINES];
    int num = 0;
    for (int e = 0; e < QUEUED_ENGINES; e++) {
        if (!(engines >> e & 1) || !b->queues[e].num) continue;
        struct issued *const i = at_queue(&b->queues[e], b->queues[e].num - 1);
        if (!i->has_end) {
            b->blocked = i;
            return 0;
        }
        int k = num++;
        for (; k && last[k - 1]->end > i->end; k--) last[k] = last[k - 1];
        last[k] = i;
    }
    spend(m, b, b->at, (double)m->t->chip.wait, before);
    for (int k = 0; k < num; k++) wait_until(m, b, b->at, WAITING, last[k]);
    return 1;
}

void work(struct model *m, struct timed_tile *b, const struct timed_shape *shape, int before) {
    spend(m, b, b->at, 0, before);
    double *const record = record_of(m, b->at), *const row = counters_of(m, b) + ENGINE_KC * PER_ENGINE;
    record[RECORD_INSTRUCTIONS] += 1, record[RECORD_BUSY] += shape->cycles, record[RECORD_ELAPSED] += shape->cycles;
    record[RECORD_OPERATIONS] += shape->operations, record[RECORD_LEAST] += shape->least_cycles;
    row[ENGINE_INSTRUCTIONS] += 1, row[ENGINE_BUSY] += shape->cycles;
    tell(m, (struct timed_note){b->now, b->now, b->now, b->now + shape->cycles, 0.0, 0, noted_record(m, b->at), NOTED_WORK, (i16)b->number, ENGINE_KC, -1});
    b->now += shape->cycles;
}

/* Until it has to wait for an end that is not known, is at a barrier, or is done. */
static void follow(struct model *m, struct timed_tile *b) {
    if (m->events) {
        follow_events(m, b);
        return;
    }
    while (!b->blocked && !m->failed) {
        const struct timed_step *const s = m->s->steps + b->at;
        const i32 *const in = m->s->indices + s->first_input;
        struct timed_value v;
        switch ((enum timed_op)s->op) {
        case TIMED_ISSUE:
            if (!issue(m, b, b->at, s->engine, s->before, shape_of(m, b, b->at))) continue;
            break;
        case TIMED_SCALAR:
            v = is_loaded(s) ? take(cursor_of(m, b, s)) : fold(m->s, b->registers, s);
            if (s->rd) b->registers[s->rd] = v;
            spend(m, b, b->at, s->cycles, s->before);
            break;
        case TIMED_LOOP: loop(m, b, s); continue;
        case TIMED_END: turn(m, b, s); continue;
        case TIMED_IF:
            v = input(m->s, b->registers, in[0]);
            spend(m, b, b->at, 1, s->before);
            if (!known(m, s, v, 1)) b->at = s->target;
            break;
        case TIMED_EXIT:
            v = input(m->s, b->registers, in[0]);
            spend(m, b, b->at, 1, s->before);
            if (!v.is_known) b->frames[b->depth - 1].total = b->frames[b->depth - 1].turn + 1;
            if (known(m, s, v, 1)) break;
            drop_frame(b->frames + --b->depth);
            b->at = s->target;
            break;
        case TIMED_JOIN: spend(m, b, b->at, 0, s->before); break;
        case TIMED_WORK: work(m, b, shape_of(m, b, b->at), s->before); break;
        case TIMED_WAIT:
            v = input(m->s, b->registers, in[0]);
            if (!wait_engines(m, b, v.is_known ? v.value : 0, s->before)) continue;
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
    for (int n = 0; n < m->t->chip.tiles; n++) {
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
    for (int n = 0; n < m->t->chip.tiles; n++) {
        if (m->tiles[n].is_done) continue;
        if (!m->tiles[n].is_at_barrier) return 0;
        arrived = larger(arrived, m->tiles[n].now), num++;
    }
    if (!num) return 0;
    const double cycles = (double)m->t->chip.barrier;
    for (int n = 0; n < m->t->chip.tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        if (b->is_done) continue;
        counters_of(m, b)[BARRIER_WAIT] += arrived - b->now;
        counters_of(m, b)[BARRIER] += cycles;
        record_of(m, b->at)[RECORD_ELAPSED] += arrived + cycles - b->now;
        tell(m, (struct timed_note){.start = b->now, .end = arrived + cycles, .record = noted_record(m, b->at), .what = NOTED_BARRIER, .tile = (i16)n, .engine = ENGINE_KC});
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
        const double ddr = next_event(m, FLUID_DDR), noc = next_event(m, FLUID_NOC);
        if (ddr == INFINITY && noc == INFINITY) break;
        if (ddr <= noc) step_fluid(m, FLUID_DDR, ddr);
        else step_fluid(m, FLUID_NOC, noc);
        follow_cores(m);
    }
}

void follow_tiles(struct model *m, struct timed_part *part) {
    const i64 tiles = m->t->chip.tiles;
    for (int f = 0; f < NUM_FLUIDS; f++) m->fluids[f].num_flowing = m->fluids[f].num_coming = 0, m->fluids[f].now = m->fluids[f].moved = 0.0;
    m->serial = 0;
    for (i64 n = 0; n < tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        b->number = (int)n, b->at = b->depth = b->is_at_barrier = b->is_done = 0, b->now = 0.0, b->blocked = NULL;
        for (int k = 0; k < TIMED_REGISTERS; k++) b->registers[k] = (struct timed_value){k == 1 ? n : 0, 1, 0};
        for (int e = 0; e < QUEUED_ENGINES; e++) b->queues[e].first = b->queues[e].num = 0, b->bytes[e] = 0.0;
        memset(b->links, 0, sizeof b->links);
    }
    run_model(m);
    part->cycles = 0.0;
    for (i64 n = 0; n < tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        part->cycles = larger(part->cycles, b->now);
        for (int e = 0; e < QUEUED_ENGINES; e++) {
            for (int k = 0; k < b->queues[e].num; k++) part->cycles = larger(part->cycles, at_queue(&b->queues[e], k)->end);
            if (b->bytes[e] > 0.0) tell(m, (struct timed_note){.amount = b->bytes[e], .what = NOTED_BYTES, .tile = (i16)n, .engine = (i16)e});
        }
        for (int k = 0; k < LINKS_OF_TILE; k++)
            if (b->links[k] > 0.0) tell(m, (struct timed_note){.amount = b->links[k], .what = NOTED_LINK, .tile = (i16)n, .cause = (i16)k});
    }
}

/* The time of a stretch from cycle 0 on, all tiles. */
static void time_stretch(struct model *m, struct timed_part *part) {
    const size_t num_steps = (size_t)m->s->num_steps;
    m->shapes = calloc(num_steps, sizeof *m->shapes);
    follow_tiles(m, part);
    part->all_ended = 1;
    for (i64 n = 0; n < m->t->chip.tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        part->all_ended &= b->at < m->s->num_steps - 1;
        while (b->depth) drop_frame(b->frames + --b->depth);
    }
    for (size_t k = 0; k < num_steps; k++)
        for (struct shape_entry *e = m->shapes[k], *next; e; e = next) next = e->next, free(e);
    free(m->shapes);
}

void begin_model(struct model *m, const struct timing *t) {
    const size_t most = (size_t)t->chip.tiles * 2 * MAX_QUEUE;
    *m = (struct model){.t = t};
    m->tiles = malloc((size_t)t->chip.tiles * sizeof *m->tiles);
    for (int f = 0; f < NUM_FLUIDS; f++)
        m->fluids[f].flowing = malloc(2 * most * sizeof *m->fluids[f].flowing), m->fluids[f].coming = m->fluids[f].flowing + most;
}

void end_model(struct model *m) {
    for (int f = 0; f < NUM_FLUIDS; f++) free(m->fluids[f].flowing);
    free(m->tiles);
}

int time_stretches(struct timing *t, const struct stretch *stretches) {
    struct model m;
    begin_model(&m, t);
    m.cursors = make_cursors(t);
    for (i64 p = 0; p < t->num_parts && !m.failed; p++) {
        struct timed_part *const part = t->parts + p, *const same = t->parts + part->same_as;
        m.s = stretches + p, m.part = (int)p;
        m.records = t->records + part->first * PER_RECORD, m.unknown = t->unknown + part->first;
        m.counters = t->counters + p * t->chip.tiles * PER_TILE;
        if (same == part) time_stretch(&m, part);
        part->cycles = same->cycles, part->all_ended = same->all_ended;
        if (part->all_ended) t->num_parts = p + 1;
    }
    free(m.cursors);
    end_model(&m);
    return m.failed;
}
