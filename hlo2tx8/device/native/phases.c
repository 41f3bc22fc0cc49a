/* What may happen between a barrier and the next one, which is found once per program: the slots of DDR that are written, and whether tiles reach
 * each other's SPM. What is put off across a barrier rests on it. */
#include <stdlib.h>

#include "core.h"

#define MOST_WORDS (1 << 20)    /* of sets of slots; a program with more has all of them unknown */
#define MOST_VISITS_PER_RECORD 64 /* likewise */

enum { PHASE_UNKNOWN = 1, PHASE_SENDS = 2, PHASE_GATHERS = 4, PHASE_GATHERS_SOON = 8 };

struct phases {
    i32 *of; /* of a barrier's record the phase that it begins; phase 0 begins with the program */
    i64 num, words;
    u64 *written, *soon; /* sets of slots by phase: what is written in it, and in those that may come next */
    u8 *flags;
    u64 slots[];
};

/* Paths of a program from barrier to barrier. */
struct walk {
    const struct machine *machine;
    struct phases *phases;
    i64 *open, num_open, visits;
    u64 named; /* set of registers whose slots the phase has */
    i32 *seen; /* of each record the last phase, from 1, that it was found in */
};

static void visit(struct walk *w, i64 phase, i64 at) {
    if (at >= w->machine->num_records || w->seen[at] == phase + 1) return;
    w->seen[at] = (i32)phase + 1;
    w->open[w->num_open++] = at;
    w->visits++;
}

static void add_slot(struct walk *w, i64 phase, i64 slot) {
    if (slot >= 0 && slot < w->machine->num_slots) w->phases->written[phase * w->phases->words + slot / 64] |= UINT64_C(1) << slot % 64;
}

static void add_store(struct walk *w, i64 phase, i64 at) {
    const u64 *const record = w->machine->code + at * RECORD_WORDS;
    if (!(record[1] >> WDMA__SLOT & 1)) return add_slot(w, phase, (i64)record[HEADER_WORDS + WDMA__SLOT]);
    const u8 *const set = stored_slots(w->machine, at);
    const u64 register_bit = UINT64_C(1) << record[HEADER_WORDS + WDMA__SLOT];
    if (!set) w->phases->flags[phase] |= PHASE_UNKNOWN;
    if (!set || w->named & register_bit) return;
    w->named |= register_bit;
    for (i64 slot = 0; slot < w->machine->num_slots; slot++)
        if (set[slot]) add_slot(w, phase, slot);
}

/* Notes what one record does, and goes on to those that may follow it; the phase that it begins, if it is a barrier, else -1. */
static i64 step_on(struct walk *w, i64 phase, i64 at) {
    const struct machine *const m = w->machine;
    const struct step *const s = m->steps + at;
    switch ((enum form)s->form) {
    case FORM_BARRIER: return w->phases->of[at];
    case FORM_HALT: return -1;
    case FORM_LOOP: case FORM_IF: case FORM_END: case FORM_EXIT: case FORM_CALL: visit(w, phase, s->partner + 1); break;
    case FORM_FUNCTION: visit(w, phase, s->partner + 1); return -1;
    case FORM_RETURN: /* to any call of this function */
        for (i64 i = 0; i < m->num_records; i++)
            if (m->steps[i].form == FORM_CALL && m->steps[i].partner == s->partner) visit(w, phase, i + 1);
        w->visits += m->num_records;
        return -1;
    case FORM_WDMA: add_store(w, phase, at); break;
    case FORM_REMOTE_SEND: w->phases->flags[phase] |= PHASE_SENDS; break;
    case FORM_REMOTE_GATHER: w->phases->flags[phase] |= PHASE_GATHERS; break;
    default: break;
    }
    visit(w, phase, at + 1);
    return -1;
}

/* Walks through a phase that begins at a record: first for what it does itself, then, with `is_next`, for what those behind it do. */
static void walk_phase(struct walk *w, i64 phase, i64 first, int is_next) {
    struct phases *const p = w->phases;
    w->num_open = 0, w->named = 0;
    visit(w, phase, first);
    while (w->num_open) {
        const i64 next = step_on(w, phase, w->open[--w->num_open]);
        if (!is_next || next < 0) continue;
        for (i64 i = 0; i < p->words; i++) p->soon[phase * p->words + i] |= p->written[next * p->words + i];
        if (p->flags[next] & (PHASE_GATHERS | PHASE_UNKNOWN)) p->flags[phase] |= PHASE_GATHERS_SOON;
    }
}

static void walk_all(struct walk *w, const i64 *firsts) {
    struct phases *const p = w->phases;
    for (int is_next = 0; is_next < 2; is_next++) {
        memset(w->seen, 0, (size_t)w->machine->num_records * sizeof *w->seen);
        for (i64 k = 0; k < p->num; k++) {
            if (w->visits > MOST_VISITS_PER_RECORD * (w->machine->num_records + 1)) p->flags[k] |= PHASE_UNKNOWN | PHASE_GATHERS_SOON;
            else walk_phase(w, k, firsts[k], is_next);
        }
    }
}

void find_phases(struct machine *m) {
    i64 num = 1;
    for (i64 i = 0; i < m->num_records; i++) num += m->steps[i].form == FORM_BARRIER;
    const i64 words = (m->num_slots + 63) / 64;
    free(m->phases);
    m->phases = NULL;
    if (num > MOST_WORDS || num * words > MOST_WORDS) return;
    const size_t records = (size_t)m->num_records + 1, sets = (size_t)(num * words);
    struct phases *const p = calloc(1, sizeof *p + 2 * sets * sizeof(u64) + records * sizeof(i32) + (size_t)num);
    i64 *const firsts = malloc((size_t)num * sizeof *firsts);
    struct walk w = {.machine = m, .phases = p, .open = malloc(records * sizeof *w.open), .seen = malloc(records * sizeof *w.seen)};
    if (p && firsts && w.open && w.seen) {
        p->num = 1, p->words = words;
        p->written = p->slots, p->soon = p->written + sets;
        p->of = (i32 *)(p->soon + sets), p->flags = (u8 *)(p->of + records);
        firsts[0] = 0;
        for (i64 i = 0; i < m->num_records; i++) {
            if (m->steps[i].form != FORM_BARRIER) continue;
            firsts[p->num] = i + 1;
            p->of[i] = (i32)p->num++;
        }
        walk_all(&w, firsts);
        m->phases = p;
    } else {
        free(p);
    }
    free(firsts);
    free(w.open);
    free(w.seen);
}

i64 phase_after(const struct machine *m, i64 barrier) { return m->phases && !m->own_code ? m->phases->of[barrier] : -1; }

static int has_slot(const struct machine *m, const u64 *sets, i64 phase, i64 slot) {
    return (int)(sets[phase * m->phases->words + slot / 64] >> slot % 64 & 1);
}

static int is_unknown(const struct machine *m, i64 phase) {
    return phase < 0 || !m->phases || m->own_code || m->phases->flags[phase] & PHASE_UNKNOWN;
}

int changes(struct machine *m, i64 phase, i64 slot) {
    const enum staying staying = staying_of(m, slot);
    if (staying == STAYS) return 0;
    return staying == STAYS_NOT || is_unknown(m, phase) || has_slot(m, m->phases->written, phase, slot);
}

int changes_soon(struct machine *m, i64 phase, i64 slot) {
    if (is_unknown(m, phase) || m->phases->flags[phase] & PHASE_GATHERS_SOON) return 1;
    const enum staying staying = staying_of(m, slot);
    return staying == STAYS_NOT || (staying == STAYS_NAMED && has_slot(m, m->phases->soon, phase, slot));
}

int may_send(const struct machine *m, i64 phase) { return m->is_linked && (is_unknown(m, phase) || m->phases->flags[phase] & PHASE_SENDS); }
int may_gather(const struct machine *m, i64 phase) { return m->is_linked && (is_unknown(m, phase) || m->phases->flags[phase] & PHASE_GATHERS); }
