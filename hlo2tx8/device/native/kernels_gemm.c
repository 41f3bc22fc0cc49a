/* Sums toward zero run with the processor rounding toward zero: then a fused multiply-add is one step of the chain. Functions that do so
 * are not inlined, so that the compiler moves no arithmetic across the change of mode. */
#include "kernels_gemm.h"

#define TF32_KEPT 0xFFFFE000u

#define EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < TILE_ROWS; r++)

/* ------------------------------------------------------------------------------------------------------------------- bf16 and tf32 */

/* One block of `count` products; the processor rounds toward zero. What is missing of a block is zeros: -0 + 0 = +0. */
static inline __attribute__((always_inline)) void add_block(float *acc, const float *a, const float *b, i64 count) {
    floats s[TILE_ROWS][2];
    const floats first = load_floats(b), second = load_floats(b + LANES);
    EACH_ROW {
        const floats x = spread_float(a[r * LEFT_STRIDE]);
        s[r][0] = mul_floats(x, first);
        s[r][1] = mul_floats(x, second);
    }
    for (i64 k = 1; k < count; k++) {
        const floats left = load_floats(b + k * TILE_COLUMNS), right = load_floats(b + k * TILE_COLUMNS + LANES);
        EACH_ROW {
            const floats x = spread_float(a[r * LEFT_STRIDE + k]);
            s[r][0] = fma_floats(x, left, s[r][0]);
            s[r][1] = fma_floats(x, right, s[r][1]);
        }
    }
    EACH_ROW {
        float *const row = acc + r * TILE_COLUMNS;
        if (count < NE_BLOCK) {
            s[r][0] = add_floats(s[r][0], spread_float(0));
            s[r][1] = add_floats(s[r][1], spread_float(0));
        }
        store_floats(row, add_floats(load_floats(row), s[r][0]));
        store_floats(row + LANES, add_floats(load_floats(row + LANES), s[r][1]));
    }
}

static APART void add_blocks(float *acc, const float *a, const float *b, i64 k) {
    for (; k >= NE_BLOCK; k -= NE_BLOCK, a += NE_BLOCK, b += NE_BLOCK * TILE_COLUMNS) add_block(acc, a, b, NE_BLOCK);
    if (k) add_block(acc, a, b, k);
}

static void sum_floats(union tile_sums *acc, const void *left, const void *right, i64 k) {
    round_toward_zero();
    add_blocks(acc->f, left, right, k);
    round_to_nearest();
}

/* ---------------------------------------------------------------------------------------------------------------------------- fp16 */

#define TILE_DOUBLES (TILE_ROWS * LANES)

/* The sums of one block in double, to nearest; what is missing of it is zeros. */
static inline __attribute__((always_inline)) void chain_block(doubles v[TILE_ROWS][2], const double *a, const double *b, i64 count) {
    const doubles first = load_doubles(b), second = load_doubles(b + LANES / 2);
    EACH_ROW {
        const doubles x = spread_double(a[r * LEFT_STRIDE]);
        v[r][0] = mul_doubles(x, first);
        v[r][1] = mul_doubles(x, second);
    }
    for (i64 k = 1; k < count; k++) {
        const doubles left = load_doubles(b + k * LANES), right = load_doubles(b + k * LANES + LANES / 2);
        EACH_ROW {
            const doubles x = spread_double(a[r * LEFT_STRIDE + k]);
            v[r][0] = fma_doubles(x, left, v[r][0]);
            v[r][1] = fma_doubles(x, right, v[r][1]);
        }
    }
    if (count < NE_BLOCK) EACH_ROW {
        v[r][0] = add_doubles(v[r][0], spread_double(0));
        v[r][1] = add_doubles(v[r][1], spread_double(0));
    }
}

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define TOWARD_ZERO (_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)

/* Instructions name their own rounding: nothing leaves the registers. */
static inline __attribute__((always_inline)) void fold_block(float *acc, doubles v[TILE_ROWS][2]) {
    EACH_ROW {
        const __m256 left = _mm512_cvt_roundpd_ps(v[r][0], TOWARD_ZERO), right = _mm512_cvt_roundpd_ps(v[r][1], TOWARD_ZERO);
        const __m512 sums = _mm512_insertf32x8(_mm512_castps256_ps512(left), right, 1);
        _mm512_storeu_ps(acc + r * LANES, _mm512_add_round_ps(_mm512_loadu_ps(acc + r * LANES), sums, TOWARD_ZERO));
    }
}

static void sum_doubles(union tile_sums *acc, const void *left, const void *right, i64 k) {
    const double *a = left, *b = right;
    doubles v[TILE_ROWS][2];
    for (; k >= NE_BLOCK; k -= NE_BLOCK, a += NE_BLOCK, b += NE_BLOCK * LANES) {
        chain_block(v, a, b, NE_BLOCK);
        fold_block(acc->f, v);
    }
    if (!k) return;
    chain_block(v, a, b, k);
    fold_block(acc->f, v);
}
#else
static inline __attribute__((always_inline)) void store_block(double *s, doubles v[TILE_ROWS][2]) {
    EACH_ROW {
        store_doubles(s + r * LANES, v[r][0]);
        store_doubles(s + r * LANES + LANES / 2, v[r][1]);
    }
}

static APART void chain_blocks(double *s, const double *a, const double *b, i64 k) {
    doubles v[TILE_ROWS][2];
    for (; k >= NE_BLOCK; k -= NE_BLOCK, s += TILE_DOUBLES, a += NE_BLOCK, b += NE_BLOCK * LANES) {
        chain_block(v, a, b, NE_BLOCK);
        store_block(s, v);
    }
    if (!k) return;
    chain_block(v, a, b, k);
    store_block(s, v);
}

/* The processor rounds toward zero, the conversion too. */
static APART void fold_blocks(float *acc, const double *s, i64 blocks) {
    for (i64 b = 0; b < blocks; b++, s += TILE_DOUBLES)
        for (int i = 0; i < TILE_DOUBLES; i++) acc[i] += (float)s[i];
}

static void sum_doubles(union tile_sums *acc, const void *left, const void *right, i64 k) {
    double s[CHUNK / NE_BLOCK * TILE_DOUBLES];
    chain_blocks(s, left, right, k);
    round_toward_zero();
    fold_blocks(acc->f, s, (k + NE_BLOCK - 1) / NE_BLOCK);
    round_to_nearest();
}
#endif

/* ---------------------------------------------------------------------------------------------------------------------------- int8 */

/* Words are two neighbours along k of 16 bits. */
#define SUM_PAIRS(name, add) \
    static void name(union tile_sums *acc, const void *left, const void *right, i64 k) { \
        const u32 *a = left, *b = right; \
        u32 *const out = (u32 *)acc->i; \
        words s[TILE_ROWS][2]; \
        EACH_ROW { \
            s[r][0] = load_words(out + r * TILE_COLUMNS); \
            s[r][1] = load_words(out + r * TILE_COLUMNS + LANES); \
        } \
        for (i64 i = 0; i < (k + 1) / 2; i++, a++, b += TILE_COLUMNS) { \
            const words first = load_words(b), second = load_words(b + LANES); \
            EACH_ROW { \
                const words x = spread_word(a[r * (LEFT_STRIDE / 2)]); \
                s[r][0] = add(s[r][0], x, first); \
                s[r][1] = add(s[r][1], x, second); \
            } \
        } \
        EACH_ROW { \
            store_words(out + r * TILE_COLUMNS, s[r][0]); \
            store_words(out + r * TILE_COLUMNS + LANES, s[r][1]); \
        } \
    }

SUM_PAIRS(sum_pairs, add_pairs)
#if defined(__AVX512F__)
/* The same where a product of pairs is added in one instruction. */
#define add_pairs_at_once(sum, x, y) _mm512_dpwssd_epi32(sum, x, y)
__attribute__((target("avx512vnni"))) SUM_PAIRS(sum_pairs_at_once, add_pairs_at_once)
#endif

static void along_int8(void *packed, const u8 *run, i64 n, i64 zero_point) {
    i16 *const out = packed;
    const i8 *const p = (const i8 *)run;
    for (i64 i = 0; i < n; i++) out[i] = (i16)(p[i] - zero_point);
}

static void across_int8(u32 *packed, const u8 *const *rows, i64 n, i64 zero_point) {
    static const i8 zeros[MOST_ACROSS];
    const i8 *const low = rows[0] ? (const i8 *)rows[0] : zeros, *const high = rows[1] ? (const i8 *)rows[1] : zeros;
    const i64 zero_low = rows[0] ? zero_point : 0, zero_high = rows[1] ? zero_point : 0;
    for (i64 i = 0; i < n; i++) packed[i] = (u32)(u16)(low[i] - zero_low) | (u32)(high[i] - zero_high) << 16;
}

/* --------------------------------------------------------------------------------------------------------------------------- floats */

static inline float get_cut(u32 x) { return float_of_bits(x & TF32_KEPT); }

/* Runs may lie at any address. */
#define PACK_FLOATS(fmt, T, get) \
    static void along_##fmt(void *packed, const u8 *run, i64 n, i64 zero_point) { \
        typedef T element __attribute__((aligned(1), may_alias)); \
        const element *const p = (const element *)(const void *)run; \
        float *const out = packed; \
        (void)zero_point; \
        for (i64 i = 0; i < n; i++) out[i] = get(p[i]); \
    } \
    static void across_##fmt(u32 *packed, const u8 *const *rows, i64 n, i64 zero_point) { \
        (void)zero_point; \
        if (rows[0]) along_##fmt(packed, rows[0], n, 0); \
        else memset(packed, 0, (size_t)n * sizeof *packed); \
    }
PACK_FLOATS(bf16, u16, get_bf16)
PACK_FLOATS(f16, u16, get_f16)
PACK_FLOATS(tf32, u32, get_cut)

const struct gemm_kernel *gemm_kernel_of(int fmt) {
    static const struct gemm_kernel kernels[] = {
        {TILE_COLUMNS, 1, 0, along_bf16, across_bf16, sum_floats},
        {TILE_COLUMNS, 1, 0, along_tf32, across_tf32, sum_floats},
        {LANES, 1, 1, along_f16, across_f16, sum_doubles},
        {TILE_COLUMNS, 2, 0, along_int8, across_int8, sum_pairs},
#if defined(__AVX512F__)
        {TILE_COLUMNS, 2, 0, along_int8, across_int8, sum_pairs_at_once},
#endif
    };
    switch (fmt) {
    case FORMAT_BF16: return &kernels[0];
    case FORMAT_TF32: return &kernels[1];
    case FORMAT_FP16: return &kernels[2];
#if defined(__AVX512F__)
    case FORMAT_INT8: return &kernels[__builtin_cpu_supports("avx512vnni") ? 4 : 3];
#else
    case FORMAT_INT8: return &kernels[3];
#endif
    default: return NULL;
    }
}

/* ------------------------------------------------------------------------------------------------------------------------ transposing */

#if defined(__AVX512F__)
#define SQUARE 16
/* 16 x 16: pairs of words, pairs of pairs, then quarters and halves of the vectors. */
static inline void transpose_square(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride) {
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_si512(src + i * src_stride);
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        b[i] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0x88);
        b[i + 4] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0xDD);
        b[i + 8] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0x88);
        b[i + 12] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0xDD);
    }
    for (int i = 0; i < 4; i++) {
        _mm512_storeu_si512(dst + i * dst_stride, _mm512_shuffle_i32x4(b[i], b[i + 8], 0x88));
        _mm512_storeu_si512(dst + (i + 4) * dst_stride, _mm512_shuffle_i32x4(b[i + 4], b[i + 12], 0x88));
        _mm512_storeu_si512(dst + (i + 8) * dst_stride, _mm512_shuffle_i32x4(b[i], b[i + 8], 0xDD));
        _mm512_storeu_si512(dst + (i + 12) * dst_stride, _mm512_shuffle_i32x4(b[i + 4], b[i + 12], 0xDD));
    }
}
#elif defined(__SSE2__)
#define SQUARE 4
static inline void transpose_square(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride) {
    __m128i a[4];
    for (int i = 0; i < 4; i++) a[i] = _mm_loadu_si128((const __m128i *)(const void *)(src + i * src_stride));
    const __m128i b[4] = {_mm_unpacklo_epi32(a[0], a[1]), _mm_unpacklo_epi32(a[2], a[3]), _mm_unpackhi_epi32(a[0], a[1]), _mm_unpackhi_epi32(a[2], a[3])};
    for (int i = 0; i < 4; i += 2) {
        _mm_storeu_si128((__m128i *)(void *)(dst + i * dst_stride), _mm_unpacklo_epi64(b[i], b[i + 1]));
        _mm_storeu_si128((__m128i *)(void *)(dst + (i + 1) * dst_stride), _mm_unpackhi_epi64(b[i], b[i + 1]));
    }
}
#else
#define SQUARE 4
static inline void transpose_square(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride) {
    for (int r = 0; r < SQUARE; r++)
        for (int c = 0; c < SQUARE; c++) dst[c * dst_stride + r] = src[r * src_stride + c];
}
#endif

void transpose_words(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride, i64 rows, i64 columns) {
    const i64 whole_rows = rows / SQUARE * SQUARE, whole_columns = columns / SQUARE * SQUARE;
    for (i64 r = 0; r < whole_rows; r += SQUARE)
        for (i64 c = 0; c < whole_columns; c += SQUARE) transpose_square(dst + c * dst_stride + r, dst_stride, src + r * src_stride + c, src_stride);
    for (i64 r = 0; r < rows; r++)
        for (i64 c = r < whole_rows ? whole_columns : 0; c < columns; c++) dst[c * dst_stride + r] = src[r * src_stride + c];
}
