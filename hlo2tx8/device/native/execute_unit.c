/* VuV and VuV_loop: the second operand is a unit of up to 64 elements, repeated along a round of the first; each round has its own. */
#include "core.h"

#define KEPT_REGION 2 /* of the scratch, for all units of a loop that it overwrites */

static int is_round(i64 n, i64 u, i64 full_n, i64 full_u) {
    return u == UNIT_ELEMENTS && n > 0 && full_n >= 0 && (__int128)full_n * u == (__int128)full_u * n && full_n % n == 0;
}

/* As many whole turns of a unit as 64 elements take, in a place at the end of the scratch that is this record's within a chain. */
static const u8 *repeat_unit(struct context *c, const u8 *unit, i64 u, i64 bytes) {
    u8 *const repeated = c->scratch + scratch_bytes(c->machine) - UNIT_ELEMENTS * 8 * ++c->num_units;
    for (i64 i = 0; i < UNIT_ELEMENTS / u; i++) memcpy(repeated + i * u * bytes, unit, (size_t)(u * bytes));
    return repeated;
}

void use_unit(struct context *c, struct link *k, const u8 *unit, i64 u, i64 round) {
    k->unit = unit, k->u = u, k->round = round;
    if (u == UNIT_ELEMENTS) return;
    k->unit = repeat_unit(c, unit, u, c->step->bytes);
    k->u = UNIT_ELEMENTS / u * u;
}

int resolve_unit(struct context *c, struct link *k, int in_place) {
    const int is_loop = c->step->form == FORM_UNIT_LOOP;
    const i64 bytes = c->step->bytes, n = operand(c, CT_ADD_VU_V__N), u = operand(c, CT_ADD_VU_V__U);
    const i64 full_n = is_loop ? operand(c, CT_ADD_VU_VLOOP__FULL_N) : n, full_u = is_loop ? operand(c, CT_ADD_VU_VLOOP__FULL_U) : u;
    if (u < 1 || u > UNIT_ELEMENTS) return fail(c, FAULT_BAD_DESCRIPTOR, "unit of %lld elements", (long long)u);
    if (is_loop && !is_round(n, u, full_n, full_u)) {
        return fail(c, FAULT_BAD_DESCRIPTOR, "VuV_loop of %lld/%lld in %lld/%lld", (long long)n, (long long)u, (long long)full_n, (long long)full_u);
    }
    const u8 *units = spm_range(c, operand(c, CT_ADD_VU_V__UNIT), full_u, bytes);
    if (!units) return (int)c->tile->fault.kind;
    if (!in_place && is_deferred(c->tile, units, full_u * bytes)) return -1; /* links before it may read what a load replaces */
    settle_range(c->tile, units, full_u * bytes);
    const int fault = resolve_pair_from(c, k, full_n, in_place);
    if (fault) return fault;
    const i64 units_bytes = full_u * bytes;
    const int is_apart = k->target + full_n * bytes <= units || units + units_bytes <= k->target;
    k->whole = units, k->whole_bytes = units_bytes;
    if (!is_apart || (uintptr_t)units % (uintptr_t)bytes) {
        units = memcpy(region_of(c, KEPT_REGION), units, (size_t)units_bytes);
        k->is_plain = 0;
    }
    use_unit(c, k, units, u, is_loop ? n : INT64_MAX);
    return 0;
}

void apply_unit(const struct link *k, u8 *dst, const u8 *a, i64 at, i64 n) {
    const struct step *const s = k->step;
    const i64 bytes = s->bytes;
    const int is_quick = s->other && k->u == UNIT_ELEMENTS;
    for (i64 count; n > 0; n -= count, at += count, dst += count * bytes, a += count * bytes) {
        const i64 round = at < k->round ? 0 : (i64)((u32)at / (u32)k->round), within = at - round * k->round, from = (i64)((u32)within % (u32)k->u);
        const u8 *const unit = k->unit + (round * k->u + from) * bytes;
        count = k->round - within < n ? k->round - within : n;
        if (is_quick && from == 0) {
            if (k->pair) k->pair(dst, a, unit, k->third + turned(at, k->third_turn, bytes), count);
            else s->other(dst, a, unit, count);
            continue;
        }
        count = count < k->u - from ? count : k->u - from;
        s->kernel.binary(dst, a, unit, count);
    }
}
