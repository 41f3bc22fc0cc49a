/* Conversions between all formats, and the kernel core's remaining float operations. */
#include "base.h"

#define BLOCK 512

/* Any integer format fits i64 but for u64's upper half, whose bits are kept; any float format fits double. */
static void load_integers(i64 *out, const void *src, int fmt, i64 n) {
#define CASE(code, T) \
    case code: \
        for (i64 i = 0; i < n; i++) out[i] = (i64)((const T *)src)[i]; \
        return;
    switch (fmt) {
        CASE(FORMAT_INT8, i8)
        CASE(FORMAT_INT16, i16)
        CASE(FORMAT_INT32, i32)
        CASE(FORMAT_INT64, i64)
        CASE(FORMAT_UINT8, u8)
        CASE(FORMAT_UINT16, u16)
        CASE(FORMAT_UINT32, u32)
        CASE(FORMAT_UINT64, u64)
    default:
        CASE(FORMAT_PRED, u8)
    }
}

static void store_integers(void *dst, int fmt, const i64 *in, i64 n) {
#define STORE(T) \
    for (i64 i = 0; i < n; i++) ((T *)dst)[i] = (T)in[i]; \
    return;
    if (fmt == FORMAT_PRED) {
        for (i64 i = 0; i < n; i++) ((u8 *)dst)[i] = in[i] != 0;
        return;
    }
    switch (format_bytes(fmt)) {
    case 1: STORE(u8)
    case 2: STORE(u16)
    case 4: STORE(u32)
    default: STORE(u64)
    }
}

#define LOAD_FLOATS(fmt, T, C) \
    static void load_##fmt(double *out, const void *src, i64 n) { \
        for (i64 i = 0; i < n; i++) out[i] = get_##fmt(((const T *)src)[i]); \
    } \
    static void store_##fmt(void *dst, const double *in, i64 n) { \
        for (i64 i = 0; i < n; i++) ((T *)dst)[i] = round_##fmt(in[i]); \
    }
FLOAT_FORMATS(LOAD_FLOATS)
static void (*const LOAD[])(double *, const void *, i64) = {load_f16, load_bf16, load_f32, load_tf32, load_f64};
static void (*const STORE_FLOAT[])(void *, const double *, i64) = {store_f16, store_bf16, store_f32, store_tf32, store_f64};

/* 64-bit integers are cut to 53 bits by rounding to odd first, but for the formats a cast rounds once into. */
static void integers_to_floats(void *dst, int fmt, const i64 *in, int is_unsigned, i64 n) {
    double wide[BLOCK];
    if (fmt == FORMAT_FP64) {
        double *d = dst;
        for (i64 i = 0; i < n; i++) d[i] = is_unsigned ? (double)(u64)in[i] : (double)in[i];
        return;
    }
    if (fmt == FORMAT_FP32) {
        float *d = dst;
        for (i64 i = 0; i < n; i++) d[i] = is_unsigned ? (float)(u64)in[i] : (float)in[i];
        return;
    }
    for (i64 i = 0; i < n; i++) {
        const int negative = !is_unsigned && in[i] < 0;
        const u64 magnitude = negative ? 0 - (u64)in[i] : (u64)in[i];
        const u64 kept = magnitude >> 53 ? (magnitude & ~UINT64_C(0x7FF)) | (u64)((magnitude & 0x7FF) != 0) << 11 : magnitude;
        wide[i] = negative ? -(double)kept : (double)kept;
    }
    STORE_FLOAT[float_index_of(fmt)](dst, wide, n);
}

/* Whole numbers saturated to the format; NaN gives 0. */
static void floats_to_integers(void *dst, int fmt, const double *in, i64 n) {
    i64 out[BLOCK];
    const int bits = format_bytes(fmt) * 8;
    const int is_signed = is_signed_format(fmt);
    const double above = ldexp(1.0, is_signed ? bits - 1 : bits), below = is_signed ? -above : 0.0;
    const i64 largest = is_signed ? (i64)(~UINT64_C(0) >> (65 - bits)) : (i64)(~UINT64_C(0) >> (64 - bits));
    const i64 least = is_signed ? -largest - 1 : 0;
    for (i64 i = 0; i < n; i++) {
        const double x = in[i];
        if (x != x) out[i] = 0;
        else if (x >= above) out[i] = largest;
        else if (x < below) out[i] = least;
        else out[i] = is_signed ? (i64)x : (i64)(u64)x;
    }
    store_integers(dst, fmt, out, n);
}

/* The frequent pairs in one loop. */
#define DIRECT(from, FROM, T, to, TO, U, expression) \
    if (src_fmt == from && dst_fmt == to) { \
        const T *p = src; \
        U *d = dst; \
        for (i64 i = 0; i < n; i++) { \
            const T x = p[i]; \
            d[i] = expression; \
        } \
        return 1; \
    }

static int convert_directly(void *dst, int dst_fmt, const void *src, int src_fmt, i64 n) {
    if (src_fmt == FORMAT_FP16 && dst_fmt == FORMAT_FP32) return widen_f16_all(dst, src, n), 1;
    if (src_fmt == FORMAT_FP32 && dst_fmt == FORMAT_FP16) return narrow_f16_all(dst, src, n), 1;
    if (src_fmt == FORMAT_BF16 && dst_fmt == FORMAT_FP32) return widen_bf16_all(dst, src, n), 1;
    if (src_fmt == FORMAT_FP32 && dst_fmt == FORMAT_BF16) return narrow_bf16_all(dst, src, n), 1;
    DIRECT(FORMAT_FP32, f32, float, FORMAT_TF32, tf32, float, put_tf32(x))
    DIRECT(FORMAT_INT32, i32, i32, FORMAT_FP32, f32, float, (float)x)
    DIRECT(FORMAT_PRED, u8, u8, FORMAT_FP32, f32, float, (float)x)
    DIRECT(FORMAT_INT32, i32, i32, FORMAT_INT64, i64, i64, (i64)x)
    DIRECT(FORMAT_INT64, i64, i64, FORMAT_INT32, i32, i32, (i32)x)
    return 0;
}

void convert_elements(void *dst, int dst_fmt, const void *src, int src_fmt, i64 n) {
    if (convert_directly(dst, dst_fmt, src, src_fmt, n)) return;
    const int from = float_index_of(src_fmt), to = float_index_of(dst_fmt);
    const int src_bytes = format_bytes(src_fmt), dst_bytes = format_bytes(dst_fmt);
    i64 whole[BLOCK];
    double wide[BLOCK];
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 count = n - start < BLOCK ? n - start : BLOCK;
        const u8 *const p = (const u8 *)src + start * src_bytes;
        u8 *const d = (u8 *)dst + start * dst_bytes;
        if (from < 0) {
            load_integers(whole, p, src_fmt, count);
            if (to < 0) store_integers(d, dst_fmt, whole, count);
            else integers_to_floats(d, dst_fmt, whole, src_fmt == FORMAT_UINT64, count);
            continue;
        }
        LOAD[from](wide, p, count);
        if (to >= 0) {
            STORE_FLOAT[to](d, wide, count);
        } else if (dst_fmt == FORMAT_PRED) {
            for (i64 i = 0; i < count; i++) d[i] = wide[i] != 0;
        } else {
            for (i64 i = 0; i < count; i++) wide[i] = trunc(wide[i]);
            floats_to_integers(d, dst_fmt, wide, count);
        }
    }
}

/* x one step toward y in a format given by its bits as a signed integer; `step` is the least unit. */
#define NEXT(T, U, fmt, step) \
    static T next_##fmt(T bits, double x, double y) { \
        if (x == 0) return (T)((signbit(y) ? (U)1 << (sizeof(T) * 8 - 1) : 0) + (step)); \
        return (T)((y > x) == (x > 0) ? (U)bits + (step) : (U)bits - (step)); \
    }
NEXT(i16, u16, f16, 1)
NEXT(i16, u16, bf16, 1)
NEXT(i32, u32, f32, 1)
NEXT(i32, u32, tf32, 0x2000)
NEXT(i64, u64, f64, 1)

#define BITS_f16 i16
#define BITS_bf16 i16
#define BITS_f32 i32
#define BITS_tf32 i32
#define BITS_f64 i64
/* Nearest first, then one step back where that went the wrong way. */
#define DIRECTED(fmt, T, C) \
    static void directed_##fmt(void *dst, const double *in, int rounding, i64 n) { \
        for (i64 i = 0; i < n; i++) { \
            const double x = in[i]; \
            T nearest = round_##fmt(x); \
            const double back = get_##fmt(nearest); \
            const double target = rounding == ROUND_TOWARD_ZERO ? 0.0 : rounding == ROUND_TOWARD_POSITIVE ? INFINITY : -INFINITY; \
            const int wrong = rounding == ROUND_TOWARD_ZERO ? fabs(back) > fabs(x) : rounding == ROUND_TOWARD_POSITIVE ? back < x : back > x; \
            BITS_##fmt bits; \
            memcpy(&bits, &nearest, sizeof bits); \
            if (wrong) bits = next_##fmt(bits, back, target); \
            memcpy((T *)dst + i, &bits, sizeof bits); \
        } \
    } \
    static void next_after_##fmt(void *dst, const void *a, const void *b, i64 n) { \
        const T *p = a, *q = b; \
        for (i64 i = 0; i < n; i++) { \
            const double x = get_##fmt(p[i]), y = get_##fmt(q[i]); \
            BITS_##fmt bits; \
            memcpy(&bits, p + i, sizeof bits); \
            bits = next_##fmt(bits, x, y); \
            T moved; \
            memcpy(&moved, &bits, sizeof moved); \
            const T nan = round_##fmt((double)NAN); \
            ((T *)dst)[i] = x != x || y != y ? nan : x == y ? q[i] : moved; \
        } \
    }
FLOAT_FORMATS(DIRECTED)
static void (*const DIRECTED_STORE[])(void *, const double *, int, i64) = {directed_f16, directed_bf16, directed_f32, directed_tf32, directed_f64};

static double round_whole(double x, int rounding) {
    switch (rounding) {
    case ROUND_TOWARD_ZERO: return trunc(x);
    case ROUND_TOWARD_POSITIVE: return ceil(x);
    case ROUND_TOWARD_NEGATIVE: return floor(x);
    default: return rint(x);
    }
}

/* Elements of any format as double; at most a block of them. */
static void load_wide(double *wide, const u8 *src, int fmt, i64 count) {
    const int from = float_index_of(fmt);
    if (from >= 0) {
        LOAD[from](wide, src, count);
        return;
    }
    i64 whole[BLOCK];
    load_integers(whole, src, fmt, count);
    for (i64 i = 0; i < count; i++) wide[i] = (double)whole[i];
}

/* What makes masks of truth values: NaN are 0, what is too large saturates. */
static void nearest_i8_f32(i8 *dst, const u8 *src, i64 n) {
    typedef float element __attribute__((aligned(1), may_alias));
    const element *const p = (const element *)(const void *)src;
    INDEPENDENT for (i64 i = 0; i < n; i++) {
        const float x = p[i] == p[i] ? p[i] : 0, low = x < INT8_MIN ? INT8_MIN : x, clipped = low > INT8_MAX ? INT8_MAX : low;
        dst[i] = (i8)(i32)((clipped + 0x1.8p23f) - 0x1.8p23f); /* there the next float is a whole number away */
    }
}

void convert_rounded(void *dst, int dst_fmt, const void *src, int src_fmt, int rounding, i64 n) {
    const int to = float_index_of(dst_fmt);
    const int src_bytes = format_bytes(src_fmt), dst_bytes = format_bytes(dst_fmt);
    if (to >= 0 && rounding == ROUND_NEAREST_EVEN) {
        convert_elements(dst, dst_fmt, src, src_fmt, n);
        return;
    }
    if (dst_fmt == FORMAT_INT8 && src_fmt == FORMAT_FP32 && rounding == ROUND_NEAREST_EVEN) {
        nearest_i8_f32(dst, src, n);
        return;
    }
    double wide[BLOCK];
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 count = n - start < BLOCK ? n - start : BLOCK;
        const u8 *const p = (const u8 *)src + start * src_bytes;
        u8 *const d = (u8 *)dst + start * dst_bytes;
        load_wide(wide, p, src_fmt, count);
        if (to >= 0) {
            DIRECTED_STORE[to](d, wide, rounding, count);
        } else {
            for (i64 i = 0; i < count; i++) wide[i] = round_whole(wide[i], rounding);
            floats_to_integers(d, dst_fmt, wide, count);
        }
    }
}

/* The finalizer of 32-bit murmur3. */
static u32 hash_of(u32 h) {
    h = (h ^ h >> 16) * 0x85EBCA6Bu;
    h = (h ^ h >> 13) * 0xC2B2AE35u;
    return h ^ h >> 16;
}

/* Does a fraction, cut to 32 bits, plus the hash reach 1? */
static int carries(double fraction, u32 hash) {
    if (fraction != fraction) return 0;
    return ((u64)(fmin(fraction, 1.0) * 0x1p32) + hash) >> 32 != 0;
}

/* Cut toward zero first, then one step away where the carry says so. */
#define STOCHASTIC(fmt, T, C) \
    static void stochastic_##fmt(void *dst, const double *in, u32 seed, i64 first, i64 n) { \
        T cut[BLOCK]; \
        directed_##fmt(cut, in, ROUND_TOWARD_ZERO, n); \
        for (i64 i = 0; i < n; i++) { \
            const double x = in[i], size = fabs((double)get_##fmt(cut[i])), end = copysign((double)INFINITY, x); \
            BITS_##fmt bits, above, below; \
            T value; \
            memcpy(&bits, cut + i, sizeof bits); \
            above = next_##fmt(bits, copysign(size, x), end); \
            below = next_##fmt(bits, copysign(size, x), 0.0); \
            memcpy(&value, &above, sizeof value); \
            const double away = fabs((double)get_##fmt(value)); \
            memcpy(&value, &below, sizeof value); \
            const double last = isinf(away) ? size - fabs((double)get_##fmt(value)) : away - size; \
            if (isinf(size) || size != size) above = bits; \
            if (carries((fabs(x) - size) / last, hash_of(seed ^ (u32)(first + i)))) bits = above; \
            memcpy((T *)dst + i, &bits, sizeof bits); \
        } \
    }
FLOAT_FORMATS(STOCHASTIC)
static void (*const STOCHASTIC_STORE[])(void *, const double *, u32, i64, i64) = {stochastic_f16, stochastic_bf16, stochastic_f32, stochastic_tf32,
                                                                                stochastic_f64};

void convert_stochastic(void *dst, int dst_fmt, const void *src, int src_fmt, u32 seed, i64 first, i64 n) {
    const int to = float_index_of(dst_fmt);
    double wide[BLOCK];
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 count = n - start < BLOCK ? n - start : BLOCK;
        const u8 *const p = (const u8 *)src + start * format_bytes(src_fmt);
        u8 *const d = (u8 *)dst + start * format_bytes(dst_fmt);
        load_wide(wide, p, src_fmt, count);
        if (to >= 0) {
            STOCHASTIC_STORE[to](d, wide, seed, first + start, count);
            continue;
        }
        for (i64 i = 0; i < count; i++) {
            const double cut = trunc(wide[i]);
            const int up = carries(fabs(wide[i]) - fabs(cut), hash_of(seed ^ (u32)(first + start + i)));
            wide[i] = up ? cut + copysign(1.0, wide[i]) : cut;
        }
        floats_to_integers(d, dst_fmt, wide, count);
    }
}

void convert_zero_point(void *dst, int dst_fmt, const void *src, i64 zero, i64 n) {
    i64 whole[BLOCK];
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 count = n - start < BLOCK ? n - start : BLOCK;
        load_integers(whole, (const u8 *)src + start, FORMAT_INT8, count);
        for (i64 i = 0; i < count; i++) whole[i] -= zero;
        integers_to_floats((u8 *)dst + start * format_bytes(dst_fmt), dst_fmt, whole, 0, count);
    }
}

/* Rounded to `mantissa` bits, then overflowed or flushed to the range of `exponent` bits; in place. Subnormal numbers stay, as
 * multiples of what the last of the `mantissa` bits is worth, if no exponent bit is lost. */
void reduce_precision(void *data, int fmt, i64 exponent, i64 mantissa, i64 n) {
    double wide[BLOCK];
    const int f = float_index_of(fmt), drop = 52 - (int)(mantissa < 52 ? mantissa : 52);
    const i64 own = fmt == FORMAT_FP16 ? 5 : fmt == FORMAT_FP64 ? 11 : 8;
    const i64 bias = (INT64_C(1) << ((exponent < own ? exponent : own) - 1)) - 1;
    const double largest = ldexp(1.0, (int)(bias + 1)), smallest = ldexp(1.0, (int)(1 - bias)), last = ldexp(smallest, drop - 52);
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 count = n - start < BLOCK ? n - start : BLOCK;
        u8 *const d = (u8 *)data + start * format_bytes(fmt);
        LOAD[f](wide, d, count);
        for (i64 i = 0; i < count; i++) {
            const double x = wide[i];
            u64 bits = bits_of_double(x);
            if (drop) bits = (bits + ((UINT64_C(1) << (drop - 1)) - 1) + (bits >> drop & 1)) >> drop << drop;
            double y = isfinite(x) ? double_of_bits(bits) : x;
            y = fabs(y) >= largest ? copysign((double)INFINITY, y) : y;
            if (exponent < own) y = fabs(y) < smallest ? copysign(0.0, y) : y;
            else if (fmt != FORMAT_FP64 && fabs(x) < smallest) y = copysign(rint(x / last) * last, x);
            wide[i] = y;
        }
        STORE_FLOAT[f](d, wide, count);
    }
}

const binary_kernel NEXT_AFTER[NUM_FLOATS] = {next_after_f16, next_after_bf16, next_after_f32, next_after_tf32, next_after_f64};
