/* Records that count, find extremes, or take a constant from the chip description. */
#include "core.h"
#include "operations.h"

/* Element i as FP32. */
static float element(const u8 *p, int fmt, i64 i) {
    u16 half;
    float x;
    if (fmt == FORMAT_FP32 || fmt == FORMAT_TF32) {
        memcpy(&x, p + i * 4, sizeof x);
        return x;
    }
    memcpy(&half, p + i * 2, sizeof half);
    return fmt == FORMAT_FP16 ? get_f16(half) : get_bf16(half);
}

static int run_count(struct context *c) {
    const i64 n = operand(c, CT_COUNT__N);
    const u8 *const src = spm_range(c, operand(c, CT_COUNT__SRC), n, c->step->bytes);
    u8 *const dst = src ? spm_range(c, operand(c, CT_COUNT__DST), 1, sizeof(i32)) : NULL;
    if (!dst) return (int)c->tile->fault.kind;
    i32 total = 0;
    for (i64 i = 0; i < n; i++) total += element(src, c->step->fmt, i) != 0;
    memcpy(dst, &total, sizeof total);
    return 0;
}

/* Larger is earlier: NaN, then numbers as their order says, which has -0 below +0. */
static i64 rank_of(float x, int is_least) {
    const i64 bits = bits_f32_i32(x), order = bits < 0 ? bits ^ 0x7FFFFFFF : bits;
    return x != x ? INT64_MAX : is_least ? -order : order;
}

static int run_extreme(struct context *c) {
    const i64 n = operand(c, CT_ARG_MAX__N), bytes = c->step->bytes;
    if (n < 1) return fail(c, FAULT_BAD_DESCRIPTOR, "an extreme of %lld elements", (long long)n);
    const u8 *const src = spm_range(c, operand(c, CT_ARG_MAX__SRC), n, bytes);
    u8 *const dst = src ? spm_range(c, operand(c, CT_ARG_MAX__DST), 1, bytes) : NULL;
    u8 *const index = dst ? spm_range(c, operand(c, CT_ARG_MAX__INDEX), 1, sizeof(i32)) : NULL;
    if (!index) return (int)c->tile->fault.kind;
    i64 best = INT64_MIN;
    i32 place = 0;
    for (i64 i = 0; i < n; i++) {
        const i64 rank = rank_of(element(src, c->step->fmt, i), c->step->opcode == OP_CT_ARG_MIN);
        if (rank <= best) continue;
        best = rank;
        place = (i32)i;
    }
    u32 value = 0;
    memcpy(&value, src + place * bytes, (size_t)bytes);
    memcpy(index, &place, sizeof place);
    memcpy(dst, &value, (size_t)bytes);
    return 0;
}

/* satrelu and leakyrelu: a constant rounded to the format, then kernels of VS and VV forms. */
static int run_scaled(struct context *c) {
    const int fmt = c->step->fmt, is_leaky = c->step->opcode == OP_CT_LEAKY_RELU;
    const double law = is_leaky ? c->machine->leakyrelu_slope : c->machine->satrelu_bound;
    if (law != law) return fail(c, FAULT_UNPUBLISHED, "opcode %d", c->step->opcode);
    struct link v;
    const int fault = resolve_pair(c, &v, operand(c, CT_SAT_RELU__N));
    if (fault) return fault;
    u64 constant = 0;
    convert_elements(&constant, fmt, &law, FORMAT_FP64, 1);
    if (!is_leaky) {
        float_unary_kernel(FN_ct_relu, fmt)(v.dst, v.src[0], v.n);
        float_binary_kernel(FN_ct_min_vv, fmt, 1)(v.dst, v.dst, &constant, v.n);
        return finish_link(&v);
    }
    u8 *const scaled = region_of(c, 1), *const kept = region_of(c, 2);
    float_unary_kernel(FN_ct_relu, fmt)(kept, v.src[0], v.n);
    if (c->step->rounding == ROUND_NEAREST_EVEN) float_binary_kernel(FN_ct_mul_vv, fmt, 1)(scaled, v.src[0], &constant, v.n);
    else scale_directed(c->step, scaled, v.src[0], &constant, v.n);
    for (i64 i = 0; i < v.n; i++) {
        const u8 *const from = element(v.src[0], fmt, i) > 0 ? kept : scaled;
        memmove(v.dst + i * v.dst_bytes, from + i * v.dst_bytes, (size_t)v.dst_bytes);
    }
    return finish_link(&v);
}

int execute_auxiliary(struct context *c) {
    switch ((enum form)c->step->form) {
    case FORM_COUNT: return run_count(c);
    case FORM_EXTREME: return run_extreme(c);
    default: return run_scaled(c);
    }
}
