/* The product is made block by block: up to BLOCK_ROWS x BLOCK_COLUMNS results over CHUNK elements along k, whose operands are packed so that
 * the kernels of kernels_gemm.c read them in order. Sums stay in FP32 or INT32 until all of k is done. */
#include "product.h"

/* Scratch of one product. */
struct workspace {
    u32 words[BLOCK_ROWS * LEFT_STRIDE], turned[BLOCK_ROWS * LEFT_STRIDE];
    double left[BLOCK_ROWS * LEFT_STRIDE];
    double right[CHUNK * BLOCK_COLUMNS];
    float sums[BLOCK_ROWS * BLOCK_COLUMNS];
    i64 points[CHUNK];
};
_Static_assert(sizeof(struct workspace) <= PRODUCT_BYTES && BLOCK_ROWS <= CHUNK, "scratch of a product");
_Static_assert(TILE_COLUMNS * CHUNK <= BLOCK_ROWS * LEFT_STRIDE && BLOCK_COLUMNS % TILE_COLUMNS == 0, "a panel fits");

static i64 least(i64 a, i64 b) { return a < b ? a : b; }

static i64 element_bytes(const struct gemm_kernel *kernel) {
    return kernel->is_double ? (i64)sizeof(double) : (i64)sizeof(u32) / kernel->k_per_word;
}

void equal_points(const void *geometry, i64 *out, i64 first, i64 count, i64 tap) {
    (void)geometry, (void)tap;
    for (i64 i = 0; i < count; i++) out[i] = first + i;
}

/* ------------------------------------------------------------------------------------------------------------------------- packing */

/* Rows (or columns) [first, first + count) over k [k0, k0 + num_k), `stride` words apart. */
static void pack_along(const struct product *p, const struct source *s, struct workspace *w, u32 *words, i64 stride, i64 first, i64 count, i64 k0,
                       i64 num_k) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const i64 size = (i64)sizeof *words / kernel->k_per_word, end = k0 + num_k;
    for (i64 k = k0, piece; k < end; k += piece) {
        const i64 tap = k / s->width, c = k % s->width;
        i64 width, run;
        const i64 offset = find_channel(&s->layout, c, &width, &run);
        const i64 block_end = least((c / s->layout.width + 1) * s->layout.width, s->width);
        piece = least(block_end - c, end - k);
        const i64 real = run < 0 ? 0 : least(run, piece);
        u8 *row = (u8 *)words + (k - k0) * size;
        s->points(p->geometry, w->points, first, count, tap);
        for (i64 r = 0; r < count; r++, row += stride * (i64)sizeof *words) {
            const i64 n = w->points[r] < 0 ? 0 : real;
            if (n) kernel->along(row, s->data + offset + offset_of(&s->layout, width, w->points[r]), n, s->zero_point);
            if (n < piece) memset(row + n * size, 0, (size_t)((piece - n) * size));
        }
    }
    /* what an odd number of neighbours leaves of a word */
    const i64 rest = num_k % kernel->k_per_word ? 1 : 0;
    for (i64 r = 0; rest && r < count; r++) memset((u8 *)(words + r * stride) + num_k * size, 0, (size_t)size);
}

/* For each k [k0, k0 + num_k), or neighbours of them, a row of words for [first, first + count), `stride` words apart. */
static void pack_across(const struct product *p, const struct source *s, struct workspace *w, u32 *words, i64 stride, i64 first, i64 count, i64 k0,
                        i64 num_k) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    s->points(p->geometry, w->points, k0, num_k, 0);
    for (i64 at = 0, piece; at < count; at += piece) {
        i64 width, run;
        const u8 *const data = s->data + find_channel(&s->layout, first + at, &width, &run);
        piece = least(run, count - at);
        for (i64 k = 0; k < num_k; k += kernel->k_per_word) {
            const u8 *rows[2] = {NULL, NULL};
            for (i64 i = 0; i < kernel->k_per_word && k + i < num_k; i++)
                if (w->points[k + i] >= 0) rows[i] = data + offset_of(&s->layout, width, w->points[k + i]);
            kernel->across(words + k / kernel->k_per_word * stride + at, rows, piece, s->zero_point);
        }
    }
}

static void widen(double *dst, i64 dst_stride, const u32 *words, i64 stride, i64 rows, i64 n) {
    for (i64 r = 0; r < rows; r++)
        for (i64 i = 0; i < n; i++) dst[r * dst_stride + i] = float_of_bits(words[r * stride + i]);
}

/* Rows of LEFT_STRIDE elements along k; those that fill the last tile are zeros. */
static void pack_left(const struct product *p, struct workspace *w, i64 first, i64 count, i64 k0, i64 num_k) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const i64 stride = LEFT_STRIDE / kernel->k_per_word, num_words = (num_k + kernel->k_per_word - 1) / kernel->k_per_word;
    const i64 filled = (count + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    u32 *const words = kernel->is_double ? w->words : (u32 *)(void *)w->left;
    if (p->left.is_along) {
        pack_along(p, &p->left, w, words, stride, first, count, k0, num_k);
    } else {
        pack_across(p, &p->left, w, w->turned, BLOCK_ROWS, first, count, k0, num_k);
        transpose_words(words, stride, w->turned, BLOCK_ROWS, num_words, count);
    }
    for (i64 r = count; r < filled; r++) memset(words + r * stride, 0, (size_t)num_words * sizeof *words);
    if (kernel->is_double) widen(w->left, LEFT_STRIDE, words, stride, filled, num_k);
}

/* A panel: for each k, or neighbours of them, a row of the kernel's columns; those beyond the last are zeros. */
static void pack_right(const struct product *p, struct workspace *w, void *panel, i64 first, i64 count, i64 k0, i64 num_k) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const i64 stride = LEFT_STRIDE / kernel->k_per_word, num_words = (num_k + kernel->k_per_word - 1) / kernel->k_per_word;
    u32 *const words = kernel->is_double ? w->words : panel;
    if (p->right.is_along) {
        pack_along(p, &p->right, w, w->turned, stride, first, count, k0, num_k);
        for (i64 n = count; n < kernel->columns; n++) memset(w->turned + n * stride, 0, (size_t)num_words * sizeof *words);
        transpose_words(words, kernel->columns, w->turned, stride, kernel->columns, num_words);
    } else {
        if (count < kernel->columns) memset(words, 0, (size_t)(num_words * kernel->columns) * sizeof *words);
        pack_across(p, &p->right, w, words, kernel->columns, first, count, k0, num_k);
    }
    if (kernel->is_double) widen(panel, kernel->columns, words, kernel->columns, num_k, kernel->columns);
}

/* -------------------------------------------------------------------------------------------------------------------------- results */

static i64 clip(i64 x, i64 low, i64 high) { return x < low ? low : x > high ? high : x; }

static i8 quantise(const struct product *p, i32 sum) {
    const i64 narrow = clip((i64)sum >> p->q1, INT16_MIN, INT16_MAX);
    return (i8)clip(clip(narrow * p->scale >> p->q2, -256, 255) + p->zero_out, INT8_MIN, INT8_MAX);
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
    case FORMAT_FP16: for (i64 i = 0; i < n; i++) row.u16[i] = is_integer ? round_f16((double)s[i]) : put_f16(f[i]); break;
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

/* Moves the sums of one tile, `count` columns from n on, in from partial sums or out to the result. */
static void load_tile(const struct product *p, union tile_sums *tile, i64 columns, i64 m, i64 rows, i64 n, i64 count) {
    i64 width, run;
    memset(tile, 0, (size_t)(TILE_ROWS * columns) * sizeof(float));
    if (!p->sums) return;
    const u8 *const source = p->sums + find_channel(&p->psum, n, &width, &run);
    for (i64 r = 0; r < rows; r++) memcpy(tile->f + r * columns, source + row_offset(&p->psum, width, p->first + m + r), (size_t)count * 4);
}

static void store_tile(const struct product *p, const union tile_sums *tile, i64 columns, i64 m, i64 rows, i64 n, i64 count) {
    i64 width, run;
    u8 *const target = p->out + find_channel(&p->result, n, &width, &run);
    for (i64 r = 0; r < rows; r++) store_sums(p, target + row_offset(&p->result, width, p->first + m + r), tile->f + r * columns, count);
}

/* ---------------------------------------------------------------------------------------------------------------------------- blocks */

enum pass { LOAD, SUM, STORE };

/* One pass over the tiles of a block. */
static void run_tiles(const struct product *p, struct workspace *w, const u8 *right, enum pass pass, i64 m0, i64 rows, i64 n0, i64 columns, i64 num_k) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const i64 size = element_bytes(kernel), tile = TILE_ROWS * kernel->columns;
    float *sums = w->sums;
    for (i64 n = 0; n < columns; n += kernel->columns) {
        const i64 count = least(kernel->columns, columns - n);
        for (i64 m = 0; m < rows; m += TILE_ROWS, sums += tile) {
            union tile_sums *const acc = (union tile_sums *)(void *)sums;
            const i64 tile_rows = least(TILE_ROWS, rows - m);
            if (pass == LOAD) load_tile(p, acc, kernel->columns, m0 + m, tile_rows, n0 + n, count);
            else if (pass == SUM) kernel->sum(acc, (u8 *)w->left + m * LEFT_STRIDE * size, right + n * CHUNK * size, num_k);
            else store_tile(p, acc, kernel->columns, m0 + m, tile_rows, n0 + n, count);
        }
    }
}

/* Columns [n0, n0 + columns) for all rows. Packed columns are kept from one block of rows to the next if all of k has room. */
static void run_columns(const struct product *p, struct workspace *w, i64 n0, i64 columns) {
    const struct gemm_kernel *const kernel = gemm_kernel_of(p->fmt);
    const i64 size = element_bytes(kernel), panels = (columns + kernel->columns - 1) / kernel->columns * kernel->columns;
    const i64 is_kept = (p->depth + CHUNK - 1) / CHUNK * CHUNK * panels * size <= (i64)sizeof w->right;
    for (i64 m0 = 0; m0 < p->rows; m0 += BLOCK_ROWS) {
        const i64 rows = least(BLOCK_ROWS, p->rows - m0);
        run_tiles(p, w, NULL, LOAD, m0, rows, n0, columns, 0);
        for (i64 k0 = 0; k0 < p->depth; k0 += CHUNK) {
            const i64 num_k = least(CHUNK, p->depth - k0);
            u8 *const right = (u8 *)w->right + (is_kept ? k0 * panels * size : 0);
            pack_left(p, w, m0, rows, k0, num_k);
            for (i64 n = 0; n < columns && (!m0 || !is_kept); n += kernel->columns)
                pack_right(p, w, right + n * CHUNK * size, n0 + n, least(kernel->columns, columns - n), k0, num_k);
            run_tiles(p, w, right, SUM, m0, rows, n0, columns, num_k);
        }
        run_tiles(p, w, NULL, STORE, m0, rows, n0, columns, 0);
    }
}

void run_product(const struct product *p, u8 *scratch) {
    struct workspace *const w = (struct workspace *)(void *)scratch;
    for (i64 n0 = 0; n0 < p->columns; n0 += BLOCK_COLUMNS) run_columns(p, w, n0, least(BLOCK_COLUMNS, p->columns - n0));
}
