/* Kernel-core vector operations on integers and PRED: HLO's meaning, wrapping. */
#include "operations.h"

/* X(suffix, type, unsigned type, is signed) */
#define INTEGERS(X, ...) \
    X(i8, i8, u8, 1, ##__VA_ARGS__) \
    X(i16, i16, u16, 1, ##__VA_ARGS__) \
    X(i32, i32, u32, 1, ##__VA_ARGS__) \
    X(i64, i64, u64, 1, ##__VA_ARGS__) \
    X(u8, u8, u8, 0, ##__VA_ARGS__) \
    X(u16, u16, u16, 0, ##__VA_ARGS__) \
    X(u32, u32, u32, 0, ##__VA_ARGS__) \
    X(u64, u64, u64, 0, ##__VA_ARGS__)
enum { INTEGER_I8, INTEGER_I16, INTEGER_I32, INTEGER_I64, INTEGER_U8, INTEGER_U16, INTEGER_U32, INTEGER_U64, NUM_INTEGERS };

static int integer_index_of(int fmt) {
    switch (fmt) {
    case FORMAT_INT8: return INTEGER_I8;
    case FORMAT_INT16: return INTEGER_I16;
    case FORMAT_INT32: return INTEGER_I32;
    case FORMAT_INT64: return INTEGER_I64;
    case FORMAT_UINT8: case FORMAT_PRED: return INTEGER_U8;
    case FORMAT_UINT16: return INTEGER_U16;
    case FORMAT_UINT32: return INTEGER_U32;
    case FORMAT_UINT64: return INTEGER_U64;
    default: return -1;
    }
}

/* What the expressions are made of besides T, U and S. */
#define BITS(T) ((int)sizeof(T) * 8)
#define as_signed(x) _Generic((x), i8: (i8)(x), i16: (i16)(x), i32: (i32)(x), i64: (i64)(x), u8: (i8)(x), u16: (i16)(x), u32: (i32)(x), u64: (i64)(x))

static inline u64 smear(u64 x) {
    x |= x >> 1;
    x |= x >> 2;
    x |= x >> 4;
    x |= x >> 8;
    x |= x >> 16;
    return x | x >> 32;
}

static inline u64 ones(u64 x) {
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return x * UINT64_C(0x0101010101010101) >> 56;
}

/* x^y modulo 2^width; a negative exponent of a signed format gives 0 but for bases 1 and -1. */
#define POWER(U) \
    static U power_##U(U x, U y, int is_signed) { \
        if (is_signed && as_signed(y) < 0) { \
            const U minus = (U)-1; \
            return x == 1 ? 1 : x == minus ? (U)(y & 1 ? minus : 1) : 0; \
        } \
        u64 result = 1, base = x; \
        for (; y; y = (U)(y >> 1)) { \
            if (y & 1) result *= base; \
            base *= base; \
        } \
        return (U)result; \
    }
POWER(u8)
POWER(u16)
POWER(u32)
POWER(u64)
#define power(x, y, is_signed) _Generic((x), u8: power_u8, u16: power_u16, u32: power_u32, u64: power_u64)(x, y, is_signed)

#define TWO_KERNEL(name, T, U, S, op) \
    static void op##_##name(void *dst, const void *a, const void *b, i64 n) { \
        T *d = dst; \
        const T *p = a, *q = b; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const T x = p[i], y = q[i]; \
            d[i] = (T)INTEGER_##op(T, U, S, x, y); \
        } \
    }
#define ONE_KERNEL(name, T, U, S, op) \
    static void op##_##name(void *dst, const void *src, i64 n) { \
        T *d = dst; \
        const T *p = src; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const T x = p[i]; \
            d[i] = (T)INTEGER_##op(T, U, S, x); \
        } \
    }
#define INSTANTIATE_TWO(op) INTEGERS(TWO_KERNEL, op)
#define INSTANTIATE_ONE(op) INTEGERS(ONE_KERNEL, op)
INTEGER_TWO(INSTANTIATE_TWO)
INTEGER_ONE(INSTANTIATE_ONE)

#define ROW(op) [INT_##op] = {op##_i8, op##_i16, op##_i32, op##_i64, op##_u8, op##_u16, op##_u32, op##_u64},
static const binary_kernel OF_TWO[NUM_INTEGER_FUNCTIONS][NUM_INTEGERS] = {INTEGER_TWO(ROW)};
static const unary_kernel OF_ONE[NUM_INTEGER_FUNCTIONS][NUM_INTEGERS] = {INTEGER_ONE(ROW)};

binary_kernel integer_binary_kernel(int function, int fmt) {
    const int f = integer_index_of(fmt);
    return f < 0 ? NULL : OF_TWO[function][f];
}

unary_kernel integer_unary_kernel(int function, int fmt) {
    const int f = integer_index_of(fmt);
    return f < 0 ? NULL : OF_ONE[function][f];
}

/* Comparisons into PRED bytes; the total order of floats compares sign-magnitude bits as two's complement. */
#define ORDER_i16(x) (i16)(x < 0 ? x ^ 0x7FFF : x)
#define ORDER_i32(x) (x < 0 ? x ^ INT32_MAX : x)
#define ORDER_i64(x) (x < 0 ? x ^ INT64_MAX : x)
#define COMPARE_LOOP(name, T, get, sign, relation) \
    static void relation##_##name(void *dst, const void *a, const void *b, i64 n) { \
        u8 *d = dst; \
        const T *p = a, *q = b; \
        INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = get(p[i]) sign get(q[i]); \
    }
#define PLAIN(x) (x)
#define COMPARISONS(relation, sign) \
    COMPARE_LOOP(compare_i8, i8, PLAIN, sign, relation) \
    COMPARE_LOOP(compare_i16, i16, PLAIN, sign, relation) \
    COMPARE_LOOP(compare_i32, i32, PLAIN, sign, relation) \
    COMPARE_LOOP(compare_i64, i64, PLAIN, sign, relation) \
    COMPARE_LOOP(compare_u8, u8, PLAIN, sign, relation) \
    COMPARE_LOOP(compare_u16, u16, PLAIN, sign, relation) \
    COMPARE_LOOP(compare_u32, u32, PLAIN, sign, relation) \
    COMPARE_LOOP(compare_u64, u64, PLAIN, sign, relation) \
    COMPARE_LOOP(compare_f16, u16, get_f16, sign, relation) \
    COMPARE_LOOP(compare_bf16, u16, get_bf16, sign, relation) \
    COMPARE_LOOP(compare_f32, float, PLAIN, sign, relation) \
    COMPARE_LOOP(compare_f64, double, PLAIN, sign, relation) \
    COMPARE_LOOP(total_16, i16, ORDER_i16, sign, relation) \
    COMPARE_LOOP(total_32, i32, ORDER_i32, sign, relation) \
    COMPARE_LOOP(total_64, i64, ORDER_i64, sign, relation)
#define INSTANTIATE_COMPARISONS(op) COMPARISONS(op, COMPARE_##op)
COMPARISON_TWO(INSTANTIATE_COMPARISONS)

#define COMPARE_ROW(relation) \
    [INT_##relation] = {relation##_compare_i8, relation##_compare_i16, relation##_compare_i32, relation##_compare_i64, relation##_compare_u8, \
     relation##_compare_u16, relation##_compare_u32, relation##_compare_u64, relation##_compare_f16, relation##_compare_bf16, \
     relation##_compare_f32, relation##_compare_f64, relation##_total_16, relation##_total_32, relation##_total_64},
static const binary_kernel OF_COMPARED[NUM_INTEGER_FUNCTIONS][NUM_INTEGERS + 7] = {COMPARISON_TWO(COMPARE_ROW)};

binary_kernel comparison_kernel(int function, int fmt, int total) {
    const binary_kernel *const row = OF_COMPARED[function];
    const int f = integer_index_of(fmt);
    if (f >= 0) return row[f];
    switch (fmt) {
    case FORMAT_FP16: return row[NUM_INTEGERS + (total ? 4 : 0)];
    case FORMAT_BF16: return row[NUM_INTEGERS + (total ? 4 : 1)];
    case FORMAT_FP32: return row[NUM_INTEGERS + (total ? 5 : 2)];
    case FORMAT_FP64: return row[NUM_INTEGERS + (total ? 6 : 3)];
    default: return NULL;
    }
}
