/* What instructions compute of an element: the generated expressions, and what these are made of. */
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

/* The nearest integer, ties away from zero. */
static inline float away_float(float x) {
    const float whole = truncf(x);
    const float up = fabsf(x - whole) >= 0.5f ? 1.0f : 0.0f;
    return copysignf(fabsf(whole) + up, x);
}

static inline double away_double(double x) {
    const double whole = trunc(x);
    const double up = fabs(x - whole) >= 0.5 ? 1.0 : 0.0;
    return copysign(fabs(whole) + up, x);
}

/* Of float or double, as x is. */
#define larger(x, y) _Generic((x), float: larger_float, double: larger_double)(x, y)
#define smaller(x, y) _Generic((x), float: smaller_float, double: smaller_double)(x, y)
#define root(x) _Generic((x), float: sqrtf, double: sqrt)(x)
#define below(x) _Generic((x), float: floorf, double: floor)(x)
#define above(x) _Generic((x), float: ceilf, double: ceil)(x)
#define nearest(x) _Generic((x), float: rintf, double: rint)(x)
#define away(x) _Generic((x), float: away_float, double: away_double)(x)
#define remainder_of(x, y) _Generic((x), float: fmodf, double: fmod)(x, y)

#include "functions.h"

#endif
