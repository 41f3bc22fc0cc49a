/* Records that move data: RDMA, WDMA, TDMA, and the kernel core's iota, gather and scatter. */
#include "core.h"

#define STREAM_BYTES (1 << 10)

int read_levels(struct context *c, int k, int num, i64 *strides, i64 *turns) {
    for (int i = 0; i < num; i++) {
        strides[i] = operand(c, k + 2 * i);
        turns[i] = operand(c, k + 2 * i + 1);
        if (strides[i] < 0 || turns[i] <= 0) {
            return fail(c, FAULT_BAD_DESCRIPTOR, "level %d has stride %lld, %lld turns", i + 1, (long long)strides[i], (long long)turns[i]);
        }
    }
    return 0;
}

i64 box_extent(const i64 *strides, const i64 *turns, int num, i64 run) {
    __int128 total = run;
    for (int i = 0; i < num; i++) {
        total += (__int128)(turns[i] - 1) * strides[i];
        if (total > INT64_MAX / 2) return -1;
    }
    return (i64)total;
}

i64 box_product(const i64 *turns, int num, i64 run) {
    __int128 total = run;
    for (int i = 0; i < num; i++) {
        total *= turns[i];
        if (total > MOST_ELEMENTS) return -1;
    }
    return (i64)total;
}

/* A transfer in bytes: dst and src, of which DDR's side extends over `ddr_bytes`, and levels with their distances on both sides. */
struct transfer {
    u8 *dst;
    const u8 *src;
    i64 run, total, ddr_bytes;
    int is_streamed; /* to DDR past the cache */
    struct level levels[LEVELS];
};

static int read_transfer(struct context *c, struct transfer *t) {
    const int is_load = c->step->form == FORM_RDMA, first = is_load ? RDMA__COUNT : WDMA__COUNT;
    const i64 slot = operand(c, is_load ? RDMA__SLOT : WDMA__SLOT), offset = operand(c, is_load ? RDMA__OFFSET : WDMA__OFFSET);
    const i64 bytes = c->step->bytes, run = operand(c, first);
    i64 strides[LEVELS] = {0}, turns[LEVELS] = {0}, last, end;
    const int fault = read_levels(c, first + 1, LEVELS, strides, turns);
    if (fault) return fault;
    if (run <= 0) return fail(c, FAULT_BAD_DESCRIPTOR, "elem_count %lld", (long long)run);
    const i64 elements = box_extent(strides, turns, LEVELS, run), total = box_product(turns, LEVELS, run);
    if (slot < 0 || slot >= c->machine->num_slots) return fail(c, FAULT_OUT_OF_BOUNDS, "no DDR slot %lld", (long long)slot);
    const struct tx8_slot *const data = c->machine->slots + slot;
    if (elements < 0 || offset < 0 || __builtin_mul_overflow(elements, bytes, &last) || __builtin_add_overflow(offset, last, &end) || end > data->size) {
        return fail(c, FAULT_OUT_OF_BOUNDS, "%lld elements of %lld bytes from byte %lld of DDR slot %lld, which has %lld", (long long)elements,
                    (long long)bytes, (long long)offset, (long long)slot, (long long)data->size);
    }
    if (total < 0) return fail(c, FAULT_OUT_OF_BOUNDS, "more elements than SPM has bytes");
    u8 *const spm = is_load ? target_range(c, operand(c, RDMA__DST), total, bytes) : spm_range(c, operand(c, WDMA__SRC), total, bytes);
    if (!spm) return (int)c->tile->fault.kind;
    if (c->tile->num_boxes && !is_load) settle_box_sources(c->tile, data->data + offset, last);
    u8 *const ddr = data->data + offset;
    *t = (struct transfer){.dst = is_load ? spm : ddr, .src = is_load ? ddr : spm, .run = run * bytes, .total = total, .ddr_bytes = last};
    t->is_streamed = !is_load && data->size >= STREAM_SLOT_BYTES && total * bytes >= STREAM_BYTES;
    i64 dense = run * bytes;
    for (int i = 0; i < LEVELS; i++) {
        const i64 apart = strides[i] * bytes;
        t->levels[i] = is_load ? (struct level){turns[i], dense, apart} : (struct level){turns[i], apart, dense};
        dense *= turns[i];
    }
    return 0;
}

static int run_dma(struct context *c) {
    struct transfer t;
    const int fault = read_transfer(c, &t);
    if (fault) return fault;
    if (!c->knows_deferred && c->step->form == FORM_WDMA && c->tile->num_deferred) {
        const struct tx8_slot *const slot = c->machine->slots + operand(c, WDMA__SLOT);
        settle_sources(c->tile, slot->data, slot->size);
    }
    if (c->step->form == FORM_RDMA) load_levels(t.dst, t.src, t.run, t.levels, LEVELS);
    else store_levels(t.dst, t.src, t.run, t.levels, LEVELS, t.is_streamed);
    return 0;
}

int resolve_dma(struct context *c, struct link *k) {
    struct transfer t;
    const int fault = read_transfer(c, &t);
    if (fault) return fault;
    for (int i = 0; i < LEVELS; i++)
        if (t.levels[i].n > 1 && t.levels[i].dst != t.levels[i].src) return -1;
    const i64 bytes = c->step->bytes;
    *k = (struct link){.step = c->step, .target = t.dst, .dst = t.dst, .src = {t.src}, .n = t.total, .dst_bytes = bytes, .src_bytes = {bytes},
                       .num = 1, .is_plain = 1, .is_streamed = t.is_streamed};
    return 0;
}

int resolve_box(struct context *c, struct box_load *box) {
    struct transfer t;
    const int fault = read_transfer(c, &t);
    if (fault) return fault;
    if (t.total == t.levels[0].n * (t.run / c->step->bytes) && t.levels[0].src == t.run) return -1;
    *box = (struct box_load){t.dst, t.src, t.total * c->step->bytes, t.ddr_bytes, t.run, {t.levels[0], t.levels[1], t.levels[2]}, operand(c, RDMA__SLOT)};
    return 0;
}

int resolve_store(struct context *c, struct box_load *to, int *is_streamed) {
    struct transfer t;
    const int fault = read_transfer(c, &t);
    if (fault) return fault;
    *to = (struct box_load){t.dst, t.src, t.total * c->step->bytes, t.ddr_bytes, t.run, {t.levels[0], t.levels[1], t.levels[2]}, operand(c, WDMA__SLOT)};
    *is_streamed = t.is_streamed;
    return 0;
}

/* Turn number -> byte offset, kept as one counter per level. */
struct odometer {
    i64 at[LEVELS], offset;
};

static void advance(struct odometer *o, const i64 *strides, const i64 *turns) {
    for (int i = 0; i < LEVELS; i++) {
        o->offset += strides[i];
        if (++o->at[i] < turns[i]) return;
        o->offset -= turns[i] * strides[i];
        o->at[i] = 0;
    }
}

static int run_tdma(struct context *c) {
    const i64 run = operand(c, TDMA_GATHER_SCATTER__RUN_BYTES);
    i64 rs[LEVELS] = {0}, rn[LEVELS] = {0}, ws[LEVELS] = {0}, wn[LEVELS] = {0};
    int fault = read_levels(c, TDMA_GATHER_SCATTER__RS1, LEVELS, rs, rn);
    if (!fault) fault = read_levels(c, TDMA_GATHER_SCATTER__WS1, LEVELS, ws, wn);
    if (fault) return fault;
    const i64 read = box_product(rn, LEVELS, 1), written = box_product(wn, LEVELS, 1);
    if (run <= 0 || read < 0 || read != written || (__int128)read * run > MOST_ELEMENTS) {
        return fail(c, FAULT_BAD_DESCRIPTOR, "run of %lld bytes, %lld turns read and %lld written", (long long)run, (long long)read, (long long)written);
    }
    const i64 read_bytes = box_extent(rs, rn, LEVELS, run), written_bytes = box_extent(ws, wn, LEVELS, run);
    const int is_nest = !memcmp(rn, wn, sizeof rn);
    struct level levels[LEVELS];
    for (int i = 0; i < LEVELS; i++) levels[i] = (struct level){rn[i], ws[i], rs[i]};
    c->knows_boxes = c->only_notes = 1;
    const u8 *src = spm_range(c, operand(c, TDMA_GATHER_SCATTER__SRC), read_bytes < 0 ? INT64_MAX : read_bytes, 1);
    u8 *const dst = src ? spm_range(c, operand(c, TDMA_GATHER_SCATTER__DST), written_bytes < 0 ? INT64_MAX : written_bytes, 1) : NULL;
    c->knows_boxes = c->only_notes = 0;
    if (!dst) return (int)c->tile->fault.kind;
    const u8 *const far = is_nest && c->tile->num_boxes ? read_box(c->tile, src, run, read_bytes, levels, LEVELS) : NULL;
    if (far && defer_move(c->tile, dst, far, run, levels)) return 0;
    reach_spm(c->tile, dst - c->tile->spm, dst - c->tile->spm + written_bytes);
    if (c->tile->num_boxes) settle_boxes(c->tile, dst, written_bytes);
    if (far) {
        copy_levels(dst, far, run, levels, LEVELS);
        return 0;
    }
    if (c->tile->num_boxes) settle_boxes(c->tile, src, read_bytes);
    if (src < dst + written_bytes && dst < src + read_bytes) src = memcpy(c->scratch, src, (size_t)read_bytes);
    if (is_nest) {
        copy_levels(dst, src, run, levels, LEVELS);
        if (rs[0] == 0 && ws[0] == run && rn[1] == 1 && rn[2] == 1) note_repeat(c, dst, run, rn[0]);
        return 0;
    }
    struct odometer from = {{0}, 0}, to = {{0}, 0};
    for (i64 i = 0; i < read; i++) {
        memcpy(dst + to.offset, src + from.offset, (size_t)run);
        advance(&from, rs, rn);
        advance(&to, ws, wn);
    }
    return 0;
}

static int run_memset(struct context *c) {
    const i64 bytes = c->step->bytes, n = operand(c, TDMA_MEMSET__N);
    i64 strides[2] = {0}, turns[2] = {0};
    const int fault = read_levels(c, TDMA_MEMSET__S1, 2, strides, turns);
    if (fault) return fault;
    if (n < 0 || (n && box_product(turns, 2, n) < 0)) return fail(c, FAULT_BAD_DESCRIPTOR, "element count %lld", (long long)n);
    const i64 elements = box_extent(strides, turns, 2, n);
    const i64 address = operand(c, TDMA_MEMSET__DST), reached = elements < 0 ? INT64_MAX / 16 : elements;
    const int is_dense = turns[0] == 1 && turns[1] == 1; /* nothing is left of what was there */
    u8 *const dst = is_dense ? target_range(c, address, reached, bytes) : spm_range(c, address, reached, bytes);
    if (!dst) return (int)c->tile->fault.kind;
    u8 value[16] = {0};
    const i64 bits = operand(c, TDMA_MEMSET__VALUE);
    memcpy(value, &bits, sizeof bits);
    for (i64 j = 0; n && j < turns[1]; j++) {
        for (i64 i = 0; i < turns[0]; i++) {
            u8 *const line = dst + (j * strides[1] + i * strides[0]) * bytes;
            if (bytes == 1) {
                memset(line, value[0], (size_t)n);
                continue;
            }
            /* the first element, then doubling */
            memcpy(line, value, (size_t)bytes);
            for (i64 done = 1; done < n; done *= 2) memcpy(line + done * bytes, line, (size_t)((n - done < done ? n - done : done) * bytes));
        }
    }
    return 0;
}

static int run_iota(struct context *c) {
    const i64 n = operand(c, KC_VIOTA__N), div = operand(c, KC_VIOTA__DIV), mod = operand(c, KC_VIOTA__MOD);
    const i64 bytes = c->step->bytes;
    if (div <= 0 || mod <= 0 || n < 0) {
        return fail(c, FAULT_BAD_DESCRIPTOR, "iota div %lld mod %lld n %lld", (long long)div, (long long)mod, (long long)n);
    }
    u8 *const dst = spm_range(c, operand(c, KC_VIOTA__DST), n, bytes);
    if (!dst) return (int)c->tile->fault.kind;
    const u64 start = (u64)operand(c, KC_VIOTA__START), step = (u64)operand(c, KC_VIOTA__STEP);
    i64 block[256], quotient = 0, rest = 0;
    for (i64 i = 0; i < n; i += 256) {
        const i64 count = n - i < 256 ? n - i : 256;
        for (i64 k = 0; k < count; k++) {
            block[k] = (i64)(start + (u64)quotient * step);
            if (++rest == div) {
                rest = 0;
                if (++quotient == mod) quotient = 0;
            }
        }
        u64 converted[256];
        convert_elements(converted, c->step->fmt, block, FORMAT_INT64, count);
        memcpy(dst + i * bytes, converted, (size_t)(count * bytes));
    }
    return 0;
}

/* The indices, copied where they overlap what is written; *high the largest, -1 if there is none. */
static const i32 *read_indices(struct context *c, i64 address, i64 n, i64 *high) {
    const u8 *const raw = spm_range(c, address, n, sizeof(i32));
    if (!raw) return NULL;
    i32 *const index = memcpy(c->scratch + c->machine->spm_bytes, raw, (size_t)n * sizeof(i32));
    i32 low = 0, most = -1;
    for (i64 i = 0; i < n; i++) {
        low = index[i] < low ? index[i] : low;
        most = index[i] > most ? index[i] : most;
    }
    *high = most;
    if (low >= 0) return index;
    fail(c, FAULT_OUT_OF_BOUNDS, "index %d", low);
    return NULL;
}

static int run_gather(struct context *c) {
    const i64 n = operand(c, KC_VGATHER__N), bytes = c->step->bytes;
    i64 high;
    const i32 *const index = read_indices(c, operand(c, KC_VGATHER__INDEX), n, &high);
    if (!index) return (int)c->tile->fault.kind;
    if (n == 0) return 0;
    const u8 *src = spm_range(c, operand(c, KC_VGATHER__SRC), high + 1, bytes);
    u8 *const dst = src ? spm_range(c, operand(c, KC_VGATHER__DST), n, bytes) : NULL;
    if (!dst) return (int)c->tile->fault.kind;
    if (src < dst + n * bytes && dst < src + (high + 1) * bytes) src = memcpy(c->scratch, src, (size_t)((high + 1) * bytes));
    gather_elements(dst, src, index, (int)bytes, n);
    return 0;
}

static int run_scatter(struct context *c) {
    const i64 n = operand(c, KC_VSCATTER__N), bytes = c->step->bytes;
    i64 high;
    const i32 *const index = read_indices(c, operand(c, KC_VSCATTER__INDEX), n, &high);
    if (!index) return (int)c->tile->fault.kind;
    const u8 *src = spm_range(c, operand(c, KC_VSCATTER__SRC), n, bytes);
    if (!src) return (int)c->tile->fault.kind;
    if (n == 0) return 0;
    u8 *const dst = spm_range(c, operand(c, KC_VSCATTER__DST), high + 1, bytes);
    if (!dst) return (int)c->tile->fault.kind;
    if (src < dst + (high + 1) * bytes && dst < src + n * bytes) src = memcpy(c->scratch, src, (size_t)(n * bytes));
    scatter_elements(dst, src, index, (int)bytes, n);
    return 0;
}

int execute_move(struct context *c) {
    switch ((enum form)c->step->form) {
    case FORM_RDMA: case FORM_WDMA: return run_dma(c);
    case FORM_TDMA: return run_tdma(c);
    case FORM_MEMSET: return run_memset(c);
    case FORM_IOTA: return run_iota(c);
    case FORM_GATHER: return run_gather(c);
    case FORM_SCATTER: return run_scatter(c);
    default: return fail(c, FAULT_ILLEGAL_OPCODE, "opcode %d", c->step->opcode);
    }
}
