/* Strided loads put off: an RDMA of a box of blocks only notes where SPM's bytes are in DDR, and the matrix engine packs its operands from
 * there. The copy in SPM, of which DDR's order is far from the packed one, is made only if something else reads it.
 *
 * As in deferred.c SPM reads as if every noted load had been copied: whoever asks for a range of SPM has the boxes there copied first,
 * unless it knows of them. No two boxes, and no box and dense load, overlap in SPM.
 */
#include "blocked.h"

static void settle(const struct box_load *b) {
    struct level levels[LEVELS];
    memcpy(levels, b->levels, sizeof levels);
    load_levels(b->dst, b->src, b->run, levels, LEVELS);
}

/* Forgets the boxes that meet [start, start + bytes) of SPM, or of what they read, and copies those that are not `forgotten` first. */
static void remove_boxes(struct tile *t, const u8 *start, i64 bytes, int is_source, int is_overwritten) {
    int kept = 0;
    for (int i = 0; i < t->num_boxes; i++) {
        const struct box_load *const b = t->boxes + i;
        const int is_met = is_source ? overlap(b->src, b->src_bytes, start, bytes) : overlap(b->dst, b->bytes, start, bytes);
        const int is_dead = is_overwritten && start <= b->dst && b->dst + b->bytes <= start + bytes;
        if (is_met && !is_dead) settle(b);
        if (!is_met) t->boxes[kept++] = *b;
    }
    t->num_boxes = kept;
}

void settle_boxes(struct tile *t, const u8 *start, i64 bytes) { remove_boxes(t, start, bytes, 0, 0); }
void settle_box_sources(struct tile *t, const u8 *start, i64 bytes) { remove_boxes(t, start, bytes, 1, 0); }
void overwrite_boxes(struct tile *t, const u8 *start, i64 bytes) { remove_boxes(t, start, bytes, 0, 1); }

int defer_box(struct context *c) {
    struct tile *const t = c->tile;
    struct box_load box;
    if (t->num_boxes == MAX_BOXES || resolve_box(c, &box)) return 0; /* a fault is met again by who executes the record */
    settle_range(t, box.dst, box.bytes);
    t->boxes[t->num_boxes++] = box;
    return 1;
}

const struct box_load *find_box(const struct tile *t, const u8 *dst, const struct blocked *l) {
    if (l->batch > 1 || l->tail) return NULL;
    for (int i = 0; i < t->num_boxes; i++) {
        const struct box_load *const b = t->boxes + i;
        const int fits = b->run == l->width * l->bytes && b->levels[0].n == l->points && b->levels[1].n == l->num_blocks && b->levels[2].n == 1;
        if (b->dst == dst && b->bytes == l->size && fits) return b;
    }
    return NULL;
}
