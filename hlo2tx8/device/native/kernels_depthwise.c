/* Depthwise convolutions: every channel is a product of its own, so vectors are channels of one point. */
#include "product.h"

/* What has been summed of a point's channels, up to a block's width; `a` and `b` are the operands at one tap, `s` the sum of a block. */
struct point_sums {
    union {
        float f[MOST_WIDTH];
        i32 i[MOST_WIDTH];
    } acc;
    union {
        float f[MOST_WIDTH];
        i16 h[MOST_WIDTH];
    } a, b;
    float s[MOST_WIDTH];
    double wide[MOST_WIDTH];
};

/* s = a * b, or s + a * b; the processor rounds toward zero. */
static APART void add_float_products(struct point_sums *p, int is_first, i64 n) {
    for (i64 i = 0; i < n; i += LANES) {
        const floats a = load_floats(p->a.f + i), b = load_floats(p->b.f + i);
        store_floats(p->s + i, is_first ? mul_floats(a, b) : fma_floats(a, b, load_floats(p->s + i)));
    }
}

/* The same in double to nearest, where products are exact. */
static APART void add_double_products(struct point_sums *p, int is_first, i64 n) {
    for (i64 i = 0; i < n; i++) {
        const double product = (double)p->a.f[i] * (double)p->b.f[i];
        p->wide[i] = is_first ? product : p->wide[i] + product;
    }
}

/* acc + s, toward zero; a block that is not full has zeros: -0 + 0 = +0. */
static APART void join_block(struct point_sums *p, int is_double, int is_full, i64 n) {
    for (i64 i = 0; i < n; i++) {
        const float s = is_double ? (float)(is_full ? p->wide[i] : p->wide[i] + 0.0) : is_full ? p->s[i] : p->s[i] + 0.0f;
        p->acc.f[i] += s;
    }
}

static APART void add_tap(struct point_sums *p, int fmt, i64 tap, i64 taps, i64 n) {
    const i64 at = tap % NE_BLOCK, is_last = at == NE_BLOCK - 1 || tap == taps - 1;
    const int is_double = fmt == FORMAT_FP16;
    if (fmt == FORMAT_INT8) {
        for (i64 i = 0; i < n; i++) p->acc.i[i] = (i32)((u32)p->acc.i[i] + (u32)(p->a.h[i] * p->b.h[i]));
        return;
    }
    if (is_double) add_double_products(p, !at, n);
    round_toward_zero();
    if (!is_double) add_float_products(p, !at, n);
    if (is_last) join_block(p, is_double, at == NE_BLOCK - 1, n);
    round_to_nearest();
}

/* `run` channels from c on, of all rows. */
static void run_block(const struct product *p, i64 taps, i64 c, i64 run) {
    struct point_sums sums = {.a = {{0}}, .b = {{0}}};
    i64 width, ignored, point;
    const u8 *const image = p->left.data + find_channel(&p->left.layout, c, &width, &ignored);
    const u8 *const weight = p->right.data + find_channel(&p->right.layout, c, &width, &ignored);
    i64 sums_width = 0, result_width;
    const i64 at_sums = find_channel(&p->psum, c, &sums_width, &ignored), at_result = find_channel(&p->result, c, &result_width, &ignored);
    for (i64 row = 0; row < p->rows; row++) {
        memset(&sums.acc, 0, sizeof sums.acc);
        if (p->sums) memcpy(&sums.acc, p->sums + at_sums + row_offset(&p->psum, sums_width, row), (size_t)run * 4);
        for (i64 tap = 0; tap < taps; tap++) {
            p->left.points(p->geometry, &point, row, 1, tap);
            if (point >= 0) widen_run(&sums.a, p->fmt, image + offset_of(&p->left.layout, width, point), run, p->left.zero_point);
            else memset(&sums.a, 0, sizeof sums.a);
            widen_run(&sums.b, p->fmt, weight + tap * width * p->right.layout.bytes, run, 0);
            add_tap(&sums, p->fmt, tap, taps, run);
        }
        store_sums(p, p->out + at_result + row_offset(&p->result, result_width, row), &sums.acc, run);
    }
}

/* Blocks of 64 channels: those of an INT8 layout are two of others. */
void run_depthwise(const struct product *p, i64 taps) {
    for (i64 c = 0, run; c < p->columns; c += run) {
        i64 width;
        find_channel(&p->left.layout, c, &width, &run);
        if (run > 64 - c % 64) run = 64 - c % 64;
        run_block(p, taps, c, run);
    }
}
