/* Records made ready to run: every opcode, format, register and block is checked once, before any tile starts. */
#include <stdarg.h>
#include <stdio.h>

#include "core.h"

static int refuse(struct tx8_fault *fault, i64 record, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int refuse(struct tx8_fault *fault, i64 record, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->detail, sizeof fault->detail, format, arguments);
    va_end(arguments);
    fault->kind = FAULT_ILLEGAL_OPCODE;
    fault->record = record;
    return FAULT_ILLEGAL_OPCODE;
}

static int is_kernel_core_format(int fmt) {
    return format_bytes(fmt) && fmt != FORMAT_TF32 && fmt != FORMAT_BOOL && fmt != FORMAT_RAW8 && fmt != FORMAT_RAW128;
}

static int is_conversion(int fmt, int fmt2, int rounding) {
    static const u32 nearest[] = CT_CONVERT_NEAREST_EVEN, directed[] = CT_CONVERT_TOWARD_ZERO;
    return (rounding == ROUND_NEAREST_EVEN ? nearest : directed)[fmt2] >> fmt & 1;
}

static int prepare_ct(struct step *s) {
    const int op = s->opcode;
    if (op == OP_CT_CONVERT) {
        s->form = FORM_CONVERT_CT;
        return is_conversion(s->fmt, s->fmt2, s->rounding);
    }
    if (float_index_of(s->fmt) < 0 || s->fmt == FORMAT_FP64) return 0;
    if (op >= OP_CT_REDUCE_SUM && op <= OP_CT_REDUCE_MIN) {
        s->form = FORM_REDUCE;
        return 1;
    }
    if ((op >= OP_CT_POOL_MAX && op <= OP_CT_POOL_MIN_INDEXED) || (op >= OP_CT_UNPOOL_SUM && op <= OP_CT_UNPOOL_INDEXED)) {
        s->form = FORM_POOL;
        return 1;
    }
    if (op == OP_CT_MASK_MOVE) {
        s->form = FORM_MASK_MOVE;
        return s->fmt2 == FORMAT_INT8 || s->fmt2 == s->fmt;
    }
    if ((s->kernel.unary = float_unary_kernel(op, s->fmt)) || (s->kernel.unary = function_kernel(op, s->fmt))) {
        s->form = FORM_UNARY;
        return 1;
    }
    static const u8 forms[] = {FORM_BINARY, FORM_VS, FORM_UNIT, FORM_UNIT_LOOP};
    s->form = forms[op & 3];
    s->kernel.binary = float_binary_kernel(op, s->fmt, s->form == FORM_VS);
    s->other = float_unit_kernel(op, s->fmt);
    return s->kernel.binary != NULL;
}

/* A function of floats on the kernel core: those of floats only sit between floor and cbrt. */
static int prepare_kernel_core(struct step *s) {
    const int op = s->opcode, is_float = float_index_of(s->fmt) >= 0;
    const int movable = is_kernel_core_format(s->fmt) || s->fmt == FORMAT_RAW8 || s->fmt == FORMAT_RAW128;
    if (op == OP_KC_VGATHER || op == OP_KC_VSCATTER || op == OP_KC_VSELECT) {
        s->form = op == OP_KC_VGATHER ? FORM_GATHER : op == OP_KC_VSCATTER ? FORM_SCATTER : FORM_SELECT;
        return movable;
    }
    if (!is_kernel_core_format(s->fmt)) return 0;
    switch (op) {
    case OP_KC_VCONVERT: s->form = FORM_CONVERT_KC; return is_kernel_core_format(s->fmt2);
    case OP_KC_VIOTA: s->form = FORM_IOTA; return s->fmt != FORMAT_PRED;
    case OP_KC_VREDUCE_PRECISION: s->form = FORM_REDUCE_PRECISION; return is_float;
    case OP_KC_VIS_FINITE: s->form = FORM_TEST; return is_float;
    default: break;
    }
    if (op >= OP_KC_VEQ && op <= OP_KC_VLT) {
        s->form = FORM_COMPARE;
        s->kernel.binary = kernel_core_compare(op, s->fmt, 0);
        s->other = kernel_core_compare(op, s->fmt, 1);
        return s->kernel.binary != NULL;
    }
    if (op >= OP_KC_VADD && op <= OP_KC_VNEXT_AFTER) {
        s->form = FORM_BINARY;
        s->kernel.binary = is_float ? kernel_core_float_binary(op, s->fmt) : integer_binary_kernel(op, s->fmt);
        const int on_bits = op >= OP_KC_VSHIFT_LEFT && op <= OP_KC_VSHIFT_RIGHT_LOGICAL;
        return s->kernel.binary != NULL && !(on_bits && s->fmt == FORMAT_PRED);
    }
    s->form = FORM_UNARY;
    if (is_float) {
        s->kernel.unary = float_unary_kernel(op, s->fmt);
        if (!s->kernel.unary) s->kernel.unary = function_kernel(op, s->fmt);
        return s->kernel.unary != NULL;
    }
    s->kernel.unary = kernel_core_unary(op, s->fmt);
    const int counts = op == OP_KC_VPOP_COUNT || op == OP_KC_VCOUNT_LEADING_ZEROS;
    return s->kernel.unary != NULL && !(counts && s->fmt == FORMAT_PRED);
}

/* Results are in the operands' format or that of partial sums; INT8 also gives FP16. Quantised ones are INT8. */
static int prepare_product(struct step *s, enum form form, int is_quantised) {
    static const u32 results[] = NE_GEMM_RESULTS;
    s->form = (u8)form;
    return is_quantised ? s->fmt == FORMAT_INT8 && s->fmt2 == FORMAT_INT8 : results[s->fmt2] >> s->fmt & 1;
}

static int prepare_load_scalar(struct step *s) {
    s->form = FORM_LOAD_SCALAR;
    return s->fmt != FORMAT_UINT64 && float_index_of(s->fmt) < 0 && is_kernel_core_format(s->fmt);
}

/* 1 if opcode and formats go together. */
static int choose(struct step *s) {
    if (s->rounding != ROUND_NEAREST_EVEN && s->opcode != OP_CT_CONVERT) return 0;
    switch (s->opcode) {
    case OP_KC_HALT: s->form = FORM_HALT; return 1;
    case OP_KC_LOOP: s->form = FORM_LOOP; return 1;
    case OP_KC_END: s->form = FORM_END; return 1;
    case OP_KC_IF: s->form = FORM_IF; return 1;
    case OP_KC_EXIT: s->form = FORM_EXIT; return 1;
    case OP_KC_END_IF: s->form = FORM_NOTHING; return 1;
    case OP_KC_WAIT: s->form = FORM_WAIT; return 1;
    case OP_KC_BARRIER: s->form = FORM_BARRIER; return 1;
    case OP_KC_AFFINE: s->form = FORM_AFFINE; return 1;
    case OP_KC_FLOOR_DIV: case OP_KC_MOD: case OP_KC_MIN: case OP_KC_MAX: case OP_KC_MUL: case OP_KC_LESS:
        s->form = FORM_SCALAR;
        return 1;
    case OP_KC_LOAD_SCALAR: return prepare_load_scalar(s);
    case OP_RDMA: s->form = FORM_RDMA; return 1;
    case OP_WDMA: s->form = FORM_WDMA; return 1;
    case OP_TDMA_GATHER_SCATTER: s->form = FORM_TDMA; return 1;
    case OP_TDMA_MEMSET: s->form = FORM_MEMSET; return 1;
    case OP_NE_GEMM: return prepare_product(s, FORM_GEMM, 0);
    case OP_NE_GEMM_QUANTISED: return prepare_product(s, FORM_GEMM, 1);
    case OP_NE_CONV: case OP_NE_DEPTHWISE: case OP_NE_CONV_BACKWARD_IMAGE: case OP_NE_CONV_BACKWARD_WEIGHT:
        return prepare_product(s, FORM_CONV, 0);
    case OP_NE_CONV_QUANTISED: case OP_NE_DEPTHWISE_QUANTISED: return prepare_product(s, FORM_CONV, 1);
    case OP_DTE_UNICAST: case OP_DTE_MULTICAST: s->form = FORM_REMOTE_SEND; return 1;
    case OP_DTE_GATHER: s->form = FORM_REMOTE_GATHER; return 1;
    default: break;
    }
    if (s->opcode >= OP_CT_BITS_EQ_VV) return prepare_auxiliary(s);
    if (s->opcode < OP_KC_VNEG) return prepare_ct(s);
    return s->opcode < OP_KC_HALT ? prepare_kernel_core(s) : 0;
}

/* How many products of an affine record there are before only ones with a factor 0. */
static i64 count_products(const u64 *record) {
    i64 num = 0;
    for (int k = KC_AFFINE__R1; k <= KC_AFFINE__R4; k += 2) {
        const u64 *const factors = record + HEADER_WORDS + k;
        const u64 is_register = record[1] >> k & 3;
        if ((factors[0] || is_register & 1) && (factors[1] || is_register & 2)) num = (k - KC_AFFINE__R1) / 2 + 1;
    }
    return num;
}

static int writes_register(const struct step *s) {
    return s->form == FORM_LOOP || s->form == FORM_AFFINE || s->form == FORM_SCALAR || s->form == FORM_LOAD_SCALAR;
}

/* May a chain take this record? Vector links, and between them what only computes addresses. */
static int is_vector_link(const struct step *s) {
    switch ((enum form)s->form) {
    case FORM_UNARY: case FORM_BINARY: case FORM_VS: case FORM_UNIT: case FORM_UNIT_LOOP: case FORM_CONVERT_CT: case FORM_CONVERT_KC: case FORM_MASK_MOVE:
    case FORM_TEST: case FORM_COMPARE: case FORM_SELECT: case FORM_RDMA: case FORM_WDMA: return 1;
    default: return 0;
    }
}

static void find_chains(struct machine *m) {
    int length = 0;
    for (i64 i = m->num_records - 1; i >= 0; i--) {
        struct step *const s = m->steps + i;
        const int is_link = is_vector_link(s);
        const int is_between = s->form == FORM_AFFINE || s->form == FORM_NOTHING;
        length = s->form == FORM_REDUCE ? 1 : is_link || (is_between && s->opcode != OP_KC_END_IF) ? length + 1 : 0; /* a reduction ends one */
        s->chain = is_link ? length : 0;
    }
}

/* A program's last barrier if tiles only halt behind it. */
static i64 find_final_barrier(const struct machine *m) {
    i64 at = m->num_records - 1;
    while (at >= 0 && (m->steps[at].form == FORM_NOTHING || m->steps[at].form == FORM_HALT)) at--;
    return at >= 0 && m->steps[at].form == FORM_BARRIER ? at : m->num_records;
}

static void note_store(struct machine *m, const u64 *record) {
    const u64 slot = record[HEADER_WORDS + WDMA__SLOT];
    if (record[1] >> WDMA__SLOT & 1) memset(m->stores, 1, (size_t)m->num_slots);
    else if (slot < (u64)m->num_slots) m->stores[slot] = 1;
}

int prepare(struct machine *m, struct tx8_fault *fault) {
    i64 open[MAX_DEPTH], exits[MAX_DEPTH]; /* the last exit of each open block, from which `partner` leads to the one before; -1: none */
    int depth = 0;
    m->is_linked = m->has_gemm = 0;
    for (i64 i = 0; i < m->num_records; i++) {
        const u64 *const record = m->code + i * RECORD_WORDS;
        struct step *const s = m->steps + i;
        s->opcode = (u16)record[0];
        s->fmt = (u8)(record[0] >> 16);
        s->fmt2 = (u8)(record[0] >> 24);
        s->rounding = (u8)(record[0] >> 32);
        s->bytes = format_bytes(s->fmt);
        s->bytes2 = format_bytes(s->fmt2);
        if (!s->bytes || !s->bytes2 || s->rounding > ROUND_STOCHASTIC) return refuse(fault, i, "record %lld: no such format", (long long)i);
        if (!choose(s)) {
            return refuse(fault, i, "record %lld: opcode %d with format %d, source format %d, rounding %d is no instruction", (long long)i,
                          s->opcode, s->fmt, s->fmt2, s->rounding);
        }
        if (s->form == FORM_WAIT && !(record[1] & 1) && is_engine_mask((i64)record[HEADER_WORDS])) s->form = FORM_NOTHING; /* chains go on */
        m->has_gemm |= s->form == FORM_GEMM;
        if (s->form == FORM_AFFINE) s->partner = count_products(record);
        m->is_linked |= s->form == FORM_REMOTE_SEND || s->form == FORM_REMOTE_GATHER;
        for (int k = 0; k < RECORD_WORDS - HEADER_WORDS; k++) {
            const u64 value = record[HEADER_WORDS + k];
            const int is_register = record[1] >> k & 1 || (k == 0 && writes_register(s));
            if (is_register && value >= NUM_REGISTERS) return refuse(fault, i, "record %lld: no register %lld", (long long)i, (long long)value);
        }
        prepare_quick(m, s, record);
        if (s->form == FORM_WDMA) note_store(m, record);
        if (s->opcode == OP_KC_LOOP || s->opcode == OP_KC_IF) {
            if (depth == MAX_DEPTH) return refuse(fault, i, "record %lld: more than %d blocks inside each other", (long long)i, MAX_DEPTH);
            exits[depth] = -1;
            open[depth++] = i;
        }
        if (s->opcode == OP_KC_EXIT) {
            if (depth == 0 || m->steps[open[depth - 1]].opcode != OP_KC_LOOP) return refuse(fault, i, "record %lld: an exit not in a loop", (long long)i);
            s->partner = exits[depth - 1];
            exits[depth - 1] = i;
        }
        if (s->opcode == OP_KC_END || s->opcode == OP_KC_END_IF) {
            const int begin = s->opcode == OP_KC_END ? OP_KC_LOOP : OP_KC_IF;
            if (depth == 0 || m->steps[open[depth - 1]].opcode != begin) return refuse(fault, i, "record %lld: an end without a beginning", (long long)i);
            s->partner = open[--depth];
            m->steps[s->partner].partner = i;
            for (i64 at = exits[depth], before; at >= 0; at = before) {
                before = m->steps[at].partner;
                m->steps[at].partner = i;
            }
        }
    }
    for (i64 i = 0; i < m->num_records; i++) prepare_scalar(m->scalars + i, m->steps + i, m->code + i * RECORD_WORDS);
    find_chains(m);
    m->final_barrier = find_final_barrier(m);
    if (depth) return refuse(fault, open[depth - 1], "record %lld: a loop or branch has no end", (long long)open[depth - 1]);
    return 0;
}
