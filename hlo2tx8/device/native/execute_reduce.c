/* Reductions of tensors in Cx and NCx, see device/reduce_rules.py. */
#include "reduction.h"

#define PAGE_BYTES 4096 /* of the host: its foresight ends there */

#define MOST_REDUCED 16384

/* acc[i] = row 0 [i], joined with row 1 [i] and so on: `num` rows of `n` elements, `apart` bytes from each other. */
static void join_some(const struct reduction *r, float *acc, const u8 *src, i64 n, i64 num, i64 apart) {
    float row[MOST_WIDTH];
    if (n == LANES_OF_REDUCE) {
        join_rows(r->join, r->fmt, acc, src, num, apart);
        return;
    }
    load_row(acc, src, r->fmt, n);
    for (i64 t = 1; t < num; t++) {
        load_row(row, src + t * apart, r->fmt, n);
        for (i64 i = 0; i < n; i++) acc[i] = join_two(r->join, acc[i], row[i]);
    }
}

/* A point's channels in FP32 as rows of lanes joined in order; how many lanes there are. */
static i64 join_blocks(const struct reduction *r, float *lanes, const u8 *src, const struct blocked *l, i64 p) {
    float row[MOST_WIDTH];
    const i64 whole = l->channels / LANES_OF_REDUCE, rest = l->channels % LANES_OF_REDUCE;
    i64 width, run;
    if (whole) join_some(r, lanes, src + p * LANES_OF_REDUCE * l->bytes, LANES_OF_REDUCE, whole, l->points * LANES_OF_REDUCE * l->bytes);
    if (!rest) return LANES_OF_REDUCE;
    const u8 *const block = src + find_channel(l, whole * LANES_OF_REDUCE, &width, &run);
    load_row(whole ? row : lanes, block + p * width * l->bytes, r->fmt, rest);
    for (i64 i = 0; whole && i < rest; i++) lanes[i] = join_two(r->join, lanes[i], row[i]);
    return whole ? LANES_OF_REDUCE : rest;
}

/* The channels of `num` points from p on, at most ROWS_AT_ONCE: lanes in order, then neighbours. */
static void reduce_channels(const struct reduction *r, u8 *dst, const u8 *src, const struct blocked *l, i64 p, int num) {
    float lanes[ROWS_AT_ONCE][LANES_OF_REDUCE], result[ROWS_AT_ONCE];
    union {
        u32 words[ROWS_AT_ONCE];
        u16 halves[ROWS_AT_ONCE];
    } narrow;
    const i64 width = l->num_blocks ? LANES_OF_REDUCE : l->tail;
    if (l->bytes == sizeof(float) && l->channels <= LANES_OF_REDUCE) { /* one block */
        join_lanes(r->join, src + p * width * l->bytes, width * l->bytes, l->channels, num, result);
    } else {
        i64 n = 0;
        for (int i = 0; i < num; i++) n = join_blocks(r, lanes[i], src, l, p + i);
        join_lanes(r->join, (const u8 *)lanes, sizeof lanes[0], n, num, result);
    }
    store_rounded(r->rounding, r->number + p, r->fmt, (u8 *)&narrow, result, num, num, r->is_average ? r->num : 1);
    if (l->bytes == sizeof(float)) {
        for (int i = 0; i < num; i++) memcpy(dst + i * LEAST_TAIL * 4, (u32[LEAST_TAIL]){narrow.words[i]}, LEAST_TAIL * 4);
    } else {
        for (int i = 0; i < num; i++) memcpy(dst + i * LEAST_TAIL * 2, (u16[LEAST_TAIL]){narrow.halves[i]}, LEAST_TAIL * 2);
    }
}

/* The points of one result in order, block by block: `from`, then `apart` further each. */
static void reduce_points(const struct reduction *r, u8 *dst, const struct blocked *to, i64 q, const u8 *src, const struct blocked *l, i64 from, i64 apart) {
    float acc[MOST_WIDTH];
    i64 width, run;
    if (l->channels == LANES_OF_REDUCE) { /* one block */
        const i64 row = LANES_OF_REDUCE * l->bytes;
        const float factor = factor_of(r->fmt, r->is_average ? r->num : 1);
        if (factor != 0 && r->rounding == ROUND_NEAREST_EVEN) {
            join_rows_scaled(r->join, dst + q * row, src + from * row, r->num, apart * row, r->ahead, factor);
            return;
        }
        join_rows(r->join, r->fmt, acc, src + from * row, r->num, apart * row);
        store_rounded(r->rounding, r->number + q * l->channels, r->fmt, dst + q * row, acc, LANES_OF_REDUCE, LANES_OF_REDUCE, r->is_average ? r->num : 1);
        return;
    }
    for (i64 c = 0; c < l->channels; c += run) {
        const u8 *const block = src + find_channel(l, c, &width, &run);
        join_some(r, acc, block + from * width * l->bytes, run, r->num, apart * width * l->bytes);
        u8 *const target = dst + find_channel(to, c, &width, &run);
        store_rounded(r->rounding, r->number + q * l->channels + c, r->fmt, target + q * width * l->bytes, acc, run, width, r->is_average ? r->num : 1);
    }
}

int resolve_reduce(struct context *c, struct reduction *r) {
    static const struct bound bounds[] = CT_REDUCE_SUM__BOUNDS;
    const i64 batch = operand(c, CT_REDUCE_SUM__BATCH), h = operand(c, CT_REDUCE_SUM__H), w = operand(c, CT_REDUCE_SUM__W);
    const i64 channels = operand(c, CT_REDUCE_SUM__C), dim = operand(c, CT_REDUCE_SUM__DIM);
    if (check_bounds(c, bounds, COUNT_OF(bounds))) return FAULT_BAD_DESCRIPTOR;
    if (dim == DIM_HW && h * w > MOST_REDUCED) return fail(c, FAULT_BAD_DESCRIPTOR, "%lld x %lld points are reduced", (long long)h, (long long)w);
    const struct fact *const fact = c->step->fact;
    r->fmt = c->step->fmt, r->is_average = fact->averages, r->join = fact->join, r->dim = (int)dim, r->width = w, r->ahead = 0, r->rounding = c->step->rounding, r->number = 0;
    r->num = dim == DIM_C ? channels : dim == DIM_W ? w : dim == DIM_H ? h : h * w;
    const i64 points = dim == DIM_C ? h * w : h * w / r->num;
    r->from = blocked_of(r->fmt, batch, h * w, channels), r->to = blocked_of(r->fmt, batch, points, dim == DIM_C ? 1 : channels);
    r->src = spm_range(c, operand(c, CT_REDUCE_SUM__SRC), r->from.size, 1);
    r->target = r->src ? spm_range(c, operand(c, CT_REDUCE_SUM__DST), r->to.size, 1) : NULL;
    return r->target ? 0 : (int)c->tile->fault.kind;
}

void reduce_range(const struct reduction *r, struct tile *t, u8 *out, const u8 *data, i64 first, i64 end, i64 work) {
    for (i64 q = first, count = 1; q < end; q += count) {
        if (r->dim == DIM_C) count = end - q < ROWS_AT_ONCE ? end - q : ROWS_AT_ONCE;
        prefetch_beside(t, work * count);
        if (r->dim == DIM_C) reduce_channels(r, out + q * LEAST_TAIL * r->to.bytes, data, &r->from, q, (int)count);
        else reduce_points(r, out, &r->to, q, data, &r->from, r->dim == DIM_W ? q * r->width : q, r->dim == DIM_H ? r->width : 1);
    }
}

int execute_reduce(struct context *c) {
    struct reduction r;
    const int fault = resolve_reduce(c, &r);
    if (fault) return fault;
    const u8 *const src = read_in_place(c->tile, r.src, r.from.size, r.target, r.to.size);
    /* what lies in DDR in the order in which it is read, the host foresees within its pages: asking for more would only hold that up */
    const int is_foreseen = src != r.src && r.dim == DIM_W;
    r.ahead = is_foreseen && !was_asked(c->tile, src) ? PAGE_BYTES : 0;
    const i64 work = is_foreseen ? 0 : r.from.size / (r.from.batch * r.to.points);
    const int keeps_status = c->machine->keeps_status;
    const u32 special = keeps_status ? special_of(src, r.fmt, &r.from) : 0;
    u8 *const out = stage(c, r.target, !overlap(r.target, r.to.size, src, r.from.size));
    for (i64 b = 0; b < r.from.batch; b++, r.number += r.to.points * r.to.channels) reduce_range(&r, c->tile, out + b * r.to.stride, src + b * r.from.stride, 0, r.to.points, work);
    if (keeps_status) note_tensors(c, special, special_of(out, r.fmt, &r.to));
    return unstage(r.target, out, &r.to);
}
