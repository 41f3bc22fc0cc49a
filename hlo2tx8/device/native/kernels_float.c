/* What CT and the kernel core compute of floats, from the generated expressions: f16, bf16, f32, tf32, f64. */
#include "operations.h"

#define VV_KERNEL(fmt, T, C, op) \
    static void op##_vv_##fmt(void *dst, const void *a, const void *b, i64 n) { \
        T *d = dst; \
        const T *p = a, *q = b; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const C x = get_##fmt(p[i]), y = get_##fmt(q[i]); \
            d[i] = put_##fmt(op##_##C(x, y)); \
        } \
    }
#define VS_KERNEL(fmt, T, C, op) \
    static void op##_vs_##fmt(void *dst, const void *a, const void *b, i64 n) { \
        T *d = dst; \
        const T *p = a; \
        const C y = get_##fmt(*(const T *)b); \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const C x = get_##fmt(p[i]); \
            d[i] = put_##fmt(op##_##C(x, y)); \
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
            for (int k = 0; k < F16_BLOCK; k++) x[k] = op##_float(x[k], y[k]); \
            narrow_f16(d + i, x); \
        } \
        for (; i < n; i++) d[i] = put_f16(op##_float(get_f16(p[i]), get_f16(q[i]))); \
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
            for (int k = 0; k < F16_BLOCK; k++) x[k] = op##_float(x[k], y); \
            narrow_f16(d + i, x); \
        } \
        for (; i < n; i++) d[i] = put_f16(op##_float(get_f16(p[i]), y)); \
    }

#define VV_BF16(op) \
    static void op##_vv_bf16(void *dst, const void *a, const void *b, i64 n) { \
        pair *const d = dst; \
        const pair *const p = a, *const q = b; \
        const i64 half = n / 2; \
        INDEPENDENT for (i64 i = 0; i < half; i++) { \
            const float x = low_bf16(p[i]), y = low_bf16(q[i]), z = high_bf16(p[i]), w = high_bf16(q[i]); \
            d[i] = join_bf16(op##_float(x, y), op##_float(z, w)); \
        } \
        if (n & 1) { \
            const float x = get_bf16(((const u16 *)a)[n - 1]), y = get_bf16(((const u16 *)b)[n - 1]); \
            ((u16 *)dst)[n - 1] = put_bf16(op##_float(x, y)); \
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
            d[i] = join_bf16(op##_float(x, y), op##_float(z, y)); \
        } \
        if (n & 1) { \
            const float x = get_bf16(((const u16 *)a)[n - 1]); \
            ((u16 *)dst)[n - 1] = put_bf16(op##_float(x, y)); \
        } \
    }

#define INSTANTIATE_VV(op) VV_F16(op) VV_BF16(op) OTHER_FORMATS(VV_KERNEL, op)
#define INSTANTIATE_VS(op) VS_F16(op) VS_BF16(op) OTHER_FORMATS(VS_KERNEL, op)
NUMBER_TWO(INSTANTIATE_VV)
NUMBER_IMMEDIATE(INSTANTIATE_VS)

#define WIDE_VV_KERNEL(fmt, T, C, op) \
    static void op##_vv_##fmt(void *dst, const void *a, const void *b, i64 n) { \
        T *d = dst; \
        const T *p = a, *q = b; \
        INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = round_##fmt(op##_wide(get_##fmt(p[i]), get_##fmt(q[i]))); \
    }
#define INSTANTIATE_WIDE_VV(op) FLOAT_FORMATS(WIDE_VV_KERNEL, op)
DOUBLE_TWO(INSTANTIATE_WIDE_VV)

#define ROW_VV(op) [FN_##op] = {op##_vv_f16, op##_vv_bf16, op##_vv_f32, op##_vv_tf32, op##_vv_f64},
#define ROW_VS(op) [FN_##op] = {op##_vs_f16, op##_vs_bf16, op##_vs_f32, op##_vs_tf32, op##_vs_f64},
static const binary_kernel OF_TWO[NUM_FLOAT_FUNCTIONS][NUM_FLOATS] = {NUMBER_TWO(ROW_VV) DOUBLE_TWO(ROW_VV)};
static const binary_kernel OF_NUMBER[NUM_FLOAT_FUNCTIONS][NUM_FLOATS] = {NUMBER_IMMEDIATE(ROW_VS)};

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

binary_kernel float_binary_kernel(int function, int fmt, int scalar) {
#define CASE_KERNELS(op) case FN_##op: return scalar ? NULL : KERNELS_##op[f];
    const int f = float_index_of(fmt);
    if (f < 0) return NULL;
    switch ((enum float_function)function) {
        KERNELS_TWO(CASE_KERNELS)
    default: return scalar ? OF_NUMBER[function][f] : OF_TWO[function][f];
    }
}

/* Unary: the bit operations by width, the others by format. */
#define BIT_KERNEL(T, top, fn) \
    static void fn##_v_##T(void *dst, const void *src, i64 n) { \
        const T sign = (T)1 << (top); \
        T *d = dst; \
        const T *p = src; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const T x = p[i]; \
            d[i] = (T)BITS_##fn(T, x, sign); \
        } \
    }
#define INSTANTIATE_BITS(fn) BIT_KERNEL(u16, 15, fn) BIT_KERNEL(u32, 31, fn) BIT_KERNEL(u64, 63, fn)
BITS_ONE(INSTANTIATE_BITS)

#define UNARY_KERNEL(fmt, T, C, fn) \
    static void fn##_v_##fmt(void *dst, const void *src, i64 n) { \
        T *d = dst; \
        const T *p = src; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const C x = get_##fmt(p[i]); \
            d[i] = put_##fmt(fn##_##C(x)); \
        } \
    }
#define WIDE_V_KERNEL(fmt, T, C, fn) \
    static void fn##_v_##fmt(void *dst, const void *src, i64 n) { \
        T *d = dst; \
        const T *p = src; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const double x = get_##fmt(p[i]); \
            d[i] = round_##fmt(fn##_wide(x)); \
        } \
    }
#define BF16_UNARY(fn) \
    static void fn##_v_bf16(void *dst, const void *src, i64 n) { PAIR_LOOP(fn##_float, dst, src, n); }
#define INSTANTIATE_UNARY(fn) UNARY_KERNEL(f16, u16, float, fn) BF16_UNARY(fn) OTHER_FORMATS(UNARY_KERNEL, fn)
#define INSTANTIATE_WIDE(fn) FLOAT_FORMATS(WIDE_V_KERNEL, fn)
NUMBER_ONE(INSTANTIATE_UNARY)
DOUBLE_ONE(INSTANTIATE_WIDE)

#if defined(__AVX512F__) && defined(__AVX512DQ__)
/* 1 / sqrt(x) of positive finite floats, without a double's root and quotient: an estimate, a step of Newton's as floats, and one of the
 * third order as doubles, of which the last addition is rounded and little else: it is off by 2^-53 of itself. The numbers between floats
 * where rounding turns are all farther from any float's 1 / sqrt(x), 2^-51.8 of it, so that the float is the nearest one, from whatever
 * estimate of 14 bits. What is generated gives that too; all floats were compared. */
static inline __m256 refine_rsqrt(__m256 of, __m256 estimate) {
    const __m512d x = _mm512_cvtps_pd(of), y = _mm512_cvtps_pd(estimate);
    const __m512d e = _mm512_fnmadd_pd(_mm512_mul_pd(x, y), y, _mm512_set1_pd(1));
    const __m512d step = _mm512_mul_pd(e, _mm512_fmadd_pd(e, _mm512_set1_pd(0.375), _mm512_set1_pd(0.5)));
    return _mm512_cvtpd_ps(_mm512_fmadd_pd(y, step, y));
}

static void ct_rsqrt_quick_f32(void *dst, const void *src, i64 n) {
    const __m512 low = _mm512_setzero_ps(), high = _mm512_set1_ps(INFINITY);
    i64 i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512 x = _mm512_loadu_ps((const float *)src + i);
        if (_mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(x, low, _CMP_GT_OQ), x, high, _CMP_LT_OQ) != 0xFFFF) {
            ct_rsqrt_v_f32((float *)dst + i, (const float *)src + i, 16);
            continue;
        }
        const __m512 y = _mm512_rsqrt14_ps(x), e = _mm512_fnmadd_ps(_mm512_mul_ps(x, y), y, _mm512_set1_ps(1));
        const __m512 z = _mm512_fmadd_ps(_mm512_mul_ps(y, _mm512_set1_ps(0.5f)), e, y);
        const __m256 first = refine_rsqrt(_mm512_castps512_ps256(x), _mm512_castps512_ps256(z));
        const __m256 second = refine_rsqrt(_mm512_extractf32x8_ps(x, 1), _mm512_extractf32x8_ps(z, 1));
        _mm512_storeu_ps((float *)dst + i, _mm512_insertf32x8(_mm512_castps256_ps512(first), second, 1));
    }
    ct_rsqrt_v_f32((float *)dst + i, (const float *)src + i, n - i);
}
#else
#define ct_rsqrt_quick_f32 ct_rsqrt_v_f32
#endif

#define ROW_V(fn) [FN_##fn] = {fn##_v_f16, fn##_v_bf16, fn##_v_f32, fn##_v_tf32, fn##_v_f64},
#define ROW_WIDE(fn) [FN_##fn] = {fn##_v_f16, fn##_v_bf16, fn##_quick_f32, fn##_v_tf32, fn##_v_f64},
#define ROW_BITS(fn) [FN_##fn] = {fn##_v_u16, fn##_v_u16, fn##_v_u32, fn##_v_u32, fn##_v_u64},
static const unary_kernel OF_ONE[NUM_FLOAT_FUNCTIONS][NUM_FLOATS] = {NUMBER_ONE(ROW_V) DOUBLE_ONE(ROW_WIDE) BITS_ONE(ROW_BITS)};

unary_kernel float_unary_kernel(int function, int fmt) {
    const int f = float_index_of(fmt);
    return f < 0 ? NULL : OF_ONE[function][f];
}
