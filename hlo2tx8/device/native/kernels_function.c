/* Transcendental functions: the generated programs in loops, tables where a 16-bit format has no fast program. */
#include <stdlib.h>

#include "lanes.h"
#include "operations.h"

#define BLOCK 512
#define SMALL_ANGLE 0x1p20
#define HALF_VALUES 65536


#define LOOP(T, expression) \
    T *d = dst; \
    const T *p = src; \
    INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = expression;

/* Two vectors at a time, so that one's operations fill the gaps of the other's. */
#define UNROLLED 32
#define UNROLLED_LOOP(T, expression) \
    T *d = dst; \
    const T *p = src; \
    i64 start = 0; \
    for (; start + UNROLLED <= n; start += UNROLLED) { \
        INDEPENDENT for (i64 i = start; i < start + UNROLLED; i++) d[i] = expression; \
    } \
    for (i64 i = start; i < n; i++) d[i] = expression;

/* With vectors of its own a program takes what is left over as zeros behind it. */
#if defined(APPROX_PARTS)
#define WIDE (APPROX_PARTS * LANES)
#define F32_KERNEL(fn) \
    static void fn##_some(float *d, const float *p) { \
        floats x[APPROX_PARTS]; \
        APPROX_EACH x[k] = load_floats(p + k * LANES); \
        wide_##fn##_f32(x, x); \
        APPROX_EACH store_floats(d + k * LANES, canonical_floats(x[k])); \
    } \
    static void fn##_v_f32(void *dst, const void *src, i64 n) { \
        float rest[WIDE] = {0}; \
        const i64 whole = n / WIDE * WIDE; \
        for (i64 i = 0; i < whole; i += WIDE) fn##_some((float *)dst + i, (const float *)src + i); \
        if (n == whole) return; \
        memcpy(rest, (const float *)src + whole, (size_t)(n - whole) * sizeof(float)); \
        fn##_some(rest, rest); \
        memcpy((float *)dst + whole, rest, (size_t)(n - whole) * sizeof(float)); \
    }
#else
#define F32_KERNEL(fn) \
    static void fn##_v_f32(void *dst, const void *src, i64 n) { UNROLLED_LOOP(float, put_f32(approx_##fn##_f32(p[i]))) }
#endif

#define SINGLE_KERNELS(fn, upper) \
    F32_KERNEL(fn) \
    static void fn##_v_tf32(void *dst, const void *src, i64 n) { LOOP(float, put_tf32(approx_##fn##_f32(p[i]))) } \
    static void fn##_v_bf16(void *dst, const void *src, i64 n) { PAIR_LOOP(APPROX_##upper##_BF16, dst, src, n); } \
    static void fn##_v_f16(void *dst, const void *src, i64 n) { LOOP(u16, put_f16(APPROX_##upper##_FP16(get_f16(p[i])))) }
#define DOUBLE_KERNELS(fn, upper) \
    static void fn##_v_f32(void *dst, const void *src, i64 n) { LOOP(float, round_f32(approx_##fn##_f64((double)p[i]))) } \
    static void fn##_v_tf32(void *dst, const void *src, i64 n) { LOOP(float, round_tf32(approx_##fn##_f64((double)p[i]))) }
#define F64_KERNEL(fn, upper) \
    static void fn##_v_f64(void *dst, const void *src, i64 n) { LOOP(double, put_f64(approx_##fn##_f64(p[i]))) }
SINGLE_PROGRAMS(SINGLE_KERNELS)
DOUBLE_PROGRAMS(DOUBLE_KERNELS)
SINGLE_PROGRAMS(F64_KERNEL)
DOUBLE_PROGRAMS(F64_KERNEL)

/* Angles: a block without large arguments takes the program without the integer reduction; both give the same bits there. */
#define ANGLE_KERNELS(fn, upper) \
    static void fn##_block(double *d, const double *p, i64 n) { \
        int large = 0; \
        for (i64 i = 0; i < n; i++) large |= !(fabs(p[i]) < SMALL_ANGLE); \
        if (large) { \
            INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = approx_##fn##_f64(p[i]); \
        } else { \
            INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = approx_##fn##_small_f64(p[i]); \
        } \
    } \
    OTHER_FORMATS(ANGLE_KERNEL, fn)
#define ANGLE_KERNEL(fmt, T, C, fn) \
    static void fn##_v_##fmt(void *dst, const void *src, i64 n) { \
        T *d = dst; \
        const T *p = src; \
        double wide[BLOCK]; \
        for (i64 start = 0; start < n; start += BLOCK) { \
            const i64 count = n - start < BLOCK ? n - start : BLOCK; \
            for (i64 i = 0; i < count; i++) wide[i] = get_##fmt(p[start + i]); \
            fn##_block(wide, wide, count); \
            for (i64 i = 0; i < count; i++) d[start + i] = round_##fmt(wide[i]); \
        } \
    }
ANGLE_PROGRAMS(ANGLE_KERNELS)

/* Tables of the 16-bit formats: one per function and format, made on demand before tiles run, then only read. */
static u16 *tables[NUM_PROGRAMS][2];

#define LOOKUP_KERNELS(fn, upper) \
    static void fn##_table_f16(void *dst, const void *src, i64 n) { \
        const u16 *const table = tables[PROGRAM_##fn][FLOAT_F16]; \
        LOOP(u16, table[p[i]]) \
    } \
    static void fn##_table_bf16(void *dst, const void *src, i64 n) { \
        const u16 *const table = tables[PROGRAM_##fn][FLOAT_BF16]; \
        LOOP(u16, table[p[i]]) \
    } \
    static void fn##_fill_f16(u16 *d) { \
        for (i64 i = 0; i < HALF_VALUES; i++) d[i] = round_f16(approx_##fn##_f64(get_f16((u16)i))); \
    } \
    static void fn##_fill_bf16(u16 *d) { \
        for (i64 i = 0; i < HALF_VALUES; i++) d[i] = round_bf16(approx_##fn##_f64(get_bf16((u16)i))); \
    }
SINGLE_PROGRAMS(LOOKUP_KERNELS)
DOUBLE_PROGRAMS(LOOKUP_KERNELS)
ANGLE_PROGRAMS(LOOKUP_KERNELS)

static int make_table(int function, int format, void (*fill)(u16 *)) {
    static volatile int lock;
    int ok = 1;
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {
    }
    if (!tables[function][format]) {
        u16 *const table = malloc(HALF_VALUES * sizeof(u16));
        ok = table != NULL;
        if (ok) fill(table);
        tables[function][format] = table;
    }
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    return ok;
}

#define WIDE_KERNELS(fn) \
    if (f == FLOAT_F32) return fn##_v_f32; \
    if (f == FLOAT_TF32) return fn##_v_tf32; \
    if (f == FLOAT_F64) return fn##_v_f64;
#define TABLE_KERNELS(fn) \
    if (f == FLOAT_F16) return make_table(PROGRAM_##fn, FLOAT_F16, fn##_fill_f16) ? fn##_table_f16 : NULL; \
    return make_table(PROGRAM_##fn, FLOAT_BF16, fn##_fill_bf16) ? fn##_table_bf16 : NULL;
#define SINGLE_CASE(fn, upper) \
    case PROGRAM_##fn: \
        WIDE_KERNELS(fn) \
        if (f == FLOAT_F16 && FAST_##upper##_FP16) return fn##_v_f16; \
        if (f == FLOAT_BF16 && FAST_##upper##_BF16) return fn##_v_bf16; \
        TABLE_KERNELS(fn)
#define OTHER_CASE(fn, upper) \
    case PROGRAM_##fn: \
        WIDE_KERNELS(fn) \
        TABLE_KERNELS(fn)

unary_kernel program_kernel(int program, int fmt, int is_low_precision) {
    const int own = float_index_of(fmt), f = is_low_precision && own == FLOAT_F32 ? FLOAT_TF32 : own;
    if (f < 0) return NULL;
    switch ((enum program)program) {
        SINGLE_PROGRAMS(SINGLE_CASE)
        DOUBLE_PROGRAMS(OTHER_CASE)
        ANGLE_PROGRAMS(OTHER_CASE)
    default: return NULL;
    }
}
