/* Which scalars matter to the time of a stretch, and which registers: see timing/needed.py. A set of registers is a word. */
#include <stdlib.h>

#include "timing_model.h"

#define ALWAYS_SET UINT64_C(3) /* zero and the number of the tile */

static u64 registers_of(const struct stretch *s, i64 record, u8 flag) {
    const struct timed_kind *const kind = kind_at(s, record);
    u64 found = 0;
    for (int f = 0; f < kind->num_fields; f++)
        if (is_register(s, record, f) && kind->flags[f] & flag) found |= UINT64_C(1) << operand_at(s, record, f);
    return found;
}

static u64 result_of(const struct stretch *s, i64 record) { return UINT64_C(1) << operand_at(s, record, 0); }

/* One pass; what is live where a loop's body begins is known from the pass before. Returns what is live at the beginning. */
static u64 backward(const struct stretch *s, u8 flag, u64 *at_begin, u64 *behind, u8 *scalars) {
    u64 live = 0;
    for (i64 i = s->end - 1; i >= s->first; i--) {
        const struct timed_kind *const kind = kind_at(s, i);
        const i64 k = i - s->first, other = s->partners[i] - s->first;
        switch ((enum timed_op)kind->op) {
        case TIMED_SCALAR:
            scalars[k] = (live & result_of(s, i)) != 0;
            if (!scalars[k]) continue;
            live &= ~result_of(s, i);
            break;
        case TIMED_END: case TIMED_JOIN:
            behind[k] = live;
            live |= at_begin[other];
            break;
        case TIMED_LOOP:
            at_begin[k] = live;
            live = (live & ~result_of(s, i)) | behind[other];
            break;
        case TIMED_IF: case TIMED_EXIT: live |= behind[other]; break;
        default: break;
        }
        live |= registers_of(s, i, kind->op == TIMED_SCALAR ? FIELD_IS_SOURCE : flag);
    }
    return live;
}

/* The scalars that operands with this flag may be made of. */
void find_needed(const struct stretch *s, u8 flag, struct needed *found) {
    const size_t num = (size_t)(s->end - s->first);
    u64 *const at_begin = calloc(3 * num + 1, sizeof(u64)), *const behind = at_begin + num, *const seen = behind + num;
    u64 live;
    do {
        memcpy(seen, at_begin, num * sizeof(u64));
        live = backward(s, flag, at_begin, behind, found->scalars);
    } while (memcmp(seen, at_begin, num * sizeof(u64)));
    found->live_in = live & ~ALWAYS_SET;
    for (i64 i = s->first; i < s->end; i++) {
        if (kind_at(s, i)->op != TIMED_LOOP) continue;
        u64 is_set = 0;
        for (i64 k = i + 1; k < s->partners[i]; k++)
            if (found->scalars[k - s->first] || kind_at(s, k)->op == TIMED_LOOP) is_set |= result_of(s, k);
        found->carried[i - s->first] = at_begin[i - s->first] & ~result_of(s, i) & is_set;
    }
    free(at_begin);
}
