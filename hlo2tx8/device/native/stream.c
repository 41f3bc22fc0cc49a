/* Instructions one by one: each tile has some records of the machine's code to itself, which are made ready and run whenever they are full, or
 * somebody waits. What the core puts off stays put off from one time to the next. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "machine.h"
#include "stream.h"

#define ROWS (STREAM_RECORDS + 1) /* and one behind them, at which a tile stops */
#define NUM_HEADS 64

static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER; /* of functions, which are made when a record first needs one */

static i64 first_of(int tile) { return (i64)tile * ROWS; }

static int is_slot_written(const struct machine *m, const u64 *record) {
    const u64 slot = record[HEADER_WORDS + WDMA__SLOT];
    return slot >= (u64)m->num_slots || m->stores[slot]; /* one that is none faults when it runs */
}

EXPORTED struct machine *tx8_stream_create(const struct tx8_slot *slots, const u8 *is_written, i64 num_slots, i64 spm_bytes, int tiles, int threads,
                                           int is_linked) {
    struct tx8_fault fault;
    const i64 num = (i64)tiles * ROWS;
    u64 *const code = tiles > 0 && tiles <= MAX_TILES ? calloc((size_t)num, RECORD_WORDS * sizeof *code) : NULL;
    for (i64 i = 0; code && i < num; i++) code[i * RECORD_WORDS] = OP_KC_HALT;
    struct machine *const m = code ? tx8_create(code, num, slots, num_slots, spm_bytes, tiles, threads, &fault) : NULL;
    struct step *const heads = m ? calloc((size_t)tiles * NUM_HEADS, sizeof *heads) : NULL;
    if (!heads) {
        tx8_destroy(m);
        free(code);
        return NULL;
    }
    memcpy(m->stores, is_written, (size_t)num_slots);
    m->heads = heads, m->own_code = code, m->is_linked = is_linked;
    m->deadline = INFINITY, m->most_turns = INT64_MAX;
    return m;
}

EXPORTED u64 *tx8_stream_records(struct machine *m, int tile) { return m->own_code + first_of(tile) * RECORD_WORDS; }

EXPORTED void tx8_stream_begin(struct machine *m, int tile) {
    struct tile *const t = m->tiles + tile;
    const i64 used = t->used > t->remote_used ? t->used : t->remote_used, unused = t->remote_used ? 0 : t->unused;
    if (t->spm && used > unused) memset(t->spm + unused, 0, (size_t)(used - unused));
    memset(t, 0, offsetof(struct tile, loops));
    t->spm = m->spm + tile * spm_stride(m);
    t->unused = m->spm_bytes, t->registers[1] = tile;
}

/* The record by itself, as the last one of the tile with such a first word was. */
static int make_ready(struct machine *m, int tile, i64 i, struct tx8_fault *fault) {
    const u64 *const record = m->code + i * RECORD_WORDS;
    struct step *const known = m->heads + (i64)tile * NUM_HEADS + (record[0] ^ record[0] >> 17) % NUM_HEADS, *const s = m->steps + i;
    const int is_known = known->fact && known->opcode == (u16)record[0] && known->fmt == (u8)(record[0] >> 16) && known->fmt2 == (u8)(record[0] >> 24) &&
                         known->rounding == (u8)(record[0] >> 32);
    int refused = 0;
    if (is_known) {
        *s = *known;
    } else {
        memset(s, 0, sizeof *s);
        pthread_mutex_lock(&tables);
        refused = prepare_step(m, i, fault);
        pthread_mutex_unlock(&tables);
        if (refused) return refused;
        *known = *s;
    }
    const char *const why = record[1] || s->form < FORM_NOTHING ? "a register, or a block, in a stream"
                            : s->form == FORM_WDMA && !is_slot_written(m, record) ? "it stores to a slot that nobody writes"
                            : !m->is_linked && (s->form == FORM_REMOTE_SEND || s->form == FORM_REMOTE_GATHER) ? "tiles do not reach each other" : NULL;
    if (!why) return 0;
    *fault = (struct tx8_fault){.kind = FAULT_BAD_DESCRIPTOR, .tile = tile, .record = i};
    strcpy(fault->detail, why);
    return FAULT_BAD_DESCRIPTOR;
}

EXPORTED int tx8_stream_run(struct machine *m, int tile, int thread, i64 num, int is_at_barrier, struct tx8_fault *fault) {
    struct tile *const t = m->tiles + tile;
    const i64 first = first_of(tile), end = first + num;
    for (i64 i = first; i < end; i++) {
        const int refused = make_ready(m, tile, i, fault);
        if (refused) {
            fault->tile = tile, fault->record -= first;
            return refused;
        }
    }
    memset(m->steps + end, 0, sizeof *m->steps);
    m->steps[end].form = FORM_HALT;
    find_chains(m, first, end);
    t->at = first, t->state = TILE_RUNNING;
    run_tile(m, tile, thread);
    if (is_at_barrier) meet_others(m, t);
    finish_streams();
    if (t->state != TILE_FAULT) return 0;
    *fault = t->fault;
    fault->record -= first;
    return (int)fault->kind;
}

EXPORTED i64 tx8_stream_loaded(const struct machine *m, int tile) { return m->tiles[tile].registers[STREAM_REGISTER]; }
