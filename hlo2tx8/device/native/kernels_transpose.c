/* Transpositions: two levels of single elements, where one side is dense along the outer one. Tiles of 16 lines stay in the cache. */
#include "moves.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#define SQUARE 16
#define EIGHT 8
#define LOW(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(x, y) __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15)
/* Each round deals the rows out like cards; after log2(8) rounds rows are columns. */
#define TRANSPOSE_EIGHT(bytes, T) \
    static inline void eight_##bytes(u8 *restrict dst, const u8 *restrict src, i64 d, i64 s) { \
        typedef T row __attribute__((vector_size(EIGHT * sizeof(T)))); \
        row x[EIGHT], y[EIGHT]; \
        for (int i = 0; i < EIGHT; i++) memcpy(x + i, src + i * s, sizeof(row)); \
        for (int round = 0; round < 3; round++) { \
            for (int i = 0; i < EIGHT / 2; i++) { \
                y[2 * i] = LOW(x[i], x[i + EIGHT / 2]); \
                y[2 * i + 1] = HIGH(x[i], x[i + EIGHT / 2]); \
            } \
            memcpy(x, y, sizeof x); \
        } \
        for (int i = 0; i < EIGHT; i++) memcpy(dst + i * d, x + i, sizeof(row)); \
    }
TRANSPOSE_EIGHT(2, u16)
TRANSPOSE_EIGHT(4, u32)
TRANSPOSE_EIGHT(8, u64)
#define TRANSPOSE_BLOCK(bytes, T) \
    static inline void block_##bytes(u8 *restrict dst, const u8 *restrict src, i64 rows, i64 columns, i64 d, i64 s) { \
        T block[SQUARE][SQUARE]; \
        for (i64 r = 0; r < rows; r++) \
            for (i64 c = 0; c < columns; c++) memcpy(&block[c][r], src + r * s + c * (i64)sizeof(T), sizeof(T)); \
        for (i64 c = 0; c < columns; c++) memcpy(dst + c * d, block[c], (size_t)rows * sizeof(T)); \
    }
TRANSPOSE_BLOCK(1, u8)
TRANSPOSE_BLOCK(16, u128)
#define QUARTERS(bytes) \
    static inline void square_##bytes(u8 *restrict dst, const u8 *restrict src, i64 rows, i64 columns, i64 d, i64 s) { \
        for (i64 c = 0; c < columns; c += EIGHT) \
            for (i64 r = 0; r < rows; r += EIGHT) eight_##bytes(dst + c * d + r * bytes, src + r * s + c * bytes, d, s); \
    }
QUARTERS(2)
QUARTERS(8)
#if defined(__AVX512F__)
/* Pairs of rows, then pairs of those, within the quarters of vectors; then the quarters. */
static inline void sixteen(u8 *restrict dst, const u8 *restrict src, i64 d, i64 s) {
    enum { EVEN = 0x88, ODD = 0xDD };
    __m512i x[SQUARE], y[SQUARE];
    _Pragma("GCC unroll 16") for (int i = 0; i < SQUARE; i++) x[i] = _mm512_loadu_si512(src + i * s);
    _Pragma("GCC unroll 8") for (int i = 0; i < SQUARE; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < SQUARE; i += 4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        const __m512i even = _mm512_shuffle_i32x4(x[i], x[i + 4], EVEN), even_below = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], EVEN);
        const __m512i odd = _mm512_shuffle_i32x4(x[i], x[i + 4], ODD), odd_below = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], ODD);
        _mm512_storeu_si512(dst + i * d, _mm512_shuffle_i32x4(even, even_below, EVEN));
        _mm512_storeu_si512(dst + (i + 4) * d, _mm512_shuffle_i32x4(odd, odd_below, EVEN));
        _mm512_storeu_si512(dst + (i + 8) * d, _mm512_shuffle_i32x4(even, even_below, ODD));
        _mm512_storeu_si512(dst + (i + 12) * d, _mm512_shuffle_i32x4(odd, odd_below, ODD));
    }
}

static inline void square_4(u8 *restrict dst, const u8 *restrict src, i64 rows, i64 columns, i64 d, i64 s) {
    if (rows == SQUARE && columns == SQUARE) {
        sixteen(dst, src, d, s);
        return;
    }
    for (i64 c = 0; c < columns; c += EIGHT)
        for (i64 r = 0; r < rows; r += EIGHT) eight_4(dst + c * d + r * 4, src + r * s + c * 4, d, s);
}
#else
QUARTERS(4)
#endif
#define SCALARS(bytes) \
    static inline void square_##bytes(u8 *restrict dst, const u8 *restrict src, i64 rows, i64 columns, i64 d, i64 s) { \
        block_##bytes(dst, src, rows, columns, d, s); \
    }
SCALARS(1)
SCALARS(16)

/* Some lines from `at` on: the last ones overlap those before rather than being fewer than vectors take. */
struct part {
    i64 at, n;
};
static inline struct part part_of(i64 at, i64 n) {
    const i64 rest = n - at;
    if (rest >= SQUARE) return (struct part){at, SQUARE};
    return rest > EIGHT ? (struct part){n - SQUARE, SQUARE} : (struct part){n - EIGHT, EIGHT};
}
#define TRANSPOSE(bytes, T) \
    static void transpose_##bytes(u8 *restrict dst, const u8 *restrict src, struct level a, struct level b) { \
        for (i64 j = 0; j < b.n; j += SQUARE) { \
            const struct part columns = part_of(j, b.n); \
            for (i64 i = 0; i < a.n; i += SQUARE) { \
                const struct part rows = part_of(i, a.n); \
                square_##bytes(dst + rows.at * bytes + columns.at * b.dst, src + rows.at * a.src + columns.at * bytes, rows.n, columns.n, b.dst, a.src); \
            } \
        } \
    }
WIDTHS(TRANSPOSE)

int transpose_elements(u8 *dst, const u8 *src, i64 run, struct level a, struct level b) {
    if (a.n < SQUARE || b.n < SQUARE || a.src <= 64 || b.src != run || a.dst != run || b.dst < run * a.n) return 0;
    switch (run) {
#define CASE(bytes, T) \
    case bytes: transpose_##bytes(dst, src, a, b); return 1;
        WIDTHS(CASE)
#undef CASE
    default: return 0;
    }
}
