/* Strided loads put off: an RDMA of a box only notes where SPM's bytes are in DDR. The matrix engine packs its operands from there, TDMA
 * gathers from there and WDMA copies from there; the copy in SPM is made only if something else reads it.
 *
 * As in deferred.c SPM reads as if every noted load had been copied: whoever asks for a range of SPM has the boxes there copied first,
 * unless it knows of them. No two boxes, and no box and dense load, overlap in SPM.
 */
#include "blocked.h"

#define WARM_BYTES (1 << 15)
#define FAR_BYTES (1 << 22) /* slots from here on are not in the host's caches */

static void settle(struct tile *t, const struct box_load *b) {
    reach_spm(t, b->dst - t->spm, b->dst - t->spm + b->bytes);
    struct level levels[LEVELS];
    memcpy(levels, b->levels, sizeof levels);
    load_levels(b->dst, b->src, b->run, levels, LEVELS);
}

/* Are a box's runs one behind the other in SPM, in rows of a first level and blocks of a second one? */
static int is_of_rows(const struct box_load *b) {
    const i64 block = b->run * b->levels[0].n;
    return b->levels[2].n == 1 && (b->levels[0].n == 1 || b->levels[0].dst == b->run) && (b->levels[1].n == 1 || b->levels[1].dst == block);
}

static const u8 *row_of(const struct box_load *b, i64 row) {
    return b->src + row % b->levels[0].n * b->levels[0].src + row / b->levels[0].n * b->levels[1].src;
}

/* There is room. */
static void put_off(struct tile *t, const struct box_load *b) {
    const int i = t->num_boxes++;
    t->boxes[i] = *b;
    t->in_spm.first[i] = b->dst - t->spm, t->in_spm.end[i] = t->in_spm.first[i] + b->bytes;
    t->in_ddr.first[i] = (i64)(uintptr_t)b->src, t->in_ddr.end[i] = t->in_ddr.first[i] + b->src_bytes;
    t->slots[i] = (i32)b->slot;
}

/* The last one takes its place. */
static void forget_box(struct tile *t, int i) {
    const int last = --t->num_boxes;
    if (i == last) return;
    t->boxes[i] = t->boxes[last], t->slots[i] = t->slots[last];
    t->in_spm.first[i] = t->in_spm.first[last], t->in_spm.end[i] = t->in_spm.end[last];
    t->in_ddr.first[i] = t->in_ddr.first[last], t->in_ddr.end[i] = t->in_ddr.end[last];
}

static struct box_load take_box(struct tile *t, int i) {
    const struct box_load taken = t->boxes[i];
    forget_box(t, i);
    return taken;
}

/* Puts rows [first, end) of a box off as they were: what is left of blocks on both sides, and whole blocks. */
static void keep_rows(struct tile *t, const struct box_load *b, i64 first, i64 end) {
    const i64 rows = b->levels[0].n;
    for (i64 next; first < end; first = next) {
        const i64 left = rows - first % rows;
        next = first % rows == 0 && end - first >= rows ? end / rows * rows : end - first < left ? end : first + left;
        struct box_load part = *b;
        part.dst += first * b->run, part.src = row_of(b, first), part.bytes = (next - first) * b->run;
        if (next - first < rows) part.levels[0].n = next - first, part.levels[1].n = 1;
        else part.levels[1].n = (next - first) / rows;
        part.src_bytes = part.run + (part.levels[0].n - 1) * part.levels[0].src + (part.levels[1].n - 1) * part.levels[1].src;
        if (t->num_boxes < MAX_BOXES) put_off(t, &part);
        else settle(t, &part);
    }
}

/* Puts off what is left of a box of which bytes [start, end) are overwritten; of rows that are overwritten in part the rest is copied. */
static void cut(struct tile *t, const struct box_load *b, i64 start, i64 end) {
    if (start < 0) start = 0;
    if (end > b->bytes) end = b->bytes;
    const i64 first = start / b->run, last = (end + b->run - 1) / b->run, before = start - first * b->run, behind = last * b->run - end;
    if (before || behind) reach_spm(t, b->dst + first * b->run - t->spm, b->dst + last * b->run - t->spm);
    memcpy(b->dst + start - before, row_of(b, first), (size_t)before);
    memcpy(b->dst + end, row_of(b, last - 1) + b->run - behind, (size_t)behind);
    keep_rows(t, b, 0, first);
    keep_rows(t, b, last, b->bytes / b->run);
}

/* Forgets the boxes that meet [start, start + bytes) of SPM, or of what they read, and copies first what is not overwritten. */
static void remove_boxes(struct tile *t, const u8 *start, i64 bytes, int is_source, int is_overwritten) {
    struct box_load met[MAX_BOXES];
    int num = 0;
    if (!(is_source ? meets_sources(t, start, bytes) : meets_boxes(t, start, bytes))) return;
    const i64 *const first = is_source ? t->in_ddr.first : t->in_spm.first, *const end = is_source ? t->in_ddr.end : t->in_spm.end;
    const i64 from = is_source ? (i64)(uintptr_t)start : start - t->spm;
    for (int i = 0; i < t->num_boxes;) {
        if (first[i] >= from + bytes || from >= end[i]) i++;
        else if (is_overwritten && from <= first[i] && end[i] <= from + bytes) forget_box(t, i); /* nothing is left of it, which most are */
        else met[num++] = take_box(t, i);
    }
    for (int i = 0; i < num; i++) {
        if (is_overwritten && is_of_rows(met + i)) cut(t, met + i, start - met[i].dst, start + bytes - met[i].dst);
        else settle(t, met + i);
    }
}

void settle_boxes(struct tile *t, const u8 *start, i64 bytes) { remove_boxes(t, start, bytes, 0, 0); }
void settle_box_sources(struct tile *t, const u8 *start, i64 bytes) { remove_boxes(t, start, bytes, 1, 0); }
void overwrite_boxes(struct tile *t, const u8 *start, i64 bytes) { remove_boxes(t, start, bytes, 0, 1); }

void settle_changing_boxes(struct machine *m, struct tile *t, i64 phase) {
    const int is_read = may_gather(m, phase);
    for (int i = 0; i < t->num_boxes;) {
        if (is_read || changes(m, phase, t->slots[i])) {
            const struct box_load changing = take_box(t, i);
            settle(t, &changing);
        } else {
            i++;
        }
    }
}

/* Without room one is copied that was put off long ago, most likely. */
void add_box(struct tile *t, const struct box_load *box) {
    if (t->num_boxes == MAX_BOXES) {
        const struct box_load first = take_box(t, 0);
        settle(t, &first);
    }
    put_off(t, box);
}

/* Asks the host for a box that will be read soon. */
static void ask_for(const struct box_load *b) {
    for (i64 k = 0; k < b->levels[2].n; k++)
        for (i64 j = 0; j < b->levels[1].n; j++)
            for (i64 i = 0; i < b->levels[0].n; i++) {
                const u8 *const run = b->src + i * b->levels[0].src + j * b->levels[1].src + k * b->levels[2].src;
                for (i64 at = 0; at < b->run; at += LINE_BYTES) __builtin_prefetch(run + at, 0, 2);
            }
}

int defer_box(struct context *c) {
    struct tile *const t = c->tile;
    struct box_load box;
    c->only_notes = 1;
    const int is_other = resolve_box(c, &box); /* a fault is met again by who executes the record */
    c->only_notes = 0;
    if (is_other) return 0;
    if (!overwrite_loads(t, box.dst, box.bytes)) settle_range(t, box.dst, box.bytes);
    add_box(t, &box);
    if (box.bytes <= WARM_BYTES && c->machine->slots[operand(c, RDMA__SLOT)].size >= FAR_BYTES) ask_for(&box);
    return 1;
}

/* Rows of a tensor that lie evenly apart in DDR, all of one block: from `point` on. */
struct rows {
    i64 block, point, num, apart;
    const u8 *src;
};
#define MOST_ROWS 64

static int is_before(const struct rows *a, const struct rows *b) { return a->block < b->block || (a->block == b->block && a->point < b->point); }

static void swap_rows(struct rows *a, struct rows *b) {
    const struct rows other = *a;
    *a = *b, *b = other;
}

static int is_of_all_rows(const struct box_load *b) {
    const i64 line = b->run * b->levels[0].n, block = line * b->levels[1].n;
    return (b->levels[0].n == 1 || b->levels[0].dst == b->run) && (b->levels[1].n == 1 || b->levels[1].dst == line) &&
           (b->levels[2].n == 1 || b->levels[2].dst == block);
}

/* A box's part of a tensor of `all` rows, `points` a block, of which row `first` is the box's first one, which may lie before; how many rows[] it
 * takes, or -1. */
static int cut_rows(const struct box_load *b, i64 first, i64 points, i64 all, struct rows *rows, int room) {
    const i64 last = b->bytes / b->run, end = all - first < last ? all - first : last, line = b->levels[0].n, lines = b->levels[1].n;
    int num = 0;
    for (i64 r = first < 0 ? -first : 0, next; r < end; r = next) {
        const i64 point = (first + r) % points, in_line = line - r % line, in_block = points - point, at = r / line;
        next = r + (in_line < in_block ? in_line : in_block);
        if (next > end) next = end;
        if (num == room) return -1;
        const u8 *const src = b->src + r % line * b->levels[0].src + at % lines * b->levels[1].src + at / lines * b->levels[2].src;
        rows[num++] = (struct rows){(first + r) / points, point, next - r, b->levels[0].src, src};
    }
    return num;
}

static const u8 *place_of(const struct placed *p, const struct rows *r) { return p->data + placed_offset(p, r->point) + r->block * p->block_bytes; }

/* Are all rows of a tensor where `found` says? In pieces of so many points, or 0; what it says is found out first. */
static int lie_evenly(const struct rows *rows, int num, i64 piece_points, struct placed *found) {
    *found = (struct placed){.piece_points = piece_points};
    for (int i = 0; i < num; i++)
        if (rows[i].num > 1) found->point_bytes = rows[i].apart;
    found->data = rows[0].src;
    const struct rows *piece = NULL, *block = NULL; /* one further on in the first row's block, and one in another block at the same point */
    for (int i = 1; i < num; i++) {
        if (piece_points && rows[i].block == rows[0].block && rows[i].point / piece_points > rows[0].point / piece_points) piece = rows + i;
        if (rows[i].block > rows[0].block && rows[i].point == rows[0].point) block = rows + i;
    }
    if (piece) {
        const i64 pieces = piece->point / piece_points - rows[0].point / piece_points;
        const i64 within = (piece->point % piece_points - rows[0].point % piece_points) * found->point_bytes;
        found->piece_bytes = (piece->src - rows[0].src - within) / pieces;
    }
    if (block) found->block_bytes = (block->src - rows[0].src) / (block->block - rows[0].block);
    found->data -= placed_offset(found, rows[0].point) + rows[0].block * found->block_bytes;
    if (found->point_bytes <= 0 || found->piece_bytes < 0) return 0;
    for (int i = 0; i < num; i++) {
        const i64 last = rows[i].point + rows[i].num - 1;
        if (rows[i].num > 1 && rows[i].apart != found->point_bytes) return 0;
        if (piece_points && rows[i].point / piece_points != last / piece_points) return 0;
        if (rows[i].src != place_of(found, rows + i)) return 0;
    }
    return 1;
}

int find_boxes(const struct tile *t, const u8 *dst, const struct blocked *l, int takes_parts, struct placed *found) {
    if (l->batch > 1 || (l->tail && l->num_blocks) || is_deferred(t, dst, l->size)) return 0;
    const i64 run = (l->tail ? l->tail : l->width) * l->bytes;
    struct rows rows[MOST_ROWS];
    i64 bytes = 0;
    int num = 0;
    for (int i = 0; i < t->num_boxes; i++) {
        const struct box_load *const b = t->boxes + i;
        if (t->in_spm.first[i] >= dst - t->spm + l->size || dst - t->spm >= t->in_spm.end[i]) continue;
        if (b->run != run || (b->dst - dst) % run || !is_of_all_rows(b)) return 0;
        if (!takes_parts && (b->dst < dst || b->dst + b->bytes > dst + l->size)) return 0;
        const int more = cut_rows(b, (b->dst - dst) / run, l->points, l->size / run, rows + num, MOST_ROWS - num);
        if (more < 0) return 0;
        num += more;
    }
    for (int i = 0; i < num; i++) {
        bytes += rows[i].num * run;
        if (is_before(rows + i, rows)) swap_rows(rows + i, rows);
    }
    if (!num || bytes != l->size) return 0;
    i64 piece = rows[0].num;
    for (int i = 1; i < num; i++) piece = rows[i].num > piece ? rows[i].num : piece;
    return lie_evenly(rows, num, 0, found) || lie_evenly(rows, num, piece, found);
}

/* The box that holds all of [start, start + bytes), and no other meets it; NULL if there is none. */
static const struct box_load *holder(const struct tile *t, const u8 *start, i64 bytes) {
    for (int i = 0; i < t->num_boxes; i++) {
        const struct box_load *const b = t->boxes + i;
        if (b->dst <= start && start + bytes <= b->dst + b->bytes) return b;
    }
    return NULL;
}

const u8 *read_box(const struct tile *t, const u8 *src, i64 run, i64 bytes, struct level *levels, int num) {
    const struct box_load *const b = holder(t, src, bytes);
    if (!b || b->levels[1].n > 1 || b->levels[2].n > 1) return NULL;
    const i64 at = src - b->dst, column = at % b->run;
    i64 width = run;
    for (int i = 0; i < num; i++)
        if (levels[i].src % b->run) width += (levels[i].n - 1) * levels[i].src;
    if (column + width > b->run) return NULL;
    for (int i = 0; i < num; i++)
        if (levels[i].src % b->run == 0) levels[i].src = levels[i].src / b->run * b->levels[0].src;
    return b->src + at / b->run * b->levels[0].src + column;
}

/* A transfer's or a box's elements in the order in which they lie densely: runs of n, `apart` on the side where they are not dense. */
struct digits {
    i64 n[LEVELS + 1], apart[LEVELS + 1];
    int num;
};

/* Of levels that are dense on one side, and there in any order; 0 if they are not. */
static int find_digits(struct digits *d, i64 run, const struct level *levels, int is_dst_dense) {
    int left = 0;
    *d = (struct digits){.n = {run}, .apart = {1}, .num = 1};
    for (int i = 0; i < LEVELS; i++) left |= levels[i].n > 1 ? 1 << i : 0;
    for (i64 dense = run; left;) {
        int i = 0;
        while (i < LEVELS && !(left >> i & 1 && (is_dst_dense ? levels[i].dst : levels[i].src) == dense)) i++;
        if (i == LEVELS) return 0;
        left &= ~(1 << i);
        d->n[d->num] = levels[i].n;
        d->apart[d->num++] = is_dst_dense ? levels[i].src : levels[i].dst;
        dense *= levels[i].n;
    }
    return 1;
}

/* Goes on to the digit's next part. */
static void take(struct digits *d, int *at, i64 n) {
    d->n[*at] /= n;
    d->apart[*at] *= n;
    if (d->n[*at] == 1) ++*at;
}

#define MOST_LEVELS (2 * LEVELS + 2)

/* Levels from where a box's elements are to where they go, both counted as they lie in SPM; how many, or -1. */
static int join_digits(struct level *levels, struct digits *from, struct digits *to) {
    int num = 0, i = 0, j = 0;
    while (i < from->num && j < to->num) {
        const i64 n = from->n[i] < to->n[j] ? from->n[i] : to->n[j];
        if (from->n[i] % n || to->n[j] % n) return -1;
        levels[num++] = (struct level){n, to->apart[j], from->apart[i]};
        take(from, &i, n);
        take(to, &j, n);
    }
    return num;
}

int defer_move(struct tile *t, u8 *dst, const u8 *src, i64 run, const struct level *levels) {
    struct digits digits;
    struct box_load box = {dst, src, run, run, run, {levels[0], levels[1], levels[2]}};
    if (!find_digits(&digits, run, levels, 1)) return 0;
    for (int i = 0; i < LEVELS; i++) box.bytes *= levels[i].n, box.src_bytes += (levels[i].n - 1) * levels[i].src;
    for (int i = 0; i < t->num_boxes; i++)
        if (overlap(src, 1, t->boxes[i].src, t->boxes[i].src_bytes)) box.slot = t->boxes[i].slot;
    overwrite_boxes(t, dst, box.bytes);
    add_box(t, &box);
    return 1;
}

int store_box(struct context *c) {
    struct tile *const t = c->tile;
    struct box_load to;
    struct digits from, into;
    struct level levels[MOST_LEVELS];
    int is_held = 0, is_streamed;
    for (int i = 0; i < t->num_boxes; i++) is_held |= t->boxes[i].dst - t->spm == operand(c, WDMA__SRC);
    if (!is_held) return 0;
    c->knows_boxes = c->only_notes = 1;
    const int fault = resolve_store(c, &to, &is_streamed); /* met again by who executes the record */
    c->knows_boxes = c->only_notes = 0;
    const struct box_load *const b = fault ? NULL : holder(t, to.src, to.bytes);
    if (!b || b->dst != to.src || b->bytes != to.bytes || overlap(b->src, b->src_bytes, to.dst, to.src_bytes)) return 0;
    if (!find_digits(&from, b->run, b->levels, 1) || !find_digits(&into, to.run, to.levels, 0)) return 0;
    const int num = join_digits(levels, &from, &into);
    if (num < 0 || (is_streamed && levels[0].n < LINE_BYTES)) return 0;
    settle_sources(t, to.dst, to.src_bytes);
    store_levels(to.dst, b->src, levels[0].n, levels + 1, num - 1, is_streamed);
    return 1;
}
