/* Records on tensors in Cx and NCx, see device/layouts.py: gemm and reductions. */
#include "core.h"
#include "kernels_gemm.h"

#define BATCH_ALIGNMENT 256
#define LEAST_TAIL 4
#define MOST_WIDTH 128
#define MOST_ROWS 65535
#define MOST_CHANNELS 16384
#define MOST_POINTS 4096
#define LANES_OF_REDUCE 64

/* ------------------------------------------------------------------------------------------------------------------------- layouts */

struct blocked {
    i64 batch, points, channels, bytes, width, num_blocks, tail, batch_bytes, stride, size;
};

static struct blocked blocked_of(int fmt, i64 batch, i64 points, i64 channels) {
    struct blocked l = {.batch = batch, .points = points, .channels = channels, .bytes = format_bytes(fmt), .width = fmt == FORMAT_INT8 ? 128 : 64};
    const i64 rest = channels % l.width;
    l.num_blocks = channels / l.width + (rest > l.width / 2);
    l.tail = rest && rest <= l.width / 2 ? LEAST_TAIL : 0;
    while (l.tail && l.tail < rest) l.tail *= 2;
    l.batch_bytes = points * (l.num_blocks * l.width + l.tail) * l.bytes;
    l.stride = (l.batch_bytes + BATCH_ALIGNMENT - 1) / BATCH_ALIGNMENT * BATCH_ALIGNMENT;
    l.size = (batch - 1) * l.stride + l.batch_bytes;
    return l;
}

/* Where channel c of point 0 lies in a batch; *width is the distance of points, *run how many channels follow up to the block's end. */
static i64 find_channel(const struct blocked *l, i64 c, i64 *width, i64 *run) {
    const i64 block = c / l->width, first = block * l->width, is_tail = block >= l->num_blocks;
    *width = is_tail ? l->tail : l->width;
    *run = (l->channels - first < l->width ? l->channels : first + l->width) - c;
    return (first * l->points + c - first) * l->bytes;
}

static void clear_padding(u8 *base, const struct blocked *l) {
    i64 width, run;
    const i64 last = (l->channels - 1) / l->width * l->width;
    u8 *const block = base + find_channel(l, last, &width, &run);
    if (run == width) return;
    for (i64 p = 0; p < l->points; p++) memset(block + (p * width + run) * l->bytes, 0, (size_t)((width - run) * l->bytes));
}

static int overlap(const u8 *a, i64 a_bytes, const u8 *b, i64 b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

/* Where to write a result: region 3 of the scratch if it would change what is still to be read. */
static u8 *stage(struct context *c, u8 *target, int is_apart) { return is_apart ? target : c->scratch + 3 * c->machine->spm_bytes; }

static int unstage(u8 *target, const u8 *out, const struct blocked *l) {
    for (i64 b = 0; out != target && b < l->batch; b++) memcpy(target + b * l->stride, out + b * l->stride, (size_t)l->batch_bytes);
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------------------------- gemm */

struct gemm {
    const struct gemm_kernel *kernel;
    i64 rows, columns, depth, zero_left, zero_out, q1, q2, scale;
    int fmt, is_transposed, is_quantised;
    struct blocked left, right, psum, result;
};

/* Strips of TILE_ROWS rows, each [K][TILE_ROWS] elements; rows beyond the last are zeros. */
static void pack_left(const struct gemm *g, u8 *packed, const u8 *left) {
    const i64 per = g->kernel->k_per_element, size = g->kernel->element_bytes, elements = (g->depth + per - 1) / per;
    for (i64 m = 0; m < g->rows; m += TILE_ROWS, packed += elements * TILE_ROWS * size) {
        const i64 rows = g->rows - m < TILE_ROWS ? g->rows - m : TILE_ROWS;
        if (rows < TILE_ROWS) memset(packed, 0, (size_t)(elements * TILE_ROWS * size));
        for (i64 k = 0, run, width; k < g->depth; k += run) {
            const u8 *const block = left + find_channel(&g->left, k, &width, &run);
            for (i64 r = 0; r < rows; r++)
                g->kernel->pack(packed + (k / per * TILE_ROWS + r) * size, block + (m + r) * width * g->left.bytes, run, TILE_ROWS, g->zero_left);
        }
    }
}

/* `count` columns from n on as [K][columns] elements. */
static void pack_right(const struct gemm *g, u8 *packed, const u8 *right, i64 n, i64 count) {
    const i64 per = g->kernel->k_per_element, size = g->kernel->element_bytes, columns = g->kernel->columns;
    i64 run, width;
    if (count < columns) memset(packed, 0, (size_t)((g->depth + per - 1) / per * columns * size));
    if (g->is_transposed) {
        const u8 *const block = right + find_channel(&g->right, n, &width, &run);
        for (i64 k = 0; k < g->depth; k++) g->kernel->pack_row(packed + k / per * columns * size, block + k * width * g->right.bytes, count, k);
        return;
    }
    for (i64 k = 0; k < g->depth; k += run) {
        const u8 *const block = right + find_channel(&g->right, k, &width, &run);
        for (i64 j = 0; j < count; j++)
            g->kernel->pack(packed + (k / per * columns + j) * size, block + (n + j) * width * g->right.bytes, run, columns, 0);
    }
}

static i64 clip(i64 x, i64 low, i64 high) { return x < low ? low : x > high ? high : x; }

static i8 quantise(const struct gemm *g, i32 sum) {
    const i64 narrow = clip((i64)sum >> g->q1, INT16_MIN, INT16_MAX);
    return (i8)clip(clip(narrow * g->scale >> g->q2, -256, 255) + g->zero_out, INT8_MIN, INT8_MAX);
}

/* n sums of a row in the format of the result. */
static void store_sums(const struct gemm *g, u8 *dst, const union tile_sums *sums, i64 first, i64 n) {
    union {
        u8 bytes[TILE_COLUMNS * 4];
        i8 i8[TILE_COLUMNS];
        u16 u16[TILE_COLUMNS];
        float f[TILE_COLUMNS];
    } row;
    const float *const f = sums->f + first;
    const i32 *const s = sums->i + first;
    const int is_integer = g->kernel->k_per_element == 2;
    switch (g->fmt) {
    case FORMAT_BF16: for (i64 i = 0; i < n; i++) row.u16[i] = put_bf16(f[i]); break;
    case FORMAT_FP16: for (i64 i = 0; i < n; i++) row.u16[i] = is_integer ? round_f16((double)s[i]) : put_f16(f[i]); break;
    case FORMAT_FP32: for (i64 i = 0; i < n; i++) row.f[i] = put_f32(f[i]); break;
    case FORMAT_TF32: for (i64 i = 0; i < n; i++) row.f[i] = put_tf32(f[i]); break;
    case FORMAT_INT8: for (i64 i = 0; i < n; i++) row.i8[i] = g->is_quantised ? quantise(g, s[i]) : (i8)clip(s[i], INT8_MIN, INT8_MAX); break;
    default: memcpy(row.bytes, s, (size_t)n * sizeof(i32));
    }
    memcpy(dst, row.bytes, (size_t)(n * g->result.bytes));
}

static void run_batch(const struct gemm *g, u8 *packed, u8 *out, const u8 *left, const u8 *right, const u8 *psum) {
    const i64 per = g->kernel->k_per_element, columns = g->kernel->columns, elements = (g->depth + per - 1) / per;
    const i64 strip = elements * TILE_ROWS * g->kernel->element_bytes;
    u8 *const panel = packed + (g->rows + TILE_ROWS - 1) / TILE_ROWS * strip;
    pack_left(g, packed, left);
    for (i64 n = 0; n < g->columns; n += columns) {
        const i64 count = g->columns - n < columns ? g->columns - n : columns;
        i64 width, run;
        u8 *const target = out + find_channel(&g->result, n, &width, &run);
        pack_right(g, panel, right, n, count);
        for (i64 m = 0; m < g->rows; m += TILE_ROWS) {
            const i64 rows = g->rows - m < TILE_ROWS ? g->rows - m : TILE_ROWS;
            union tile_sums sums;
            memset(&sums, 0, sizeof sums);
            if (psum) {
                i64 psum_width, psum_run;
                const u8 *const source = psum + find_channel(&g->psum, n, &psum_width, &psum_run);
                for (i64 r = 0; r < rows; r++) memcpy(sums.f + r * columns, source + (m + r) * psum_width * 4, (size_t)count * 4);
            }
            g->kernel->sum(&sums, packed + m / TILE_ROWS * strip, panel, g->depth);
            for (i64 r = 0; r < rows; r++) store_sums(g, target + (m + r) * width * g->result.bytes, &sums, r * columns, count);
        }
    }
    clear_padding(out, &g->result);
}

int execute_gemm(struct context *c) {
    struct gemm g = {.kernel = gemm_kernel_of(c->step->fmt2), .rows = operand(c, NE_GEMM__ROWS), .columns = operand(c, NE_GEMM__COLUMNS),
                     .depth = operand(c, NE_GEMM__DEPTH), .fmt = c->step->fmt, .is_quantised = c->step->opcode == OP_NE_GEMM_QUANTISED};
    const i64 batch = operand(c, NE_GEMM__BATCH), transpose = operand(c, NE_GEMM__TRANSPOSE), accumulate = operand(c, NE_GEMM__ACCUMULATE);
    if (g.rows < 1 || g.rows > MOST_ROWS || g.columns < 1 || g.columns > MOST_ROWS || g.depth < 1 || g.depth > MOST_CHANNELS || batch < 1 ||
        batch > MOST_POINTS || transpose >> 1 || accumulate >> 1) {
        return fail(c, FAULT_BAD_DESCRIPTOR, "gemm of %lld x %lld x %lld, batch %lld, transpose %lld, accumulate %lld", (long long)g.rows,
                    (long long)g.columns, (long long)g.depth, (long long)batch, (long long)transpose, (long long)accumulate);
    }
    if (g.is_quantised) {
        g.q1 = operand(c, NE_GEMM_QUANTISED__Q1), g.q2 = operand(c, NE_GEMM_QUANTISED__Q2), g.scale = operand(c, NE_GEMM_QUANTISED__SCALE);
        g.zero_left = operand(c, NE_GEMM_QUANTISED__ZP_LEFT), g.zero_out = operand(c, NE_GEMM_QUANTISED__ZP_OUT);
        if (g.q1 >> 5 || g.q2 >> 5 || g.scale != (i16)g.scale || g.zero_left != (i8)g.zero_left || g.zero_out != (i8)g.zero_out) {
            return fail(c, FAULT_BAD_DESCRIPTOR, "shifts %lld, %lld, scale %lld, zero points %lld, %lld", (long long)g.q1, (long long)g.q2,
                        (long long)g.scale, (long long)g.zero_left, (long long)g.zero_out);
        }
    }
    g.is_transposed = (int)transpose;
    g.left = blocked_of(c->step->fmt2, batch, g.rows, g.depth);
    g.right = transpose ? blocked_of(c->step->fmt2, batch, g.depth, g.columns) : blocked_of(c->step->fmt2, batch, g.columns, g.depth);
    g.psum = blocked_of(FORMAT_FP32, batch, g.rows, g.columns); /* INT32 is as wide */
    g.result = blocked_of(g.fmt, batch, g.rows, g.columns);
    const u8 *const left = spm_range(c, operand(c, NE_GEMM__LEFT), g.left.size, 1);
    const u8 *const right = left ? spm_range(c, operand(c, NE_GEMM__RIGHT), g.right.size, 1) : NULL;
    u8 *const target = right ? spm_range(c, operand(c, NE_GEMM__DST), g.result.size, 1) : NULL;
    if (!target) return (int)c->tile->fault.kind;
    const u8 *const psum = accumulate ? spm_range(c, operand(c, NE_GEMM__PSUM), g.psum.size, 1) : NULL;
    if (accumulate && !psum) return (int)c->tile->fault.kind;
    /* A tile of partial sums is read before the same tile of the result is written. */
    const int is_in_place = psum == target && g.result.bytes == g.psum.bytes;
    const int is_apart = !overlap(target, g.result.size, left, g.left.size) && !overlap(target, g.result.size, right, g.right.size) &&
                         (!psum || is_in_place || !overlap(target, g.result.size, psum, g.psum.size));
    u8 *const out = stage(c, target, is_apart), *const packed = c->scratch + GEMM_REGION * c->machine->spm_bytes;
    for (i64 b = 0; b < batch; b++) {
        run_batch(&g, packed, out + b * g.result.stride, left + b * g.left.stride, right + b * g.right.stride, psum ? psum + b * g.psum.stride : NULL);
    }
    return unstage(target, out, &g.result);
}

/* -------------------------------------------------------------------------------------------------------------------------- reduce */

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
    const i64 batch = operand(c, CT_REDUCE_SUM__BATCH), h = operand(c, CT_REDUCE_SUM__H), w = operand(c, CT_REDUCE_SUM__W);
    const i64 channels = operand(c, CT_REDUCE_SUM__C), dim = operand(c, CT_REDUCE_SUM__DIM);
    const int is_sound = batch >= 1 && batch <= MOST_POINTS && h >= 1 && h <= MOST_POINTS && w >= 1 && w <= MOST_POINTS && channels >= 1 &&
                         channels <= MOST_CHANNELS && dim >= DIM_C && dim <= DIM_HW && (dim != DIM_HW || h * w <= MOST_CHANNELS);
    if (!is_sound) {
        return fail(c, FAULT_BAD_DESCRIPTOR, "reduction of %lld x %lld x %lld x %lld over dimension %lld", (long long)batch, (long long)h, (long long)w,
                    (long long)channels, (long long)dim);
    }
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
