/* Elementwise records of CT that round in another way than to nearest even: exact results as doubles rounded to odd, then one rounding.
 * See device/isa/exactness.py. They are rare, so that they are neither quick nor links of chains. */
#include "core.h"
#include "operations.h"

#define BLOCK 256

/* The nearest double of an exact number from which it is off by a number of the sign of `error`. */
static double odd(double nearest, double error) {
    if (!isfinite(nearest) || !(error < 0 || error > 0)) return nearest;
    return double_of_bits((bits_of_double(nearest) - ((error < 0) == (nearest > 0))) | 1);
}

static double odd_sum(double x, double y) {
    const double s = x + y, back = s - x;
    return odd(s, (x - (s - back)) + (y - back));
}

static double odd_quotient(double x, double y) {
    const double q = x / y, rest = fma(-q, y, x);
    return odd(q, y < 0 ? -rest : rest);
}

static double odd_root(double x) {
    const double s = sqrt(x);
    return odd(s, fma(-s, s, x));
}

#define ODD_CASE(number, text) \
    case number: \
        for (i64 i = 0; i < n; i++) { \
            const double x = p[i], y = q[i]; \
            out[i] = text; \
            (void)x, (void)y; \
        } \
        return;

static void odd_results(int exactness, double *out, const double *p, const double *q, i64 n) {
    switch (exactness) {
        ODD_RESULTS(ODD_CASE)
    default: return;
    }
}

/* Doubles into the record's format; `at` is the number of the first. */
static void round_all(const struct step *s, u8 *dst, const double *wide, i64 at, i64 n) {
    const int fmt = s->fact->is_low_precision && s->fmt == FORMAT_FP32 ? FORMAT_TF32 : s->fmt;
    if (s->rounding == ROUND_STOCHASTIC) convert_stochastic(dst, fmt, wide, FORMAT_FP64, 0, at, n);
    else convert_rounded(dst, fmt, wide, FORMAT_FP64, s->rounding, n);
}

/* Second operands of n elements from `at` on: as many of b, the one number, or those of units. */
static void load_second(const struct link *k, double *y, const u8 *b, i64 at, i64 n) {
    const struct step *const s = k->step;
    if (s->fact->shape == SHAPE_TWO) {
        convert_elements(y, FORMAT_FP64, b, s->fmt, n);
        return;
    }
    for (i64 i = 0; i < n; i++) {
        const i64 round = k->unit && at + i >= k->round ? (at + i) / k->round : 0;
        const u8 *const from = k->unit ? k->unit + (round * k->u + (at + i - round * k->round) % k->u) * s->bytes : (const u8 *)&k->scalar;
        convert_elements(y + i, FORMAT_FP64, from, s->fmt, 1);
    }
}

void apply_directed(const struct link *k, u8 *dst, const u8 *a, const u8 *b, i64 at, i64 n) {
    const struct step *const s = k->step;
    double x[BLOCK], y[BLOCK];
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 count = n - start < BLOCK ? n - start : BLOCK, offset = start * s->bytes;
        convert_elements(x, FORMAT_FP64, a + offset, s->fmt, count);
        if (s->fact->program) {
            s->kernel.unary(y, x, count);
            round_all(s, dst + offset, y, at + start, count);
            continue;
        }
        if (s->fact->shape == SHAPE_ONE) memcpy(y, x, sizeof y);
        else load_second(k, y, b ? b + offset : NULL, at + start, count);
        odd_results(s->fact->exactness, x, x, y, count);
        round_all(s, dst + offset, x, at + start, count);
    }
}

void scale_directed(const struct step *s, u8 *dst, const u8 *src, const void *factor, i64 n) {
    double x[BLOCK], y;
    convert_elements(&y, FORMAT_FP64, factor, s->fmt, 1);
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 count = n - start < BLOCK ? n - start : BLOCK;
        convert_elements(x, FORMAT_FP64, src + start * s->bytes, s->fmt, count);
        for (i64 i = 0; i < count; i++) x[i] *= y;
        round_all(s, dst + start * s->bytes, x, start, count);
    }
}
