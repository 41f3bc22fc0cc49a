/* Functions of a vector and 64 elements repeated along it. The elements stay widened, in registers or next to them. */
#include "operations.h"

/* The elements of b are read before anything is written. What is left after whole turns takes the first of them. */
#define UNIT_KERNEL(fmt, T, C, op) \
    static void op##_vu_##fmt(void *dst, const void *a, const void *b, i64 n) { \
        T *d = dst; \
        const T *p = a, *q = b; \
        C y[UNIT_ELEMENTS]; \
        i64 i = 0; \
        for (int k = 0; k < UNIT_ELEMENTS; k++) y[k] = get_##fmt(q[k]); \
        for (; i + UNIT_ELEMENTS <= n; i += UNIT_ELEMENTS) { \
            INDEPENDENT for (int k = 0; k < UNIT_ELEMENTS; k++) d[i + k] = put_##fmt(op##_##C(get_##fmt(p[i + k]), y[k])); \
        } \
        for (int k = 0; i < n; i++, k++) d[i] = put_##fmt(op##_##C(get_##fmt(p[i]), y[k])); \
    }
#define UNIT_F16(op) \
    static void op##_vu_f16(void *dst, const void *a, const void *b, i64 n) { \
        u16 *const d = dst; \
        const u16 *const p = a; \
        float x[F16_BLOCK], y[UNIT_ELEMENTS]; \
        i64 i = 0; \
        widen_f16(y, b); \
        for (; i + F16_BLOCK <= n; i += F16_BLOCK) { \
            widen_f16(x, p + i); \
            for (int k = 0; k < F16_BLOCK; k++) x[k] = op##_float(x[k], y[k]); \
            narrow_f16(d + i, x); \
        } \
        for (int k = 0; i < n; i++, k++) d[i] = put_f16(op##_float(get_f16(p[i]), y[k])); \
    }
#define UNIT_BF16(op) \
    static void op##_vu_bf16(void *dst, const void *a, const void *b, i64 n) { \
        pair *const d = dst; \
        const pair *const p = a, *const q = b; \
        enum { HALF = UNIT_ELEMENTS / 2 }; \
        float low[HALF], high[HALF]; \
        i64 i = 0; \
        for (int k = 0; k < HALF; k++) low[k] = low_bf16(q[k]), high[k] = high_bf16(q[k]); \
        for (; i + HALF <= n / 2; i += HALF) { \
            INDEPENDENT for (int k = 0; k < HALF; k++) { \
                const float x = low_bf16(p[i + k]), z = high_bf16(p[i + k]); \
                d[i + k] = join_bf16(op##_float(x, low[k]), op##_float(z, high[k])); \
            } \
        } \
        i *= 2; \
        for (int k = 0; i < n; i++, k++) ((u16 *)dst)[i] = put_bf16(op##_float(get_bf16(((const u16 *)a)[i]), k & 1 ? high[k / 2] : low[k / 2])); \
    }

#define INSTANTIATE(op) UNIT_F16(op) UNIT_BF16(op) UNIT_KERNEL(f32, float, float, op) UNIT_KERNEL(tf32, float, float, op)
NUMBER_UNIT(INSTANTIATE)

#define ROW(op) [FN_##op] = {op##_vu_f16, op##_vu_bf16, op##_vu_f32, op##_vu_tf32, NULL},
static const binary_kernel OF_UNIT[NUM_FLOAT_FUNCTIONS][NUM_FLOATS] = {NUMBER_UNIT(ROW)};

binary_kernel float_unit_kernel(int function, int fmt) {
    const int f = float_index_of(fmt);
    return f < 0 ? NULL : OF_UNIT[function][f];
}
