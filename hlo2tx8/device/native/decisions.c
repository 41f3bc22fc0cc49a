/* Keeps what a run loads into registers, see device/decisions.py. */
#include <stdlib.h>

#include "core.h"

void forget_decisions(struct machine *m) {
    for (int i = 0; i < m->num_tiles; i++) {
        free(m->tiles[i].decisions.rows), free(m->tiles[i].decisions.last);
        memset(&m->tiles[i].decisions, 0, sizeof m->tiles[i].decisions);
    }
}

void keep_decision(struct machine *m, struct tile *t, i64 record, i64 number) {
    struct decisions *const d = &t->decisions;
    if (!m->decides[record]) return;
    if (!d->last) d->last = calloc((size_t)m->num_records, sizeof *d->last);
    if (d->last && d->last[record] && d->rows[d->last[record] - 1].number == number) {
        d->rows[d->last[record] - 1].times++;
        return;
    }
    if (d->num == d->room && d->num < m->most_decisions) {
        const i64 room = d->room ? 2 * d->room : 64;
        struct decision *const rows = realloc(d->rows, (size_t)room * sizeof *rows);
        if (rows) d->rows = rows, d->room = room;
    }
    if (!d->last || d->num >= d->room || d->num >= m->most_decisions) return;
    d->rows[d->num] = (struct decision){t - m->tiles, record, number, 1};
    d->last[record] = (i32)++d->num;
}

/* What records load where `decides` is not 0, the first `most` rows of each tile; keeps `decides`, NULL for nothing. Between two runs. */
EXPORTED void tx8_keep_decisions(struct machine *m, const u8 *decides, i64 most) {
    forget_decisions(m);
    m->decides = decides, m->most_decisions = most;
}

/* The number of rows of the last run, and those of each tile for which there is room. */
EXPORTED i64 tx8_decisions(const struct machine *m, struct decision *rows, i64 room) {
    i64 num = 0;
    for (int i = 0; i < m->num_tiles; i++) {
        const struct decisions *const d = &m->tiles[i].decisions;
        if (d->num && num + d->num <= room) memcpy(rows + num, d->rows, (size_t)d->num * sizeof *rows);
        num += d->num;
    }
    return num;
}
