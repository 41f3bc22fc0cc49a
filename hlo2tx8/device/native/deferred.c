/* Loads put off: an RDMA of a dense range only notes where SPM's bytes are in DDR, and a chain reads them there. Most loads are read
 * once or twice before the next one replaces them, so the copy is never made.
 *
 * Invariant: SPM reads as if every noted load had been copied. A record that does not know about them, a range they cover in part, a
 * write to the DDR they come from make the copies first, and so does a barrier, unless nobody writes to that DDR up to the next one.
 */
#include "core.h"

#define WORTH_BYTES 4096

static int overlap(const u8 *a, i64 a_bytes, const u8 *b, i64 b_bytes) { return a < b + b_bytes && b < a + a_bytes; }
static int covers(const u8 *a, i64 a_bytes, const u8 *b, i64 b_bytes) { return a <= b && b + b_bytes <= a + a_bytes; }

int reads_pending(const struct tile *t, const u8 *start, i64 bytes) {
    for (int i = 0; i < t->num_deferred; i++)
        if (overlap(t->deferred[i].src, t->deferred[i].bytes, start, bytes)) return 1;
    return meets_sources(t, start, bytes);
}

int is_deferred(const struct tile *t, const u8 *start, i64 bytes) {
    int found = 0;
    for (int i = 0; i < t->num_deferred; i++) found |= overlap(t->deferred[i].dst, t->deferred[i].bytes, start, bytes);
    return found;
}

enum staying staying_of(struct machine *m, i64 slot) {
    u8 known = __atomic_load_n(m->stays + slot, __ATOMIC_RELAXED);
    if (known) return known;
    known = m->stores[slot] ? STAYS_NAMED : STAYS;
    const struct tx8_slot *const own = m->slots + slot;
    for (i64 i = 0; i < m->num_slots; i++) /* arrays of the caller may overlap */
        if (i != slot && m->stores[i] && overlap(own->data, own->size, m->slots[i].data, m->slots[i].size)) known = STAYS_NOT;
    __atomic_store_n(m->stays + slot, known, __ATOMIC_RELAXED);
    return known;
}

static void settle(struct tile *t, const struct deferred_load *d) {
    reach_spm(t, d->dst - t->spm, d->dst - t->spm + d->bytes);
    memcpy(d->dst, d->src, (size_t)d->bytes);
}

void settle_loads(struct tile *t) {
    for (int i = 0; i < t->num_deferred; i++) settle(t, t->deferred + i);
    t->num_deferred = 0;
}

void meet_others(struct machine *m, struct tile *t) {
    int kept = 0;
    const i64 phase = phase_after(m, t->at);
    const int is_read = may_gather(m, phase);
    for (int i = 0; i < t->num_deferred; i++) {
        if (!is_read && !changes(m, phase, t->deferred[i].slot)) t->deferred[kept++] = t->deferred[i];
        else settle(t, t->deferred + i);
    }
    t->num_deferred = kept;
    settle_changing_boxes(m, t, phase);
}

static void settle_those(struct tile *t, const u8 *start, i64 bytes, int is_source) {
    int kept = 0;
    for (int i = 0; i < t->num_deferred; i++) {
        const struct deferred_load *const d = t->deferred + i;
        if (overlap(is_source ? d->src : d->dst, d->bytes, start, bytes)) settle(t, d);
        else t->deferred[kept++] = *d;
    }
    t->num_deferred = kept;
}

void settle_range(struct tile *t, const u8 *start, i64 bytes) { settle_those(t, start, bytes, 0); }
void settle_sources(struct tile *t, const u8 *start, i64 bytes) { settle_those(t, start, bytes, 1); }

/* The one put off first has been read for the last time, most likely. */
static void settle_first(struct tile *t) {
    settle(t, t->deferred);
    memmove(t->deferred, t->deferred + 1, (size_t)--t->num_deferred * sizeof *t->deferred);
}

/* Does a load have bytes both in front of and behind a range? */
static int is_cut_in_two(const struct tile *t, const u8 *start, i64 bytes) {
    for (int i = 0; i < t->num_deferred; i++) {
        const struct deferred_load *const d = t->deferred + i;
        if (d->dst < start && start + bytes < d->dst + d->bytes) return 1;
    }
    return 0;
}

int overwrite_loads(struct tile *t, const u8 *start, i64 bytes) {
    if (is_cut_in_two(t, start, bytes)) return 0;
    int kept = 0;
    for (int i = 0; i < t->num_deferred; i++) {
        struct deferred_load d = t->deferred[i];
        if (overlap(start, bytes, d.dst, d.bytes)) {
            const i64 before = start - d.dst, behind = d.dst + d.bytes - (start + bytes);
            if (before <= 0 && behind <= 0) continue;
            if (behind > 0) d.dst += d.bytes - behind, d.src += d.bytes - behind;
            d.bytes = behind > 0 ? behind : before;
        }
        t->deferred[kept++] = d;
    }
    t->num_deferred = kept;
    return 1;
}

void add_load(struct tile *t, const struct deferred_load *load) {
    if (t->num_deferred == MAX_DEFERRED) settle_first(t);
    t->deferred[t->num_deferred++] = *load;
}

int defer_load(struct context *c) {
    struct tile *const t = c->tile;
    struct link k;
    if (operand(c, RDMA__N1) > 1 && operand(c, RDMA__S1) != operand(c, RDMA__COUNT)) return 0; /* not dense */
    c->only_notes = 1;
    const int is_other = resolve_dma(c, &k);
    c->only_notes = 0;
    if (is_other) return 0; /* a fault is met again by who executes the record */
    const i64 bytes = k.n * k.dst_bytes;
    if (bytes < WORTH_BYTES || (uintptr_t)k.src[0] % (uintptr_t)k.dst_bytes) return 0;
    if (!overwrite_loads(t, k.dst, bytes)) return -1;
    add_load(t, &(struct deferred_load){k.dst, k.src[0], bytes, operand(c, RDMA__SLOT)});
    follow_load(t, k.src[0], bytes);
    return 1;
}

int read_deferred(struct tile *t, struct link *k) {
    const u8 *src[3];
    const struct deferred_load *read[3] = {NULL, NULL, NULL};
    const int writes_ddr = k->step->form == FORM_WDMA;
    for (int i = 0; i < k->num; i++) {
        const i64 bytes = k->n * k->src_bytes[i];
        src[i] = k->src[i];
        for (int j = 0; j < t->num_deferred; j++) {
            const struct deferred_load *const d = t->deferred + j;
            if (!overlap(k->src[i], bytes, d->dst, d->bytes)) continue;
            if (!covers(d->dst, d->bytes, k->src[i], bytes)) return -1;
            read[i] = d;
            src[i] = d->src + (k->src[i] - d->dst);
            if ((uintptr_t)src[i] % (uintptr_t)k->src_bytes[i]) return -1;
        }
    }
    const i64 written = k->n * k->dst_bytes;
    for (int j = 0; j < t->num_deferred; j++) {
        const struct deferred_load *const d = t->deferred + j;
        if (writes_ddr && overlap(k->dst, written, d->src, d->bytes)) return -1;
        if (k->step->form == FORM_MASK_MOVE && overlap(k->dst, written, d->dst, d->bytes)) return -1; /* it reads dst too */
    }
    if (!writes_ddr && is_cut_in_two(t, k->dst, written)) return -1;
    memcpy(k->src, src, sizeof(src[0]) * (size_t)k->num);
    for (int i = 0; i < k->num; i++)
        if (read[i]) note_read(t, read[i]->src, read[i]->bytes);
    return 0;
}

const u8 *read_in_place(struct tile *t, const u8 *src, i64 bytes, const u8 *target, i64 target_bytes) {
    const u8 *found = src;
    int is_mixed = 0;
    for (int i = 0; i < t->num_deferred; i++) {
        const struct deferred_load *const d = t->deferred + i;
        is_mixed |= overlap(target, target_bytes, d->dst, d->bytes);
        if (!overlap(src, bytes, d->dst, d->bytes)) continue;
        if (covers(d->dst, d->bytes, src, bytes)) found = d->src + (src - d->dst);
        else is_mixed = 1;
        note_read(t, d->src, d->bytes);
    }
    if (!is_mixed) return found;
    settle_range(t, src, bytes);
    settle_range(t, target, target_bytes);
    return src;
}

void overwrite_deferred(struct tile *t, const struct link *k) {
    if (k->step->form != FORM_WDMA) overwrite_loads(t, k->dst, k->n * k->dst_bytes);
}
