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

#if LANES == 16
#define MOST_TILE_ROWS 8 /* where nothing else limits a tile than the right operand, which is read as it lies: sums of blocks stay in registers */
#else
#define MOST_TILE_ROWS TILE_ROWS
#endif
#define LEFT_FLOATS (CHUNK + LINE_BYTES / (i64)sizeof(float))

/* The right operand, packed or as it lies: then the bits that TF32 has not are dropped here. It may also be packed on the way. */
enum right { RIGHT_PACKED, RIGHT_PLACED, RIGHT_TO_PACK, RIGHT_AHEAD };
struct operands {
    i64 right_stride;
    enum right right;
    float *packed;      /* RIGHT_TO_PACK: where */
    const float *ahead; /* RIGHT_AHEAD: what the host is asked for beside, `ahead_stride` apart */
    i64 ahead_stride;
};
#define ALL_PACKED ((struct operands){.right_stride = TILE_COLUMNS})
#define IS_PLACED(strip) ((struct operands){(strip)->right_stride, RIGHT_PLACED, NULL, NULL, 0})

INLINED floats load_right(const float *b, i64 k, i64 column, const struct operands o) {
    const floats found = load_floats(b + k * o.right_stride + column);
    if (o.right == RIGHT_AHEAD) __builtin_prefetch(o.ahead + k * o.ahead_stride + column);
    if (o.right == RIGHT_PACKED || o.right == RIGHT_AHEAD) return found;
    const floats kept = and_floats(found, TF32_KEPT);
    if (o.right == RIGHT_TO_PACK) store_floats(o.packed + k * TILE_COLUMNS + column, kept);
    return kept;
}

/* One block of `count` products. What is missing of a block is zeros: -0 + 0 = +0. */
INLINED void add_block(floats acc[MOST_TILE_ROWS][2], const float *a, const float *b, i64 count, const int rows, const struct operands o) {
    floats s[MOST_TILE_ROWS][2];
    const floats first = load_right(b, 0, 0, o), second = load_right(b, 0, LANES, o);
    EACH_ROW(rows) {
        const floats x = spread_float(a[r * LEFT_FLOATS]);
        s[r][0] = cut_mul(x, first);
        s[r][1] = cut_mul(x, second);
    }
    for (i64 k = 1; k < count; k++) {
        const floats left = load_right(b, k, 0, o), right = load_right(b, k, LANES, o);
        EACH_ROW(rows) {
            const floats x = spread_float(a[r * LEFT_FLOATS + k]);
            s[r][0] = cut_fma(x, left, s[r][0]);
            s[r][1] = cut_fma(x, right, s[r][1]);
        }
    }
    EACH_ROW(rows) EACH_VECTOR(2) {
        if (count < NE_BLOCK) s[r][c] = cut_add(s[r][c], spread_float(0));
        acc[r][c] = cut_add(acc[r][c], s[r][c]);
    }
}

/* As add_block, `num` whole blocks at once: of few rows each chain by itself would wait for its last step. Their sums join in order. */
#define MOST_BLOCKS 4
#define EACH_BLOCK(num) _Pragma("GCC unroll 4") for (int i = 0; i < (num); i++)
INLINED void add_blocks(floats acc[][2], const float *a, const float *b, const int num, const int rows, const int vectors, const struct operands o) {
    floats s[MOST_BLOCKS][4][2];
    EACH_BLOCK(num) EACH_VECTOR(vectors) {
        const floats first = load_right(b, i * NE_BLOCK, c * LANES, o);
        EACH_ROW(rows) s[i][r][c] = cut_mul(spread_float(a[r * LEFT_FLOATS + i * NE_BLOCK]), first);
    }
    for (i64 k = 1; k < NE_BLOCK; k++)
        EACH_BLOCK(num) EACH_VECTOR(vectors) {
            const floats next = load_right(b, i * NE_BLOCK + k, c * LANES, o);
            EACH_ROW(rows) s[i][r][c] = cut_fma(spread_float(a[r * LEFT_FLOATS + i * NE_BLOCK + k]), next, s[i][r][c]);
        }
    EACH_BLOCK(num) EACH_ROW(rows) EACH_VECTOR(vectors) acc[r][c] = cut_add(acc[r][c], s[i][r][c]);
}

INLINED void add_tile(const struct strip *t, const float *a, const float *b, i64 k, const int rows, struct operands o) {
    floats acc[MOST_TILE_ROWS][2];
    EACH_ROW(rows) EACH_VECTOR(2) acc[r][c] = begin_sums(t, r, c);
    prefetch_sums(t, 2);
    if (rows <= 2) {
        const int num = MOST_BLOCKS / rows;
        for (; k >= num * NE_BLOCK; k -= num * NE_BLOCK, a += num * NE_BLOCK, b += num * NE_BLOCK * o.right_stride)
            add_blocks(acc, a, b, num, rows, 2, o);
    }
    for (; k >= NE_BLOCK; k -= NE_BLOCK, a += NE_BLOCK, b += NE_BLOCK * o.right_stride) {
        add_block(acc, a, b, NE_BLOCK, rows, o);
        o.packed += NE_BLOCK * TILE_COLUMNS, o.ahead += NE_BLOCK * o.ahead_stride;
    }
    if (k) add_block(acc, a, b, k, rows, o);
    EACH_ROW(rows) EACH_VECTOR(2) keep_sums(t, r, c, acc[r][c]);
}

#define ADD_PACKED(rest, a, rows) add_tile(rest, a, b, k, rows, ALL_PACKED)
#define ADD_PLACED(rest, a, rows) add_tile(rest, a, b, k, rows, IS_PLACED(rest))
static APART void add_tiles(const struct strip *strip, const float *a, const float *b, i64 k) { EACH_TILE(strip, a, LEFT_FLOATS, ADD_PACKED); }
static APART void add_placed_tiles(const struct strip *strip, const float *a, const float *b, i64 k) {
    struct strip some = *strip;
    for (; MOST_TILE_ROWS > TILE_ROWS && some.rows >= MOST_TILE_ROWS; leave_rows(&some, MOST_TILE_ROWS), a += MOST_TILE_ROWS * LEFT_FLOATS)
        ADD_PLACED(&some, a, MOST_TILE_ROWS);
    strip = &some;
    EACH_TILE(strip, a, LEFT_FLOATS, ADD_PLACED);
}

/* The first tile packs the right operand while it multiplies, the second one asks for the next panel: neither waits for the other. */
static APART void add_packing_tile(const struct strip *strip, const float *a, const float *b, i64 k, float *packed) {
    add_tile(strip, a, b, k, TILE_ROWS, (struct operands){strip->right_stride, RIGHT_TO_PACK, packed, NULL, 0});
}
static APART void add_asking_tile(const struct strip *strip, const float *a, const float *b, i64 k, const float *ahead) {
    add_tile(strip, a, b, k, TILE_ROWS, (struct operands){TILE_COLUMNS, RIGHT_AHEAD, NULL, ahead, strip->right_stride});
}

/* The same of a panel's first LANES columns, in tiles twice as high. */
#define NARROW_ROWS (2 * TILE_ROWS)
#define EACH_NARROW_ROW(rows) _Pragma("GCC unroll 16") for (int r = 0; r < (rows); r++)

INLINED void add_narrow_block(floats acc[NARROW_ROWS], const float *a, const float *b, i64 count, const int rows, const struct operands o) {
    floats s[NARROW_ROWS];
    const floats first = load_right(b, 0, 0, o);
    EACH_NARROW_ROW(rows) s[r] = cut_mul(spread_float(a[r * LEFT_FLOATS]), first);
    for (i64 k = 1; k < count; k++) {
        const floats next = load_right(b, k, 0, o);
        EACH_NARROW_ROW(rows) s[r] = cut_fma(spread_float(a[r * LEFT_FLOATS + k]), next, s[r]);
    }
    EACH_NARROW_ROW(rows) {
        if (count < NE_BLOCK) s[r] = cut_add(s[r], spread_float(0));
        acc[r] = cut_add(acc[r], s[r]);
    }
}

INLINED void add_narrow_tile(const struct strip *t, const float *a, const float *b, i64 k, const int rows, const struct operands o) {
    floats acc[NARROW_ROWS];
    EACH_NARROW_ROW(rows) acc[r] = begin_sums(t, r, 0);
    if (rows <= 2) {
        floats few[2][2];
        EACH_ROW(rows) few[r][0] = acc[r];
        for (; k >= MOST_BLOCKS * NE_BLOCK; k -= MOST_BLOCKS * NE_BLOCK, a += MOST_BLOCKS * NE_BLOCK, b += MOST_BLOCKS * NE_BLOCK * o.right_stride)
            add_blocks(few, a, b, MOST_BLOCKS, rows, 1, o);
        EACH_ROW(rows) acc[r] = few[r][0];
    }
    for (; k >= NE_BLOCK; k -= NE_BLOCK, a += NE_BLOCK, b += NE_BLOCK * o.right_stride) add_narrow_block(acc, a, b, NE_BLOCK, rows, o);
    if (k) add_narrow_block(acc, a, b, k, rows, o);
    EACH_NARROW_ROW(rows) keep_sums(t, r, 0, acc[r]);
}

INLINED void add_narrow_strip(const struct strip *strip, const float *a, const float *b, i64 k, const struct operands o) {
    struct strip rest = *strip;
    for (; rest.rows >= NARROW_ROWS; leave_rows(&rest, NARROW_ROWS), a += NARROW_ROWS * LEFT_FLOATS)
        add_narrow_tile(&rest, a, b, k, NARROW_ROWS, o);
    if (rest.rows & 8) add_narrow_tile(&rest, a, b, k, 8, o), a += 8 * LEFT_FLOATS, leave_rows(&rest, 8);
    if (rest.rows & 4) add_narrow_tile(&rest, a, b, k, 4, o), a += 4 * LEFT_FLOATS, leave_rows(&rest, 4);
    if (rest.rows & 2) add_narrow_tile(&rest, a, b, k, 2, o), a += 2 * LEFT_FLOATS, leave_rows(&rest, 2);
    if (rest.rows & 1) add_narrow_tile(&rest, a, b, k, 1, o);
}
static APART void add_narrow_tiles(const struct strip *strip, const float *a, const float *b, i64 k) { add_narrow_strip(strip, a, b, k, ALL_PACKED); }
static APART void add_narrow_placed_tiles(const struct strip *strip, const float *a, const float *b, i64 k) {
    add_narrow_strip(strip, a, b, k, IS_PLACED(strip));
}

static APART void sum_floats(const struct strip *strip, const void *left, const void *right, i64 k) {
    if (!NAMES_ROUNDING) round_toward_zero();
    if (strip->columns == LANES) add_narrow_tiles(strip, left, right, k);
    else add_tiles(strip, left, right, k);
    if (!NAMES_ROUNDING) round_to_nearest();
}

static APART void sum_placed_floats(const struct strip *strip, const void *left, const void *right, i64 k) {
    if (!NAMES_ROUNDING) round_toward_zero();
    if (strip->columns == LANES) add_narrow_placed_tiles(strip, left, right, k);
    else add_placed_tiles(strip, left, right, k);
    if (!NAMES_ROUNDING) round_to_nearest();
}

static APART void sum_packing_floats(const struct strip *strip, const void *left, const void *right, i64 k, void *packed, const void *ahead) {
    struct strip rest = *strip;
    const float *a = left;
    if (!NAMES_ROUNDING) round_toward_zero();
    add_packing_tile(&rest, a, right, k, packed);
    leave_rows(&rest, TILE_ROWS), a += TILE_ROWS * LEFT_FLOATS;
    if (ahead && rest.rows >= TILE_ROWS) {
        add_asking_tile(&rest, a, packed, k, ahead);
        leave_rows(&rest, TILE_ROWS), a += TILE_ROWS * LEFT_FLOATS;
    }
    add_tiles(&rest, a, packed, k);
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
        {TILE_COLUMNS, 1, 4, LANES, 0, along_bf16, along_bf16, across_bf16, across_bf16, NULL, sum_floats, NULL, NULL},
        {TILE_COLUMNS, 1, 4, LANES, 0, along_tf32, along_tf32, across_tf32, across_tf32, NULL, sum_floats, sum_placed_floats, sum_packing_floats},
        {LANES, 1, 8, 0, 0, along_f16_wide, along_f16, across_f16_wide, across_f16, NULL, sum_doubles, NULL, NULL},
    };
    switch (fmt) {
    case FORMAT_BF16: return &kernels[0];
    case FORMAT_TF32: return &kernels[1];
    case FORMAT_FP16: return &kernels[2];
    case FORMAT_INT8: return int8_kernel();
    default: return NULL;
    }
}
