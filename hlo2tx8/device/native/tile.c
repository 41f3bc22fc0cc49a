/* A tile at work: its records in order until a barrier, the end, a fault or the deadline. Loops, branches and scalar records are run here. */
#include <stdio.h>

#include "machine.h"

#define RECORDS_PER_POLL 256
#define POLLS_PER_VECTOR 32 /* a vector record counts as so many: it may take milliseconds; one of the matrix engine as all, unless it is small */
#define FEW_PRODUCTS (1 << 16)

static i64 floor_div(i64 a, i64 b) {
    if (b == -1) return (i64)(0 - (u64)a);
    const i64 quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static int run_scalar(struct context *c, i64 *result) {
    const i64 a = operand(c, KC_MIN__A), b = operand(c, KC_MIN__B);
    switch (c->step->opcode) {
    case OP_KC_MIN: *result = a < b ? a : b; return 0;
    case OP_KC_MAX: *result = a > b ? a : b; return 0;
    case OP_KC_MUL: *result = (i64)((u64)a * (u64)b); return 0;
    case OP_KC_LESS: *result = a < b; return 0;
    default: break;
    }
    if (b == 0) return fail(c, FAULT_BAD_DESCRIPTOR, "division by zero");
    const i64 quotient = floor_div(a, b);
    *result = c->step->opcode == OP_KC_MOD ? (i64)((u64)a - (u64)quotient * (u64)b) : quotient;
    return 0;
}

static int run_wait(struct context *c) {
    const i64 engines = operand(c, KC_WAIT__ENGINES);
    if (is_engine_mask(engines)) return 0; /* whatever was issued has ended */
    return fail(c, FAULT_BAD_DESCRIPTOR, "engines = %lld is not in 0 .. %d", (long long)engines, (2 << ENGINE_KC) - 1);
}

static int run_load(struct context *c, i64 *result) {
    const u8 *const p = spm_range(c, operand(c, KC_LOAD_SCALAR__ADDRESS), 1, c->step->bytes);
    if (!p) return (int)c->tile->fault.kind;
    u64 bits = 0; /* any address is aligned enough */
    memcpy(&bits, p, (size_t)c->step->bytes);
    convert_elements(result, FORMAT_INT64, &bits, c->step->fmt == FORMAT_PRED ? FORMAT_UINT8 : c->step->fmt, 1);
    return 0;
}

/* The record after a loop's or branch's begin or end. */
static i64 begin_loop(struct context *c, i64 at) {
    struct tile *const t = c->tile;
    const i64 lo = operand(c, KC_LOOP__LO), hi = operand(c, KC_LOOP__HI), step = operand(c, KC_LOOP__STEP);
    if (step <= 0) {
        fail(c, FAULT_RUNAWAY, "loop step %lld", (long long)step);
        return -1;
    }
    if (lo >= hi) return c->step->partner + 1;
    t->loops[t->depth++] = (struct loop){at, lo, hi, step};
    set_register(t, c->record[HEADER_WORDS + KC_LOOP__RD], lo);
    return at + 1;
}

void write_place(const struct tile *t, int number, struct tx8_fault *place) {
    place->tile = number;
    place->record = t->at;
    const int outer = t->depth > MAX_COUNTERS ? t->depth - MAX_COUNTERS : 0;
    place->num_counters = t->depth - outer;
    for (int i = outer; i < t->depth; i++) place->counters[i - outer] = t->loops[i].counter;
}

static void stop_at_fault(struct tile *t, int number) {
    t->state = TILE_FAULT;
    write_place(t, number, &t->fault);
}

i64 stop_turning(const struct machine *m, struct tile *t, i64 at) {
    t->at = at;
    t->fault.kind = FAULT_RUNAWAY;
    snprintf(t->fault.detail, sizeof t->fault.detail, "more than %lld turns of loops", (long long)m->most_turns);
    stop_at_fault(t, (int)(t - m->tiles));
    return m->num_records;
}

/* Has a record taken long, for certain or maybe? */
static int is_long(const struct context *c) {
    if (c->step->form != FORM_GEMM) return c->step->form == FORM_CONV;
    const i64 sizes[] = {operand(c, NE_GEMM__ROWS), operand(c, NE_GEMM__COLUMNS), operand(c, NE_GEMM__DEPTH), operand(c, NE_GEMM__BATCH)};
    return sizes[0] * sizes[1] * sizes[2] * sizes[3] > FEW_PRODUCTS; /* in bounds, each of few bits */
}

/* Records follow each other faster if their places do not go through vectors. */
#if defined(__GNUC__) && !defined(__clang__)
#define NO_VECTORS __attribute__((optimize("no-tree-slp-vectorize")))
#else
#define NO_VECTORS
#endif

/* Until a barrier, the end, a fault or the deadline. */
NO_VECTORS void run_tile(struct machine *m, int number, int thread) {
    struct tile *const t = &m->tiles[number];
    struct context c = {.machine = m, .tile = t, .scratch = m->scratch[thread]};
    for (int polls = RECORDS_PER_POLL; t->at < m->num_records;) {
        t->at = run_scalars(m, t, t->at, &polls);
        if (t->at == m->num_records) break;
        c.record = m->code + t->at * RECORD_WORDS;
        c.step = m->steps + t->at;
        const u64 rd = c.record[HEADER_WORDS];
        i64 next = t->at + 1, value = 0;
        int fault = 0;
        switch ((enum form)c.step->form) {
        case FORM_HALT: t->state = TILE_ENDED; return;
        case FORM_BARRIER:
            if (t->at < m->final_barrier) meet_others(m, t);
            t->state = TILE_WAITING;
            return;
        case FORM_NOTHING: break;
        case FORM_WAIT: fault = run_wait(&c); break;
        case FORM_LOOP:
            next = begin_loop(&c, t->at);
            fault = next < 0;
            break;
        case FORM_END: next = end_loop(m, t, t->at); break;
        case FORM_IF: next = operand(&c, KC_IF__VALUE) ? t->at + 1 : c.step->partner + 1; break;
        case FORM_EXIT:
            if (operand(&c, KC_EXIT__VALUE)) break;
            t->depth--;
            next = c.step->partner + 1;
            break;
        case FORM_CALL: t->returns[t->num_returns++] = next; /* fall through */
        case FORM_FUNCTION: next = c.step->partner + 1; break;
        case FORM_RETURN: next = ++t->turns > m->most_turns ? stop_turning(m, t, t->at) : t->returns[--t->num_returns]; break;
        case FORM_AFFINE: run_affine(&c); break;
        case FORM_SCALAR:
            fault = run_scalar(&c, &value);
            if (!fault) set_register(t, rd, value);
            break;
        case FORM_LOAD_SCALAR:
            c.knows_deferred = 0;
            fault = run_load(&c, &value);
            if (fault) break;
            set_register(t, rd, value);
            if (m->decides) keep_decision(m, t, t->at, value);
            break;
        default:
            if (c.step->quick.is_ready && run_quick(&c)) break;
            if (is_short(&c)) {
                c.knows_deferred = 0;
                fault = m->keeps_status ? execute_kept(&c) : execute(&c);
                break;
            }
            c.knows_deferred = 1;
            if (m->keeps_status) {
                c.knows_deferred = 0;
                fault = execute_kept(&c);
                break;
            }
            if (c.step->form == FORM_RDMA && (defer_load(&c) > 0 || defer_box(&c))) break;
            if (c.step->form == FORM_WDMA && store_box(&c)) break;
            if (c.step->chain > (t->num_deferred ? 0 : 1)) { /* alone for the sake of what it reads in DDR */
                next = run_chain(&c, t->at);
                if (next > t->at) break;
                c.record = m->code + t->at * RECORD_WORDS;
                c.step = m->steps + t->at;
                next = t->at + 1;
            }
            c.knows_boxes = c.step->form == FORM_GEMM;
            c.knows_deferred = c.knows_boxes || c.step->form == FORM_REDUCE || c.step->form == FORM_UNIT || c.step->form == FORM_UNIT_LOOP;
            fault = execute(&c);
            c.knows_boxes = 0;
            polls = is_long(&c) || polls <= POLLS_PER_VECTOR ? 1 : polls - POLLS_PER_VECTOR + 1;
        }
        if (fault) {
            stop_at_fault(t, number);
            return;
        }
        t->at = next;
        if (--polls == 0) {
            const double now = seconds_now();
            if (now > m->deadline) return;
            polls = RECORDS_PER_POLL;
        }
    }
    if (t->state != TILE_FAULT) t->state = TILE_ENDED;
}
