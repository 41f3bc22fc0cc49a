/* Which slots of DDR the records of a program store to, which is found once per program. Where a register names the slot it is asked what the
 * register can hold: constants, and constants that grow with the counter of a loop. What is put off rests on it, so a value more is no harm and
 * one less would be: of all that writes the register anywhere nothing is left out. */
#include <stdlib.h>

#include "core.h"

#define MOST_WRITERS 64          /* of a register; with more it is unknown what it holds */
#define MOST_TURNS (1 << 16)     /* of a loop, likewise */
#define MOST_NUMBER (INT64_C(1) << 31)

static int is_small(i64 number) { return number > -MOST_NUMBER && number < MOST_NUMBER; }

static void mark(const struct machine *m, u8 *set, i64 slot) {
    if (slot >= 0 && slot < m->num_slots) set[slot] = 1;
}

/* Finds for each record which registers are written on every way to it. Blocks that end before it may be passed by. */
static void find_written(struct machine *m) {
    u64 written = 0;
    for (i64 i = 0; i < m->num_records; i++) {
        struct step *const s = m->steps + i;
        const u64 number = m->code[i * RECORD_WORDS + HEADER_WORDS];
        s->written = written;
        if (s->form == FORM_END || s->opcode == OP_KC_END_IF || s->form == FORM_RETURN) written = m->steps[s->partner].written;
        else if (writes_register(s) && number < NUM_REGISTERS) written |= UINT64_C(1) << number;
    }
}

/* Marks `start` and what is `factor` times a register more, which is 0 or what loops count to in it; 0 if others write it. */
static int mark_turns(const struct machine *m, u8 *set, i64 start, i64 factor, u64 number) {
    if (number == TILE_REGISTER) return 0;
    mark(m, set, start);
    for (i64 i = 0, num = 0; i < m->num_records; i++) {
        const u64 *const record = m->code + i * RECORD_WORDS;
        const i64 *const operands = (const i64 *)record + HEADER_WORDS;
        if (!writes_register(m->steps + i) || (u64)operands[0] != number) continue;
        const i64 lo = operands[KC_LOOP__LO], hi = operands[KC_LOOP__HI], step = operands[KC_LOOP__STEP];
        if (m->steps[i].form != FORM_LOOP || record[1] >> 1 || ++num > MOST_WRITERS) return 0;
        if (!is_small(lo) || !is_small(hi) || !is_small(step) || step < 1 || (hi - lo) / step >= MOST_TURNS) return 0;
        for (i64 turn = lo; turn < hi; turn += step) mark(m, set, start + factor * turn);
    }
    return 1;
}

/* Marks all that a register can hold once it has been written; 0 if that is not known. */
static int mark_values(const struct machine *m, u8 *set, u64 number) {
    for (i64 i = 0, num = 0; i < m->num_records; i++) {
        const u64 *const record = m->code + i * RECORD_WORDS;
        const i64 *const operands = (const i64 *)record + HEADER_WORDS;
        const struct step *const s = m->steps + i;
        if (!writes_register(s) || (u64)operands[0] != number) continue;
        const u64 in_registers = record[1] & ((UINT64_C(1) << KC_AFFINE__C) | (UINT64_C(3) << KC_AFFINE__R1));
        const i64 start = operands[KC_AFFINE__C], factor = operands[KC_AFFINE__K1];
        if (s->form != FORM_AFFINE || s->partner > 1 || !is_small(start) || ++num > MOST_WRITERS) return 0;
        if (s->partner == 0 && !(record[1] >> KC_AFFINE__C & 1)) mark(m, set, start);
        else if (in_registers != UINT64_C(1) << KC_AFFINE__R1 || !is_small(factor)) return 0;
        else if (!mark_turns(m, set, start, factor, (u64)operands[KC_AFFINE__R1])) return 0;
    }
    return 1;
}

static void find_named(struct machine *m) {
    u64 names = 0;
    for (i64 i = 0; i < m->num_records; i++) {
        const u64 *const record = m->code + i * RECORD_WORDS;
        if (m->steps[i].form == FORM_WDMA && record[1] >> WDMA__SLOT & 1) names |= UINT64_C(1) << record[HEADER_WORDS + WDMA__SLOT];
    }
    free(m->named);
    m->named = names ? calloc(NUM_REGISTERS, (size_t)m->num_slots + 1) : NULL;
    m->is_named = 0;
    for (u64 number = TILE_REGISTER + 1; m->named && number < NUM_REGISTERS; number++)
        if (names >> number & 1 && mark_values(m, m->named + number * (u64)m->num_slots, number)) m->is_named |= UINT64_C(1) << number;
}

const u8 *stored_slots(const struct machine *m, i64 at) {
    const u64 number = m->code[at * RECORD_WORDS + HEADER_WORDS + WDMA__SLOT];
    return m->is_named & m->steps[at].written & UINT64_C(1) << number ? m->named + number * (u64)m->num_slots : NULL;
}

void find_stores(struct machine *m) {
    u64 names = 0; /* set of registers of whose slots it is known */
    int is_unknown = 0;
    find_written(m);
    find_named(m);
    for (i64 i = 0; i < m->num_records; i++) {
        const u64 *const record = m->code + i * RECORD_WORDS;
        if (m->steps[i].form != FORM_WDMA) continue;
        if (!(record[1] >> WDMA__SLOT & 1)) mark(m, m->stores, (i64)record[HEADER_WORDS + WDMA__SLOT]);
        else if (stored_slots(m, i)) names |= UINT64_C(1) << record[HEADER_WORDS + WDMA__SLOT];
        else is_unknown = 1;
    }
    for (u64 number = 0; number < NUM_REGISTERS; number++)
        for (i64 slot = 0; names >> number & 1 && slot < m->num_slots; slot++) m->stores[slot] |= m->named[number * (u64)m->num_slots + (u64)slot];
    if (is_unknown) memset(m->stores, 1, (size_t)m->num_slots);
}
