/* The matrix engine's sums for one small tile of a product, see device/ne_rules.py for what they are. */
#ifndef HLO2TX8_KERNELS_GEMM_H
#define HLO2TX8_KERNELS_GEMM_H

#include "lanes.h"

#if defined(__AVX512F__)
#define TILE_ROWS 8
#elif defined(__AVX2__) && defined(__FMA__)
#define TILE_ROWS 6
#else
#define TILE_ROWS 4
#endif
#define TILE_COLUMNS (2 * LANES) /* of doubles half of it; divides a block of channels */
#define NE_BLOCK 16              /* products that are summed before they join the accumulator */
#define CHUNK 256                /* elements along k that are packed at once */
#define MOST_ACROSS 128          /* words that `across` makes at once */
#define LEFT_STRIDE (CHUNK + 16) /* elements from one packed row of the left matrix to the next, so that rows do not share cache sets */

/* Sums of TILE_ROWS x TILE_COLUMNS products, rows apart by `columns` of the kernel's. */
union tile_sums {
    float f[TILE_ROWS * TILE_COLUMNS];
    i32 i[TILE_ROWS * TILE_COLUMNS];
};

/* How a format is multiplied. Operands are packed as 32-bit words: a float, or `k_per_word` narrow integers that are neighbours along k;
 * where `is_double` floats are then widened once more. The left matrix is rows along k, the right one for each k a row of `columns`. */
struct gemm_kernel {
    int columns, k_per_word, is_double;
    /* a run of n elements along k; `zero_point` is subtracted from integers */
    void (*along)(void *packed, const u8 *run, i64 n, i64 zero_point);
    /* n words of the elements at one k, or at k_per_word neighbours; NULL stands for zeros */
    void (*across)(u32 *packed, const u8 *const *rows, i64 n, i64 zero_point);
    void (*sum)(union tile_sums *acc, const void *left, const void *right, i64 k);
};

const struct gemm_kernel *gemm_kernel_of(int fmt); /* NULL for a format that is no operand's */

/* dst[c][r] = src[r][c]; strides in words. */
void transpose_words(u32 *dst, i64 dst_stride, const u32 *src, i64 src_stride, i64 rows, i64 columns);

#endif
