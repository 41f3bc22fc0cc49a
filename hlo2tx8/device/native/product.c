/* The product is made block by block: up to BLOCK_ROWS x BLOCK_COLUMNS results over a chunk of k, whose operands are packed so that the
 * kernels of kernels_gemm.c read them in order. Sums stay in FP32 or INT32 until all of k is done: where that is the format of the result
 * in its place, else in scratch. */
#include "product.h"

static i64 least(i64 a, i64 b) { return a < b ? a : b; }

/* -------------------------------------------------------------------------------------------------------------------------- results */

static i64 clip(i64 x, i64 low, i64 high) { return x < low ? low : x > high ? high : x; }

static i8 quantise(const struct product *p, i32 sum) {
    const i64 narrow = clip((i64)sum >> p->q1, INT16_MIN, INT16_MAX);
    return (i8)clip(clip(narrow * p->scale >> p->q2, -256, 255) + p->zero_out, INT8_MIN, INT8_MAX);
}

static inline void narrow_run(u16 *dst, const float *src, i64 n) {
    i64 i = 0;
#if defined(F16_VECTOR)
    for (; i + F16_VECTOR <= n; i += F16_VECTOR) {
        float sums[F16_VECTOR];
        for (i64 k = 0; k < F16_VECTOR; k++) sums[k] = put_f32(src[i + k]); /* the canonical NaN */
        narrow_f16_vector(dst + i, sums);
    }
#endif
    for (; i < n; i++) dst[i] = put_f16(src[i]);
}

void store_sums(const struct product *p, u8 *dst, const void *sums, i64 n) {
    union {
        u8 bytes[MOST_WIDTH * 4];
        i8 i8[MOST_WIDTH];
        u16 u16[MOST_WIDTH];
        float f[MOST_WIDTH];
    } row;
    const float *const f = sums;
    const i32 *const s = sums;
    const int is_integer = p->fmt == FORMAT_INT8;
    switch (p->result_fmt) {
    case FORMAT_BF16: for (i64 i = 0; i < n; i++) row.u16[i] = put_bf16(f[i]); break;
    case FORMAT_FP16:
        if (!is_integer) narrow_run(row.u16, f, n);
        for (i64 i = 0; is_integer && i < n; i++) row.u16[i] = round_f16((double)s[i]);
        break;
    case FORMAT_FP32: for (i64 i = 0; i < n; i++) row.f[i] = put_f32(f[i]); break;
    case FORMAT_TF32: for (i64 i = 0; i < n; i++) row.f[i] = put_tf32(f[i]); break;
    case FORMAT_INT8: for (i64 i = 0; i < n; i++) row.i8[i] = p->is_quantised ? quantise(p, s[i]) : (i8)clip(s[i], INT8_MIN, INT8_MAX); break;
    default: memcpy(row.bytes, s, (size_t)n * sizeof(i32));
    }
    memcpy(dst, row.bytes, (size_t)(n * p->result.bytes));
}

i64 row_offset(const struct blocked *l, i64 width, i64 row) {
    return row < l->points ? row * width * l->bytes : offset_of(l, width, point_of(row / l->points, row % l->points));
}

/* Channels of rows of the result that one panel makes. */
struct part {
    i64 row, rows, column, columns;
};

/* Rows of n words, `stride` bytes apart; lengths that most have are known to the compiler. */
static inline void copy_rows(u8 *dst, i64 dst_stride, const u8 *src, i64 src_stride, i64 rows, i64 n) {
#define COPY_ROWS(bytes) for (i64 r = 0; r < rows; r++) memcpy(dst + r * dst_stride, src + r * src_stride, (size_t)(bytes))
    switch (n) {
    case 4: COPY_ROWS(4 * sizeof(u32)); return;
    case 8: COPY_ROWS(8 * sizeof(u32)); return;
    case 16: COPY_ROWS(16 * sizeof(u32)); return;
    case 32: COPY_ROWS(32 * sizeof(u32)); return;
    default: COPY_ROWS(n * (i64)sizeof(u32));
    }
#undef COPY_ROWS
}

/* Do rows of a part lie evenly apart? */
static int is_even(const struct blocked *l, i64 first, i64 rows) { return first / l->points == (first + rows - 1) / l->points; }

/* Moves sums that are apart by `stride` words in from partial sums or out to the result. */
static void load_part(const struct product *p, const struct part *t, float *sums, i64 stride) {
    for (i64 n = 0, width, run; n < t->columns; n += run) {
        const u8 *const source = p->sums + find_channel(&p->psum, t->column + n, &width, &run);
        run = least(run, t->columns - n);
        if (is_even(&p->psum, p->first + t->row, t->rows)) {
            copy_rows((u8 *)(sums + n), stride * 4, source + row_offset(&p->psum, width, p->first + t->row), width * 4, t->rows, run);
            continue;
        }
        for (i64 r = 0; r < t->rows; r++) memcpy(sums + r * stride + n, source + row_offset(&p->psum, width, p->first + t->row + r), (size_t)run * 4);
    }
}

static void store_part(const struct product *p, const struct part *t, const float *sums, i64 stride) {
    const int is_wide = p->result_fmt == FORMAT_FP32 || p->result_fmt == FORMAT_INT32; /* sums as they are: their NaN are canonical */
    for (i64 n = 0, width, run; n < t->columns; n += run) {
        u8 *const target = p->out + find_channel(&p->result, t->column + n, &width, &run);
        run = least(run, t->columns - n);
        if (is_wide && is_even(&p->result, p->first + t->row, t->rows)) {
            copy_rows(target + row_offset(&p->result, width, p->first + t->row), width * 4, (const u8 *)(sums + n), stride * 4, t->rows, run);
            continue;
        }
        for (i64 r = 0; r < t->rows; r++) store_sums(p, target + row_offset(&p->result, width, p->first + t->row + r), sums + r * stride + n, run);
    }
}

/* Where a part lies in `data`, of whose columns so many are summed, rows apart by *stride words; NULL if there are fewer, if rows are not
 * evenly apart, or at an address that is no word's. */
static u32 *place_part(const u8 *data, const struct blocked *l, const struct product *p, const struct part *t, i64 columns, i64 *stride) {
    i64 run;
    const i64 first = p->first + t->row, offset = find_channel(l, t->column, stride, &run);
    if (t->columns < columns || run < columns || !is_even(l, first, t->rows)) return NULL;
    if ((uintptr_t)data % sizeof(u32)) return NULL;
    return (u32 *)(uintptr_t)(data + offset + row_offset(l, *stride, first));
}

/* ---------------------------------------------------------------------------------------------------------------------------- blocks */

/* Adds a chunk of k to a part. `sums` is its scratch. The right operand is packed to `packed` on the way if that is not NULL, while the
 * host is asked for what lies at `ahead`. */
static void run_part(const struct product *p, const struct part *t, const void *left, struct place right, i64 k0, i64 num_k, float *sums,
                     u8 *packed, const void *ahead) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const i64 num_words = (num_k + kernel->k_per_word - 1) / kernel->k_per_word;
    const int is_first = k0 == 0, is_last = k0 + num_k == p->depth, is_wide = p->result_fmt == FORMAT_FP32 || p->result_fmt == FORMAT_INT32;
    struct strip s = {.rows = t->rows, .columns = panel_columns(kernel, t->columns), .right_stride = right.stride};
    u32 *const place = is_wide ? place_part(p->out, &p->result, p, t, s.columns, &s.to_stride) : NULL;
    s.to = place;
    if (!place) s.to = (u32 *)(void *)sums, s.to_stride = kernel->columns;
    s.from = s.to, s.from_stride = s.to_stride;
    if (is_first) s.from = p->sums ? place_part(p->sums, &p->psum, p, t, s.columns, &s.from_stride) : NULL;
    if (is_first && p->sums && !s.from) {
        s.from = (u32 *)(void *)sums, s.from_stride = kernel->columns;
        load_part(p, t, sums, s.from_stride);
    }
    if (packed) kernel->sum_packing(&s, left, right.data, num_words, packed, ahead);
    else if (right.is_packed) kernel->sum(&s, left, right.data, num_words);
    else kernel->sum_placed(&s, left, right.data, num_words);
    if (is_last && !place) store_part(p, t, sums, s.to_stride);
}

/* Columns [n0, n0 + columns) for all rows. Packed columns are kept from one block of rows to the next if all of k has room. */
static void run_columns(const struct product *p, struct workspace *w, i64 n0, i64 columns) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const int is_right_placed = kernel->sum_placed && may_place_rows(p) && can_place_right(p, columns);
    const int may_pack = kernel->sum_packing && columns % kernel->columns == 0 && can_place_right(p, columns);
    const int is_in_pieces = (is_right_placed || may_pack) && p->right.placed.piece_points % (CHUNK * kernel->k_per_word);
    const i64 chunk = is_in_pieces ? PLACED_CHUNK : CHUNK * kernel->k_per_word;
    const i64 num_panels = (columns + kernel->columns - 1) / kernel->columns, size = panel_bytes(kernel);
    const int is_kept = p->rows > BLOCK_ROWS && (p->depth + chunk - 1) / chunk * num_panels * size <= (i64)sizeof w->right;
    for (i64 m0 = 0; m0 < p->rows; m0 += BLOCK_ROWS) {
        const i64 rows = least(BLOCK_ROWS, p->rows - m0);
        for (i64 k0 = 0; k0 < p->depth; k0 += chunk) {
            const i64 num_k = least(chunk, p->depth - k0);
            u8 *right = w->right + (is_kept ? k0 / chunk * num_panels * size : 0);
            float *sums = w->sums;
            pack_left(p, w, m0, rows, k0, num_k);
            const int is_new = !is_right_placed && (!m0 || !is_kept), packs = is_new && may_pack && rows >= TILE_ROWS;
            if (is_new && !packs) pack_right(p, w, right, n0, columns, k0, num_k);
            for (i64 n = 0; n < columns; n += kernel->columns, right += size, sums += rows * kernel->columns) {
                const struct part t = {m0, rows, n0 + n, least(kernel->columns, columns - n)};
                const struct place packed = {right, kernel->columns, 1};
                const struct place place = is_right_placed || packs ? place_right(p, t.column, k0) : packed;
                const void *const ahead = packs && n + kernel->columns < columns ? place_right(p, t.column + kernel->columns, k0).data : NULL;
                run_part(p, &t, w->left, place, k0, num_k, sums, packs ? right : NULL, ahead);
            }
        }
    }
}

void run_product(const struct product *p, u8 *scratch) {
    struct workspace *const w = (struct workspace *)(void *)scratch;
    for (i64 n0 = 0; n0 < p->columns; n0 += BLOCK_COLUMNS) run_columns(p, w, n0, least(BLOCK_COLUMNS, p->columns - n0));
}
