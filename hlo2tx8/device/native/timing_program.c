/* The time of an encoded program: records are checked, stretches between barriers followed once however often they occur. See
 * timing/model.py, which is what this has to equal. */
#include <stdlib.h>

#include "timing_model.h"

#define HEAD_BITS 0xFFFFFFFFFF /* without the engine */
#define ENGINE_QUEUES ((UINT64_C(1) << QUEUED_ENGINES) - 1)

/* What every record is, and do its registers exist? */
static int find_kinds(const struct timing *t, i32 *kind_of) {
    i64 k = 0;
    for (i64 i = 0; i < t->num_records; i++) {
        const u64 *const words = t->words + i * RECORD_WORDS, head = words[0] & HEAD_BITS;
        for (i64 tried = 0; t->kinds[k].head != head; tried++) {
            if (tried == t->num_kinds) return 0;
            k = k + 1 == t->num_kinds ? 0 : k + 1;
        }
        kind_of[i] = (i32)k;
        for (int f = 0; f < OPERAND_WORDS; f++) {
            const int is_number = f < t->kinds[k].num_fields && t->kinds[k].flags[f] & FIELD_IS_NUMBER;
            if ((is_number || words[1] >> f & 1) && words[HEADER_WORDS + f] >= TIMED_REGISTERS) return 0;
        }
    }
    return 1;
}

/* The other end of every block; of an exit, the end of its loop. Do blocks nest? */
static int find_partners(const struct timing *t, const i32 *kind_of, i32 *partners) {
    i32 open[MAX_FRAMES];
    int depth = 0;
    for (i32 i = 0; i < t->num_records; i++) {
        const int op = t->kinds[kind_of[i]].op;
        partners[i] = 0;
        if (op == TIMED_LOOP || op == TIMED_IF) {
            if (depth == MAX_FRAMES) return 0;
            open[depth++] = i;
        } else if (op == TIMED_EXIT) {
            if (!depth || t->kinds[kind_of[open[depth - 1]]].op != TIMED_LOOP) return 0;
            partners[i] = open[depth - 1];
        } else if (op == TIMED_END || op == TIMED_JOIN) {
            if (!depth || t->kinds[kind_of[open[depth - 1]]].op != (op == TIMED_END ? TIMED_LOOP : TIMED_IF)) return 0;
            partners[i] = open[--depth], partners[open[depth]] = i;
        }
    }
    for (i64 i = 0; i < t->num_records; i++)
        if (t->kinds[kind_of[i]].op == TIMED_EXIT) partners[i] = partners[partners[i]];
    return depth == 0;
}

static int waits_for_all(const struct timing *t, const i32 *kind_of, i64 i) {
    const u64 *const words = t->words + i * RECORD_WORDS;
    return t->kinds[kind_of[i]].op == TIMED_WAIT && !words[1] && (words[HEADER_WORDS] & ENGINE_QUEUES) == ENGINE_QUEUES;
}

/* Parts end behind barriers outside of blocks before which every engine is waited for, unless nothing happens behind. */
static void cut(struct timing *t, const i32 *kind_of) {
    i64 last = t->num_records, depth = 0, first = 0;
    while (last && (t->kinds[kind_of[last - 1]].op == TIMED_WAIT || t->kinds[kind_of[last - 1]].op == TIMED_HALT)) last--;
    t->num_parts = 0;
    for (i64 i = 1; i < last; i++) {
        const int before = t->kinds[kind_of[i - 1]].op, op = t->kinds[kind_of[i]].op;
        depth += (before == TIMED_LOOP || before == TIMED_IF) - (before == TIMED_END || before == TIMED_JOIN);
        if (op != TIMED_BARRIER || depth || i + 1 == last || !waits_for_all(t, kind_of, i - 1)) continue;
        if (t->num_parts + 1 == t->most_parts) break;
        t->parts[t->num_parts++] = (struct timed_part){.first = first, .end = i + 1};
        first = i + 1;
    }
    t->parts[t->num_parts++] = (struct timed_part){.first = first, .end = t->num_records};
}

/* What a record loads may differ each time it does. */
static int loads(const struct timing *t, const i32 *kind_of, i64 i) {
    const struct timed_kind *const kind = t->kinds + kind_of[i];
    return t->decisions && kind->op == TIMED_SCALAR && kind->fold == FOLD_UNKNOWN;
}

/* Do records differ in nothing but origins, partners of blocks, DDR slots and offsets? */
static int is_same(const struct timing *t, const i32 *kind_of, i64 a, i64 b) {
    const u64 *const one = t->words + a * RECORD_WORDS, *const other = t->words + b * RECORD_WORDS;
    const struct timed_kind *const kind = t->kinds + kind_of[a];
    if (kind_of[a] != kind_of[b] || loads(t, kind_of, a) || one[1] != other[1]) return 0;
    for (int f = 0; f < kind->num_fields; f++)
        if (one[HEADER_WORDS + f] != other[HEADER_WORDS + f] && !(kind->flags[f] & FIELD_IS_PLACE)) return 0;
    return 1;
}

/* Of all that is_same compares. */
static u64 hash_of(const struct timing *t, const i32 *kind_of, const struct timed_part *part) {
    u64 hash = (u64)(part->end - part->first);
    for (i64 i = part->first; i < part->end; i++) {
        const u64 *const words = t->words + i * RECORD_WORDS;
        const struct timed_kind *const kind = t->kinds + kind_of[i];
        hash = (hash ^ (u64)kind_of[i] ^ words[1] << 16) * UINT64_C(0x9E3779B97F4A7C15);
        for (int f = 0; f < kind->num_fields; f++)
            if (!(kind->flags[f] & FIELD_IS_PLACE)) hash = ((hash ^ words[HEADER_WORDS + f]) * UINT64_C(0x9E3779B97F4A7C15)) ^ hash >> 29;
    }
    return hash;
}

static void find_equals(struct timing *t, const i32 *kind_of) {
    u64 *const hashes = malloc((size_t)t->num_parts * sizeof *hashes);
    for (i64 p = 0; p < t->num_parts; p++) {
        struct timed_part *const part = t->parts + p;
        hashes[p] = hash_of(t, kind_of, part);
        part->same_as = p;
        for (i64 q = 0; q < p && part->same_as == p; q++) {
            const i64 size = t->parts[q].end - t->parts[q].first;
            i64 i = 0;
            if (hashes[q] != hashes[p] || t->parts[q].same_as != q || size != part->end - part->first) continue;
            while (i < size && is_same(t, kind_of, t->parts[q].first + i, part->first + i)) i++;
            if (i == size) part->same_as = q;
        }
    }
    free(hashes);
}

/* Steps of every part; of one part that is all if registers live from one to the next. */
static void make_parts(struct timing *t, struct stretch *stretches, const struct stretch *empty) {
    u64 live_in = 0;
    for (i64 p = 0; p < t->num_parts; p++) {
        stretches[p] = *empty;
        const i64 same = t->parts[p].same_as;
        if (same == p) make_steps(stretches + p, t->parts[p].first, t->parts[p].end);
        if (p) live_in |= stretches[same].live_in;
    }
    if (!live_in) return;
    for (i64 p = 0; p < t->num_parts; p++) drop_steps(stretches + p);
    t->parts[0] = (struct timed_part){.end = t->num_records}, t->num_parts = 1;
    stretches[0] = *empty;
    make_steps(stretches, 0, t->num_records);
}

/* Runs all tiles from cycle 0; not 0 if this cannot, and then what it wrote means nothing. */
EXPORTED int tx8_time_program(struct timing *t) {
    if (t->per_record != PER_RECORD || t->per_tile != PER_TILE || t->kind_bytes != sizeof(struct timed_kind)) return 1;
    if (t->chip.tiles < 1 || t->chip.tiles > MAX_TIMED_TILES || t->chip.queue_depth < 1 || t->chip.queue_depth >= MAX_QUEUE) return 1;
    i32 *const kind_of = malloc((2 * (size_t)t->num_records + 1) * sizeof *kind_of), *const partners = kind_of + t->num_records;
    int failed = !find_kinds(t, kind_of) || !find_partners(t, kind_of, partners);
    if (!failed) {
        cut(t, kind_of);
        find_equals(t, kind_of);
        struct stretch *const stretches = malloc((size_t)t->num_parts * sizeof *stretches);
        make_parts(t, stretches, &(struct stretch){.t = t, .kind_of = kind_of, .partners = partners});
        const i64 num_parts = t->num_parts;
        failed = time_stretches(t, stretches);
        for (i64 p = 0; p < num_parts; p++) drop_steps(stretches + p);
        free(stretches);
    }
    free(kind_of);
    return failed;
}
