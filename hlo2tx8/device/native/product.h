/* Products of two operands that are found point by point: gemm, and convolutions as the gemm that they imply. */
#ifndef HLO2TX8_PRODUCT_H
#define HLO2TX8_PRODUCT_H

#include "blocked.h"
#include "kernels_gemm.h"

#define BLOCK_ROWS ((256 + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS) /* at least 256 of the left operand that are packed at once */
#define BLOCK_COLUMNS 1024                                         /* of the right one */
#define MOST_CHUNK (4 * CHUNK)                                     /* elements of a chunk along k */

/* An operand: points with channels. `along`: the channels of a point are neighbours along k, and k runs through the taps, each of `width`
 * channels, of which those beyond the layout's are zeros. Otherwise a point is one k, and its channels are rows or columns. */
struct source {
    struct blocked layout;
    const u8 *data;
    int is_along;
    i64 width, zero_point;
    struct placed placed;         /* where it is in DDR instead; its point_bytes are 0 where it is as in the layout */
    i64 tap_width, tap_channels;  /* of floats along k: of so many neighbours only the first ones are no zeros; 0: all are as they lie */
    /* the points, by point_of, of `count` rows or columns from `first` on at a tap, or of `count` k from `first` on; -1 for zeros */
    void (*points)(const void *geometry, i64 *out, i64 first, i64 count, i64 tap);
};

struct product {
    int fmt;
    i64 rows, columns, depth;
    struct source left, right;
    const void *geometry;
    /* where it goes: row m is point first + m of the result and of partial sums, counted through the batches */
    struct blocked result, psum;
    const u8 *sums; /* NULL: sums start at zero */
    u8 *out;
    i64 first;
    int result_fmt, is_quantised;
    i64 q1, q2, scale, zero_out;
    u32 special; /* of the operands, where exception bits are kept */
};

/* Scratch of one product. */
struct workspace {
    u8 left[BLOCK_ROWS * (CHUNK * sizeof(double) + LINE_BYTES)];
    u8 right[1 << 21];
    float sums[BLOCK_ROWS * BLOCK_COLUMNS];
    u32 words[BLOCK_ROWS * CHUNK], turned[BLOCK_ROWS * CHUNK];
    i64 offsets[MOST_CHUNK];
};
_Static_assert(sizeof(struct workspace) <= PRODUCT_BYTES && BLOCK_ROWS <= MOST_CHUNK, "scratch of a product");
_Static_assert(TILE_COLUMNS <= BLOCK_ROWS && BLOCK_COLUMNS % TILE_COLUMNS == 0, "a panel fits");
_Static_assert(BLOCK_COLUMNS <= MOST_RUN && BLOCK_ROWS <= MOST_RUN, "a run fits");

/* Packs chunks of operands: the left one as rows along k; of the right one panels, columns beyond the last zeros. */
void pack_left(const struct product *p, struct workspace *w, i64 first, i64 count, i64 k0, i64 num_k);
void pack_right(const struct product *p, struct workspace *w, u8 *right, i64 first, i64 count, i64 k0, i64 num_k);

/* Operands of a chunk: rows of k from `data` on, or k of columns, `stride` words apart. */
struct place {
    const void *data;
    i64 stride;
    int is_packed;
};
#define MOST_PLACED_ROWS 48 /* with fewer packing columns costs more than it saves */
#define COLLIDING_BYTES 4096 /* so far apart in DDR, a chunk of k does not stay in the host's first cache */
#define MOST_COLLIDING_ROWS (4 * TILE_ROWS) /* with more it is read too often then */
#define PLACED_CHUNK 64     /* of k that neighbours have, a block of channels */

/* Columns of which a kernel makes at least so many at once. */
static inline i64 panel_columns(const struct gemm_kernel *kernel, i64 columns) {
    return columns <= kernel->first_columns ? kernel->first_columns : kernel->columns;
}

/* The right operand of a gemm where it lies, of a kernel that can read it so: 0 if it does not lie so. All panels must. */
int may_place_rows(const struct product *p); /* are there few enough to read it in place? */
int can_place_right(const struct product *p, i64 columns);
struct place place_right(const struct product *p, i64 column, i64 k0);

/* A point of a batch. */
static inline i64 point_of(i64 batch, i64 point) { return batch << 32 | point; }

/* Bytes from a layout's beginning to a row of `width` elements at a point. */
static inline i64 offset_of(const struct blocked *l, i64 width, i64 point) {
    return (point >> 32) * l->stride + (point & UINT32_MAX) * width * l->bytes;
}

/* The same for result number `row`. */
i64 row_offset(const struct blocked *l, i64 width, i64 row);

/* n sums, floats or of INT8 operands integers, at most MOST_WIDTH, in the format of the result. */
void store_sums(const struct product *p, u8 *dst, const void *sums, i64 n);

/* Finds the operands dst, left, right and psum of a record, its first ones, in SPM: *target is where dst is, p->out where to write until
 * finish_product moves it. Both return 0 or the fault. */
int find_operands(struct context *c, struct product *p, int accumulates, u8 **target);
int finish_product(struct context *c, const struct product *p, u8 *target, u8 *out);
/* Sets what a quantised record adds to a product; its operands begin at q1. */
void set_quantisation(struct context *c, struct product *p, int q1);
static inline u8 *product_scratch(const struct context *c) { return c->scratch + SCRATCH_REGIONS * c->machine->spm_bytes; }

/* Of each channel apart: left is the image at the taps' points, right [taps, channels]. */
void run_depthwise(const struct product *p, i64 taps);

void run_product(const struct product *p, u8 *scratch); /* PRODUCT_BYTES of scratch */

/* Points as they lie. */
void equal_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap);

#endif
