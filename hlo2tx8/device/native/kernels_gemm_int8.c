/* Sums of INT8, exact and modulo 2^32. */
#include "kernels_gemm.h"

#define LEFT_WORDS (CHUNK + LINE_BYTES / (i64)sizeof(u32))

/* Words of neighbours along k; `add` adds their products to a sum. A row at `start` is added once to all rows, unless it is NULL. */
#define SUM_WORDS(name, target, add, start) \
    target static inline __attribute__((always_inline)) void name##_tile(const struct strip *t, const u32 *a, const u32 *b, i64 num_words, const int rows) { \
        const u32 *const first_row = start; \
        words s[TILE_ROWS][2]; \
        EACH_ROW(rows) for (int half = 0; half < 2; half++) { \
            s[r][half] = t->from ? load_words(t->from + r * t->from_stride + half * LANES) : spread_word(0); \
            if (first_row) s[r][half] = add_words(s[r][half], load_words(first_row + half * LANES)); \
        } \
        for (i64 i = 0; i < num_words; i++, a++, b += TILE_COLUMNS) { \
            const words first = load_words(b), second = load_words(b + LANES); \
            EACH_ROW(rows) { \
                const words x = spread_word(a[r * LEFT_WORDS]); \
                s[r][0] = add(s[r][0], x, first); \
                s[r][1] = add(s[r][1], x, second); \
            } \
        } \
        EACH_ROW(rows) { \
            store_words(t->to + r * t->to_stride, s[r][0]); \
            store_words(t->to + r * t->to_stride + LANES, s[r][1]); \
        } \
    } \
    target static void name(const struct strip *strip, const void *left, const void *right, i64 num_words) { \
        const u32 *a = left, *const b = right; \
        EACH_TILE(strip, a, LEFT_WORDS, name##_rows); \
    }
#define sum_shorts_rows(rest, a, rows) sum_shorts_tile(rest, a, b, num_words, rows)
#define sum_bytes_rows(rest, a, rows) sum_bytes_tile(rest, a, b, num_words, rows)

SUM_WORDS(sum_shorts, , add_pairs, NULL)

#if defined(__AVX512F__)
/* Four products of an unsigned and a signed byte are added at once. With left elements 128 + a the sum is too large by what the columns'
 * own sums say; the row behind the panel takes it away. */
#define WITH_BYTES __attribute__((target("avx512vnni")))
#define add_fours(sum, x, y) _mm512_dpbusd_epi32(sum, x, y)

SUM_WORDS(sum_bytes, WITH_BYTES, add_fours, b + num_words * TILE_COLUMNS)

WITH_BYTES static void finish_bytes(void *right, i64 num_words, i64 offset) {
    u32 *const panel = right, *const last = panel + num_words * TILE_COLUMNS;
    for (int half = 0; half < TILE_COLUMNS; half += LANES) {
        words s = spread_word(0);
        for (i64 i = 0; i < num_words; i++) s = add_fours(s, spread_word(0x01010101), load_words(panel + i * TILE_COLUMNS + half));
        store_words(last + half, _mm512_mullo_epi32(s, spread_word(-offset)));
    }
}

#endif

const struct gemm_kernel *int8_kernel(void) {
    static const struct gemm_kernel shorts = {TILE_COLUMNS, 2, 4, 0, 0, along_shorts, along_shorts, across_shorts, across_shorts, NULL, sum_shorts, NULL, NULL};
#if defined(__AVX512F__)
    static const struct gemm_kernel bytes = {TILE_COLUMNS, 4, 4, 0, 1, along_bytes, along_bytes, across_bytes, across_bytes, finish_bytes, sum_bytes, NULL, NULL};
    if (__builtin_cpu_supports("avx512vnni")) return &bytes;
#endif
    return &shorts;
}
