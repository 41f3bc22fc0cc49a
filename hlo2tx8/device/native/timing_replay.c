/* What a run decided, handed out again: see timing/replay.py. */
#include <stdlib.h>

#include "timing_model.h"

enum { ROW_TILE, ROW_RECORD, ROW_NUMBER, ROW_TIMES, ROW_SIZE };

/* Of all records of all tiles; NULL without decisions. */
struct cursor *make_cursors(const struct timing *t) {
    if (!t->decisions) return NULL;
    struct cursor *const cursors = calloc((size_t)(t->chip.tiles * t->num_records) + 1, sizeof *cursors);
    for (i64 k = 0; k < t->num_decisions; k++) {
        const i64 *const row = t->decisions + k * ROW_SIZE;
        if (row[ROW_TILE] < 0 || row[ROW_TILE] >= t->chip.tiles || row[ROW_RECORD] < 0 || row[ROW_RECORD] >= t->num_records) continue;
        struct cursor *const c = cursors + row[ROW_TILE] * t->num_records + row[ROW_RECORD];
        if (!c->num_rows++) c->row = row;
    }
    return cursors;
}

struct cursor *cursor_of(const struct model *m, const struct timed_tile *b, const struct timed_step *s) {
    return m->cursors ? m->cursors + b->number * m->t->num_records + m->s->first + s->record : NULL;
}

/* The next number a record loads, not known if the run does not tell. */
struct timed_value take(struct cursor *c) {
    if (c && c->num_rows && c->used == c->row[ROW_TIMES]) c->row += ROW_SIZE, c->num_rows--, c->used = 0;
    if (!c || !c->num_rows) return (struct timed_value){0, 0, 0};
    c->used++, c->taken++;
    return (struct timed_value){c->row[ROW_NUMBER], 1, 0};
}

/* The one before that. */
struct timed_value taken_last(const struct cursor *c) {
    const int is_known = c && c->taken && c->num_rows;
    return (struct timed_value){is_known ? c->row[ROW_NUMBER] : 0, is_known, 0};
}

/* How often the last `count` numbers come again for certain: all of them and those are in one row. */
i64 repeats(const struct cursor *c, i64 count) {
    return c->used < count || !c->num_rows ? 0 : (c->row[ROW_TIMES] - c->used) / count;
}
