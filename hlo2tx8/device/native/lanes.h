/* Vectors of a level of instructions, and the rounding mode of their arithmetic. */
#ifndef HLO2TX8_LANES_H
#define HLO2TX8_LANES_H

#include <fenv.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "base.h"

#if defined(__AVX512F__)
#define LANES 16
#else
#define LANES 8
#endif
/* Functions that change the mode call what computes in it, so that the compiler moves no arithmetic across the change, and are apart themselves
 * from what computes in the other one. */
#define APART __attribute__((noinline))

/* Only the mode of vector arithmetic, where it is apart: that is ten times quicker. */
#if defined(__SSE2__)
static inline void round_toward_zero(void) { _mm_setcsr(_mm_getcsr() | 0x6000u); }
static inline void round_to_nearest(void) { _mm_setcsr(_mm_getcsr() & ~0x6000u); }
#else
static inline void round_toward_zero(void) { fesetround(FE_TOWARDZERO); }
static inline void round_to_nearest(void) { fesetround(FE_TONEAREST); }
#endif

/* ---------------------------------------------------------------------------------------------------------------- vectors of a level */

#if defined(__AVX512F__)
typedef __m512 floats;
typedef __m512d doubles;
typedef __m512i words;
#define load_floats _mm512_loadu_ps
#define store_floats _mm512_storeu_ps
#define spread_float _mm512_set1_ps
#define add_floats _mm512_add_ps
#define mul_floats _mm512_mul_ps
#define fma_floats _mm512_fmadd_ps
#define load_doubles _mm512_loadu_pd
#define store_doubles _mm512_storeu_pd
#define spread_double _mm512_set1_pd
#define mul_doubles _mm512_mul_pd
#define add_doubles _mm512_add_pd
#define fma_doubles _mm512_fmadd_pd
#define widen_halves(p) _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define load_words(p) _mm512_loadu_si512((const void *)(p))
#define store_words(p, x) _mm512_storeu_si512((void *)(p), x)
#define spread_word(x) _mm512_set1_epi32((i32)(x))
#define add_words _mm512_add_epi32
#define add_pairs(sum, x, y) _mm512_add_epi32(sum, _mm512_madd_epi16(x, y))
/* Instructions name their own rounding: the processor's mode stays. */
#define NAMES_ROUNDING 1
#define TOWARD_ZERO (_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define cut_add(a, b) _mm512_add_round_ps(a, b, TOWARD_ZERO)
#define cut_mul(a, b) _mm512_mul_round_ps(a, b, TOWARD_ZERO)
#define cut_fma(a, b, s) _mm512_fmadd_round_ps(a, b, s, TOWARD_ZERO)
#define and_floats(x, bits) _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32((i32)(bits))))
static inline floats canonical_floats(floats v) {
    return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_ps(float_of_bits(CANONICAL_F32)));
}
#elif defined(__AVX2__) && defined(__FMA__)
typedef __m256 floats;
typedef __m256d doubles;
typedef __m256i words;
#define load_floats _mm256_loadu_ps
#define store_floats _mm256_storeu_ps
#define spread_float _mm256_set1_ps
#define add_floats _mm256_add_ps
#define mul_floats _mm256_mul_ps
#define fma_floats _mm256_fmadd_ps
#define load_doubles _mm256_loadu_pd
#define store_doubles _mm256_storeu_pd
#define spread_double _mm256_set1_pd
#define mul_doubles _mm256_mul_pd
#define add_doubles _mm256_add_pd
#define fma_doubles _mm256_fmadd_pd
#define widen_halves(p) _mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(const void *)(p))))
#define load_words(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define store_words(p, x) _mm256_storeu_si256((__m256i *)(void *)(p), x)
#define spread_word(x) _mm256_set1_epi32((i32)(x))
#define add_words _mm256_add_epi32
#define add_pairs(sum, x, y) _mm256_add_epi32(sum, _mm256_madd_epi16(x, y))
#define and_floats(x, bits) _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32((i32)(bits))))
static inline floats canonical_floats(floats v) {
    return _mm256_blendv_ps(v, _mm256_set1_ps(float_of_bits(CANONICAL_F32)), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}
#else
/* Without a fused multiply-add: products are exact in double, and cutting a sum to 53 bits and then to 24 is cutting it to 24. */
typedef struct { float x[LANES]; } floats;
typedef struct { double x[LANES / 2]; } doubles;
typedef struct { u32 x[LANES]; } words;
#define LANE_WISE(T, n, expression) \
    T r; \
    for (int i = 0; i < (n); i++) r.x[i] = expression; \
    return r
static inline floats load_floats(const float *p) { LANE_WISE(floats, LANES, p[i]); }
static inline void store_floats(float *p, floats v) { memcpy(p, v.x, sizeof v); }
static inline floats spread_float(float v) { LANE_WISE(floats, LANES, v); }
static inline floats add_floats(floats a, floats b) { LANE_WISE(floats, LANES, a.x[i] + b.x[i]); }
static inline floats mul_floats(floats a, floats b) { LANE_WISE(floats, LANES, a.x[i] * b.x[i]); }
static inline floats fma_floats(floats a, floats b, floats s) {
    LANE_WISE(floats, LANES, (float)((double)s.x[i] + (double)a.x[i] * (double)b.x[i]));
}
static inline floats and_floats(floats a, u32 bits) { LANE_WISE(floats, LANES, float_of_bits(bits_of_float(a.x[i]) & bits)); }
static inline floats canonical_floats(floats a) { LANE_WISE(floats, LANES, put_f32(a.x[i])); }
static inline doubles load_doubles(const double *p) { LANE_WISE(doubles, LANES / 2, p[i]); }
static inline void store_doubles(double *p, doubles v) { memcpy(p, v.x, sizeof v); }
static inline doubles spread_double(double v) { LANE_WISE(doubles, LANES / 2, v); }
static inline doubles mul_doubles(doubles a, doubles b) { LANE_WISE(doubles, LANES / 2, a.x[i] * b.x[i]); }
static inline doubles add_doubles(doubles a, doubles b) { LANE_WISE(doubles, LANES / 2, a.x[i] + b.x[i]); }
static inline doubles fma_doubles(doubles a, doubles b, doubles s) { LANE_WISE(doubles, LANES / 2, s.x[i] + a.x[i] * b.x[i]); }
static inline doubles widen_halves(const u8 *p) {
    u16 halves[LANES / 2];
    memcpy(halves, p, sizeof halves);
    LANE_WISE(doubles, LANES / 2, get_f16(halves[i]));
}
static inline words load_words(const u32 *p) { LANE_WISE(words, LANES, p[i]); }
static inline void store_words(u32 *p, words v) { memcpy(p, v.x, sizeof v); }
static inline words spread_word(u32 v) { LANE_WISE(words, LANES, v); }
static inline words add_words(words a, words b) { LANE_WISE(words, LANES, a.x[i] + b.x[i]); }
static inline words add_pairs(words s, words a, words b) {
    LANE_WISE(words, LANES, s.x[i] + (u32)((i16)a.x[i] * (i16)b.x[i]) + (u32)((i16)(a.x[i] >> 16) * (i16)(b.x[i] >> 16)));
}
#endif

/* Arithmetic toward zero. Without NAMES_ROUNDING the processor must be in that mode. */
#if !defined(NAMES_ROUNDING)
#define NAMES_ROUNDING 0
#define cut_add add_floats
#define cut_mul mul_floats
#define cut_fma fma_floats
#endif

#endif
