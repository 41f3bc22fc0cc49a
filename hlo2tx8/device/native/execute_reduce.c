/* Reductions of tensors in Cx and NCx, see device/reduce_rules.py. */
#include "blocked.h"

#define LANES_OF_REDUCE 64
#define MOST_REDUCED 16384

struct reduction {
    int fmt, opcode;
    i64 num; /* elements joined into one */
};

/* Widened, from any address; n is at most MOST_WIDTH. */
static void load_row(float *out, const u8 *src, int fmt, i64 n) {
    union {
        u16 h[MOST_WIDTH];
        float f[MOST_WIDTH];
    } row;
    memcpy(&row, src, (size_t)(n * format_bytes(fmt)));
    switch (fmt) {
    case FORMAT_BF16: for (i64 i = 0; i < n; i++) out[i] = get_bf16(row.h[i]); return;
    case FORMAT_FP16: for (i64 i = 0; i < n; i++) out[i] = get_f16(row.h[i]); return;
    default: memcpy(out, row.f, (size_t)n * sizeof(float));
    }
}

static void join_rows(int opcode, float *acc, const float *x, const float *y, i64 n, i64 apart) {
    switch (opcode) {
    case OP_CT_REDUCE_MAX: for (i64 i = 0; i < n; i++) acc[i] = larger_float(x[i * apart], y[i * apart]); return;
    case OP_CT_REDUCE_MIN: for (i64 i = 0; i < n; i++) acc[i] = smaller_float(x[i * apart], y[i * apart]); return;
    default: for (i64 i = 0; i < n; i++) acc[i] = x[i * apart] + y[i * apart];
    }
}

/* n results and zeros up to `width`. */
static void store_row(const struct reduction *r, u8 *dst, const float *acc, i64 n, i64 width) {
    union {
        u16 h[MOST_WIDTH];
        float f[MOST_WIDTH];
    } row;
    memset(&row, 0, sizeof row);
    for (i64 i = 0; i < n; i++) {
        const double x = r->opcode == OP_CT_REDUCE_AVG ? (double)acc[i] / (double)r->num : acc[i];
        switch (r->fmt) {
        case FORMAT_BF16: row.h[i] = round_bf16(x); break;
        case FORMAT_FP16: row.h[i] = round_f16(x); break;
        case FORMAT_TF32: row.f[i] = round_tf32(x); break;
        default: row.f[i] = round_f32(x);
        }
    }
    memcpy(dst, &row, (size_t)(width * format_bytes(r->fmt)));
}

/* A point's channels: lanes in order, then neighbours. */
static void reduce_channels(const struct reduction *r, u8 *dst, const u8 *src, const struct blocked *l, i64 p) {
    float lanes[LANES_OF_REDUCE], row[LANES_OF_REDUCE];
    i64 width, run;
    for (i64 c = 0; c < l->channels; c += run) {
        const u8 *const block = src + find_channel(l, c, &width, &run);
        load_row(c ? row : lanes, block + p * width * l->bytes, r->fmt, run);
        if (c) join_rows(r->opcode, lanes, lanes, row, run, 1);
    }
    for (i64 n = l->channels < LANES_OF_REDUCE ? l->channels : LANES_OF_REDUCE; n > 1; n = (n + 1) / 2) {
        float next[LANES_OF_REDUCE];
        join_rows(r->opcode, next, lanes, lanes + 1, n / 2, 2);
        if (n & 1) next[n / 2] = lanes[n - 1];
        memcpy(lanes, next, sizeof lanes);
    }
    store_row(r, dst, lanes, 1, LEAST_TAIL);
}

/* The points of one result in order, block by block: `from`, then `apart` further each. */
static void reduce_points(const struct reduction *r, u8 *dst, const struct blocked *to, i64 q, const u8 *src, const struct blocked *l, i64 from, i64 apart) {
    float acc[LANES_OF_REDUCE], row[LANES_OF_REDUCE];
    i64 width, run;
    for (i64 c = 0; c < l->channels; c += run) {
        const u8 *const block = src + find_channel(l, c, &width, &run);
        for (i64 t = 0; t < r->num; t++) {
            load_row(t ? row : acc, block + (from + t * apart) * width * l->bytes, r->fmt, run);
            if (t) join_rows(r->opcode, acc, acc, row, run, 1);
        }
        u8 *const target = dst + find_channel(to, c, &width, &run);
        store_row(r, target + q * width * l->bytes, acc, run, width);
    }
}

int execute_reduce(struct context *c) {
    enum { DIM_C, DIM_W, DIM_H, DIM_HW };
    static const struct bound bounds[] = CT_REDUCE_SUM__BOUNDS;
    const i64 batch = operand(c, CT_REDUCE_SUM__BATCH), h = operand(c, CT_REDUCE_SUM__H), w = operand(c, CT_REDUCE_SUM__W);
    const i64 channels = operand(c, CT_REDUCE_SUM__C), dim = operand(c, CT_REDUCE_SUM__DIM);
    if (check_bounds(c, bounds, COUNT_OF(bounds))) return FAULT_BAD_DESCRIPTOR;
    if (dim == DIM_HW && h * w > MOST_REDUCED) return fail(c, FAULT_BAD_DESCRIPTOR, "%lld x %lld points are reduced", (long long)h, (long long)w);
    const struct reduction r = {c->step->fmt, c->step->opcode, dim == DIM_C ? channels : dim == DIM_W ? w : dim == DIM_H ? h : h * w};
    const i64 points = dim == DIM_C ? h * w : h * w / r.num;
    const struct blocked from = blocked_of(r.fmt, batch, h * w, channels), to = blocked_of(r.fmt, batch, points, dim == DIM_C ? 1 : channels);
    const u8 *const src = spm_range(c, operand(c, CT_REDUCE_SUM__SRC), from.size, 1);
    u8 *const target = src ? spm_range(c, operand(c, CT_REDUCE_SUM__DST), to.size, 1) : NULL;
    if (!target) return (int)c->tile->fault.kind;
    u8 *const out = stage(c, target, !overlap(target, to.size, src, from.size));
    for (i64 b = 0; b < batch; b++) {
        for (i64 q = 0; q < points; q++) {
            u8 *const dst = out + b * to.stride;
            const u8 *const data = src + b * from.stride;
            if (dim == DIM_C) reduce_channels(&r, dst + q * LEAST_TAIL * to.bytes, data, &from, q);
            else reduce_points(&r, dst, &to, q, data, &from, dim == DIM_W ? q * w : q, dim == DIM_H ? w : 1);
        }
    }
    return unstage(target, out, &to);
}
