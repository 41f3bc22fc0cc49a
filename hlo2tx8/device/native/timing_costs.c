/* What one instruction costs: see timing/costs.py, which is asked where no rule is given here. */
#include "timing_model.h"

/* Numbers that do not fit are left to Python. */
static i64 times(i64 a, i64 b, int *overflows) {
    i64 product;
    *overflows |= __builtin_mul_overflow(a, b, &product);
    return product;
}

static i64 plus(i64 a, i64 b, int *overflows) {
    i64 sum;
    *overflows |= __builtin_add_overflow(a, b, &sum);
    return sum;
}

static i64 ceil_div(i64 a, i64 b) { return a / b + (a % b > 0); }

/* From the first to behind the last byte of all levels; none if one of them has no turn. */
static i64 span(const struct timed_levels *l, const i64 *o, int *overflows) {
    i64 size = o[l->run];
    int is_empty = size == 0;
    for (int k = 0; k < l->num_levels; k++) {
        is_empty |= o[l->counts[k]] == 0;
        size = plus(size, times(o[l->counts[k]] - 1, o[l->strides[k]], overflows), overflows);
    }
    return is_empty ? 0 : times(size, l->scale, overflows);
}

static i64 extent(const struct timed_extent_of *e, const i64 *o, int *overflows) {
    if (e->extent == EXTENT_SPAN) return span(&e->levels, o, overflows);
    i64 size = e->scale;
    for (int k = 0; k < e->num_factors; k++) size = times(size, o[e->factors[k]], overflows);
    return ceil_div(size, e->divisor);
}

/* Bytes of runs of which those that touch are one, and every one counts as at least `least`. */
static i64 moved_bytes(const struct timed_levels *l, const i64 *o, i64 least, int *overflows) {
    i64 run = times(o[l->run], l->scale, overflows), total = run;
    for (int k = 0; k < l->num_levels; k++) total = times(total, o[l->counts[k]], overflows);
    for (int k = 0; k < l->num_levels; k++) {
        if (o[l->counts[k]] > 1 && times(o[l->strides[k]], l->scale, overflows) != run) break;
        run = times(run, o[l->counts[k]], overflows);
    }
    return run > 0 ? times(total / run, run > least ? run : least, overflows) : 0;
}

static i64 most_moved(const struct timed_kind *kind, const i64 *o, i64 least, int *overflows) {
    i64 most = moved_bytes(kind->sides, o, least, overflows);
    for (int k = 1; k < kind->num_sides; k++) {
        const i64 other = moved_bytes(kind->sides + k, o, least, overflows);
        most = other > most ? other : most;
    }
    return most;
}

static int is_ruled(const struct timed_kind *kind) {
    if (kind->work == WORK_ASKED) return 0;
    for (int k = 0; k < kind->num_extents; k++)
        if (kind->extents[k].extent == EXTENT_ASKED) return 0;
    return 1;
}

static i64 find_ranges(const struct timed_kind *kind, const i64 *o, const i64 *sizes, struct timed_shape *shape, int *overflows) {
    i64 widest = kind->num_extents ? INT64_MIN : 0;
    shape->num_ranges = kind->num_extents;
    for (int k = 0; k < kind->num_extents; k++) {
        const i64 start = o[kind->extents[k].field], size = sizes ? sizes[k] : extent(kind->extents + k, o, overflows);
        shape->ranges[k] = (struct timed_range){start, plus(start, size, overflows), kind->extents[k].is_write};
        widest = size > widest ? size : widest;
    }
    return widest;
}

/* To the tiles it names, or from one of them if it writes this tile's SPM. Nobody waits for those bytes. */
static void make_packet(const struct timed_kind *kind, const i64 *o, i64 size, struct timed_shape *shape) {
    shape->is_packet = 1, shape->packet_bytes = size, shape->is_pulled = 0, shape->others = 0;
    for (int k = 0; k < shape->num_ranges; k++) shape->is_pulled |= shape->ranges[k].is_write;
    if (kind->other_tile >= 0 && (u64)o[kind->other_tile] < MAX_TIMED_TILES) shape->others = UINT64_C(1) << o[kind->other_tile];
    if (kind->other_tiles >= 0) shape->others = (u64)o[kind->other_tiles];
    shape->num_ranges = 0;
}

int follow_rules(const struct timed_chip *c, const struct timed_kind *kind, const i64 *o, const i64 *sizes, struct timed_shape *shape) {
    int overflows = 0;
    const i64 widest = find_ranges(kind, o, sizes, shape, &overflows);
    shape->operations = kind->computes ? (double)(widest / kind->format_bytes) : 0.0;
    switch ((enum timed_work)kind->work) {
    case WORK_DMA:
        shape->cycles = (double)c->dma_startup;
        shape->ddr_bytes = (double)most_moved(kind, o, c->dma_min_run_bytes, &overflows);
        shape->bytes = (double)most_moved(kind, o, 1, &overflows);
        break;
    case WORK_TDMA:
        shape->cycles = (double)c->tdma_startup + (double)most_moved(kind, o, c->tdma_min_run_bytes, &overflows) / (double)c->tdma_bytes_per_cycle;
        break;
    case WORK_CT:
        shape->cycles = (double)(c->ct_startup + times(ceil_div(widest, c->ct_bytes_per_cycle), kind->cost, &overflows));
        shape->least_cycles = shape->operations ? (double)widest / (double)c->ct_bytes_per_cycle * kind->cost : 0.0;
        break;
    case WORK_KC:
        shape->cycles = (double)ceil_div(kind->num_extents ? widest : (i64)sizeof(i64), c->kc_vector_bytes_per_cycle);
        shape->cycles = larger(shape->cycles, 1.0) * kind->cost;
        shape->least_cycles = shape->operations ? shape->cycles : 0.0;
        break;
    case WORK_DTE:
        shape->cycles = (double)c->dte_startup;
        make_packet(kind, o, widest, shape);
        break;
    case WORK_KC_EACH: shape->cycles = larger((double)o[kind->sides->run], 1.0); break;
    case WORK_ASKED: break;
    }
    return overflows || widest < 0;
}

/* Of a record whose operands in registers have these values, in order; not 0 if nobody can tell. */
int cost_of(const struct stretch *s, i64 record, const struct timed_value *key, struct timed_shape *shape) {
    const struct timed_kind *const kind = kind_at(s, record);
    i64 o[OPERAND_WORDS] = {0};
    for (int f = 0; f < kind->num_fields; f++) {
        o[f] = operand_at(s, record, f);
        if (!is_register(s, record, f) || kind->flags[f] & FIELD_IS_NUMBER) continue;
        o[f] = kind->least[f];
        if (!(kind->flags[f] & FIELD_DECIDES)) continue;
        if (key->is_known) o[f] = key->value;
        key++;
    }
    if (is_ruled(kind) && !follow_rules(&s->t->chip, kind, o, NULL, shape)) return 0;
    memset(shape, 0, sizeof *shape);
    return s->t->shape(record, o, shape);
}
