/* Two FP32 records in one pass: the first adds, subtracts or multiplies two vectors, or a vector and 64 elements repeated along it, and the
 * second does the same to the result and a third vector. Both round, so the bits are those of one after the other; NaN goes
 * through the second and is made canonical there. */
#include "operations.h"

static inline float reversed_sub_float(float x, float y) { return y - x; }

#define PAIR_KERNELS(first, second) \
    static void first##_##second##_vv(void *dst, const void *a, const void *b, const void *c, i64 n) { \
        float *d = dst; \
        const float *p = a, *q = b, *r = c; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const float x = first##_float(p[i], q[i]); \
            d[i] = put_f32(second##_float(x, r[i])); \
        } \
    } \
    static void first##_##second##_vu(void *dst, const void *a, const void *b, const void *c, i64 n) { \
        float *d = dst, y[UNIT_ELEMENTS]; \
        const float *p = a, *r = c; \
        memcpy(y, b, sizeof y); \
        i64 i = 0; \
        for (; i + UNIT_ELEMENTS <= n; i += UNIT_ELEMENTS) { \
            INDEPENDENT for (int k = 0; k < UNIT_ELEMENTS; k++) { \
                const float x = first##_float(p[i + k], y[k]); \
                d[i + k] = put_f32(second##_float(x, r[i + k])); \
            } \
        } \
        for (int k = 0; i < n; i++, k++) { \
            const float x = first##_float(p[i], y[k]); \
            d[i] = put_f32(second##_float(x, r[i])); \
        } \
    }
#define FIRSTS(X, second) X(ct_add_vv, second) X(ct_sub_vv, second) X(ct_mul_vv, second)
#define SECONDS(X) FIRSTS(X, ct_add_vv) FIRSTS(X, ct_sub_vv) FIRSTS(X, ct_mul_vv) FIRSTS(X, reversed_sub)
SECONDS(PAIR_KERNELS)

/* By number_of; the last row is what subtracts the first result. */
#define ENTRY(first, second) {first##_##second##_vv, first##_##second##_vu},
static const pair_kernel KERNELS[][3][2] = {{FIRSTS(ENTRY, ct_add_vv)}, {FIRSTS(ENTRY, ct_sub_vv)}, {FIRSTS(ENTRY, ct_mul_vv)}, {FIRSTS(ENTRY, reversed_sub)}};

enum { ADD, SUB, MUL, REVERSED_SUB };

/* -1 for a function that no pair is made of. */
static int number_of(int function) {
    switch ((enum float_function)function) {
    case FN_ct_add_vv: return ADD;
    case FN_ct_sub_vv: return SUB;
    case FN_ct_mul_vv: return MUL;
    default: return -1;
    }
}

pair_kernel float_pair_kernel(int first, int second, int repeats, int is_second) {
    const int one = number_of(first), two = number_of(second);
    if (one < 0 || two < 0) return NULL;
    return KERNELS[is_second && two == SUB ? REVERSED_SUB : two][one][repeats];
}
