/* Chains: elementwise records in a row on the same number of elements, run block by block so that intermediates stay in the first cache.
 *
 *     RDMA a; b = a * a; c = b + a; WDMA c     is run as     for each block: RDMA a'; b' = a' * a'; c' = b' + a'; WDMA c'
 *
 * That gives the same bits if any two records' ranges, one of them written, are either apart or the same elements. A record that breaks
 * the rule, faults, or is not dense ends the chain before it.
 */
#include "core.h"

#define MAX_LINKS 24
#define BLOCK_BYTES 16384
#define WORTH_ELEMENTS 512

static int are_apart(const u8 *a, i64 a_bytes, const u8 *b, i64 b_bytes) { return a + a_bytes <= b || b + b_bytes <= a; }

/* May writing (dst, bytes) by one record and accessing (p, width) by another, n elements each, be interleaved block by block? */
static int are_compatible(const u8 *dst, i64 bytes, const u8 *p, i64 width, i64 n) {
    return (dst == p && bytes == width) || are_apart(dst, n * bytes, p, n * width);
}

static int fits(const struct link *links, int num, const struct link *new) {
    for (int i = 0; i < num; i++) {
        const struct link *const old = links + i;
        if (!are_compatible(old->dst, old->dst_bytes, new->dst, new->dst_bytes, new->n)) return 0;
        for (int k = 0; k < new->num; k++)
            if (!are_compatible(old->dst, old->dst_bytes, new->src[k], new->src_bytes[k], new->n)) return 0;
        for (int k = 0; k < old->num; k++)
            if (!are_compatible(new->dst, new->dst_bytes, old->src[k], old->src_bytes[k], new->n)) return 0;
    }
    return 1;
}

static i64 widest(const struct link *links, int num) {
    i64 bytes = 1;
    for (int i = 0; i < num; i++) {
        bytes = links[i].dst_bytes > bytes ? links[i].dst_bytes : bytes;
        for (int k = 0; k < links[i].num; k++) bytes = links[i].src_bytes[k] > bytes ? links[i].src_bytes[k] : bytes;
    }
    return bytes;
}

/* Asks for the part of the next block's DDR data that falls to link `k`, so that loading it overlaps with computing this block. */
static void prefetch_next(const struct link *links, int num, int k, i64 next, i64 count) {
    if (count <= 0) return;
    for (int i = 0; i < num; i++) {
        if (links[i].step->form != FORM_RDMA) continue;
        const i64 bytes = count * links[i].src_bytes[0], first = bytes * k / num, last = bytes * (k + 1) / num;
        const u8 *const p = links[i].src[0] + next * links[i].src_bytes[0];
        for (i64 line = first & ~(i64)63; line < last; line += 64) __builtin_prefetch(p + line, 0, 2);
    }
}

i64 run_chain(struct context *c, i64 at) {
    struct link links[MAX_LINKS];
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
            if (resolve_link(c, new) || !new->is_plain || new->n != (num ? links[0].n : new->n) || !fits(links, num, new)) break;
            if (num == 0 && new->n < WORTH_ELEMENTS) break;
            num++;
        }
    }
    if (num == 0) return at;
    const i64 n = links[0].n, block = BLOCK_BYTES / widest(links, num);
    if (num == 1) {
        apply_link(links, 0, n);
        return next;
    }
    for (i64 i = 0; i < n; i += block) {
        const i64 rest = n - i - block;
        for (int k = 0; k < num; k++) {
            prefetch_next(links, num, k, i + block, rest < block ? rest : block);
            apply_link(links + k, i, rest < 0 ? n - i : block);
        }
    }
    return next;
}
