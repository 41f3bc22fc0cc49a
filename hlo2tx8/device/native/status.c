/* Exception bits of a tile, see device/status.py. Operands are copied before a record executes, which may overwrite them. */
#include "blocked.h"
#include "operations.h"

#define BLOCK 512
#define FIRST_KEPT 4 /* regions of the scratch that no such record uses */

/* Operands kept: n elements x; y are as many, or one, or units of u elements, of which each `round` elements take the next. */
struct kept {
    int exactness, num, has_poles, fmt; /* fmt: of x */
    i64 n, u, round;
    const u8 *x, *y;
    double scalar;
};

/* A copy of `bytes` bytes of SPM; NULL if they are out of bounds, which the record itself will say. */
static const u8 *keep_bytes(struct context *c, i64 address, i64 n, i64 bytes, int region) {
    i64 size, end;
    if (n < 0 || address < 0 || __builtin_mul_overflow(n, bytes, &size) || __builtin_add_overflow(address, size, &end)) return NULL;
    return end > c->machine->spm_bytes ? NULL : memcpy(region_of(c, FIRST_KEPT + region), c->tile->spm + address, (size_t)size);
}

static double as_double(const u8 *p, int fmt) {
    double x;
    convert_elements(&x, FORMAT_FP64, p, fmt, 1);
    return x;
}

/* An FP32 or FP64 number rounded to the record's format. */
static double rounded(struct context *c, const void *value, int fmt) {
    u64 bits = 0;
    convert_elements(&bits, c->step->fmt, value, fmt, 1);
    return as_double((const u8 *)&bits, c->step->fmt);
}

/* 1 if the record is one of elements and its operands are kept. */
static int keep_elements(struct context *c, struct kept *k) {
    const struct step *const s = c->step;
    const enum shape shape = s->fact->shape;
    if (!s->fact->exactness) return 0;
    const i64 bytes = s->form == FORM_CONVERT_CT ? s->bytes2 : s->bytes;
    *k = (struct kept){.exactness = s->fact->exactness, .num = shape == SHAPE_ONE ? 1 : 2, .fmt = s->form == FORM_CONVERT_CT ? s->fmt2 : s->fmt};
    k->has_poles = s->fact->has_poles;
    k->n = operand(c, shape == SHAPE_ONE ? CT_SQRT__N : CT_ADD_VV__N);
    i64 num_second = k->n;
    if (shape == SHAPE_UNIT || shape == SHAPE_UNIT_LOOP) {
        k->u = operand(c, CT_ADD_VU_V__U);
        k->round = k->n;
        num_second = shape == SHAPE_UNIT ? k->u : operand(c, CT_ADD_VU_VLOOP__FULL_U);
        if (shape == SHAPE_UNIT_LOOP) k->n = operand(c, CT_ADD_VU_VLOOP__FULL_N);
        if (k->u < 1 || k->u > UNIT_ELEMENTS || k->round < (k->n > 0)) return 0;
    }
    k->x = keep_bytes(c, operand(c, 1), k->n, bytes, 0);
    if (shape == SHAPE_IMMEDIATE) {
        const u32 imm = (u32)operand(c, CT_ADD_VS__IMM);
        k->scalar = rounded(c, &imm, FORMAT_FP32);
    } else if (shape != SHAPE_ONE) {
        k->y = keep_bytes(c, operand(c, 2), num_second, bytes, 1);
        if (!k->y) return 0;
    }
    if (s->opcode == OP_CT_LEAKY_RELU) k->scalar = rounded(c, &c->machine->leakyrelu_slope, FORMAT_FP64);
    if (s->form == FORM_CONVERT_CT) k->scalar = (double)operand(c, CT_CONVERT__ZP);
    return k->x != NULL;
}

static double second_operand(const struct kept *k, i64 i) {
    if (k->num == 1 || !k->y) return k->scalar;
    return as_double(k->y + (k->u ? i / k->round * k->u + i % k->round % k->u : i) * format_bytes(k->fmt), k->fmt);
}

static int is_exact_sum(double r, double x, double y) {
    const double s = x + y, back = s - x;
    return (x - (s - back)) + (y - back) == 0 && s == r;
}

static int is_power_of_two(double x) {
    int exponent;
    return frexp(x, &exponent) == 0.5;
}

static int is_exact(int exactness, double r, double x, double y) {
#define EXACT_CASE(number, expression) case number: return expression;
    switch (exactness) {
        EXACTNESS(EXACT_CASE)
    default: return 1;
    }
}

static u32 status_of(double r, int is_regular, int exact) {
    u32 status = isinf(r) ? STATUS_INFINITE | (is_regular ? STATUS_OVERFLOW : 0) : 0;
    if (is_regular && r == r && !exact) status |= STATUS_INEXACT;
    return status;
}

static u32 status_of_conversion(int fmt, double x, double r) {
    u32 status = x != x ? STATUS_NAN : 0;
    if (float_index_of(fmt) >= 0) return status | status_of(r, isfinite(x), x == r);
    const double above = ldexp(1.0, format_bytes(fmt) * 8 - 1);
    const int is_inside = x >= -above && x <= above - 1;
    return status | (is_inside ? 0 : STATUS_OUT_OF_RANGE) | status_of(r, is_inside, x == r);
}

static u32 judge_elements(struct context *c, const struct kept *k) {
    const struct step *const s = c->step;
    const int is_number = s->form != FORM_RELATION_BITS, bytes = format_bytes(k->fmt);
    const u8 *const dst = c->tile->spm + operand(c, 0);
    double x[BLOCK], r[BLOCK] = {0};
    u32 status = 0;
    for (i64 start = 0; start < k->n; start += BLOCK) {
        const i64 count = k->n - start < BLOCK ? k->n - start : BLOCK;
        convert_elements(x, FORMAT_FP64, k->x + start * bytes, k->fmt, count);
        if (is_number) convert_elements(r, FORMAT_FP64, dst + start * s->bytes, s->fmt, count);
        for (i64 i = 0; i < count; i++) {
            const double y = s->form == FORM_UNARY ? x[i] : second_operand(k, start + i);
            if (s->form == FORM_CONVERT_CT) {
                status |= status_of_conversion(s->fmt, x[i] - y, r[i]);
                continue;
            }
            const int is_pole = k->has_poles && y == 0;
            if (x[i] != x[i] || y != y) status |= STATUS_NAN;
            if (is_number) status |= status_of(r[i], isfinite(x[i]) && isfinite(y) && !is_pole, is_exact(k->exactness, r[i], x[i], y));
        }
    }
    return status;
}

u32 special_of(const u8 *data, int fmt, const struct blocked *l) {
    double row[MOST_WIDTH];
    u32 found = 0;
    if (float_index_of(fmt) < 0) return 0;
    for (i64 b = 0; b < l->batch; b++) {
        i64 width, run;
        for (i64 ch = 0; ch < l->channels; ch += run) {
            const u8 *const block = data + b * l->stride + find_channel(l, ch, &width, &run);
            for (i64 p = 0; p < l->points; p++) {
                u64 raw[MOST_WIDTH];
                memcpy(raw, block + p * width * l->bytes, (size_t)(run * l->bytes));
                convert_elements(row, FORMAT_FP64, raw, fmt, run);
                for (i64 i = 0; i < run; i++) found |= row[i] != row[i] ? STATUS_NAN : isinf(row[i]) ? STATUS_INFINITE : 0;
            }
        }
    }
    return found;
}

void note_tensors(struct context *c, u32 operands, u32 result) {
    const u32 infinite = result & STATUS_INFINITE;
    c->tile->status |= infinite | (operands & STATUS_NAN) | (infinite && !operands ? STATUS_OVERFLOW : 0);
}

int execute_kept(struct context *c) {
    struct kept k;
    settle_loads(c->tile);
    const int is_kept = keep_elements(c, &k), fault = execute(c);
    if (!fault && is_kept) c->tile->status |= judge_elements(c, &k);
    return fault;
}
