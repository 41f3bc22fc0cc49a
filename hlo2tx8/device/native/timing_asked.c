/* Costs that the timing of a program asks Python for, where there is no Python: of tensors in Cx and NCx, of the matrix engine and of TDMA on
 * tensors. See the instruction classes, timing/ne_cycles.py and timing/costs.py, which is what this has to equal. */
#include "blocked.h"
#include "timing_model.h"

#define CONV(o, name, shift) (o)[NE_CONV__##name - (shift)]

static i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
static i64 bytes_of(int fmt, i64 batch, i64 points, i64 channels) { return blocked_of(fmt, batch, points, channels).size; }

static i64 num_windows(i64 size, i64 kernel, i64 stride, i64 dilation, i64 before, i64 after) {
    return (size + before + after - (kernel - 1) * dilation - 1) / stride + 1;
}

static int sums_format(int fmt) { return fmt == FORMAT_INT8 ? FORMAT_INT32 : FORMAT_FP32; }

/* `count` products of [rows, depth] and [depth, columns], depth with its padding. */
struct product_size {
    i64 count, rows, columns, depth;
};

static struct product_size gemm_sizes(int fmt, int fmt2, const i64 *o, i64 *sizes) {
    const i64 m = o[NE_GEMM__ROWS], n = o[NE_GEMM__COLUMNS], k = o[NE_GEMM__DEPTH], batch = o[NE_GEMM__BATCH];
    const int left = o[NE_GEMM__TRANSPOSE_LEFT] != 0, right = o[NE_GEMM__TRANSPOSE_RIGHT] != 0;
    sizes[0] = bytes_of(fmt, batch, m, n);
    sizes[1] = bytes_of(fmt2, batch, left ? k : m, left ? m : k);
    sizes[2] = bytes_of(fmt2, batch, right ? k : n, right ? n : k);
    sizes[3] = o[NE_GEMM__ACCUMULATE] ? bytes_of(sums_format(fmt2), batch, m, n) : 0;
    return (struct product_size){batch, m, n, k};
}

static struct product_size conv_sizes(int opcode, int fmt, int fmt2, const i64 *o, i64 *sizes) {
    const int is_depthwise = opcode == OP_NE_DEPTHWISE || opcode == OP_NE_DEPTHWISE_QUANTISED;
    const i64 batch = o[NE_CONV__BATCH], h = o[NE_CONV__H], w = o[NE_CONV__W], c = o[NE_CONV__C], filters = is_depthwise ? c : o[NE_CONV__FILTERS];
    const i64 ky = CONV(o, KERNEL_H, is_depthwise), kx = CONV(o, KERNEL_W, is_depthwise), taps = ky * kx;
    const i64 rows = num_windows(h, ky, CONV(o, STRIDE_H, is_depthwise), CONV(o, DILATION_H, is_depthwise), CONV(o, PAD_TOP, is_depthwise),
                                 CONV(o, PAD_BOTTOM, is_depthwise));
    const i64 columns = num_windows(w, kx, CONV(o, STRIDE_W, is_depthwise), CONV(o, DILATION_W, is_depthwise), CONV(o, PAD_LEFT, is_depthwise),
                                    CONV(o, PAD_RIGHT, is_depthwise));
    /* batch, points and channels of an image, of windows, of weights */
    const i64 image[] = {batch, h * w, c}, window[] = {batch, rows * columns, filters}, weight[] = {1, is_depthwise ? taps : taps * filters, c};
    const i64 *dst = window, *first = image, *second = weight;
    if (opcode == OP_NE_CONV_BACKWARD_IMAGE) dst = image, first = window;
    if (opcode == OP_NE_CONV_BACKWARD_WEIGHT) dst = weight, first = window, second = image;
    sizes[0] = bytes_of(fmt, dst[0], dst[1], dst[2]);
    sizes[1] = bytes_of(fmt2, first[0], first[1], first[2]);
    sizes[2] = bytes_of(fmt2, second[0], second[1], second[2]);
    sizes[3] = CONV(o, ACCUMULATE, is_depthwise) ? bytes_of(sums_format(fmt2), dst[0], dst[1], dst[2]) : 0;
    const struct blocked across_c = blocked_of(fmt2, 1, 1, c), across_filters = blocked_of(fmt2, 1, 1, filters);
    const i64 windows = batch * rows * columns;
    if (is_depthwise) return (struct product_size){c, windows, 1, taps};
    if (opcode == OP_NE_CONV_BACKWARD_IMAGE) return (struct product_size){1, batch * h * w, c, taps * aligned_channels(&across_filters)};
    if (opcode == OP_NE_CONV_BACKWARD_WEIGHT) return (struct product_size){taps, filters, c, windows};
    return (struct product_size){1, windows, filters, taps * aligned_channels(&across_c)};
}

static void reduce_sizes(int fmt, const i64 *o, i64 *sizes) {
    enum { DIM_OF_C, DIM_OF_W, DIM_OF_H, DIM_OF_HW };
    const i64 batch = o[CT_REDUCE_SUM__BATCH], h = o[CT_REDUCE_SUM__H], w = o[CT_REDUCE_SUM__W], c = o[CT_REDUCE_SUM__C], dim = o[CT_REDUCE_SUM__DIM];
    sizes[0] = bytes_of(fmt, batch, (dim == DIM_OF_H || dim == DIM_OF_HW ? 1 : h) * (dim == DIM_OF_W || dim == DIM_OF_HW ? 1 : w), dim == DIM_OF_C ? 1 : c);
    sizes[1] = bytes_of(fmt, batch, h * w, c);
}

/* `shift` is 1 for those that have an index besides. */
static void pool_sizes(int form, int fmt, const i64 *o, i64 *sizes) {
    const int shift = form == FORM_POOL_INDEXED || form == FORM_UNPOOL_INDEXED, is_back = form == FORM_UNPOOL || form == FORM_UNPOOL_INDEXED;
#define POOL(name) o[CT_POOL_MAX__##name + shift]
    const i64 rows = num_windows(POOL(H), POOL(KERNEL_H), POOL(STRIDE_H), 1, POOL(PAD_TOP), POOL(PAD_BOTTOM));
    const i64 columns = num_windows(POOL(W), POOL(KERNEL_W), POOL(STRIDE_W), 1, POOL(PAD_LEFT), POOL(PAD_RIGHT));
    sizes[!is_back] = bytes_of(fmt, POOL(BATCH), POOL(H) * POOL(W), POOL(C));
    sizes[is_back] = bytes_of(fmt, POOL(BATCH), rows * columns, POOL(C));
    sizes[2] = bytes_of(FORMAT_INT32, POOL(BATCH), rows * columns, POOL(C));
#undef POOL
}

static i64 joined_run(const i64 *o, int axis, i64 extent) {
    const i64 sizes[] = {o[TDMA_CONCAT__BATCH], o[TDMA_CONCAT__H], o[TDMA_CONCAT__W], o[TDMA_CONCAT__C]};
    i64 run = extent;
    for (int k = axis + 1; k < 4; k++) run *= sizes[k];
    return run;
}

/* Of TDMA on tensors; the elements that stay next to each other. */
static i64 tensor_sizes(int opcode, int fmt, const i64 *o, i64 *sizes) {
    const int shift = opcode == OP_TDMA_CONCAT;
    const i64 each = format_bytes(fmt), batch = o[TDMA_PAD__BATCH + shift], h = o[TDMA_PAD__H + shift], w = o[TDMA_PAD__W + shift], c = o[TDMA_PAD__C + shift];
    i64 run = c, windows;
    sizes[0] = sizes[1] = batch * h * w * c * each;
    switch (opcode) {
    case OP_TDMA_NCHW_TO_NHWC: case OP_TDMA_NHWC_TO_NCHW: return 1;
    case OP_TDMA_CONCAT: {
        const i64 dim = o[TDMA_CONCAT__DIM], extent = o[TDMA_CONCAT__EXTENT];
        const int axis = dim == 0 ? 3 : dim == 1 ? 2 : 1;
        const i64 own = axis == 3 ? c : axis == 2 ? w : h, a = joined_run(o, axis, own), b = joined_run(o, axis, extent);
        sizes[2] = sizes[1] / own * extent, sizes[0] = sizes[1] + sizes[2];
        return a < b ? a : b;
    }
    case OP_TDMA_PAD:
        sizes[0] = batch * (o[TDMA_PAD__PAD_TOP] + h + o[TDMA_PAD__PAD_BOTTOM]) * (o[TDMA_PAD__PAD_LEFT] + w + o[TDMA_PAD__PAD_RIGHT]) * c * each;
        return w * c;
    case OP_TDMA_CHANNEL_NORM: {
        const struct blocked l = blocked_of(fmt, batch, h * w, c);
        const i64 last = (c - 1) / l.width * l.width;
        sizes[0] = l.size;
        return c - last < l.width ? c - last : l.width;
    }
    case OP_TDMA_UNFOLD:
        windows = num_windows(h, o[TDMA_UNFOLD__KERNEL_H], o[TDMA_UNFOLD__STRIDE_H], o[TDMA_UNFOLD__DILATION_H], o[TDMA_UNFOLD__PAD_TOP], o[TDMA_UNFOLD__PAD_BOTTOM]) *
                  num_windows(w, o[TDMA_UNFOLD__KERNEL_W], o[TDMA_UNFOLD__STRIDE_W], o[TDMA_UNFOLD__DILATION_W], o[TDMA_UNFOLD__PAD_LEFT], o[TDMA_UNFOLD__PAD_RIGHT]);
        sizes[0] = batch * windows * o[TDMA_UNFOLD__KERNEL_H] * o[TDMA_UNFOLD__KERNEL_W] * c * each;
        return c;
    default: return run;
    }
}

int cost_of_head(const struct timed_model_chip *c, const struct timed_kind *kind, u64 head, const i64 *o, struct timed_shape *shape) {
    const int opcode = (u16)head, fmt = (u8)(head >> 16), fmt2 = (u8)(head >> 24), form = facts[opcode].form;
    i64 sizes[MAX_RANGES] = {0}, run = 0, most = 0;
    struct product_size p = {0, 0, 0, 0};
    int asks = 1;
    switch ((enum form)form) {
    case FORM_GEMM: p = gemm_sizes(fmt, fmt2, o, sizes); break;
    case FORM_CONV: p = conv_sizes(opcode, fmt, fmt2, o, sizes); break;
    case FORM_REDUCE: reduce_sizes(fmt, o, sizes); break;
    case FORM_POOL: case FORM_POOL_INDEXED: case FORM_UNPOOL: case FORM_UNPOOL_INDEXED: pool_sizes(form, fmt, o, sizes); break;
    case FORM_TENSOR_MOVE: run = tensor_sizes(opcode, fmt, o, sizes) * format_bytes(fmt); break;
    default: asks = 0;
    }
    memset(shape, 0, sizeof *shape);
    if (follow_rules(&c->chip, kind, o, asks ? sizes : NULL, shape)) return 1;
    for (i64 k = 0; k < kind->num_extents; k++) most = sizes[k] > most ? sizes[k] : most;
    if (p.count) {
        const i64 steps = p.count * ceil_div(p.rows, c->ne_tile_rows) * ceil_div(p.columns, c->ne_tile_columns) * ceil_div(p.depth, c->ne_tile_depth);
        shape->cycles = (double)c->ne_startup + (double)steps / (double)(c->ne_arrays * (fmt2 == FORMAT_INT8 ? c->ne_int8_speedup : 1));
    } else if (run) {
        const i64 least = c->chip.tdma_min_run_bytes;
        shape->cycles = (double)c->chip.tdma_startup + (double)(run >= least ? most : most / run * least) / (double)c->chip.tdma_bytes_per_cycle;
    } else if (kind->work == WORK_ASKED) {
        return 1;
    }
    if (kind->work == WORK_DMA) shape->ddr_bytes *= kind->engine == ENGINE_RDMA ? c->ddr_read_charge : c->ddr_write_charge;
    return 0;
}
