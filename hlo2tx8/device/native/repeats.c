/* What TDMA has written several times in a row, as a norm's factors are for every row of a step: a chain reads it in one place, which stays in
 * the first cache.
 *
 * Invariant: SPM is what is noted. Whatever may write there, which is all that asks for the range and is no source of a chain, has it
 * forgotten. */
#include "core.h"

#define WORTH_BYTES 8192

void note_repeat(struct context *c, const u8 *start, i64 period, i64 n) {
    struct tile *const t = c->tile;
    if (n == 1 || period * n < WORTH_BYTES || may_send(c->machine, t->phase)) return;
    if (t->num_repeats == MAX_REPEATS) memmove(t->repeats, t->repeats + 1, sizeof *t->repeats * (size_t)--t->num_repeats);
    t->repeats[t->num_repeats++] = (struct repeat){start, period * n, period};
}

void forget_repeats(struct tile *t, const u8 *start, i64 bytes) {
    int kept = 0;
    for (int i = 0; i < t->num_repeats; i++) {
        const struct repeat *const r = t->repeats + i;
        if (start >= r->start + r->bytes || r->start >= start + bytes) t->repeats[kept++] = *r;
    }
    t->num_repeats = kept;
}

/* Of a source of n elements that is read a block at a time, each within one turn. */
static i64 find_turn(const struct tile *t, const u8 *src, i64 n, i64 bytes, i64 block) {
    for (int i = 0; i < t->num_repeats; i++) {
        const struct repeat *const r = t->repeats + i;
        const i64 period = r->period / bytes, at = src - r->start;
        if (at < 0 || at + n * bytes > r->bytes || at % r->period || r->period % bytes) continue;
        return block % period == 0 ? block : period % block == 0 ? period : 0;
    }
    return 0;
}

void find_turns(const struct tile *t, struct link *k, i64 block) {
    for (int i = 0; i < k->num; i++) k->turn[i] = find_turn(t, k->src[i], k->n, k->src_bytes[i], block);
}
