/* A CT reduction with its operands found. */
#ifndef HLO2TX8_REDUCTION_H
#define HLO2TX8_REDUCTION_H

#include "float_rows.h"

enum reduced_dim { DIM_C, DIM_W, DIM_H, DIM_HW };

struct reduction {
    int fmt, is_average, dim, rounding;
    enum join join;
    i64 num, width, ahead; /* elements joined into one; points of a line; bytes behind what is read that the host is asked for */
    i64 number; /* of the batch's first result */
    struct blocked from, to;
    const u8 *src;
    u8 *target;
};

int resolve_reduce(struct context *c, struct reduction *r); /* 0 or the fault */
/* Points [first, end) of the result of a batch that begins at `out`, of elements that begin at `data`; each computes `work` bytes beside which
 * the host is asked for more. */
void reduce_range(const struct reduction *r, struct tile *t, u8 *out, const u8 *data, i64 first, i64 end, i64 work);

#endif
