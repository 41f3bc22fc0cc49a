/* Loops in a steady state: turns that repeat are left out, their sums added as often as they would happen. */
#include <stdlib.h>

#include "timing_model.h"

#define CLOSE_CYCLES 1e-3
#define MOST_TURNS 64
#define LONG_PERIOD 12
#define LAST_TURNS 2

static const int PERIODS[] = {1, 2, 3, 4, 6};

static void drop_marks(struct frame *f) {
    for (int k = 0; k < f->num_marks; k++) free(f->marks[k].structure), free(f->marks[k].ahead);
    f->num_marks = 0;
}

static void drop_probe(struct frame *f) {
    if (f->probe) free(f->probe->sums), free(f->probe->taken), free(f->probe->must_equal.structure), free(f->probe->must_equal.ahead), free(f->probe);
    f->probe = NULL;
}

void drop_frame(struct frame *f) {
    drop_marks(f);
    free(f->marks);
    drop_probe(f);
    f->marks = NULL;
}

static struct mark take_mark(const struct model *m, const struct timed_tile *lead) {
    size_t room = 0;
    for (int n = 0; n < m->t->chip.tiles; n++) {
        const struct timed_tile *const b = m->tiles + n;
        room += 3 + 2 * QUEUED_ENGINES * MAX_QUEUE;
        for (int k = 0; k < b->depth; k++) room += 1 + 2 * (size_t)m->s->steps[b->frames[k].loop].num_carried;
    }
    struct mark mark = {lead->now, malloc(room * sizeof(i64)), malloc((room + NUM_FLUIDS) * sizeof(double)), 0, 0};
    for (int n = 0; n < m->t->chip.tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        const int is_idle = b->is_at_barrier || b->is_done;
        mark.structure[mark.num_structure++] = (i64)b->at << 1 | is_idle;
        mark.structure[mark.num_structure++] = b->depth;
        for (int k = 0; k < b->depth; k++) {
            const struct timed_step *const loop = m->s->steps + b->frames[k].loop;
            mark.structure[mark.num_structure++] = b->frames[k].loop;
            for (int c = 0; c < loop->num_carried; c++) {
                const struct timed_value v = b->registers[m->s->indices[loop->first_carried + c]];
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
                mark.structure[mark.num_structure++] = (i64)m->s->steps[i->step].record << 8 | (i->has_end ? 255 : i->missing);
                mark.ahead[mark.num_ahead++] = (i->has_end ? i->end : i->has_start ? i->start : i->ready) - mark.now;
                if (i->flow) mark.ahead[mark.num_ahead++] = i->rest;
            }
        }
        mark.structure[mark.num_structure++] = -1;
    }
    for (int f = 0; f < NUM_FLUIDS; f++)
        if (m->fluids[f].num_flowing) mark.ahead[mark.num_ahead++] = m->fluids[f].now - mark.now;
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
    *clocks++ = b->now;
    for (int f = 0; f < NUM_FLUIDS; f++) *clocks++ = m->fluids[f].now;
    for (int e = 0; e < QUEUED_ENGINES; e++) {
        clocks[e] = 0.0;
        for (int k = 0; k < b->queues[e].num; k++) {
            const struct issued *const i = at_queue(&b->queues[e], k);
            if (i->has_end) clocks[e] = larger(clocks[e], i->end);
        }
    }
}

static size_t num_record_sums(const struct model *m) { return (size_t)(m->s->end - m->s->first) * PER_RECORD; }
static size_t num_counters(const struct model *m) { return (size_t)m->t->chip.tiles * PER_TILE; }

static void begin_probe(struct model *m, struct timed_tile *b, struct frame *f, i64 period, struct mark *mark, double cycles) {
    struct probe *const p = f->probe = calloc(1, sizeof *p);
    p->period = period, p->turn = f->turn, p->cycles = cycles, p->is_settled = mark != NULL, p->last_serial = m->serial;
    if (mark) p->must_equal = *mark;
    read_clocks(m, b, p->clocks);
    for (int f = 0; f < NUM_FLUIDS; f++) p->moved[f] = m->fluids[f].moved;
    for (int n = 0; n < m->t->chip.tiles; n++) {
        p->depth[n] = m->tiles[n].depth;
        memcpy(p->bytes[n], m->tiles[n].bytes, sizeof p->bytes[n]);
        memcpy(p->links[n], m->tiles[n].links, sizeof p->links[n]);
        for (int k = 0; k < m->tiles[n].depth; k++) p->turns[n][k] = m->tiles[n].frames[k].turn;
    }
    p->sums = malloc((num_record_sums(m) + num_counters(m)) * sizeof(double));
    memcpy(p->sums, m->records, num_record_sums(m) * sizeof(double));
    memcpy(p->sums + num_record_sums(m), m->counters, num_counters(m) * sizeof(double));
    const i64 size = m->s->end - m->s->first;
    p->taken = m->cursors ? malloc((size_t)(m->t->chip.tiles * size) * sizeof *p->taken) : NULL;
    for (i64 n = 0; p->taken && n < m->t->chip.tiles; n++)
        for (i64 k = 0; k < size; k++) p->taken[n * size + k] = m->cursors[n * m->t->num_records + m->s->first + k].taken;
}

/* Of a tile, what its cursors have given since the probe. */
static i64 loaded_since(const struct model *m, const struct timed_tile *b, const struct probe *p, const struct timed_step *s) {
    return cursor_of(m, b, s)->taken - p->taken[b->number * (m->s->end - m->s->first) + s->record];
}

static i64 turns_alike(const struct model *m, const struct timed_tile *b, const struct probe *p, int loop, i64 most) {
    for (const struct timed_step *s = m->s->steps + loop + 1; m->cursors && s < m->s->steps + m->s->steps[loop].target; s++) {
        const i64 count = is_loaded(s) ? loaded_since(m, b, p, s) : 0, times = count ? repeats(cursor_of(m, b, s), count) : most;
        most = times < most ? times : most;
    }
    return most;
}

static void load_again(struct model *m, const struct timed_tile *b, const struct probe *p, int loop, i64 times) {
    for (const struct timed_step *s = m->s->steps + loop + 1; m->cursors && s < m->s->steps + m->s->steps[loop].target; s++) {
        const i64 more = is_loaded(s) ? loaded_since(m, b, p, s) * times : 0;
        if (more) cursor_of(m, b, s)->used += more, cursor_of(m, b, s)->taken += more;
    }
}

static double cycles_left(const struct model *m, const struct issued *i, double now) {
    if (i->has_end) return i->end - now;
    return i->flow == FLOWS ? i->rest / rate_of(m, i) - (now - m->fluids[fluid_of(i)].now) : 0.0;
}

static int is_old(const struct probe *p, const struct issued *i, double now) {
    return !p->is_settled && i->serial <= p->last_serial && (!i->has_end || i->end > now);
}

/* Has nothing happened since the probe but on this kernel core, which issued nothing? Then nobody else needs to be where it is. */
static int runs_alone(const struct model *m, const struct timed_tile *lead, const struct probe *p) {
    int is_alone = m->serial == p->last_serial;
    for (int n = 0; n < m->t->chip.tiles && is_alone; n++) {
        const struct timed_tile *const b = m->tiles + n;
        is_alone &= b == lead || b->depth == p->depth[n];
        for (int k = 0; b != lead && is_alone && k < b->depth; k++) is_alone &= b->frames[k].turn == p->turns[n][k];
    }
    return is_alone;
}

/* A tile's turns are left out. */
static void note_turns(const struct model *m, const struct timed_tile *b, const struct frame *f, i64 turns, double cycles) {
    const i32 record = m->s->steps[f->loop].record;
    tell(m, (struct timed_note){.start = b->now, .end = b->now + cycles, .amount = (double)turns, .record = record, .what = NOTED_TURNS, .tile = (i16)b->number, .engine = ENGINE_KC});
}

/* Everything that happened since the probe happens again, as often as it is sure to. */
static void skip_turns(struct model *m, struct timed_tile *lead, struct frame *frame, const struct probe *p) {
    struct frame *moved[MAX_TIMED_TILES] = {NULL};
    i64 turns[MAX_TIMED_TILES], times = INT64_MAX;
    int num_moved = 0;
    const int is_alone = runs_alone(m, lead, p);
    for (int n = 0; n < m->t->chip.tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        if (is_alone && b != lead) continue;
        int is_elsewhere = b->is_at_barrier, changed = 0;
        for (int k = 0; k < b->depth; k++) is_elsewhere &= b->frames[k].loop != frame->loop;
        if (b->is_done || is_elsewhere) continue;
        if (b->depth != p->depth[n]) return;
        for (int k = 0; k < b->depth; k++) {
            if (b->frames[k].turn == p->turns[n][k]) continue;
            changed++, moved[n] = b->frames + k, turns[n] = b->frames[k].turn - p->turns[n][k];
        }
        if (changed != 1 || turns[n] < 0) return;
        if (!p->is_settled && m->s->steps[moved[n]->loop].num_carried) return;
        num_moved++;
    }
    if (!num_moved) return;
    for (int n = 0; n < m->t->chip.tiles; n++) {
        if (!moved[n]) continue;
        const i64 first = moved[n]->turn + (m->tiles + n != lead), left = moved[n]->total - first - LAST_TURNS;
        const i64 most = left < 0 ? -1 : left / turns[n];
        times = most < times ? most : times;
    }
    for (int n = 0; n < m->t->chip.tiles; n++)
        if (moved[n]) times = turns_alike(m, m->tiles + n, p, moved[n]->loop, times);
    for (int n = 0; n < m->t->chip.tiles && times > 0; n++) {
        if (!moved[n] || !m->s->steps[moved[n]->loop].varies) continue;
        const i64 first = moved[n]->turn + (m->tiles + n != lead);
        times = equal_turns(m, m->tiles + n, moved[n], first, turns[n], times);
    }
    double clocks[NUM_CLOCKS], pace = -INFINITY;
    read_clocks(m, lead, clocks);
    for (int k = 0; k < NUM_CLOCKS; k++) pace = larger(pace, clocks[k] - p->clocks[k]);
    if (p->is_settled) pace = lead->now - p->clocks[0];
    for (int n = 0; n < m->t->chip.tiles && !p->is_settled && !is_alone; n++) {
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
    const double more = (double)times, *const sums = p->sums + num_record_sums(m);
    for (size_t k = 0; k < num_record_sums(m); k++) m->records[k] += (m->records[k] - p->sums[k]) * more;
    for (size_t k = 0; k < num_counters(m); k++) m->counters[k] += (m->counters[k] - sums[k]) * more;
    const double now = lead->now;
    if (is_alone) {
        struct frame *const own = moved[lead->number];
        note_turns(m, lead, own, turns[lead->number] * times, cycles);
        own->turn += turns[lead->number] * times, lead->now += cycles;
        load_again(m, lead, p, own->loop, times);
        return;
    }
    for (int f = 0; f < NUM_FLUIDS; f++) {
        const double rate = (m->fluids[f].moved - p->moved[f]) / larger(pace, 1.0);
        tell(m, (struct timed_note){.start = m->fluids[f].now, .amount = rate, .what = f == FLUID_DDR ? NOTED_DDR : NOTED_NOC});
        m->fluids[f].moved += rate * cycles;
    }
    for (int n = 0; n < m->t->chip.tiles; n++) {
        struct timed_tile *const b = m->tiles + n;
        for (int k = 0; k < LINKS_OF_TILE; k++) b->links[k] += (b->links[k] - p->links[n][k]) * more;
        for (int e = 0; e < QUEUED_ENGINES; e++) {
            b->bytes[e] += (b->bytes[e] - p->bytes[n][e]) * more;
            for (int k = 0; k < b->queues[e].num; k++) {
                struct issued *const i = at_queue(&b->queues[e], k);
                if (is_old(p, i, now)) {
                    if (i->flow == FLOWS) i->rest -= rate_of(m, i) * cycles;
                    continue;
                }
                i->issue += cycles, i->ready += cycles, i->free += cycles, i->start += cycles, i->end += cycles;
            }
        }
        if (!moved[n]) continue;
        note_turns(m, b, moved[n], turns[n] * times, cycles);
        moved[n]->turn += turns[n] * times, b->now += cycles;
        load_again(m, b, p, moved[n]->loop, times);
    }
    for (struct fluid *f = m->fluids; f < m->fluids + NUM_FLUIDS; f++) {
        f->now += cycles;
        for (int k = 0; k < f->num_coming; k++) f->coming[k]->flows_at += cycles;
    }
}

static i64 long_period(int rotation) { return (LONG_PERIOD / rotation + (LONG_PERIOD % rotation > 0)) * rotation; }

void end_turn(struct model *m, struct timed_tile *b, struct frame *f) {
    if (f->probe) {
        struct probe *const p = f->probe;
        if (f->turn < p->turn + p->period) return;
        int repeats = !p->is_settled && (!p->is_own || runs_alone(m, b, p));
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
    const int rotation = m->s->steps[f->loop].rotation;
    for (size_t k = 0; k < sizeof PERIODS / sizeof *PERIODS; k++) {
        const int period = PERIODS[k] * rotation;
        if (f->num_marks <= period || !equals(mark, mark - period)) continue;
        struct mark copy = take_mark(m, b);
        begin_probe(m, b, f, period, &copy, mark->now - mark[-period].now);
        return;
    }
    if (f->num_marks >= MOST_TURNS) {
        begin_probe(m, b, f, long_period(rotation), NULL, 0.0);
        drop_marks(f);
    }
}

/* Has nobody issued anything for many turns of the loop, or is that being probed? */
int is_quiet(const struct model *m, struct frame *f) {
    if (f->quiet_serial != m->serial) f->quiet_serial = m->serial, f->quiet_turn = f->turn;
    return f->probe || f->turn - f->quiet_turn >= MOST_TURNS;
}

/* Of a tile that does not lead: others may lead for long and wait meanwhile. */
void end_own_turn(struct model *m, struct timed_tile *b, struct frame *f) {
    if (!f->probe) {
        begin_probe(m, b, f, long_period(m->s->steps[f->loop].rotation), NULL, 0.0);
        f->probe->is_own = 1;
        return;
    }
    if (f->turn < f->probe->turn + f->probe->period) return;
    if (f->probe->is_own && runs_alone(m, b, f->probe)) skip_turns(m, b, f, f->probe);
    drop_probe(f);
    f->quiet_turn = f->turn;
}
