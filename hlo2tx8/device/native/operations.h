/* What CT arithmetic, relations and logic do to two numbers of compute type C. */
#ifndef HLO2TX8_OPERATIONS_H
#define HLO2TX8_OPERATIONS_H

#include "base.h"

static inline double larger_double(double x, double y) {
    const double larger = (x > y) | ((x == y) & (bits_f64_i64(x) >= 0)) ? x : y;
    return (x != x) | (y != y) ? x + y : larger;
}

static inline double smaller_double(double x, double y) {
    const double smaller = (x < y) | ((x == y) & (bits_f64_i64(x) < 0)) ? x : y;
    return (x != x) | (y != y) ? x + y : smaller;
}

#define OP_add(C, x, y) ((x) + (y))
#define OP_sub(C, x, y) ((x) - (y))
#define OP_mul(C, x, y) ((x) * (y))
#define OP_div(C, x, y) ((x) / (y))
#define OP_max(C, x, y) larger_##C(x, y)
#define OP_min(C, x, y) smaller_##C(x, y)
#define OP_eq(C, x, y) ((x) == (y) ? (C)1 : (C)0)
#define OP_ne(C, x, y) ((x) != (y) ? (C)1 : (C)0)
#define OP_ge(C, x, y) ((x) >= (y) ? (C)1 : (C)0)
#define OP_gt(C, x, y) ((x) > (y) ? (C)1 : (C)0)
#define OP_le(C, x, y) ((x) <= (y) ? (C)1 : (C)0)
#define OP_lt(C, x, y) ((x) < (y) ? (C)1 : (C)0)

/* Truth: anything but zero, NaN too. */
#define OP_land(C, x, y) ((x) != 0 && (y) != 0 ? (C)1 : (C)0)
#define OP_lor(C, x, y) ((x) != 0 || (y) != 0 ? (C)1 : (C)0)
#define OP_lxor(C, x, y) (((x) != 0) != ((y) != 0) ? (C)1 : (C)0)

/* In the order of the opcodes: four forms of each. */
#define ARITHMETIC(X) X(add) X(sub) X(mul) X(div) X(max) X(min)
#define RELATIONS(X) X(eq) X(ne) X(ge) X(gt) X(le) X(lt)
#define LOGIC(X) X(land) X(lor) X(lxor)

#endif
