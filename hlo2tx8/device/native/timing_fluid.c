/* What transfers share: the DDR evenly among tiles, of which each has a port, and each link of the mesh evenly among packets. */
#include "timing_model.h"

/* To a neighbour of a tile: the next or last one in its row, or column. */
static int link_to(const struct model *m, i64 tile, i64 next) {
    const i64 columns = m->t->chip.mesh_columns;
    const int direction = next == tile + columns ? 2 : next == tile - columns ? 3 : next < tile;
    return (int)(LINKS_OF_TILE * tile + direction);
}

/* Along the row first, then along the column; the number of links. */
static int take_way(const struct model *m, i64 from, i64 to, u64 *links) {
    const i64 columns = m->t->chip.mesh_columns;
    int num = 0;
    for (i64 at = from, next; at != to; at = next, num++) {
        if (at % columns != to % columns) next = at % columns < to % columns ? at + 1 : at - 1;
        else next = at < to ? at + columns : at - columns;
        const int link = link_to(m, at, next);
        links[link / 64] |= UINT64_C(1) << link % 64;
    }
    return num;
}

/* A transfer that has started flows later: after its startup, a packet also once it is where it goes that is farthest. */
void begin_transfer(struct model *m, const struct timed_tile *b, struct issued *i) {
    const struct timed_shape *const shape = i->shape;
    int hops = 0;
    memset(i->links, 0, sizeof i->links);
    for (i64 tile = 0; tile < m->t->chip.tiles; tile++) {
        if (!shape->is_packet || !(shape->others >> tile & 1)) continue;
        const int num = shape->is_pulled ? take_way(m, tile, b->number, i->links) : take_way(m, b->number, tile, i->links);
        hops = num > hops ? num : hops;
    }
    for (int w = 0; w < LINK_WORDS; w++)
        for (u64 links = i->links[w]; links; links &= links - 1) {
            const int link = 64 * w + __builtin_ctzll(links);
            m->tiles[link / LINKS_OF_TILE].links[link % LINKS_OF_TILE] += (double)shape->packet_bytes;
        }
    struct fluid *const f = m->fluids + fluid_of(i);
    i->flows_at = i->start + shape->cycles + (double)(hops * m->t->chip.dte_hop);
    i->rest = shape->is_packet ? (double)shape->packet_bytes : shape->ddr_bytes;
    i->flow = FLOWS_LATER;
    f->coming[f->num_coming++] = i;
}

/* Packets that flow over each link. */
static void count_crowd(const struct fluid *f, int *crowd) {
    memset(crowd, 0, LINKS * sizeof *crowd);
    for (int k = 0; k < f->num_flowing; k++)
        for (int w = 0; w < LINK_WORDS; w++)
            for (u64 links = f->flowing[k]->links[w]; links; links &= links - 1) crowd[64 * w + __builtin_ctzll(links)]++;
}

/* The most crowded of its links says how fast a packet is. */
static double packet_rate(const struct model *m, const struct issued *i, const int *crowd) {
    int most = 1;
    for (int w = 0; w < LINK_WORDS; w++)
        for (u64 links = i->links[w]; links; links &= links - 1) {
            const int here = crowd[64 * w + __builtin_ctzll(links)];
            most = here > most ? here : most;
        }
    return (double)m->t->chip.dte_bytes_per_cycle / most;
}

/* Bytes per cycle of every transfer that flows. */
static void find_rates(const struct model *m, int fluid, double *rates) {
    const struct fluid *const f = m->fluids + fluid;
    int crowd[LINKS];
    const double even = m->t->chip.ddr_rate / f->num_flowing, port = m->t->chip.port_rate;
    if (fluid == FLUID_NOC && f->num_flowing) count_crowd(f, crowd);
    for (int k = 0; k < f->num_flowing; k++) rates[k] = fluid == FLUID_NOC ? packet_rate(m, f->flowing[k], crowd) : even < port ? even : port;
}

/* Of one that flows. */
double rate_of(const struct model *m, const struct issued *i) {
    double rates[MAX_FLOWING];
    const struct fluid *const f = m->fluids + fluid_of(i);
    int k = 0;
    find_rates(m, fluid_of(i), rates);
    while (f->flowing[k] != i) k++;
    return rates[k];
}

/* When the next transfer begins to flow, or ends. */
double next_event(const struct model *m, int fluid) {
    const struct fluid *const f = m->fluids + fluid;
    double rates[MAX_FLOWING], begin = INFINITY, least = INFINITY;
    for (int k = 0; k < f->num_coming; k++) begin = f->coming[k]->flows_at < begin ? f->coming[k]->flows_at : begin;
    if (!f->num_flowing) return larger(begin, f->now);
    find_rates(m, fluid, rates);
    for (int k = 0; k < f->num_flowing; k++) {
        const double left = f->flowing[k]->rest / rates[k];
        least = left < least ? left : least;
    }
    const double end = f->now + least;
    return end <= begin + SAME_CYCLES ? end : begin;
}

static struct timed_tile *owner_of(const struct model *m, const struct issued *i) {
    return m->tiles + ((const u8 *)i - (const u8 *)m->tiles) / (ptrdiff_t)sizeof *m->tiles;
}

/* What its transfers move from now on. */
static void note_rate(const struct model *m, int fluid) {
    const struct fluid *const f = m->fluids + fluid;
    double rates[MAX_FLOWING], sum = 0.0;
    if (!m->t->notes) return;
    find_rates(m, fluid, rates);
    for (int k = 0; k < f->num_flowing; k++) sum += rates[k];
    tell(m, (struct timed_note){.start = f->now, .amount = sum, .what = fluid == FLUID_DDR ? NOTED_DDR : NOTED_NOC});
}

void step_fluid(struct model *m, int fluid, double until) {
    struct fluid *const f = m->fluids + fluid;
    double rates[MAX_FLOWING];
    struct issued *done[MAX_FLOWING];
    const double cycles = until - f->now;
    int num_done = 0, num = 0;
    find_rates(m, fluid, rates);
    f->now = until;
    for (int k = 0; k < f->num_flowing; k++) {
        struct issued *const i = f->flowing[k];
        i->rest -= cycles * rates[k];
        /* late enough, the clock does not tell what is left from nothing */
        if (i->rest <= SAME_CYCLES * rates[k] || until + i->rest / rates[k] <= until) done[num_done++] = i;
        else f->flowing[num++] = i;
    }
    for (int k = 0; k < f->num_flowing; k++) f->moved += cycles * rates[k];
    f->num_flowing = num;
    num = 0;
    for (int k = 0; k < f->num_coming; k++) {
        struct issued *const i = f->coming[k];
        if (i->flows_at <= until + SAME_CYCLES) i->flow = FLOWS, f->flowing[f->num_flowing++] = i;
        else f->coming[num++] = i;
    }
    f->num_coming = num;
    note_rate(m, fluid);
    for (int k = 0; k < num_done; k++) ended(m, owner_of(m, done[k]), done[k], until);
}
