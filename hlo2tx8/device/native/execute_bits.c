/* Records on packed bools: element i is bit i mod 8 of byte i div 8. */
#include "core.h"
#include "operations.h"

#define BITS 8

static int bad_count(struct context *c, i64 n, i64 u) {
    return fail(c, FAULT_BAD_DESCRIPTOR, "%lld packed bools, a unit of %lld", (long long)n, (long long)u);
}

/* Counts of a VuV_loop: n and u of a round, full_n and full_u of all; 1 if sound. */
static int is_loop(i64 n, i64 u, i64 full_n, i64 full_u) {
    return u == UNIT_ELEMENTS && n > 0 && full_n >= 0 && (__int128)full_n * u == (__int128)full_u * n && full_n % n == 0;
}

/* n numbers from region 3 of the scratch, not zero or zero, to bits at dst. */
static void pack(struct context *c, u8 *dst, i64 n) {
    const u8 *const p = region_of(c, 3);
#define PACK(T) \
    for (i64 i = 0; i < n / BITS; i++) { \
        u32 byte = 0; \
        for (int k = 0; k < BITS; k++) byte |= (u32)(((const T *)(const void *)p)[i * BITS + k] != 0) << k; \
        dst[i] = (u8)byte; \
    }
    if (c->step->bytes == 2) {
        PACK(u16)
    } else {
        PACK(u32)
    }
}

/* The relation as numbers 1 and 0 in region 3 of the scratch, then packed. */
static int run_relation(struct context *c) {
    const enum shape shape = c->step->fact->shape;
    const int has_unit = shape == SHAPE_UNIT || shape == SHAPE_UNIT_LOOP;
    const i64 bytes = c->step->bytes, n = operand(c, CT_BITS_EQ_VV__N), u = has_unit ? operand(c, CT_BITS_EQ_VU_V__U) : 0;
    const i64 full_n = shape == SHAPE_UNIT_LOOP ? operand(c, CT_BITS_EQ_VU_VLOOP__FULL_N) : n;
    const i64 full_u = shape == SHAPE_UNIT_LOOP ? operand(c, CT_BITS_EQ_VU_VLOOP__FULL_U) : u;
    if (n < 0 || n % BITS || (shape == SHAPE_UNIT && (u < 1 || u > UNIT_ELEMENTS)) || (shape == SHAPE_UNIT_LOOP && !is_loop(n, u, full_n, full_u))) {
        return bad_count(c, n, u);
    }
    const u8 *const raw = spm_range(c, operand(c, CT_BITS_EQ_VV__A), full_n, bytes);
    u8 *const dst = raw ? spm_range(c, operand(c, CT_BITS_EQ_VV__DST), full_n / BITS, 1) : NULL;
    if (!dst) return (int)c->tile->fault.kind;
    u8 *const out = region_of(c, 3);
    const u8 *const a = apart(c, raw, full_n, bytes, out, bytes, 0);
    if (shape == SHAPE_IMMEDIATE) {
        const u32 imm = (u32)operand(c, CT_BITS_EQ_VS__IMM);
        u64 scalar = 0;
        convert_elements(&scalar, c->step->fmt, &imm, FORMAT_FP32, 1);
        c->step->kernel.binary(out, a, &scalar, n);
    } else {
        const i64 count = shape == SHAPE_TWO ? n : full_u;
        const u8 *const second = spm_range(c, operand(c, CT_BITS_EQ_VV__B), count, bytes);
        if (!second) return (int)c->tile->fault.kind;
        const u8 *const b = apart(c, second, count, bytes, out, bytes, 2);
        if (shape == SHAPE_TWO) c->step->kernel.binary(out, a, b, n);
        if (has_unit) {
            struct link k = {.step = c->step};
            c->num_units = 0;
            use_unit(c, &k, b, u, n);
            apply_unit(&k, out, a, 0, full_n);
        }
    }
    pack(c, dst, full_n);
    return 0;
}

/* Bytes of bits: `unit` bytes of b for each round of `n` bytes of a, repeated in it. */
static void combine(int function, u8 *out, const u8 *a, const u8 *b, i64 n, i64 unit, i64 rounds) {
#define COMBINE_ONE(name) \
    case FN_##name: \
        for (i64 i = 0; i < n * rounds; i++) out[i] = name##_u8(a[i]); \
        return;
#define COMBINE_TWO(name) \
    case FN_##name: \
        for (i64 r = 0; r < rounds; r++, out += n, a += n, b += unit) \
            for (i64 i = 0; i < n; i++) out[i] = name##_u8(a[i], b[i % unit]); \
        return;
    switch ((enum float_function)function) {
        PACKED_ONE(COMBINE_ONE)
        PACKED_TWO(COMBINE_TWO)
    default: return;
    }
}

static int run_logic(struct context *c) {
    const enum shape shape = c->step->fact->shape;
    const int is_one = shape == SHAPE_ONE, has_unit = shape == SHAPE_UNIT || shape == SHAPE_UNIT_LOOP;
    const i64 n = operand(c, is_one ? CT_BITS_NOT__N : CT_BITS_AND_BINARY__N), u = has_unit ? operand(c, CT_BITS_AND_UNIT__U) : 0;
    const i64 full_n = shape == SHAPE_UNIT_LOOP ? operand(c, CT_BITS_AND_UNIT_LOOP__FULL_N) : n;
    const i64 full_u = shape == SHAPE_UNIT_LOOP ? operand(c, CT_BITS_AND_UNIT_LOOP__FULL_U) : shape == SHAPE_UNIT ? u : n;
    if (n < 0 || n % BITS || (shape == SHAPE_UNIT && (u < BITS || u > UNIT_ELEMENTS || u % BITS)) || (shape == SHAPE_UNIT_LOOP && !is_loop(n, u, full_n, full_u))) {
        return bad_count(c, n, u);
    }
    const u8 *const a = spm_range(c, operand(c, 1), full_n / BITS, 1);
    const u8 *const b = a && !is_one ? spm_range(c, operand(c, 2), full_u / BITS, 1) : a;
    u8 *const dst = b ? spm_range(c, operand(c, 0), full_n / BITS, 1) : NULL;
    if (!dst) return (int)c->tile->fault.kind;
    u8 *const out = region_of(c, 3);
    if (full_n) combine(c->step->fact->function, out, a, b, n / BITS, has_unit ? u / BITS : n / BITS, full_n / n);
    memcpy(dst, out, (size_t)(full_n / BITS));
    return 0;
}

static int run_bit_to_float(struct context *c) {
    const i64 bytes = c->step->bytes, n = operand(c, CT_BIT_TO_FLOAT__N);
    if (n < 0 || n % BITS) return bad_count(c, n, 0);
    const u8 *const src = spm_range(c, operand(c, CT_BIT_TO_FLOAT__SRC), n / BITS, 1);
    u8 *const dst = src ? spm_range(c, operand(c, CT_BIT_TO_FLOAT__DST), n, bytes) : NULL;
    if (!dst) return (int)c->tile->fault.kind;
    const u32 one = c->step->fmt == FORMAT_FP16 ? 0x3C00 : c->step->fmt == FORMAT_BF16 ? 0x3F80 : 0x3F800000, zero = 0;
    const u8 *const bits = memcpy(region_of(c, 0), src, (size_t)(n / BITS));
    for (i64 i = 0; i < n; i++) memcpy(dst + i * bytes, bits[i / BITS] >> i % BITS & 1 ? &one : &zero, (size_t)bytes);
    return 0;
}

int execute_bits(struct context *c) {
    switch ((enum form)c->step->form) {
    case FORM_RELATION_BITS: return run_relation(c);
    case FORM_BITS: return run_logic(c);
    default: return run_bit_to_float(c);
    }
}
