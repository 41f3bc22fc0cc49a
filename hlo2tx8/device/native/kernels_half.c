/* Conversions between FP32 and the 16-bit formats. */
#include "lanes.h"

void widen_f16_all(float *d, const u16 *p, i64 n) {
    i64 i = 0;
    for (; i + F16_BLOCK <= n; i += F16_BLOCK) {
        widen_f16(d + i, p + i);
        for (int k = 0; k < F16_BLOCK; k++) d[i + k] = put_f32(d[i + k]);
    }
    for (; i < n; i++) d[i] = put_f32(get_f16(p[i]));
}

void narrow_f16_all(u16 *d, const float *p, i64 n) {
    float x[F16_BLOCK];
    i64 i = 0;
    for (; i + F16_BLOCK <= n; i += F16_BLOCK) {
        memcpy(x, p + i, sizeof x);
        narrow_f16(d + i, x);
    }
    for (; i < n; i++) d[i] = put_f16(p[i]);
}

void widen_bf16_all(float *d, const u16 *p, i64 n) {
    INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = put_f32(get_bf16(p[i]));
}

static void narrow_bf16_some(u16 *d, const float *p, i64 n) {
    INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = put_bf16(p[i]);
}

#if defined(__AVX512F__) && defined(__AVX512DQ__)
enum { QUIET_NAN = 0x01, SUBNORMAL = 0x20, SIGNALLING_NAN = 0x80 };

static int host_has_bf16(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16");
}

/* The host's conversion makes subnormal numbers zeros and keeps what a NaN says. How many of the elements it has converted. */
__attribute__((target("avx512bf16"))) static i64 narrow_bf16_quickly(u16 *d, const float *p, i64 n) {
    const int odd = QUIET_NAN | SIGNALLING_NAN | SUBNORMAL;
    i64 i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const floats low = load_floats(p + i), high = load_floats(p + i + LANES);
        if (_mm512_fpclass_ps_mask(low, odd) | _mm512_fpclass_ps_mask(high, odd)) narrow_bf16_some(d + i, p + i, 2 * LANES);
        else _mm512_storeu_si512(d + i, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
    return i;
}
#else
static int host_has_bf16(void) { return 0; }
static i64 narrow_bf16_quickly(u16 *d, const float *p, i64 n) { return (void)d, (void)p, (void)n, 0; }
#endif

void narrow_bf16_all(u16 *d, const float *p, i64 n) {
    static int known; /* 1: the host has the conversion, -1: it has not */
    int has = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!has) __atomic_store_n(&known, has = host_has_bf16() ? 1 : -1, __ATOMIC_RELAXED);
    const i64 done = has > 0 ? narrow_bf16_quickly(d, p, n) : 0;
    narrow_bf16_some(d + done, p + done, n - done);
}
