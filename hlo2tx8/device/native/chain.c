/* Chains: elementwise records in a row on the same number of elements, run block by block so that intermediates stay in the first cache.
 *
 *     RDMA a; b = a * a; c = b + a; WDMA c     is run as     for each block: RDMA a'; b' = a' * a'; c' = b' + a'; WDMA c'
 *
 * That gives the same bits if any two records' ranges, one of them written, are either apart or the same elements. A record that breaks
 * the rule, faults, or is not dense ends the chain before it.
 */
#include "core.h"

#define MAX_LINKS 24
#define BLOCK_BYTES 4096
#define WORTH_ELEMENTS 512
#define MAX_STREAMS 8

/* Bytes that links access as elements of one width. */
struct region {
    const u8 *start;
    i64 width;
    int is_written;
};

struct regions {
    struct region items[4 * MAX_LINKS];
    int num;
};

/* Adds an access to `n` elements; 0 if it cannot be interleaved, block by block, with those that are there. */
static int add_access(struct regions *r, const u8 *start, i64 width, i64 n, int is_write) {
    struct region *same = NULL;
    for (int i = 0; i < r->num && !same; i++)
        if (r->items[i].start == start && r->items[i].width == width) same = r->items + i;
    if (same && (same->is_written || !is_write)) return 1;
    for (int i = 0; i < r->num; i++) {
        const struct region *const other = r->items + i;
        if (other == same || !(is_write || other->is_written)) continue;
        if (start < other->start + n * other->width && other->start < start + n * width) return 0;
    }
    if (!same) r->items[r->num++] = (struct region){start, width, is_write};
    else same->is_written = 1;
    return 1;
}

static int fits(struct regions *r, const struct link *new) {
    for (int k = 0; k < new->num; k++)
        if (!add_access(r, new->src[k], new->src_bytes[k], new->n, 0)) return 0;
    return add_access(r, new->dst, new->dst_bytes, new->n, 1);
}

static i64 widest(const struct link *links, int num) {
    i64 bytes = 1;
    for (int i = 0; i < num; i++) {
        bytes = links[i].dst_bytes > bytes ? links[i].dst_bytes : bytes;
        for (int k = 0; k < links[i].num; k++) bytes = links[i].src_bytes[k] > bytes ? links[i].src_bytes[k] : bytes;
    }
    return bytes;
}

/* What links read from DDR, `width` bytes an element. */
struct stream {
    const u8 *data;
    i64 width;
};

static int add_stream(struct stream *streams, int num, const u8 *data, i64 width) {
    for (int i = 0; i < num; i++)
        if (streams[i].data == data) return num;
    if (num < MAX_STREAMS) streams[num++] = (struct stream){data, width};
    return num;
}

static int find_streams(const struct context *c, const struct link *links, int num, struct stream *streams) {
    const u8 *const spm = c->tile->spm, *const end = spm + c->machine->spm_bytes;
    int found = 0;
    for (int i = 0; i < num; i++)
        for (int k = 0; k < links[i].num; k++)
            if (links[i].src[k] < spm || links[i].src[k] >= end) found = add_stream(streams, found, links[i].src[k], links[i].src_bytes[k]);
    return found;
}

/* Asks for part `k` of `num` of some bytes, so that loading them overlaps with computing. */
static void prefetch(const u8 *data, i64 bytes, int k, int num) {
    const i64 first = bytes * k / num, last = bytes * (k + 1) / num;
    for (i64 line = first & ~(i64)63; line < last; line += 64) __builtin_prefetch(data + line);
}

/* The next block of each stream; after the last block, the start of the loads put off that this chain does not read. */
static void prefetch_next(const struct tile *t, const struct stream *streams, int num_streams, int k, int num, i64 next, i64 count) {
    for (int i = 0; i < num_streams && count > 0; i++) prefetch(streams[i].data + next * streams[i].width, count * streams[i].width, k, num);
    for (int j = 0; j < t->num_deferred && count <= 0; j++) {
        const struct deferred_load *const d = t->deferred + j;
        int is_read = 0;
        for (int i = 0; i < num_streams; i++) is_read |= streams[i].data == d->src;
        if (!is_read) prefetch(d->src, d->bytes < BLOCK_BYTES ? d->bytes : BLOCK_BYTES, k, num);
    }
}

i64 run_chain(struct context *c, i64 at) {
    struct link links[MAX_LINKS];
    struct regions regions;
    regions.num = 0;
    const i64 end = at + c->step->chain;
    int num = 0;
    i64 next = at;
    for (; next < end && num < MAX_LINKS; next++) {
        c->record = c->machine->code + next * RECORD_WORDS;
        c->step = c->machine->steps + next;
        if (c->step->form == FORM_AFFINE) {
            run_affine(c);
        } else if (c->step->form != FORM_NOTHING) {
            struct link *const new = links + num;
            const int is_deferred = c->step->form == FORM_RDMA ? defer_load(c) : 0;
            if (is_deferred > 0) continue;
            if (is_deferred < 0) {
                if (num) break; /* links so far have not run: what they overwrite must not be settled after them */
                settle_loads(c->tile);
            }
            if (resolve_link(c, new) || !new->is_plain || new->n != (num ? links[0].n : new->n)) break;
            if (num == 0 && new->n < WORTH_ELEMENTS) break;
            if (read_deferred(c->tile, new)) {
                if (num) break;
                settle_loads(c->tile);
            }
            if (!fits(&regions, new)) break;
            overwrite_deferred(c->tile, new);
            num++;
        }
    }
    if (num == 0) return at;
    const i64 n = links[0].n, block = BLOCK_BYTES / widest(links, num);
    if (num == 1) {
        apply_link(links, 0, n);
        return next;
    }
    struct stream streams[MAX_STREAMS];
    const int num_streams = find_streams(c, links, num, streams);
    for (i64 i = 0; i < n; i += block) {
        const i64 rest = n - i - block;
        for (int k = 0; k < num; k++) {
            prefetch_next(c->tile, streams, num_streams, k, num, i + block, rest < block ? rest : block);
            apply_link(links + k, i, rest < 0 ? n - i : block);
        }
    }
    return next;
}
