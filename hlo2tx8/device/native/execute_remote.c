/* DTE: copies between a tile's SPM and another's. Barriers order them.
 *
 * What a tile sends that it has put off to load is not copied either: a letter says where it is in DDR, and the receiver puts the load off when
 * the next phase begins. What the receiver may have put off where the bytes go was put off before this phase, and it may still copy it there: then
 * they go into a letter too. Only a tile itself touches what it has put off; what others need to know of it stands still for a phase.
 */
#include <stdlib.h>

#include "core.h"

#define WORTH_BYTES 4096

enum letter_kind { LETTER_BOX, LETTER_LOAD, LETTER_BYTES };

/* To the tiles of a mask, for `bytes` of their SPM from `first` on. */
struct letter {
    enum letter_kind kind;
    u64 tiles;
    i64 first, bytes;
    union {
        struct box_load box;
        struct deferred_load load;
        u8 *copied;
    } as;
};

static struct letter *add_letter(struct mail *mail) {
    if (mail->num == mail->room) {
        struct letter *const more = realloc(mail->rows, (size_t)(2 * mail->room + 16) * sizeof *more);
        if (!more) return NULL;
        mail->rows = more, mail->room = 2 * mail->room + 16;
    }
    return mail->rows + mail->num++;
}

void forget_mail(struct tile *t) {
    for (int turn = 0; turn < 2; turn++) {
        for (i64 i = 0; i < t->sent[turn].num; i++)
            if (t->sent[turn].rows[i].kind == LETTER_BYTES) free(t->sent[turn].rows[i].as.copied);
        t->sent[turn].num = 0, t->pending[turn].num = 0;
    }
}

/* The tiles of a mask that letters are for which meet a range. */
static u64 met_by(const struct mail *mail, u64 tiles, i64 first, i64 end) {
    u64 met = 0;
    for (i64 i = 0; i < mail->num; i++)
        if (mail->rows[i].first < end && first < mail->rows[i].first + mail->rows[i].bytes) met |= mail->rows[i].tiles & tiles;
    return met;
}

/* The tiles of a mask whose SPM may not be written now: they have put off, or are about to, what meets the range. */
static u64 held_by(const struct machine *m, const struct tile *from, u64 tiles, i64 first, i64 end) {
    const int turn = from->num_phases & 1;
    u64 held = met_by(from->sent + turn, tiles, first, end);
    for (int i = 0; i < m->num_tiles; i++) {
        held |= met_by(m->tiles[i].sent + !turn, tiles, first, end);
        if (!(tiles >> i & 1)) continue;
        const struct pending *const p = m->tiles[i].pending + turn;
        for (i64 k = 0; k < p->num; k++)
            if (p->ranges[k].first < end && first < p->ranges[k].end) held |= UINT64_C(1) << i;
    }
    return held;
}

void post_pending(struct tile *t, int turn) {
    struct pending *const p = t->pending + turn;
    p->num = 0;
    for (int i = 0; i < t->num_deferred; i++, p->num++)
        p->ranges[p->num].first = t->deferred[i].dst - t->spm, p->ranges[p->num].end = p->ranges[p->num].first + t->deferred[i].bytes;
    for (int i = 0; i < t->num_boxes; i++, p->num++) p->ranges[p->num].first = t->in_spm.first[i], p->ranges[p->num].end = t->in_spm.end[i];
}

/* In the place of what was there. */
static void read_letter(struct tile *t, const struct letter *l) {
    u8 *const start = t->spm + l->first;
    struct box_load box;
    struct deferred_load load;
    if (!overwrite_loads(t, start, l->bytes)) settle_range(t, start, l->bytes);
    overwrite_boxes(t, start, l->bytes);
    forget_repeats(t, start, l->bytes);
    switch (l->kind) {
    case LETTER_BOX: box = l->as.box, box.dst = start, add_box(t, &box); return;
    case LETTER_LOAD: load = l->as.load, load.dst = start, add_load(t, &load); return;
    default: reach_spm(t, l->first, l->first + l->bytes), memcpy(start, l->as.copied, (size_t)l->bytes);
    }
}

void deliver(struct machine *m, struct tile *t) {
    const int turn = t->num_phases & 1, number = (int)(t - m->tiles);
    for (int i = 0; i < m->num_tiles; i++) {
        const struct mail *const mail = m->tiles[i].sent + !turn;
        for (i64 k = 0; k < mail->num; k++)
            if (mail->rows[k].tiles >> number & 1) read_letter(t, mail->rows + k);
    }
    if (may_send(m, t->phase)) t->num_repeats = 0;
    struct mail *const own = t->sent + turn; /* everybody read it where the last phase began */
    for (i64 k = 0; k < own->num; k++)
        if (own->rows[k].kind == LETTER_BYTES) free(own->rows[k].as.copied);
    own->num = 0;
}

/* Sends what is put off as it is: 1 if that was all that is to be sent. */
static int send_pending(struct context *c, u64 tiles, i64 first, const u8 *src, i64 bytes) {
    const struct tile *const t = c->tile;
    struct letter letter = {.tiles = tiles, .first = first, .bytes = bytes};
    i64 slot = -1;
    for (int i = 0; i < t->num_boxes; i++)
        if (t->boxes[i].dst == src && t->boxes[i].bytes == bytes) letter.kind = LETTER_BOX, letter.as.box = t->boxes[i], slot = t->boxes[i].slot;
    for (int i = 0; i < t->num_deferred; i++) {
        const struct deferred_load *const d = t->deferred + i;
        if (d->dst > src || src + bytes > d->dst + d->bytes) continue;
        letter.kind = LETTER_LOAD, slot = d->slot;
        letter.as.load = (struct deferred_load){NULL, d->src + (src - d->dst), bytes, slot};
    }
    if (slot < 0 || changes_soon(c->machine, t->phase, slot)) return 0;
    struct letter *const sent = add_letter(c->tile->sent + (t->num_phases & 1));
    if (sent) *sent = letter;
    return sent != NULL;
}

/* Tiles of a mask get a copy. */
static int send_bytes(struct context *c, u64 tiles, i64 first, const u8 *src, i64 bytes) {
    u8 *const copied = malloc((size_t)bytes);
    struct letter *const sent = copied ? add_letter(c->tile->sent + (c->tile->num_phases & 1)) : NULL;
    if (!sent) {
        free(copied);
        return fail(c, FAULT_RUNAWAY, "no memory for %lld bytes on their way", (long long)bytes);
    }
    *sent = (struct letter){LETTER_BYTES, tiles, first, bytes, {.copied = memcpy(copied, src, (size_t)bytes)}};
    return 0;
}


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
    const u64 tiles = is_unicast ? UINT64_C(1) << to : (u64)to;
    const i64 size = n * bytes;
    const int is_stream = c->machine->own_code != NULL, may_put_off = !is_stream && size >= WORTH_BYTES && !c->machine->keeps_status;
    c->only_notes = c->knows_deferred = c->knows_boxes = may_put_off;
    const u8 *src = spm_range(c, operand(c, DTE_UNICAST__SRC), n, bytes);
    c->only_notes = c->knows_deferred = c->knows_boxes = 0;
    if (!src) return (int)c->tile->fault.kind;
    if (may_put_off) {
        if (send_pending(c, tiles, address, src, size)) return 0;
        src = spm_range(c, operand(c, DTE_UNICAST__SRC), n, bytes);
    }
    const u64 held = is_stream ? 0 : held_by(c->machine, c->tile, tiles, address, address + size);
    if (held && send_bytes(c, held, address, src, size)) return (int)c->tile->fault.kind;
    for (i64 t = first; t <= last; t++)
        if ((tiles & ~held) >> t & 1) memcpy(remote_range(c, t, address, n, bytes), src, (size_t)size);
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
