/* Vector records: operands checked, overlapping sources copied (every source is read before anything is written), then the kernel. */
#include <stdarg.h>
#include <stdio.h>

#include "core.h"


int fail(struct context *c, int kind, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->tile->fault.detail, sizeof c->tile->fault.detail, format, arguments);
    va_end(arguments);
    c->tile->fault.kind = kind;
    return kind;
}

i64 spm_end(struct context *c, i64 address, i64 n, i64 bytes) {
    i64 size, end;
    const i64 limit = c->machine->spm_bytes;
    const int overflow = __builtin_mul_overflow(n, bytes, &size) || __builtin_add_overflow(address, size, &end);
    if (n < 0) {
        fail(c, FAULT_BAD_DESCRIPTOR, "element count %lld", (long long)n);
        return -1;
    }
    if (overflow || address < 0 || end > limit) {
        fail(c, FAULT_OUT_OF_BOUNDS, "SPM [%#llx, +%lld x %lld bytes) outside of [0, %#llx)", (long long)address, (long long)n, (long long)bytes,
             (long long)limit);
        return -1;
    }
    return end;
}

u8 *spm_range(struct context *c, i64 address, i64 n, i64 bytes) {
    const i64 end = spm_end(c, address, n, bytes);
    if (end < 0) return NULL;
    if (!c->only_notes) reach_spm(c->tile, address, end);
    u8 *const start = c->tile->spm + address;
    if (!c->knows_repeats && c->tile->num_repeats) forget_repeats(c->tile, start, end - address);
    if (!c->knows_deferred && c->tile->num_deferred) settle_range(c->tile, start, end - address);
    if (!c->knows_boxes && c->tile->num_boxes) settle_boxes(c->tile, start, end - address);
    return start;
}

u8 *target_range(struct context *c, i64 address, i64 n, i64 bytes) {
    struct tile *const t = c->tile;
    const int knows_deferred = c->knows_deferred, knows_boxes = c->knows_boxes;
    c->knows_deferred = c->knows_boxes = 1;
    u8 *const start = spm_range(c, address, n, bytes);
    c->knows_deferred = knows_deferred, c->knows_boxes = knows_boxes;
    if (start && t->num_boxes) overwrite_boxes(t, start, n * bytes);
    if (start && t->num_deferred && !knows_deferred && !overwrite_loads(t, start, n * bytes)) settle_range(t, start, n * bytes);
    return start;
}

/* Region `region` of the scratch: 0 to 2 for sources, 3 for a result. */
u8 *region_of(struct context *c, int region) { return c->scratch + region * c->machine->spm_bytes; }

static int is_aligned(const u8 *p, i64 bytes) { return ((uintptr_t)p & (uintptr_t)(bytes - 1)) == 0; }

/* `src` itself, or a copy where it is not aligned or writing dst would change what is still to be read. */
const u8 *apart(struct context *c, const u8 *src, i64 n, i64 bytes, const u8 *dst, i64 dst_bytes, int region) {
    const int is_apart = src + n * bytes <= dst || dst + n * dst_bytes <= src || (src == dst && bytes == dst_bytes);
    return is_apart && is_aligned(src, bytes) ? src : memcpy(region_of(c, region), src, (size_t)(n * bytes));
}

static void start_link(struct context *c, struct link *k, i64 n, i64 dst_bytes) {
    *k = (struct link){.step = c->step, .n = n, .dst_bytes = dst_bytes};
}

/* The target first and then the sources, already in bounds: scratch takes the place of what is not aligned or would change. */
static void place_link(struct context *c, struct link *k, u8 *target, const u8 *const *raw) {
    k->target = target;
    k->dst = is_aligned(target, k->dst_bytes) ? target : region_of(c, 3);
    k->is_plain = k->dst == target;
    for (int i = 0; i < k->num; i++) {
        k->src[i] = apart(c, raw[i], k->n, k->src_bytes[i], target, k->dst_bytes, i);
        k->is_plain &= k->src[i] == raw[i];
    }
}

/* dst is operand 0, `num` sources follow it and n follows them; 0 or the fault. */
static int resolve(struct context *c, struct link *k, int num, i64 dst_bytes, i64 first, i64 second, i64 third) {
    const u8 *raw[3];
    start_link(c, k, operand(c, num + 1), dst_bytes);
    k->num = num;
    k->src_bytes[0] = first, k->src_bytes[1] = second, k->src_bytes[2] = third;
    for (int i = 0; i < num; i++) {
        raw[i] = spm_range(c, operand(c, 1 + i), k->n, k->src_bytes[i]);
        if (!raw[i]) return (int)c->tile->fault.kind;
    }
    const int reads_target = c->step->form == FORM_MASK_MOVE;
    u8 *const target = reads_target ? spm_range(c, operand(c, 0), k->n, dst_bytes) : target_range(c, operand(c, 0), k->n, dst_bytes);
    if (!target) return (int)c->tile->fault.kind;
    place_link(c, k, target, raw);
    return 0;
}

/* The same for dst and one source in the record's format. */
int resolve_pair_from(struct context *c, struct link *k, i64 n, int in_place) {
    const u8 *raw = spm_range(c, operand(c, 1), n, c->step->bytes);
    u8 *const target = raw ? target_range(c, operand(c, 0), n, c->step->bytes) : NULL;
    if (!target) return (int)c->tile->fault.kind;
    if (in_place) raw = read_in_place(c->tile, raw, n * c->step->bytes, target, n * c->step->bytes);
    start_link(c, k, n, c->step->bytes);
    k->num = 1;
    k->src_bytes[0] = c->step->bytes;
    place_link(c, k, target, &raw);
    return 0;
}

int resolve_pair(struct context *c, struct link *k, i64 n) { return resolve_pair_from(c, k, n, 0); }

/* An immediate is an f32 rounded to the format first. */
static int resolve_vs(struct context *c, struct link *k) {
    const int fault = resolve_pair(c, k, operand(c, CT_ADD_VS__N));
    const u32 imm = (u32)operand(c, CT_ADD_VS__IMM);
    if (!fault) convert_elements(&k->scalar, c->step->fmt, &imm, FORMAT_FP32, 1);
    return fault;
}

static int resolve_conversion(struct context *c, struct link *k) {
    const i64 zero = operand(c, CT_CONVERT__ZP), seed = operand(c, CT_CONVERT__SEED);
    if (zero != (i8)zero || (zero && c->step->fmt2 != FORMAT_INT8)) return fail(c, FAULT_BAD_DESCRIPTOR, "zero point %lld", (long long)zero);
    const int fault = resolve(c, k, 1, c->step->bytes, c->step->bytes2, 0, 0);
    k->zero = zero, k->seed = (u32)seed;
    return fault;
}

static void apply_conversion(const struct link *k, u8 *dst, const u8 *src, i64 at, i64 n) {
    const struct step *const s = k->step;
    if (k->zero) convert_zero_point(dst, s->fmt, src, k->zero, n);
    else if (s->rounding == ROUND_STOCHASTIC) convert_stochastic(dst, s->fmt, src, s->fmt2, k->seed, at, n);
    else convert_rounded(dst, s->fmt, src, s->fmt2, s->rounding, n);
}

int resolve_link(struct context *c, struct link *k) {
    const i64 bytes = c->step->bytes;
    int fault;
    switch ((enum form)c->step->form) {
    case FORM_UNARY: return resolve(c, k, 1, bytes, bytes, 0, 0);
    case FORM_BINARY: return resolve(c, k, 2, bytes, bytes, bytes, 0);
    case FORM_VS: return resolve_vs(c, k);
    case FORM_UNIT: case FORM_UNIT_LOOP: return resolve_unit(c, k, 0);
    case FORM_CONVERT_CT: return resolve_conversion(c, k);
    case FORM_CONVERT_KC: return resolve(c, k, 1, bytes, c->step->bytes2, 0, 0);
    case FORM_TEST: return resolve(c, k, 1, 1, bytes, 0, 0);
    case FORM_SELECT: return resolve(c, k, 3, bytes, 1, bytes, bytes);
    case FORM_COMPARE:
        fault = resolve(c, k, 2, 1, bytes, bytes, 0);
        k->kernel = operand(c, KC_VEQ__TOTAL) ? c->step->other : c->step->kernel.binary;
        return fault;
    case FORM_MASK_MOVE:
        fault = resolve(c, k, 2, bytes, bytes, c->step->bytes2, 0);
        if (!fault && k->dst != k->target) memcpy(k->dst, k->target, (size_t)(k->n * bytes));
        return fault;
    case FORM_RDMA: case FORM_WDMA: return resolve_dma(c, k);
    default: return -1;
    }
}

/* 1 where a float is neither infinite nor NaN: its exponent is not all ones. */
static void test_finite(u8 *dst, const u8 *src, int fmt, i64 n) {
    const int f = float_index_of(fmt), bytes = format_bytes(fmt);
    const u64 mask = f == FLOAT_F16 ? 0x7C00 : f == FLOAT_BF16 ? 0x7F80 : f == FLOAT_F64 ? UINT64_C(0x7FF) << 52 : 0x7F800000;
    for (i64 i = 0; i < n; i++) {
        u64 bits = 0;
        memcpy(&bits, src + i * bytes, (size_t)bytes);
        dst[i] = (bits & mask) != mask;
    }
}

void apply_link(const struct link *k, i64 at, i64 n) {
    const struct step *const s = k->step;
    u8 *const dst = k->dst + at * k->dst_bytes;
    const u8 *const a = k->src[0] + turned(at, k->turn[0], k->src_bytes[0]);
    const u8 *const b = k->num > 1 ? k->src[1] + turned(at, k->turn[1], k->src_bytes[1]) : NULL;
    if (s->is_directed) {
        apply_directed(k, dst, a, b, at, n);
        return;
    }
    switch ((enum form)s->form) {
    case FORM_UNARY: s->kernel.unary(dst, a, n); return;
    case FORM_BINARY:
        if (k->pair) k->pair(dst, a, b, k->third + turned(at, k->third_turn, k->dst_bytes), n);
        else s->kernel.binary(dst, a, b, n);
        return;
    case FORM_COMPARE: k->kernel(dst, a, b, n); return;
    case FORM_VS: s->kernel.binary(dst, a, &k->scalar, n); return;
    case FORM_UNIT: case FORM_UNIT_LOOP: apply_unit(k, dst, a, at, n); return;
    case FORM_CONVERT_CT: apply_conversion(k, dst, a, at, n); return;
    case FORM_CONVERT_KC: convert_elements(dst, s->fmt, a, s->fmt2, n); return;
    case FORM_TEST: test_finite(dst, a, s->fmt, n); return;
    case FORM_MASK_MOVE:
        if (s->fmt2 == FORMAT_INT8) select_elements(dst, b, a, dst, s->bytes, n);
        else move_masked(dst, a, b, s->bytes, n);
        return;
    case FORM_SELECT: select_elements(dst, a, b, k->src[2] + turned(at, k->turn[2], k->src_bytes[2]), s->bytes, n); return;
    case FORM_WDMA:
        if (k->is_streamed) copy_streamed(dst, a, n * k->dst_bytes);
        else memcpy(dst, a, (size_t)(n * k->dst_bytes));
        return;
    default: memcpy(dst, a, (size_t)(n * k->dst_bytes));
    }
}

int finish_link(const struct link *k) {
    if (k->dst != k->target) memcpy(k->target, k->dst, (size_t)(k->n * k->dst_bytes));
    return 0;
}

static int run_reduce_precision(struct context *c) {
    const i64 n = operand(c, KC_VREDUCE_PRECISION__N);
    const i64 exponent = operand(c, KC_VREDUCE_PRECISION__EXPONENT), mantissa = operand(c, KC_VREDUCE_PRECISION__MANTISSA);
    if (exponent < 1 || exponent > 11 || mantissa < 0) {
        return fail(c, FAULT_BAD_DESCRIPTOR, "precision of %lld and %lld bits", (long long)exponent, (long long)mantissa);
    }
    struct link v;
    const int fault = resolve_pair(c, &v, n);
    if (fault) return fault;
    memmove(v.dst, v.src[0], (size_t)(n * v.dst_bytes));
    reduce_precision(v.dst, c->step->fmt, exponent, mantissa, n);
    return finish_link(&v);
}

int check_bounds(struct context *c, const struct bound *bounds, int num) {
    for (int k = 0; k < num; k++) {
        const i64 value = operand(c, k);
        if (value < bounds[k].least || value > bounds[k].most) {
            return fail(c, FAULT_BAD_DESCRIPTOR, "%s = %lld is not in %lld .. %lld", bounds[k].name, (long long)value, (long long)bounds[k].least,
                        (long long)bounds[k].most);
        }
    }
    return 0;
}

int execute(struct context *c) {
    switch ((enum form)c->step->form) {
    case FORM_REDUCE_PRECISION: return run_reduce_precision(c);
    case FORM_RDMA: case FORM_WDMA: case FORM_TDMA: case FORM_MEMSET: case FORM_IOTA: case FORM_GATHER: case FORM_SCATTER:
        return execute_move(c);
    case FORM_RELATION_BITS: case FORM_BITS: case FORM_BIT_TO_FLOAT: return execute_bits(c);
    case FORM_COUNT: case FORM_EXTREME: case FORM_SCALED: return execute_auxiliary(c);
    case FORM_UNPUBLISHED: return fail(c, FAULT_UNPUBLISHED, "opcode %d", c->step->opcode);
    case FORM_REMOTE_SEND: case FORM_REMOTE_GATHER: return execute_remote(c);
    case FORM_GEMM: return execute_gemm(c);
    case FORM_CONV: return execute_conv(c);
    case FORM_POOL: case FORM_POOL_INDEXED: case FORM_UNPOOL: case FORM_UNPOOL_INDEXED: return execute_pool(c);
    case FORM_TENSOR_MOVE: return execute_tdma(c);
    case FORM_REDUCE: return execute_reduce(c);
    default: break;
    }
    struct link link;
    c->num_units = 0;
    const int is_unit = c->step->form == FORM_UNIT || c->step->form == FORM_UNIT_LOOP;
    const int fault = is_unit ? resolve_unit(c, &link, 1) : resolve_link(c, &link);
    if (fault) return fault;
    apply_link(&link, 0, link.n);
    return finish_link(&link);
}
