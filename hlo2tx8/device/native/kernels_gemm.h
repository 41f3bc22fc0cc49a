/* The matrix engine's sums for one small tile of a product, see device/ne_rules.py for what they are, and how operands are packed for them. */
#ifndef HLO2TX8_KERNELS_GEMM_H
#define HLO2TX8_KERNELS_GEMM_H

#include "lanes.h"

#if defined(__FMA__)
#define TILE_ROWS 6 /* with AVX-512 their sums and those of a block stay in registers */
#else
#define TILE_ROWS 4
#endif
#define TILE_COLUMNS (2 * LANES) /* of doubles half of it; divides a block of channels */
#define NE_BLOCK 16              /* products that are summed before they join the accumulator */
#define CHUNK 128                /* words along k that are packed at once: a panel of the right matrix stays in the first cache */
#define EACH_ROW(rows) _Pragma("GCC unroll 8") for (int r = 0; r < (rows); r++)

/* Where the sums of a strip, tiles below each other, start and go: rows of floats or INT32 apart by strides in words; `from` NULL: they start
 * at zero. Of a panel's columns so many are summed. */
struct strip {
    u32 *to;
    const u32 *from;
    i64 to_stride, from_stride, rows, columns;
    i64 right_stride; /* of a right operand that is not packed: words from a k to the next */
};

/* Calls sum_tile(strip, left, rows) for all tiles; what is left of the last one is cut to sizes that the compiler knows. `a` is the left
 * operand, its rows `apart`. */
#define EACH_TILE(strip, a, apart, sum_tile) \
    do { \
        struct strip rest = *(strip); \
        for (; rest.rows >= TILE_ROWS; leave_rows(&rest, TILE_ROWS), (a) += TILE_ROWS * (apart)) sum_tile(&rest, a, TILE_ROWS); \
        if (TILE_ROWS > 4 && rest.rows & 4) sum_tile(&rest, a, 4), (a) += 4 * (apart), leave_rows(&rest, 4); \
        if (rest.rows & 2) sum_tile(&rest, a, 2), (a) += 2 * (apart), leave_rows(&rest, 2); \
        if (rest.rows & 1) sum_tile(&rest, a, 1); \
    } while (0)

static inline void leave_rows(struct strip *s, i64 rows) {
    s->to += rows * s->to_stride;
    if (s->from) s->from += rows * s->from_stride;
    s->rows -= rows;
}

/* Runs of n elements at `data` + offsets[i] bytes, at any address; where the offset is negative, elements that pack as `fill`. Of integers
 * `bias` is subtracted. */
struct runs {
    const u8 *data;
    const i64 *offsets;
    i64 num, n, bias;
    u8 fill;
};

/* Rows of `columns` words, dense; what lies beyond them goes to the next panel, `bytes` further. */
struct panels {
    i64 columns, bytes;
};

#define MOST_RUN 1024 /* elements of a run across */
typedef void (*packer_along)(u8 *packed, i64 stride, const struct runs *runs); /* runs along k: rows of elements, `stride` bytes apart */
typedef void (*packer_across)(u8 *packed, const struct panels *to, const struct runs *runs); /* runs each at one k: rows of words */

/* How a format is multiplied. Operands are packed as words: a float, a double, or `k_per_word` narrow integers that are neighbours along k.
 * The left matrix is rows along k, the right one for each k a row of `columns`. */
struct gemm_kernel {
    int columns, k_per_word, word_bytes;
    int first_columns; /* of a panel that `sum` can do alone, if no more are there; 0: it cannot */
    int is_offset; /* left elements are packed plus 128, unsigned */
    packer_along along, along32; /* the second to words of 32 bits, which are transposed before they become doubles */
    packer_across across, across32;
    void (*finish_panel)(void *right, i64 num_words, i64 offset); /* completes a packed panel whose left elements are `offset` too large, or NULL */
    void (*sum)(const struct strip *strip, const void *left, const void *right, i64 num_words);
    void (*sum_placed)(const struct strip *strip, const void *left, const void *right, i64 num_words); /* the right operand as it lies; or NULL */
    /* The right operand as it lies, a whole panel; packs it on the way, and asks the host for the one that lies at `ahead`, or NULL.
     * At least TILE_ROWS rows; or NULL. */
    void (*sum_packing)(const struct strip *strip, const void *left, const void *right, i64 num_words, void *packed, const void *ahead);
};

const struct gemm_kernel *gemm_kernel_of(int fmt); /* NULL for a format that is no operand's */

static inline i64 left_stride(const struct gemm_kernel *kernel) { return CHUNK * kernel->word_bytes + LINE_BYTES; }
/* Behind a panel's words is a row for finish_panel. */
static inline i64 panel_bytes(const struct gemm_kernel *kernel) { return kernel->columns * (CHUNK * kernel->word_bytes + (i64)sizeof(u32)); }

#define TF32_KEPT 0xFFFFE000u

/* A run of n elements as floats, INT8 as 16 bits, less `zero_point`. */
void widen_run(void *dst, int fmt, const u8 *run, i64 n, i64 zero_point);

void along_bf16(u8 *packed, i64 stride, const struct runs *runs);
void along_tf32(u8 *packed, i64 stride, const struct runs *runs);
void along_f16(u8 *packed, i64 stride, const struct runs *runs);
void along_f16_wide(u8 *packed, i64 stride, const struct runs *runs);
void along_bytes(u8 *packed, i64 stride, const struct runs *runs);
void along_shorts(u8 *packed, i64 stride, const struct runs *runs);
void across_bf16(u8 *packed, const struct panels *to, const struct runs *runs);
void across_tf32(u8 *packed, const struct panels *to, const struct runs *runs);
void across_f16(u8 *packed, const struct panels *to, const struct runs *runs);
void across_f16_wide(u8 *packed, const struct panels *to, const struct runs *runs);
void across_bytes(u8 *packed, const struct panels *to, const struct runs *runs);
void across_shorts(u8 *packed, const struct panels *to, const struct runs *runs);

const struct gemm_kernel *int8_kernel(void); /* the one for this processor */

/* dst[c][r] = src[r][c], of which the bits in `kept`; strides in words. */
void transpose_words(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride, i64 rows, i64 columns, u32 kept);
#define WHOLE_WORDS 0xFFFFFFFFu

#endif
