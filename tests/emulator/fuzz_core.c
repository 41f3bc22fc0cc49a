/* Feeds random and mutated programs to the core: `fuzz_core CORPUS FIRST LAST` tries these seeds, to be built with sanitizers.
 *
 * The corpus is little-endian words: the number of programs, then of each the number of its records and the records. A program ends,
 * faults or is stopped; a sanitizer or the alarm ends the process otherwise, and the seed is printed. */
#include <stdio.h>
#include <stdlib.h>
#include <sanitizer/common_interface_defs.h>
#include <unistd.h>

#include "core.h"

#define NUM_SLOTS 3
#define MOST_SLOT_BYTES 8192
#define SPM_BYTES (1 << 16)
#define MOST_RANDOM 12
#define STOP_SECONDS 0.02
#define HANG_SECONDS 60

struct machine *tx8_create(const u64 *code, i64 num_records, const struct tx8_slot *slots, i64 num_slots, i64 spm_bytes, int tiles, int threads,
                           struct tx8_fault *fault);
int tx8_run(struct machine *m, double seconds, struct tx8_fault *fault, i64 most_turns);
void tx8_set_laws(struct machine *m, double satrelu_bound, double leakyrelu_slope);
void tx8_keep_decisions(struct machine *m, const u8 *decides, i64 most);
i64 tx8_decisions(const struct machine *m, struct decision *rows, i64 room);
void tx8_destroy(struct machine *m);

static u64 state, seed;
static u64 draw(void) {
    u64 x = state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}
static u64 below(u64 n) { return draw() % n; }
static void say_seed(void) { fprintf(stderr, "seed %llu\n", (unsigned long long)seed); }

static u64 edge(void) {
    static const u64 edges[] = {0, 1, 2, 3, 63, 64, 65, 255, 256, 4095, 8192, 65535, 65536, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 62, INT64_MAX};
    const u64 value = edges[below(sizeof edges / sizeof *edges)];
    return below(3) ? value : 0 - value;
}

static void damage(u64 *code, i64 n) {
    for (u64 k = 1 + below(4); k; k--) {
        u64 *const word = code + below((u64)n) * RECORD_WORDS + (below(5) < 3 ? below(12) : below(RECORD_WORDS));
        switch (below(5)) {
        case 0: *word = edge(); break;
        case 1: *word ^= UINT64_C(1) << below(64); break;
        case 2: *word = draw(); break;
        case 3: *word = code[below((u64)n * RECORD_WORDS)]; break;
        default: {
            u64 record[RECORD_WORDS], *const a = code + below((u64)n) * RECORD_WORDS, *const b = code + below((u64)n) * RECORD_WORDS;
            memcpy(record, a, sizeof record), memmove(a, b, sizeof record), memcpy(b, record, sizeof record);
        }
        }
    }
}

static void fill(u64 *code, i64 n) {
    const int is_plausible = below(3) > 0;
    for (i64 i = 0; i < n * RECORD_WORDS; i++) code[i] = below(2) ? edge() : below(4) ? below(4096) : draw();
    for (i64 i = 0; is_plausible && i < n; i++) code[i * RECORD_WORDS] = below(NUM_OPCODES + 1) | below(17) << 16 | below(17) << 24 | (below(8) ? 0 : below(5)) << 32;
    for (i64 i = 0; is_plausible && i < n; i++) code[i * RECORD_WORDS + 1] = below(4) ? 0 : below(1 << 12);
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    FILE *const file = fopen(arguments[1], "rb");
    u64 num = 0, counts[8] = {0};
    if (!file || fread(&num, 8, 1, file) != 1) return 2;
    u64 **const corpus = calloc(num, sizeof *corpus), *const sizes = calloc(num, sizeof *sizes);
    for (u64 i = 0; i < num; i++) {
        if (fread(sizes + i, 8, 1, file) != 1) return 2;
        corpus[i] = malloc(sizes[i] * RECORD_WORDS * 8);
        if (fread(corpus[i], RECORD_WORDS * 8, sizes[i], file) != sizes[i]) return 2;
    }
    fclose(file);
    __sanitizer_set_death_callback(say_seed);
    const u64 last = strtoull(arguments[3], NULL, 10);
    for (seed = strtoull(arguments[2], NULL, 10); seed < last; seed++) {
        state = seed * 0x10001 + 1;
        const int is_random = below(5) == 0;
        const u64 pick = below(num);
        const i64 n = is_random ? 1 + (i64)below(MOST_RANDOM) : (i64)sizes[pick];
        u64 *const code = malloc((size_t)n * RECORD_WORDS * 8); /* of its exact size, as the slots are */
        if (is_random) fill(code, n);
        else memcpy(code, corpus[pick], (size_t)n * RECORD_WORDS * 8), damage(code, n);
        struct tx8_slot slots[NUM_SLOTS];
        for (int i = 0; i < NUM_SLOTS; i++) {
            slots[i].size = below(4) ? MOST_SLOT_BYTES : (i64)below(MOST_SLOT_BYTES);
            slots[i].data = malloc((size_t)slots[i].size + !slots[i].size);
            for (i64 k = 0; k < slots[i].size; k++) slots[i].data[k] = (u8)(k * 37 + (i64)seed);
        }
        struct tx8_fault fault;
        alarm(HANG_SECONDS);
        struct machine *const m = tx8_create(code, n, slots, NUM_SLOTS, SPM_BYTES, 2, below(16) ? 1 : 2, &fault);
        if (m) tx8_set_laws(m, below(2) ? 6.0 : NAN, 0.125);
        u8 *const decides = malloc((size_t)n);
        for (i64 k = 0; k < n; k++) decides[k] = (u8)below(2);
        if (m && below(2)) tx8_keep_decisions(m, decides, (i64)below(100));
        const int outcome = m ? tx8_run(m, STOP_SECONDS, &fault, 0) : 2;
        counts[outcome == 0 ? 7 : outcome == 1 ? 0 : fault.kind < 7 ? fault.kind : 6]++;
        const i64 num_rows = m ? tx8_decisions(m, NULL, 0) : 0;
        struct decision *const rows = malloc((size_t)num_rows * sizeof *rows + 1);
        if (m) tx8_decisions(m, rows, num_rows);
        free(rows);
        tx8_destroy(m);
        free(decides);
        alarm(0);
        for (int i = 0; i < NUM_SLOTS; i++) free(slots[i].data);
        free(code);
    }
    for (u64 i = 0; i < num; i++) free(corpus[i]);
    free(corpus), free(sizes);
    static const char *const names[] = {"stopped", "illegal opcode", "out of bounds", "bad descriptor", "unequal barrier", "runaway", "unpublished", "ends"};
    for (int i = 0; i < 8; i++) printf("%s%s %llu", i ? ", " : "", names[i], (unsigned long long)counts[i]);
    printf("\n");
    return 0;
}
