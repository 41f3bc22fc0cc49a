/* Records of the kernel core that compute addresses, branch and loop, in a form that takes one line of the host's cache each: between two
 * vector records there may be dozens. Only those are here that cannot fault; tile.c runs the others. */
#include "machine.h"

/* `index` of a register, 0 where the operand is a number: that register is always 0, so the operand is their sum. */
static i64 read_operand(const u64 *record, int k, u8 *index) {
    const u64 value = record[HEADER_WORDS + k];
    *index = record[1] >> k & 1 ? (u8)value : 0;
    return *index || record[1] >> k & 1 ? 0 : (i64)value;
}

static enum scalar_kind kind_of(const struct step *s, i64 divisor, int has_divisor) {
    switch (s->opcode) {
    case OP_KC_MIN: return SCALAR_MIN;
    case OP_KC_MAX: return SCALAR_MAX;
    case OP_KC_MUL: return SCALAR_MUL;
    case OP_KC_LESS: return SCALAR_LESS;
    default: break;
    }
    if (!has_divisor || divisor <= 0) return SCALAR_NONE;
    return s->opcode == OP_KC_MOD ? SCALAR_MOD : SCALAR_DIV;
}

/* Products of a register and a number; 0 if there is another one. */
static int read_products(struct scalar *s, const u64 *record, i64 num) {
    for (int i = 0; i < num; i++) {
        u8 first, second;
        const i64 x = read_operand(record, KC_AFFINE__R1 + 2 * i, &first), y = read_operand(record, KC_AFFINE__K1 + 2 * i, &second);
        if (first && second) return 0;
        s->r[i] = first | second;
        s->k[i] = first ? y : x;
        if (!s->r[i]) s->x = (i64)((u64)s->x + (u64)x * (u64)y);
    }
    return 1;
}

void prepare_scalar(struct scalar *s, const struct step *step, const u64 *record) {
    u8 by;
    *s = (struct scalar){.rd = (u8)record[HEADER_WORDS], .partner = step->partner};
    switch ((enum form)step->form) {
    case FORM_NOTHING: s->kind = SCALAR_NOTHING; return;
    case FORM_END: s->kind = SCALAR_END; return;
    case FORM_IF:
        s->kind = SCALAR_IF;
        s->x = read_operand(record, KC_IF__VALUE, &s->a);
        return;
    case FORM_LOOP:
        s->x = read_operand(record, KC_LOOP__LO, &s->a);
        s->y = read_operand(record, KC_LOOP__HI, &s->b);
        s->k[0] = read_operand(record, KC_LOOP__STEP, &by);
        s->kind = s->k[0] > 0 ? SCALAR_LOOP : SCALAR_NONE;
        return;
    case FORM_AFFINE:
        s->x = read_operand(record, KC_AFFINE__C, &s->a);
        s->kind = !s->rd ? SCALAR_NOTHING : !read_products(s, record, step->partner) ? SCALAR_NONE : step->partner > 2 ? SCALAR_AFFINE : SCALAR_AFFINE_TWO;
        return;
    case FORM_SCALAR:
        s->x = read_operand(record, KC_MIN__A, &s->a);
        s->y = read_operand(record, KC_MIN__B, &s->b);
        s->kind = kind_of(step, s->y, !s->b);
        if (s->kind && !s->rd) s->kind = SCALAR_NOTHING;
        return;
    default: return;
    }
}

/* Of a positive divisor; the remainder has its sign. Most numbers are small and not negative: their division takes half the time. */
static inline i64 divide(i64 a, i64 b, int is_remainder) {
    if ((u64)(a | b) <= UINT32_MAX) return is_remainder ? (i64)((u32)a % (u32)b) : (i64)((u32)a / (u32)b);
    const i64 quotient = a / b, rest = a % b;
    if (is_remainder) return rest < 0 ? rest + b : rest;
    return rest < 0 ? quotient - 1 : quotient;
}

i64 end_loop(const struct machine *m, struct tile *t, i64 at) {
    struct loop *const loop = &t->loops[t->depth - 1];
    i64 next;
    if (++t->turns > m->most_turns) return stop_turning(m, t, at);
    if (__builtin_add_overflow(loop->counter, loop->step, &next) || next >= loop->hi) {
        t->depth--;
        return at + 1;
    }
    loop->counter = next;
    set_register(t, m->scalars[loop->record].rd, next);
    return loop->record + 1;
}

i64 run_scalars(const struct machine *m, struct tile *t, i64 at, int *polls) {
    const struct scalar *const scalars = m->scalars;
    i64 *const registers = t->registers;
    for (int left = *polls; at < m->num_records; left--) {
        const struct scalar *const s = scalars + at;
        const i64 a = registers[s->a] + s->x, b = registers[s->b] + s->y;
        *polls = left;
        if (left <= 1) return at;
        at++;
        switch ((enum scalar_kind)s->kind) {
        case SCALAR_NONE: return at - 1;
        case SCALAR_NOTHING: break;
        case SCALAR_AFFINE_TWO: registers[s->rd] = a + registers[s->r[0]] * s->k[0] + registers[s->r[1]] * s->k[1]; break;
        case SCALAR_AFFINE:
            registers[s->rd] = a + registers[s->r[0]] * s->k[0] + registers[s->r[1]] * s->k[1] + registers[s->r[2]] * s->k[2] + registers[s->r[3]] * s->k[3];
            break;
        case SCALAR_MIN: registers[s->rd] = a < b ? a : b; break;
        case SCALAR_MAX: registers[s->rd] = a > b ? a : b; break;
        case SCALAR_MUL: registers[s->rd] = a * b; break;
        case SCALAR_LESS: registers[s->rd] = a < b; break;
        case SCALAR_DIV: registers[s->rd] = divide(a, b, 0); break;
        case SCALAR_MOD: registers[s->rd] = divide(a, b, 1); break;
        case SCALAR_IF: at = a ? at : s->partner + 1; break;
        case SCALAR_LOOP:
            if (a >= b) {
                at = s->partner + 1;
                break;
            }
            t->loops[t->depth++] = (struct loop){at - 1, a, b, s->k[0]};
            set_register(t, s->rd, a);
            break;
        case SCALAR_END: at = end_loop(m, t, at - 1); break;
        }
    }
    return at;
}
