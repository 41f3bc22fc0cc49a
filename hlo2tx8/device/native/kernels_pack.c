/* Operands of the matrix engine packed for its kernels. */
#include "kernels_gemm.h"

#define WHOLE 64 /* elements of most runs: a block of channels */

/* --------------------------------------------------------------------------------------------------------------------- single runs */

/* Elements may lie at any address. */
#define RUN(name, T, O, expression) \
    static inline void name(O *out, const u8 *run, i64 n, i64 bias) { \
        typedef T element __attribute__((aligned(1), may_alias)); \
        const element *const p = (const element *)(const void *)run; \
        (void)bias; \
        for (i64 i = 0; i < n; i++) out[i] = (O)(expression); \
    }
RUN(run_bf16, u16, float, get_bf16(p[i]))
RUN(run_bytes, u8, u8, p[i] - (u8)bias)
RUN(run_shorts, i8, i16, p[i] - bias)

static inline void run_tf32(float *out, const u8 *run, i64 n, i64 bias) {
    typedef u32 words __attribute__((vector_size(LANES * sizeof(u32)), aligned(1), may_alias));
    typedef u32 element __attribute__((aligned(1), may_alias));
    const element *const p = (const element *)(const void *)run;
    i64 i = 0;
    (void)bias;
    for (; i + LANES <= n; i += LANES) *(words *)(void *)(out + i) = *(const words *)(const void *)(p + i) & TF32_KEPT;
#if defined(__AVX512F__)
    const __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
    if (rest) _mm512_mask_storeu_epi32(out + i, rest, _mm512_and_si512(_mm512_maskz_loadu_epi32(rest, p + i), _mm512_set1_epi32((i32)TF32_KEPT)));
#else
    for (; i < n; i++) out[i] = float_of_bits(p[i] & TF32_KEPT);
#endif
}

static inline void run_f16(float *out, const u8 *run, i64 n, i64 bias) {
    typedef u16 element __attribute__((aligned(1), may_alias));
    const element *const p = (const element *)(const void *)run;
    i64 i = 0;
    (void)bias;
#if defined(F16_VECTOR)
    for (; i + F16_VECTOR <= n; i += F16_VECTOR) widen_f16_vector(out + i, (const u16 *)(const void *)(p + i));
#endif
    for (; i < n; i++) out[i] = get_f16(p[i]);
}

static inline void run_f16_wide(double *out, const u8 *run, i64 n, i64 bias) {
    typedef u16 element __attribute__((aligned(1), may_alias));
    const i64 whole = n / (LANES / 2) * (LANES / 2);
    const element *const p = (const element *)(const void *)run;
    (void)bias;
    for (i64 i = 0; i < whole; i += LANES / 2) store_doubles(out + i, widen_halves((const u8 *)(p + i)));
    for (i64 i = whole; i < n; i++) out[i] = get_f16(p[i]);
}

void widen_run(void *dst, int fmt, const u8 *run, i64 n, i64 zero_point) {
    switch (fmt) {
    case FORMAT_BF16: run_bf16(dst, run, n, 0); return;
    case FORMAT_FP16: run_f16(dst, run, n, 0); return;
    case FORMAT_TF32: run_tf32(dst, run, n, 0); return;
    default: run_shorts(dst, run, n, zero_point);
    }
}

/* ------------------------------------------------------------------------------------------------------------------------ rows of runs */

/* Runs may be far apart and in memory that no cache has: they are asked for some rows ahead. */
#define ROWS_AHEAD 8
static inline void prefetch_run(const struct runs *runs, i64 r, i64 first, i64 bytes) {
    if (r >= runs->num || runs->offsets[r] < 0) return;
    for (i64 at = first; at < first + bytes; at += LINE_BYTES) __builtin_prefetch(runs->data + runs->offsets[r] + at);
}

/* Calls a function with n behind its other arguments; lengths that most runs have are known to the compiler. */
#define OF_LENGTH(n, function, ...) \
    do { \
        if ((n) == WHOLE) function(__VA_ARGS__, WHOLE); \
        else if ((n) == 3 * LANES) function(__VA_ARGS__, 3 * LANES); \
        else if ((n) == TILE_COLUMNS) function(__VA_ARGS__, TILE_COLUMNS); \
        else if ((n) == LANES) function(__VA_ARGS__, LANES); \
        else function(__VA_ARGS__, n); \
    } while (0)

/* Elements [first, first + n) of each run, to rows that are `stride` bytes apart. */
#define PACK_ROWS(name, T, O, pack_run) \
    static inline __attribute__((always_inline)) void name(u8 *packed, i64 stride, const struct runs *runs, i64 bias, int fill, i64 first, i64 n) { \
        for (i64 r = 0; r < runs->num; r++, packed += stride) { \
            O *const out = (O *)(void *)packed; \
            const i64 offset = runs->offsets[r]; \
            prefetch_run(runs, r + ROWS_AHEAD, first * (i64)sizeof(T), n * (i64)sizeof(T)); \
            if (offset < 0) memset(out, fill, (size_t)n * sizeof *out); \
            else pack_run(out, runs->data + offset + first * (i64)sizeof(T), n, bias); \
        } \
    }

#define PACK_ALONG(name, T, O, pack_run) \
    PACK_ROWS(name##_rows, T, O, pack_run) \
    void name(u8 *packed, i64 stride, const struct runs *runs) { \
        OF_LENGTH(runs->n, name##_rows, packed, stride, runs, runs->bias, runs->fill, 0); \
    }
PACK_ALONG(along_bf16, u16, float, run_bf16)
PACK_ALONG(along_tf32, u32, float, run_tf32)
PACK_ALONG(along_f16, u16, float, run_f16)
PACK_ALONG(along_f16_wide, u16, double, run_f16_wide)
PACK_ALONG(along_bytes, u8, u8, run_bytes)
PACK_ALONG(along_shorts, i8, i16, run_shorts)

/* Panel by panel where there are few, else run by run as they lie in memory. */
#define FEW_PANELS 4
#define PACK_ACROSS(name, T, O, pack_run) \
    PACK_ROWS(name##_rows, T, O, pack_run) \
    void name(u8 *packed, const struct panels *to, const struct runs *runs) { \
        const i64 columns = to->columns, stride = columns * (i64)sizeof(O), num = runs->n <= FEW_PANELS * columns ? runs->num : 1; \
        struct runs some = *runs; \
        for (some.num = num; some.offsets < runs->offsets + runs->num; some.offsets += num, packed += num * stride) { \
            u8 *panel = packed; \
            if (num == 1) prefetch_run(runs, some.offsets - runs->offsets + ROWS_AHEAD, 0, runs->n * (i64)sizeof(T)); \
            for (i64 c = 0; c < runs->n; c += columns, panel += to->bytes) { \
                const i64 n = runs->n - c < columns ? runs->n - c : columns; \
                OF_LENGTH(n, name##_rows, panel, stride, &some, 0, 0, c); \
            } \
        } \
    }
PACK_ACROSS(across_bf16, u16, float, run_bf16)
PACK_ACROSS(across_tf32, u32, float, run_tf32)
PACK_ACROSS(across_f16, u16, float, run_f16)
PACK_ACROSS(across_f16_wide, u16, double, run_f16_wide)

/* Words of neighbouring runs' elements; the last word may lack some. Elements that are not there are `fill` too. */
static inline void join_bytes(u32 *out, const u8 *const *p, u32 bias, i64 n) {
    const u8 *const a = p[0], *const b = p[1], *const c = p[2], *const d = p[3];
    INDEPENDENT for (i64 i = 0; i < n; i++) {
        out[i] = ((a[i] - bias) & 0xFF) | ((b[i] - bias) & 0xFF) << 8 | ((c[i] - bias) & 0xFF) << 16 | (d[i] - bias) << 24;
    }
}

static inline void join_shorts(u32 *out, const u8 *const *p, u32 bias, i64 n) {
    const i8 *const a = (const i8 *)p[0], *const b = (const i8 *)p[1];
    INDEPENDENT for (i64 i = 0; i < n; i++) out[i] = (((u32)a[i] - bias) & 0xFFFF) | ((u32)b[i] - bias) << 16;
}

#define JOIN_ACROSS(name, neighbours, join) \
    void name(u8 *packed, const struct panels *to, const struct runs *runs) { \
        const i64 columns = to->columns; \
        const u32 bias = (u32)runs->bias; \
        u8 missing[MOST_RUN]; \
        memset(missing, (u8)(runs->fill + bias), (size_t)runs->n); \
        for (i64 k = 0; k < runs->num; k += neighbours, packed += columns * (i64)sizeof(u32)) { \
            const u8 *p[neighbours]; \
            u8 *panel = packed; \
            for (i64 i = 0; i < neighbours; i++) { \
                prefetch_run(runs, k + i + ROWS_AHEAD, 0, runs->n); \
                p[i] = k + i < runs->num && runs->offsets[k + i] >= 0 ? runs->data + runs->offsets[k + i] : missing; \
            } \
            for (i64 c = 0; c < runs->n; c += columns, panel += to->bytes) { \
                const i64 n = runs->n - c < columns ? runs->n - c : columns; \
                if (n == TILE_COLUMNS) join((u32 *)(void *)panel, p, bias, TILE_COLUMNS); \
                else join((u32 *)(void *)panel, p, bias, n); \
                for (i64 i = 0; i < neighbours; i++) p[i] += columns; \
            } \
        } \
    }
JOIN_ACROSS(across_bytes, 4, join_bytes)
JOIN_ACROSS(across_shorts, 2, join_shorts)

/* ------------------------------------------------------------------------------------------------------------------------ transposing */

#if defined(__AVX512F__)
#define SQUARE 16
/* 16 x 16: pairs of words, pairs of pairs, then quarters and halves of the vectors. */
static inline void transpose_square(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride, u32 kept) {
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = _mm512_and_si512(_mm512_loadu_si512(src + i * src_stride), _mm512_set1_epi32((i32)kept));
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
static inline void transpose_square(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride, u32 kept) {
    __m128i a[4];
    const __m128i mask = _mm_set1_epi32((i32)kept);
    for (int i = 0; i < 4; i++) a[i] = _mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)(src + i * src_stride)), mask);
    const __m128i b[4] = {_mm_unpacklo_epi32(a[0], a[1]), _mm_unpacklo_epi32(a[2], a[3]), _mm_unpackhi_epi32(a[0], a[1]), _mm_unpackhi_epi32(a[2], a[3])};
    for (int i = 0; i < 4; i += 2) {
        _mm_storeu_si128((__m128i *)(void *)(dst + i * dst_stride), _mm_unpacklo_epi64(b[i], b[i + 1]));
        _mm_storeu_si128((__m128i *)(void *)(dst + (i + 1) * dst_stride), _mm_unpackhi_epi64(b[i], b[i + 1]));
    }
}
#else
#define SQUARE 4
static inline void transpose_square(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride, u32 kept) {
    for (int r = 0; r < SQUARE; r++)
        for (int c = 0; c < SQUARE; c++) dst[c * dst_stride + r] = src[r * src_stride + c] & kept;
}
#endif

void transpose_words(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride, i64 rows, i64 columns, u32 kept) {
    const i64 whole_rows = rows / SQUARE * SQUARE, whole_columns = columns / SQUARE * SQUARE;
    for (i64 r = 0; r < whole_rows; r += SQUARE)
        for (i64 c = 0; c < whole_columns; c += SQUARE) transpose_square(dst + c * dst_stride + r, dst_stride, src + r * src_stride + c, src_stride, kept);
    for (i64 r = 0; r < rows; r++)
        for (i64 c = r < whole_rows ? whole_columns : 0; c < columns; c++) dst[c * dst_stride + r] = src[r * src_stride + c] & kept;
}
