/* TDMA on whole tensors, see device/isa/tdma.py: nested copies of opaque elements. */
#include "blocked.h"

#define MOST_POINTS 4096
#define MOST_CHANNELS 16384
#define MOST_KERNEL 255
#define MOST_STRIDE 1023
#define AXES 4

/* dst, then sources, then the shape. */
enum { SHAPE = TDMA_TRANSPOSE__BATCH, BATCH = 0, HEIGHT, WIDTH, CHANNELS };

static int bad(struct context *c, int k, i64 value) { return fail(c, FAULT_BAD_DESCRIPTOR, "operand %d is %lld", k, (long long)value); }

/* `num` operands from k on, each in [least, most]; 0 or the fault. */
static int read_counts(struct context *c, i64 *out, int k, int num, i64 least, i64 most) {
    for (int i = 0; i < num; i++) {
        out[i] = operand(c, k + i);
        if (out[i] < least || out[i] > most) return bad(c, k + i, out[i]);
    }
    return 0;
}

static int read_shape(struct context *c, i64 *shape, int k) {
    const int fault = read_counts(c, shape, k, 3, 1, MOST_POINTS);
    return fault ? fault : read_counts(c, shape + CHANNELS, k + CHANNELS, 1, 1, MOST_CHANNELS);
}

/* Elements, or more than any SPM has. */
static i64 size_of(const i64 *shape, int num) {
    __int128 n = 1;
    for (int i = 0; i < num; i++) {
        n *= shape[i];
        if (n > INT64_MAX / 32) return INT64_MAX / 32;
    }
    return (i64)n;
}

/* `src`, or a copy in the region where it overlaps what is written. */
static const u8 *kept(struct context *c, const u8 *src, i64 bytes, const u8 *dst, i64 dst_bytes, int region) {
    return overlap(src, bytes, dst, dst_bytes) ? memcpy(region_of(c, region), src, (size_t)bytes) : src;
}

/* Finds operand 1, `n` elements, and operand 0, `num_bytes`; 0 or the fault. */
static int find_pair(struct context *c, u8 **dst, const u8 **src, i64 n, i64 num_bytes) {
    const i64 bytes = c->step->bytes;
    const u8 *const raw = spm_range(c, operand(c, 1), n, bytes);
    *dst = raw ? spm_range(c, operand(c, 0), num_bytes, 1) : NULL;
    if (!*dst) return (int)c->tile->fault.kind;
    *src = kept(c, raw, n * bytes, *dst, num_bytes, 0);
    return 0;
}

/* Axes of the source in the order of the result; bit i: axis i of the result runs backwards. */
struct permutation {
    u8 axes[AXES], flipped;
};

static struct permutation permutation_of(int opcode) {
    switch (opcode) {
    case OP_TDMA_TRANSPOSE: return (struct permutation){{0, 2, 1, 3}, 0};
    case OP_TDMA_MIRROR: return (struct permutation){{0, 1, 2, 3}, 1 << 2};
    case OP_TDMA_ROTATE90: return (struct permutation){{0, 2, 1, 3}, 1 << 2};
    case OP_TDMA_ROTATE180: return (struct permutation){{0, 1, 2, 3}, 1 << 1 | 1 << 2};
    case OP_TDMA_ROTATE270: return (struct permutation){{0, 2, 1, 3}, 1 << 1};
    case OP_TDMA_NCHW_TO_NHWC: return (struct permutation){{0, 2, 3, 1}, 0};
    default: return (struct permutation){{0, 3, 1, 2}, 0};
    }
}

static int run_permute(struct context *c) {
    const struct permutation p = permutation_of(c->step->opcode);
    const i64 bytes = c->step->bytes;
    i64 given[AXES], shape[AXES], apart[AXES];
    int fault = read_shape(c, given, SHAPE);
    if (fault) return fault;
    const int is_nchw = c->step->opcode == OP_TDMA_NCHW_TO_NHWC;
    for (int i = 0; i < AXES; i++) shape[i] = !is_nchw || i == 0 ? given[i] : given[i == 1 ? CHANNELS : i - 1];
    const i64 n = size_of(shape, AXES);
    u8 *dst;
    const u8 *src;
    fault = find_pair(c, &dst, &src, n, n * bytes);
    if (fault) return fault;
    apart[AXES - 1] = bytes;
    for (int i = AXES - 1; i > 0; i--) apart[i - 1] = apart[i] * shape[i];
    struct level levels[AXES];
    i64 distance = bytes;
    for (int i = AXES - 1; i >= 0; i--) {
        const int axis = p.axes[i], is_flipped = p.flipped >> i & 1;
        levels[AXES - 1 - i] = (struct level){shape[axis], distance, is_flipped ? -apart[axis] : apart[axis]};
        if (is_flipped) src += (shape[axis] - 1) * apart[axis];
        distance *= shape[axis];
    }
    copy_levels(dst, src, bytes, levels, AXES);
    return 0;
}

static int run_concat(struct context *c) {
    const i64 bytes = c->step->bytes, extent = operand(c, TDMA_CONCAT__EXTENT), dim = operand(c, TDMA_CONCAT__DIM);
    i64 shape[AXES], second[AXES];
    const int fault = read_shape(c, shape, TDMA_CONCAT__BATCH);
    if (fault) return fault;
    if (extent < 1 || extent > MOST_CHANNELS) return bad(c, TDMA_CONCAT__EXTENT, extent);
    if (dim < 0 || dim > 2) return bad(c, TDMA_CONCAT__DIM, dim);
    const int axis = CHANNELS - (int)dim;
    memcpy(second, shape, sizeof second);
    second[axis] = extent;
    const i64 a_bytes = size_of(shape, AXES) * bytes, b_bytes = size_of(second, AXES) * bytes;
    const u8 *a = spm_range(c, operand(c, TDMA_CONCAT__A), a_bytes, 1), *b = a ? spm_range(c, operand(c, TDMA_CONCAT__B), b_bytes, 1) : NULL;
    u8 *const dst = b ? spm_range(c, operand(c, TDMA_CONCAT__DST), a_bytes + b_bytes, 1) : NULL;
    if (!dst) return (int)c->tile->fault.kind;
    a = kept(c, a, a_bytes, dst, a_bytes + b_bytes, 0);
    b = kept(c, b, b_bytes, dst, a_bytes + b_bytes, 1);
    const i64 turns = size_of(shape, axis), run = a_bytes / turns, next = b_bytes / turns;
    copy_levels(dst, a, run, &(struct level){turns, run + next, run}, 1);
    copy_levels(dst + run, b, next, &(struct level){turns, run + next, next}, 1);
    return 0;
}

/* n elements with the bits `value`. */
static void fill(u8 *dst, i64 value, i64 n, i64 bytes) {
    u8 element[16] = {0};
    memcpy(element, &value, sizeof value);
    memcpy(dst, element, (size_t)bytes);
    for (i64 done = 1; done < n; done *= 2) memcpy(dst + done * bytes, dst, (size_t)((n - done < done ? n - done : done) * bytes));
}

static int run_pad(struct context *c) {
    const i64 bytes = c->step->bytes;
    i64 shape[AXES], pads[4];
    int fault = read_shape(c, shape, SHAPE);
    if (!fault) fault = read_counts(c, pads, TDMA_PAD__PAD_TOP, 4, 0, MOST_STRIDE);
    if (fault) return fault;
    const i64 result[AXES] = {shape[BATCH], pads[0] + shape[HEIGHT] + pads[1], pads[2] + shape[WIDTH] + pads[3], shape[CHANNELS]};
    const i64 n = size_of(result, AXES), row = shape[WIDTH] * shape[CHANNELS] * bytes, line = result[WIDTH] * shape[CHANNELS] * bytes;
    u8 *dst;
    const u8 *src;
    fault = find_pair(c, &dst, &src, size_of(shape, AXES), n * bytes);
    if (fault) return fault;
    fill(dst, operand(c, TDMA_PAD__VALUE), n, bytes);
    struct level levels[] = {{shape[HEIGHT], line, row}, {shape[BATCH], result[HEIGHT] * line, shape[HEIGHT] * row}};
    copy_levels(dst + pads[0] * line + pads[2] * shape[CHANNELS] * bytes, src, row, levels, 2);
    return 0;
}

static int run_channel_norm(struct context *c) {
    i64 shape[AXES];
    int fault = read_shape(c, shape, SHAPE);
    if (fault) return fault;
    const i64 points = shape[HEIGHT] * shape[WIDTH], pixel = shape[CHANNELS] * c->step->bytes;
    const struct blocked l = blocked_of(c->step->fmt, shape[BATCH], points, shape[CHANNELS]);
    u8 *dst;
    const u8 *src;
    fault = find_pair(c, &dst, &src, size_of(shape, AXES), l.size);
    if (fault) return fault;
    for (i64 b = 0; b < l.batch; b++) {
        u8 *const base = dst + b * l.stride;
        i64 width, run;
        clear_padding(base, &l);
        for (i64 ch = 0; ch < l.channels; ch += run) {
            u8 *const block = base + find_channel(&l, ch, &width, &run);
            copy_levels(block, src + b * points * pixel + ch * l.bytes, run * l.bytes, &(struct level){points, width * l.bytes, pixel}, 1);
        }
    }
    return 0;
}

/* One axis of an unfolded image: its windows. */
struct windows {
    i64 size, kernel, stride, dilation, before, after, num;
};

static int read_windows(struct context *c, struct windows *v, struct windows *h, const i64 *shape) {
    i64 kernel[2], stride[2], dilation[2], pads[4];
    int fault = read_counts(c, kernel, TDMA_UNFOLD__KERNEL_H, 2, 1, MOST_KERNEL);
    if (!fault) fault = read_counts(c, stride, TDMA_UNFOLD__STRIDE_H, 2, 1, MOST_STRIDE);
    if (!fault) fault = read_counts(c, dilation, TDMA_UNFOLD__DILATION_H, 2, 1, MOST_STRIDE);
    if (!fault) fault = read_counts(c, pads, TDMA_UNFOLD__PAD_TOP, 4, 0, MOST_STRIDE);
    struct windows *const axes[] = {v, h};
    for (int i = 0; !fault && i < 2; i++) {
        struct windows *const a = axes[i];
        *a = (struct windows){shape[HEIGHT + i], kernel[i], stride[i], dilation[i], pads[2 * i], pads[2 * i + 1], 0};
        const i64 rest = a->size + a->before + a->after - (a->kernel - 1) * a->dilation - 1;
        if (rest < 0) return fail(c, FAULT_BAD_DESCRIPTOR, "a window of %lld elements, %lld apart, in %lld", (long long)a->kernel, (long long)a->dilation,
                                  (long long)(a->size + a->before + a->after));
        a->num = rest / a->stride + 1;
    }
    return fault;
}

static int run_unfold(struct context *c) {
    i64 shape[AXES];
    struct windows v, h;
    int fault = read_shape(c, shape, SHAPE);
    if (!fault) fault = read_windows(c, &v, &h, shape);
    if (fault) return fault;
    const i64 pixel = shape[CHANNELS] * c->step->bytes;
    const i64 result[] = {shape[BATCH], v.num, h.num, v.kernel, h.kernel, pixel};
    u8 *dst;
    const u8 *src;
    fault = find_pair(c, &dst, &src, size_of(shape, AXES), size_of(result, 6));
    if (fault) return fault;
    for (i64 b = 0; b < shape[BATCH]; b++, src += v.size * h.size * pixel) {
        for (i64 turn = 0; turn < v.num * h.num * v.kernel; turn++) {
            const i64 ky = turn % v.kernel, window = turn / v.kernel;
            const i64 y = window / h.num * v.stride + ky * v.dilation - v.before;
            for (i64 kx = 0; kx < h.kernel; kx++, dst += pixel) {
                const i64 x = window % h.num * h.stride + kx * h.dilation - h.before;
                const int is_inside = y >= 0 && y < v.size && x >= 0 && x < h.size;
                if (is_inside) memcpy(dst, src + (y * h.size + x) * pixel, (size_t)pixel);
                else memset(dst, 0, (size_t)pixel);
            }
        }
    }
    return 0;
}

int execute_tdma(struct context *c) {
    switch (c->step->opcode) {
    case OP_TDMA_CONCAT: return run_concat(c);
    case OP_TDMA_PAD: return run_pad(c);
    case OP_TDMA_CHANNEL_NORM: return run_channel_norm(c);
    case OP_TDMA_UNFOLD: return run_unfold(c);
    default: return run_permute(c);
    }
}
