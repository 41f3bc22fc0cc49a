/* Rows of floats as FP32, of at most MOST_WIDTH channels of a point. */
#ifndef HLO2TX8_FLOAT_ROWS_H
#define HLO2TX8_FLOAT_ROWS_H

#include "blocked.h"
#include "kernels_reduce.h"

/* Widened, from any address. */
static inline void load_row(float *out, const u8 *src, int fmt, i64 n) {
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

static inline float join_two(enum join join, float x, float y) {
    return join == JOIN_MAX ? larger_float(x, y) : join == JOIN_MIN ? smaller_float(x, y) : x + y;
}

/* What dividing an FP32 by the divisor multiplies it with, where that is one rounding too; 0 where it is not. */
static inline float factor_of(int fmt, i64 divisor) { return fmt == FORMAT_FP32 && (divisor & (divisor - 1)) == 0 ? 1.0f / (float)divisor : 0.0f; }

/* n results divided by `divisor`, rounded once, and zeros up to `width`. */
static inline void store_row(int fmt, u8 *dst, const float *acc, i64 n, i64 width, i64 divisor) {
    union {
        u16 h[MOST_WIDTH];
        float f[MOST_WIDTH];
    } row;
    const i64 bytes = format_bytes(fmt);
    const float factor = factor_of(fmt, divisor);
    if (divisor > 1 && factor != 0) {
        for (i64 i = 0; i < n; i++) row.f[i] = put_f32(acc[i] * factor);
    } else switch (fmt) {
#define CASE(format, member, name) \
    case format: \
        if (divisor > 1) \
            for (i64 i = 0; i < n; i++) row.member[i] = round_##name((double)acc[i] / (double)divisor); \
        else \
            for (i64 i = 0; i < n; i++) row.member[i] = put_##name(acc[i]); \
        break;
        CASE(FORMAT_BF16, h, bf16)
        CASE(FORMAT_FP16, h, f16)
        CASE(FORMAT_TF32, f, tf32)
    default: CASE(FORMAT_FP32, f, f32)
#undef CASE
    }
    memcpy(dst, &row, (size_t)(n * bytes));
    if (width > n) memset(dst + n * bytes, 0, (size_t)((width - n) * bytes));
}

/* The same by any mode; `number` is that of the first result in its tensor. */
static inline void store_rounded(int rounding, i64 number, int fmt, u8 *dst, const float *acc, i64 n, i64 width, i64 divisor) {
    if (rounding == ROUND_NEAREST_EVEN) {
        store_row(fmt, dst, acc, n, width, divisor);
        return;
    }
    double wide[MOST_WIDTH];
    float row[MOST_WIDTH];
    const i64 bytes = format_bytes(fmt);
    for (i64 i = 0; i < n; i++) wide[i] = (double)acc[i] / (double)divisor;
    if (rounding == ROUND_STOCHASTIC) convert_stochastic(row, fmt, wide, FORMAT_FP64, 0, number, n);
    else convert_rounded(row, fmt, wide, FORMAT_FP64, rounding, n);
    memcpy(dst, row, (size_t)(n * bytes));
    if (width > n) memset(dst + n * bytes, 0, (size_t)((width - n) * bytes));
}

#endif
