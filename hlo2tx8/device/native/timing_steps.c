/* Records as steps: only what decides time, see timing/steps.py. Constants lie behind the registers, so that every input is an index. */
#include <stdlib.h>

#include "timing_model.h"

#define MOST_ROTATION 6

static void push_index(struct stretch *s, i32 index) {
    if ((s->num_indices & (s->num_indices - 1)) == 0) s->indices = realloc(s->indices, 2 * ((size_t)s->num_indices + 8) * sizeof(i32));
    s->indices[s->num_indices++] = index;
}

static void push_operand(struct stretch *s, i64 record, int field) {
    const i64 value = operand_at(s, record, field);
    if (is_register(s, record, field)) {
        push_index(s, (i32)value);
        return;
    }
    if ((s->num_constants & (s->num_constants - 1)) == 0)
        s->constants = realloc(s->constants, 2 * ((size_t)s->num_constants + 8) * sizeof(i64));
    push_index(s, TIMED_REGISTERS + s->num_constants);
    s->constants[s->num_constants++] = value;
}

/* Of a linear form, is the factor of term i not zero? */
static int has_term(const struct stretch *s, i64 record, int i) {
    return is_register(s, record, 3 + 2 * i) || operand_at(s, record, 3 + 2 * i) != 0;
}

/* One per operation; of a linear form, one per term. */
static int scalar_cycles(const struct stretch *s, i64 record) {
    int terms = 0;
    if (kind_at(s, record)->fold != FOLD_AFFINE) return 1;
    for (int i = 0; i < 4; i++) terms += has_term(s, record, i);
    return terms ? terms : 1;
}

static void push_scalar(struct stretch *s, i64 record, int fold) {
    if (fold == FOLD_UNKNOWN) return;
    push_operand(s, record, 1);
    if (fold != FOLD_AFFINE) push_operand(s, record, 2);
    for (int i = 0; fold == FOLD_AFFINE && i < 4; i++) {
        if (!has_term(s, record, i)) continue;
        push_operand(s, record, 2 + 2 * i);
        push_operand(s, record, 3 + 2 * i);
    }
}

/* A step of the record; its inputs, carried registers and registers that count follow each other. */
static struct timed_step step_of(struct stretch *s, i64 record, u64 carried) {
    const struct timed_kind *const kind = kind_at(s, record);
    struct timed_step step = {.op = kind->op, .record = (i32)(record - s->first), .fold = kind->fold, .engine = kind->engine, .rotation = 1};
    if (kind->op == TIMED_SCALAR || kind->op == TIMED_LOOP) step.rd = (i32)operand_at(s, record, 0);
    step.first_input = s->num_indices;
    if (kind->op == TIMED_SCALAR) {
        step.cycles = scalar_cycles(s, record);
        push_scalar(s, record, kind->fold);
    } else {
        const int takes_all = kind->op != TIMED_ISSUE && kind->op != TIMED_WORK;
        for (int f = 0; f < kind->num_fields; f++)
            if (kind->flags[f] & FIELD_DECIDES && (takes_all || is_register(s, record, f))) push_operand(s, record, f);
    }
    step.num_inputs = s->num_indices - step.first_input, step.first_carried = s->num_indices;
    for (int r = 0; r < TIMED_REGISTERS; r++)
        if (carried >> r & 1) push_index(s, r);
    step.num_carried = s->num_indices - step.first_carried, step.first_count = s->num_indices;
    for (int f = 0; f < kind->num_fields && kind->op != TIMED_WAIT; f++)
        if (kind->flags[f] & FIELD_COUNTS && is_register(s, record, f)) push_index(s, (i32)operand_at(s, record, f));
    step.num_counts = s->num_indices - step.first_count;
    return step;
}

static u64 sources(const struct stretch *s, i64 record) {
    u64 found = 0;
    for (int f = 0; f < kind_at(s, record)->num_fields; f++)
        if (kind_at(s, record)->flags[f] & FIELD_IS_SOURCE && is_register(s, record, f)) found |= UINT64_C(1) << operand_at(s, record, f);
    return found;
}

static int is_made(const struct timed_step *step) { return step->op == TIMED_SCALAR || step->op == TIMED_LOOP; }

/* The turns of a loop after which divisions by constants are back where they were; those by large ones are left alone. Only what depends
 * on the loop's counter, or on a turn before, goes on from turn to turn. */
static int rotation_of(const struct stretch *s, const struct timed_step *loop, const struct timed_step *end) {
    const u64 counter = UINT64_C(1) << loop->rd;
    u64 lasting = counter, is_set = 0, before;
    int rotation = 1;
    for (const struct timed_step *step = loop + 1; step < end; step++) {
        if (!is_made(step)) continue;
        lasting |= sources(s, s->first + step->record) & ~is_set;
        is_set |= UINT64_C(1) << step->rd;
    }
    lasting &= is_set | counter;
    do {
        before = lasting;
        for (const struct timed_step *step = loop + 1; step < end; step++)
            if (is_made(step) && sources(s, s->first + step->record) & lasting) lasting |= UINT64_C(1) << step->rd;
    } while (lasting != before);
    for (const struct timed_step *step = loop + 1; step < end; step++) {
        const i64 record = s->first + step->record;
        if (step->op != TIMED_SCALAR || (step->fold != FOLD_MOD && step->fold != FOLD_FLOOR_DIV)) continue;
        if (!(sources(s, record) & lasting) || is_register(s, record, 2)) continue;
        const i64 divisor = operand_at(s, record, 2);
        if (divisor <= 0 || divisor > MOST_ROTATION) continue;
        int multiple = rotation;
        while (multiple % divisor) multiple += rotation;
        rotation = multiple;
    }
    return rotation;
}

static int mark_varying(struct stretch *s) {
    int any = 0;
    for (struct timed_step *loop = s->steps; loop < s->steps + s->num_steps; loop++) {
        if (loop->op != TIMED_LOOP) continue;
        const struct timed_step *const end = s->steps + loop->target;
        loop->rotation = rotation_of(s, loop, end);
        for (const struct timed_step *step = loop + 1; step < end; step++) loop->varies |= step->num_counts > 0;
        any |= loop->varies;
    }
    return any;
}

static int has_partner(int op) { return op == TIMED_LOOP || op == TIMED_END || op == TIMED_IF || op == TIMED_JOIN || op == TIMED_EXIT; }

/* The steps of records [first, end), whose blocks are whole. */
void make_steps(struct stretch *s, i64 first, i64 end) {
    const size_t num = (size_t)(end - first);
    s->first = first, s->end = end;
    s->steps = calloc(num + 1, sizeof *s->steps);
    struct needed needed = {calloc(num + 1, 1), calloc(num + 1, sizeof(u64)), 0};
    i32 *const at = calloc(num + 1, sizeof *at);
    find_needed(s, FIELD_DECIDES, &needed);
    s->live_in = needed.live_in;
    int before = 0;
    for (i64 i = first; i < end; i++) {
        if (kind_at(s, i)->op == TIMED_SCALAR && !needed.scalars[i - first]) {
            before += scalar_cycles(s, i);
            continue;
        }
        at[i - first] = s->num_steps;
        if (kind_at(s, i)->op == TIMED_SCALAR && kind_at(s, i)->fold == FOLD_UNKNOWN) s->t->loaded[i] = 1;
        s->steps[s->num_steps] = step_of(s, i, needed.carried[i - first]);
        s->steps[s->num_steps++].before = before;
        before = 0;
    }
    s->steps[s->num_steps++] = (struct timed_step){.op = TIMED_HALT, .record = num ? (i32)num - 1 : 0, .before = before, .rotation = 1};
    for (int k = 0; k < s->num_steps - 1; k++)
        if (has_partner(s->steps[k].op)) s->steps[k].target = at[s->partners[first + s->steps[k].record] - first];
    if (mark_varying(s)) {
        find_needed(s, FIELD_COUNTS, &needed);
        for (int k = 0; k < s->num_steps - 1; k++)
            s->steps[k].decides_counts = s->steps[k].op == TIMED_SCALAR && needed.scalars[s->steps[k].record];
    }
    free(needed.scalars), free(needed.carried), free(at);
}

void drop_steps(struct stretch *s) {
    free(s->steps), free(s->indices), free(s->constants);
    memset(s, 0, sizeof *s);
}
