/* The matrix engine's sums for one small tile of a product, see device/ne_rules.py for what they are. */
#ifndef HLO2TX8_KERNELS_GEMM_H
#define HLO2TX8_KERNELS_GEMM_H

#include "base.h"

#if defined(__AVX512F__)
#define LANES 16
#define TILE_ROWS 8
#elif defined(__AVX2__) && defined(__FMA__)
#define LANES 8
#define TILE_ROWS 6
#else
#define LANES 8
#define TILE_ROWS 4
#endif
#define TILE_COLUMNS (2 * LANES) /* for doubles half of it; divides a block of channels */
#define NE_BLOCK 16              /* products that are summed before they join the accumulator */

/* Sums of TILE_ROWS x TILE_COLUMNS products, rows apart by `columns` of the kernel's. */
union tile_sums {
    float f[TILE_ROWS * TILE_COLUMNS];
    i32 i[TILE_ROWS * TILE_COLUMNS];
};

/* How operands of a format are packed: per k, or pair of k, TILE_ROWS elements of the left and `columns` of the right matrix. */
struct gemm_kernel {
    int columns, element_bytes;
    i64 k_per_element;
    /* n elements of a row along k, in the operands' format, to every `apart`-th packed element; `zero_point` is subtracted from integers */
    void (*pack)(u8 *packed, const u8 *row, i64 n, i64 apart, i64 zero_point);
    /* the same for n columns in a row of which all have one k */
    void (*pack_row)(u8 *packed, const u8 *row, i64 n, i64 k);
    void (*sum)(union tile_sums *acc, const u8 *left, const u8 *right, i64 k);
};

const struct gemm_kernel *gemm_kernel_of(int fmt); /* NULL for a format that is no operand's */

#endif
