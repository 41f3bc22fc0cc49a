/* Rows of 64 lanes joined in order, and the lanes of one row joined. */
#ifndef HLO2TX8_KERNELS_REDUCE_H
#define HLO2TX8_KERNELS_REDUCE_H

#include "base.h"

#define LANES_OF_REDUCE 64

enum join { JOIN_ADD, JOIN_MAX, JOIN_MIN };

/* acc[l] = row 0 [l], joined with row 1 [l] and so on; rows of 64 elements, `apart` bytes from each other, at any address. */
void join_rows(enum join join, int fmt, float *acc, const u8 *src, i64 num, i64 apart);
/* The same of FP32, into 64 elements at any address, times a power of two and canonical. Of each row the host is asked for a line `ahead`
 * bytes behind it. */
void join_rows_scaled(enum join join, u8 *dst, const u8 *src, i64 num, i64 apart, i64 ahead, float factor);
#define ROWS_AT_ONCE 16
/* Neighbours of each row's n <= 64 FP32 lanes joined, lanes 2i and 2i + 1, then their results, until one is left; a lane without a neighbour
 * stays what it is. Of `num` rows, at most ROWS_AT_ONCE, `apart` bytes from each other, at any address; out has room for ROWS_AT_ONCE. */
void join_lanes(enum join join, const u8 *rows, i64 apart, i64 n, int num, float *out);

#endif
