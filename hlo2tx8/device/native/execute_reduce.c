/* Reductions of tensors in Cx and NCx, see device/reduce_rules.py. */
#include "float_rows.h"

#define MOST_REDUCED 16384

struct reduction {
    int fmt, is_average;
    enum join join;
    i64 num; /* elements joined into one */
};

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

/* A point's channels: lanes in order, then neighbours. */
static void reduce_channels(const struct reduction *r, u8 *dst, const u8 *src, const struct blocked *l, i64 p) {
    float lanes[LANES_OF_REDUCE], row[MOST_WIDTH];
    const i64 whole = l->channels / LANES_OF_REDUCE, rest = l->channels % LANES_OF_REDUCE;
    i64 width, run;
    if (whole) join_some(r, lanes, src + p * LANES_OF_REDUCE * l->bytes, LANES_OF_REDUCE, whole, l->points * LANES_OF_REDUCE * l->bytes);
    if (rest) {
        const u8 *const block = src + find_channel(l, whole * LANES_OF_REDUCE, &width, &run);
        load_row(row, block + p * width * l->bytes, r->fmt, rest);
        for (i64 i = 0; i < rest; i++) lanes[i] = whole ? join_two(r->join, lanes[i], row[i]) : row[i];
    }
    if (whole) {
        lanes[0] = join_lanes(r->join, lanes);
    } else {
        for (i64 n = rest; n > 1; n = (n + 1) / 2) {
            for (i64 i = 0; i < n / 2; i++) lanes[i] = join_two(r->join, lanes[2 * i], lanes[2 * i + 1]);
            if (n & 1) lanes[n / 2] = lanes[n - 1];
        }
    }
    store_row(r->fmt, dst, lanes, 1, LEAST_TAIL, r->is_average ? r->num : 1);
}

/* As many points at once, whose channels are whole rows of lanes. */
static void reduce_many(const struct reduction *r, u8 *dst, const u8 *src, const struct blocked *l, i64 p) {
    float lanes[ROWS_AT_ONCE][LANES_OF_REDUCE], result[ROWS_AT_ONCE];
    union {
        float words[ROWS_AT_ONCE];
        u16 halves[ROWS_AT_ONCE];
    } narrow;
    union {
        float words[ROWS_AT_ONCE * LEAST_TAIL];
        u16 halves[ROWS_AT_ONCE * LEAST_TAIL];
    } padded = {{0}};
    const i64 row = LANES_OF_REDUCE * l->bytes, blocks = l->channels / LANES_OF_REDUCE;
    const u8 *rows = src + p * row;
    if (blocks > 1 || l->bytes != sizeof(float)) {
        for (int i = 0; i < ROWS_AT_ONCE; i++) join_rows(r->join, r->fmt, lanes[i], rows + i * row, blocks, l->points * row);
        rows = (const u8 *)lanes;
    }
    join_lanes_many(r->join, rows, result);
    store_row(r->fmt, (u8 *)&narrow, result, ROWS_AT_ONCE, ROWS_AT_ONCE, r->is_average ? r->num : 1);
    if (l->bytes == sizeof(float)) {
        for (int i = 0; i < ROWS_AT_ONCE; i++) padded.words[i * LEAST_TAIL] = narrow.words[i];
        memcpy(dst, padded.words, sizeof padded.words);
    } else {
        for (int i = 0; i < ROWS_AT_ONCE; i++) padded.halves[i * LEAST_TAIL] = narrow.halves[i];
        memcpy(dst, padded.halves, sizeof padded.halves);
    }
}

/* The points of one result in order, block by block: `from`, then `apart` further each. */
static void reduce_points(const struct reduction *r, u8 *dst, const struct blocked *to, i64 q, const u8 *src, const struct blocked *l, i64 from, i64 apart) {
    float acc[MOST_WIDTH];
    i64 width, run;
    if (l->channels == LANES_OF_REDUCE) { /* one block */
        const i64 row = LANES_OF_REDUCE * l->bytes;
        const float factor = factor_of(r->fmt, r->is_average ? r->num : 1);
        if (factor != 0) {
            join_rows_scaled(r->join, dst + q * row, src + from * row, r->num, apart * row, factor);
            return;
        }
        join_rows(r->join, r->fmt, acc, src + from * row, r->num, apart * row);
        store_row(r->fmt, dst + q * row, acc, LANES_OF_REDUCE, LANES_OF_REDUCE, r->is_average ? r->num : 1);
        return;
    }
    for (i64 c = 0; c < l->channels; c += run) {
        const u8 *const block = src + find_channel(l, c, &width, &run);
        join_some(r, acc, block + from * width * l->bytes, run, r->num, apart * width * l->bytes);
        u8 *const target = dst + find_channel(to, c, &width, &run);
        store_row(r->fmt, target + q * width * l->bytes, acc, run, width, r->is_average ? r->num : 1);
    }
}

/* Every opcode's way to join two elements. */
static enum join join_of(int opcode) { return opcode == OP_CT_REDUCE_MAX ? JOIN_MAX : opcode == OP_CT_REDUCE_MIN ? JOIN_MIN : JOIN_ADD; }

int execute_reduce(struct context *c) {
    enum { DIM_C, DIM_W, DIM_H, DIM_HW };
    static const struct bound bounds[] = CT_REDUCE_SUM__BOUNDS;
    const i64 batch = operand(c, CT_REDUCE_SUM__BATCH), h = operand(c, CT_REDUCE_SUM__H), w = operand(c, CT_REDUCE_SUM__W);
    const i64 channels = operand(c, CT_REDUCE_SUM__C), dim = operand(c, CT_REDUCE_SUM__DIM);
    if (check_bounds(c, bounds, COUNT_OF(bounds))) return FAULT_BAD_DESCRIPTOR;
    if (dim == DIM_HW && h * w > MOST_REDUCED) return fail(c, FAULT_BAD_DESCRIPTOR, "%lld x %lld points are reduced", (long long)h, (long long)w);
    const int opcode = c->step->opcode;
    const struct reduction r = {c->step->fmt, opcode == OP_CT_REDUCE_AVG, join_of(opcode), dim == DIM_C ? channels : dim == DIM_W ? w : dim == DIM_H ? h : h * w};
    const i64 points = dim == DIM_C ? h * w : h * w / r.num;
    const struct blocked from = blocked_of(r.fmt, batch, h * w, channels), to = blocked_of(r.fmt, batch, points, dim == DIM_C ? 1 : channels);
    const u8 *src = spm_range(c, operand(c, CT_REDUCE_SUM__SRC), from.size, 1);
    u8 *const target = src ? spm_range(c, operand(c, CT_REDUCE_SUM__DST), to.size, 1) : NULL;
    if (!target) return (int)c->tile->fault.kind;
    const u8 *const given = src;
    src = read_in_place(c->tile, src, from.size, target, to.size);
    const int keeps_status = c->machine->keeps_status;
    const u32 special = keeps_status ? special_of(src, r.fmt, &from) : 0;
    const int is_whole = dim == DIM_C && channels % LANES_OF_REDUCE == 0;
    /* what lies in DDR in the order in which it is read, the host foresees: asking for more would only hold that up */
    const i64 work = src != given && dim == DIM_W ? 0 : from.size / (batch * points);
    u8 *const out = stage(c, target, !overlap(target, to.size, src, from.size));
    for (i64 b = 0; b < batch; b++) {
        for (i64 q = 0, count = 1; q < points; q += count) {
            u8 *const dst = out + b * to.stride;
            const u8 *const data = src + b * from.stride;
            count = is_whole && points - q >= ROWS_AT_ONCE ? ROWS_AT_ONCE : 1;
            prefetch_beside(c->tile, work * count);
            if (count > 1) reduce_many(&r, dst + q * LEAST_TAIL * to.bytes, data, &from, q);
            else if (dim == DIM_C) reduce_channels(&r, dst + q * LEAST_TAIL * to.bytes, data, &from, q);
            else reduce_points(&r, dst, &to, q, data, &from, dim == DIM_W ? q * w : q, dim == DIM_H ? w : 1);
        }
    }
    if (keeps_status) note_tensors(c, special, special_of(out, r.fmt, &to));
    return unstage(target, out, &to);
}
