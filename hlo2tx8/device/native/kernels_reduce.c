/* Reductions in FP32 over 64 lanes, four vectors of sixteen; the compiler cuts these to what the level has. */
#include "kernels_reduce.h"

#define PARTS 4
typedef float lanes16 __attribute__((vector_size(64)));
typedef i32 masks16 __attribute__((vector_size(64)));
typedef u32 words16 __attribute__((vector_size(64)));
typedef u16 halves16 __attribute__((vector_size(32)));

#define INLINE static inline __attribute__((always_inline))

/* As larger_float and smaller_float: NaN if one is NaN, -0 < +0. */
INLINE lanes16 pick(masks16 mask, lanes16 x, lanes16 y) { return (lanes16)((mask & (masks16)x) | (~mask & (masks16)y)); }
INLINE lanes16 join_add(lanes16 x, lanes16 y) { return x + y; }
#if defined(__AVX512DQ__)
#include <immintrin.h>
enum { RANGE_MIN = 4, RANGE_MAX = 5 }; /* with the sign of the result compared */
#define JOIN_RANGE(name, kind) \
    INLINE lanes16 name(lanes16 x, lanes16 y) { \
        const __m512 a = (__m512)x, b = (__m512)y; \
        return (lanes16)_mm512_mask_add_ps(_mm512_range_ps(a, b, kind), _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), a, b); \
    }
JOIN_RANGE(join_max, RANGE_MAX)
JOIN_RANGE(join_min, RANGE_MIN)
#else
INLINE lanes16 join_max(lanes16 x, lanes16 y) {
    const lanes16 larger = pick((x > y) | ((x == y) & ((masks16)x >= 0)), x, y);
    return pick((x != x) | (y != y), x + y, larger);
}
INLINE lanes16 join_min(lanes16 x, lanes16 y) {
    const lanes16 smaller = pick((x < y) | ((x == y) & ((masks16)x < 0)), x, y);
    return pick((x != x) | (y != y), x + y, smaller);
}
#endif

INLINE lanes16 load_f32(const u8 *p) {
    lanes16 v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE lanes16 load_bf16(const u8 *p) {
    halves16 v;
    memcpy(&v, p, sizeof v);
    return (lanes16)(__builtin_convertvector(v, words16) << 16);
}
INLINE lanes16 load_f16(const u8 *p) {
    u16 h[16];
    float f[16];
    memcpy(h, p, sizeof h);
    for (int i = 0; i < 16; i++) f[i] = get_f16(h[i]);
    return load_f32((const u8 *)f);
}

#define EACH_PART _Pragma("GCC unroll 4") for (int k = 0; k < PARTS; k++)
#define JOIN_ROWS(join, fmt, bytes) \
    static void join##_##fmt(float *acc, const u8 *src, i64 num, i64 apart) { \
        lanes16 v[PARTS]; \
        EACH_PART v[k] = load_##fmt(src + k * 16 * (bytes)); \
        for (i64 i = 1; i < num; i++) { \
            src += apart; \
            EACH_PART v[k] = join(v[k], load_##fmt(src + k * 16 * (bytes))); \
        } \
        memcpy(acc, v, sizeof v); \
    }
#define JOINS(fmt, bytes) \
    JOIN_ROWS(join_add, fmt, bytes) \
    JOIN_ROWS(join_max, fmt, bytes) \
    JOIN_ROWS(join_min, fmt, bytes)
JOINS(f32, 4)
JOINS(bf16, 2)
JOINS(f16, 2)

/* Results in FP32, canonical. */
INLINE lanes16 times(lanes16 x, float factor) {
    const lanes16 y = x * factor;
    const lanes16 canonical = (lanes16)((words16){0} + CANONICAL_F32);
    return pick(y == y, y, canonical);
}
#define JOIN_SCALED(join) \
    static void join##_scaled(u8 *dst, const u8 *src, i64 num, i64 apart, i64 ahead, float factor) { \
        lanes16 v[PARTS]; \
        EACH_PART v[k] = load_f32(src + k * 64); \
        for (i64 i = 1; i < num; i++) { \
            src += apart; \
            __builtin_prefetch(src + ahead); \
            EACH_PART v[k] = join(v[k], load_f32(src + k * 64)); \
        } \
        EACH_PART v[k] = times(v[k], factor); \
        memcpy(dst, v, sizeof v); \
    }
JOIN_SCALED(join_add)
JOIN_SCALED(join_max)
JOIN_SCALED(join_min)

void join_rows_scaled(enum join join, u8 *dst, const u8 *src, i64 num, i64 apart, i64 ahead, float factor) {
    static void (*const kernels[])(u8 *, const u8 *, i64, i64, i64, float) = {join_add_scaled, join_max_scaled, join_min_scaled};
    kernels[join](dst, src, num, apart, ahead, factor);
}

void join_rows(enum join join, int fmt, float *acc, const u8 *src, i64 num, i64 apart) {
    static void (*const kernels[3][3])(float *, const u8 *, i64, i64) = {
        {join_add_f32, join_max_f32, join_min_f32}, {join_add_bf16, join_max_bf16, join_min_bf16}, {join_add_f16, join_max_f16, join_min_f16}};
    kernels[fmt == FORMAT_BF16 ? 1 : fmt == FORMAT_FP16 ? 2 : 0][join](acc, src, num, apart);
}

#define EVEN(x, y) __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(x, y) __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
/* The first n of 16 lanes, the others `neutral`. */
INLINE lanes16 load_some(const u8 *p, i64 n, float neutral) {
#if defined(__AVX512F__)
    return (lanes16)_mm512_mask_loadu_ps(_mm512_set1_ps(neutral), (__mmask16)(n >= 16 ? 0xFFFF : n > 0 ? (1 << n) - 1 : 0), p);
#else
    float f[16];
    for (i64 i = 0; i < 16; i++) f[i] = neutral;
    if (n > 0) memcpy(f, p, (size_t)(n < 16 ? n : 16) * sizeof *f);
    return load_f32((const u8 *)f);
#endif
}

/* Rows that have one vector left share vectors from then on: rounds deal two of them out at once, the last of an odd number to itself. */
#define JOIN_MANY(join, neutral) \
    INLINE lanes16 join##_row(const u8 *row, i64 n) { \
        lanes16 v[PARTS]; \
        EACH_PART v[k] = load_some(row + k * (i64)sizeof v[k], n - 16 * k, neutral); \
        if (n <= 16) return v[0]; \
        v[0] = join(EVEN(v[0], v[1]), ODD(v[0], v[1])); \
        if (n <= 32) return v[0]; \
        v[1] = join(EVEN(v[2], v[3]), ODD(v[2], v[3])); \
        return join(EVEN(v[0], v[1]), ODD(v[0], v[1])); \
    } \
    static void join##_many(float *out, const u8 *rows, i64 apart, i64 n, int num) { \
        lanes16 x[ROWS_AT_ONCE]; \
        for (int r = 0; r < num; r++) x[r] = join##_row(rows + r * apart, n); \
        for (int round = 0; round < 4; round++) { \
            const int last = num - 1; \
            num = (num + 1) / 2; \
            for (int r = 0; r < num; r++) { \
                const lanes16 next = x[2 * r < last ? 2 * r + 1 : last]; \
                x[r] = join(EVEN(x[2 * r], next), ODD(x[2 * r], next)); \
            } \
        } \
        memcpy(out, x, sizeof x[0]); \
    }
JOIN_MANY(join_add, -0.0f)
JOIN_MANY(join_max, -INFINITY)
JOIN_MANY(join_min, INFINITY)

void join_lanes(enum join join, const u8 *rows, i64 apart, i64 n, int num, float *out) {
    static void (*const kernels[])(float *, const u8 *, i64, i64, int) = {join_add_many, join_max_many, join_min_many};
    kernels[join](out, rows, apart, n, num);
}
