/* Products of two operands that are found point by point: gemm, and convolutions as the gemm that they imply. */
#ifndef HLO2TX8_PRODUCT_H
#define HLO2TX8_PRODUCT_H

#include "blocked.h"
#include "kernels_gemm.h"

#define BLOCK_ROWS (CHUNK / TILE_ROWS * TILE_ROWS) /* of the left operand that are packed at once */
#define BLOCK_COLUMNS 1024                         /* of the right one */

/* An operand: points with channels. `along`: the channels of a point are neighbours along k, and k runs through `taps` times `width`
 * channels, of which those beyond the layout's are zeros. Otherwise a point is one k, and its channels are rows or columns. */
struct source {
    struct blocked layout;
    const u8 *data;
    int is_along;
    i64 width, zero_point;
    /* the points of `count` rows or columns from `first` on at a tap, or of `count` k from `first` on; -1 for zeros */
    void (*points)(const void *geometry, i64 *out, i64 first, i64 count, i64 tap);
};

struct product {
    int fmt;
    i64 rows, columns, depth;
    struct source left, right;
    const void *geometry;
    /* where it goes: row m is point first + m of the result and of partial sums */
    struct blocked result, psum;
    const u8 *sums; /* NULL: sums start at zero */
    u8 *out;
    i64 first;
    int result_fmt, is_quantised;
    i64 q1, q2, scale, zero_out;
};

void run_product(const struct product *p, u8 *scratch); /* PRODUCT_BYTES of scratch */

/* Points as they lie. */
void equal_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap);

#endif
