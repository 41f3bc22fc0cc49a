/* DTE: copies between a tile's SPM and another's. Barriers order them, and tiles have settled their loads there. */
#include "core.h"

/* As spm_range in the SPM of tile `number`, which other tiles may reach at the same time. */
static u8 *remote_range(struct context *c, i64 number, i64 address, i64 n, i64 bytes) {
    const i64 end = spm_end(c, address, n, bytes);
    if (end < 0) return NULL;
    struct tile *const t = c->machine->tiles + number;
    i64 seen = __atomic_load_n(&t->remote_used, __ATOMIC_RELAXED);
    while (seen < end && !__atomic_compare_exchange_n(&t->remote_used, &seen, end, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
    return t->spm + address;
}

/* 0, or the fault of naming a tile that does not exist or itself. */
static int check_tile(struct context *c, i64 number) {
    if (number < 0) return fail(c, FAULT_BAD_DESCRIPTOR, "tile %lld", (long long)number);
    if (number >= c->machine->num_tiles) return fail(c, FAULT_OUT_OF_BOUNDS, "no tile %lld", (long long)number);
    if (number == c->tile - c->machine->tiles) return fail(c, FAULT_BAD_DESCRIPTOR, "tile %lld names itself", (long long)number);
    return 0;
}

static int run_send(struct context *c) {
    const i64 bytes = c->step->bytes, n = operand(c, DTE_UNICAST__N), to = operand(c, DTE_UNICAST__TILE), address = operand(c, DTE_UNICAST__DST);
    const int is_unicast = c->step->opcode == OP_DTE_UNICAST;
    if (n < 0) return fail(c, FAULT_BAD_DESCRIPTOR, "element count %lld", (long long)n);
    if (!is_unicast && (!to || __builtin_popcountll((u64)to) > DTE_MOST_DESTINATIONS)) return fail(c, FAULT_BAD_DESCRIPTOR, "tiles %#llx", (long long)to);
    if (is_unicast && to < 0) return check_tile(c, to);
    const i64 first = is_unicast ? to : 0, last = is_unicast ? to : MAX_TILES - 1;
    for (i64 t = first; t <= last; t++) {
        const int fault = is_unicast || to >> t & 1 ? check_tile(c, t) : 0;
        if (fault) return fault;
    }
    if (!remote_range(c, first, address, n, bytes)) return (int)c->tile->fault.kind;
    const u8 *const src = spm_range(c, operand(c, DTE_UNICAST__SRC), n, bytes);
    if (!src) return (int)c->tile->fault.kind;
    for (i64 t = first; t <= last; t++)
        if (is_unicast || to >> t & 1) memcpy(remote_range(c, t, address, n, bytes), src, (size_t)(n * bytes));
    return 0;
}

static int run_gather(struct context *c) {
    const i64 bytes = c->step->bytes, from = operand(c, DTE_GATHER__TILE), run = operand(c, DTE_GATHER__COUNT);
    i64 strides[LEVELS] = {0}, turns[LEVELS] = {0};
    int fault = read_levels(c, DTE_GATHER__S1, LEVELS, strides, turns);
    if (fault) return fault;
    if (run <= 0) return fail(c, FAULT_BAD_DESCRIPTOR, "element count %lld", (long long)run);
    fault = check_tile(c, from);
    if (fault) return fault;
    const i64 total = box_product(turns, LEVELS, run), elements = box_extent(strides, turns, LEVELS, run);
    u8 *const dst = spm_range(c, operand(c, DTE_GATHER__DST), total < 0 ? INT64_MAX / 16 : total, bytes);
    const u8 *const src = dst ? remote_range(c, from, operand(c, DTE_GATHER__SRC), elements < 0 ? INT64_MAX / 16 : elements, bytes) : NULL;
    if (!src) return (int)c->tile->fault.kind;
    struct level levels[LEVELS];
    i64 dense = run * bytes;
    for (int i = 0; i < LEVELS; i++) {
        levels[i] = (struct level){turns[i], dense, strides[i] * bytes};
        dense *= turns[i];
    }
    copy_levels(dst, src, run * bytes, levels, LEVELS);
    return 0;
}

int execute_remote(struct context *c) { return c->step->form == FORM_REMOTE_SEND ? run_send(c) : run_gather(c); }
