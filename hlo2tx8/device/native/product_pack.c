/* Packing the operands of a product for its kernel. */
#include "product.h"

static i64 least(i64 a, i64 b) { return a < b ? a : b; }

void equal_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap) {
    (void)geometry, (void)tap;
    for (i64 i = 0; i < count; i++) out[i] = first + i;
}

/* Elements that are not there are zero points. */
static struct runs runs_of(const struct gemm_kernel *kernel, const struct product *p, const struct source *s, const i64 *offsets) {
    const i64 bias = kernel->is_offset && s == &p->left ? -128 : s->zero_point;
    return (struct runs){.offsets = offsets, .bias = bias, .fill = (u8)(s->zero_point - bias)};
}

/* As find_channel for where an operand is, with its address, the bytes between points and the elements up to the next run. */
static const u8 *find_run(const struct source *s, i64 c, i64 *point_bytes, i64 *run, i64 *whole) {
    const struct blocked *const l = &s->layout;
    i64 width;
    const i64 offset = find_channel(l, c, &width, run), block = l->width * l->bytes;
    *point_bytes = width * l->bytes;
    *whole = least((c / l->width + 1) * l->width, s->width) - c;
    if (!s->placed.point_bytes) return s->data + offset;
    *point_bytes = s->placed.point_bytes;
    if (s->placed.block_bytes == block) *run = l->channels - c, *whole = s->width - c;
    return s->data + c / l->width * s->placed.block_bytes + c % l->width * l->bytes;
}

/* Of points in pieces, which are of no batch and all there; apart from what convolutions do all the time. */
static APART void place_points(const struct source *s, i64 *offsets, i64 count) {
    for (i64 i = 0; i < count; i++) offsets[i] = placed_offset(&s->placed, offsets[i]);
}

/* Bytes from a run's place at point 0 to the points' ones, negative for those that are none. */
static void find_points(const struct product *p, const struct source *s, struct workspace *w, i64 point_bytes, i64 first, i64 count, i64 tap) {
    s->points(p->geometry, w->offsets, first, count, tap);
    if (s->placed.piece_points) {
        place_points(s, w->offsets, count);
        return;
    }
    INDEPENDENT for (i64 i = 0; i < count; i++) {
        const i64 point = w->offsets[i];
        w->offsets[i] = point < 0 ? -1 : (point >> 32) * s->layout.stride + (point & UINT32_MAX) * point_bytes;
    }
}

/* Zeros for n bytes of each row: word by word where they are a few words, for which a call for each row takes longer. */
#define FEW_BYTES 32
static void clear_rows(u8 *packed, i64 stride, i64 rows, i64 n) {
    if (n > FEW_BYTES || ((uintptr_t)packed | (uintptr_t)stride | (uintptr_t)n) % sizeof(u32)) {
        for (i64 r = 0; r < rows; r++) memset(packed + r * stride, 0, (size_t)n);
        return;
    }
    for (i64 at = 0; at < n; at += (i64)sizeof(u32))
        for (i64 r = 0; r < rows; r++) *(u32 *)(void *)(packed + r * stride + at) = 0;
}

/* Zeros for the padding of all taps that lie in [k, k + n) of a row along k. */
static void clear_taps(const struct source *s, i64 bytes, u8 *packed, i64 stride, i64 count, i64 k, i64 n) {
    for (i64 tap = k / s->tap_width * s->tap_width; tap < k + n; tap += s->tap_width) {
        const i64 from = tap + s->tap_channels < k ? k : tap + s->tap_channels, to = least(tap + s->tap_width, k + n);
        if (from < to) clear_rows(packed + (from - k) * bytes, stride, count, (to - from) * bytes);
    }
}

/* Rows (or columns) [first, first + count) over k [k0, k0 + num_k), `stride` bytes apart. What is missing of the last word is any number. */
static void pack_along(const struct product *p, const struct source *s, struct workspace *w, packer_along pack, i64 bytes, u8 *packed, i64 stride,
                       i64 first, i64 count, i64 k0, i64 num_k) {
    struct runs runs = runs_of(gemm_kernel_of(p->fmt), p, s, w->offsets);
    const i64 end = k0 + num_k;
    for (i64 k = k0, piece; k < end; k += piece) {
        i64 point_bytes, run, whole;
        runs.data = find_run(s, k % s->width, &point_bytes, &run, &whole);
        piece = least(whole, end - k);
        runs.n = run < 0 ? 0 : least(run, piece);
        runs.num = count;
        find_points(p, s, w, point_bytes, first, count, k / s->width);
        u8 *const row = packed + (k - k0) * bytes;
        if (runs.n) pack(row, stride, &runs);
        if (s->tap_width) clear_taps(s, bytes, row, stride, count, k, piece);
        if (runs.n < piece) clear_rows(row + runs.n * bytes, stride, count, (piece - runs.n) * bytes);
    }
}

/* For each k [k0, k0 + num_k), or neighbours of them, rows of words of [first, first + count) in panels, where all runs begin that are not
 * the first one. */
static void pack_across(const struct product *p, const struct source *s, struct workspace *w, packer_across pack, i64 word_bytes,
                        u8 *packed, const struct panels *to, i64 first, i64 count, i64 k0, i64 num_k) {
    struct runs runs = runs_of(gemm_kernel_of(p->fmt), p, s, w->offsets);
    runs.num = num_k;
    for (i64 at = 0; at < count; at += runs.n) {
        i64 point_bytes, run, whole;
        runs.data = find_run(s, first + at, &point_bytes, &run, &whole);
        runs.n = least(run, count - at);
        find_points(p, s, w, point_bytes, k0, num_k, 0);
        pack(packed + at / to->columns * to->bytes + at % to->columns * word_bytes, to, &runs);
    }
}

static void widen(u8 *dst, i64 dst_stride, const u32 *words, i64 stride, i64 rows, i64 n) {
    for (i64 r = 0; r < rows; r++, dst += dst_stride)
        for (i64 i = 0; i < n; i++) ((double *)(void *)dst)[i] = float_of_bits(words[r * stride + i]);
}

static int has_words(const struct source *s, const u8 *data) { return s->points == equal_points && (uintptr_t)data % sizeof(u32) == 0; }

/* Rows from `first` on along k as they lie; 0 if they do not lie so. */
static int place_along(const struct source *s, struct place *place, i64 first, i64 k0, i64 num_k) {
    i64 point_bytes, run, whole;
    if (!s->is_along || !has_words(s, s->data) || s->placed.piece_points) return 0;
    const u8 *const data = find_run(s, k0, &point_bytes, &run, &whole);
    if (run < num_k || point_bytes % (i64)sizeof(u32)) return 0;
    *place = (struct place){data + first * point_bytes, point_bytes / (i64)sizeof(u32), 0};
    return 1;
}

/* Rows of floats of which the bits that TF32 keeps are copied from where they lie; 0 if they do not lie so. */
static int copy_placed(const struct product *p, struct workspace *w, i64 first, i64 count, i64 k0, i64 num_k) {
    const i64 width = p->left.layout.width, end = k0 + num_k, stride = left_stride(gemm_kernel_of(FORMAT_TF32)) / (i64)sizeof(u32);
    struct place rows;
    if (p->fmt != FORMAT_TF32) return 0;
    for (i64 k = k0, piece; k < end; k += piece) {
        piece = least(width - k % width, end - k);
        if (!place_along(&p->left, &rows, first, k, piece)) return 0;
        const u32 *from = rows.data;
        u32 *to = (u32 *)(void *)w->left + (k - k0);
        for (i64 r = 0; r < count; r++, from += rows.stride, to += stride)
            for (i64 i = 0; i < piece; i++) to[i] = from[i] & TF32_KEPT;
    }
    return 1;
}

void pack_left(const struct product *p, struct workspace *w, i64 first, i64 count, i64 k0, i64 num_k) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const i64 num_words = (num_k + kernel->k_per_word - 1) / kernel->k_per_word, stride = left_stride(kernel), size = kernel->word_bytes;
    if (copy_placed(p, w, first, count, k0, num_k)) return;
    if (p->left.is_along) {
        pack_along(p, &p->left, w, kernel->along, size / kernel->k_per_word, w->left, stride, first, count, k0, num_k);
    } else {
        const struct panels to = {.columns = BLOCK_ROWS};
        const int is_wide = size > (i64)sizeof(u32);
        u32 *const words = is_wide ? w->words : (u32 *)(void *)w->left;
        const i64 row_words = is_wide ? CHUNK : stride / (i64)sizeof(u32);
        pack_across(p, &p->left, w, kernel->across32, sizeof(u32), (u8 *)w->turned, &to, first, count, k0, num_k);
        transpose_words(words, row_words, w->turned, BLOCK_ROWS, num_words, count, WHOLE_WORDS);
        if (is_wide) widen(w->left, stride, words, row_words, count, num_k);
    }
}

/* Transposes rows from where they lie; 0 if they do not lie so. */
static int turn_placed(const struct product *p, u8 *panel, i64 first, i64 count, i64 k0, i64 num_k) {
    const i64 columns = gemm_kernel_of(p->fmt)->columns, width = p->right.layout.width, end = k0 + num_k;
    struct place rows;
    if (p->fmt != FORMAT_TF32) return 0;
    for (i64 k = k0, piece; k < end; k += piece) {
        piece = least(width - k % width, end - k);
        if (!place_along(&p->right, &rows, first, k, piece)) return 0;
    }
    if (count < columns) memset(panel, 0, (size_t)(num_k * columns) * sizeof(u32));
    for (i64 k = k0, piece; k < end; k += piece) {
        piece = least(width - k % width, end - k);
        place_along(&p->right, &rows, first, k, piece);
        transpose_words((u32 *)(void *)panel + (k - k0) * columns, columns, rows.data, rows.stride, count, piece, TF32_KEPT);
    }
    return 1;
}

/* A panel of rows that lie along k: they are transposed. */
static void pack_turned(const struct product *p, struct workspace *w, u8 *panel, i64 first, i64 count, i64 k0, i64 num_k) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const i64 num_words = (num_k + kernel->k_per_word - 1) / kernel->k_per_word, columns = kernel->columns, size = kernel->word_bytes;
    const int is_wide = size > (i64)sizeof(u32);
    u32 *const words = is_wide ? w->words : (u32 *)(void *)panel;
    const i64 rest = num_words * kernel->k_per_word - num_k, bytes = (i64)sizeof(u32) / kernel->k_per_word;
    if (turn_placed(p, panel, first, count, k0, num_k)) return;
    pack_along(p, &p->right, w, kernel->along32, bytes, (u8 *)w->turned, CHUNK * sizeof(u32), first, count, k0, num_k);
    for (i64 n = 0; rest && n < count; n++) memset((u8 *)(w->turned + n * CHUNK) + num_k * bytes, 0, (size_t)(rest * bytes));
    for (i64 n = count; n < columns; n++) memset(w->turned + n * CHUNK, 0, (size_t)num_words * sizeof(u32));
    transpose_words(words, columns, w->turned, CHUNK, columns, num_words, WHOLE_WORDS);
    if (is_wide) widen(panel, columns * size, words, columns, num_k, columns);
}

void pack_right(const struct product *p, struct workspace *w, u8 *right, i64 first, i64 count, i64 k0, i64 num_k) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const struct panels to = {kernel->columns, panel_bytes(kernel)};
    const i64 num_words = (num_k + kernel->k_per_word - 1) / kernel->k_per_word, last = (count - 1) / to.columns;
    if (!p->right.is_along) {
        if (count % to.columns) memset(right + last * to.bytes, 0, (size_t)(num_words * to.columns * kernel->word_bytes));
        pack_across(p, &p->right, w, kernel->across, kernel->word_bytes, right, &to, first, count, k0, num_k);
    }
    for (i64 i = 0; i <= last; i++, right += to.bytes) {
        const i64 n = i * to.columns;
        if (p->right.is_along) pack_turned(p, w, right, first + n, least(to.columns, count - n), k0, num_k);
        if (kernel->finish_panel) kernel->finish_panel(right, num_words, 128 + p->left.zero_point);
    }
}

/* -------------------------------------------------------------------------------------------------------------- operands as they lie */

int may_place_rows(const struct product *p) {
    const i64 apart = p->right.placed.point_bytes; /* 0 in SPM, where they are close */
    const int collides = !p->right.is_along && apart && apart % COLLIDING_BYTES == 0;
    return p->rows <= (collides ? MOST_COLLIDING_ROWS : MOST_PLACED_ROWS);
}

int can_place_right(const struct product *p, i64 columns) {
    const struct source *const s = &p->right;
    const struct placed *const d = &s->placed;
    if (d->point_bytes % (i64)sizeof(u32) || d->piece_points % PLACED_CHUNK || d->piece_bytes % (i64)sizeof(u32)) return 0;
    return !s->is_along && has_words(s, s->data) && columns % LANES == 0;
}

struct place place_right(const struct product *p, i64 column, i64 k0) {
    i64 point_bytes, run, whole;
    const u8 *const data = find_run(&p->right, column, &point_bytes, &run, &whole);
    const i64 offset = p->right.placed.piece_points ? placed_offset(&p->right.placed, k0) : k0 * point_bytes;
    return (struct place){data + offset, point_bytes / (i64)sizeof(u32), 0};
}
