/* Exception bits of a tile, see device/status.py. Operands are copied before a record executes, which may overwrite them. */
#include "blocked.h"

#define BLOCK 512
#define FIRST_KEPT 4 /* regions of the scratch that no such record uses */

enum exactness { EXACT, SUM, DIFFERENCE, PRODUCT, QUOTIENT, SQUARE, ROOT, RECIPROCAL, RECIPROCAL_ROOT, LEAKY, FUNCTION, FUNCTION_OF_ZERO };

/* Operands kept: n elements x; y are as many, or one, or units of u elements, of which each `round` elements take the next. */
struct kept {
    enum exactness exactness;
    int num, has_poles, fmt; /* fmt: of x */
    i64 n, u, round;
    const u8 *x, *y;
    double scalar;
};

static enum exactness exactness_of(int op) {
    if (op >= OP_CT_ADD_VV && op <= OP_CT_DIV_VU_VLOOP) return (enum exactness[]){SUM, DIFFERENCE, PRODUCT, QUOTIENT}[(op - OP_CT_ADD_VV) / 4];
    switch (op) {
    case OP_CT_SQUARE: return SQUARE;
    case OP_CT_SQRT: return ROOT;
    case OP_CT_RECIP: return RECIPROCAL;
    case OP_CT_RSQRT: return RECIPROCAL_ROOT;
    case OP_CT_LEAKY_RELU: return LEAKY;
    case OP_CT_SOFTPLUS: return FUNCTION_OF_ZERO;
    case OP_CT_LOG2: case OP_CT_LN: case OP_CT_POW2: case OP_CT_EXP: case OP_CT_SIN: case OP_CT_COS: case OP_CT_TANH: case OP_CT_SIGMOID:
    case OP_CT_EXP_LOW_PRECISION: return FUNCTION;
    default: return EXACT;
    }
}

static int has_poles(int op, enum exactness e) {
    return e == QUOTIENT || e == RECIPROCAL || e == RECIPROCAL_ROOT || op == OP_CT_LOG2 || op == OP_CT_LN;
}

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

enum operands { ONE, TWO, IMMEDIATE, UNIT, UNIT_LOOP, NONE };

/* What a record has for operands; NONE if it only moves bits, or is of the kernel core. */
static enum operands operands_of(const struct step *s) {
    static const u8 relations[] = {TWO, IMMEDIATE, UNIT, UNIT_LOOP};
    const int on_kernel_core = s->opcode >= OP_KC_VNEG && s->opcode < OP_CT_BITS_EQ_VV;
    switch ((enum form)s->form) {
    case FORM_UNARY: return on_kernel_core || s->opcode == OP_CT_ABS || s->opcode == OP_CT_NEG ? NONE : ONE;
    case FORM_BINARY: return on_kernel_core ? NONE : TWO;
    case FORM_VS: return IMMEDIATE;
    case FORM_UNIT: return UNIT;
    case FORM_UNIT_LOOP: return UNIT_LOOP;
    case FORM_RELATION_BITS: return (enum operands)relations[s->opcode & 3];
    case FORM_CONVERT_CT: case FORM_SCALED: return ONE;
    default: return NONE;
    }
}

/* 1 if the record is one of elements and its operands are kept. */
static int keep_elements(struct context *c, struct kept *k) {
    const struct step *const s = c->step;
    const enum operands operands = operands_of(s);
    if (operands == NONE) return 0;
    const i64 bytes = s->form == FORM_CONVERT_CT ? s->bytes2 : s->bytes;
    *k = (struct kept){.exactness = exactness_of(s->opcode), .num = operands == ONE ? 1 : 2, .fmt = s->form == FORM_CONVERT_CT ? s->fmt2 : s->fmt};
    k->has_poles = has_poles(s->opcode, k->exactness);
    k->n = operand(c, operands == ONE ? CT_SQRT__N : CT_ADD_VV__N);
    i64 num_second = k->n;
    if (operands == UNIT || operands == UNIT_LOOP) {
        k->u = operand(c, CT_ADD_VU_V__U);
        k->round = k->n;
        num_second = operands == UNIT ? k->u : operand(c, CT_ADD_VU_VLOOP__FULL_U);
        if (operands == UNIT_LOOP) k->n = operand(c, CT_ADD_VU_VLOOP__FULL_N);
        if (k->u < 1 || k->u > UNIT_ELEMENTS || k->round < (k->n > 0)) return 0;
    }
    k->x = keep_bytes(c, operand(c, 1), k->n, bytes, 0);
    if (operands == IMMEDIATE) {
        const u32 imm = (u32)operand(c, CT_ADD_VS__IMM);
        k->scalar = rounded(c, &imm, FORMAT_FP32);
    } else if (operands != ONE) {
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

static int is_exact(enum exactness e, double r, double x, double y) {
    int exponent;
    switch (e) {
    case SUM: case DIFFERENCE: {
        const double z = e == SUM ? y : -y, s = x + z, back = s - x;
        return (x - (s - back)) + (z - back) == 0 && s == r;
    }
    case PRODUCT: return x * y == r;
    case QUOTIENT: return r * y == x;
    case SQUARE: return x * x == r;
    case ROOT: return r * r == x;
    case RECIPROCAL: return r * x == 1;
    case RECIPROCAL_ROOT: return frexp(r, &exponent) == 0.5 && r * r * x == 1;
    case LEAKY: return x > 0 || x * y == r;
    case FUNCTION: return x == 0;
    case FUNCTION_OF_ZERO: return 0;
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
            const double y = second_operand(k, start + i);
            if (s->form == FORM_CONVERT_CT) {
                status |= status_of_conversion(s->fmt, x[i] - y, r[i]);
                continue;
            }
            const int is_pole = k->has_poles && (k->num == 1 ? x[i] : y) == 0;
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
