/* Sums of floats. Those toward zero run with instructions that name their rounding, or with the processor in that mode: then a fused
 * multiply-add is one step of the chain. Functions that change the mode are not inlined, so that the compiler moves no arithmetic across
 * the change. */
#include "kernels_gemm.h"

#define INLINED static inline __attribute__((always_inline))
#define EACH_VECTOR(num) _Pragma("GCC unroll 2") for (int c = 0; c < num; c++)

INLINED floats begin_sums(const struct strip *t, int row, int vector) {
    return t->from ? load_floats((const float *)(const void *)t->from + row * t->from_stride + vector * LANES) : spread_float(0);
}

/* NaN are canonical wherever sums are kept. */
INLINED void keep_sums(const struct strip *t, int row, int vector, floats sums) {
    store_floats((float *)(void *)t->to + row * t->to_stride + vector * LANES, canonical_floats(sums));
}

/* The sums of the next tile of the same columns, so that loading them overlaps with computing. */
INLINED void prefetch_sums(const struct strip *t, int vectors) {
    EACH_ROW(TILE_ROWS) EACH_VECTOR(vectors) {
        if (t->from) __builtin_prefetch(t->from + (TILE_ROWS + r) * t->from_stride + c * LANES);
        __builtin_prefetch(t->to + (TILE_ROWS + r) * t->to_stride + c * LANES, 1);
    }
}

/* ------------------------------------------------------------------------------------------------------------------- bf16 and tf32 */

#define LEFT_FLOATS (CHUNK + LINE_BYTES / (i64)sizeof(float))

/* Operands, packed or as they lie: then the bits that TF32 has not are dropped here. */
#define LEFT_STRIDE(t, is_placed) ((is_placed) ? (t)->left_stride : LEFT_FLOATS)
#define RIGHT_STRIDE(t, is_placed) ((is_placed) ? (t)->right_stride : TILE_COLUMNS)
INLINED floats spread_left(const float *a, const int is_placed) {
    return is_placed ? and_floats(spread_float(*a), TF32_KEPT) : spread_float(*a);
}
INLINED floats load_right(const float *b, const int is_placed) { return is_placed ? and_floats(load_floats(b), TF32_KEPT) : load_floats(b); }

/* One block of `count` products. What is missing of a block is zeros: -0 + 0 = +0. */
INLINED void add_block(floats acc[TILE_ROWS][2], const float *a, const float *b, i64 count, i64 a_stride, i64 b_stride, const int rows,
                       const int is_placed) {
    floats s[TILE_ROWS][2];
    const floats first = load_right(b, is_placed), second = load_right(b + LANES, is_placed);
    EACH_ROW(rows) {
        const floats x = spread_left(a + r * a_stride, is_placed);
        s[r][0] = cut_mul(x, first);
        s[r][1] = cut_mul(x, second);
    }
    for (i64 k = 1; k < count; k++) {
        const floats left = load_right(b + k * b_stride, is_placed), right = load_right(b + k * b_stride + LANES, is_placed);
        EACH_ROW(rows) {
            const floats x = spread_left(a + r * a_stride + k, is_placed);
            s[r][0] = cut_fma(x, left, s[r][0]);
            s[r][1] = cut_fma(x, right, s[r][1]);
        }
    }
    EACH_ROW(rows) EACH_VECTOR(2) {
        if (count < NE_BLOCK) s[r][c] = cut_add(s[r][c], spread_float(0));
        acc[r][c] = cut_add(acc[r][c], s[r][c]);
    }
}

INLINED void add_tile(const struct strip *t, const float *a, const float *b, i64 k, const int rows, const int is_placed) {
    const i64 a_stride = LEFT_STRIDE(t, is_placed), b_stride = RIGHT_STRIDE(t, is_placed);
    floats acc[TILE_ROWS][2];
    EACH_ROW(rows) EACH_VECTOR(2) acc[r][c] = begin_sums(t, r, c);
    prefetch_sums(t, 2);
    for (; k >= NE_BLOCK; k -= NE_BLOCK, a += NE_BLOCK, b += NE_BLOCK * b_stride)
        add_block(acc, a, b, NE_BLOCK, a_stride, b_stride, rows, is_placed);
    if (k) add_block(acc, a, b, k, a_stride, b_stride, rows, is_placed);
    EACH_ROW(rows) EACH_VECTOR(2) keep_sums(t, r, c, acc[r][c]);
}

#define ADD_PACKED(rest, a, rows) add_tile(rest, a, b, k, rows, 0)
#define ADD_PLACED(rest, a, rows) add_tile(rest, a, b, k, rows, 1)
static APART void add_tiles(const struct strip *strip, const float *a, const float *b, i64 k) { EACH_TILE(strip, a, LEFT_FLOATS, ADD_PACKED); }
static APART void add_placed_tiles(const struct strip *strip, const float *a, const float *b, i64 k) {
    EACH_TILE(strip, a, strip->left_stride, ADD_PLACED);
}

/* The same of a panel's first LANES columns, in tiles twice as high. */
#define NARROW_ROWS (2 * TILE_ROWS)
#define EACH_NARROW_ROW(rows) _Pragma("GCC unroll 16") for (int r = 0; r < (rows); r++)

INLINED void add_narrow_block(floats acc[NARROW_ROWS], const float *a, const float *b, i64 count, i64 a_stride, i64 b_stride, const int rows,
                              const int is_placed) {
    floats s[NARROW_ROWS];
    const floats first = load_right(b, is_placed);
    EACH_NARROW_ROW(rows) s[r] = cut_mul(spread_left(a + r * a_stride, is_placed), first);
    for (i64 k = 1; k < count; k++) {
        const floats next = load_right(b + k * b_stride, is_placed);
        EACH_NARROW_ROW(rows) s[r] = cut_fma(spread_left(a + r * a_stride + k, is_placed), next, s[r]);
    }
    EACH_NARROW_ROW(rows) {
        if (count < NE_BLOCK) s[r] = cut_add(s[r], spread_float(0));
        acc[r] = cut_add(acc[r], s[r]);
    }
}

INLINED void add_narrow_tile(const struct strip *t, const float *a, const float *b, i64 k, const int rows, const int is_placed) {
    const i64 a_stride = LEFT_STRIDE(t, is_placed), b_stride = RIGHT_STRIDE(t, is_placed);
    floats acc[NARROW_ROWS];
    EACH_NARROW_ROW(rows) acc[r] = begin_sums(t, r, 0);
    for (; k >= NE_BLOCK; k -= NE_BLOCK, a += NE_BLOCK, b += NE_BLOCK * b_stride)
        add_narrow_block(acc, a, b, NE_BLOCK, a_stride, b_stride, rows, is_placed);
    if (k) add_narrow_block(acc, a, b, k, a_stride, b_stride, rows, is_placed);
    EACH_NARROW_ROW(rows) keep_sums(t, r, 0, acc[r]);
}

INLINED void add_narrow_strip(const struct strip *strip, const float *a, const float *b, i64 k, const int is_placed) {
    const i64 apart = LEFT_STRIDE(strip, is_placed);
    struct strip rest = *strip;
    for (; rest.rows >= NARROW_ROWS; leave_rows(&rest, NARROW_ROWS), a += NARROW_ROWS * apart)
        add_narrow_tile(&rest, a, b, k, NARROW_ROWS, is_placed);
    if (rest.rows & 8) add_narrow_tile(&rest, a, b, k, 8, is_placed), a += 8 * apart, leave_rows(&rest, 8);
    if (rest.rows & 4) add_narrow_tile(&rest, a, b, k, 4, is_placed), a += 4 * apart, leave_rows(&rest, 4);
    if (rest.rows & 2) add_narrow_tile(&rest, a, b, k, 2, is_placed), a += 2 * apart, leave_rows(&rest, 2);
    if (rest.rows & 1) add_narrow_tile(&rest, a, b, k, 1, is_placed);
}
static APART void add_narrow_tiles(const struct strip *strip, const float *a, const float *b, i64 k) { add_narrow_strip(strip, a, b, k, 0); }
static APART void add_narrow_placed_tiles(const struct strip *strip, const float *a, const float *b, i64 k) {
    add_narrow_strip(strip, a, b, k, 1);
}

static void sum_floats(const struct strip *strip, const void *left, const void *right, i64 k) {
    if (!NAMES_ROUNDING) round_toward_zero();
    if (strip->columns == LANES) add_narrow_tiles(strip, left, right, k);
    else add_tiles(strip, left, right, k);
    if (!NAMES_ROUNDING) round_to_nearest();
}

static void sum_placed_floats(const struct strip *strip, const void *left, const void *right, i64 k) {
    if (!NAMES_ROUNDING) round_toward_zero();
    if (strip->columns == LANES) add_narrow_placed_tiles(strip, left, right, k);
    else add_placed_tiles(strip, left, right, k);
    if (!NAMES_ROUNDING) round_to_nearest();
}

/* ---------------------------------------------------------------------------------------------------------------------------- fp16 */

#define TILE_DOUBLES (TILE_ROWS * LANES)
#define LEFT_DOUBLES (CHUNK + LINE_BYTES / (i64)sizeof(double))

/* The sums of one block in double, to nearest; what is missing of it is zeros. */
INLINED void chain_block(doubles v[TILE_ROWS][2], const double *a, const double *b, i64 count, const int rows) {
    const doubles first = load_doubles(b), second = load_doubles(b + LANES / 2);
    EACH_ROW(rows) {
        const doubles x = spread_double(a[r * LEFT_DOUBLES]);
        v[r][0] = mul_doubles(x, first);
        v[r][1] = mul_doubles(x, second);
    }
    for (i64 k = 1; k < count; k++) {
        const doubles left = load_doubles(b + k * LANES), right = load_doubles(b + k * LANES + LANES / 2);
        EACH_ROW(rows) {
            const doubles x = spread_double(a[r * LEFT_DOUBLES + k]);
            v[r][0] = fma_doubles(x, left, v[r][0]);
            v[r][1] = fma_doubles(x, right, v[r][1]);
        }
    }
    if (count < NE_BLOCK) EACH_ROW(rows) {
        v[r][0] = add_doubles(v[r][0], spread_double(0));
        v[r][1] = add_doubles(v[r][1], spread_double(0));
    }
}

#if defined(__AVX512F__) && defined(__AVX512DQ__)
/* Rounded toward zero to the bits of a float, which cost less than the conversion: no sum of fp16 products is too large or too small for
 * one. A double rounded toward zero twice is that rounded once. */
INLINED doubles cut_double(doubles v) { return _mm512_and_pd(v, _mm512_castsi512_pd(_mm512_set1_epi64(-(1LL << 29)))); }

INLINED void fold_block(doubles acc[TILE_ROWS][2], doubles v[TILE_ROWS][2], const int rows) {
    EACH_ROW(rows) EACH_VECTOR(2) acc[r][c] = cut_double(_mm512_add_round_pd(acc[r][c], cut_double(v[r][c]), TOWARD_ZERO));
}

/* Nothing leaves the registers. */
INLINED void sum_tile(const struct strip *t, const double *a, const double *b, i64 k, const int rows) {
    doubles v[TILE_ROWS][2], acc[TILE_ROWS][2];
    EACH_ROW(rows) {
        const floats from = begin_sums(t, r, 0);
        acc[r][0] = _mm512_cvtps_pd(_mm512_castps512_ps256(from));
        acc[r][1] = _mm512_cvtps_pd(_mm512_extractf32x8_ps(from, 1));
    }
    prefetch_sums(t, 1);
    for (; k >= NE_BLOCK; k -= NE_BLOCK, a += NE_BLOCK, b += NE_BLOCK * LANES) {
        chain_block(v, a, b, NE_BLOCK, rows);
        fold_block(acc, v, rows);
    }
    if (k) {
        chain_block(v, a, b, k, rows);
        fold_block(acc, v, rows);
    }
    EACH_ROW(rows) {
        const __m256 low = _mm512_cvtpd_ps(acc[r][0]), high = _mm512_cvtpd_ps(acc[r][1]);
        keep_sums(t, r, 0, _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1));
    }
}

static void sum_doubles(const struct strip *strip, const void *left, const void *right, i64 k) {
    const double *a = left, *const b = right;
#define SUM_TILE(rest, a, rows) sum_tile(rest, a, b, k, rows)
    EACH_TILE(strip, a, LEFT_DOUBLES, SUM_TILE);
}
#else
INLINED void store_block(double *s, doubles v[TILE_ROWS][2], const int rows) {
    EACH_ROW(rows) {
        store_doubles(s + r * LANES, v[r][0]);
        store_doubles(s + r * LANES + LANES / 2, v[r][1]);
    }
}

INLINED void chain_blocks(double *s, const double *a, const double *b, i64 k, const int rows) {
    doubles v[TILE_ROWS][2];
    for (; k >= NE_BLOCK; k -= NE_BLOCK, s += rows * LANES, a += NE_BLOCK, b += NE_BLOCK * LANES) {
        chain_block(v, a, b, NE_BLOCK, rows);
        store_block(s, v, rows);
    }
    if (!k) return;
    chain_block(v, a, b, k, rows);
    store_block(s, v, rows);
}

/* The processor rounds toward zero, the conversion too. */
static APART void fold_blocks(float *acc, const double *s, i64 blocks, int n) {
    for (i64 b = 0; b < blocks; b++, s += n)
        for (int i = 0; i < n; i++) acc[i] += (float)s[i];
}

static APART void sum_tile(const struct strip *t, const double *a, const double *b, i64 k, int rows) {
    double s[CHUNK / NE_BLOCK * TILE_DOUBLES];
    float acc[TILE_DOUBLES];
    EACH_ROW(rows) store_floats(acc + r * LANES, begin_sums(t, r, 0));
    if (rows == TILE_ROWS) chain_blocks(s, a, b, k, TILE_ROWS);
    else if (rows == 4) chain_blocks(s, a, b, k, 4);
    else if (rows == 2) chain_blocks(s, a, b, k, 2);
    else chain_blocks(s, a, b, k, 1);
    round_toward_zero();
    fold_blocks(acc, s, (k + NE_BLOCK - 1) / NE_BLOCK, rows * LANES);
    round_to_nearest();
    EACH_ROW(rows) keep_sums(t, r, 0, load_floats(acc + r * LANES));
}

static void sum_doubles(const struct strip *strip, const void *left, const void *right, i64 k) {
    const double *a = left, *const b = right;
#define SUM_TILE(rest, a, rows) sum_tile(rest, a, b, k, rows)
    EACH_TILE(strip, a, LEFT_DOUBLES, SUM_TILE);
}
#endif

const struct gemm_kernel *gemm_kernel_of(int fmt) {
    static const struct gemm_kernel kernels[] = {
        {TILE_COLUMNS, 1, 4, LANES, 0, along_bf16, along_bf16, across_bf16, across_bf16, NULL, sum_floats, NULL},
        {TILE_COLUMNS, 1, 4, LANES, 0, along_tf32, along_tf32, across_tf32, across_tf32, NULL, sum_floats, sum_placed_floats},
        {LANES, 1, 8, 0, 0, along_f16_wide, along_f16, across_f16_wide, across_f16, NULL, sum_doubles, NULL},
    };
    switch (fmt) {
    case FORMAT_BF16: return &kernels[0];
    case FORMAT_TF32: return &kernels[1];
    case FORMAT_FP16: return &kernels[2];
    case FORMAT_INT8: return int8_kernel();
    default: return NULL;
    }
}
