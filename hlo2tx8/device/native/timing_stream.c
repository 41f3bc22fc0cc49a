/* Instructions that tiles are given one by one: what each asks of its engine is kept until a barrier behind which nothing is under way, then
 * all tiles are followed from there as timing.c follows a program. Loops are followed turn by turn: nobody says where they are. */
#include <stdlib.h>

#include "core.h"
#include "timing_model.h"
#include "timing_stream.h"

#define NUM_BUCKETS 1024
#define NUM_STREAM_KINDS 64 /* that a tile remembers */
#define ALL_QUEUES ((1 << QUEUED_ENGINES) - 1)

/* Of records with the same first word and operands, but for places in DDR. */
struct kept_shape {
    struct kept_shape *next;
    u64 head;
    i64 operands[OPERAND_WORDS];
    struct timed_shape shape;
};

struct stream_of_tile {
    struct timed_kind kinds[NUM_STREAM_KINDS];
    struct kept_shape *shapes[NUM_BUCKETS];
};

struct timed_stream {
    struct timed_model_chip chip;
    const struct timed_kind *kinds;
    struct timing timing;
    struct model model;
    struct timed_events events[MAX_TIMED_TILES];
    struct stream_of_tile *tiles;
    double *counters, records[PER_RECORD], cycles;
};

EXPORTED void tx8_time_destroy(struct timed_stream *s) {
    if (!s) return;
    for (i64 t = 0; t < s->chip.chip.tiles; t++) {
        free(s->events[t].rows);
        for (int b = 0; s->tiles && b < NUM_BUCKETS; b++)
            for (struct kept_shape *k = s->tiles[t].shapes[b], *next; k; k = next) next = k->next, free(k);
    }
    if (s->model.tiles) end_model(&s->model);
    free(s->tiles), free(s->counters), free(s);
}

EXPORTED struct timed_stream *tx8_time_create(const struct timed_model_chip *chip, const struct timed_kind *kinds) {
    if (chip->chip.tiles < 1 || chip->chip.tiles > MAX_TIMED_TILES || chip->chip.queue_depth < 1 || chip->chip.queue_depth >= MAX_QUEUE) return NULL;
    struct timed_stream *const s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->chip = *chip, s->kinds = kinds, s->timing.chip = chip->chip;
    s->tiles = calloc((size_t)chip->chip.tiles, sizeof *s->tiles);
    s->counters = calloc((size_t)chip->chip.tiles * PER_TILE, sizeof *s->counters);
    begin_model(&s->model, &s->timing);
    s->model.events = s->events, s->model.records = s->records, s->model.counters = s->counters;
    if (s->tiles && s->counters && s->model.tiles) return s;
    tx8_time_destroy(s);
    return NULL;
}

EXPORTED void tx8_time_begin(struct timed_stream *s) {
    s->cycles = 0.0;
    for (i64 t = 0; t < s->chip.chip.tiles; t++) s->events[t].num = 0;
}

/* Of a first word: the class's row with the sizes of these formats. */
static struct timed_kind kind_of_head(const struct timed_stream *s, u64 head) {
    const i32 sizes[] = {0, format_bytes((u8)(head >> 16)), format_bytes((u8)(head >> 24))};
    struct timed_kind kind = s->kinds[(u16)head];
    kind.format_bytes = sizes[1];
    kind.cost = (i32)s->chip.beats[kind.cost];
    for (int k = 0; k < kind.num_extents; k++) {
        struct timed_extent_of *const e = kind.extents + k;
        if (e->scale < 0) e->scale = sizes[-e->scale];
        if (e->levels.scale < 0) e->levels.scale = sizes[-e->levels.scale];
    }
    for (int k = 0; k < kind.num_sides; k++)
        if (kind.sides[k].scale < 0) kind.sides[k].scale = sizes[-kind.sides[k].scale];
    return kind;
}

static const struct timed_shape *find_shape(struct timed_stream *s, int tile, const u64 *record) {
    struct stream_of_tile *const own = s->tiles + tile;
    const u64 head = record[0];
    struct timed_kind *const kind = own->kinds + (head ^ head >> 19) % NUM_STREAM_KINDS;
    if (kind->head != head) *kind = kind_of_head(s, head), kind->head = head;
    i64 key[OPERAND_WORDS] = {0};
    u64 hash = head * UINT64_C(0x9E3779B97F4A7C15);
    for (int f = 0; f < kind->num_fields; f++) {
        if (kind->flags[f] & FIELD_IS_PLACE) continue;
        key[f] = (i64)record[HEADER_WORDS + f];
        hash = ((hash ^ (u64)key[f]) * UINT64_C(0x9E3779B97F4A7C15)) ^ hash >> 29;
    }
    struct kept_shape **const bucket = own->shapes + (hash ^ hash >> 40) % NUM_BUCKETS;
    for (struct kept_shape *k = *bucket; k; k = k->next)
        if (k->head == head && !memcmp(k->operands, key, sizeof key)) return &k->shape;
    struct kept_shape *const new = calloc(1, sizeof *new);
    if (!new || cost_of_head(&s->chip, kind, head, key, &new->shape)) {
        free(new);
        return NULL;
    }
    new->head = head, new->next = *bucket, *bucket = new;
    memcpy(new->operands, key, sizeof key);
    return &new->shape;
}

EXPORTED double tx8_time_issue(struct timed_stream *s, int tile, const u64 *record, i64 before) {
    struct timed_events *const e = s->events + tile;
    const u16 opcode = (u16)record[0];
    if (opcode >= NUM_OPCODES || !facts[opcode].is_known) return -1.0;
    if (e->num == e->room) {
        const i64 room = e->room ? 2 * e->room : 256;
        struct timed_event *const more = realloc(e->rows, (size_t)room * sizeof *more);
        if (!more) return -1.0;
        e->rows = more, e->room = room;
    }
    struct timed_event *const new = e->rows + e->num++;
    *new = (struct timed_event){.op = (u8)s->kinds[opcode].op, .engine = (u8)s->kinds[opcode].engine, .before = (i32)before};
    switch ((enum timed_op)new->op) {
    case TIMED_WAIT: new->of.engines = (i64)record[HEADER_WORDS]; return (double)s->chip.chip.wait;
    case TIMED_BARRIER: return (double)s->chip.chip.barrier;
    case TIMED_HALT: return 0.0;
    case TIMED_ISSUE: case TIMED_WORK: break;
    default: return -1.0;
    }
    const struct timed_shape *const shape = find_shape(s, tile, record);
    new->of.shape = shape;
    if (!shape) return -1.0;
    const double port = s->chip.chip.ddr_rate < s->chip.chip.port_rate ? s->chip.chip.ddr_rate : s->chip.chip.port_rate;
    if (shape->is_packet) return shape->cycles + (double)shape->packet_bytes / (double)s->chip.chip.dte_bytes_per_cycle;
    return shape->cycles + shape->ddr_bytes / port;
}

void follow_events(struct model *m, struct timed_tile *b) {
    const struct timed_events *const events = m->events + b->number;
    for (; !b->blocked; b->at++) {
        if (b->at == events->num) {
            b->is_done = 1;
            return;
        }
        const struct timed_event *const e = events->rows + b->at;
        switch ((enum timed_op)e->op) {
        case TIMED_ISSUE:
            if (!issue(m, b, 0, e->engine, e->before, e->of.shape)) return;
            break;
        case TIMED_WORK: work(m, b, e->of.shape, e->before); break;
        case TIMED_WAIT:
            if (!wait_engines(m, b, e->of.engines, e->before)) return;
            break;
        case TIMED_BARRIER:
            spend(m, b, 0, 0, e->before);
            b->is_at_barrier = 1;
            return;
        default: spend(m, b, 0, 0, e->before);
        }
    }
}

/* Have all tiles waited for all engines before they came to this barrier? */
static int is_drained(const struct timed_stream *s) {
    for (i64 t = 0; t < s->chip.chip.tiles; t++) {
        const struct timed_events *const e = s->events + t;
        if (e->num < 2 || e->rows[e->num - 1].op != TIMED_BARRIER || e->rows[e->num - 1].before) return 0;
        const struct timed_event *const wait = e->rows + e->num - 2;
        if (wait->op != TIMED_WAIT || (wait->of.engines & ALL_QUEUES) != ALL_QUEUES) return 0;
    }
    return 1;
}

EXPORTED double tx8_time_follow(struct timed_stream *s, int is_end) {
    if (!is_end && !is_drained(s)) return s->cycles;
    struct timed_part part = {0};
    follow_tiles(&s->model, &part);
    for (i64 t = 0; t < s->chip.chip.tiles; t++) s->events[t].num = 0;
    return s->cycles += part.cycles;
}
