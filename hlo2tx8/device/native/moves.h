/* What moves of opaque elements share. */
#ifndef HLO2TX8_MOVES_H
#define HLO2TX8_MOVES_H

#include "base.h"

typedef struct {
    u64 low, high;
} u128;

#define WIDTHS(X) X(1, u8) X(2, u16) X(4, u32) X(8, u64) X(16, u128)

/* Two levels of single elements of `run` bytes, of which one side is dense along the outer one; 0: it is no transposition. */
int transpose_elements(u8 *dst, const u8 *src, i64 run, struct level a, struct level b);

#endif
