/* Kernel-core vector operations on integers and PRED: HLO's meaning, wrapping. */
#include "base.h"

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

/* `x -> y` in terms of T (signedness of the format), U and the width in bits. */
#define BITS(T) ((int)sizeof(T) * 8)
#define INT_add(T, U, S, x, y) (T)((U)x + (U)y)
#define INT_sub(T, U, S, x, y) (T)((U)x - (U)y)
#define INT_mul(T, U, S, x, y) (T)((u64)(U)x * (u64)(U)y)
#define INT_div(T, U, S, x, y) (y == 0 ? (T)-1 : S && y == (T)-1 ? (T)(0 - (U)x) : (T)(x / y))
#define INT_rem(T, U, S, x, y) (y == 0 ? x : S && y == (T)-1 ? (T)0 : (T)(x % y))
#define INT_max(T, U, S, x, y) (x > y ? x : y)
#define INT_min(T, U, S, x, y) (x < y ? x : y)
#define INT_and(T, U, S, x, y) (T)(x & y)
#define INT_or(T, U, S, x, y) (T)(x | y)
#define INT_xor(T, U, S, x, y) (T)(x ^ y)
#define INT_shl(T, U, S, x, y) ((U)y < BITS(T) ? (T)((u64)(U)x << ((U)y & (BITS(T) - 1))) : (T)0)
#define INT_srl(T, U, S, x, y) ((U)y < BITS(T) ? (T)((U)x >> ((U)y & (BITS(T) - 1))) : (T)0)
#define INT_pow(T, U, S, x, y) (T)power_##U(x, y, S)

#define SIGNED_u8 i8
#define SIGNED_u16 i16
#define SIGNED_u32 i32
#define SIGNED_u64 i64
#define INT_sra(T, U, S, x, y) (T)((SIGNED_##U)x >> ((U)y < BITS(T) ? (int)(U)y : BITS(T) - 1))

/* x^y modulo 2^width; a negative exponent of a signed format gives 0 but for bases 1 and -1. */
#define POWER(U) \
    static U power_##U(U x, U y, int is_signed) { \
        if (is_signed && (SIGNED_##U)y < 0) { \
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

#define INTEGER_KERNEL(name, T, U, S, op) \
    static void op##_##name(void *dst, const void *a, const void *b, i64 n) { \
        T *d = dst; \
        const T *p = a, *q = b; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const T x = p[i], y = q[i]; \
            d[i] = INT_##op(T, U, S, x, y); \
        } \
    }
/* In the order of the opcodes from KC_VV_add on. */
#define INTEGER_BINARY(X) X(add) X(sub) X(mul) X(div) X(rem) X(max) X(min) X(and) X(or) X(xor) X(shl) X(sra) X(srl) X(pow)
#define INSTANTIATE(op) INTEGERS(INTEGER_KERNEL, op)
INTEGER_BINARY(INSTANTIATE)

#define ROW(op) {op##_i8, op##_i16, op##_i32, op##_i64, op##_u8, op##_u16, op##_u32, op##_u64},
static const binary_kernel BINARY[][NUM_INTEGERS] = {INTEGER_BINARY(ROW)};

/* PRED is 0 or 1: add is or, sub is xor, the others act on the byte. */
binary_kernel integer_binary_kernel(int opcode, int fmt) {
    const int f = integer_index_of(fmt);
    if (f < 0 || opcode < OP_KC_VADD || opcode > OP_KC_VPOW) return NULL;
    if (fmt == FORMAT_PRED) {
        if (opcode == OP_KC_VADD) return or_u8;
        if (opcode == OP_KC_VSUB) return xor_u8;
        if (opcode == OP_KC_VMUL) return and_u8;
    }
    return BINARY[opcode - OP_KC_VADD][f];
}

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

#define INT_neg(T, U, S, x) (T)(0 - (U)x)
#define INT_abs(T, U, S, x) (S && x < 0 ? (T)(0 - (U)x) : x)
#define INT_not(T, U, S, x) (T) ~x
#define INT_sign(T, U, S, x) (T)((x > 0) - (x < 0))
#define INT_popcnt(T, U, S, x) (T)ones((U)x)
#define INT_clz(T, U, S, x) (T)(BITS(T) - (int)ones(smear((U)x)))
#define INTEGER_UNARY_KERNEL(name, T, U, S, op) \
    static void op##_##name(void *dst, const void *src, i64 n) { \
        T *d = dst; \
        const T *p = src; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const T x = p[i]; \
            d[i] = INT_##op(T, U, S, x); \
        } \
    }
/* In the order of the opcodes from KC_V_neg on. */
#define INTEGER_UNARY(X) X(neg) X(abs) X(not) X(sign) X(popcnt) X(clz)
#define INSTANTIATE_UNARY(op) INTEGERS(INTEGER_UNARY_KERNEL, op)
INTEGER_UNARY(INSTANTIATE_UNARY)
static const unary_kernel UNARY[][NUM_INTEGERS] = {INTEGER_UNARY(ROW)};

static void not_pred(void *dst, const void *src, i64 n) {
    u8 *d = dst;
    const u8 *p = src;
    INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = p[i] ^ 1;
}

static void copy_pred(void *dst, const void *src, i64 n) { memmove(dst, src, (size_t)n); }

unary_kernel kernel_core_unary(int opcode, int fmt) {
    if (fmt == FORMAT_PRED && opcode == OP_KC_VNOT) return not_pred;
    if (fmt == FORMAT_PRED && opcode == OP_KC_VNEG) return copy_pred;
    const int f = integer_index_of(fmt);
    return f < 0 || opcode < OP_KC_VNEG || opcode > OP_KC_VCOUNT_LEADING_ZEROS ? NULL : UNARY[opcode - OP_KC_VNEG][f];
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
COMPARISONS(eq, ==)
COMPARISONS(ne, !=)
COMPARISONS(ge, >=)
COMPARISONS(gt, >)
COMPARISONS(le, <=)
COMPARISONS(lt, <)

#define COMPARE_ROW(relation) \
    {relation##_compare_i8, relation##_compare_i16, relation##_compare_i32, relation##_compare_i64, relation##_compare_u8, \
     relation##_compare_u16, relation##_compare_u32, relation##_compare_u64, relation##_compare_f16, relation##_compare_bf16, \
     relation##_compare_f32, relation##_compare_f64, relation##_total_16, relation##_total_32, relation##_total_64}
static const binary_kernel COMPARE[][NUM_INTEGERS + 7] = {
    COMPARE_ROW(eq), COMPARE_ROW(ne), COMPARE_ROW(ge), COMPARE_ROW(gt), COMPARE_ROW(le), COMPARE_ROW(lt)};

binary_kernel kernel_core_compare(int opcode, int fmt, int total) {
    if (opcode < OP_KC_VEQ || opcode > OP_KC_VLT) return NULL;
    const binary_kernel *const row = COMPARE[opcode - OP_KC_VEQ];
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
