/* Scalars of the kernel core, and how long the turns of a loop stay what they were. */
#include <stdlib.h>

#include "timing_model.h"

#define NUM_PROBES 8

struct timed_value fold(const struct stretch *x, const struct timed_value *r, const struct timed_step *s) {
    const i32 *const in = x->indices + s->first_input;
    struct timed_value result = {0, 1, 0};
    for (int k = 0; k < s->num_inputs; k++) result.is_known &= input(x, r, in[k]).is_known;
    if (!result.is_known) return (struct timed_value){0, 0, 0};
    const i64 a = input(x, r, in[0]).value, c = s->num_inputs > 1 ? input(x, r, in[1]).value : 0;
    i64 quotient;
    switch ((enum timed_fold)s->fold) {
    case FOLD_AFFINE:
        result.value = a;
        for (int k = 1; k < s->num_inputs; k += 2) result.value += input(x, r, in[k]).value * input(x, r, in[k + 1]).value;
        break;
    case FOLD_FLOOR_DIV: case FOLD_MOD:
        if (c == 0) break; /* the emulator faults */
        quotient = c == -1 ? -a : a / c - (a % c != 0 && (a < 0) != (c < 0));
        result.value = s->fold == FOLD_FLOOR_DIV ? quotient : a - quotient * c;
        break;
    case FOLD_MIN: result.value = a < c ? a : c; break;
    case FOLD_MAX: result.value = a > c ? a : c; break;
    case FOLD_MUL: result.value = a * c; break;
    case FOLD_LESS: result.value = a < c; break;
    case FOLD_UNKNOWN: break;
    }
    return result;
}

/* A loop's turns: none if it ends before it begins, not known if a bound is not. */
struct timed_value turns_of(struct timed_value lo, struct timed_value hi, struct timed_value by) {
    const i64 step = by.value > 1 ? by.value : 1;
    struct timed_value total = {0, lo.is_known && hi.is_known && by.is_known, 0};
    if (total.is_known && hi.value > lo.value) total.value = (i64)(((__int128)hi.value - lo.value + step - 1) / step);
    return total;
}

struct timed_value counter_of(struct timed_value lo, i64 turn, i64 step) {
    return (struct timed_value){lo.is_known ? lo.value + turn * step : 0, lo.is_known, 0};
}

/* ---------------------------------------------------------------------------------------------- do turns stay what they were? */

/* Branches, trip counts, counts and strides of a turn. */
struct signature {
    struct timed_value *values;
    int num, room;
};

static void note(struct signature *found, struct timed_value v) {
    if (found->num == found->room) {
        found->room = found->room ? 2 * found->room : 64;
        found->values = realloc(found->values, (size_t)found->room * sizeof *found->values);
    }
    found->values[found->num++] = v;
}

/* Follows scalars and branches only; of inner loops the first and the last turn. What was loaded last is loaded again. */
static void walk(const struct model *m, const struct timed_tile *b, i64 at, i64 end, struct timed_value *r, struct signature *found) {
    const struct stretch *const x = m->s;
    while (at < end) {
        const struct timed_step *const s = x->steps + at++;
        const i32 *const in = x->indices + s->first_input;
        if (s->op == TIMED_SCALAR) {
            if (s->decides_counts && s->rd) r[s->rd] = is_loaded(s) ? taken_last(cursor_of(m, b, s)) : fold(x, r, s);
        } else if (s->op == TIMED_LOOP) {
            const struct timed_value lo = input(x, r, in[0]), by = input(x, r, in[2]), total = turns_of(lo, input(x, r, in[1]), by);
            note(found, total);
            for (int k = 0; k < 2 && k < total.value; k++) {
                if (s->rd) r[s->rd] = counter_of(lo, k ? total.value - 1 : 0, by.value);
                walk(m, b, at, s->target, r, found);
            }
            at = s->target + 1;
        } else if (s->op == TIMED_IF) {
            const struct timed_value v = input(x, r, in[0]);
            note(found, (struct timed_value){v.value != 0, v.is_known, 0});
            if (v.is_known && !v.value) at = s->target;
        } else {
            for (int k = 0; k < s->num_counts; k++) note(found, r[x->indices[s->first_count + k]]);
        }
    }
}

static int is_equal_turn(const struct model *m, const struct timed_tile *b, const struct frame *f, i64 turn, struct timed_value *r,
                         const struct signature *before, struct signature *found) {
    const struct timed_step *const loop = m->s->steps + f->loop;
    memcpy(r, b->registers, TIMED_REGISTERS * sizeof *r);
    if (loop->rd) r[loop->rd] = counter_of(f->lo, turn, f->step);
    found->num = 0;
    walk(m, b, f->loop + 1, loop->target, r, found);
    return before && before->num == found->num && !memcmp(before->values, found->values, (size_t)found->num * sizeof *found->values);
}

/* How many times, at most `most`, the `turns` turns before turn `first` repeat. Conditions are taken to change once: after the last turn
 * that was found equal by bisection, with some probes between. */
i64 equal_turns(const struct model *m, const struct timed_tile *b, const struct frame *f, i64 first, i64 turns, i64 most) {
    if (!m->s->steps[f->loop].varies) return most;
    struct timed_value r[TIMED_REGISTERS];
    struct signature found = {NULL, 0, 0}, *const before = calloc((size_t)turns, sizeof *before);
    for (i64 i = 0; i < turns; i++) is_equal_turn(m, b, f, first - turns + i, r, NULL, before + i);
    const i64 stride = most / NUM_PROBES > 1 ? most / NUM_PROBES : 1;
    i64 low = 0, high = most + 1;
    for (i64 probe = most, next = 1; probe; probe = next < most ? next : 0, next += stride) {
        int is_equal = 1;
        for (i64 i = 0; is_equal && i < turns; i++) is_equal = is_equal_turn(m, b, f, first + (probe - 1) * turns + i, r, before + i, &found);
        if (!is_equal && probe < high) high = probe;
    }
    while (high <= most && high - low > 1) {
        const i64 middle = (low + high) / 2;
        int is_equal = 1;
        for (i64 i = 0; is_equal && i < turns; i++) is_equal = is_equal_turn(m, b, f, first + (middle - 1) * turns + i, r, before + i, &found);
        if (is_equal) low = middle;
        else high = middle;
    }
    for (i64 i = 0; i < turns; i++) free(before[i].values);
    free(before), free(found.values);
    return high > most ? most : low;
}
