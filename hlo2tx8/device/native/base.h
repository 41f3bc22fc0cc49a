/* Number formats of the machine in C: exact widening, one rounding to nearest even, canonical NaN. All branch-free, so that loops vectorise. */
#ifndef HLO2TX8_BASE_H
#define HLO2TX8_BASE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "approx.h"
#include "isa.h"

/* What Python calls; any other name is the library's own. */
#define EXPORTED __attribute__((visibility("default")))

typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define LINE_BYTES 64
#define UNIT_ELEMENTS 64 /* most of a unit */
#define CANONICAL_F16 0x7E00u
#define CANONICAL_BF16 0x7FC0u
#define CANONICAL_F32 0x7FC00000u
#define CANONICAL_F64 UINT64_C(0x7FF8000000000000)

static inline u32 bits_of_float(float x) { return (u32)bits_f32_i32(x); }
static inline float float_of_bits(u32 x) { return bits_i32_f32((i32)x); }
static inline u64 bits_of_double(double x) { return (u64)bits_f64_i64(x); }
static inline double double_of_bits(u64 x) { return bits_i64_f64((i64)x); }

/* get_<format>: the element as float (double for f64), exact. */
static inline float get_bf16(u16 x) { return float_of_bits((u32)x << 16); }

static inline float get_f16(u16 x) {
    const u32 magnitude = (u32)(x & 0x7FFF) << 13;
    const u32 scaled = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
    const u32 special = magnitude >= 0x0F800000u ? 0x7F800000u : 0;
    return float_of_bits(scaled | special | (u32)(x & 0x8000) << 16);
}

static inline float get_f32(float x) { return x; }
static inline float get_tf32(float x) { return x; }
static inline double get_f64(double x) { return x; }

/* put_<format>: float (double for f64) rounded to nearest even, NaN canonical. */
static inline u16 put_bf16(float x) {
    const u32 bits = bits_of_float(x);
    const u32 rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
    return (u16)((bits & 0x7FFFFFFFu) > 0x7F800000u ? CANONICAL_BF16 : rounded);
}

static inline u16 put_f16(float x) {
    const u32 bits = bits_of_float(x);
    const u32 magnitude = bits & 0x7FFFFFFFu;
    const u32 normal = (magnitude + 0xFFFu + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
    const u32 tiny = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3F000000u;
    const u32 finite = magnitude < 0x38800000u ? tiny : normal;
    const u32 result = (magnitude >= 0x477FF000u ? 0x7C00u : finite) | (bits >> 16 & 0x8000u);
    return (u16)(magnitude > 0x7F800000u ? CANONICAL_F16 : result);
}

static inline float put_f32(float x) { return x == x ? x : float_of_bits(CANONICAL_F32); }

static inline float put_tf32(float x) {
    const u32 bits = bits_of_float(x);
    const u32 rounded = (bits + 0xFFFu + (bits >> 13 & 1)) & 0xFFFFE000u;
    return float_of_bits(x == x ? rounded : CANONICAL_F32);
}

static inline double put_f64(double x) { return x == x ? x : double_of_bits(CANONICAL_F64); }

/* double to float rounded to odd: rounding the result again to fewer bits equals rounding x once. */
static inline float to_odd(double x) {
    const float nearest = (float)x;
    const double back = nearest;
    const u32 away = fabs(back) > fabs(x) ? 1 : 0;
    const u32 inexact = (back != x) & (x == x) ? 1 : 0;
    return float_of_bits((bits_of_float(nearest) - away) | inexact);
}

/* round_<format>: double rounded once. */
static inline u16 round_bf16(double x) { return put_bf16(to_odd(x)); }
static inline u16 round_f16(double x) { return put_f16(to_odd(x)); }
static inline float round_f32(double x) { return put_f32((float)x); }
static inline float round_tf32(double x) { return put_tf32(to_odd(x)); }
static inline double round_f64(double x) { return put_f64(x); }

/* NaN if one is NaN, -0 < +0. */
static inline float larger_float(float x, float y) {
    const float larger = (x > y) | ((x == y) & (bits_f32_i32(x) >= 0)) ? x : y;
    return (x != x) | (y != y) ? x + y : larger;
}

static inline float smaller_float(float x, float y) {
    const float smaller = (x < y) | ((x == y) & (bits_f32_i32(x) < 0)) ? x : y;
    return (x != x) | (y != y) ? x + y : smaller;
}

/* f16 in blocks, by the host's conversions where it has them. */
#define F16_BLOCK 64
#if defined(__F16C__)
#include <immintrin.h>
#if defined(__AVX512F__)
#define F16_VECTOR 16
static inline void widen_f16_vector(float *dst, const u16 *src) { _mm512_storeu_ps(dst, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)src))); }
static inline void narrow_f16_vector(u16 *dst, const float *src) {
    _mm256_storeu_si256((__m256i *)(void *)dst, _mm512_cvtps_ph(_mm512_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT));
}
#else
#define F16_VECTOR 8
static inline void widen_f16_vector(float *dst, const u16 *src) { _mm256_storeu_ps(dst, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)src))); }
static inline void narrow_f16_vector(u16 *dst, const float *src) {
    _mm_storeu_si128((__m128i *)(void *)dst, _mm256_cvtps_ph(_mm256_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT));
}
#endif
static inline void widen_f16(float *dst, const u16 *src) {
    _Pragma("GCC unroll 8") for (int i = 0; i < F16_BLOCK; i += F16_VECTOR) widen_f16_vector(dst + i, src + i);
}
static inline void narrow_f16(u16 *dst, float *src) {
    for (int i = 0; i < F16_BLOCK; i++) src[i] = put_f32(src[i]); /* the canonical NaN */
    _Pragma("GCC unroll 8") for (int i = 0; i < F16_BLOCK; i += F16_VECTOR) narrow_f16_vector(dst + i, src + i);
}
#else
static inline void widen_f16(float *dst, const u16 *src) {
    for (int i = 0; i < F16_BLOCK; i++) dst[i] = get_f16(src[i]);
}
static inline void narrow_f16(u16 *dst, const float *src) {
    for (int i = 0; i < F16_BLOCK; i++) dst[i] = put_f16(src[i]);
}
#endif

/* bf16 in pairs: two elements in 32-bit lanes, so that a vector loop neither widens nor narrows. */
typedef u32 pair __attribute__((aligned(2), may_alias));
static inline float low_bf16(u32 x) { return float_of_bits(x << 16); }
static inline float high_bf16(u32 x) { return float_of_bits(x & 0xFFFF0000u); }
static inline u32 nearest_bf16(float x) {
    const u32 bits = bits_of_float(x);
    return x == x ? bits + 0x7FFFu + (bits >> 16 & 1) : CANONICAL_BF16 << 16;
}
static inline u32 join_bf16(float low, float high) { return nearest_bf16(low) >> 16 | (nearest_bf16(high) & 0xFFFF0000u); }

/* dst[i] = f(p[i]) and dst[i] = f(p[i], q[i]) on bf16; `f` names a macro or function of floats. */
#define PAIR_LOOP(f, dst, src, n) \
    do { \
        pair *const d2 = (pair *)(dst); \
        const pair *const p2 = (const pair *)(src); \
        const i64 half = (n) / 2; \
        INDEPENDENT for (i64 i = 0; i < half; i++) d2[i] = join_bf16(f(low_bf16(p2[i])), f(high_bf16(p2[i]))); \
        if ((n) & 1) ((u16 *)(dst))[(n) - 1] = put_bf16(f(get_bf16(((const u16 *)(src))[(n) - 1]))); \
    } while (0)

/* X(suffix, storage type, compute type) of the float formats, in the order of enum float_index. */
#define FLOAT_FORMATS(X, ...) \
    X(f16, u16, float, ##__VA_ARGS__) \
    X(bf16, u16, float, ##__VA_ARGS__) \
    OTHER_FORMATS(X, ##__VA_ARGS__)
#define OTHER_FORMATS(X, ...) \
    X(f32, float, float, ##__VA_ARGS__) \
    X(tf32, float, float, ##__VA_ARGS__) \
    X(f64, double, double, ##__VA_ARGS__)

enum float_index { FLOAT_F16, FLOAT_BF16, FLOAT_F32, FLOAT_TF32, FLOAT_F64, NUM_FLOATS };

/* All operands of a kernel: n elements, dst equal to a source or apart from it; b may be one element (scalar kernels). */
typedef void (*unary_kernel)(void *dst, const void *src, i64 n);
typedef void (*binary_kernel)(void *dst, const void *a, const void *b, i64 n);

int float_index_of(int fmt);  /* enum float_index, or -1 */
int format_bytes(int fmt);    /* bytes of an element, 0 for a code that is none */
int is_signed_format(int fmt);

/* c is the other operand of a second operation. */
typedef void (*pair_kernel)(void *dst, const void *a, const void *b, const void *c, i64 n);

/* Kernels by enum float_function, integer_function or program of functions.h, and format; NULL where there is none. `scalar` picks the form
 * whose b is one element. */
binary_kernel float_binary_kernel(int function, int fmt, int scalar);
binary_kernel float_unit_kernel(int function, int fmt); /* b is UNIT_ELEMENTS elements, repeated along a */
/* Of FP32: `repeats` if b is UNIT_ELEMENTS elements, repeated along a; `is_second` if the first result is the second operand of the second. */
pair_kernel float_pair_kernel(int first, int second, int repeats, int is_second);
unary_kernel float_unary_kernel(int function, int fmt);
/* Makes the table the kernel reads, if any; not while tiles run. With low precision results in FP32 are those of TF32. */
unary_kernel program_kernel(int program, int fmt, int is_low_precision);
binary_kernel comparison_kernel(int function, int fmt, int total);
unary_kernel integer_unary_kernel(int function, int fmt);
binary_kernel integer_binary_kernel(int function, int fmt);
extern const binary_kernel NEXT_AFTER[NUM_FLOATS];

/* Elements of a 16-bit format from and to FP32, in memory apart. */
void widen_f16_all(float *dst, const u16 *src, i64 n);
void narrow_f16_all(u16 *dst, const float *src, i64 n);
void widen_bf16_all(float *dst, const u16 *src, i64 n);
void narrow_bf16_all(u16 *dst, const float *src, i64 n);
void convert_elements(void *dst, int dst_fmt, const void *src, int src_fmt, i64 n);
void convert_rounded(void *dst, int dst_fmt, const void *src, int src_fmt, int rounding, i64 n);
void convert_zero_point(void *dst, int dst_fmt, const void *src, i64 zero, i64 n); /* of INT8 */
void convert_stochastic(void *dst, int dst_fmt, const void *src, int src_fmt, u32 seed, i64 first, i64 n); /* `first`: number of element 0 */
void reduce_precision(void *data, int fmt, i64 exponent, i64 mantissa, i64 n);

/* Nested copies: `num` levels, innermost first, each n turns apart by dst and src bytes. */
struct level {
    i64 n, dst, src;
};
/* Levels that continue the run or the level below are folded into it; how many are left. Then copy_nest does the same as copy_levels. */
int fold_levels(i64 *run, struct level *levels, int num);
void copy_nest(u8 *dst, const u8 *src, i64 run, const struct level *levels, int num);
void copy_levels(u8 *dst, const u8 *src, i64 run, struct level *levels, int num);
void load_levels(u8 *dst, const u8 *src, i64 run, struct level *levels, int num);                   /* dst is dense */
void store_levels(u8 *dst, const u8 *src, i64 run, struct level *levels, int num, int is_streamed); /* src is dense */

void copy_streamed(u8 *dst, const u8 *src, i64 n); /* past the cache; regions apart; others see it after finish_streams */
void finish_streams(void);

void move_masked(u8 *dst, const u8 *src, const u8 *mask, int bytes, i64 n); /* where a float mask of the same width is not zero */
void select_elements(u8 *dst, const u8 *pred, const u8 *a, const u8 *b, int bytes, i64 n);
void gather_elements(u8 *dst, const u8 *src, const i32 *index, int bytes, i64 n);
void scatter_elements(u8 *dst, const u8 *src, const i32 *index, int bytes, i64 n);

#endif
