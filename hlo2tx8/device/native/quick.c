/* Records that can be made ready before the run: their places in SPM are written down, in bounds, aligned and apart, and their elements
 * few. Nothing but where in DDR they read or write is looked up when they run, as long as no load is put off. What cannot be made
 * ready, and every fault, is left to execute(). */
#include "core.h"

#define QUICK_BYTES 4096 /* loads of fewer are never put off, and chains of fewer gain nothing */
#define SHORT_ELEMENTS 512 /* no chain begins with fewer */

struct range {
    i64 start, bytes;
};

static int meet(struct range a, struct range b) { return a.start < b.start + b.bytes && b.start < a.start + a.bytes; }

/* Adds a range of SPM to those of the record; 0 if it is out of bounds. */
static int reach(const struct machine *m, struct quick *q, struct range r) {
    if (r.start < 0 || r.bytes < 0 || r.start > m->spm_bytes - r.bytes) return 0;
    if (r.start < q->first) q->first = r.start;
    if (r.start + r.bytes > q->end) q->end = r.start + r.bytes;
    return 1;
}

/* The same for source i. */
static int reach_source(const struct machine *m, struct quick *q, int i, struct range r) {
    q->src[i] = r.start, q->read[i] = r.bytes;
    return reach(m, q, r);
}

/* A vector record: the target first, `num` sources of these widths, then n from operand `at` on. Sources are the target's elements or apart. */
static int find_vectors(const struct machine *m, const i64 *operands, struct quick *q, i64 width, int num, const int *widths, int at) {
    const i64 n = operands[at];
    const struct range target = {operands[0], n * width};
    if (n < 0 || n >= QUICK_BYTES || target.bytes >= QUICK_BYTES || target.start % width || !reach(m, q, target)) return 0;
    for (int i = 0; i < num; i++) {
        const struct range source = {operands[1 + i], n * widths[i]};
        if (source.start % widths[i] || !reach_source(m, q, i, source)) return 0;
        if (meet(source, target) && (source.start != target.start || widths[i] != width)) return 0;
    }
    q->dst = target.start, q->n = n, q->written = target.bytes, q->is_whole = 1;
    return 1;
}

static int is_vector(const struct machine *m, const struct step *s, const i64 *operands, struct quick *q) {
    const int own[] = {s->bytes, s->bytes}, choice[] = {1, s->bytes, s->bytes}, other[] = {s->bytes2};
    u32 imm;
    if (s->is_directed) return 0;
    switch ((enum form)s->form) {
    case FORM_UNARY: return find_vectors(m, operands, q, s->bytes, 1, own, 2);
    case FORM_BINARY: return find_vectors(m, operands, q, s->bytes, 2, own, 3);
    case FORM_SELECT: return find_vectors(m, operands, q, s->bytes, 3, choice, 4);
    case FORM_CONVERT_KC: return find_vectors(m, operands, q, s->bytes, 1, other, 2);
    case FORM_COMPARE:
        q->kernel = operands[KC_VEQ__TOTAL] ? s->other : s->kernel.binary;
        return find_vectors(m, operands, q, 1, 2, own, 3);
    case FORM_VS:
        imm = (u32)operands[CT_ADD_VS__IMM];
        convert_elements(&q->scalar, s->fmt, &imm, FORMAT_FP32, 1);
        return find_vectors(m, operands, q, s->bytes, 1, own, CT_ADD_VS__N);
    case FORM_CONVERT_CT:
        if (operands[CT_CONVERT__ZP] || s->rounding == ROUND_STOCHASTIC) return 0;
        return find_vectors(m, operands, q, s->bytes, 1, other, CT_CONVERT__N);
    default: return 0;
    }
}

/* Strides and turns in pairs from `pairs` on; 0 if one is none. */
static int find_levels(const i64 *pairs, i64 *strides, i64 *turns) {
    for (int i = 0; i < LEVELS; i++) {
        strides[i] = pairs[2 * i], turns[i] = pairs[2 * i + 1];
        if (strides[i] < 0 || turns[i] <= 0) return 0;
    }
    return 1;
}

/* TDMA from one place to another that is apart, both with the same turns. */
static int is_move(const struct machine *m, const i64 *operands, struct quick *q) {
    i64 rs[LEVELS], rn[LEVELS], ws[LEVELS], wn[LEVELS];
    q->n = operands[TDMA_GATHER_SCATTER__RUN_BYTES];
    if (!find_levels(operands + TDMA_GATHER_SCATTER__RS1, rs, rn) || !find_levels(operands + TDMA_GATHER_SCATTER__WS1, ws, wn)) return 0;
    if (q->n <= 0 || memcmp(rn, wn, sizeof rn) || box_product(rn, LEVELS, q->n) < 0) return 0;
    const struct range from = {operands[TDMA_GATHER_SCATTER__SRC], box_extent(rs, rn, LEVELS, q->n)};
    const struct range to = {operands[TDMA_GATHER_SCATTER__DST], box_extent(ws, wn, LEVELS, q->n)};
    if (!reach_source(m, q, 0, from) || !reach(m, q, to) || meet(from, to)) return 0;
    q->is_whole = box_product(wn, LEVELS, q->n) == to.bytes;
    for (int i = 0; i < LEVELS; i++) q->levels[i] = (struct level){rn[i], ws[i], rs[i]};
    q->num = fold_levels(&q->n, q->levels, LEVELS);
    q->dst = to.start, q->written = to.bytes;
    return 1;
}

/* RDMA and WDMA of few bytes. */
static int is_transfer(const struct machine *m, const struct step *s, const i64 *operands, struct quick *q) {
    const int is_load = s->form == FORM_RDMA;
    const i64 count = operands[is_load ? RDMA__COUNT : WDMA__COUNT];
    i64 strides[LEVELS], turns[LEVELS];
    if (count <= 0 || !find_levels(operands + (is_load ? RDMA__S1 : WDMA__S1), strides, turns)) return 0;
    const i64 total = box_product(turns, LEVELS, count), elements = box_extent(strides, turns, LEVELS, count);
    if (total < 0 || total * s->bytes >= QUICK_BYTES || elements < 0 || elements > INT64_MAX / 32) return 0;
    q->dst = operands[is_load ? RDMA__DST : WDMA__SRC];
    const struct range range = {q->dst, total * s->bytes};
    if (!(is_load ? reach(m, q, range) : reach_source(m, q, 0, range))) return 0;
    q->written = is_load ? total * s->bytes : 0, q->is_whole = is_load;
    q->n = count * s->bytes, q->ddr_bytes = elements * s->bytes;
    i64 dense = q->n;
    for (int i = 0; i < LEVELS; i++) {
        const i64 apart = strides[i] * s->bytes;
        q->levels[i] = is_load ? (struct level){turns[i], dense, apart} : (struct level){turns[i], apart, dense};
        dense *= turns[i];
    }
    q->num = fold_levels(&q->n, q->levels, LEVELS);
    return 1;
}

/* A dense fill. */
static int is_fill(const struct machine *m, const struct step *s, const i64 *operands, struct quick *q) {
    const i64 n = operands[TDMA_MEMSET__N], value = operands[TDMA_MEMSET__VALUE];
    if (operands[TDMA_MEMSET__N1] != 1 || operands[TDMA_MEMSET__N2] != 1 || operands[TDMA_MEMSET__S1] < 0 || operands[TDMA_MEMSET__S2] < 0) return 0;
    if (n <= 0 || n >= QUICK_BYTES || s->bytes != sizeof(u32) || operands[TDMA_MEMSET__DST] % (i64)sizeof(u32)) return 0;
    q->dst = operands[TDMA_MEMSET__DST], q->n = n, q->scalar = (u64)value, q->written = n * s->bytes, q->is_whole = 1;
    return reach(m, q, (struct range){q->dst, n * s->bytes});
}

void prepare_quick(struct machine *m, struct step *s, const u64 *record) {
    struct quick *const q = &s->quick;
    const i64 *const operands = (const i64 *)record + HEADER_WORDS;
    const u64 places = s->form == FORM_RDMA ? UINT64_C(1) << RDMA__OFFSET | UINT64_C(1) << RDMA__SLOT
                     : s->form == FORM_WDMA ? UINT64_C(1) << WDMA__OFFSET | UINT64_C(1) << WDMA__SLOT : 0;
    const u64 in_registers = record[1] & ~places;
    *q = (struct quick){.first = INT64_MAX};
    if (in_registers || spm_stride(m) % LINE_BYTES) return;
    if (s->form == FORM_TDMA) q->is_ready = is_move(m, operands, q);
    else if (s->form == FORM_MEMSET) q->is_ready = is_fill(m, s, operands, q);
    else if (s->form == FORM_RDMA || s->form == FORM_WDMA) q->is_ready = is_transfer(m, s, operands, q);
    else q->is_ready = is_vector(m, s, operands, q);
}

static int moves_few(const struct context *c, int count) {
    i64 total = operand(c, count);
    if (total < 0 || total >= QUICK_BYTES) return 0;
    for (int i = 0; i < LEVELS; i++) {
        const i64 turns = operand(c, count + 2 + 2 * i);
        if (turns < 0 || turns >= QUICK_BYTES) return 0;
        total *= turns;
    }
    return total * c->step->bytes < QUICK_BYTES;
}

int is_short(const struct context *c) {
    const struct step *const s = c->step;
    switch ((enum form)s->form) {
    case FORM_UNARY: case FORM_CONVERT_CT: case FORM_CONVERT_KC: return operand(c, 2) < SHORT_ELEMENTS;
    case FORM_BINARY: case FORM_VS: case FORM_COMPARE: return operand(c, 3) < SHORT_ELEMENTS;
    case FORM_SELECT: return operand(c, 4) < SHORT_ELEMENTS;
    case FORM_RDMA: return moves_few(c, RDMA__COUNT);
    case FORM_WDMA: return moves_few(c, WDMA__COUNT);
    default: return 0;
    }
}

/* The place in DDR of a transfer that stays in the cache; NULL if it is not for here. */
static u8 *place_of(const struct context *c, const struct quick *q) {
    const int is_load = c->step->form == FORM_RDMA;
    const i64 number = operand(c, is_load ? RDMA__SLOT : WDMA__SLOT), offset = operand(c, is_load ? RDMA__OFFSET : WDMA__OFFSET);
    if (number < 0 || number >= c->machine->num_slots) return NULL;
    const struct tx8_slot *const slot = c->machine->slots + number;
    if (!is_load && slot->size >= STREAM_SLOT_BYTES) return NULL;
    return offset >= 0 && q->ddr_bytes <= slot->size - offset ? slot->data + offset : NULL;
}

/* Is there a load put off that meets a range of SPM? */
static int meets_loads(const struct tile *t, i64 first, i64 end) {
    const u8 *const start = t->spm + first;
    const i64 bytes = end - first;
    if (t->num_deferred && is_deferred(t, start, bytes)) return 1;
    return meets_boxes(t, start, bytes);
}

/* Forgets what the record overwrites of loads put off; 0 if it meets some otherwise. */
static int overwrites(struct tile *t, const struct quick *q) {
    if (!(t->num_deferred | t->num_boxes) || !meets_loads(t, q->first, q->end)) return 1;
    if (!q->is_whole) return 0;
    for (int i = 0; i < 3; i++)
        if (q->read[i] && meets_loads(t, q->src[i], q->src[i] + q->read[i])) return 0;
    if (!overwrite_loads(t, t->spm + q->dst, q->written)) return 0;
    overwrite_boxes(t, t->spm + q->dst, q->written);
    return 1;
}

/* The words may not be those of the record, as far as the compiler knows. */
static void fill_words(u32 *dst, u32 word, i64 n) {
    for (i64 i = 0; i < n; i++) dst[i] = word;
}

int run_quick(struct context *c) {
    const struct step *const s = c->step;
    const struct quick *const q = &s->quick;
    struct tile *const t = c->tile;
    u8 *const dst = t->spm + q->dst, *ddr = NULL;
    if (c->machine->keeps_status) return 0;
    if (s->form == FORM_RDMA || s->form == FORM_WDMA) {
        ddr = place_of(c, q);
        if (!ddr) return 0;
    }
    if (s->form == FORM_WDMA && reads_pending(t, ddr, q->ddr_bytes)) return 0;
    if (!overwrites(t, q)) return 0;
    const u8 *const a = t->spm + q->src[0], *const b = t->spm + q->src[1];
    struct level levels[LEVELS];
    switch ((enum form)s->form) {
    case FORM_UNARY: s->kernel.unary(dst, a, q->n); break;
    case FORM_BINARY: s->kernel.binary(dst, a, b, q->n); break;
    case FORM_VS: s->kernel.binary(dst, a, &q->scalar, q->n); break;
    case FORM_COMPARE: q->kernel(dst, a, b, q->n); break;
    case FORM_SELECT: select_elements(dst, a, b, t->spm + q->src[2], s->bytes, q->n); break;
    case FORM_CONVERT_CT: convert_rounded(dst, s->fmt, a, s->fmt2, s->rounding, q->n); break;
    case FORM_CONVERT_KC: convert_elements(dst, s->fmt, a, s->fmt2, q->n); break;
    case FORM_MEMSET:
        fill_words((u32 *)(void *)dst, (u32)q->scalar, q->n);
        break;
    case FORM_TDMA: copy_nest(dst, a, q->n, q->levels, q->num); break;
    case FORM_RDMA: copy_nest(dst, ddr, q->n, q->levels, q->num); break;
    case FORM_WDMA:
        memcpy(levels, q->levels, sizeof levels);
        if (q->num) store_levels(ddr, dst, q->n, levels, q->num, 0);
        else memcpy(ddr, dst, (size_t)q->n);
        break;
    default: return 0;
    }
    reach_spm(t, q->first, q->end);
    forget_repeats(t, dst, q->written);
    if (s->form == FORM_TDMA && q->num == 1 && q->levels[0].src == 0 && q->levels[0].dst == q->n) note_repeat(c, dst, q->n, q->levels[0].n);
    return 1;
}
