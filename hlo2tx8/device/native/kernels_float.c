/* CT arithmetic and relations, and the same operations of the kernel core: f16, bf16, f32, tf32, f64. */
#include "operations.h"

#define VV_KERNEL(fmt, T, C, op) \
    static void op##_vv_##fmt(void *dst, const void *a, const void *b, i64 n) { \
        T *d = dst; \
        const T *p = a, *q = b; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const C x = get_##fmt(p[i]), y = get_##fmt(q[i]); \
            d[i] = put_##fmt(OP_##op(C, x, y)); \
        } \
    }
#define VS_KERNEL(fmt, T, C, op) \
    static void op##_vs_##fmt(void *dst, const void *a, const void *b, i64 n) { \
        T *d = dst; \
        const T *p = a; \
        const C y = get_##fmt(*(const T *)b); \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const C x = get_##fmt(p[i]); \
            d[i] = put_##fmt(OP_##op(C, x, y)); \
        } \
    }

/* Blocks are read whole before they are written, so that dst may be a source. */
#define VV_F16(op) \
    static void op##_vv_f16(void *dst, const void *a, const void *b, i64 n) { \
        u16 *const d = dst; \
        const u16 *const p = a, *const q = b; \
        float x[F16_BLOCK], y[F16_BLOCK]; \
        i64 i = 0; \
        for (; i + F16_BLOCK <= n; i += F16_BLOCK) { \
            widen_f16(x, p + i); \
            widen_f16(y, q + i); \
            for (int k = 0; k < F16_BLOCK; k++) x[k] = OP_##op(float, x[k], y[k]); \
            narrow_f16(d + i, x); \
        } \
        for (; i < n; i++) d[i] = put_f16(OP_##op(float, get_f16(p[i]), get_f16(q[i]))); \
    }
#define VS_F16(op) \
    static void op##_vs_f16(void *dst, const void *a, const void *b, i64 n) { \
        u16 *const d = dst; \
        const u16 *const p = a; \
        const float y = get_f16(*(const u16 *)b); \
        float x[F16_BLOCK]; \
        i64 i = 0; \
        for (; i + F16_BLOCK <= n; i += F16_BLOCK) { \
            widen_f16(x, p + i); \
            for (int k = 0; k < F16_BLOCK; k++) x[k] = OP_##op(float, x[k], y); \
            narrow_f16(d + i, x); \
        } \
        for (; i < n; i++) d[i] = put_f16(OP_##op(float, get_f16(p[i]), y)); \
    }

#define VV_BF16(op) \
    static void op##_vv_bf16(void *dst, const void *a, const void *b, i64 n) { \
        pair *const d = dst; \
        const pair *const p = a, *const q = b; \
        const i64 half = n / 2; \
        INDEPENDENT for (i64 i = 0; i < half; i++) { \
            const float x = low_bf16(p[i]), y = low_bf16(q[i]), z = high_bf16(p[i]), w = high_bf16(q[i]); \
            d[i] = join_bf16(OP_##op(float, x, y), OP_##op(float, z, w)); \
        } \
        if (n & 1) { \
            const float x = get_bf16(((const u16 *)a)[n - 1]), y = get_bf16(((const u16 *)b)[n - 1]); \
            ((u16 *)dst)[n - 1] = put_bf16(OP_##op(float, x, y)); \
        } \
    }
#define VS_BF16(op) \
    static void op##_vs_bf16(void *dst, const void *a, const void *b, i64 n) { \
        pair *const d = dst; \
        const pair *const p = a; \
        const float y = get_bf16(*(const u16 *)b); \
        const i64 half = n / 2; \
        INDEPENDENT for (i64 i = 0; i < half; i++) { \
            const float x = low_bf16(p[i]), z = high_bf16(p[i]); \
            d[i] = join_bf16(OP_##op(float, x, y), OP_##op(float, z, y)); \
        } \
        if (n & 1) { \
            const float x = get_bf16(((const u16 *)a)[n - 1]); \
            ((u16 *)dst)[n - 1] = put_bf16(OP_##op(float, x, y)); \
        } \
    }

#define INSTANTIATE_VV(op) VV_F16(op) VV_BF16(op) OTHER_FORMATS(VV_KERNEL, op)
#define INSTANTIATE_VS(op) VS_F16(op) VS_BF16(op) OTHER_FORMATS(VS_KERNEL, op)
ARITHMETIC(INSTANTIATE_VV)
ARITHMETIC(INSTANTIATE_VS)
RELATIONS(INSTANTIATE_VV)
RELATIONS(INSTANTIATE_VS)
LOGIC(INSTANTIATE_VV)

#define ROW_VV(op) {op##_vv_f16, op##_vv_bf16, op##_vv_f32, op##_vv_tf32, op##_vv_f64},
#define ROW_VS(op) {op##_vs_f16, op##_vs_bf16, op##_vs_f32, op##_vs_tf32, op##_vs_f64},
static const binary_kernel ARITHMETIC_VV[][NUM_FLOATS] = {ARITHMETIC(ROW_VV)};
static const binary_kernel ARITHMETIC_VS[][NUM_FLOATS] = {ARITHMETIC(ROW_VS)};
static const binary_kernel RELATION_VV[][NUM_FLOATS] = {RELATIONS(ROW_VV)};
static const binary_kernel LOGIC_VV[][NUM_FLOATS] = {LOGIC(ROW_VV)};
static const binary_kernel RELATION_VS[][NUM_FLOATS] = {RELATIONS(ROW_VS)};

int float_index_of(int fmt) {
    switch (fmt) {
    case FORMAT_FP16: return FLOAT_F16;
    case FORMAT_BF16: return FLOAT_BF16;
    case FORMAT_FP32: return FLOAT_F32;
    case FORMAT_TF32: return FLOAT_TF32;
    case FORMAT_FP64: return FLOAT_F64;
    default: return -1;
    }
}

int format_bytes(int fmt) {
    static const u8 sizes[] = {1, 2, 2, 2, 4, 4, 4, 1, 1, 2, 4, 8, 8, 8, 1, 1, 16};
    return fmt >= 0 && fmt < (int)sizeof sizes ? sizes[fmt] : 0;
}

int is_signed_format(int fmt) {
    return fmt == FORMAT_INT8 || fmt == FORMAT_INT16 || fmt == FORMAT_INT32 || fmt == FORMAT_INT64;
}

binary_kernel float_binary_kernel(int opcode, int fmt, int scalar) {
    const int f = float_index_of(fmt);
    if (f < 0) return NULL;
    if (opcode >= OP_CT_ADD_VV && opcode <= OP_CT_MIN_VU_VLOOP) {
        const int row = (opcode - OP_CT_ADD_VV) / 4;
        return scalar ? ARITHMETIC_VS[row][f] : ARITHMETIC_VV[row][f];
    }
    if (opcode >= OP_CT_EQ_VV && opcode <= OP_CT_LT_VU_VLOOP) {
        const int row = (opcode - OP_CT_EQ_VV) / 4;
        return scalar ? RELATION_VS[row][f] : RELATION_VV[row][f];
    }
    if (opcode >= OP_CT_AND_VV && opcode <= OP_CT_XOR_VU_VLOOP) return scalar ? NULL : LOGIC_VV[(opcode - OP_CT_AND_VV) / 4][f];
    return NULL;
}

/* Unary: the bit operations by width, the others by format. */
#define BIT_KERNELS(T, sign) \
    static void absolute_##T(void *dst, const void *src, i64 n) { \
        T *d = dst; \
        const T *p = src; \
        INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = (T)(p[i] & (T) ~(sign)); \
    } \
    static void negate_##T(void *dst, const void *src, i64 n) { \
        T *d = dst; \
        const T *p = src; \
        INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = (T)(p[i] ^ (sign)); \
    }
BIT_KERNELS(u16, (u16)0x8000)
BIT_KERNELS(u32, 0x80000000u)
BIT_KERNELS(u64, UINT64_C(0x8000000000000000))

static inline float away_float(float x) {
    const float whole = truncf(x);
    const float up = fabsf(x - whole) >= 0.5f ? 1.0f : 0.0f;
    return copysignf(fabsf(whole) + up, x);
}

static inline double away_double(double x) {
    const double whole = trunc(x);
    const double up = fabs(x - whole) >= 0.5 ? 1.0 : 0.0;
    return copysign(fabs(whole) + up, x);
}

#define FN_recip(C, x) ((C)1 / (x))
#define FN_square(C, x) ((x) * (x))
#define FN_sqrt(C, x) (sizeof(C) == 4 ? (C)sqrtf((float)(x)) : (C)sqrt(x))
#define FN_floor(C, x) (sizeof(C) == 4 ? (C)floorf((float)(x)) : (C)floor(x))
#define FN_ceil(C, x) (sizeof(C) == 4 ? (C)ceilf((float)(x)) : (C)ceil(x))
#define FN_rint(C, x) (sizeof(C) == 4 ? (C)rintf((float)(x)) : (C)rint(x))
#define FN_away(C, x) away_##C(x)
#define FN_relu(C, x) larger_##C(x, (C)0)
#define FN_lnot(C, x) ((x) == 0 ? (C)1 : (C)0)
#define FN_sign(C, x) ((x) > 0 ? (C)1 : (x) < 0 ? (C)-1 : (x))

#define UNARY_KERNEL(fmt, T, C, fn) \
    static void fn##_v_##fmt(void *dst, const void *src, i64 n) { \
        T *d = dst; \
        const T *p = src; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const C x = get_##fmt(p[i]); \
            d[i] = put_##fmt(FN_##fn(C, x)); \
        } \
    }
#define RSQRT_KERNEL(fmt, T, C) \
    static void rsqrt_v_##fmt(void *dst, const void *src, i64 n) { \
        T *d = dst; \
        const T *p = src; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const double x = get_##fmt(p[i]); \
            d[i] = round_##fmt(1.0 / sqrt(x)); \
        } \
    }
#define UNARY(X) X(recip) X(square) X(sqrt) X(floor) X(ceil) X(rint) X(away) X(sign) X(relu) X(lnot)
#define BF16_UNARY(fn) \
    static float fn##_one(float x) { return FN_##fn(float, x); } \
    static void fn##_v_bf16(void *dst, const void *src, i64 n) { PAIR_LOOP(fn##_one, dst, src, n); }
#define INSTANTIATE_UNARY(fn) UNARY_KERNEL(f16, u16, float, fn) BF16_UNARY(fn) OTHER_FORMATS(UNARY_KERNEL, fn)
UNARY(INSTANTIATE_UNARY)
FLOAT_FORMATS(RSQRT_KERNEL)

#define ROW_V(fn) {fn##_v_f16, fn##_v_bf16, fn##_v_f32, fn##_v_tf32, fn##_v_f64}
static const unary_kernel ABSOLUTE[NUM_FLOATS] = {absolute_u16, absolute_u16, absolute_u32, absolute_u32, absolute_u64};
static const unary_kernel NEGATE[NUM_FLOATS] = {negate_u16, negate_u16, negate_u32, negate_u32, negate_u64};
static const unary_kernel RECIP[NUM_FLOATS] = ROW_V(recip), SQUARE[NUM_FLOATS] = ROW_V(square), SQRT[NUM_FLOATS] = ROW_V(sqrt);
static const unary_kernel RSQRT[NUM_FLOATS] = ROW_V(rsqrt), FLOOR[NUM_FLOATS] = ROW_V(floor), CEIL[NUM_FLOATS] = ROW_V(ceil);
static const unary_kernel RINT[NUM_FLOATS] = ROW_V(rint), AWAY[NUM_FLOATS] = ROW_V(away), SIGN[NUM_FLOATS] = ROW_V(sign);
static const unary_kernel RELU[NUM_FLOATS] = ROW_V(relu), LNOT[NUM_FLOATS] = ROW_V(lnot);

unary_kernel float_unary_kernel(int opcode, int fmt) {
    const int f = float_index_of(fmt);
    if (f < 0) return NULL;
    switch (opcode) {
    case OP_CT_ABS: case OP_KC_VABS: return ABSOLUTE[f];
    case OP_CT_NEG: case OP_KC_VNEG: return NEGATE[f];
    case OP_CT_RELU: return RELU[f];
    case OP_CT_NOT: return LNOT[f];
    case OP_CT_RECIP: return RECIP[f];
    case OP_CT_SQUARE: return SQUARE[f];
    case OP_CT_SQRT: case OP_KC_VSQRT: return SQRT[f];
    case OP_CT_RSQRT: case OP_KC_VRSQRT: return RSQRT[f];
    case OP_KC_VFLOOR: return FLOOR[f];
    case OP_KC_VCEIL: return CEIL[f];
    case OP_KC_VROUND_NEAREST_EVEN: return RINT[f];
    case OP_KC_VROUND_NEAREST_AFZ: return AWAY[f];
    case OP_KC_VSIGN: return SIGN[f];
    default: return NULL;
    }
}
