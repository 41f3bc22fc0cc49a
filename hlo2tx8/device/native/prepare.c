/* Records made ready to run: every opcode, format, register and block is checked once, before any tile starts. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

/* The kernels of an elementwise record; 1 if there are any. */
static int choose_kernels(struct step *s) {
    const struct fact *const f = s->fact;
    const int is_float = float_index_of(s->fmt) >= 0, integer = s->fmt == FORMAT_PRED ? f->pred : f->integer;
    switch ((enum form)s->form) {
    case FORM_UNARY:
        s->kernel.unary = f->program && s->is_directed ? program_kernel(f->program, FORMAT_FP64, 0)
                          : f->program ? program_kernel(f->program, s->fmt, f->is_low_precision)
                          : is_float ? float_unary_kernel(f->function, s->fmt)
                                     : integer_unary_kernel(integer, s->fmt);
        return s->kernel.unary != NULL;
    case FORM_BINARY: case FORM_VS: case FORM_UNIT: case FORM_UNIT_LOOP: case FORM_RELATION_BITS:
        s->kernel.binary = is_float ? float_binary_kernel(f->function, s->fmt, f->shape == SHAPE_IMMEDIATE) : integer_binary_kernel(integer, s->fmt);
        s->other = float_unit_kernel(f->function, s->fmt);
        return s->kernel.binary != NULL;
    case FORM_COMPARE:
        s->kernel.binary = comparison_kernel(f->integer, s->fmt, 0);
        s->other = comparison_kernel(f->integer, s->fmt, 1);
        return s->kernel.binary != NULL;
    default: return 1;
    }
}

/* 1 if opcode and formats go together. */
static int choose(struct step *s) {
    if (s->opcode >= NUM_OPCODES || !facts[s->opcode].is_known) return 0;
    s->fact = facts + s->opcode;
    s->form = s->fact->form;
    s->is_directed = s->rounding != ROUND_NEAREST_EVEN && s->fact->rounds;
    const u32 *const takes = format_masks[s->rounding == ROUND_NEAREST_EVEN ? s->fact->nearest : s->fact->directed];
    return takes[s->fmt2] >> s->fmt & 1 && choose_kernels(s);
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

int writes_register(const struct step *s) {
    return s->form == FORM_LOOP || s->form == FORM_AFFINE || s->form == FORM_SCALAR || s->form == FORM_LOAD_SCALAR;
}

/* May a chain take this record? Vector links, and between them what only computes addresses. */
static int is_vector_link(const struct step *s) {
    if (s->is_directed) return 0;
    switch ((enum form)s->form) {
    case FORM_UNARY: case FORM_BINARY: case FORM_VS: case FORM_UNIT: case FORM_UNIT_LOOP: case FORM_CONVERT_CT: case FORM_CONVERT_KC: case FORM_MASK_MOVE:
    case FORM_TEST: case FORM_COMPARE: case FORM_SELECT: case FORM_RDMA: case FORM_WDMA: return 1;
    default: return 0;
    }
}

void find_chains(struct machine *m, i64 first, i64 end) {
    int length = 0;
    for (i64 i = end - 1; i >= first; i--) {
        struct step *const s = m->steps + i;
        const int is_link = is_vector_link(s);
        const int is_between = s->form == FORM_AFFINE || s->form == FORM_NOTHING;
        length = s->form == FORM_REDUCE && !s->is_directed ? 1 : is_link || (is_between && s->opcode != OP_KC_END_IF) ? length + 1 : 0; /* a reduction ends one */
        s->chain = is_link ? length : 0;
        if (m->own_code && s->form == FORM_RDMA && i > first && m->steps[i - 1].form == FORM_WDMA) length = 0; /* the next turn of a loop, most likely */
    }
}

/* A program's last barrier if tiles only halt behind it. */
static i64 find_final_barrier(const struct machine *m) {
    i64 at = m->num_records - 1;
    while (at >= 0 && (m->steps[at].form == FORM_NOTHING || m->steps[at].form == FORM_HALT)) at--;
    return at >= 0 && m->steps[at].form == FORM_BARRIER ? at : m->num_records;
}

/* Functions in their order: the record of each, and how many blocks are inside each other where it is called. */
struct functions {
    struct function {
        i64 at;
        int depth;
    } *rows;
    i64 num, room;
};

static int add_function(struct functions *f, i64 at, int depth) {
    if (f->num == f->room) {
        struct function *const more = realloc(f->rows, (size_t)(2 * f->room + 16) * sizeof *more);
        if (!more) return 0;
        f->rows = more;
        f->room = 2 * f->room + 16;
    }
    f->rows[f->num++] = (struct function){at, depth};
    return 1;
}

static int opcode_of_begin(int opcode) {
    return opcode == OP_KC_END ? OP_KC_LOOP : opcode == OP_KC_END_IF ? OP_KC_IF : opcode == OP_KC_RETURN ? OP_KC_FUNCTION : 0;
}

int prepare_step(struct machine *m, i64 i, struct tx8_fault *fault) {
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
    if (s->form == FORM_AFFINE) s->partner = count_products(record);
    for (int k = 0; k < RECORD_WORDS - HEADER_WORDS; k++) {
        const u64 value = record[HEADER_WORDS + k];
        const int is_register = record[1] >> k & 1 || (k == 0 && writes_register(s));
        if (is_register && value >= NUM_REGISTERS) return refuse(fault, i, "record %lld: no register %lld", (long long)i, (long long)value);
    }
    return 0;
}

static int prepare_records(struct machine *m, struct functions *functions, struct tx8_fault *fault) {
    i64 open[MAX_DEPTH], exits[MAX_DEPTH]; /* the last exit of each open block, from which `partner` leads to the one before; -1: none */
    int depth = 0, deepest = 0;
    m->is_linked = m->has_gemm = 0;
    for (i64 i = 0; i < m->num_records; i++) {
        const u64 *const record = m->code + i * RECORD_WORDS;
        struct step *const s = m->steps + i;
        if (prepare_step(m, i, fault)) return FAULT_ILLEGAL_OPCODE;
        m->has_gemm |= s->form == FORM_GEMM;
        m->is_linked |= s->form == FORM_REMOTE_SEND || s->form == FORM_REMOTE_GATHER;
        prepare_quick(m, s, record);
        const int begin = opcode_of_begin(s->opcode);
        const i64 number = (i64)record[HEADER_WORDS];
        const int is_numbered = !(record[1] & 1) && number >= 0;
        int inside = 0;
        if (s->opcode == OP_KC_FUNCTION && (depth || !is_numbered || number != functions->num))
            return refuse(fault, i, "record %lld: a function in a block or out of order", (long long)i);
        if (s->opcode == OP_KC_CALL) {
            if (!is_numbered || number >= functions->num)
                return refuse(fault, i, "record %lld: a call of a function that does not end above", (long long)i);
            s->partner = functions->rows[number].at;
            inside = functions->rows[number].depth;
        }
        const int is_begin = s->opcode == OP_KC_LOOP || s->opcode == OP_KC_IF || s->opcode == OP_KC_FUNCTION;
        if (depth + inside + is_begin > MAX_DEPTH) return refuse(fault, i, "record %lld: more than %d blocks inside each other", (long long)i, MAX_DEPTH);
        if (is_begin) {
            if (!depth) deepest = 0;
            exits[depth] = -1;
            open[depth++] = i;
        }
        if (depth + inside > deepest) deepest = depth + inside;
        if (s->opcode == OP_KC_EXIT) {
            if (depth == 0 || m->steps[open[depth - 1]].opcode != OP_KC_LOOP) return refuse(fault, i, "record %lld: an exit not in a loop", (long long)i);
            s->partner = exits[depth - 1];
            exits[depth - 1] = i;
        }
        if (begin) {
            if (depth == 0 || m->steps[open[depth - 1]].opcode != begin) return refuse(fault, i, "record %lld: an end without a beginning", (long long)i);
            s->partner = open[--depth];
            m->steps[s->partner].partner = i;
            for (i64 at = exits[depth], before; at >= 0; at = before) {
                before = m->steps[at].partner;
                m->steps[at].partner = i;
            }
            if (s->opcode == OP_KC_RETURN && !add_function(functions, s->partner, deepest)) return refuse(fault, i, "no memory");
        }
    }
    for (i64 i = 0; i < m->num_records; i++) prepare_scalar(m->scalars + i, m->steps + i, m->code + i * RECORD_WORDS);
    if (depth) return refuse(fault, open[depth - 1], "record %lld: a block has no end", (long long)open[depth - 1]);
    find_chains(m, 0, m->num_records);
    find_stores(m);
    find_phases(m);
    m->final_barrier = find_final_barrier(m);
    return 0;
}

int prepare(struct machine *m, struct tx8_fault *fault) {
    struct functions functions = {0};
    const int refused = prepare_records(m, &functions, fault);
    free(functions.rows);
    return refused;
}
