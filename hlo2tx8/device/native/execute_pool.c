/* Pooling over windows of NHWC images and its way back, see device/pool_rules.py. */
#include "float_rows.h"

enum { ROWS, COLUMNS };

struct pooling {
    int fmt, rounding;
    i64 number; /* of the batch's first result */
    enum join join;
    i64 image[2], windows[2], kernel[2], stride[2], pad[2], divisor;
    struct blocked of_image, of_windows, of_index;
};

static int is_indexed(int form) { return form == FORM_POOL_INDEXED || form == FORM_UNPOOL_INDEXED; }

/* 0 or the fault. */
static int read_pooling(struct context *c, struct pooling *p) {
    static const struct bound plain[] = CT_POOL_MAX__BOUNDS, indexed[] = CT_POOL_MAX_INDEXED__BOUNDS;
    const int with_index = is_indexed(c->step->form), batch = with_index ? CT_POOL_MAX_INDEXED__BATCH : CT_POOL_MAX__BATCH;
    if (with_index ? check_bounds(c, indexed, COUNT_OF(indexed)) : check_bounds(c, plain, COUNT_OF(plain))) return FAULT_BAD_DESCRIPTOR;
    *p = (struct pooling){.fmt = c->step->fmt, .rounding = c->step->rounding, .join = c->step->fact->join, .divisor = 1};
    const int h = batch + 1, channels = batch + 3, kernel = batch + 4; /* batch, h, w, c, then pairs of rows and columns */
    for (int axis = ROWS; axis <= COLUMNS; axis++) {
        const i64 after = operand(c, kernel + 5 + 2 * axis);
        p->image[axis] = operand(c, h + axis);
        p->kernel[axis] = operand(c, kernel + axis);
        p->stride[axis] = operand(c, kernel + 2 + axis);
        p->pad[axis] = operand(c, kernel + 4 + 2 * axis);
        const i64 room = p->image[axis] + p->pad[axis] + after - p->kernel[axis];
        if (room < 0) return fail(c, FAULT_BAD_DESCRIPTOR, "a window of %lld does not fit", (long long)p->kernel[axis]);
        if (p->pad[axis] >= p->kernel[axis] || after >= p->kernel[axis])
            return fail(c, FAULT_BAD_DESCRIPTOR, "pads %lld and %lld of a window of %lld", (long long)p->pad[axis], (long long)after,
                        (long long)p->kernel[axis]);
        p->windows[axis] = room / p->stride[axis] + 1;
    }
    if (c->step->fact->averages) p->divisor = p->kernel[ROWS] * p->kernel[COLUMNS];
    const i64 num = operand(c, batch), depth = operand(c, channels), windows = p->windows[ROWS] * p->windows[COLUMNS];
    p->of_image = blocked_of(p->fmt, num, p->image[ROWS] * p->image[COLUMNS], depth);
    p->of_windows = blocked_of(p->fmt, num, windows, depth);
    p->of_index = blocked_of(FORMAT_INT32, num, windows, depth);
    return 0;
}

static i64 larger(i64 a, i64 b) { return a > b ? a : b; }
static i64 least(i64 a, i64 b) { return a < b ? a : b; }

/* Elements [*from, *to) of the window at `at` are inside of the image along an axis. */
static void clip_window(const struct pooling *p, int axis, i64 at, i64 *from, i64 *to) {
    const i64 start = at * p->stride[axis] - p->pad[axis];
    *from = larger(0, start), *to = least(p->image[axis], start + p->kernel[axis]);
}

/* Points of a window joined; `run` channels of an image's block. */
static void pool_window(const struct pooling *p, float *acc, const u8 *block, i64 width, i64 run, const i64 *from, const i64 *to) {
    float row[MOST_WIDTH];
    int is_begun = 0;
    for (i64 y = from[ROWS]; y < to[ROWS]; y++) {
        for (i64 x = from[COLUMNS]; x < to[COLUMNS]; x++, is_begun = 1) {
            load_row(is_begun ? row : acc, block + (y * p->image[COLUMNS] + x) * width * p->of_image.bytes, p->fmt, run);
            for (i64 i = 0; is_begun && i < run; i++) acc[i] = join_two(p->join, acc[i], row[i]);
        }
    }
}

/* Is x before y among the candidates for an extreme: NaN first, then by order, -0 < +0? Equal ones are not. */
static int is_before(int is_max, float x, float y) {
    if (y != y) return 0;
    if (x != x) return 1;
    if (x == y) return x == 0 && (is_max ? !signbit(x) && signbit(y) : signbit(x) && !signbit(y));
    return is_max ? x > y : x < y;
}

static void find_extreme(const struct pooling *p, float *acc, i32 *index, const u8 *block, i64 width, i64 run, const i64 *from, const i64 *to) {
    float row[MOST_WIDTH];
    int is_begun = 0;
    for (i64 y = from[ROWS]; y < to[ROWS]; y++) {
        for (i64 x = from[COLUMNS]; x < to[COLUMNS]; x++, is_begun = 1) {
            const i64 point = y * p->image[COLUMNS] + x;
            load_row(row, block + point * width * p->of_image.bytes, p->fmt, run);
            for (i64 i = 0; i < run; i++) {
                if (is_begun && !is_before(p->join == JOIN_MAX, row[i], acc[i])) continue;
                acc[i] = row[i];
                index[i] = (i32)point;
            }
        }
    }
}

static void store_index(u8 *dst, const i32 *index, i64 n, i64 width) {
    memcpy(dst, index, (size_t)n * sizeof *index);
    memset(dst + n * (i64)sizeof *index, 0, (size_t)(width - n) * sizeof *index);
}

/* All windows of a batch. */
static void pool_batch(const struct pooling *p, u8 *dst, u8 *indices, const u8 *src) {
    i64 width, run, from[2], to[2], at[2];
    for (i64 c = 0; c < p->of_image.channels; c += run) {
        const u8 *const block = src + find_channel(&p->of_image, c, &width, &run);
        u8 *target = dst + find_channel(&p->of_windows, c, &width, &run), *index_target = indices ? indices + find_channel(&p->of_index, c, &width, &run) : NULL;
        for (at[ROWS] = 0; at[ROWS] < p->windows[ROWS]; at[ROWS]++) {
            clip_window(p, ROWS, at[ROWS], &from[ROWS], &to[ROWS]);
            for (at[COLUMNS] = 0; at[COLUMNS] < p->windows[COLUMNS]; at[COLUMNS]++, target += width * p->of_windows.bytes) {
                float acc[MOST_WIDTH];
                i32 index[MOST_WIDTH];
                clip_window(p, COLUMNS, at[COLUMNS], &from[COLUMNS], &to[COLUMNS]);
                if (indices) {
                    find_extreme(p, acc, index, block, width, run, from, to);
                    store_index(index_target, index, run, width);
                    index_target += width * p->of_index.bytes;
                } else {
                    pool_window(p, acc, block, width, run, from, to);
                }
                const i64 window = at[ROWS] * p->windows[COLUMNS] + at[COLUMNS];
                store_rounded(p->rounding, p->number + window * p->of_windows.channels + c, p->fmt, target, acc, run, width, p->divisor);
            }
        }
    }
}

/* The sum of the windows that hold a point: window w does if w * stride - pad <= at < w * stride - pad + kernel. */
static void unpool_batch(const struct pooling *p, u8 *dst, const u8 *src) {
    i64 width, run, at[2], from[2], to[2];
    for (i64 c = 0; c < p->of_image.channels; c += run) {
        const u8 *const block = src + find_channel(&p->of_windows, c, &width, &run);
        u8 *target = dst + find_channel(&p->of_image, c, &width, &run);
        for (at[ROWS] = 0; at[ROWS] < p->image[ROWS]; at[ROWS]++) {
            for (at[COLUMNS] = 0; at[COLUMNS] < p->image[COLUMNS]; at[COLUMNS]++, target += width * p->of_image.bytes) {
                float acc[MOST_WIDTH] = {0}, row[MOST_WIDTH];
                for (int axis = ROWS; axis <= COLUMNS; axis++) {
                    const i64 padded = at[axis] + p->pad[axis], stride = p->stride[axis];
                    from[axis] = padded < p->kernel[axis] ? 0 : (padded - p->kernel[axis]) / stride + 1;
                    to[axis] = least(p->windows[axis], padded / stride + 1);
                }
                for (i64 y = from[ROWS]; y < to[ROWS]; y++) {
                    for (i64 x = from[COLUMNS]; x < to[COLUMNS]; x++) {
                        load_row(row, block + (y * p->windows[COLUMNS] + x) * width * p->of_windows.bytes, p->fmt, run);
                        for (i64 i = 0; i < run; i++) acc[i] += row[i];
                    }
                }
                const i64 point = at[ROWS] * p->image[COLUMNS] + at[COLUMNS];
                store_rounded(p->rounding, p->number + point * p->of_image.channels + c, p->fmt, target, acc, run, width, p->divisor);
            }
        }
    }
}

/* Sums of one channel after the other in FP32, in `sums` [points]. 0 or the fault. */
static int unpool_indexed(struct context *c, const struct pooling *p, u8 *dst, const u8 *src, const u8 *indices, float *sums) {
    const i64 points = p->of_image.points, windows = p->of_windows.points, bytes = p->of_image.bytes;
    i64 width, run, index_width;
    for (i64 channel = 0; channel < p->of_image.channels; channel++) {
        const u8 *const data = src + find_channel(&p->of_windows, channel, &width, &run), *const at = indices + find_channel(&p->of_index, channel, &index_width, &run);
        memset(sums, 0, (size_t)points * sizeof *sums);
        for (i64 w = 0; w < windows; w++) {
            i32 point;
            float x;
            memcpy(&point, at + w * index_width * (i64)sizeof point, sizeof point);
            load_row(&x, data + w * width * bytes, p->fmt, 1);
            if (point < 0 || point >= points) {
                return fail(c, FAULT_OUT_OF_BOUNDS, "index %d is outside of %lld x %lld points", point, (long long)p->image[ROWS], (long long)p->image[COLUMNS]);
            }
            sums[point] += x;
        }
        u8 *const target = dst + find_channel(&p->of_image, channel, &width, &run);
        for (i64 q = 0; q < points; q++) {
            store_rounded(p->rounding, p->number + q * p->of_image.channels + channel, p->fmt, target + q * width * bytes, sums + q, 1, 1, 1);
        }
    }
    clear_padding(dst, &p->of_image);
    return 0;
}

int execute_pool(struct context *c) {
    struct pooling p;
    if (read_pooling(c, &p)) return FAULT_BAD_DESCRIPTOR;
    const int form = c->step->form, is_back = form == FORM_UNPOOL || form == FORM_UNPOOL_INDEXED, with_index = is_indexed(form);
    const struct blocked *const from = is_back ? &p.of_windows : &p.of_image, *const to = is_back ? &p.of_image : &p.of_windows;
    const u8 *const src = spm_range(c, operand(c, CT_POOL_MAX__SRC), from->size, 1);
    u8 *const target = src ? spm_range(c, operand(c, CT_POOL_MAX__DST), to->size, 1) : NULL;
    if (!target) return (int)c->tile->fault.kind;
    u8 *const index = with_index ? spm_range(c, operand(c, CT_POOL_MAX_INDEXED__INDEX), p.of_index.size, 1) : NULL;
    if (with_index && !index) return (int)c->tile->fault.kind;
    /* with an index both results are staged, dst is written first: they may overlap */
    u8 *const out = stage(c, target, !with_index && !overlap(target, to->size, src, from->size));
    u8 *const index_out = with_index && !is_back ? c->scratch + 2 * c->machine->spm_bytes : NULL;
    const u32 special = c->machine->keeps_status ? special_of(src, p.fmt, from) : 0;
    for (i64 b = 0; b < to->batch; b++, p.number += to->points * to->channels) {
        u8 *const dst = out + b * to->stride;
        const u8 *const data = src + b * from->stride;
        const u8 *const indices = index + b * p.of_index.stride;
        if (form == FORM_UNPOOL_INDEXED) {
            if (unpool_indexed(c, &p, dst, data, indices, (float *)(void *)c->scratch)) return FAULT_OUT_OF_BOUNDS;
        } else if (is_back) {
            unpool_batch(&p, dst, data);
        } else {
            pool_batch(&p, dst, index_out ? index_out + b * p.of_index.stride : NULL, data);
        }
    }
    if (c->machine->keeps_status) note_tensors(c, special, special_of(out, p.fmt, to));
    unstage(target, out, to);
    return index_out ? unstage(index, index_out, &p.of_index) : 0;
}
