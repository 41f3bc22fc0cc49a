/* Moves: strided copies, selection, indexed access. Elements are opaque. */
#include <stdlib.h>

#include "moves.h"

#if defined(__SSE2__)
#include <immintrin.h>
static inline void stream_line(u8 *dst, const u8 *src) {
#if defined(__AVX512F__)
    if (((uintptr_t)dst & 63) == 0) {
        _mm512_stream_si512((void *)dst, _mm512_loadu_si512((const void *)src));
        return;
    }
#endif
    for (int i = 0; i < LINE_BYTES; i += 16) {
        _mm_stream_si128((__m128i *)(void *)(dst + i), _mm_loadu_si128((const __m128i *)(const void *)(src + i)));
    }
}
void copy_streamed(u8 *dst, const u8 *src, i64 n) {
    const i64 head = (i64)(-(uintptr_t)dst & 63);
    if (n < 256) {
        memcpy(dst, src, (size_t)n);
        return;
    }
    memcpy(dst, src, (size_t)head);
    i64 i = head;
    for (; i + LINE_BYTES <= n; i += LINE_BYTES) stream_line(dst + i, src + i);
    memcpy(dst + i, src + i, (size_t)(n - i));
}
void finish_streams(void) { _mm_sfence(); }
#else
static void stream_line(u8 *dst, const u8 *src) { memcpy(dst, src, 64); }
void copy_streamed(u8 *dst, const u8 *src, i64 n) { memcpy(dst, src, (size_t)n); }
void finish_streams(void) {}
#endif

/* One level of single elements. Unaligned: the addresses are any. */
#define LINE(bytes, T) \
    static void line_##bytes(u8 *restrict dst, const u8 *restrict src, i64 n, i64 d, i64 s) { \
        for (i64 i = 0; i < n; i++) { \
            T x; \
            memcpy(&x, src + i * s, sizeof x); \
            memcpy(dst + i * d, &x, sizeof x); \
        } \
    } \
    static void dense_##bytes(u8 *restrict dst, const u8 *restrict src, i64 n, i64 s) { \
        for (i64 i = 0; i < n; i++) { \
            T x; \
            memcpy(&x, src + i * s, sizeof x); \
            memcpy(dst + i * (i64)sizeof x, &x, sizeof x); \
        } \
    }
WIDTHS(LINE)

/* Runs too short for a call each: the compiler must not make it one. */
#define SHORTEST_RUN 32
#define LONGEST_RUN 4096
#define AHEAD_BYTES 1024
#if defined(__GNUC__) && !defined(__clang__)
#define NO_CALLS __attribute__((optimize("no-tree-loop-distribute-patterns")))
#else
#define NO_CALLS
#endif
typedef u8 line __attribute__((vector_size(LINE_BYTES), aligned(1)));
typedef u8 half_line __attribute__((vector_size(LINE_BYTES / 2), aligned(1)));

/* The last piece of a run may overlap the one before. On a side where runs are apart the host does not see which lines come next. */
static inline __attribute__((always_inline)) void copy_these(u8 *restrict dst, const u8 *restrict src, const i64 run, i64 n, i64 d, i64 s) {
    const i64 ahead = AHEAD_BYTES / run + 1;
    for (i64 i = 0; i < n; i++) {
        u8 *const to = dst + i * d;
        const u8 *const from = src + i * s;
        if (i + ahead < n) {
            for (i64 at = 0; s != run && at < run; at += LINE_BYTES) __builtin_prefetch(from + ahead * s + at);
            for (i64 at = 0; d != run && at < run; at += LINE_BYTES) __builtin_prefetch(to + ahead * d + at, 1);
        }
        if (run < LINE_BYTES) {
            *(half_line *)to = *(const half_line *)from;
            *(half_line *)(to + run - LINE_BYTES / 2) = *(const half_line *)(from + run - LINE_BYTES / 2);
            continue;
        }
        for (i64 at = 0; at + LINE_BYTES <= run; at += LINE_BYTES) *(line *)(to + at) = *(const line *)(from + at);
        if (run % LINE_BYTES) *(line *)(to + run - LINE_BYTES) = *(const line *)(from + run - LINE_BYTES);
    }
}

/* Most runs are a block of channels. */
NO_CALLS static void copy_runs(u8 *restrict dst, const u8 *restrict src, i64 run, i64 n, i64 d, i64 s) {
    switch (run) {
    case 64: copy_these(dst, src, 64, n, d, s); return;
    case 128: copy_these(dst, src, 128, n, d, s); return;
    case 256: copy_these(dst, src, 256, n, d, s); return;
    default: copy_these(dst, src, run, n, d, s);
    }
}

/* One element to many neighbours. */
#define FILL(bytes, T) \
    static void fill_##bytes(u8 *restrict dst, const u8 *restrict src, i64 n) { \
        T x; \
        memcpy(&x, src, sizeof x); \
        for (i64 i = 0; i < n; i++) memcpy(dst + i * (i64)sizeof x, &x, sizeof x); \
    }
WIDTHS(FILL)

static void copy_line(u8 *dst, const u8 *src, i64 run, i64 n, i64 d, i64 s) {
    if (run >= SHORTEST_RUN && run <= LONGEST_RUN) {
        copy_runs(dst, src, run, n, d, s);
        return;
    }
#define CASE(bytes, T) \
    case bytes: \
        if (d == bytes && s == 0) fill_##bytes(dst, src, n); \
        else if (d == bytes) dense_##bytes(dst, src, n, s); \
        else line_##bytes(dst, src, n, d, s); \
        return;
    switch (run) {
        WIDTHS(CASE)
#undef CASE
    default:
        for (i64 i = 0; i < n; i++) memcpy(dst + i * d, src + i * s, (size_t)run);
    }
}

/* The bytes of one turn of the last level if all turns copy the same bytes and lie densely behind each other; 0 if they do not. */
static i64 repeated_bytes(i64 run, const struct level *levels, int num) {
    if (levels[num - 1].src) return 0;
    for (int i = 0; i < num; run *= levels[i++].n)
        if (levels[i].dst != run) return 0;
    return levels[num - 1].dst;
}

#define REPEATED_BYTES 16384 /* at once, out of the first cache */
/* The first `bytes` at dst over and over, up to `total`. */
static void repeat_bytes(u8 *dst, i64 bytes, i64 total) {
    const i64 most = bytes < REPEATED_BYTES ? REPEATED_BYTES / bytes * bytes : bytes;
    for (i64 done = bytes, some; done < total; done += some) {
        some = done < most ? done : most;
        if (some > total - done) some = total - done;
        memcpy(dst + done, dst, (size_t)some);
    }
}

void copy_nest(u8 *dst, const u8 *src, i64 run, const struct level *levels, int num) {
    const i64 repeated = num > 1 ? repeated_bytes(run, levels, num) : 0;
    if (num == 0) {
        memcpy(dst, src, (size_t)run);
    } else if (num == 1) {
        copy_line(dst, src, run, levels[0].n, levels[0].dst, levels[0].src);
    } else if (repeated) {
        copy_nest(dst, src, run, levels, num - 1);
        repeat_bytes(dst, repeated, repeated * levels[num - 1].n);
    } else if (num > 2 || !transpose_elements(dst, src, run, levels[0], levels[1])) {
        const struct level top = levels[num - 1];
        if (num == 2 && run == sizeof(u32) && levels[0].src == 0 && levels[0].dst == run) { /* a word for each row */
            for (i64 i = 0; i < top.n; i++) fill_4(dst + i * top.dst, src + i * top.src, levels[0].n);
            return;
        }
        for (i64 i = 0; i < top.n; i++) copy_nest(dst + i * top.dst, src + i * top.src, run, levels, num - 1);
    }
}

static void stream_nest(u8 *dst, const u8 *src, i64 run, const struct level *levels, int num) {
    if (num == 0) {
        for (i64 at = 0; at < run; at += LINE_BYTES) stream_line(dst + at, src + at);
        return;
    }
    const struct level top = levels[num - 1];
    for (i64 i = 0; i < top.n; i++) stream_nest(dst + i * top.dst, src + i * top.src, run, levels, num - 1);
}

/* Whole lines to places that streaming stores can reach. */
static int is_streamable(const u8 *dst, i64 run, const struct level *levels, int num) {
    u64 places = (u64)(uintptr_t)dst;
    for (int i = 0; i < num; i++) places |= (u64)levels[i].dst;
    return places % 16 == 0 && run % LINE_BYTES == 0;
}

static int by_src(const void *a, const void *b) {
    const struct level *const p = a, *const q = b;
    return (p->src > q->src) - (p->src < q->src);
}

static int by_dst(const void *a, const void *b) {
    const struct level *const p = a, *const q = b;
    return (p->dst > q->dst) - (p->dst < q->dst);
}

int fold_levels(i64 *length, struct level *levels, int num) {
    i64 run = *length;
    int kept = 0;
    for (int i = 0; i < num; i++) {
        if (levels[i].n == 1) continue;
        if (kept == 0 && levels[i].dst == run && levels[i].src == run) {
            run *= levels[i].n;
            continue;
        }
        struct level *const below = kept ? &levels[kept - 1] : NULL;
        if (below && levels[i].dst == below->n * below->dst && levels[i].src == below->n * below->src) {
            below->n *= levels[i].n;
            continue;
        }
        levels[kept++] = levels[i];
    }
    *length = run;
    return kept;
}

void copy_levels(u8 *dst, const u8 *src, i64 run, struct level *levels, int num) {
    num = fold_levels(&run, levels, num);
    copy_nest(dst, src, run, levels, num);
}

/* Long runs in the order in which they lie in DDR. */
void load_levels(u8 *dst, const u8 *src, i64 run, struct level *levels, int num) {
    num = fold_levels(&run, levels, num);
    if (run >= LINE_BYTES) qsort(levels, (size_t)num, sizeof *levels, by_src);
    copy_nest(dst, src, run, levels, num);
}

/* The same to DDR, unless runs overlap: then the last one of them stays. */
void store_levels(u8 *dst, const u8 *src, i64 run, struct level *levels, int num, int is_streamed) {
    num = fold_levels(&run, levels, num);
    struct level sorted[8];
    memcpy(sorted, levels, sizeof *levels * (size_t)num);
    qsort(sorted, (size_t)num, sizeof *sorted, by_dst);
    i64 extent = run;
    int is_apart = run >= LINE_BYTES;
    for (int i = 0; i < num; i++) {
        is_apart &= sorted[i].dst >= extent;
        extent = sorted[i].dst * sorted[i].n;
    }
    if (!is_apart) copy_nest(dst, src, run, levels, num);
    else if (is_streamed && is_streamable(dst, run, sorted, num)) stream_nest(dst, src, run, sorted, num);
    else copy_nest(dst, src, run, sorted, num);
}

void select_elements(u8 *dst, const u8 *pred, const u8 *a, const u8 *b, int bytes, i64 n) {
#define CASE(size, T) \
    case size: { \
        T *d = (T *)(void *)dst; \
        const T *p = (const T *)(const void *)a, *q = (const T *)(const void *)b; \
        INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = pred[i] ? p[i] : q[i]; \
        return; \
    }
    switch (bytes) {
        CASE(1, u8)
        CASE(2, u16)
        CASE(4, u32)
        CASE(8, u64)
        CASE(16, u128)
    default: return;
    }
#undef CASE
}

void move_masked(u8 *dst, const u8 *src, const u8 *mask, int bytes, i64 n) {
#define CASE(size, T) \
    case size: { \
        T *d = (T *)(void *)dst; \
        const T *p = (const T *)(const void *)src, *m = (const T *)(const void *)mask; \
        INDEPENDENT for (i64 i = 0; i < n; i++) d[i] = (T)(m[i] << 1) ? p[i] : d[i]; \
        return; \
    }
    switch (bytes) {
        CASE(2, u16)
        CASE(4, u32)
    default: return;
    }
#undef CASE
}

void gather_elements(u8 *dst, const u8 *src, const i32 *index, int bytes, i64 n) {
#define CASE(size, T) \
    case size: { \
        for (i64 i = 0; i < n; i++) memcpy(dst + i * size, src + (i64)index[i] * size, size); \
        return; \
    }
    switch (bytes) {
        WIDTHS(CASE)
    default: return;
    }
}

void scatter_elements(u8 *dst, const u8 *src, const i32 *index, int bytes, i64 n) {
    for (i64 i = 0; i < n; i++) memcpy(dst + (i64)index[i] * bytes, src + i * bytes, (size_t)bytes);
}
