/* Chains: elementwise records in a row on the same number of elements, run block by block so that intermediates stay in the first cache.
 *
 *     RDMA a; b = a * a; c = b + a; WDMA c     is run as     for each block: RDMA a'; b' = a' * a'; c' = b' + a'; WDMA c'
 *
 * A reduction of rows of what a link writes may be the last record: a block is a row then, or some.
 * That gives the same bits if any two records' ranges, one of them written, are either apart or the same elements. A record that breaks
 * the rule, faults, or is not dense ends the chain before it.
 */
#include "reduction.h"

#define MAX_LINKS 24
#define BLOCK_BYTES 4096
#define WORTH_ELEMENTS 512
#define MOST_ROW_BYTES 16384

/* Bytes that links access as elements of one width; 0: in any order. */
struct region {
    const u8 *start;
    i64 bytes, width;
    int is_written;
};

struct regions {
    struct region items[5 * MAX_LINKS];
    int num;
};

/* Adds an access; 0 if it cannot be interleaved, block by block, with those that are there. */
static int add_access(struct regions *r, const u8 *start, i64 bytes, i64 width, int is_write) {
    struct region *same = NULL;
    for (int i = 0; i < r->num && !same; i++)
        if (r->items[i].start == start && r->items[i].width == width && width) same = r->items + i;
    if (same && (same->is_written || !is_write)) return 1;
    for (int i = 0; i < r->num; i++) {
        const struct region *const other = r->items + i;
        if (other == same || !(is_write || other->is_written)) continue;
        if (start < other->start + other->bytes && other->start < start + bytes) return 0;
    }
    if (!same) r->items[r->num++] = (struct region){start, bytes, width, is_write};
    else same->is_written = 1;
    return 1;
}

static int fits(struct regions *r, const struct link *new) {
    for (int k = 0; k < new->num; k++)
        if (!add_access(r, new->src[k], new->n * new->src_bytes[k], new->src_bytes[k], 0)) return 0;
    if (new->whole && !add_access(r, new->whole, new->whole_bytes, 0, 0)) return 0;
    return add_access(r, new->dst, new->n * new->dst_bytes, new->dst_bytes, 1);
}

static i64 widest(const struct link *links, int num) {
    i64 bytes = 1;
    for (int i = 0; i < num; i++) {
        bytes = links[i].dst_bytes > bytes ? links[i].dst_bytes : bytes;
        for (int k = 0; k < links[i].num; k++) bytes = links[i].src_bytes[k] > bytes ? links[i].src_bytes[k] : bytes;
    }
    return bytes;
}

/* Two neighbours as one where the second replaces what the first writes. */
static int join_links(struct link *first, const struct link *second) {
    const int repeats = first->step->form == FORM_UNIT || first->step->form == FORM_UNIT_LOOP;
    const int is_second = second->src[1] == first->dst;
    if (first->pair || first->step->fmt != FORMAT_FP32 || second->step->fmt != FORMAT_FP32 || second->dst != first->dst) return 0;
    if ((first->step->form != FORM_BINARY && !repeats) || second->step->form != FORM_BINARY) return 0;
    if (repeats && (first->u != UNIT_ELEMENTS || (first->round != INT64_MAX && first->round % UNIT_ELEMENTS))) return 0;
    if ((second->src[0] == first->dst) == is_second) return 0;
    first->pair = float_pair_kernel(first->step->fact->function, second->step->fact->function, repeats, is_second);
    first->third = second->src[!is_second], first->third_turn = second->turn[!is_second];
    return first->pair != NULL;
}

static int join_neighbours(struct link *links, int num) {
    int kept = num ? 1 : 0;
    for (int i = 1; i < num; i++)
        if (!join_links(links + kept - 1, links + i)) links[kept++] = links[i];
    return kept;
}

/* May the reduction of record `at` end a chain of links on n elements? */
static int resolve_last(struct context *c, struct reduction *r, struct regions *regions, const struct link *links, int num, i64 at) {
    c->record = c->machine->code + at * RECORD_WORDS;
    c->step = c->machine->steps + at;
    if (resolve_reduce(c, r) || r->dim != DIM_W || r->from.batch > 1 || r->from.channels != LANES_OF_REDUCE) return 0;
    const i64 n = links[0].n, row = r->width * LANES_OF_REDUCE;
    int is_of_link = 0;
    for (int i = 0; i < num; i++) is_of_link |= links[i].dst == r->src && links[i].dst_bytes == r->from.bytes;
    if (!is_of_link || r->from.size != n * r->from.bytes || row * r->from.bytes > MOST_ROW_BYTES) return 0;
    if (is_deferred(c->tile, r->src, r->from.size) || is_deferred(c->tile, r->target, r->to.size)) return 0;
    return add_access(regions, r->target, r->to.size, 0, 1);
}

i64 run_chain(struct context *c, i64 at) {
    struct link links[MAX_LINKS];
    struct regions regions;
    regions.num = 0;
    c->num_units = 0;
    const i64 end = at + c->step->chain;
    int num = 0;
    i64 next = at;
    struct reduction last;
    int has_last = 0;
    for (; next < end && num < MAX_LINKS && !has_last; next++) {
        c->record = c->machine->code + next * RECORD_WORDS;
        c->step = c->machine->steps + next;
        if (c->step->form == FORM_AFFINE) {
            run_affine(c);
        } else if (c->step->form == FORM_REDUCE) {
            has_last = num && resolve_last(c, &last, &regions, links, num, next);
            if (!has_last) break;
        } else if (c->step->form != FORM_NOTHING) {
            struct link *const new = links + num;
            const int is_deferred = c->step->form == FORM_RDMA ? defer_load(c) : 0;
            if (is_deferred > 0) continue;
            if (is_deferred < 0) {
                if (num) break; /* links so far have not run: what they overwrite must not be settled after them */
                settle_loads(c->tile);
            }
            c->knows_repeats = 1;
            const int is_none = resolve_link(c, new);
            c->knows_repeats = 0;
            if (is_none || !new->is_plain || new->n != (num ? links[0].n : new->n)) break;
            if (num == 0 && new->n < WORTH_ELEMENTS) break;
            if (read_deferred(c->tile, new)) {
                if (num) break;
                settle_loads(c->tile);
            }
            if (!fits(&regions, new)) break;
            overwrite_deferred(c->tile, new);
            forget_repeats(c->tile, new->dst, new->n * new->dst_bytes);
            num++;
        }
    }
    if (num == 0) return at;
    const i64 n = links[0].n, row = has_last ? last.width * LANES_OF_REDUCE : 1, some = BLOCK_BYTES / widest(links, num);
    const i64 block = some > row ? some / row * row : row;
    for (int k = 0; n > block && k < num; k++) find_turns(c->tile, links + k, block);
    num = join_neighbours(links, num);
    if (num == 1 && !has_last && n * links[0].dst_bytes < BLOCK_BYTES) {
        apply_link(links, 0, n);
        return next;
    }
    for (i64 i = 0; i < n; i += block) {
        const i64 count = n - i < block ? n - i : block;
        for (int k = 0; k < num; k++) {
            prefetch_beside(c->tile, count * links[k].dst_bytes);
            apply_link(links + k, i, count);
        }
        if (has_last) reduce_range(&last, c->tile, last.target, last.src, i / row, (i + count) / row, row * last.from.bytes);
    }
    return next;
}
