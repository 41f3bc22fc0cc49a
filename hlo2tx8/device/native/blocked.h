/* Tensors in Cx and NCx, see device/layouts.py. */
#ifndef HLO2TX8_BLOCKED_H
#define HLO2TX8_BLOCKED_H

#include "core.h"

#define BATCH_ALIGNMENT 256
#define LEAST_TAIL 4
#define MOST_WIDTH 128

struct blocked {
    i64 batch, points, channels, bytes, width, num_blocks, tail, batch_bytes, stride, size;
};

static inline void set_blocked(struct blocked *l, int fmt, i64 batch, i64 points, i64 channels) {
    const i64 bytes = format_bytes(fmt), width = fmt == FORMAT_INT8 ? 128 : 64, rest = channels % width;
    const i64 num_blocks = channels / width + (rest > width / 2);
    i64 tail = rest && rest <= width / 2 ? LEAST_TAIL : 0;
    while (tail && tail < rest) tail *= 2;
    const i64 batch_bytes = points * (num_blocks * width + tail) * bytes;
    l->batch = batch, l->points = points, l->channels = channels, l->bytes = bytes, l->width = width, l->num_blocks = num_blocks, l->tail = tail;
    l->batch_bytes = batch_bytes;
    l->stride = (batch_bytes + BATCH_ALIGNMENT - 1) / BATCH_ALIGNMENT * BATCH_ALIGNMENT;
    l->size = (batch - 1) * l->stride + batch_bytes;
}

static inline struct blocked blocked_of(int fmt, i64 batch, i64 points, i64 channels) {
    struct blocked l;
    set_blocked(&l, fmt, batch, points, channels);
    return l;
}

static inline i64 aligned_channels(const struct blocked *l) { return l->num_blocks * l->width + l->tail; }

/* Where channel c of point 0 lies in a batch; *width is the distance of points, *run how many channels follow up to the block's end. */
static inline i64 find_channel(const struct blocked *l, i64 c, i64 *width, i64 *run) {
    const i64 block = c / l->width, first = block * l->width, is_tail = block >= l->num_blocks;
    *width = is_tail ? l->tail : l->width;
    *run = (l->channels - first < l->width ? l->channels : first + l->width) - c;
    return (first * l->points + c - first) * l->bytes;
}

static inline void clear_padding(u8 *base, const struct blocked *l) {
    i64 width, run;
    const i64 last = (l->channels - 1) / l->width * l->width;
    u8 *const block = base + find_channel(l, last, &width, &run);
    if (run == width) return;
    for (i64 p = 0; p < l->points; p++) memset(block + (p * width + run) * l->bytes, 0, (size_t)((width - run) * l->bytes));
}

static inline int overlap(const u8 *a, i64 a_bytes, const u8 *b, i64 b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

/* Where to write a result: region 3 of the scratch if it would change what is still to be read. */
static inline u8 *stage(struct context *c, u8 *target, int is_apart) { return is_apart ? target : c->scratch + 3 * c->machine->spm_bytes; }

static inline int unstage(u8 *target, const u8 *out, const struct blocked *l) {
    for (i64 b = 0; out != target && b < l->batch; b++) memcpy(target + b * l->stride, out + b * l->stride, (size_t)l->batch_bytes);
    return 0;
}

/* Where a tensor's points are in DDR: the first one, and the bytes from one to the next and from one block of channels to the next. Points may be
 * in pieces of so many, the first ones of which are `piece_bytes` apart; 0: they are one piece. */
struct placed {
    const u8 *data;
    i64 point_bytes, block_bytes, piece_points, piece_bytes;
};

static inline i64 placed_offset(const struct placed *p, i64 point) {
    return p->piece_points ? point / p->piece_points * p->piece_bytes + point % p->piece_points * p->point_bytes : point * p->point_bytes;
}

/* The boxes that were put off to be at dst as a tensor of this layout, whole ones or parts; 0 if they are not, or not evenly apart. */
int find_boxes(const struct tile *t, const u8 *dst, const struct blocked *l, int takes_parts, struct placed *found);

/* STATUS_NAN and STATUS_INFINITE of the elements of a tensor; padding does not count. */
u32 special_of(const u8 *data, int fmt, const struct blocked *l);

/* Notes the exception bits of a record whose operands and result have these. */
void note_tensors(struct context *c, u32 operands, u32 result);

#endif
