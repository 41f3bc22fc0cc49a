/* The matrix engine's records. */
#include "product.h"

void set_quantisation(struct context *c, struct product *p, int q1) {
    p->is_quantised = 1;
    p->q1 = operand(c, q1), p->q2 = operand(c, q1 + 1), p->scale = operand(c, q1 + 2);
    p->left.zero_point = operand(c, q1 + 3), p->zero_out = operand(c, q1 + 4);
}

/* Written field by field: what is copied as a whole waits for what was written of it just before, longer than a small product takes. */
static void set_source(struct source *s, int fmt, i64 batch, i64 points, i64 channels, int is_along) {
    set_blocked(&s->layout, fmt, batch, points, channels);
    s->data = NULL, s->is_along = is_along, s->width = channels, s->zero_point = 0, s->tap_width = s->tap_channels = 0;
    s->placed = (struct placed){0};
    s->points = equal_points;
}

static void settle_all(struct tile *t, const u8 *start, i64 bytes) {
    settle_range(t, start, bytes);
    settle_boxes(t, start, bytes);
}

static void overwrite_all(struct tile *t, const u8 *start, i64 bytes) {
    if (!overwrite_loads(t, start, bytes)) settle_range(t, start, bytes);
    overwrite_boxes(t, start, bytes);
}

/* Where an operand's elements are if their load was put off. */
static void find_loaded(struct context *c, struct source *s, int takes_parts, const u8 *target, i64 target_bytes) {
    struct placed found;
    if (c->tile->num_boxes && find_boxes(c->tile, s->data, &s->layout, takes_parts, &found)) {
        s->data = found.data, s->placed = found;
        return;
    }
    settle_boxes(c->tile, s->data, s->layout.size);
    s->data = read_in_place(c->tile, s->data, s->layout.size, target, target_bytes);
}

int find_operands(struct context *c, struct product *p, int accumulates, u8 **target) {
    p->left.data = spm_range(c, operand(c, NE_GEMM__LEFT), p->left.layout.size, 1);
    p->right.data = p->left.data ? spm_range(c, operand(c, NE_GEMM__RIGHT), p->right.layout.size, 1) : NULL;
    *target = p->right.data ? spm_range(c, operand(c, NE_GEMM__DST), p->result.size, 1) : NULL;
    if (!*target) return (int)c->tile->fault.kind;
    p->sums = accumulates ? spm_range(c, operand(c, NE_GEMM__PSUM), p->psum.size, 1) : NULL;
    if (accumulates && !p->sums) return (int)c->tile->fault.kind;
    /* A tile of partial sums is read before the same tile of the result is written. */
    const int is_in_place = p->sums == *target && p->result.bytes == p->psum.bytes;
    const int is_apart = !overlap(*target, p->result.size, p->left.data, p->left.layout.size) &&
                         !overlap(*target, p->result.size, p->right.data, p->right.layout.size) &&
                         (!p->sums || is_in_place || !overlap(*target, p->result.size, p->sums, p->psum.size));
    p->out = stage(c, *target, is_apart);
    if (c->knows_boxes) {
        if (!is_apart || is_in_place) settle_all(c->tile, *target, p->result.size);
        if (p->sums) settle_all(c->tile, p->sums, p->psum.size);
        const int takes_parts = p->rows > MOST_PLACED_ROWS; /* of a box that others read too a copy is read more quickly, unless it is packed */
        find_loaded(c, &p->left, takes_parts, *target, p->result.size);
        find_loaded(c, &p->right, takes_parts, *target, p->result.size);
        if (is_apart && !is_in_place) overwrite_all(c->tile, *target, p->result.size);
    }
    if (c->machine->keeps_status) {
        p->special = special_of(p->left.data, p->fmt, &p->left.layout) | special_of(p->right.data, p->fmt, &p->right.layout);
        if (p->sums && p->fmt != FORMAT_INT8) p->special |= special_of(p->sums, FORMAT_FP32, &p->psum);
    }
    return 0;
}

int finish_product(struct context *c, const struct product *p, u8 *target, u8 *out) {
    if (c->machine->keeps_status) note_tensors(c, p->special, special_of(out, p->result_fmt, &p->result));
    for (i64 b = 0; b < p->result.batch; b++) clear_padding(out + b * p->result.stride, &p->result);
    return unstage(target, out, &p->result);
}

int execute_gemm(struct context *c) {
    static const struct bound bounds[] = NE_GEMM__BOUNDS, quantised[] = NE_GEMM_QUANTISED__BOUNDS;
    const int is_quantised = c->step->opcode == OP_NE_GEMM_QUANTISED, fmt = c->step->fmt2;
    if (is_quantised ? check_bounds(c, quantised, COUNT_OF(quantised)) : check_bounds(c, bounds, COUNT_OF(bounds))) return FAULT_BAD_DESCRIPTOR;
    const i64 m = operand(c, NE_GEMM__ROWS), n = operand(c, NE_GEMM__COLUMNS), k = operand(c, NE_GEMM__DEPTH), batch = operand(c, NE_GEMM__BATCH);
    const int left_is_along = !operand(c, NE_GEMM__TRANSPOSE_LEFT), right_is_along = !operand(c, NE_GEMM__TRANSPOSE_RIGHT);
    struct product p;
    p.fmt = fmt, p.rows = m, p.columns = n, p.depth = k, p.geometry = NULL, p.first = 0, p.result_fmt = c->step->fmt, p.is_quantised = 0, p.special = 0;
    set_source(&p.left, fmt, batch, left_is_along ? m : k, left_is_along ? k : m, left_is_along);
    set_source(&p.right, fmt, batch, right_is_along ? n : k, right_is_along ? k : n, right_is_along);
    set_blocked(&p.psum, FORMAT_FP32, batch, m, n); /* INT32 is as wide */
    set_blocked(&p.result, p.result_fmt, batch, m, n);
    if (is_quantised) set_quantisation(c, &p, NE_GEMM_QUANTISED__Q1);
    u8 *target;
    if (find_operands(c, &p, (int)operand(c, NE_GEMM__ACCUMULATE), &target)) return (int)c->tile->fault.kind;
    u8 *const out = p.out;
    for (i64 b = 0; b < batch; b++) {
        run_product(&p, product_scratch(c));
        p.left.data += p.left.layout.stride, p.right.data += p.right.layout.stride, p.out += p.result.stride;
        if (p.sums) p.sums += p.psum.stride;
    }
    return finish_product(c, &p, target, out);
}
