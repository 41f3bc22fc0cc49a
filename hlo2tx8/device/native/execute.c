/* Vector records: operands checked, overlapping sources copied (every source is read before anything is written), then the kernel. */
#include <stdarg.h>
#include <stdio.h>

#include "core.h"

#define UNIT_ELEMENTS 64
#define PATTERN_ELEMENTS 4096

int fail(struct context *c, int kind, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->tile->fault.detail, sizeof c->tile->fault.detail, format, arguments);
    va_end(arguments);
    c->tile->fault.kind = kind;
    return kind;
}

u8 *spm_range(struct context *c, i64 address, i64 n, i64 bytes) {
    i64 size, end;
    const i64 limit = c->machine->spm_bytes;
    const int overflow = __builtin_mul_overflow(n, bytes, &size) || __builtin_add_overflow(address, size, &end);
    if (n < 0) {
        fail(c, FAULT_BAD_DESCRIPTOR, "element count %lld", (long long)n);
        return NULL;
    }
    if (overflow || address < 0 || end > limit) {
        fail(c, FAULT_OUT_OF_BOUNDS, "SPM [%#llx, +%lld x %lld bytes) outside of [0, %#llx)", (long long)address, (long long)n, (long long)bytes,
             (long long)limit);
        return NULL;
    }
    return c->tile->spm + address;
}

/* Region `region` of the scratch: 0 to 2 for sources, 3 for a result. */
static u8 *region_of(struct context *c, int region) { return c->scratch + region * c->machine->spm_bytes; }

static int is_aligned(const u8 *p, i64 bytes) { return ((uintptr_t)p & (uintptr_t)(bytes - 1)) == 0; }

/* `src` itself, or a copy where it is not aligned or writing dst would change what is still to be read. */
static const u8 *apart(struct context *c, const u8 *src, i64 n, i64 bytes, const u8 *dst, i64 dst_bytes, int region) {
    const int is_apart = src + n * bytes <= dst || dst + n * dst_bytes <= src || (src == dst && bytes == dst_bytes);
    return is_apart && is_aligned(src, bytes) ? src : memcpy(region_of(c, region), src, (size_t)(n * bytes));
}

/* Operands of n elements: `dst` is `target`, the place in SPM, or scratch that `finish` copies there when that is not aligned. */
struct vectors {
    u8 *target, *dst;
    const u8 *src[3];
    i64 n, dst_bytes;
};

/* dst is operand 0, `num` sources follow it and n follows them; 0 or the fault. */
static int resolve(struct context *c, struct vectors *v, int num, i64 dst_bytes, const i64 *src_bytes) {
    const u8 *raw[3];
    v->n = operand(c, num + 1);
    v->dst_bytes = dst_bytes;
    for (int i = 0; i < num; i++) {
        raw[i] = spm_range(c, operand(c, 1 + i), v->n, src_bytes[i]);
        if (!raw[i]) return (int)c->tile->fault.kind;
    }
    v->target = spm_range(c, operand(c, 0), v->n, dst_bytes);
    if (!v->target) return (int)c->tile->fault.kind;
    v->dst = is_aligned(v->target, dst_bytes) ? v->target : region_of(c, 3);
    for (int i = 0; i < num; i++) v->src[i] = apart(c, raw[i], v->n, src_bytes[i], v->target, dst_bytes, i);
    return 0;
}

static int finish(const struct vectors *v) {
    if (v->dst != v->target) memcpy(v->target, v->dst, (size_t)(v->n * v->dst_bytes));
    return 0;
}

/* The same for dst and one source of `n` elements in the record's format. */
static int resolve_pair(struct context *c, struct vectors *v, i64 n) {
    const i64 bytes = c->step->bytes;
    const u8 *const raw = spm_range(c, operand(c, 1), n, bytes);
    v->n = n;
    v->dst_bytes = bytes;
    v->target = raw ? spm_range(c, operand(c, 0), n, bytes) : NULL;
    if (!v->target) return (int)c->tile->fault.kind;
    v->dst = is_aligned(v->target, bytes) ? v->target : region_of(c, 3);
    v->src[0] = apart(c, raw, n, bytes, v->target, bytes, 0);
    return 0;
}

static int run_unary(struct context *c) {
    struct vectors v;
    const i64 bytes = c->step->bytes;
    const int fault = resolve(c, &v, 1, bytes, &bytes);
    if (fault) return fault;
    c->step->kernel.unary(v.dst, v.src[0], v.n);
    return finish(&v);
}

static int run_binary(struct context *c) {
    struct vectors v;
    const i64 bytes[] = {c->step->bytes, c->step->bytes};
    const int fault = resolve(c, &v, 2, bytes[0], bytes);
    if (fault) return fault;
    c->step->kernel.binary(v.dst, v.src[0], v.src[1], v.n);
    return finish(&v);
}

static int run_compare(struct context *c) {
    struct vectors v;
    const i64 bytes[] = {c->step->bytes, c->step->bytes};
    const int fault = resolve(c, &v, 2, 1, bytes);
    if (fault) return fault;
    (operand(c, KC_VEQ__TOTAL) ? c->step->total : c->step->kernel.binary)(v.dst, v.src[0], v.src[1], v.n);
    return finish(&v);
}

static int run_test(struct context *c) {
    struct vectors v;
    const i64 bytes = c->step->bytes;
    const int fault = resolve(c, &v, 1, 1, &bytes);
    if (fault) return fault;
    const u8 *const p = v.src[0];
    static const u64 exponents[] = {0, 0x7C00, 0x7F80, 0x7F800000, UINT64_C(0x7FF0000000000000)};
    const int f = float_index_of(c->step->fmt);
    const u64 mask = f == FLOAT_F16 ? exponents[1] : f == FLOAT_BF16 ? exponents[2] : f == FLOAT_F64 ? exponents[4] : exponents[3];
    for (i64 i = 0; i < v.n; i++) {
        u64 bits = 0;
        memcpy(&bits, p + i * bytes, (size_t)bytes);
        v.dst[i] = (bits & mask) != mask;
    }
    return 0;
}

/* An immediate is an f32 rounded to the format first. */
static int run_vs(struct context *c) {
    struct vectors v;
    const int fault = resolve_pair(c, &v, operand(c, CT_ADD_VS__N));
    if (fault) return fault;
    const u32 imm = (u32)operand(c, CT_ADD_VS__IMM);
    u64 scalar = 0;
    convert_elements(&scalar, c->step->fmt, &imm, FORMAT_FP32, 1);
    c->step->kernel.binary(v.dst, v.src[0], &scalar, v.n);
    return finish(&v);
}

/* `u` elements repeated into region 1 of the scratch; the number of elements there, a multiple of u. */
static i64 spread(struct context *c, const u8 *unit, i64 u, i64 n) {
    u8 *const pattern = region_of(c, 1);
    const i64 bytes = u * c->step->bytes, most = n < PATTERN_ELEMENTS ? n : PATTERN_ELEMENTS;
    i64 turns = (most + u - 1) / u;
    if (turns * u > PATTERN_ELEMENTS) turns--;
    for (i64 i = 0; i < turns; i++) memcpy(pattern + i * bytes, unit, (size_t)bytes);
    return turns * u;
}

static void apply_unit(struct context *c, u8 *dst, const u8 *a, const u8 *unit, i64 n, i64 u) {
    const i64 bytes = c->step->bytes, length = spread(c, unit, u, n);
    for (i64 i = 0; i < n; i += length) {
        c->step->kernel.binary(dst + i * bytes, a + i * bytes, region_of(c, 1), n - i < length ? n - i : length);
    }
}

static int run_unit(struct context *c) {
    struct vectors v;
    const i64 n = operand(c, CT_ADD_VU_V__N), u = operand(c, CT_ADD_VU_V__U);
    if (u < 1 || u > UNIT_ELEMENTS) return fail(c, FAULT_BAD_DESCRIPTOR, "unit of %lld elements", (long long)u);
    const u8 *const unit = spm_range(c, operand(c, CT_ADD_VU_V__UNIT), u, c->step->bytes);
    const int fault = unit ? resolve_pair(c, &v, n) : (int)c->tile->fault.kind;
    if (fault) return fault;
    if (n) apply_unit(c, v.dst, v.src[0], unit, n, u);
    return finish(&v);
}

static int run_unit_loop(struct context *c) {
    struct vectors v;
    const i64 bytes = c->step->bytes, n = operand(c, CT_ADD_VU_VLOOP__N), u = operand(c, CT_ADD_VU_VLOOP__U);
    const i64 full_n = operand(c, CT_ADD_VU_VLOOP__FULL_N), full_u = operand(c, CT_ADD_VU_VLOOP__FULL_U);
    if (u != UNIT_ELEMENTS || n <= 0 || (__int128)full_n * u != (__int128)full_u * n || full_n % n) {
        return fail(c, FAULT_BAD_DESCRIPTOR, "VuV_loop of %lld/%lld in %lld/%lld", (long long)n, (long long)u, (long long)full_n, (long long)full_u);
    }
    const u8 *units = spm_range(c, operand(c, CT_ADD_VU_VLOOP__UNIT), full_u, bytes);
    const int fault = units ? resolve_pair(c, &v, full_n) : (int)c->tile->fault.kind;
    if (fault) return fault;
    units = memcpy(region_of(c, 2), units, (size_t)(full_u * bytes));
    for (i64 r = 0; r < full_n / n; r++) {
        apply_unit(c, v.dst + r * n * bytes, v.src[0] + r * n * bytes, units + r * u * bytes, n, u);
    }
    return finish(&v);
}

static int run_convert(struct context *c, int rounds) {
    struct vectors v;
    const struct step *const s = c->step;
    const i64 bytes = s->bytes2;
    const int fault = resolve(c, &v, 1, s->bytes, &bytes);
    if (fault) return fault;
    if (rounds && float_index_of(s->fmt) < 0 && float_index_of(s->fmt2) < 0) {
        return fail(c, FAULT_BAD_DESCRIPTOR, "CT converts no integer to an integer");
    }
    if (rounds) convert_rounded(v.dst, s->fmt, v.src[0], s->fmt2, s->rounding, v.n);
    else convert_elements(v.dst, s->fmt, v.src[0], s->fmt2, v.n);
    return finish(&v);
}

static int run_mask_move(struct context *c) {
    struct vectors v;
    const i64 bytes[] = {c->step->bytes, 1};
    const int fault = resolve(c, &v, 2, bytes[0], bytes);
    if (fault) return fault;
    if (v.dst != v.target) memcpy(v.dst, v.target, (size_t)(v.n * v.dst_bytes));
    select_elements(v.dst, v.src[1], v.src[0], v.dst, c->step->bytes, v.n);
    return finish(&v);
}

static int run_select(struct context *c) {
    struct vectors v;
    const i64 bytes[] = {1, c->step->bytes, c->step->bytes};
    const int fault = resolve(c, &v, 3, bytes[1], bytes);
    if (fault) return fault;
    select_elements(v.dst, v.src[0], v.src[1], v.src[2], c->step->bytes, v.n);
    return finish(&v);
}

static int run_reduce_precision(struct context *c) {
    const i64 n = operand(c, KC_VREDUCE_PRECISION__N);
    const i64 exponent = operand(c, KC_VREDUCE_PRECISION__EXPONENT), mantissa = operand(c, KC_VREDUCE_PRECISION__MANTISSA);
    if (exponent < 1 || exponent > 11 || mantissa < 0) {
        return fail(c, FAULT_BAD_DESCRIPTOR, "precision of %lld and %lld bits", (long long)exponent, (long long)mantissa);
    }
    struct vectors v;
    const int fault = resolve_pair(c, &v, n);
    if (fault) return fault;
    memmove(v.dst, v.src[0], (size_t)(n * v.dst_bytes));
    reduce_precision(v.dst, c->step->fmt, exponent, mantissa, n);
    return finish(&v);
}

int execute(struct context *c) {
    switch ((enum form)c->step->form) {
    case FORM_UNARY: return run_unary(c);
    case FORM_BINARY: return run_binary(c);
    case FORM_VS: return run_vs(c);
    case FORM_UNIT: return run_unit(c);
    case FORM_UNIT_LOOP: return run_unit_loop(c);
    case FORM_CONVERT_CT: return run_convert(c, 1);
    case FORM_CONVERT_KC: return run_convert(c, 0);
    case FORM_MASK_MOVE: return run_mask_move(c);
    case FORM_TEST: return run_test(c);
    case FORM_COMPARE: return run_compare(c);
    case FORM_SELECT: return run_select(c);
    case FORM_REDUCE_PRECISION: return run_reduce_precision(c);
    default: return execute_move(c);
    }
}
