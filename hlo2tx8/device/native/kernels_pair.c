/* Two FP32 records in one pass: the first adds, subtracts or multiplies two vectors, or a vector and 64 elements repeated along it, and the
 * second does the same to the result and a third vector. Both round, so the bits are those of one after the other; NaN goes
 * through the second and is made canonical there. */
#include "operations.h"

#define OP_rsub(C, x, y) ((y) - (x))

#define PAIR_KERNELS(first, second) \
    static void first##_##second##_vv(void *dst, const void *a, const void *b, const void *c, i64 n) { \
        float *d = dst; \
        const float *p = a, *q = b, *r = c; \
        INDEPENDENT for (i64 i = 0; i < n; i++) { \
            const float x = OP_##first(float, p[i], q[i]); \
            d[i] = put_f32(OP_##second(float, x, r[i])); \
        } \
    } \
    static void first##_##second##_vu(void *dst, const void *a, const void *b, const void *c, i64 n) { \
        float *d = dst, y[UNIT_ELEMENTS]; \
        const float *p = a, *r = c; \
        memcpy(y, b, sizeof y); \
        i64 i = 0; \
        for (; i + UNIT_ELEMENTS <= n; i += UNIT_ELEMENTS) { \
            INDEPENDENT for (int k = 0; k < UNIT_ELEMENTS; k++) { \
                const float x = OP_##first(float, p[i + k], y[k]); \
                d[i + k] = put_f32(OP_##second(float, x, r[i + k])); \
            } \
        } \
        for (int k = 0; i < n; i++, k++) { \
            const float x = OP_##first(float, p[i], y[k]); \
            d[i] = put_f32(OP_##second(float, x, r[i])); \
        } \
    }
#define FIRSTS(X, second) X(add, second) X(sub, second) X(mul, second)
#define SECONDS(X) FIRSTS(X, add) FIRSTS(X, sub) FIRSTS(X, mul) FIRSTS(X, rsub)
SECONDS(PAIR_KERNELS)

/* In the order of the opcodes; the last row is what subtracts the first result. */
#define ENTRY(first, second) {first##_##second##_vv, first##_##second##_vu},
static const pair_kernel KERNELS[][3][2] = {{FIRSTS(ENTRY, add)}, {FIRSTS(ENTRY, sub)}, {FIRSTS(ENTRY, mul)}, {FIRSTS(ENTRY, rsub)}};

/* add, sub and mul; -1 for anything else. */
static int number_of(int opcode) {
    const int number = (opcode - OP_CT_ADD_VV) / 4;
    return opcode >= OP_CT_ADD_VV && number < 3 ? number : -1;
}

pair_kernel float_pair_kernel(int first, int second, int repeats, int is_second) {
    enum { ADD, SUB, MUL, REVERSED_SUB };
    const int one = number_of(first), two = number_of(second);
    if (one < 0 || two < 0) return NULL;
    return KERNELS[is_second && two == SUB ? REVERSED_SUB : two][one][repeats];
}
