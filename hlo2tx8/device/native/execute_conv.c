/* Convolutions as the products that they imply, see device/conv_rules.py. */
#include "product.h"

enum { ROWS, COLUMNS };

/* The image and its windows; sizes are rows and columns. */
struct geometry {
    i64 batch, image[2], windows[2], channels, filters;
    i64 kernel[2], stride[2], dilation[2], pad[2];
    i64 width; /* channels at a tap along k, with their padding */
};

/* Where a row of points is: batch, row and column; the next one is to the right. */
struct position {
    i64 batch, at[2];
};

static struct position position_of(i64 first, const i64 *size) {
    const i64 row = first / size[COLUMNS];
    return (struct position){row / size[ROWS], {row % size[ROWS], first % size[COLUMNS]}};
}

static void step_right(struct position *p, const i64 *size, i64 count) {
    p->at[COLUMNS] += count;
    if (p->at[COLUMNS] < size[COLUMNS]) return;
    p->at[COLUMNS] = 0;
    if (++p->at[ROWS] < size[ROWS]) return;
    p->at[ROWS] = 0;
    p->batch++;
}

/* Rows are windows: the point of the image under the tap. */
static void image_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap) {
    const struct geometry *const g = geometry;
    const i64 y0 = tap / g->kernel[COLUMNS] * g->dilation[ROWS] - g->pad[ROWS];
    const i64 x0 = tap % g->kernel[COLUMNS] * g->dilation[COLUMNS] - g->pad[COLUMNS];
    const i64 width = g->image[COLUMNS], stride = g->stride[COLUMNS];
    struct position p = position_of(first, g->windows);
    for (i64 i = 0, run; i < count; i += run, out += run, step_right(&p, g->windows, run)) { /* windows of a row at once */
        const i64 y = p.at[ROWS] * g->stride[ROWS] + y0, from = p.at[COLUMNS] * stride + x0, row = point_of(p.batch, y * width);
        const int exists = y >= 0 && y < g->image[ROWS];
        run = g->windows[COLUMNS] - p.at[COLUMNS] < count - i ? g->windows[COLUMNS] - p.at[COLUMNS] : count - i;
        INDEPENDENT for (i64 k = 0; k < run; k++) {
            const i64 x = from + k * stride;
            out[k] = exists & (x >= 0) & (x < width) ? row + x : -1;
        }
    }
}

/* The window whose tap is over a point, along one axis; -1 if there is none. */
static i64 window_over(const struct geometry *g, int axis, i64 at, i64 k) {
    const i64 shifted = at + g->pad[axis] - k * g->dilation[axis];
    if (shifted < 0 || (u32)shifted % (u32)g->stride[axis]) return -1;
    const i64 window = (u32)shifted / (u32)g->stride[axis];
    return window < g->windows[axis] ? window : -1;
}

/* Rows are points of the image: the window whose tap is over them. */
static void gradient_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap) {
    const struct geometry *const g = geometry;
    struct position p = position_of(first, g->image);
    for (i64 i = 0; i < count; i++, step_right(&p, g->image, 1)) {
        const i64 row = window_over(g, ROWS, p.at[ROWS], tap / g->kernel[COLUMNS]);
        const i64 column = window_over(g, COLUMNS, p.at[COLUMNS], tap % g->kernel[COLUMNS]);
        out[i] = row < 0 || column < 0 ? -1 : point_of(p.batch, row * g->windows[COLUMNS] + column);
    }
}

/* Columns are filters: their weights at the tap. */
static void filter_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap) {
    const struct geometry *const g = geometry;
    for (i64 i = 0; i < count; i++) out[i] = tap * g->filters + first + i;
}

/* k runs through taps of filters with their padding. */
static void weight_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap) {
    const struct geometry *const g = geometry;
    (void)tap;
    i64 t = first / g->width, filter = first % g->width;
    for (i64 i = 0; i < count; i++) {
        out[i] = filter < g->filters ? t * g->filters + filter : -1;
        if (++filter == g->width) t++, filter = 0;
    }
}

/* k runs through the windows of all batches. */
static void window_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap) {
    const struct geometry *const g = geometry;
    const i64 windows = g->windows[ROWS] * g->windows[COLUMNS];
    (void)tap;
    for (i64 i = 0, run; i < count; i += run) {
        const i64 batch = (first + i) / windows, at = (first + i) % windows;
        run = windows - at < count - i ? windows - at : count - i;
        INDEPENDENT for (i64 k = 0; k < run; k++) out[i + k] = point_of(batch, at + k);
    }
}

/* The same for the point of the image under one tap of each window. */
struct shifted {
    struct geometry geometry;
    i64 tap;
};

static void shifted_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap) {
    const struct shifted *const s = geometry;
    (void)tap;
    image_points(&s->geometry, out, first, count, s->tap);
}

/* ------------------------------------------------------------------------------------------------------------------------- records */

static int check_all_bounds(struct context *c) {
    static const struct bound conv[] = NE_CONV__BOUNDS, conv_quantised[] = NE_CONV_QUANTISED__BOUNDS, depthwise[] = NE_DEPTHWISE__BOUNDS;
    static const struct bound depthwise_quantised[] = NE_DEPTHWISE_QUANTISED__BOUNDS;
    switch (c->step->opcode) {
    case OP_NE_CONV_QUANTISED: return check_bounds(c, conv_quantised, COUNT_OF(conv_quantised));
    case OP_NE_DEPTHWISE: return check_bounds(c, depthwise, COUNT_OF(depthwise));
    case OP_NE_DEPTHWISE_QUANTISED: return check_bounds(c, depthwise_quantised, COUNT_OF(depthwise_quantised));
    default: return check_bounds(c, conv, COUNT_OF(conv)); /* backward ones are alike */
    }
}

/* 0 or the fault. Operands are in the order of NE_CONV, a depthwise convolution only lacks the filters. */
static int read_geometry(struct context *c, struct geometry *g, int is_depthwise) {
    const int kernel = is_depthwise ? NE_DEPTHWISE__KERNEL_H : NE_CONV__KERNEL_H;
    *g = (struct geometry){.batch = operand(c, NE_CONV__BATCH), .channels = operand(c, NE_CONV__C)};
    g->filters = is_depthwise ? g->channels : operand(c, NE_CONV__FILTERS);
    for (int axis = ROWS; axis <= COLUMNS; axis++) {
        g->image[axis] = operand(c, NE_CONV__H + axis);
        g->kernel[axis] = operand(c, kernel + axis);
        g->stride[axis] = operand(c, kernel + 2 + axis);
        g->dilation[axis] = operand(c, kernel + 4 + axis);
        g->pad[axis] = operand(c, kernel + 6 + 2 * axis);
        const i64 room = g->image[axis] + g->pad[axis] + operand(c, kernel + 7 + 2 * axis) - (g->kernel[axis] - 1) * g->dilation[axis] - 1;
        if (room < 0) return fail(c, FAULT_BAD_DESCRIPTOR, "a window of %lld x %lld does not fit", (long long)g->kernel[0], (long long)g->kernel[1]);
        g->windows[axis] = room / g->stride[axis] + 1;
    }
    return 0;
}

static struct source source_of(struct blocked layout, int is_along, void (*points)(const void *, i64 *, i64, i64, i64)) {
    return (struct source){.layout = layout, .is_along = is_along, .width = aligned_channels(&layout), .points = points};
}

/* Do all taps of a row of the kernel lie in the image, the channels of the next point behind a point's? */
static int has_rows_of_taps(const struct geometry *g, const struct blocked *image) {
    const i64 last = (g->windows[COLUMNS] - 1) * g->stride[COLUMNS] + g->kernel[COLUMNS];
    if (g->kernel[COLUMNS] == 1 || image->num_blocks + (image->tail > 0) > 1) return 0;
    return g->dilation[COLUMNS] == 1 && g->pad[COLUMNS] == 0 && last <= g->image[COLUMNS];
}

/* An operand whose points have the channels of all taps of a row. */
static void take_rows_of_taps(struct source *image, const struct geometry *g) {
    struct blocked *const l = &image->layout;
    if (l->channels < aligned_channels(l)) image->tap_width = aligned_channels(l), image->tap_channels = l->channels;
    image->placed.point_bytes = aligned_channels(l) * l->bytes, image->placed.block_bytes = l->width * l->bytes;
    l->channels = image->width = g->kernel[COLUMNS] * aligned_channels(l);
}

/* Blocks of channels for the taps of a row. */
static struct blocked taps_of(const struct blocked *l, const struct geometry *g) {
    struct blocked row = *l;
    row.width = aligned_channels(l), row.num_blocks = g->kernel[COLUMNS], row.tail = 0;
    row.channels = row.width * row.num_blocks, row.points = g->filters;
    return row;
}

/* One product per tap, or where that can be per row of taps: they are columns beside each other. */
static void run_backward_weight(struct context *c, const struct product *whole, struct shifted *s) {
    const struct geometry *const g = &s->geometry;
    const i64 taps = g->kernel[ROWS] * g->kernel[COLUMNS];
    struct product p = *whole;
    i64 step = 1;
    if (has_rows_of_taps(g, &p.right.layout) && aligned_channels(&p.right.layout) == aligned_channels(&p.result)) {
        step = g->kernel[COLUMNS];
        p.result = taps_of(&whole->result, g), p.psum = taps_of(&whole->psum, g);
        take_rows_of_taps(&p.right, g);
        p.columns = p.result.channels;
    }
    const i64 points = step * g->filters * aligned_channels(&whole->result);
    for (; s->tap < taps; s->tap += step) {
        run_product(&p, product_scratch(c));
        if (step == 1) p.first += g->filters;
        else {
            p.out += points * p.result.bytes;
            if (p.sums) p.sums += points * p.psum.bytes;
        }
    }
}

/* Blocks of k that are nothing but padding change no sum, except that from -0 on; else taps of a row are read at once. */
static void shorten_taps(struct product *p, struct geometry *g, i64 taps) {
    const i64 needed = (g->channels + NE_BLOCK - 1) / NE_BLOCK * NE_BLOCK;
    if (needed < p->left.width && !p->sums) {
        p->left.width = p->right.width = needed;
        p->depth = taps * needed;
    } else if ((g->channels == p->left.width || p->fmt != FORMAT_INT8) && has_rows_of_taps(g, &p->left.layout)) {
        take_rows_of_taps(&p->left, g);
        g->kernel[COLUMNS] = 1;
    }
}

int execute_conv(struct context *c) {
    const int op = c->step->opcode, fmt = c->step->fmt2, is_depthwise = op == OP_NE_DEPTHWISE || op == OP_NE_DEPTHWISE_QUANTISED;
    struct shifted s = {.tap = 0};
    struct geometry *const g = &s.geometry;
    if (check_all_bounds(c) || read_geometry(c, g, is_depthwise)) return FAULT_BAD_DESCRIPTOR;
    const i64 taps = g->kernel[ROWS] * g->kernel[COLUMNS], windows = g->windows[ROWS] * g->windows[COLUMNS], points = g->image[ROWS] * g->image[COLUMNS];
    const struct blocked image = blocked_of(fmt, g->batch, points, g->channels), gradient = blocked_of(fmt, g->batch, windows, g->filters);
    const struct blocked weight = blocked_of(fmt, 1, is_depthwise ? taps : taps * g->filters, g->channels);
    struct product p = {.fmt = fmt, .result_fmt = c->step->fmt, .geometry = g};
    struct blocked result = gradient;
    if (op == OP_NE_CONV_BACKWARD_WEIGHT) {
        p.left = source_of(gradient, 0, window_points), p.right = source_of(image, 0, shifted_points);
        p.rows = g->filters, p.columns = g->channels, p.depth = g->batch * windows, result = weight;
    } else if (op == OP_NE_CONV_BACKWARD_IMAGE) {
        p.left = source_of(gradient, 1, gradient_points), p.right = source_of(weight, 0, weight_points);
        p.rows = g->batch * points, p.columns = g->channels, p.depth = taps * p.left.width, result = image;
        g->width = p.left.width;
    } else {
        p.left = source_of(image, 1, image_points), p.right = source_of(weight, 1, filter_points);
        p.rows = g->batch * windows, p.columns = g->filters, p.depth = taps * p.left.width;
    }
    p.result = blocked_of(p.result_fmt, result.batch, result.points, result.channels);
    p.psum = blocked_of(FORMAT_FP32, result.batch, result.points, result.channels); /* INT32 is as wide */
    if (op == OP_NE_CONV_QUANTISED) set_quantisation(c, &p, NE_CONV_QUANTISED__Q1);
    if (op == OP_NE_DEPTHWISE_QUANTISED) set_quantisation(c, &p, NE_DEPTHWISE_QUANTISED__Q1);
    u8 *target;
    if (find_operands(c, &p, (int)operand(c, is_depthwise ? NE_DEPTHWISE__ACCUMULATE : NE_CONV__ACCUMULATE), &target)) return (int)c->tile->fault.kind;
    if (op == OP_NE_CONV) shorten_taps(&p, g, taps);
    if (is_depthwise) run_depthwise(&p, taps);
    else if (op == OP_NE_CONV_BACKWARD_WEIGHT) run_backward_weight(c, &p, &s);
    else run_product(&p, product_scratch(c));
    return finish_product(c, &p, target, p.out);
}
